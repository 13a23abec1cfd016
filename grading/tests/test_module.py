"""Modules as the harness reads them: they have the loader's addresses, and they make the calls that
the harness computes."""

from __future__ import annotations

import re
import tempfile
import unittest
from pathlib import Path

from grading.elf.elf import Kernel
from qemu.isa import ARM64, RISCV64, Isa
from grading.elf.link import PAGE
from grading.elf.module import Module
from grading.machine.machine import Run
from grading.session.module_session import modules, scheduled
from grading.session.session import machine_of
from grading.stimulus import seeded
from grading.tests.mutants import SEED, build
from qemu.machine import ARCHES, ROOT

BASE = 0xFFFFFFFF90001000
LAB = 7
Words = tuple[int, int, int]
# auipc t1, 1; jalr x0, -16(t1); ebreak. adrp x16, one page ahead; add x16, x16, #16; br x16.
MADE: list[tuple[Isa, Words,
                 int]] = [(RISCV64, (0x00001317, 0xFF030067, 0x00100073), BASE + 0x1000 - 16),
                          (ARM64, (0xB0000010, 0x91004210, 0xD61F0200), BASE + 0x1000 + 16)]


class Trampolines(unittest.TestCase):
    def test_one_is_followed(self) -> None:
        for isa, words, target in MADE:
            self.assertEqual(isa.trampoline(BASE, words), target)

    def test_the_one_that_leads_to_an_address(self) -> None:
        for isa, words, target in MADE:
            self.assertEqual(isa.trampoline_to(BASE, target), words)
            for far in range(-(1 << 30), 1 << 30, 0x1234568):
                self.assertEqual(isa.trampoline(BASE, isa.trampoline_to(BASE, BASE + far)),
                                 BASE + far)

    def test_other_words_are_none(self) -> None:
        for isa, words, _ in MADE:
            self.assertIsNone(isa.trampoline(BASE, (isa.nop, *words[1:])))
            self.assertIsNone(isa.trampoline(BASE, (words[0], isa.nop, words[2])))
            self.assertIsNone(isa.trampoline(BASE, (words[0], words[1], isa.nop)))

    def test_one_with_another_bit_is_none_or_leads_elsewhere(self) -> None:
        for isa, words, target in MADE:
            for n in range(3):
                for bit in range(32):
                    self.assertNotEqual(isa.trampoline(BASE, isa.flipped(n, bit)(words)), target)

    def test_one_that_leads_aside_is_near_the_target_and_not_there(self) -> None:
        for isa, words, target in MADE:
            led = isa.trampoline(BASE, isa.aside(12)(words))
            self.assertIn(led, (target - 12, target + 12))
            # as far ahead as the low part can lead
            low = words[1] | (0x7FF00000 if isa is RISCV64 else 0xFFF << 10)
            last = (words[0], low & (0x7FFFFFFF if isa is RISCV64 else ~0), words[2])
            ahead, back = isa.trampoline(BASE, last), isa.trampoline(BASE, isa.aside(12)(last))
            assert ahead is not None
            self.assertEqual(back, ahead - 12)


def text_of(run: Run, module: Module) -> bytes:
    pages = (next(iter(run.mapped(at).values())) for at in range(module.base, module.end, PAGE))
    return b"".join(run.memory(page, PAGE) for page in pages)


class ComparedWithTheLoader(unittest.TestCase):
    logs: Path

    @classmethod
    def setUpClass(cls) -> None:
        build(LAB)
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.logs = Path(folder.name)

    def test_addresses_and_calls_are_those_of_the_kernel(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                kernel = Kernel(ROOT / f"build/{arch}/lab{LAB}/callsite.elf", arch)
                near, far, *_ = modules(kernel, SEED)
                with Run(machine_of(kernel, LAB, 1), self.logs / f"{arch}.log") as run:
                    run.console.wait_ready(60)
                    for module in (near, far):
                        self.assertEqual(
                            run.console.command(f"insmod {module.name} at={module.base:#x}"), "")
                        self.assertEqual(text_of(run, module), module.text, module.name)
                        self.is_as_listed(run, module.name,
                                          {f.name.split(" ")[0]: f.start
                                           for f in module.functions}, module.room)
                        work = seeded.SeededRun(module, SEED)
                        self.assertIn(seeded.expect(work).line, run.console.command(work.command))
                    run.power_off()

    def is_as_listed(self, run: Run, module: str, functions: dict[str, int], room: int) -> None:
        listed = run.console.command("cat /proc/kallsyms", 60)
        found = {
            name: int(at, 16)
            for at, name in re.findall(rf"^([0-9a-f]+) t (\w+)\t\[{module}\]$", listed, re.M)
        }
        self.assertEqual(found.pop(f"ftrace_island_{module}"), room)
        # of the parts without a name of the module's the compiler may make what it wants
        for name in ("next", "mix", "grow"):
            found.pop(name, None)
        self.assertEqual({n: a
                          for n, a in found.items() if n.startswith(f"{module}_")},
                         {n: a
                          for n, a in functions.items() if n.startswith(f"{module}_")})

    def test_modules_of_the_schedules_are_apart_from_the_others(self) -> None:
        for arch in ARCHES:
            kernel = Kernel(ROOT / f"build/{arch}/lab{LAB}/callsite.elf", arch)
            [fixed] = scheduled(kernel)
            for seed in range(200):
                near, far, *_ = placed = modules(kernel, seed)
                self.assertEqual((near.base ^ far.base) & 4096, 4096, f"seed {seed}")
                for module in placed:
                    self.assertTrue(module.end <= fixed.base or module.base >= fixed.end + 4096,
                                    f"seed {seed}")


if __name__ == "__main__":
    unittest.main()

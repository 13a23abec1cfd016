"""The grader is graded: kernels with one deliberate mistake lose the rung that speaks of it.

Each is the real kernel of lab 4 with a few words of its text overwritten, in
the ELF file and in the image alike: what the harness reads is what runs.
"""

from __future__ import annotations

import subprocess
import unittest
from collections.abc import Callable
from pathlib import Path

from grading import report
from grading.elf import Kernel
from grading.session import Session
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
RETURN_0 = {"riscv64": [0x00000513, 0x00008067], "arm64": [0x52800000, 0xD65F03C0]}
NOP = {"riscv64": [0x00000013], "arm64": [0xD503201F]}
# In ftrace_caller: the load that gives the second argument back.
LOADS_ARGUMENT = {"riscv64": 0x00813583, "arm64": 0xA94007E0}

Mistake = Callable[[Kernel], tuple[int, list[int]]]  # where, and what is written there


def returns_at_once(name: str) -> Mistake:
    return lambda kernel: (kernel.symbol(name), RETURN_0[kernel.arch])


def forgets_an_argument(kernel: Kernel) -> tuple[int, list[int]]:
    lo, hi = kernel.extent("ftrace_caller")
    at = next(a for a in range(lo, hi, 4) if kernel.word(a) == LOADS_ARGUMENT[kernel.arch])
    return at, NOP[kernel.arch]


def build() -> None:
    subprocess.run(["make", "-s", "-C", str(ROOT), "LAB=4", *(f"build/{a}/lab4/Image" for a in ARCHES)], check=True)


def wrong_kernel(arch: str, name: str, mistake: Mistake) -> Kernel:
    """The kernel of lab 4 with the mistake written into it."""
    right = ROOT / f"build/{arch}/lab4"
    out = ROOT / f"build/tests/wrong/{arch}-{name}"
    out.mkdir(parents=True, exist_ok=True)
    kernel = Kernel(right / "callsite.elf", arch)
    address, words = mistake(kernel)
    data = b"".join(w.to_bytes(4, "little") for w in words)
    offset = address - kernel.text[0]
    text = kernel.text_bytes()
    for file in ("callsite.elf", "Image"):
        content = bytearray((right / file).read_bytes())
        at = content.index(text) + offset
        content[at:at + len(data)] = data
        (out / file).write_bytes(content)
    return Kernel(out / "callsite.elf", arch)


def grade(arch: str, name: str, mistake: Mistake, smp: int) -> report.Grade:
    kernel = wrong_kernel(arch, name, mistake)
    log = ROOT / f"build/tests/wrong/{arch}-{name}.log"
    return report.judge(arch, 4, SEED, [Session(kernel, 4, smp, SEED, log, []).run()])


class Wrong(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        build()

    def loses(self, name: str, mistake: Mistake, rungs: set[str], smp: int = 1) -> None:
        """These rungs are lost, by a finding and not by an accident of the harness."""
        for arch in ARCHES:
            with self.subTest(arch=arch):
                graded = grade(arch, name, mistake, smp)
                self.assertIsNone(graded.harness_error)
                lost = {r.rung.name for r in graded.results if not r.reached}
                self.assertTrue(rungs <= lost, f"lost {lost}, must lose {rungs}")
                self.assertLess(graded.points, graded.possible)

    def test_the_right_kernel_loses_nothing(self) -> None:
        for arch in ARCHES:
            graded = grade(arch, "right", lambda kernel: (kernel.text[0], []), 1)
            self.assertEqual([f.why for r in graded.results for f in r.findings.values() if f], [])

    def test_no_synchronisation(self) -> None:
        self.loses("no-sync", returns_at_once("arch_sync_all"), {"synchronised"}, smp=2)

    def test_sites_that_are_not_written(self) -> None:
        self.loses("no-call", returns_at_once("ftrace_make_call"), {"calls", "filter", "one CPU", "synchronised"})

    def test_sites_that_are_not_restored(self) -> None:
        self.loses("no-nop", returns_at_once("ftrace_make_nop"), {"restored"})

    def test_events_that_are_not_recorded(self) -> None:
        self.loses("no-event", returns_at_once("function_trace_call"), {"one CPU"})

    def test_an_argument_that_is_not_given_back(self) -> None:
        self.loses("argument", forgets_an_argument, {"arguments", "result"})


if __name__ == "__main__":
    unittest.main()

"""Rules of real hardware that no emulator shows: they are read out of the instructions of the built
kernel (docs/hardware.md)."""
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

from qemu.machine import ARCHES, FINISHED, ROOT

CROSS = {"riscv64": "riscv64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}
MARCH = {
    "riscv64": ["-march=rv64ima_zicsr_zifencei", "-mabi=lp64"], "arm64": ["-mgeneral-regs-only"]
}
REGISTERS = "\n".join(f"{kind} of_{name}({arguments}); {kind} of_{name}({arguments}) {{ {body}; }}"
                      for kind, name, arguments, body in (("u8", "read8", "void *at",
                                                           "return read8(at)"),
                                                          ("u32", "read32", "void *at",
                                                           "return read32(at)"),
                                                          ("void", "write8", "void *at, u8 v",
                                                           "write8(v, at)"), ("void", "write32",
                                                                              "void *at, u32 v",
                                                                              "write32(v, at)")))


class Insn(NamedTuple):
    address: int
    words: str  # the mnemonic and the operands, one space between them
    to: str  # the function that it calls or jumps to

    @property
    def name(self) -> str:
        return self.words.split()[0]


def disassembled(arch: str, file: Path) -> dict[str, list[Insn]]:
    """The instructions of each function or label."""
    plain = ["-M", "no-aliases"] if arch == "riscv64" else []
    text = subprocess.run([CROSS[arch] + "objdump", "-d", "--no-show-raw-insn", *plain,
                           str(file)], capture_output=True, text=True, check=True).stdout
    found: dict[str, list[Insn]] = {}
    for line in text.splitlines():
        if label := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            insns = found.setdefault(label[1], [])
        elif insn := re.match(r" *([0-9a-f]+):\t(.*)", line):
            to = re.search(r"<([^>+]+)>", insn[2])
            insns.append(
                Insn(int(insn[1], 16), " ".join(re.sub(r"\s+(//|# |<).*", "", insn[2]).split()),
                     to[1] if to else ""))
    return found


class OnAnArch:
    arch: str

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / FINISHED / "Image"
        subprocess.run(
            ["make", "-s", "-C",
             str(ROOT), f"ARCH={cls.arch}",
             str(image.relative_to(ROOT))], check=True)
        cls.code = disassembled(cls.arch, image.with_name("callsite.elf"))
        with tempfile.TemporaryDirectory() as name:
            source, made = Path(name, "registers.c"), Path(name, "registers.o")
            source.write_text(f'#include "arch.h"\n{REGISTERS}\n')
            subprocess.run([
                CROSS[cls.arch] + "gcc", *MARCH[cls.arch], "-std=gnu11", "-O2", "-ffreestanding",
                "-I",
                str(ROOT / "kern"), "-I",
                str(ROOT / "build" / cls.arch / "include"), "-I",
                str(image.parent), "-c", "-o",
                str(made),
                str(source)
            ], check=True)
            cls.registers = disassembled(cls.arch, made)

    def one_access(self, name: str, kind: str, fence: str, after: bool) -> None:
        """The function has one access to memory, and this fence behind or in front of it."""
        insns = self.registers[f"of_{name}"]
        places = [n for n, insn in enumerate(insns) if re.match(kind, insn.name)]
        self.assertEqual(1, len(places), insns)
        self.assertIn(fence,
                      [insn.words for insn in (insns[places[0]:] if after else insns[:places[0]])])


class Riscv64(OnAnArch, unittest.TestCase):
    arch = "riscv64"

    def test_an_access_to_a_device_is_one_instruction_with_its_fence(self) -> None:
        for bits, width in ((8, "b"), (32, "w")):
            self.one_access(f"read{bits}", f"l{width}u?$", "fence i,ir", after=True)
            self.one_access(f"write{bits}", f"s{width}$", "fence ow,o", after=False)

    def test_no_fence_of_translations_names_an_address(self) -> None:
        """SiFive's erratum CIP-1200."""
        fences = {
            insn.words
            for insns in self.code.values() for insn in insns if insn.name == "sfence.vma"
        }
        self.assertEqual({"sfence.vma zero,zero"}, fences)

    def test_paging_begins_between_two_fences(self) -> None:
        insns = [insn for name in ("enable_paging", "paging_is_on") for insn in self.code[name]]
        at = next(n for n, insn in enumerate(insns) if insn.words.startswith("csrrw zero,satp"))
        self.assertEqual("sfence.vma zero,zero", insns[at - 1].words)
        self.assertEqual("sfence.vma zero,zero", self.code["paging_is_on"][0].words)

    def test_new_entries_are_followed_by_a_fence_on_every_hart(self) -> None:
        """A hart may remember that an entry was invalid. No other hart runs when mmu_map_fdt() and
        fdt_iomap() are called."""
        mapping = {
            name: [insn.to for insn in insns]
            for name, insns in self.code.items() if "mmu_map" in [insn.to for insn in insns]
        }
        for name in ("mmu_map_fdt", "fdt_iomap"):
            mapping.pop(name)
        self.assertEqual(2, len(mapping), mapping.keys())
        for name, to in mapping.items():
            self.assertIn("arch_tlb_flush_all", to[to.index("mmu_map"):], name)

    def test_a_hart_that_starts_discards_what_it_has_fetched(self) -> None:
        for entry in ("boot_start", "secondary_start"):
            names = [insn.name for insn in self.code[entry]]
            self.assertLess(
                names.index("fence.i"),
                next(n for n, name in enumerate(names)
                     if name.startswith(("l", "amo")) and name != "lui"))

    def test_stores_come_before_the_fence_of_other_harts(self) -> None:
        for name in ("arch_sync_all", "arch_tlb_flush_all"):
            self.assertIn("sbi_fence_others", [insn.to for insn in self.code[name]])
        words, to = zip(*((insn.words, insn.to) for insn in self.code["sbi_fence_others"]))
        self.assertLess(words.index("fence iorw,iorw"), to.index("sbi_call_harts"))


class Arm64(OnAnArch, unittest.TestCase):
    arch = "arm64"

    def test_an_access_to_a_device_is_one_instruction_with_its_fence(self) -> None:
        for bits, width in ((8, "b"), (32, "")):
            self.one_access(f"read{bits}", f"ldr{width}$", "dmb oshld", after=True)
            self.one_access(f"write{bits}", f"str{width}$", "dmb oshst", after=False)

    def test_a_new_word_is_cleaned_and_then_its_old_copy_is_invalidated(self) -> None:
        cleans = 0
        for insns in self.code.values():
            for n, insn in enumerate(insns):
                if insn.words.startswith("dc cvau"):
                    cleans += 1
                    self.assertEqual("dsb ish", insns[n + 1].words)
                    self.assertTrue(insns[n + 2].words.startswith("ic ivau"), insns[n + 2])
        self.assertGreater(cleans, 3)

    def test_a_cpu_reads_no_data_before_its_caches_are_on(self) -> None:
        """Other CPUs have written data through their caches. A literal is text."""
        start = self.code["secondary_start"]
        # drop_to_el1, enable_paging
        calls = [n for n, insn in enumerate(start) if insn.name == "bl"]
        path = start[:calls[1]] + self.code["drop_to_el1"] + self.code["enable_paging"]
        accesses = [insn.words for insn in path if re.match("(ld|st)", insn.name)]
        self.assertGreater(len(accesses), 3)
        for words in accesses:
            self.assertRegex(words, r"^ldr x\d+, [0-9a-f]+$")

    def test_old_lines_of_the_early_tables_are_removed_before_and_after_they_are_written(
            self) -> None:
        """The stores go past the caches. A dirty line that is written back later would destroy
        them, and the table walker reads through the caches."""
        start = self.code["boot_start"]
        on = next(n for n, insn in enumerate(start) if insn.to == "enable_paging")
        called = [insn.to for insn in start[:on + 1] if insn.name == "bl"]
        self.assertEqual(
            ["drop_to_el1", "invalidate_tables", "map_image", "invalidate_tables", "enable_paging"],
            called)
        for insns in (start[:on], self.code["drop_to_el1"], self.code["invalidate_tables"],
                      self.code["enable_paging"]):
            self.assertEqual([], [insn for insn in insns if insn.name.startswith("st")],
                             "only map_image stores")
        words = [insn.words for insn in self.code["invalidate_tables"]]
        self.assertEqual("dmb sy", words[0], "after the stores")
        self.assertLess(words.index("dc ivac, x0"), words.index("dsb sy"))

    def test_translations_are_discarded_before_and_after_paging_begins(self) -> None:
        words = [
            insn.words for name in ("enable_paging", "paging_is_on") for insn in self.code[name]
        ]
        on = next(n for n, w in enumerate(words) if w.startswith("msr sctlr_el1"))
        before, after = words[:on], words[on:]
        for part in (before, after):
            at = part.index("tlbi vmalle1")
            self.assertEqual(["dsb nsh", "isb"],
                             [w for w in part[at + 1:at + 4] if w != "ic iallu"][:2])
        self.assertEqual("isb", after[1])
        self.assertIn("ic iallu", before, "what was fetched before")

    def test_no_adrp_that_a_cortex_a53_may_mistake(self) -> None:
        """Erratum 843419: adrp in a page's last two words; a load or store; at most one
        instruction; a load or store through adrp's register."""
        for name, insns in self.code.items():
            for n, insn in enumerate(insns):
                if insn.name != "adrp" or insn.address & 0xFFF < 0xFF8:
                    continue
                register = insn.words.split()[1].rstrip(",")
                uses = [
                    bool(re.match(rf"(ld|st)r\w* .*\[{register}(, |\])", i.words))
                    for i in insns[n + 2:n + 4]
                ]
                self.assertFalse(
                    re.match("(ld|st)", insns[n + 1].name) and any(uses),
                    f"{name}: {insns[n:n + 4]}")

    def test_no_multiply_accumulate_behind_a_load_or_store(self) -> None:
        """Cortex-A53's erratum 835769. A load whose result it uses is waited for."""
        found = 0
        for name, insns in self.code.items():
            for before, insn in zip(insns, insns[1:]):
                if not re.match(r"[us]?m(add|sub)l? x", insn.words):
                    continue
                found += 1
                loaded = re.match(r"ldu?r\w* [wx](\d+),", before.words)
                if not loaded or not re.search(rf", [wx]{loaded[1]}(,|$)", insn.words):
                    self.assertNotRegex(before.name, "^(ld|st|prfm)",
                                        f"{name}: {before.words}; {insn.words}")
        self.assertGreater(found, 10)

    def test_the_linker_makes_an_adr_of_it(self) -> None:
        flags = re.findall(r"^arch_ldflags := (.*)",
                           (ROOT / "kern/arch/arm64/flags.mk").read_text(), re.M)[0].split()
        source = (".org 0xff8\nadrp x0, word\nldr x1, [x2]\nldr x0, [x0, "
                  ":lo12:word]\nret\n.data\nword: .8byte 0\n")
        with tempfile.TemporaryDirectory() as name:
            subprocess.run([CROSS["arm64"] + "as", "-o", f"{name}/a.o", "-"], input=source,
                           text=True, check=True)
            found = []
            for options in (flags, [flag for flag in flags if "a53" not in flag]):
                subprocess.run([
                    CROSS["arm64"] + "ld", *options, "-Ttext=0x400000", "-Tdata=0x410000", "-e",
                    "0", "-o", f"{name}/a", f"{name}/a.o"
                ], check=True)
                found.append([
                    insn.name for insns in disassembled("arm64", Path(name, "a")).values()
                    for insn in insns if insn.name.startswith("adr")
                ])
        self.assertEqual([["adr"], ["adrp"]], found)


class Names(unittest.TestCase):
    def test_both_architectures_are_here(self) -> None:
        self.assertEqual(set(ARCHES), {case.arch for case in OnAnArch.__subclasses__()})


if __name__ == "__main__":
    unittest.main()

"""The rules for handed-in objects: each rule is tested with an object that breaks only this rule.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading import __main__ as program
from grading.checks import rubric
from grading.elf import handed_in
from grading.elf.elf import Kernel
from grading.elf.halves import halves
from grading.tests.mutants import build
from qemu.machine import ARCHES, ROOT

GCC = {"riscv64": "riscv64-linux-gnu-gcc", "arm64": "aarch64-linux-gnu-gcc"}
PLAIN: dict[str, list[str]] = {
    "riscv64": ["-march=rv64ima_zicsr_zifencei", "-mabi=lp64", "-mno-relax"], "arm64": []
}
SOURCE = Path("kern/ftrace/<arch>/caller.S")
GOOD = """
	.text
	.globl ftrace_stubs, ftrace_caller, ftrace_call, ftrace_stub
	.type ftrace_stub_0, %function
ftrace_stubs:
ftrace_stub_0:
	nop
	.size ftrace_stub_0, . - ftrace_stub_0
	.type ftrace_caller, %function
ftrace_caller:
	nop
ftrace_call:
	nop
	.size ftrace_caller, . - ftrace_caller
ftrace_stub:
	nop
"""
TRUSTED = '\t.text\n\t.globl schedule, open\nschedule:\nopen:\nits_own:\n\tnop\n'
RULES = {  # lines added to a good file -> the message
    "\t.set number, 5\n": "number is an absolute symbol",
    "\t.globl ftrace_stub_9\n\t.set ftrace_stub_9, 0xffffffff80000000\n":
        "ftrace_stub_9 is an absolute symbol",
    "\t.size ftrace_stub, 1 << 30\n": "ftrace_stub is not within its section",
    "\t.type late, %object\nlate:\n\t.size late, 4\n": "late is not within its section",
    "\t.globl mine\nmine:\n\tnop\n": "it defines mine for other files",
    "\t.globl ftrace_make_call\nftrace_make_call:\n\tnop\n":
        "it defines ftrace_make_call for other files",
    "\t.data\n\t.8byte wl_first\n": "it refers to wl_first, which no header of the kernel declares",
    "\t.data\n\t.8byte app_table_of\n": "it refers to app_table_of",
    "schedule:\n\tnop\n": "schedule is a name of sched.o",
    "hand_users:\n\tnop\n": "hand_users is a name that the harness looks for",
    "wl_other:\n\tnop\n": "wl_other is a name that the harness looks for",
    "wl_leaf:\n\tnop\n": "wl_leaf is a name of workload.o",
    "\t.weak ftrace_stub\n": "ftrace_stub is weak",
    "\t.type ftrace_stub, %gnu_indirect_function\n": "ftrace_stub is global and of type",
    "\t.comm ftrace_stub_7, 8\n": "ftrace_stub_7 has no place in a section",
    '\t.section .tbss, "awT", %nobits\nmine: .zero 8\n': "it may not have a section '.tbss'",
    '\t.section .table.initcall, "a"\n\t.8byte ftrace_stub\n':
        "it may not have a section '.table.initcall'",
    '\t.section .text.irqentry, "ax"\n\tnop\n': "it may not have a section '.text.irqentry'",
    '\t.section .text.mine, "awx"\n\tnop\n':
        "it may not have a section '.text.mine' with flags 0x7",
    '\t.section .debug_gdb_scripts\n\t.byte 1\n': "it may not have a section '.debug_gdb_scripts'",
    '\t.section .text.mine, "axG", %progbits, mine, comdat\n\tnop\n':
        "it may not have a section '.group'",
    '\t.section .init_array, "aw"\n\t.8byte ftrace_stub\n':
        "it may not have a section '.init_array'",
    '\t.section .rela.mine, "", %4\n\t.8byte 0, 0, 0\n': "it may not have a section '.rela.mine'",
    '\t.altmacro\n\t.macro one n\nx\\n:\n\t.endm\n\t.set .Ln, 0\n\t.rept 50000\n\tone %.Ln\n\t.set '
    '.Ln, .Ln + 1\n\t.endr\n': "it has 500",
    "\t.data\n\t.8byte 0\n\t.rept 50000\n\t.reloc 0, NONE, ftrace_stub\n\t.endr\n":
        ".data has 50000 relocations",
    "\t.bss\n\t.zero 1 << 20\n": "bytes to the kernel, and may add 262144 at most",
    "\t.data\n\t.balign 1 << 20\n": "may be aligned to a page at most",
    '\t.file "kern/sched/sched.c"\n': "its object names 'kern/sched/sched.c' as its source",
    '\t.type "a\\"b", %function\n"a\\"b":\n\tnop\n': "is not a valid name",
    "\t.data\n\t.type f, %function\nf:\n\t.8byte 0\n": "f is a function outside of text",
    "\t.size ftrace_stub_0, 8\n": "ftrace_stub_0 and ftrace_caller overlap",
}
SYSTEM = {  # forbidden instructions, and permitted ones
    "riscv64": ([
        "csrw stvec, a0", "csrw satp, a0", "csrs sie, a0", "csrw sstatus, a0", "csrw sscratch, a0",
        "csrrc a0, sstatus, a1", "csrci sstatus, 6", "csrsi sstatus, 1", "sfence.vma", "ecall",
        "sret", ".word 0x0045200f"
        "  # cbo.zero", ".word 0x6ec5c073  # hsv.d"
    ], [
        "csrr a0, satp", "csrrci a0, sstatus, 2", "csrsi sstatus, 2", "csrs sstatus, a0",
        "fence w, w", "fence.i", "wfi", "ebreak", "rdtime a0", "sc.d a0, a1, (a2)"
    ]), "arm64": ([
        "msr vbar_el1, x0", "msr ttbr0_el1, x0", "msr tcr_el1, x0", "msr sctlr_el1, x0",
        "msr sp_el0, x0", "msr tpidr_el1, x0", "msr tpidr_el0, x0", "msr spsel, #0", "dc zva, x0",
        "dc ivac, x0", "tlbi vmalle1", "at s1e1r, x0", "hvc #0", "smc #0", "svc #0", "eret"
    ], [
        "mrs x0, vbar_el1", "msr daifset, #2", "msr daif, x0", "msr nzcv, x0", "dc cvau, x0",
        "dc cvac, x0", "dc civac, x0", "ic ivau, x0", "ic iallu", "ic ialluis", "dsb ish", "isb",
        "dmb ishst", "clrex", "wfe", "yield", "brk #1000", "br x0", "stxr w0, x1, [x2]"
    ])
}
# riscv64: where an instruction begins in the middle of a word. @SYSTEM is a forbidden one; it also
# lies in the words @LOW and @HIGH, two bytes after their beginning.
HALFWORDS = {
    "after a compressed one": "\t.option rvc\n\tc.nop\n\tSYSTEM\n\tc.nop\n",
    "after a compressed one and one of four bytes":
        "\t.option rvc\n\tc.nop\n\t.4byte 0x13\n\tSYSTEM\n\tc.nop\n",
    "at a label": "\tnop\n\t.2byte 0x13\nlies:\n\tSYSTEM\n\t.2byte 0\n",
    "where jal leads": "\tj . + 6\n\t.4byte LOW, HIGH\n",
    "where a jal back leads": "\t.4byte LOW, HIGH\n\tj . - 6\n",
    "where a branch leads": "\tbeqz a0, . + 6\n\t.4byte LOW, HIGH\n",
    "where a branch back leads": "\t.4byte LOW, HIGH\n\tbne a0, a1, . - 6\n",
    "where c.j leads":
        "\t.option rvc\n\t.2byte 0xa019 # c.j . + 6\n\tc.nop\n\t.4byte LOW, HIGH\n",
    "where c.bnez back leads":
        "\t.option rvc\n\t.4byte LOW, HIGH\n\t.2byte 0xfd6d # c.bnez a0, . - 6\n\tc.nop\n",
    "where a relocation leads": "\tlla t0, mine + 14\n\tjr t0\n\t.4byte LOW, HIGH\n",
    "where a table leads": "\t.4byte LOW, HIGH\n\t.data\n\t.8byte mine + 2\n",
}
MIDDLES = (  # the same halfwords in the middle of an instruction to which nothing leads
    "\tlui t0, 0x90730\n\tauipc a1, 0x10\n\tlui a0, 0x730\n\t.4byte 0x13, 0x00730013, 0\n",
    "\tnop\n\tbeqz a0, . + 4\n\t.4byte 0x00730013, 0\n",
    "\t.option rvc\n\tc.nop\n\tc.nop\n\t.4byte 0x90730013, 0x1052\n",
)
# A permitted instruction, and a relocation that turns it into a forbidden one.
RELOCATED = {
    "riscv64": (
        "\t.set .Lupper, 0x10551000\n\t.reloc ., R_RISCV_HI20, .Lupper\n\t.word 0x00002073\n",
        "csrw stvec,a0"),
    "arm64": ("\t.reloc ., R_AARCH64_ADR_PREL_LO21, . + 0x31802\n\t.word 0xb5000000\n",
              "msr vbar_el1, x0")
}


class Rules(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        self.beside: dict[str, list[Path]] = {}  # by architecture: trusted objects

    def made(self, arch: str, name: str, text: str) -> Path:
        source = self.folder / name.replace("<arch>", arch)
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        subprocess.run([GCC[arch], *PLAIN[arch], "-c", "-o",
                        source.with_suffix(".o"), source], check=True, capture_output=True)
        return source.with_suffix(".o")

    def said(self, arch: str, text: str) -> str:
        if arch not in self.beside:
            self.beside[arch] = [
                self.made(arch, f"{arch}/kern/sched/sched.S", TRUSTED),
                self.made(arch, f"{arch}/kern/apps/workload.S", "wl_leaf:\n\tnop\n")
            ]
        return handed_in.refused(arch, self.folder,
                                 [*self.beside[arch],
                                  self.made(arch, str(SOURCE), text)])

    def test_each_rule(self) -> None:
        for arch in ARCHES:
            self.assertEqual(self.said(arch, GOOD), "")
            for text, sentence in RULES.items():
                text = text.replace("NONE", {"riscv64": "R_RISCV_NONE",
                                             "arm64": "R_AARCH64_NONE"}[arch])
                with self.subTest(arch=arch, added=text):
                    said = self.said(arch, GOOD + text)
                    self.assertIn(f"kern/ftrace/{arch}/caller.S: ", said)
                    self.assertIn(sentence, said)

    def test_instructions(self) -> None:
        for arch in ARCHES:
            for instructions, sentence in zip(SYSTEM[arch],
                                              ("it may not have the instruction '", "")):
                for instruction in instructions:
                    with self.subTest(instruction=instruction):
                        said = self.said(arch, f"{GOOD}\t{instruction}\n")
                        self.assertIn(sentence, said) if sentence else self.assertEqual(said, "")

    def test_an_instruction_may_begin_at_any_halfword(self) -> None:
        """riscv64: after a compressed instruction, or where a label, a relocation, or a direct jump
        leads into the middle of an instruction. arm64 has none at such addresses."""
        for n, (where, lines) in enumerate(HALFWORDS.items()):
            word, name = ((0x10529073, "csrw stvec,t0"), (0x00000073, "ecall"))[n % 2]
            low, high = word & 0xFFFF, word >> 16
            text = lines.replace("SYSTEM", f".2byte {low:#x}, {high:#x}").replace(
                "LOW", f"{low << 16 | 0x13:#x}").replace("HIGH", f"{high:#x}")
            with self.subTest(where=where):
                said = self.said("riscv64", f"{GOOD}mine:\n{text}")
                self.assertRegex(said, f"may not have the instruction '{name}', at "
                                 r"(mine|lies)\+0x[0-9a-f]+: that is for the kernel's own files")
        for lines in MIDDLES:
            self.assertEqual(self.said("riscv64", f"{GOOD}mine:\n{lines}"), "", lines)
        sets = "\t.4byte 0xd518c000\n"  # msr vbar_el1, x0
        self.assertIn("'msr vbar_el1, x0', at mine+0x4", self.said(
            "arm64", f"{GOOD}mine:\n\tnop\n{sets}"))
        self.assertEqual(self.said(
            "arm64", f"{GOOD}mine:\n\t.2byte 0x2000\n{sets}\t.2byte 0\n"), "")

    def linked(self, arch: str, *sources: tuple[str, str]) -> str:
        """What is said of a kernel of these sources, each of which keeps the rules by itself."""
        objects = [
            self.made(arch, f"build/{arch}/made/{name}", text)
            for name, text in (("kern/sched/sched.S", TRUSTED), *sources)
        ]
        elf = self.folder / f"build/{arch}/made/callsite.elf"
        names = [path.relative_to(self.folder) for path in objects]
        self.assertEqual(handed_in.refused(arch, elf.parent, objects), "")
        subprocess.run([
            GCC[arch].replace("gcc", "ld"), "-Ttext", "0x80000000", "-e", "0", "-Map",
            elf.with_suffix(".map"), "-o", elf, *names
        ], cwd=self.folder, check=True)
        return handed_in.broken(Kernel(elf, arch))

    def test_instructions_that_two_objects_make_together(self) -> None:
        """The first ends in the first half of one, the second begins with its other half; or one
        jumps into the middle of an instruction of the other."""
        halves = ("\t.option rvc\n\tc.nop\n\t.2byte 0x9073\n", "\t.2byte 0x1052\n\tc.nop\n")
        graph = str(SOURCE).replace("caller.S", "graph.S")
        self.assertIn("caller.S: the linker makes another instruction into 'csrw stvec,t0', at "
                      "ftrace_stub+0x6", self.linked(
                          "riscv64", (str(SOURCE), GOOD + halves[0]),
                          (graph, f"\t.option rvc\n\t.text\n\t.balign 2\n{halves[1]}")))
        for jump in ("j ftrace_stub + 6", "call ftrace_stub + 6", "lla t0, ftrace_stub + 6"):
            self.assertIn("caller.S: the linker makes another instruction into 'csrw stvec,t0', at "
                          "ftrace_stub+0x6", self.linked(
                              "riscv64", (str(SOURCE), GOOD + "\t.4byte 0x90730013, 0x1052\n"),
                              (graph, f"\t{jump}\n")), jump)

    def test_instructions_that_the_linker_makes(self) -> None:
        for arch in ARCHES:
            made, instruction = RELOCATED[arch]
            self.assertEqual(
                self.linked(arch, (str(SOURCE), GOOD + made)),
                f"{SOURCE}: the linker makes another instruction into '{instruction}', at "
                "ftrace_stub+0x4: that is for the kernel's own files".replace("<arch>", arch))

    def test_what_is_patched_lies_in_its_function(self) -> None:
        for arch in ARCHES:
            for was, now in (("ftrace_call:\n\tnop\n", "\tnop\n"), ("ftrace_stubs:\n", "")):
                name = was.split(":")[0]
                self.assertIn(f"{name} must be an instruction of ",
                              self.said(arch,
                                        GOOD.replace(was, now) + was))

    def test_names_that_are_not_watched_may_be_had_twice(self) -> None:
        for arch in ARCHES:
            self.assertEqual(self.said(arch, GOOD + "its_own:\nopen:\n\tnop\n"), "")

    def test_relocations(self) -> None:
        for arch, kinds in {
                "riscv64": ("R_RISCV_ALIGN, 4", "R_RISCV_RELAX"),
                "arm64": ("R_AARCH64_IRELATIVE", "R_AARCH64_COPY")
        }.items():
            for kind in kinds:
                with self.subTest(kind=kind):
                    self.assertIn("which a handed-in file may not have",
                                  self.said(arch, GOOD + f"\t.reloc 0, {kind}\n"))

    def test_a_table_has_one_entry_of_it(self) -> None:
        entry = '__asm__(".pushsection .table.unwind_hook, \\"a\\"; .8byte 1; .popsection");\n'
        for arch in ARCHES:
            for count, sentence in (
                (1, ""),
                (2,
                 "kern/ftrace/graph/fgraph.c: section .table.unwind_hook may have only one entry")):
                objects = [
                    self.made(arch, "kern/sched/sched.S", TRUSTED),
                    self.made(arch, "kern/ftrace/graph/fgraph.c", count * entry)
                ]
                self.assertEqual(handed_in.refused(arch, self.folder, objects), sentence)

    def test_a_relocation_stays_in_its_section(self) -> None:
        for arch in ARCHES:
            beside, made = self.made(arch, "kern/sched/sched.S",
                                     TRUSTED), self.made(arch, str(SOURCE),
                                                         GOOD + "\t.data\n\t.8byte ftrace_stub\n")
            self.assertEqual(handed_in.refused(arch, self.folder, [beside, made]), "")
            with made.open("r+b") as file:
                at = ELFFile(file).get_section_by_name(".rela.data")["sh_offset"]
                file.seek(at)
                file.write((0x100000).to_bytes(8, "little"))
            self.assertIn(".rela.data reaches 0x100000, outside",
                          handed_in.refused(arch, self.folder, [beside, made]))

    def test_what_is_no_object(self) -> None:
        for arch in ARCHES:
            made, beside = self.made(arch, str(SOURCE),
                                     GOOD), self.made(arch, "kern/sched/sched.S", TRUSTED)
            whole = made.read_bytes()
            for text in (b"", b"\x7fELF", whole[:200], whole[:-300],
                         whole[:40] + b"\xff" * 24 + whole[64:]):
                made.write_bytes(text)
                said = handed_in.refused(arch, self.folder, [beside, made])
                self.assertRegex(said, rf"^kern/ftrace/{arch}/caller\.S: .*object")
            made.write_bytes(whole)
            subprocess.run([GCC[arch].replace("gcc", "strip"), made], check=True)
            self.assertIn("not have exactly one symbol table",
                          handed_in.refused(arch, self.folder, [beside, made]))
            other = self.made(next(a for a in ARCHES if a != arch), "kern/other.S", GOOD)
            made.write_bytes(other.read_bytes())
            self.assertIn("not one that a compiler makes",
                          handed_in.refused(arch, self.folder, [beside, made]))


class Labs(unittest.TestCase):
    """The lists in the rubrics agree with the kernels of this tree."""

    @classmethod
    def setUpClass(cls) -> None:
        build(max(rubric.LABS))

    def test_no_header_is_handed_in(self) -> None:
        for lab in rubric.LABS:
            for name in rubric.lab(lab).files:
                self.assertIn(Path(name).suffix, (".c", ".S"), name)

    def test_make_knows_what_is_handed_in(self) -> None:
        """The makefile reads the lists line by line."""
        mk = (ROOT / "labs/handed_in.mk").read_text()
        pattern = re.search(r"sed -n '(.*?)'", mk)
        assert pattern
        for path in ROOT.glob("labs/*/rubric.toml"):
            line = subprocess.run(["sed", "-n", pattern[1].replace("$$", "$"), path],
                                  capture_output=True, text=True, check=True).stdout
            self.assertEqual(
                re.sub(r'[",]', "", line).split(),
                [name for half in halves(path).values() for name in half["files"]])

    def test_nothing_trusted_is_made_of_what_is_handed_in(self) -> None:
        for arch in ARCHES:
            folder, objects = handed_in.linked(ROOT /
                                               f"build/{arch}/lab{max(rubric.LABS)}/callsite.elf")
            handed = {rule.source: name for name, rule in handed_in.rules(arch).items()}
            for made in (path for path in objects if path.with_suffix(".d").exists()):
                used = {
                    source
                    for source in handed if re.search(rf"\s{re.escape(source)}[\s:]",
                                                      made.with_suffix(".d").read_text())
                }
                self.assertLessEqual({handed[source]
                                      for source in used}, {str(made.relative_to(folder))})

    def test_the_kernel_keeps_the_rules(self) -> None:
        for arch in ARCHES:
            elf = ROOT / f"build/{arch}/lab{max(rubric.LABS)}/callsite.elf"
            kernel = Kernel(elf, arch)
            self.assertEqual(handed_in.broken(kernel), "")


class Copies(unittest.TestCase):
    def test_a_copy_of_a_kernel_has_the_objects_of_the_tree_it_was_built_in(self) -> None:
        """Whatever folder the copy is in: a class's results may lie in another tree's build/."""
        with tempfile.TemporaryDirectory() as folder:
            tree, out = Path(folder,
                             "build/job/tree").resolve(), Path(folder, "build/job/attempt-1")
            at = tree / "build/riscv64"
            (at / "lab4/kern").mkdir(parents=True)
            (at / "lab4/callsite.elf").touch()
            (at / "lab4/callsite.map").write_text("LOAD build/riscv64/lab4/kern/fs/file.o\n")
            options = argparse.Namespace(out=out, kernels=tree / "build", variant="lab4", lab=4,
                                         staff=[], arch=["riscv64"])
            for _ in range(2):  # the second time over what the first has left
                program.take_copies(options)
                copy = options.kernels / "riscv64/callsite.elf"
                self.assertNotEqual(at / "lab4/callsite.elf", copy.resolve())
                self.assertEqual((at / "lab4", [at / "lab4/kern/fs/file.o"]),
                                 handed_in.linked(copy))
                options.kernels = tree / "build"

    def test_a_labs_host_tests_are_copied_with_the_objects_that_were_handed_in(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder).resolve() / "build"
            for name in ("host/records_test", "host/hash_test", "riscv64/callsite.elf",
                         *(f"host/records_test.d/{of}.o"
                           for of in ("test", "kern/ftrace/core/records",
                                      "kern/ftrace/core/table"))):
                (build / name).parent.mkdir(parents=True, exist_ok=True)
                (build / name).touch()
            options = argparse.Namespace(out=Path(folder, "out"), kernels=build, variant="",
                                         lab=2, staff=[], arch=["riscv64"])
            program.take_copies(options)
            host = options.kernels / "host"
            self.assertEqual({"records_test", "records_test.d/kern/ftrace/core/records.o"},
                             {str(path.relative_to(host)) for path in host.rglob("*")
                              if path.is_file()})

    def test_recordmcount_is_copied_with_a_kernel_that_a_link_names(self) -> None:
        """A class's grade names no variant: build/ARCH/callsite.elf is a link to the kernel that
        was built last, and recordmcount has none."""
        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder).resolve() / "build/riscv64"
            (at / "lab2-staff1").mkdir(parents=True)
            for name in ("callsite.elf", "Image", "recordmcount"):
                (at / "lab2-staff1" / name).write_text(name)
            for name in ("callsite.elf", "Image"):
                (at / name).symlink_to(f"lab2-staff1/{name}")
            options = argparse.Namespace(out=Path(folder, "out"), kernels=at.parent, variant="",
                                         lab=2, staff=[], arch=["riscv64"])
            program.take_copies(options)
            self.assertEqual({"callsite.elf", "Image", "recordmcount", handed_in.TREE},
                             {path.name
                              for path in (options.kernels / "riscv64").iterdir()})


if __name__ == "__main__":
    unittest.main()

"""Lab 2's checks of recordmcount: they find a tool that does not sort, or that accepts a decoy as a
call."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from grading.checks import recordmcount
from qemu.isa import ARCHES, ISAS
from qemu.machine import ROOT

SOURCE = ROOT / "kern/ftrace/tools/recordmcount.c"
COMPARES = "return x < y ? -1 : x > y;"


class Tool(unittest.TestCase):
    def tool(self, source: str) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="callsite-")
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "recordmcount"
        path.with_suffix(".c").write_text(source)
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-static", "-o", path,
                        path.with_suffix(".c")], check=True)
        return path


class Finds(Tool):
    def found(self, source: str, arch: str) -> list[tuple[list[str], list[int]]]:
        """The decoys that the tool accepts and the calls that it misses, for three seeds."""
        tool, answers = self.tool(source), []
        for seed in range(3):
            made = recordmcount.calls(arch, seed)
            got, _ = recordmcount.table(tool, made.elf(arch), tool.with_suffix(".elf"))
            answers.append(([made.decoys[a] for a in got
                             if a not in made.sites], [a for a in made.sites if a not in got]))
        return answers

    def test_the_solution_finds_the_calls_alone(self) -> None:
        for arch in ARCHES:
            self.assertEqual(self.found(SOURCE.read_text(), arch), [([], [])] * 3)

    def test_each_bit_that_is_not_looked_at_is_seen(self) -> None:
        source = SOURCE.read_text()
        for arch, was, now, what in (("riscv64", "(before & 0xfff) != 0x97 || ", "",
                                      "not an auipc ra"),
                                     ("riscv64", "(before & 0xfff)", "(before & 0x7f | 0x80)",
                                      "not an auipc ra"), ("riscv64", "(word & 0xfffff) != 0x80e7",
                                                           "(word & 0x7f) != 0x67",
                                                           "not a jalr ra"),
                                     ("riscv64", " || (word & 0xfffff) != 0x80e7", "",
                                      "not a jalr ra"), ("riscv64", "== k->mcount",
                                                         "- k->mcount <= 4", "_mcount+4"),
                                     ("arm64", "word << 6) >> 4", "word << 10) >> 8",
                                      "to _mcount"), ("riscv64", "(before & ~0xfffu)",
                                                      "(before << 8 & ~0xfffffu) / 256",
                                                      "to _mcount"),
                                     ("arm64", "word >> 26 == 0x25", "(word >> 26 & 31) == 5",
                                      "not a bl"), ("arm64", "word >> 26 == 0x25", "1",
                                                    "not a bl")):
            self.assertIn(was, source)
            for decoys, missing in self.found(source.replace(was, now), arch):
                self.assertTrue(decoys and what in " ".join(decoys), now)
                self.assertEqual(missing, [])

    def test_the_last_word_is_not_forgotten(self) -> None:
        source = SOURCE.read_text()
        self.assertIn("a + 4 <= text->sh_addr", source)
        for arch in ARCHES:
            for decoys, missing in self.found(
                    source.replace("a + 4 <= text->sh_addr", "a + 4 < text->sh_addr"), arch):
                self.assertEqual((decoys, len(missing)), ([], 1))


class Survives(Tool):
    def test_a_tool_that_reads_beyond_the_end_of_the_file_crashes(self) -> None:
        source, was = SOURCE.read_text(), "word = word_at(k, text, a);"
        self.assertIn(was, source)
        direct = "word = *(uint32_t *)(k->image + text->sh_offset + (a - text->sh_addr));"
        for now, status in ((was, 1), (direct, recordmcount.CRASHED)):
            tool = self.tool(source.replace(was, now))
            for arch in ARCHES:
                cut = recordmcount.calls(arch, 0).elf(arch, more=1 << 30)
                done = recordmcount.run(tool, cut, tool.with_suffix(".elf"))
                self.assertEqual(done.returncode, status, done.stderr)


class Sorts(Tool):
    def sorts(self, source: str) -> list[bool]:
        tool, answers = self.tool(source), []
        for arch in ARCHES:
            for seed in range(3):
                given = recordmcount.entries(seed)
                got, _ = recordmcount.table(tool, recordmcount.entry_elf(arch, given),
                                            tool.with_suffix(".elf"))
                answers.append(got == sorted(at + ISAS[arch].entry_skip for at in given))
        return answers

    def test_the_solution_sorts(self) -> None:
        self.assertEqual(self.sorts(SOURCE.read_text()), [True] * 6)

    def test_nothing_else_will_do(self) -> None:
        source = SOURCE.read_text()
        self.assertIn(COMPARES, source)
        for wrong in ("return 0;", "return x < y ? 1 : -(x > y);", "return a < b ? -1 : a > b;",
                      "return (char)(x - y);"):
            self.assertEqual(self.sorts(source.replace(COMPARES, wrong)), [False] * 6, wrong)

    def test_a_tool_that_fails_says_why(self) -> None:
        tool = self.tool("int main(void) { return 3; }")
        _, complaint = recordmcount.table(tool, recordmcount.entry_elf("arm64", [8]),
                                          tool.with_suffix(".elf"))
        self.assertIn("status 3", complaint)


if __name__ == "__main__":
    unittest.main()

"""Lab 2's sort: a recordmcount that writes what it found, as it found it, is seen."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from grading import recordmcount
from qemu.machine import ARCHES, ROOT

SOURCE = ROOT / "kern/ftrace/recordmcount.c"
COMPARES = "return x < y ? -1 : x > y;"


class Sorts(unittest.TestCase):
    def tool(self, source: str) -> Path:
        folder = tempfile.TemporaryDirectory(prefix="callsite-")
        self.addCleanup(folder.cleanup)
        path = Path(folder.name) / "recordmcount"
        path.with_suffix(".c").write_text(source)
        subprocess.run(["gcc", "-std=gnu11", "-O1", "-static", "-o", path, path.with_suffix(".c")], check=True)
        return path

    def sorts(self, source: str) -> list[bool]:
        tool, answers = self.tool(source), []
        for arch in ARCHES:
            for seed in range(3):
                given = recordmcount.entries(seed)
                got, _ = recordmcount.table(tool, arch, given)
                answers.append(got == sorted(at + recordmcount.TOGGLED[arch] for at in given))
        return answers

    def test_the_solution_sorts(self) -> None:
        self.assertEqual(self.sorts(SOURCE.read_text()), [True] * 6)

    def test_nothing_else_will_do(self) -> None:
        source = SOURCE.read_text()
        self.assertIn(COMPARES, source)
        for wrong in ("return 0;", "return x < y ? 1 : -(x > y);", "return a < b ? -1 : a > b;", "return (char)(x - y);"):
            self.assertEqual(self.sorts(source.replace(COMPARES, wrong)), [False] * 6, wrong)

    def test_a_tool_that_fails_says_why(self) -> None:
        _, complaint = recordmcount.table(self.tool("int main(void) { return 3; }"), "arm64", [8])
        self.assertIn("status 3", complaint)


if __name__ == "__main__":
    unittest.main()

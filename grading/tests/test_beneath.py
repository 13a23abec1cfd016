"""A lab that needs one that is as handed out: said in one line, and not by a table."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from grading import __main__ as program
from grading.report.beneath import as_handed_out, untouched

FILES = {2: ["kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c"], 4: ["kern/ftrace/<arch>/caller.S", "kern/ftrace/<arch>/other.S"],
         5: ["kern/ftrace/stages/graph.c"]}
LINKED = ["2/kern/ftrace/core/records.o", "4/kern/ftrace/{}/caller.o"]  # in lab 5's kernel


class Tree(unittest.TestCase):
    """A student's: one commit, and the staff's objects."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        for lab, files in FILES.items():
            self.write(f"labs/{lab}-so/rubric.toml", f"files = {files}")
            for file in files:
                for arch in ("riscv64", "arm64"):
                    self.write(file.replace("<arch>", arch), "start")
        for arch in ("riscv64", "arm64"):
            for name in LINKED:
                self.write(f"labs/staff/{arch}/lab5/{name.format(arch)}", "object")
        for words in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"]):
            subprocess.run(["git", *words], check=True)

    def write(self, name: str, text: str) -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)

    def begin(self, *names: str) -> None:
        for name in names:
            self.write(name, "begun")

    def said(self, *arches: str, staff: str = "") -> str:
        with mock.patch.dict(os.environ, {"STAFF": staff}):
            return as_handed_out(5, list(arches or ("riscv64", "arm64")))

    def test_what_is_not_begun_is_named_with_what_to_type(self) -> None:
        self.assertEqual(len(untouched()), 7)
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c")
        self.assertEqual(self.said("arm64"), "Lab 5 needs lab 4, of which kern/ftrace/arm64/caller.S is as handed out: write that first, or take "
                         "the staff's objects, make grade LAB=5 STAFF=4.")

    def test_an_architecture_that_is_done_can_be_graded(self) -> None:
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c", "kern/ftrace/arm64/caller.S")
        self.assertIn("riscv64/caller.S is as handed out", self.said())
        self.assertIn("; or grade ARCH=arm64 alone.", self.said())
        self.assertEqual(self.said("arm64"), "")

    def test_the_staffs_objects_are_as_good(self) -> None:
        self.assertEqual(self.said(staff="2,4"), "")
        self.assertIn("STAFF=2,4.", self.said(staff="2"))
        self.assertIn("needs lab 2 and lab 4", self.said())

    def test_a_host_tool_counts(self) -> None:
        self.begin("kern/ftrace/core/records.c", "kern/ftrace/arm64/caller.S")
        self.assertIn("recordmcount.c is as handed out", self.said("arm64"))

    def test_the_labs_own_files_do_not(self) -> None:
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c", "kern/ftrace/arm64/caller.S", "kern/ftrace/riscv64/caller.S")
        self.assertEqual(self.said(), "")

    def test_nor_does_a_tree_without_the_staffs_objects(self) -> None:
        subprocess.run(["rm", "-r", "labs/staff"], check=True)
        self.assertEqual(self.said(), "")

    def test_the_grade_stops_there(self) -> None:
        for arch in ("riscv64", "arm64"):
            self.write(f"build/{arch}/callsite.elf", "")
        with (mock.patch("sys.argv", ["grading", "--lab", "5", "--arch", "arm64", "--kernels", "build"]), mock.patch.dict(os.environ, {"STAFF": ""}),
              contextlib.redirect_stderr(io.StringIO()) as said):
            self.assertEqual(program.main(), program.EXIT_USAGE)
        self.assertIn("Lab 5 needs lab 2 and lab 4", said.getvalue())
        self.assertEqual(said.getvalue().count("\n"), 1)


if __name__ == "__main__":
    unittest.main()

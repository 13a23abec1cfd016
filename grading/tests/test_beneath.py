"""A grade of a lab that needs an earlier lab which is as handed out prints one line, and no table.
"""

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
from grading.report import typed
from grading.report.beneath import as_handed_out, graded_halves, nothing_own, untouched, waiting

FILES = {
    2: ["kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c"],
    4: ["kern/ftrace/<arch>/caller.S", "kern/ftrace/<arch>/other.S"],
    5: ["kern/ftrace/graph/fgraph_one.c"]
}
LINKED = ["2/kern/ftrace/core/records.o", "4/kern/ftrace/{}/caller.o"]  # in lab 5's kernel


RUBRICS = {lab: f"files = {files}" for lab, files in FILES.items()}


class Student(unittest.TestCase):
    """A student's tree: one commit, and the staff's objects."""

    rubrics = RUBRICS

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder.name)
        environment = mock.patch.dict(os.environ)
        environment.start()
        self.addCleanup(environment.stop)
        for name in (*typed.ASKED, *typed.GIVEN):
            os.environ.pop(name, None)
        for lab, files in FILES.items():
            self.write(f"labs/{lab}-so/rubric.toml", self.rubrics[lab])
            for file in files:
                for arch in ("riscv64", "arm64"):
                    self.write(file.replace("<arch>", arch), "start")
        for arch in ("riscv64", "arm64"):
            for name in LINKED:
                self.write(f"labs/staff/{arch}/lab5/{name.format(arch)}", "object")
            for half in ("4.1/kern/ftrace/{}/caller.o", "4.2/kern/ftrace/{}/other.o"):
                self.write(f"labs/staff/{arch}/lab4/{half.format(arch)}", "object")
        for words in (["init", "-q"], ["add", "-A"],
                      ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "a"]):
            subprocess.run(["git", *words], check=True)

    def write(self, name: str, text: str) -> None:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)

    def begin(self, *names: str) -> None:
        for name in names:
            self.write(name, "begun")


class Tree(Student):
    def said(self, *arches: str, staff: str = "") -> str:
        with mock.patch.dict(os.environ, {"STAFF": staff}):
            return as_handed_out(5, list(arches or ("riscv64", "arm64")))

    def test_what_is_not_begun_is_named_with_what_to_type(self) -> None:
        self.assertEqual(len(untouched()), 7)
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c")
        self.assertEqual(self.said("arm64"), "Lab 5 needs lab 4, of which "
                                             "kern/ftrace/arm64/caller.S is as handed out: write "
                                             "that first, or take "
                         "the staff's objects: make grade LAB=5 STAFF=4")

    def test_an_architecture_that_is_done_can_be_graded(self) -> None:
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c",
                   "kern/ftrace/arm64/caller.S")
        self.assertIn("riscv64/caller.S is as handed out", self.said())
        self.assertIn(", or grade ARCH=arm64 alone, or take", self.said())
        self.assertEqual(self.said("arm64"), "")

    def test_the_staffs_objects_are_as_good(self) -> None:
        self.assertEqual(self.said(staff="2,4"), "")
        self.assertTrue(self.said(staff="2").endswith(" STAFF=2,4"))
        self.assertIn("needs lab 2 and lab 4", self.said())

    def test_a_host_tool_counts(self) -> None:
        self.begin("kern/ftrace/core/records.c", "kern/ftrace/arm64/caller.S")
        self.assertIn("recordmcount.c is as handed out", self.said("arm64"))

    def test_the_labs_own_files_do_not(self) -> None:
        self.begin("kern/ftrace/tools/recordmcount.c", "kern/ftrace/core/records.c",
                   "kern/ftrace/arm64/caller.S", "kern/ftrace/riscv64/caller.S")
        self.assertEqual(self.said(), "")

    def test_nor_does_a_tree_without_the_staffs_objects(self) -> None:
        subprocess.run(["rm", "-r", "labs/staff"], check=True)
        self.assertEqual(self.said(), "")

    def test_the_grade_stops_there(self) -> None:
        for arch in ("riscv64", "arm64"):
            self.write(f"build/{arch}/callsite.elf", "")
        words = ["grading", "--lab", "5", "--arch", "arm64", "--kernels", "build", "--make", "make"]
        with (mock.patch.object(program, "make", side_effect=AssertionError("nothing is built")),
              mock.patch("sys.argv", words), mock.patch.dict(os.environ, {"STAFF": ""}),
              contextlib.redirect_stderr(io.StringIO()) as said):
            self.assertEqual(program.main(), program.EXIT_USAGE)
        self.assertIn("Lab 5 needs lab 2 and lab 4", said.getvalue())
        self.assertEqual(said.getvalue().count("\n"), 1)


class HalvesBeneath(Student):
    """Lab 4 has two: caller.S, then other.S."""

    rubrics = {**RUBRICS, 4: """[[half]]
name = "one"
files = ["kern/ftrace/<arch>/caller.S"]
[[half]]
name = "two"
files = ["kern/ftrace/<arch>/other.S"]
"""}

    def said(self, *staff: str, arches: tuple[str, ...] = ("riscv64", "arm64")) -> str:
        with mock.patch.dict(os.environ, {"STAFF": ",".join(staff)}):
            return as_handed_out(4, list(arches), staff)

    def test_the_second_waits_for_all_its_files(self) -> None:
        self.begin("kern/ftrace/riscv64/other.S")
        self.assertEqual(waiting(4), {"4.2": ["kern/ftrace/arm64/other.S"]})
        self.begin("kern/ftrace/arm64/other.S")
        self.assertEqual(waiting(4), {})
        self.assertEqual(waiting(5), {})

    def test_the_first_needs_nothing_of_the_lab(self) -> None:
        self.assertEqual(self.said("4.2"), "")

    def test_the_second_needs_the_first(self) -> None:
        self.begin("kern/ftrace/arm64/other.S", "kern/ftrace/riscv64/other.S")
        self.assertEqual(self.said(), 'Lab 4 needs its own half "one", of which '
                                      'kern/ftrace/arm64/caller.S, kern/ftrace/riscv64/caller.S '
                                      'are as handed out: '
                         "write that first, or take the staff's objects: make grade LAB=4 "
                         "STAFF=4.1")
        self.assertEqual(self.said("4.1"), "")
        self.begin("kern/ftrace/arm64/caller.S")
        self.assertIn(", or grade ARCH=arm64 alone, or take", self.said())
        self.assertEqual(self.said(arches=("arm64",)), "")

    def test_a_later_lab_needs_both(self) -> None:
        self.begin("kern/ftrace/core/records.c", "kern/ftrace/tools/recordmcount.c")
        self.write("labs/staff/arm64/lab5/4/kern/ftrace/arm64/other.o", "object")
        self.assertIn("Lab 5 needs lab 4, of which kern/ftrace/arm64/caller.S, "
                      "kern/ftrace/arm64/other.S are as", as_handed_out(5, ["arm64"]))

    def test_what_is_graded_is_said_in_a_line(self) -> None:
        self.assertEqual(graded_halves(4, ["4.2"]), 'Lab 4: the half "one" is graded. The half '
                                                    '"two" is not graded yet: '
                                                    'kern/ftrace/arm64/other.S, '
                         "kern/ftrace/riscv64/other.S are as handed out, and the kernel is linked "
                         "with the staff's objects for this half.")
        self.begin("kern/ftrace/arm64/other.S", "kern/ftrace/riscv64/other.S")
        self.assertEqual(graded_halves(4, ["4.1"]), 'Lab 4: the half "two" is graded. The half '
                                                    '"one" gets no points: the kernel is linked '
                                                    'with '
                         "the staff's objects for it (STAFF=4.1).")
        self.assertEqual(graded_halves(4, []), 'Lab 4: the halves "one" and "two" are graded.')
        self.assertEqual(graded_halves(5, []), "")

    def test_the_staffs_alone_is_not_graded(self) -> None:
        self.assertEqual(nothing_own(4, ["4.1", "4.2"]), "Lab 4: the kernel is linked with the "
                                                         "staff's objects for "
                         '"one" and "two", so there is nothing to grade.')
        self.assertEqual(nothing_own(4, ["4.1"]) + nothing_own(4, []) + nothing_own(5, []), "")


if __name__ == "__main__":
    unittest.main()

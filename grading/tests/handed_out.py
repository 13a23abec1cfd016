"""Tests the tree that students get, used as they use it: every lab's start builds; labs are done in
it, alone and on the staff's objects. Part of `make test-labs`."""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from grading.checks import rubric
from grading.classroom.tree import resolved
from grading.selftest import wrong
from qemu.machine import ROOT

SEED_WORDS = ["SEED=0123456789abcdef", "ARCH=riscv64", "SMP=1"]
# What the compiler made of the same file in this tree is taken.
CLEAN = {
    **{
        name: value
        for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }, "CCACHE_DIR": str(ROOT / "build/ccache"), "CCACHE_NOHASHDIR": "1"
}


class HandedOutTree(unittest.TestCase):
    """What `make handout` makes."""

    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-handout-")
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name) / "tree"
        subprocess.run(["make", "-s", "-C", str(ROOT), "handout", f"OUT={cls.out}"], check=True,
                       stdout=subprocess.DEVNULL, env=CLEAN)
        (cls.out / "build").mkdir()
        shutil.copy2(ROOT / "build/.setup", cls.out / "build")
        (cls.out / "build/qemu-10").symlink_to(ROOT / "build/qemu-10")

    def git(self, *words: str) -> list[str]:
        return subprocess.run(["git", "-C", str(self.out), *words], capture_output=True, text=True,
                              check=True).stdout.splitlines()

    def make(self, *words: str, tree: Path | None = None) -> str:
        done = subprocess.run(["make", "-j2", "-C", str(tree or self.out), *words],
                              capture_output=True, text=True, check=False, env=CLEAN)
        return done.stdout + done.stderr

    def solve(self, lab: int, *halves: int) -> None:
        for name in rubric.lab(lab).files if not halves else [
                name for n in halves for name in rubric.lab(lab).halves[n - 1].files]:
            self.addCleanup(self.write, name, lab)
            self.write(name, 0)

    def write(self, name: str, start: int) -> None:
        (self.out / name).write_bytes(resolved((ROOT / name).read_bytes(), start))


class HandedOut(HandedOutTree):
    def hand_out_again(self, lab: int) -> None:
        for name in rubric.lab(lab).files:
            self.write(name, lab)

    def grade_4(self, staff: str = "2,3", *more: str) -> str:
        """Both architectures, with one CPU: 45 points for the first half of 4, and 40 for the
        second without its schedules."""
        return self.make("grade", *(word for word in SEED_WORDS if "ARCH" not in word), "LAB=4",
                         f"STAFF={staff}", *more)

    def test_the_start_of_every_lab_builds(self) -> None:
        for lab in rubric.LABS:
            self.assertNotIn("Error", self.make("-s", f"LAB={lab}", "ARCH=arm64"), f"lab {lab}")

    def test_a_lab_beneath_that_is_as_handed_out_is_said_first(self) -> None:
        said = self.make("grade", *SEED_WORDS, "LAB=3")
        self.assertIn("\nLab 3 needs lab 1 and lab 2, of which kern/ftrace/core/records.c, "
                      "kern/ftrace/riscv64/mcount.S, kern/ftrace/tools/recordmcount.c are as "
                      "handed out: ", said)
        self.assertNotIn("what must hold", said)
        for printed in ("objects: make ", "\nreplay:    make "):  # each line is typed
            said = self.make(*shlex.split(said.partition(printed)[2].partition("\n")[0]))
            self.assertIn("\n0 of 80 points.", said)

    def test_the_first_half_of_lab_4_is_graded_without_the_second(self) -> None:
        said = self.grade_4()
        self.assertIn(
            '\nLab 4: the half "registers" is graded. The half "many tracers" is not graded yet: '
            "kern/ftrace/core/hash.c, kern/ftrace/ops/ops.c are as handed out, ", said)
        self.assertIn("\n0 of 190 points.", said)
        self.solve(4, 1)
        self.assertIn("\n90 of 190 points.", self.grade_4())
        self.assertIn(
            'Lab 4: the half "registers" is graded. The half "many tracers" is not graded yet: ',
            self.of_what_is_handed_in())
        self.solve(4, 2)
        self.assertIn("\n170 of 170 points.", self.grade_4())
        self.assertIn(
            "gets no points: the kernel is linked with the staff's objects for it (STAFF=4.2).",
            self.grade_4("2,3,4.2", "RUNG=1"))
        self.hand_out_again(4)
        self.solve(4, 1)
        self.assertIn("\n90 of 190 points.", self.grade_4())

    def of_what_is_handed_in(self) -> str:
        """What a grade prints in a new instructor's tree, with the files of `make submit` in it."""
        words = ["LAB=4", "STAFF=2,3", "ARCH=riscv64", "SMP=1", "RUNG=called"]
        self.make("submit", *words)
        fresh = self.out.parent / "fresh"
        subprocess.run(["git", "clone", "-q", self.out, fresh], check=True)
        subprocess.run(["tar", "-xf", self.out / "build/lab4.tar", "-C", fresh], check=True)
        (fresh / "build").mkdir()
        shutil.copy2(ROOT / "build/.setup", fresh / "build")
        (fresh / "build/qemu-10").symlink_to(ROOT / "build/qemu-10")
        return self.make("grade", *words, tree=fresh)

    def test_the_second_half_of_lab_4_needs_the_first(self) -> None:
        self.solve(4, 2)
        said = self.grade_4()
        self.assertIn(
            '\nLab 4 needs its own half "registers", of which kern/ftrace/arm64/caller.S, '
            'kern/ftrace/riscv64/caller.S are as handed out: write that first, or take the '
            "staff's objects: make grade LAB=4 SEED=0123456789abcdef STAFF=2,3,4.1 SMP=1\n", said)
        self.assertNotIn("what must hold", said)
        self.assertIn("\n80 of 170 points.", self.grade_4("2,3,4.1"))

    def test_lab_6_can_be_done_with_the_staffs_labs_2_to_5(self) -> None:
        self.assertIn("\n0 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=6",
                                                     "STAFF=2,3,4,5"))
        self.solve(6)
        self.assertIn("\n80 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=6",
                                                      "STAFF=2,3,4,5"))

    def test_lab_7_can_be_done_with_the_staffs_labs_2_to_6(self) -> None:
        self.assertIn("\n0 of 80 points.",
                      self.make("grade", *SEED_WORDS, "LAB=7", "STAFF=2,3,4,5,6"))
        self.solve(7)
        self.assertIn("\n80 of 80 points.",
                      self.make("grade", *SEED_WORDS, "LAB=7", "STAFF=2,3,4,5,6"))


def main() -> bool:
    """All tests, or the one that the seed chooses. Return: do they pass?"""
    parser = argparse.ArgumentParser(prog="grading.tests.handed_out", description=__doc__)
    parser.add_argument("--part", action="store_true", help="one test")
    parser.add_argument("--seed", type=int, default=wrong.seed_of_files(),
                        help="which one; default: the commit's")
    options = parser.parse_args()
    tests = list(unittest.defaultTestLoader.loadTestsFromTestCase(HandedOut))
    wanted = [tests[options.seed % len(tests)]] if options.part else tests
    return unittest.TextTestRunner().run(unittest.TestSuite(wanted)).wasSuccessful()


if __name__ == "__main__":
    sys.exit(not main())

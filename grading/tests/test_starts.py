"""What a student begins with scores nothing, lives to its end, and is all that the student's tree has of a lab."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from grading import report, rubric
from grading.elf import Kernel
from grading.tests.test_wrong import SEED
from qemu.machine import ARCHES, ROOT

SEED_WORDS = [f"SEED={SEED:016x}", "ARCH=riscv64", "LAB=1", "SMP=1"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}


class Rubrics(unittest.TestCase):
    def test_every_lab_has_one_that_holds(self) -> None:
        self.assertEqual(sorted(rubric.LABS), [1, 2, 3, 4, 5, 6])
        for number in rubric.LABS:
            self.assertTrue(6 <= len(rubric.lab(number).rungs) <= 12, f"lab {number}")

    def test_the_students_files_hold_the_start_of_that_lab_and_of_no_other(self) -> None:
        for number in rubric.LABS:
            for name in rubric.lab(number).files:
                found = set(re.findall(r"LAB_START [!=]= (\d)", (ROOT / name).read_text()))
                self.assertEqual(found, {str(number)}, name)


class Starts(unittest.TestCase):
    def scores_nothing(self, lab: int, boots: tuple[int, ...]) -> None:
        subprocess.run(["make", "-s", "-j2", "-C", str(ROOT), "CI=1", f"START={lab}", "build/initrd.cpio",
                        *(f"build/{arch}/lab{lab}-start/Image" for arch in ARCHES)], check=True, stdout=subprocess.DEVNULL)
        for arch in ARCHES:
            with self.subTest(lab=lab, arch=arch):
                kernel = Kernel(ROOT / f"build/{arch}/lab{lab}-start/callsite.elf", arch)
                log = ROOT / f"build/tests/starts/{arch}-lab{lab}.log"
                evidence = [rubric.lab(lab).session(kernel, lab, smp, SEED, log).run() for smp in boots]
                self.assertEqual([e.why for e in evidence], [""] * len(boots), "it boots, and goes to its end")
                graded = report.judge(arch, lab, SEED, evidence)
                first, *others = graded.results
                self.assertEqual(graded.points, 0)
                self.assertTrue(first.lost)
                self.assertEqual([r.rung.name for r in others if r.lost], [], "these say more than that the first is needed")

    def test_lab_1(self) -> None:
        self.scores_nothing(1, (1,))

    def test_lab_2(self) -> None:
        self.scores_nothing(2, (1,))

    def test_lab_3(self) -> None:
        self.scores_nothing(3, (1, 4))

    def test_lab_4(self) -> None:
        self.scores_nothing(4, (1, 4))

    def test_lab_5(self) -> None:
        self.scores_nothing(5, (1, 4))

    def test_lab_6(self) -> None:
        self.scores_nothing(6, (1, 4))


class Handout(unittest.TestCase):
    """`make handout`, and lab 1 in it, as a student does it."""

    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-handout-")
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name) / "tree"
        subprocess.run(["make", "-s", "-C", str(ROOT), "handout", f"OUT={cls.out}"], check=True, stdout=subprocess.DEVNULL, env=CLEAN)

    def listed(self) -> list[str]:
        return subprocess.run(["git", "-C", str(self.out), "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")

    def test_nothing_of_the_instructors_is_in_it(self) -> None:
        files = self.listed()
        self.assertIn("kern/ftrace/riscv64/patch.c", files)
        for name in ("grading/tests/test_wrong.py", "labs/instructor.mk", "kern/ftrace/fgraph.c", "kern/ftrace/arm64/graph.S"):
            self.assertNotIn(name, files)
        left = subprocess.run(["grep", "-rl", "LAB_START *[=!<>]", str(self.out), "--include=*.[chS]"], capture_output=True, text=True,
                              check=False).stdout
        self.assertEqual(left, "")
        log = subprocess.run(["git", "-C", str(self.out), "log", "--oneline"], capture_output=True, text=True, check=True).stdout
        self.assertEqual(len(log.splitlines()), 1)

    def test_student_files_hold_the_start(self) -> None:
        self.assertNotIn("mcount_trace", (self.out / "kern/ftrace/arm64/mcount.S").read_text())
        self.assertEqual((self.out / "kern/ftrace/riscv64/patch.c").read_text().count("return -ENOSYS;"), 6)

    def test_a_tree_that_is_there_is_left_alone(self) -> None:
        done = subprocess.run(["make", "-s", "-C", str(ROOT), "handout", f"OUT={self.out}"], capture_output=True, text=True, check=False,
                              env=CLEAN)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("there is something already", done.stderr)

    def grade(self) -> str:
        done = subprocess.run(["make", "-j2", "-C", str(self.out), "grade", *SEED_WORDS], capture_output=True, text=True, check=False,
                              env=CLEAN)
        return done.stdout + done.stderr

    def test_lab_1_can_be_done_in_it(self) -> None:
        (self.out / "build").mkdir()
        shutil.copy2(ROOT / "build/.setup", self.out / "build")
        self.assertIn("\n0 of 85 points.", self.grade())
        solution = "kern/ftrace/riscv64/mcount.S"
        text = subprocess.run(["unifdef", "-DLAB_START=0", str(ROOT / solution)], capture_output=True, text=True, check=False).stdout
        (self.out / solution).write_text(text)
        self.assertIn("\n85 of 85 points: full marks.", self.grade())


if __name__ == "__main__":
    unittest.main()

"""The student's tree has only the start of each lab's files. (`make test-labs` checks that the start scores no points.)"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from grading.tests.mutants import SEED
from grading.session import rubric
from qemu.machine import ROOT

SEED_WORDS = [f"SEED={SEED:016x}", "ARCH=riscv64", "SMP=1"]
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}


class RubricsOfStarts(unittest.TestCase):
    def test_every_lab_has_one_that_holds(self) -> None:
        self.assertEqual(sorted(rubric.LABS), list(range(1, 9)))
        for number in rubric.LABS:
            self.assertTrue(6 <= len(rubric.lab(number).rungs) <= 16, f"lab {number}")

    def test_the_handouts_ladder_is_the_rubrics(self) -> None:
        for number in rubric.LABS:
            lab = rubric.lab(number)
            handout = lab.folder / "handout.md"
            if handout.exists():
                ladder = "".join(re.findall(r"^##+ The ladder$.*?^##", handout.read_text(), re.M | re.S))
                self.assertEqual(re.findall(r"^\| ([\w -]+) \| (\d+) \|", ladder, re.M),
                                 [(rung.name, str(rung.points)) for rung in lab.rungs], f"lab {number}")

    def test_the_students_files_hold_the_start_of_that_lab_and_of_no_other(self) -> None:
        for number in rubric.LABS:
            for name in rubric.lab(number).files:
                found = set(re.findall(r"LAB_START [!=]= (\d)", (ROOT / name).read_text()))
                self.assertEqual(found, {str(number)}, name)

    def test_the_states_differ_in_bodies_and_nowhere_else(self) -> None:
        """And no function has an attribute that only the start's build needs."""
        for name in (name for number in rubric.LABS for name in rubric.lab(number).files if name.endswith(".c")):
            text = (ROOT / name).read_text()
            self.assertNotIn("__maybe_unused", text, name)
            for at in re.finditer(r"^#if LAB_START", text, re.M):
                self.assertEqual(re.findall(r"^[{}]", text[:at.start()], re.M)[-1:], ["{"], f"{name}: {text[at.start():][:200]}")


def resolved(name: str, lab: int) -> str:
    return subprocess.run(["unifdef", f"-DLAB_START={lab}", str(ROOT / name)], capture_output=True, text=True, check=False).stdout


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def runs(text: str) -> set[tuple[str, ...]]:
    """All groups of three consecutive lines that contain more than braces."""
    of = lines(text)
    return {three for three in zip(of, of[1:], of[2:]) if sum(map(len, three)) > 45}


class Handout(unittest.TestCase):
    """`make handout`, then labs 1, 6 and 7 in the handed-out tree, as a student uses it."""

    out: Path

    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-handout-")
        cls.addClassCleanup(folder.cleanup)
        cls.out = Path(folder.name) / "tree"
        subprocess.run(["make", "-s", "-C", str(ROOT), "handout", f"OUT={cls.out}"], check=True, stdout=subprocess.DEVNULL, env=CLEAN)
        (cls.out / "build").mkdir()
        shutil.copy2(ROOT / "build/.setup", cls.out / "build")
        (cls.out / "build/qemu-10").symlink_to(ROOT / "build/qemu-10")

    def git(self, *words: str) -> list[str]:
        return subprocess.run(["git", "-C", str(self.out), *words], capture_output=True, text=True, check=True).stdout.splitlines()

    def make(self, *words: str, tree: Path | None = None) -> str:
        done = subprocess.run(["make", "-j2", "-C", str(tree or self.out), *words], capture_output=True, text=True, check=False, env=CLEAN)
        return done.stdout + done.stderr

    def test_nothing_of_the_instructors_is_in_it(self) -> None:
        files = self.git("ls-files")
        self.assertIn("kern/ftrace/core/patch.c", files)
        self.assertIn("labs/6-graph-many-users/rubric.toml", files)
        for name in files:
            self.assertNotRegex(name, r"/wrong/|/equivalent$|^grading/(tests/|selftest/(wrong|muta))|instructor\.mk|handout\.py|(trace_graph_direct|graph_walk)\.c|instructors\.md|^\.ci/run")
        for name in ("docs/index.md", "docs/mkdocs.yml"):
            self.assertNotIn("instructors.md", (self.out / name).read_text(), name)
        for lab in (6, 7):
            self.assertIn(f"labs/staff/arm64/always{lab}/kern/ftrace/trace/trace_graph_direct.o", files)
        self.assertEqual(self.git("log", "--format=%an %s"), ["Callsite The labs of Callsite"])

    def test_no_text_of_a_solution_is_in_it(self) -> None:
        solution: set[tuple[str, ...]] = set()
        for number in rubric.LABS:
            for name in rubric.lab(number).files:
                text = (ROOT / name).read_text()
                for block in re.findall(r"^#if LAB_START (?:!= \d\n|== \d\n.*?^#else\n)(.*?)^#endif", text, re.S | re.M):
                    solution |= runs(block)
        self.assertGreater(len(solution), 300)
        for name in self.git("ls-files"):
            if (self.out / name).is_symlink():
                continue
            text = (self.out / name).read_bytes().decode("latin-1")
            self.assertNotIn("LAB_START", text if name.endswith((".c", ".h", ".S")) else "", name)
            self.assertEqual(runs(text) & solution, set(), name)

    def test_what_cannot_be_is_said(self) -> None:
        for words, sentence in ((["handout", f"OUT={self.out}"], "exists; name a new folder"),
                                (["handout", "OUT=build/never", "LABS=nonsense"], "give LABS=0-1 to LABS=0-8"),
                                (["STAFF=1"], "has no objects of the staff's")):
            self.assertIn(sentence, self.make(*words, tree=ROOT))
        self.assertIn("LAB=5 can have the staff's objects of these labs: 2 3 4.", self.make("LAB=5", "STAFF=5"))
        self.assertIn("LAB=1 can have the staff's objects of these labs: none.", self.make("LAB=1", "STAFF=1"))

    def solve(self, lab: int, *halves: int) -> None:
        for name in rubric.lab(lab).files if not halves else [name for n in halves for name in rubric.lab(lab).halves[n - 1].files]:
            (self.out / name).write_text(resolved(name, 0))
            self.addCleanup((self.out / name).write_text, resolved(name, lab))

    def hand_out_again(self, lab: int) -> None:
        for name in rubric.lab(lab).files:
            (self.out / name).write_text(resolved(name, lab))

    def grade_4(self, staff: str = "2,3", *more: str) -> str:
        """Both architectures, with one CPU: 45 points for the first half of 4, and 40 for the second without its schedules."""
        return self.make("grade", *(word for word in SEED_WORDS if "ARCH" not in word), "LAB=4", f"STAFF={staff}", *more)

    def test_the_start_of_every_lab_builds(self) -> None:
        for lab in rubric.LABS:
            self.assertNotIn("Error", self.make("-s", f"LAB={lab}", "ARCH=arm64"), f"lab {lab}")

    def test_lab_1_can_be_done_in_it(self) -> None:
        self.assertIn("\n0 of 85 points.", self.make("grade", *SEED_WORDS, "LAB=1"))
        self.solve(1)
        self.assertIn("\n85 of 85 points.", self.make("grade", *SEED_WORDS, "LAB=1"))

    def test_a_lab_beneath_that_is_as_handed_out_is_said_first(self) -> None:
        said = self.make("grade", *SEED_WORDS, "LAB=3")
        self.assertIn("\nLab 3 needs lab 1 and lab 2, of which kern/ftrace/core/records.c, kern/ftrace/riscv64/mcount.S, kern/ftrace/tools/recordmcount.c are as handed out: ", said)
        self.assertNotIn("what must hold", said)
        self.assertIn("\n0 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=3", "STAFF=1,2"))

    def test_the_first_half_of_lab_4_is_graded_without_the_second(self) -> None:
        said = self.grade_4()
        self.assertIn('\nLab 4: the half "registers" is graded. The half "many tracers" is not graded yet: '
                      "kern/ftrace/core/hash.c, kern/ftrace/ops/ops.c are as handed out, ", said)
        self.assertIn("\n0 of 190 points.", said)
        self.solve(4, 1)
        self.assertIn("\n90 of 190 points.", self.grade_4())
        self.assertIn('Lab 4: the half "registers" is graded. The half "many tracers" is not graded yet: ', self.of_what_is_handed_in())
        self.solve(4, 2)
        self.assertIn("\n170 of 170 points.", self.grade_4())
        self.assertIn("gets no points: the kernel is linked with the staff's objects for it (STAFF=4.2).", self.grade_4("2,3,4.2", "RUNG=1"))
        self.hand_out_again(4)
        self.solve(4, 1)
        self.assertIn("\n90 of 190 points.", self.grade_4())

    def of_what_is_handed_in(self) -> str:
        """What an instructor's tree says, a fresh one with the files of make submit in it."""
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
        self.assertIn('\nLab 4 needs its own half "registers", of which kern/ftrace/arm64/caller.S, kern/ftrace/riscv64/caller.S are as handed out: write that '
                      "first, or take the staff's objects, make grade LAB=4 STAFF=2,3,4.1.\n", said)
        self.assertNotIn("what must hold", said)
        self.assertIn("\n80 of 170 points.", self.grade_4("2,3,4.1"))

    def test_lab_6_can_be_done_with_the_staffs_labs_2_to_5(self) -> None:
        self.assertIn("\n0 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=6", "STAFF=2,3,4,5"))
        self.solve(6)
        self.assertIn("\n80 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=6", "STAFF=2,3,4,5"))

    def test_lab_7_can_be_done_with_the_staffs_labs_2_to_6(self) -> None:
        self.assertIn("\n0 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=7", "STAFF=2,3,4,5,6"))
        self.solve(7)
        self.assertIn("\n80 of 80 points.", self.make("grade", *SEED_WORDS, "LAB=7", "STAFF=2,3,4,5,6"))


if __name__ == "__main__":
    unittest.main()

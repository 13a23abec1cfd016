"""The student's tree has only the start of each lab's files. (`make test-labs` checks that the
start scores no points.)"""

from __future__ import annotations

import re
import unittest

from grading.checks import rubric
from grading.tests import handed_out
from grading.tests.handed_out import SEED_WORDS
from labs import handout
from qemu.machine import ROOT


class RubricsOfStarts(unittest.TestCase):
    def test_every_lab_has_one_that_holds(self) -> None:
        self.assertEqual(sorted(rubric.LABS), list(range(1, 9)))
        for number in rubric.LABS:
            self.assertTrue(6 <= len(rubric.lab(number).rungs) <= 16, f"lab {number}")

    def test_the_handouts_ladder_is_the_rubrics(self) -> None:
        for number in rubric.LABS:
            lab = rubric.lab(number)
            page = lab.folder / "handout.md"
            if page.exists():
                ladder = "".join(
                    re.findall(r"^##+ The ladder$.*?^##", page.read_text(), re.M | re.S))
                self.assertEqual(re.findall(r"^\| ([\w -]+) \| (\d+) \|", ladder, re.M),
                                 [(rung.name, str(rung.points)) for rung in lab.rungs],
                                 f"lab {number}")

    def test_the_students_files_hold_the_start_of_that_lab_and_of_no_other(self) -> None:
        for number in rubric.LABS:
            for name in rubric.lab(number).files:
                found = set(re.findall(r"LAB_START [!=]= (\d)", (ROOT / name).read_text()))
                self.assertEqual(found, {str(number)}, name)

    def test_the_states_differ_in_bodies_and_nowhere_else(self) -> None:
        """And no function has an attribute that only the start's build needs."""
        for name in (name for number in rubric.LABS for name in rubric.lab(number).files
                     if name.endswith(".c")):
            text = (ROOT / name).read_text()
            self.assertNotIn("__maybe_unused", text, name)
            for at in re.finditer(r"^#if LAB_START", text, re.M):
                self.assertEqual(
                    re.findall(r"^[{}]", text[:at.start()], re.M)[-1:], ["{"],
                    f"{name}: {text[at.start():][:200]}")


class InstructorsPages(unittest.TestCase):
    def test_a_page_for_the_instructor_is_in_no_contents_of_a_student(self) -> None:
        kept = {page.name for page in ROOT.glob("docs/*.md")
                if handout.goes(f"docs/{page.name}", set(), max(rubric.LABS))}
        self.assertIn("grading.md", kept)
        self.assertNotIn("what-the-grade-sees.md", kept)
        listed = re.findall(r"^ +- (\S+\.md)$", handout.contents("docs/mkdocs.yml"), re.M)
        self.assertEqual(set(listed), kept)
        linked = set(re.findall(r"\((\S+\.md)\)", handout.contents("docs/index.md")))
        self.assertLessEqual(linked, kept)


def lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def runs(text: str) -> set[tuple[str, ...]]:
    """All groups of three consecutive lines that contain more than braces."""
    of = lines(text)
    return {three for three in zip(of, of[1:], of[2:]) if sum(map(len, three)) > 45}


class Handout(handed_out.HandedOutTree):
    def test_nothing_of_the_instructors_is_in_it(self) -> None:
        files = self.git("ls-files")
        self.assertIn("kern/ftrace/core/patch.c", files)
        self.assertIn("labs/6-graph-many-users/rubric.toml", files)
        for name in files:
            self.assertNotRegex(
                name, r"/wrong/|/equivalent$|"
                r"^grading/(attacks/|tests/|selftest/(edits|wrong|muta))|"
                r"instructor\.mk|handout\.py|(trace_graph_direct|fgraph_one_walk)\.c|"
                r"\b(add|instructors|platforms|what-the-grade-sees)\.md|^\.ci/run")
        for name in handout.CONTENTS:
            self.assertNotRegex((self.out / name).read_text(),
                                r"\b(add|instructors|platforms|what-the-grade-sees)\.md", name)
        for lab in (6, 7):
            self.assertIn(f"labs/staff/arm64/always{lab}/kern/ftrace/trace/trace_graph_direct.o",
                          files)
        self.assertEqual(self.git("log", "--format=%an %s"), ["Callsite The labs of Callsite"])

    def test_no_text_of_a_solution_is_in_it(self) -> None:
        solution: set[tuple[str, ...]] = set()
        for number in rubric.LABS:
            for name in rubric.lab(number).files:
                text = (ROOT / name).read_text()
                for block in re.findall(
                        r"^#if LAB_START (?:!= \d\n|== \d\n.*?^#else\n)(.*?)^#endif", text,
                        re.S | re.M):
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
                                (["handout", "OUT=/proc/never"],
                                 "handout: /proc/never: No such file or directory\n"),
                                (["handout", "OUT=build/never",
                                  "LABS=nonsense"], "give LABS=0-1 to LABS=0-8"),
                                (["STAFF=1"], "has no objects of the staff's")):
            self.assertIn(sentence, self.make(*words, tree=ROOT))
        self.assertIn("LAB=5 can have the staff's objects of these labs: 2 3 4.",
                      self.make("LAB=5", "STAFF=5"))
        self.assertIn("LAB=1 can have the staff's objects of these labs: none.",
                      self.make("LAB=1", "STAFF=1"))

    def test_lab_1_can_be_done_in_it(self) -> None:
        self.assertIn("\n0 of 85 points.", self.make("grade", *SEED_WORDS, "LAB=1"))
        self.solve(1)
        self.assertIn("\n85 of 85 points.", self.make("grade", *SEED_WORDS, "LAB=1"))

if __name__ == "__main__":
    unittest.main()

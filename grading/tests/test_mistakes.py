"""Mistakes with a name: each name that a check uses has a section in the handout and a wrong
solution that shows it."""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from unittest import mock

from docs.book.pages import Book, mistakes
from grading import ROOMS
from grading.checks import rubric
from grading.checks.rubric import checks_of
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.report import report
from grading.selftest import edits, wrong
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

README = (wrong.ATTACKS / "README.md").read_text()


def sections(lab: int) -> set[str]:
    page = f"labs/{rubric.LABS[lab].name}/handout.md"
    return {m.slug for m in mistakes(Book(ROOT, ROOT / "build/docs")) if m.page == page}


class Named(unittest.TestCase):
    def test_each_section_is_recognised_by_a_check_or_is_advice(self) -> None:
        for lab in rubric.LABS:
            with self.subTest(lab=lab):
                known, advice = set(rubric.lab(lab).mistakes), set(
                    getattr(checks_of(lab), "ADVICE", ()))
                self.assertEqual(known & advice, set())
                self.assertEqual(sections(lab), known | advice)

    def test_each_that_is_recognised_has_a_wrong_solution(self) -> None:
        for lab in rubric.LABS:
            with self.subTest(lab=lab):
                made = {
                    slug
                    for w in wrong.shelf(lab) for slug in w.listed("Mistake") + w.listed("Maybe")
                }
                self.assertEqual(made, set(rubric.lab(lab).mistakes))

    def test_a_slug_in_code_is_one_of_its_labs(self) -> None:
        for lab, folder in rubric.LABS.items():
            said = set(
                re.findall(r'(?:mistake=|return )"([a-z]+(?:-[a-z]+)+)"',
                           (folder / "checks.py").read_text()))
            self.assertLessEqual(said, set(rubric.lab(lab).mistakes), f"lab {lab}")

    def test_a_slug_that_labs_share_is_one_of_some_lab(self) -> None:
        known = {slug for lab in rubric.LABS for slug in rubric.lab(lab).mistakes}
        for file in (file for room in ROOMS for file in (ROOT / "grading" / room).glob("*.py")):
            said = set(re.findall(r'(?:mistake=|return )"([a-z]+(?:-[a-z]+)+)"', file.read_text()))
            self.assertLessEqual(said, known, file.name)

    def test_a_mistake_that_this_lab_has_no_page_for_is_not_named(self) -> None:
        """Each register that labs 1 and 4 check has a mistake's name in lab 1."""
        rung = rubric.Rung("so", 1, "so", lambda e: Finding("so", mistake="saved-register-lost"))
        for lab, named in ((1, "saved-register-lost"), (4, "")):
            for why in ("", "ended"):
                e = Evidence("arm64", lab, 1, 0, mock.Mock(), Path(), why=why)
                with mock.patch.object(
                        rubric, "lab", return_value=replace(rubric.lab(lab),
                                                            ended=lambda e: "saved-register-lost")):
                    found = report._judge(rung, e, [])
                assert found
                self.assertEqual(found.mistake, named, f"lab {lab}, {why}")


class Shelves(unittest.TestCase):
    def test_each_head_is_understood(self) -> None:
        for lab in rubric.LABS:
            for w in wrong.shelf(lab):
                with self.subTest(lab=lab, name=w.name):
                    rungs = [r.name for r in rubric.lab(lab).rungs]
                    self.assertTrue(w.verdicts)
                    self.assertEqual(w.verdicts == [Verdict.PASS],
                                     w.name.startswith("right-") or f"`{w.name}`" in README)
                    self.assertNotIn(Verdict.HARNESS, w.verdicts)
                    self.assertEqual(w.listed("Rung"), [r for r in rungs if r in w.listed("Rung")])
                    self.assertLessEqual(set(w.listed("Also")), set(rungs) - set(w.listed("Rung")))
                    self.assertTrue(w.listed("Rung") or w.verdicts != [Verdict.FAIL])

    def test_each_edit_applies(self) -> None:
        for lab in rubric.LABS:
            for w in wrong.shelf(lab):
                with self.subTest(lab=lab, name=w.name):
                    self.assertEqual(list(edits.apply(w.edits, ROOT)), w.files)

    def test_each_file_is_used(self) -> None:
        for lab, folder in rubric.LABS.items():
            used = [w.path for w in wrong.shelf(lab) if w.path.parent == folder / "wrong"]
            self.assertEqual(sorted((folder / "wrong").iterdir()), used)

    def test_each_kind_of_attack_has_five_and_a_line_in_the_list(self) -> None:
        every = [w for lab in rubric.LABS for w in wrong.shelf(lab)
                 if w.path.is_relative_to(wrong.ATTACKS)]
        self.assertEqual({w.path for w in every} | {wrong.ATTACKS / "README.md"},
                         {path for path in wrong.ATTACKS.rglob("*") if path.is_file()})
        kinds = Counter(w.path.parent.name for w in every if w.arches == ARCHES)
        self.assertEqual(sorted(kinds), sorted(re.findall(r"^\| `([\w-]+)/` \|", README, re.M)))
        self.assertGreaterEqual(min(kinds.values()), 5, kinds)
        self.assertGreaterEqual(kinds.total(), 100)

    def test_only_what_a_student_hands_in_is_changed(self) -> None:
        for lab in rubric.LABS:
            for w in wrong.shelf(lab):
                self.assertTrue(w.files, w.name)
                self.assertLessEqual(set(w.files), set(rubric.lab(lab).files), w.name)


class Said(unittest.TestCase):
    def differs(self, head: str, *lost: str) -> str:
        with tempfile.TemporaryDirectory(prefix="callsite-test-") as name:
            path = Path(name) / "it.edit"
            path.write_text(f"Verdict: fail\n{head}\n\nA sentence.\n")
            return wrong.differs(wrong.Wrong(5, path),
                                 wrong.Outcome(Verdict.FAIL, list(lost), set(), 0, []))

    def test_a_rung_that_may_be_lost_or_not(self) -> None:
        head = "Rung: filter\nAlso: off"
        self.assertEqual(
            [self.differs(head, "off", "filter"),
             self.differs(head, "filter", "home")], ["", ""])
        self.assertIn("must begin with filter, and begin with life",
                      self.differs(head, "life", "off", "filter"))
        self.assertIn("must begin with filter, and begin with off",
                      self.differs("Rung: filter", "off", "filter"))

    def test_a_mistake_that_may_be_named_or_not(self) -> None:
        with tempfile.TemporaryDirectory(prefix="callsite-test-") as name:
            path = Path(name) / "it.edit"
            path.write_text("Verdict: time-out\nMistake: one\nMaybe: two\n\nA sentence.\n")
            said = [
                wrong.differs(wrong.Wrong(1, path), wrong.Outcome(Verdict.TIMEOUT, [], named, 0,
                                                                  []))
                for named in ({"one"}, {"one", "two"}, {"two"}, {"one", "three"})
            ]
        self.assertEqual([bool(why) for why in said], [False, False, True, True])

    def test_what_failed_is_told_again_before_the_count(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            told = [
                wrong.say(1, "arm64", name, wrong.Outcome(Verdict.FAIL, [], set(), 0, why), bad, 0)
                for name, bad, why in (("a", "because", ["and"]), *(("b", "", ["and"])
                                                                    for _ in range(100)))
            ]
            self.assertEqual(wrong.end(told, 3), 1)
        last = out.getvalue().splitlines()[-4:]
        self.assertIn("FAIL lab 1 arm64   a", last[0])
        self.assertEqual(last[1:], ["     because", "     and", "100 passed, 1 failed, 3 s"])


if __name__ == "__main__":
    unittest.main()

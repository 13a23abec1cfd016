"""The rules for the author of a lab's rubric.toml and checks.py."""

from __future__ import annotations

import argparse
import io
import tempfile
import unittest
from pathlib import Path

from rich.console import Console

from grading import __main__ as program
from grading.checks import rubric
from grading.evidence.finding import Finding
from grading.report import progress, report


class Rubrics(unittest.TestCase):
    def test_each_rung_has_a_check_and_each_check_a_rung(self) -> None:
        for number in rubric.LABS:
            names = [rung.name for rung in rubric.lab(number).rungs if not rung.tests]
            self.assertEqual(sorted(names), sorted(rubric.checks_of(number).CHECKS),
                             f"lab {number}")

    def test_a_rung_needs_rungs_that_are_above_it(self) -> None:
        for number in rubric.LABS:
            above: set[str] = set()
            for rung in rubric.lab(number).rungs:
                self.assertLessEqual({*rung.needs, *rung.follows}, above,
                                     f"lab {number}, {rung.name}")
                above.add(rung.name)

    def test_every_boot_is_judged_by_the_first_rung(self) -> None:
        """All other rungs need the first one."""
        for number in rubric.LABS:
            self.assertTrue(all(rubric.lab(number).rungs[0].judges(smp) for smp in (1, 4)),
                            f"lab {number}")

    def test_no_header_is_handed_in(self) -> None:
        """Trusted files would include a student's header."""
        for number in rubric.LABS:
            self.assertEqual(
                [name for name in rubric.lab(number).files if not name.endswith((".c", ".S"))], [])

    def test_a_rung_without_a_check_is_named(self) -> None:
        entry = {"name": "new", "points": 5, "promise": "so"}
        for checked, table in ((False, "CHECKS"), (True, "SEEN")):
            with self.assertRaises(ValueError) as caught:
                rubric._rung(dict(entry), {"new": lambda e: None} if checked else {},
                             {} if checked else {"new": ()})
            self.assertEqual(
                str(caught.exception),
                f"rubric.toml has a rung 'new', for which {table} of checks.py has no entry")

    def test_the_rungs_are_worth_100_points(self) -> None:
        for number in rubric.LABS:
            self.assertEqual(sum(rung.points for rung in rubric.lab(number).rungs), 100,
                             f"lab {number}")


class RubricHalves(unittest.TestCase):
    def test_lab_4_has_two_of_50_points(self) -> None:
        self.assertEqual([(half.number, half.name, half.points) for half in rubric.lab(4).halves],
                         [("4.1", "registers", 50), ("4.2", "many tracers", 50)])
        for number in set(rubric.LABS) - {4}:
            self.assertEqual([(half.number, half.name) for half in rubric.lab(number).halves],
                             [(str(number), "")])

    def test_those_after_the_last_of_the_students_own_are_not_judged(self) -> None:
        for staff, judged in ((), 2), (("4.2",), 1), (("4.1",), 2), (("4.1", "4.2"), 0):
            self.assertEqual(rubric.lab(4).judged(staff), rubric.lab(4).halves[:judged], staff)

    def graded(self, *staff: str) -> report.Grade:
        """A grade in which every rung that is judged is reached."""
        findings: report.Findings = [{1: None} for half in rubric.lab(4).judged(staff)
                                     for _ in half.rungs]
        return report.grade_of("arm64", 4, 1, [], findings, staff)

    def test_what_is_the_staffs_gets_no_points(self) -> None:
        for staff, points in ((), 100), (("4.2",), 50), (("4.1",), 50):
            grade = self.graded(*staff)
            self.assertEqual((grade.points, grade.possible, len(grade.results)), (points, 100, 14),
                             staff)

    def test_a_half_that_is_right_is_no_error(self) -> None:
        """make prints no error of its own then."""
        options = argparse.Namespace(out=Path(self.enterContext(tempfile.TemporaryDirectory())),
                                     submit=False)
        lost = self.graded("4.1")
        lost.results[0].findings[1] = Finding("so")
        for grade, status, said in (
            (self.graded(), 0, "100 of 100 points: full marks.\n"),
            (self.graded("4.1"), 0, "50 of 100 points: all of the half that is graded.\n"),
            (self.graded("4.2"), 0, "50 of 100 points: all of the half that is graded.\n"),
            (lost, 1, "50 of 100 points.\n")):
            printed = io.StringIO()
            self.assertEqual(program.verdict([grade], options, True, Console(file=printed)), status)
            self.assertTrue(printed.getvalue().startswith(said), printed.getvalue())

    def test_the_table_has_a_heading_and_the_points_of_each(self) -> None:
        report.show(self.graded("4.2"), Console(width=100, file=(said := io.StringIO())))
        self.assertRegex(said.getvalue(), r"registers +│ caller.S +│ +50/50 │")
        self.assertRegex(said.getvalue(), r"many tracers +│ hash.c, ops.c: the staff's +│ +0/50 │")
        self.assertNotIn("replay", said.getvalue())

    def test_the_half_that_waits_comes_next(self) -> None:
        progress.show([self.graded("4.2")], {"arm64": 50},
                      Console(width=200, file=(said := io.StringIO())))
        self.assertEqual(
            said.getvalue(),
            "Next: many tracers (50 points): kern/ftrace/core/hash.c, kern/ftrace/ops/ops.c\n")
        for staff in (), ("4.1",):
            progress.show([self.graded(*staff)], {"arm64": 50},
                          Console(width=200, file=(said := io.StringIO())))
            self.assertEqual(said.getvalue(), "")


if __name__ == "__main__":
    unittest.main()

"""The rules for the author of a lab's rubric.toml and checks.py."""

from __future__ import annotations

import unittest

from grading.session import rubric


class Rubrics(unittest.TestCase):
    def test_each_rung_has_a_check_and_each_check_a_rung(self) -> None:
        for number in rubric.LABS:
            names = [rung.name for rung in rubric.lab(number).rungs]
            self.assertEqual(sorted(names), sorted(rubric.checks_of(number).CHECKS), f"lab {number}")

    def test_a_rung_needs_rungs_that_are_above_it(self) -> None:
        for number in rubric.LABS:
            above: set[str] = set()
            for rung in rubric.lab(number).rungs:
                self.assertLessEqual({*rung.needs, *rung.follows}, above, f"lab {number}, {rung.name}")
                above.add(rung.name)

    def test_every_boot_is_judged_by_the_first_rung(self) -> None:
        """All other rungs need the first one."""
        for number in rubric.LABS:
            self.assertTrue(all(rubric.lab(number).rungs[0].judges(smp) for smp in (1, 4)), f"lab {number}")

    def test_no_header_is_handed_in(self) -> None:
        """Trusted files would include a student's header."""
        for number in rubric.LABS:
            self.assertEqual([name for name in rubric.lab(number).files if not name.endswith((".c", ".S"))], [])

    def test_a_rung_without_a_check_is_named(self) -> None:
        entry = {"name": "new", "points": 5, "promise": "so"}
        for checked, table in ((False, "CHECKS"), (True, "SEEN")):
            with self.assertRaises(ValueError) as caught:
                rubric._rung(dict(entry), {"new": lambda e: None} if checked else {}, {} if checked else {"new": ()})
            self.assertEqual(str(caught.exception), f"rubric.toml has a rung 'new', for which {table} of checks.py has no entry")

    def test_the_rungs_are_worth_100_points(self) -> None:
        for number in rubric.LABS:
            self.assertEqual(sum(rung.points for rung in rubric.lab(number).rungs), 100, f"lab {number}")


if __name__ == "__main__":
    unittest.main()

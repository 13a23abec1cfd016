"""What lateness costs: a policy, the time of a submission, and where the points after it are
written."""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import subprocess
import tempfile
import unittest
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch

from grading.classroom import __main__ as main
from grading.classroom import late, one, pages, results
from grading.classroom.intake import Taken
from grading.classroom.layouts import MOODLE, Submission

DEADLINE = late.moment("2030-02-01 23:59Z")
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


class Policies(unittest.TestCase):
    def left(self, text: str, after: timedelta, points: int = 80) -> int:
        return late.policy(text).points(points, 100, DEADLINE + after, DEADLINE)

    def test_each_unit_that_has_begun_costs(self) -> None:
        for after, points in ((-DAY, 80), (timedelta(0), 80), (timedelta(microseconds=1), 70),
                              (DAY, 70), (DAY + MINUTE, 60), (20 * DAY, 0)):
            self.assertEqual(self.left("10%/day", after), points, after)
        self.assertEqual([self.left("5%/hour", HOUR * n) for n in (1, 2, 3)], [75, 70, 65])
        self.assertEqual(self.left("25 % / week", 8 * DAY), 30)

    def test_at_most_and_the_first_minutes(self) -> None:
        text = "10%/day, at most 50%, after 15 minutes"
        for after, points in ((15 * MINUTE, 80), (16 * MINUTE, 70), (DAY + MINUTE, 60), (100 * DAY,
                                                                                         30)):
            self.assertEqual(self.left(text, after), points, after)

    def test_the_parts_of_a_policy_may_have_any_order(self) -> None:
        for text in ("10%/day, after 15 minutes, at most 50%",
                     "at most 50 %,after 15 minutes,10 % / day"):
            self.assertEqual(late.policy(text),
                             late.policy("10%/day, at most 50%, after 15 minutes"))

    def test_a_date_alone_is_the_end_of_that_day(self) -> None:
        self.assertEqual(late.until("2030-02-01"), datetime(2030, 2, 1, 23, 59, 59).astimezone())
        self.assertEqual(late.until("2030-02-01 00:00Z"), late.moment("2030-02-01 00:00Z"))
        words = [
            "grading.classroom", "--lab", "3", "--in", "a", "--out", "b", "--late", "10%/day",
            "--deadline", "2030-02-01", "--before", "2030-02-01"
        ]
        with patch("sys.argv", words):
            options = main.arguments()
        self.assertEqual((options.deadline, options.before), (late.until("2030-02-01"),) * 2)

    def test_an_argument_that_cannot_be_understood_is_answered_with_one_that_can(self) -> None:
        words = ["grading.classroom", "--lab", "3", "--in", "a", "--out", "b"]
        right = {
            "LATE": "'10%/day, at most 50%, after 15 minutes'", "DEADLINE": "'2030-02-01 23:59'",
            "BEFORE": "'2030-02-01 23:59'", "JOBS": "4", "LOAD": "80%"
        }
        for name, text in (("LATE", "lots"), ("LATE", "500%/day"),
                           ("LATE", "10%/day, after 99999999999 weeks"), ("DEADLINE", "tomorrow"),
                           ("DEADLINE", "0001-01-01"), ("BEFORE", "2030-02-31"), ("JOBS", "none"),
                           ("JOBS", "-1"), ("LOAD", "wet"), ("LOAD", "0"), ("LOAD", "-5%")):
            with patch("sys.argv", [*words, f"--{name.lower()}={text}"]), patch(
                    "sys.stderr", io.StringIO()) as said, self.assertRaises(SystemExit) as ended:
                main.arguments()
            self.assertEqual((said.getvalue(), ended.exception.code), (
                f"grade-class: {name}={text} is not understood: write for example "
                f"{name}={right[name]}\n",
                2))
        with patch("sys.argv", [*words, "--late", "10%/day"]), patch(
                "sys.stderr", io.StringIO()) as said, self.assertRaises(SystemExit):
            main.arguments()
        self.assertEqual(
            said.getvalue(),
            "grade-class: LATE and DEADLINE belong together: write for example LATE=10%/day "
            "DEADLINE='2030-02-01 23:59'\n"
        )

    def test_a_fraction_of_a_point_stays(self) -> None:
        self.assertEqual([self.left("2.5%/day", DAY * n) for n in (1, 2, 3)], [78, 75, 73])
        self.assertEqual(self.left("0.1%/minute", 30 * MINUTE), 77)

    def test_what_is_no_policy_and_what_is_no_time(self) -> None:
        for text in ("", "10", "10%", "10%/fortnight", "-10%/day", "10%/day, at most",
                     "at most 50%", "10%/day, 20%/day", "101%/day", "10%/day, at most 150%",
                     "10%/day, after 5 moons"):
            with self.assertRaises(ValueError, msg=text):
                late.policy(text)
        for text in ("", "tomorrow", "2030-13-01"):
            with self.assertRaises(ValueError):
                late.moment(text)
        self.assertEqual(late.moment("2030-02-01 23:59"), datetime(2030, 2, 1, 23, 59).astimezone())

    def test_policy_and_deadline_belong_together(self) -> None:
        words = ["grading.classroom", "--lab", "3", "--in", "a", "--out", "b"]
        both = ["--late", "10%/day", "--deadline", "2030-02-01 23:59Z"]
        for more in (both[:2], both[2:], ["--late", "10", *both[2:]]):
            with patch("sys.argv",
                       [*words, *more]), patch("sys.stderr",
                                               io.StringIO()), self.assertRaises(SystemExit):
                main.arguments()
        with patch("sys.argv", [*words, *both]):
            self.assertEqual((main.arguments().late, main.arguments().deadline),
                             (late.policy("10%/day"), DEADLINE))


class Times(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for day, name in enumerate(("old", "new")):
            (self.folder / name).write_text("")
            os.utime(self.folder / name, (DEADLINE.timestamp() + day * 86400,) * 2)
        (self.folder / "link").symlink_to("/dev/null")

    def submission(self, path: str = "", marked: bool | None = None,
                   submitted: str = "") -> Submission:
        return Submission("ann", "Ann", "17", self.folder / path, marked, submitted,
                          platform=MOODLE)

    def test_whose_clock_says_when(self) -> None:
        written = "2030-02-01 20:00:00.123456000 -03:00"
        for submission, committed, after, clock in ((self.submission(submitted=written),
                                                     "2020-01-01T00:00:00Z",
                                                     -59 * MINUTE + timedelta(microseconds=123456),
                                                     "platform"),
                                                    (self.submission(), "2030-02-03T00:59:00+01:00",
                                                     DAY, "commit"), (self.submission(),
                                                                      "99999-01-01T00:00:00Z", DAY,
                                                                      "file"),
                                                    (self.submission(), "", DAY,
                                                     "file"), (self.submission("old"), "",
                                                               timedelta(0), "file")):
            when, who = late.submitted(submission, Taken(committed=committed))
            self.assertEqual((when and when - DEADLINE, who), (after, clock))

    def test_no_time_of_a_file_ends_the_class(self) -> None:
        for seconds, year in ((2**50, 2106), (-2**50, 1970)):
            with patch("grading.classroom.late.os.lstat", return_value=os.stat_result(
                (0o100644, 0, 0, 1, 0, 0, 0, 0, seconds, 0))):
                when, _ = late.submitted(self.submission(), Taken())
            self.assertEqual(when and when.year, year)

    def test_a_tree_that_is_too_deep_has_no_date(self) -> None:
        at = deep = self.folder / "deep"
        deep.mkdir()
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(at)
        for _ in range(1900):
            os.mkdir("a")
            os.chdir("a")
        os.chdir(before)
        try:
            self.assertEqual(late.submitted(self.submission("deep"), Taken()), (None, ""))
        finally:
            subprocess.run(["rm", "-r", str(deep)], check=True)

    def test_nothing_that_was_handed_in_has_no_date(self) -> None:
        (self.folder / "empty").mkdir()
        self.assertEqual(
            late.applied(late.policy("10%/day"), DEADLINE, self.submission("empty"), Taken(), 0,
                         100), late.Late("", "", 0))

    def test_a_platform_that_marks_late_submissions_says_which_are(self) -> None:
        """Its files' times are those of the download, some days later."""
        (self.folder / "downloaded").touch()
        rule = late.policy("10%/day, after 15 minutes")
        for path, marked, points in (("new", None, 70), ("new", True, 70), ("new", False, 80),
                                     ("old", True, 70), ("old", None, 80), ("downloaded", True,
                                                                            70)):
            got = late.applied(rule, DEADLINE, self.submission(path, marked), Taken(), 80, 100)
            self.assertEqual(got.points, points, (path, marked))
            self.assertEqual((got.submitted, got.clock) if marked else "",
                             ("", "platform") if marked else "")

    def test_the_points_of_the_grade_stay_and_nothing_is_graded_again(self) -> None:
        entry = main.Entry(self.submission("new"), Taken({"kern/x.c": b"x"}), "0" * 64)
        whole = {
            "format": 1, "key": entry.key, "lab": 3, "state": "graded", "points": 80,
            "possible": 100, "flaky": False, "said": "", "arches": [], "attempts": [],
            "cost": {"processor": 0, "build": 0, "attempts": [], "seconds": 0}
        }
        one.write(self.folder, entry.key, whole)
        options = argparse.Namespace(lab=3, out=self.folder, late=None, deadline=DEADLINE)
        for text, final in (("", "80"), ("10%/day", "70"), ("20%/day", "60")):
            options.late = late.policy(text) if text else None
            self.assertEqual(main.write_jobs(options, {"seeds": []}, [entry], Path()), [])
            rows = main.rows(options, [entry])
            results.write(self.folder, 3, rows)
            pages.write(self.folder, 3, rows)
            def read(name: str) -> dict[str, str]:
                with (self.folder / name).open(newline="") as file:
                    return list(csv.DictReader(file))[-1]
            table, student = read("class.csv"), self.folder / "students/ann"
            self.assertEqual((table["points"], table["after the late policy"], table["by"]),
                             ("80", final, "file" if text else ""))
            if text:
                self.assertIn(
                    f"; the deadline was 2030-02-01 23:59:00+00:00. The late policy ({text}) takes "
                    f"off",
                    (student / "feedback.md").read_text())
            self.assertEqual((read("canvas.csv")["Lab 3"], read("moodle.csv")["Grade"]),
                             (final, final))
            self.assertEqual(
                json.loads((student / "results.json").read_text())["score"], int(final))
            self.assertIn("80 of 100 points" + (f", and {final} after" if text else "</"),
                          (student / "feedback.html").read_text())
            self.assertEqual(len((student / "history.jsonl").read_text().splitlines()), 1)
        broken = replace(
            rows[0], result=whole | {"points": None},
            late=late.applied(options.late, DEADLINE, entry.submission, entry.taken, None, 100))
        self.assertIsNone(broken.final)


if __name__ == "__main__":
    unittest.main()

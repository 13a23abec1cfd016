"""What lateness costs, computed after the grades. It changes no result, so another policy or
deadline grades nothing again.

    LATE='10%/day, at most 50%, after 15 minutes' DEADLINE='2030-02-01 23:59'

takes 10 % of the possible points off for each day that has begun since the deadline, and at most 50
%; a submission of the first 15 minutes is not late. The three parts may have any order. Units are
minute, hour, day and week. A deadline without a time zone is in that of this machine; a date alone
is the end of that day.
"""

import os
import re
import stat
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from pathlib import Path

from grading.classroom.intake import Taken
from grading.classroom.layouts import Submission

UNITS = {
    "minute": timedelta(minutes=1), "hour": timedelta(hours=1), "day": timedelta(days=1),
    "week": timedelta(weeks=1)
}
PARTS = (re.compile(r"(?P<percent>\d+(\.\d+)?)\s*%\s*/\s*(?P<unit>\w+)"),
         re.compile(r"at most (?P<most>\d+(\.\d+)?)\s*%"),
         re.compile(r"after (?P<grace>\d{1,5}) (?P<of>\w+?)s?"))


@dataclass(frozen=True)
class Policy:
    percent: Fraction  # of the possible points, for each unit that has begun
    unit: timedelta
    most: Fraction = Fraction(100)
    grace: timedelta = timedelta()
    text: str = field(default="", compare=False)  # as it was typed

    def points(self, points: int, possible: int, submitted: datetime, deadline: datetime) -> int:
        """What is left of the points. A fraction of a point is not taken off."""
        late = submitted - deadline
        if late <= self.grace:
            return points
        percent = min(self.most, self.percent * -(-late // self.unit))
        return max(0, points - int(possible * percent / 100))


def policy(text: str) -> Policy:
    """Raises ValueError."""
    said: dict[str, str] = {}
    for part in text.split(","):
        found = next((match for form in PARTS if (match := form.fullmatch(part.strip()))), None)
        if not found or not said.keys().isdisjoint(found.groupdict()):
            raise ValueError(text)
        said |= found.groupdict()
    percent, most = Fraction(said.get("percent", 101)), Fraction(said.get("most", 100))
    unit, of = UNITS.get(said.get("unit", "")), UNITS.get(said.get("of", "day"))
    if max(percent, most) > 100 or not unit or not of:
        raise ValueError(text)
    return Policy(percent, unit, most, int(said.get("grace", 0)) * of,
                  ", ".join(part.strip() for part in text.split(",")))


def moment(text: str) -> datetime:
    """Raises ValueError. Gradescope writes 2030-01-31 22:59:00.123456000 Z."""
    when = datetime.fromisoformat(re.sub(r"\s+(?=(Z|[+-]\d\d:?\d\d)$)", "", text.strip()))
    return when if when.tzinfo else when.astimezone()


def until(text: str) -> datetime:
    """A moment; of a date alone, the last second of that day. Raises ValueError."""
    try:
        return datetime.combine(date.fromisoformat(text.strip()), time(23, 59, 59)).astimezone()
    except ValueError:
        return moment(text)


def submitted(submission: Submission, taken: Taken) -> tuple[datetime | None, str]:
    """When it was handed in, and what says so: the learning platform, the commit, or the newest of
    the files. Nothing says it if there is no file."""
    for text, clock in ((submission.submitted, "platform"), (taken.committed, "commit")):
        try:
            return moment(text), clock
        except ValueError:
            pass  # there is none, or a student gave the commit a date that is none
    try:
        paths = [Path(at, name) for at, _, names in os.walk(submission.path)
                 for name in names] or [submission.path]
        times = [found.st_mtime for found in map(os.lstat, paths) if stat.S_ISREG(found.st_mode)]
    except (OSError, RecursionError):
        # a path that is too long, or too deep: intake.py has refused it
        return None, ""
    if not times:
        return None, ""
    # an archive gives its files what times it likes
    return datetime.fromtimestamp(min(max(0, *times), 2**32)).astimezone(), "file"


@dataclass(frozen=True)
class Late:
    """What the policy makes of one submission."""

    submitted: str  # '' if the platform only marks whether it is late, or if there is no file
    clock: str
    points: int | None
    deadline: str = ""
    policy: str = ""


def applied(rule: Policy, deadline: datetime, submission: Submission, taken: Taken,
            points: int | None, possible: int) -> Late:
    """Where a platform marks late submissions, only these are late, by one unit: the times of their
    files are those of the download."""
    if submission.late is False:
        return Late("", "platform", points)
    when, clock = (deadline + rule.grace + timedelta(seconds=1),
                   "platform") if submission.late else submitted(submission, taken)
    if not when:
        return Late("", "", points)
    return Late("" if submission.late else when.isoformat(" ", "seconds"), clock,
                None if points is None else rule.points(points, possible, when, deadline),
                deadline.isoformat(" ", "seconds"), rule.text)

"""What a class's grade leaves in OUT: tables for a spreadsheet and for the learning platforms, of
one Row for each student."""

import csv
import io
import json
import re
import xml.etree.ElementTree as xml
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.classroom.intake import Taken
from grading.classroom.late import Late
from grading.classroom.layouts import CANVAS, MOODLE, Submission
from grading.classroom.one import GRADED, HARNESS
from qemu.disk import write_whole
from qemu.machine import ARCHES


@dataclass(frozen=True)
class Row:
    submission: Submission
    taken: Taken
    result: dict[str, Any]  # result.schema.json
    history: list[dict[str, Any]]  # of the student's results; the last one is this one
    late: Late | None = None  # if there is a policy
    is_new: bool = False  # did this run add the last one?

    @property
    def points(self) -> int | None:
        points = self.result["points"]
        return None if points is None else int(points)

    @property
    def final(self) -> int | None:
        """The points after the late policy."""
        return self.late.points if self.late else self.points

    @property
    def state(self) -> str:
        return "flaky" if self.result["flaky"] else str(self.result["state"])

    @property
    def ungraded(self) -> dict[str, str]:
        """What happened on each architecture that has no grade, while another one may have one."""
        if self.result["state"] != GRADED:
            return {}
        graded = {of["arch"] for of in self.result["arches"]}
        return {arch: "cannot be judged" if f"{arch}: fail: " in self.result["said"]
                else "does not build" for arch in ARCHES if arch not in graded}

    @property
    def possible_of_arch(self) -> int:
        return int(self.result["possible"]) // len(ARCHES)

    @property
    def why(self) -> str:
        """The first thing that is wrong, in one line."""
        lost = [f"{rung['name']} ({arch['arch']}): {why}" for arch in self.result["arches"]
                for rung in arch["rungs"] if rung["cause"] for why in rung["why"] if why]
        said = [line for line in self.result["said"].splitlines() if line.strip()]
        said = [line for line in said if "build failure" in line or "error" in line] or said
        if self.ungraded:
            arch, happened = next(iter(self.ungraded.items()))
            return f"{arch}: {happened}: {(said or [''])[0].removeprefix(f'{arch}: ')}"
        return (lost or said or [""])[0].partition("\n")[0]

    def of(self, arch: str) -> int | str:
        """The points of an architecture; without a grade, what happened; after an error of the
        harness, nothing."""
        happened = self.ungraded.get(arch, "" if self.result["state"] == HARNESS else self.state)
        return next((a["points"] for a in self.result["arches"] if a["arch"] == arch), happened)


def cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula, also one that separates cells by semicolons
    or tabs."""
    if not isinstance(value, str):
        return value
    return re.sub(r"(^|[;|\t\r\n])(\s*[=+\-@]|[\t\r])", r"\1'\2", value)


def table(path: Path, lines: Iterable[Iterable[object]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text).writerows([cell("" if value is None else value) for value in line]
                               for line in lines)
    write_whole(path, text.getvalue())


def write(out: Path, lab: int, rows: list[Row]) -> None:
    possible = rows[0].result["possible"] if rows else 0
    heads = ("student", "name", "id", "late", "state", "points", "possible", *ARCHES, "before",
             "not handed in", "names", "ignored files", "first error", "after the late policy",
             "submitted", "by")
    lines = ((r.submission.student, r.submission.name, r.submission.ident,
              "late" if r.submission.late else "", r.state, r.points, r.result["possible"],
              *map(r.of, ARCHES), r.history[-2]["points"] if len(r.history) > 1 else "",
              " ".join(r.taken.missing), "; ".join(r.taken.notes), r.taken.ignored_count, r.why,
              r.final,
              r.late.submitted if r.late else "", r.late.clock if r.late else "") for r in rows)
    table(out / "class.csv", [heads, *lines])
    table(
        out / "canvas.csv",
        [
            ("Student", "ID", "SIS User ID", "SIS Login ID", "Section", f"Lab {lab}"),
            ("Points Possible", "", "", "", "", possible),
            # an empty cell would remove the grade that Canvas has
            *((r.submission.name, r.submission.ident if r.submission.platform == CANVAS else "", "",
               "", "", r.final) for r in rows if r.final is not None)
        ])
    moodle(out / "moodle.csv", [row for row in rows if row.submission.platform == MOODLE])
    junit(out / "junit.xml", lab, rows)
    for row in rows:
        gradescope(out / "students" / row.submission.student / "results.json", row)
        prairielearn(out / "students" / row.submission.student / "prairielearn.json", row)


def moodle(path: Path, rows: list[Row]) -> None:
    """
    A grading worksheet: Moodle finds the columns by these names, and takes no file without the last
    one. It leaves out a line without a grade, and finds a student only by its own number: after
    another platform's download there is no file.
    """
    path.unlink(missing_ok=True)
    if rows:
        table(path, [("Identifier", "Full name", "Grade", "Maximum Grade", "Last modified (grade)"),
                     *((f"Participant {r.submission.ident}", r.submission.name, r.final,
                        r.result["possible"], "") for r in rows)])


def for_student(printed: str) -> str:
    """What a grade printed, without the lines that name files of OUT: a student does not have
    these."""
    return re.sub(r"^log: attempt-\d+/\S+\n?", "", printed, flags=re.M)


def lateness(row: Row) -> str:
    """Why the points after the late policy are fewer, or ''."""
    if (row.late is None or row.points is None or row.late.points is None
            or row.late.points == row.points):
        return ""
    clock = {"platform": "the learning platform", "commit": "the date of the commit",
             "file": "the time of the newest file"}[row.late.clock]
    handed_in = (f"Handed in on {row.late.submitted}, according to {clock}"
                 if row.late.submitted else "Marked as late by the learning platform")
    return (f"{handed_in}; the deadline was {row.late.deadline}. "
            f"The late policy ({row.late.policy}) takes off {row.points - row.late.points} points.")


def tests(row: Row) -> list[dict[str, Any]]:
    """An entry for each rung, and one for each architecture without a grade."""
    ungraded = [{"name": f"{arch}: {happened}", "score": 0, "max_score": row.possible_of_arch,
                 "promise": f"the files build for {arch}, and the kernel can be judged",
                 "why": row.result["said"]} for arch, happened in row.ungraded.items()]
    return ungraded + [{"name": f"{arch['arch']}: {rung['name']}", "score": rung["points"],
                        "max_score": rung["possible"], "promise": rung["promise"],
                        "why": next((why for why in rung["why"] if why), "")}
                       for arch in row.result["arches"] for rung in arch["rungs"]]


def gradescope(path: Path, row: Row) -> None:
    """The form of https://gradescope-autograders.readthedocs.io/en/latest/specs/. Without a score
    there is no file."""
    path.unlink(missing_ok=True)
    if row.points is None:
        return
    said = [row.why if not row.result["arches"] else "",
            f"{row.points} points, and {row.final} after the late policy. {lateness(row)}"
            if row.final != row.points else ""]
    about = {"key": row.result["key"], "state": row.state,
             "seeds": [a["seed"] for a in row.result["attempts"]]}
    of_tests = [{"name": t["name"], "score": t["score"], "max_score": t["max_score"],
                 "output": f"{t['promise']}\n{t['why']}".strip(), "output_format": "text",
                 "status": "passed" if t["score"] else "failed"} for t in tests(row)]
    document = {"score": row.final, "output": "\n".join(filter(None, said)),
                "output_format": "text", "extra_data": about, "tests": of_tests}
    write_whole(path, json.dumps(document, indent=1) + "\n")


def prairielearn(path: Path, row: Row) -> None:
    """The form of https://docs.prairielearn.com/externalGrading/. What could not be graded costs no
    attempt; without a score there is no file."""
    path.unlink(missing_ok=True)
    if row.final is None:
        return
    graded = bool(row.result["arches"])
    about = {"score": row.final / row.result["possible"]
             } if graded else {"format_errors": [f"{row.state}: {row.result['said']}".strip(": ")]}
    printed = [
        f"{arch}: {happened}\n{row.result['said']}\n" for arch, happened in row.ungraded.items()
    ] + [for_student(a["printed"]) for a in row.result["attempts"][:1]]
    write_whole(path, json.dumps({"gradable": graded, **about, "output": "".join(printed),
                                  "tests": [{"name": t["name"], "description": t["promise"],
                                             "points": t["score"], "max_points": t["max_score"],
                                             "message": t["why"]} for t in tests(row)]}, indent=1)
                + "\n")


def junit(path: Path, lab: int, rows: list[Row]) -> None:
    """A suite for each student, a case for each rung."""
    root = xml.Element("testsuites", name=f"Lab {lab}")
    for row in rows:
        cases = tests(row)
        failed = row.result["state"] not in ("graded", "harness error")
        suite = xml.SubElement(root, "testsuite", name=row.submission.student,
                               tests=str(len(cases) or 1),
                               failures=str(sum(not c["score"] for c in cases) + failed),
                               errors=str(int(row.points is None)))
        for case in cases:
            one = xml.SubElement(suite, "testcase", classname=row.submission.student,
                                 name=case["name"])
            if not case["score"]:
                xml.SubElement(one, "failure", message=case["promise"]).text = case["why"]
        if not cases:
            one = xml.SubElement(suite, "testcase", classname=row.submission.student,
                                 name="submission")
            xml.SubElement(one, "error" if row.points is None else "failure",
                           message=row.state).text = row.result["said"]
    write_whole(path, xml.tostring(root, encoding="utf-8", xml_declaration=True))


def states(rows: list[Row]) -> str:
    """How many have each state: `8 graded (does not build on riscv64: 1), 1 refused`."""
    said = []
    for state, count in Counter(row.state for row in rows).most_common():
        ungraded = Counter(f"{happened} on {arch}" for row in rows if row.state == state
                           for arch, happened in row.ungraded.items())
        said.append(f"{count} {state}" + (
            f" ({', '.join(f'{what}: {n}' for what, n in ungraded.items())})" if ungraded else ""))
    return ", ".join(said)


def say(rows: list[Row], out: Path) -> None:
    """The class in some lines, for the terminal."""
    print(f"{len(rows)} submission{'s' * (len(rows) != 1)}: {states(rows)}")
    for row in rows:
        if row.is_new and len(
                row.history) > 1 and row.history[-1]["points"] != row.history[-2]["points"]:
            before, now = ("no score" if points is None else f"{points} points"
                           for points in (row.history[-2]["points"], row.points))
            print(f"changed: {row.submission.student}, {before} to {now}")
        if row.state in ("flaky", "harness error"):
            at = out / "graded" / row.result["key"]
            print(f"look at: {row.submission.student}, {row.state}" +
                  (f": {at}" if at.exists() else ""))
    print(f"results: {out}/class.csv")

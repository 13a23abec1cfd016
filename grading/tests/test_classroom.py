"""A class's grade: the walls, what a submission's result says, and that nothing of a student's
reaches a page, a table or a terminal as more than text."""

from __future__ import annotations

import argparse
import base64
import csv
import dataclasses
import errno
import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import unittest
import xml.etree.ElementTree as xml
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

from jsonschema import Draft202012Validator  # type: ignore[import]

from grading.checks import rubric
from grading.classroom import __main__ as main
from grading.classroom import intake, late, likeness, one, pages, results, tree
from grading.classroom.intake import Taken
from grading.classroom.layouts import CANVAS, GRADESCOPE, MOODLE, Submission
from grading.tests.needs import user_namespaces
from kern.ftrace.tools import walls
from qemu.machine import ARCHES, ROOT

LIMITS = walls.Limits(seconds=60, file=1 << 20, memory=1 << 30)
HOSTILE = "<script>alert(1)</script>\x1b[2J\"'&```"
SEEDS = ["0000000000000001", "0000000000000002"]
RUNGS = (("called", 5), ("life", 5))


def grade(arch: str, *reached: bool, verdict: str = "fail") -> dict[str, Any]:
    """An entry of grade.json."""
    rungs = [{
        "name": name, "promise": f"{name} holds", "points": points * ok, "possible": points,
        "boots": {"1": None if ok else f"lost: {HOSTILE}"}, "cause": not ok,
        "mistakes": {} if ok else {"no-sync": "labs/3/handout.md#no-sync"}
    } for (name, points), ok in zip(RUNGS, reached)]
    return {
        "arch": arch, "lab": 3, "seed": SEEDS[0], "verdict": verdict,
        "points": sum(r["points"] for r in rungs), "possible": 10, "replay": "make", "rungs": rungs,
        "boots": [{"log": f"/x/grade/{arch}-lab3-1cpu.log", "verdict": verdict, "why": ""}]
    }


class WithFolder(unittest.TestCase):
    def setUp(self) -> None:
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)


@user_namespaces
class Walls(WithFolder):
    def run_within(self, *command: str, limits: walls.Limits = LIMITS) -> walls.Ended:
        return walls.run(list(command), [], limits, walls.SUBMISSION, writes=[self.folder],
                         at=self.folder)

    def test_what_is_seen_and_what_is_not(self) -> None:
        """No home, no network, no process of the host's, no file of the host's but the system's."""
        secret = Path(tempfile.mkdtemp()) / "secret"
        secret.write_text("x")
        said = self.run_within(
            "sh", "-c",
            f"echo ok > here; cat {secret} {ROOT}/Makefile /etc/hostname /etc/passwd; ls /root "
            f"/home; ls /proc | grep -c '^[0-9]'; cat /proc/net/dev; id -u; touch /usr/x"
        )
        self.assertEqual((self.folder / "here").read_text(), "ok\n")
        self.assertEqual(said.errors.count(b"No such file"), 6, said.errors)
        self.assertIn(b"Read-only file system", said.errors)
        lines = said.output.decode().splitlines()
        self.assertLess(int(lines[0]), 10)
        self.assertEqual([line.split(":")[0].strip() for line in lines[3:-1]], ["lo"])
        self.assertEqual(lines[-1], str(walls.NOBODY))

    def test_a_program_that_goes_on_in_the_background_ends_too(self) -> None:
        # another run of this test may have processes of its own
        number = str(900000000 + os.getpid())
        for command, seconds, status in ((f"sleep {number} & setsid sleep {number} & exit 3", 60,
                                          3), (f"trap '' TERM; sleep {number}", 1, None)):
            ended = self.run_within("sh", "-c", command, limits=walls.Limits(seconds, 1 << 20))
            self.assertEqual(ended.status, status)
        self.assertNotIn(number.encode(), b"".join(self.command_lines()))

    def test_what_is_ended_before_its_walls_are_built_ends_too(self) -> None:
        """The first process asks the host to end it with bubblewrap, but only when the walls are
        built. In this test it is ended before."""
        reads, writes = os.pipe()
        starts: Any = subprocess.Popen

        def waits(command: list[str], **more: Any) -> Any:
            at = command.index("bwrap") + 1
            return starts([*command[:at], "--block-fd",
                           str(reads), *command[at:]],
                          **{**more, "pass_fds": [*more["pass_fds"], reads]})

        with patch("kern.ftrace.tools.walls.subprocess.Popen", waits):
            ended = self.run_within("touch", str(self.folder / "begun"),
                                    limits=walls.Limits(0, 1 << 20))
        for end in (reads, writes):
            os.close(end)
        self.assertEqual((ended.status, ended.over, os.listdir(self.folder)),
                         (None, "it took more than 0 seconds", []))

    @staticmethod
    def command_lines() -> list[bytes]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                found.append(path.read_bytes())
            except OSError:
                pass
        return [
            line for line in found
            if line.startswith((b"sleep\0", b"/usr/bin/python3\0-c\0import time"))
        ]

    def test_limits(self) -> None:
        self.assertNotEqual(
            self.run_within("sh", "-c", "head -c 2000000 /dev/zero > large").status, 0)
        self.assertEqual((self.folder / "large").stat().st_size, LIMITS.file)
        self.assertNotEqual(
            self.run_within("/usr/bin/python3", "-c", "bytearray(2 << 30)").status, 0)
        bomb = self.run_within(
            "/usr/bin/python3", "-c",
            "import os, time\nfor n in range(600):\n if not os.fork(): time.sleep(100)",
            limits=walls.Limits(60, 1 << 20, processes=64))
        if os.geteuid():  # the host's root is not counted
            self.assertIn(b"Resource temporarily unavailable", bomb.errors)

    def test_all_processes_together_have_a_limit_of_memory(self) -> None:
        """Each has less, and two have lost their parent."""
        number = str(800000000 + os.getpid())
        holds = (
            f"/usr/bin/python3 -c 'import time; held = bytearray(60 << 20); time.sleep({number})'")
        limits = walls.Limits(seconds=600, file=1 << 20, memory=1 << 30, together=150 << 20)
        ended = self.run_within("sh", "-c", f"(setsid {holds} &); (setsid {holds} &); {holds}",
                                limits=limits)
        self.assertEqual((ended.status, ended.over), (None, "it had more than 150 MiB of memory"))
        self.assertGreater(ended.memory, 150 << 20)
        self.assertNotIn(number.encode(), b"".join(self.command_lines()))
        ended = self.run_within("sh", "-c", f"{holds} & sleep {number}",
                                limits=walls.Limits(seconds=1, file=1 << 20))
        self.assertEqual(ended.over, "it took more than 1 seconds")

    def test_walls_that_cannot_be_built_are_no_student_s_fault(self) -> None:
        with patch("kern.ftrace.tools.walls.shutil.which",
                   return_value=None), self.assertRaises(walls.NoWalls):
            self.run_within("true")
        with self.assertRaisesRegex(walls.NoWalls, "cannot be built"):
            walls.run(["true"], [], LIMITS, walls.SUBMISSION, writes=["/no/such/folder"])


class Results(WithFolder):
    def result(self, *attempts: list[dict[str, Any]] | str, built: str | dict[str, str] = "0",
               said: str = "", status: int | None = 0, printed: str = "",
               over: str = "") -> dict[str, Any]:
        """The result of a run that left these: for each seed its grades, or the status of a grade
        without any."""
        (self.folder / "build.cpu").write_text("1.0")
        for arch in ARCHES:
            (self.folder /
             f"build-{arch}.status").write_text(built if isinstance(built, str) else built[arch])
            (self.folder / f"build-{arch}.txt").write_text(said)
        for n, graded in enumerate(attempts, 1):
            for arch in ARCHES:
                at = self.folder / f"attempt-{n}-{arch}"
                shutil.rmtree(at, ignore_errors=True)
                (at / "grade").mkdir(parents=True)
                at.with_suffix(".txt").write_text(printed or f"printed {HOSTILE}")
                of_arch = [] if isinstance(graded,
                                           str) else [g for g in graded if g["arch"] == arch]
                at.with_suffix(".status").write_text(
                    graded if isinstance(graded, str) else "3" if any(
                        g["verdict"] == "harness error" for g in of_arch) else "1")
                if of_arch:
                    (at / "grade.json").write_text(json.dumps({"grades": of_arch}))
                    (at / "grade" /
                     Path(of_arch[0]["boots"][0]["log"]).name).write_bytes(b"log " +
                                                                           HOSTILE.encode() +
                                                                           b"\xff\r\n")
        job = {"key": "0" * 64, "lab": 3, "possible": 20, "seeds": SEEDS[:len(attempts)]}
        whole = one.result(job, self.folder, walls.Ended(status, b"", b"bwrap says", over))
        whole["cost"] = {"processor": 1.0, "build": 0.5, "attempts": [0.2], "seconds": 2.0}
        Draft202012Validator(json.loads(main.SCHEMA.read_text())).validate(whole)
        return whole

    def test_a_rung_counts_if_it_is_reached_with_both_seeds(self) -> None:
        full = [grade(arch, True, True, verdict="pass") for arch in ARCHES]
        half = [grade("riscv64", True, False), full[1]]
        cases: list[tuple[tuple[Any, Any], int, bool]] = [((full, full), 20, False),
                                                          ((half, half), 15, False),
                                                          ((full, half), 15, True),
                                                          ((half, full), 15, True)]
        for attempts, points, flaky in cases:
            got = self.result(*attempts)
            self.assertEqual((got["state"], got["points"], got["flaky"]), ("graded", points, flaky))
        self.assertEqual(got["arches"][0]["rungs"][1]["reached"], [False, True])

    def test_an_error_of_the_harness_is_no_score(self) -> None:
        full = [grade(arch, True, True) for arch in ARCHES]
        broken = [
            grade("riscv64", False, False, verdict="harness error"),
            grade("arm64", True, True)
        ]
        broken[0]["points"] = None
        failing: list[tuple[Any, Any]] = [(full, "3"), ("3", full), (full, "137"), (full, "2"),
                                          (broken, full)]
        for attempts in failing:
            got = self.result(*attempts, printed="QEMU did not start")
            self.assertEqual((got["state"], got["points"]), ("harness error", None), attempts[1])
        got = self.result(full, full, status=None)
        self.assertEqual((got["state"], got["points"]), ("harness error", None))

    def test_what_a_student_s_file_makes_the_compiler_say_is_no_error_of_the_harness(self) -> None:
        for said in ("kern/x.c:1: #error this is not installed",
                     "cc1: fatal error: No space left on device"):
            got = self.result(built="2", said=said)
            self.assertEqual((got["state"], got["points"]), ("build failure", 0))

    def test_a_limit_that_is_reached_is_none_either(self) -> None:
        got = self.result(status=None, over="it had more than 2048 MiB of memory")
        self.assertEqual((got["state"], got["points"], got["said"]),
                         ("over a limit", 0, "it had more than 2048 MiB of memory"))

    def test_an_architecture_that_does_not_build_costs_nothing_of_the_other(self) -> None:
        full = [grade("riscv64", True, True)]
        got = self.result(full, full, built={"riscv64": "0", "arm64": "2"},
                          said="kern/x.S: bad instruction")
        self.assertEqual((got["state"], got["points"], [a["arch"] for a in got["arches"]]),
                         ("graded", 10, ["riscv64"]))
        self.assertIn("bad instruction", got["said"])

    def test_an_architecture_that_cannot_be_judged_has_no_points_and_a_reason(self) -> None:
        full = [grade("riscv64", True, True)]
        got = self.result(full, full, printed="fail: the harness cannot judge this kernel")
        self.assertEqual((got["state"], got["points"], [a["arch"] for a in got["arches"]]),
                         ("graded", 10, ["riscv64"]))
        self.assertEqual(got["said"], "arm64: fail: the harness cannot judge this kernel")
        got = self.result([*full, grade("arm64", True, True)], full,
                          printed="fail: with the second seed")
        self.assertEqual((got["points"], got["said"]), (10, "arm64: fail: with the second seed"))

    def test_a_build_failure_has_no_points(self) -> None:
        got = self.result(built="2", said="build failure: kern/x.c: it does not compile \x1b[31m")
        self.assertEqual(
            (got["state"], got["points"], got["said"]),
            ("build failure", 0, "build failure: kern/x.c: it does not compile \\x1b[31m"))
        got = self.result("2", "2",
                          printed="build failure: kern/x.c: a relocation makes another instruction")
        self.assertEqual((got["state"], got["points"]), ("build failure", 0))

    def row(self, name: str = "ann", **fields: Any) -> results.Row:
        whole = self.result([grade(arch, True, False)
                             for arch in ARCHES], [grade(arch, True, False)
                                                   for arch in ARCHES]) | fields
        taken = Taken({"kern/x.c": b""}, ["kern/y.S"], ["<img src=x onerror=alert(1)>"], 1)
        return results.Row(Submission("ann", name, "17", Path("ann"), True, platform=CANVAS), taken,
                           whole, [{"when": "now", "state": "graded", "points": whole["points"]}])

    def test_a_student_s_output_is_text_on_every_page(self) -> None:
        row = self.row("<b>Ann</b>")
        (self.folder / "students/ann").mkdir(parents=True)
        one.write(self.folder, row.result["key"], row.result, self.folder)
        results.write(self.folder, 3, [row])
        pages.write(self.folder, 3, [row])
        for name in ("index.html", "students/ann/feedback.html"):
            text = (self.folder / name).read_text()
            self.assertIn("&lt;script&gt;alert(1)", text)
            self.assertIn("&lt;b&gt;Ann", text)
            self.assertIn("&lt;img src=x", text)
            self.assertNotIn("<script>alert", text)
            self.assertEqual(text.count("<script"), int(name == "index.html"))
            self.assertIn("default-src 'none'", text)
        for path in self.folder.rglob("*"):
            if path.is_file() and path.parent.name != "grade" and not path.match("attempt-?-*.txt"):
                self.assertNotIn(b"\x1b", path.read_bytes(), path)
        self.assertIn("\n````\n", (self.folder / "students/ann/feedback.md").read_text())
        log = (self.folder / "graded" / row.result["key"] /
               "attempt-1/riscv64-lab3-1cpu.log").read_text()
        self.assertEqual(log, f"log {one.clean(HOSTILE)}\N{REPLACEMENT CHARACTER}\n")

    def test_an_architecture_that_does_not_build_is_named_wherever_points_are(self) -> None:
        """Its points are missing in the sum: a file that shows only what passed would say that all
        is right."""
        full = [grade("arm64", True, True, verdict="pass")]
        whole = self.result(
            full, full, built={"riscv64": "2", "arm64": "0"},
            said="kern/x.S:26: bad instruction\nbuild failure: kern/x.S: it does not compile")
        row, at = dataclasses.replace(self.row(), result=whole), self.folder / "students/ann"
        at.mkdir(parents=True)
        results.write(self.folder, 3, [row])
        pages.write(self.folder, 3, [row])
        lost, error = ("riscv64: does not build",
                       "riscv64: does not build: build failure: kern/x.S: it does not compile")

        scope = json.loads((at / "results.json").read_text())
        self.assertEqual([(t["name"], t["score"], t["max_score"], t["status"])
                          for t in scope["tests"]][:2], [(lost, 0, 10, "failed"),
                                                         ("arm64: called", 5, 5, "passed")])
        self.assertEqual((scope["score"], sum(
            t["score"] for t in scope["tests"]), sum(t["max_score"] for t in scope["tests"])),
                         (10, 10, 20))
        self.assertIn("kern/x.S:26: bad instruction", scope["tests"][0]["output"])

        learn = json.loads((at / "prairielearn.json").read_text())
        self.assertEqual(
            (learn["tests"][0]["name"], learn["score"], sum(t["max_points"]
                                                            for t in learn["tests"])),
            (lost, 0.5, 20))
        self.assertTrue(learn["output"].startswith(f"{lost}\nkern/x.S:26: bad instruction"))
        self.assertIn("bad instruction", learn["tests"][0]["message"])

        suite = xml.parse(self.folder / "junit.xml").getroot()[0]
        self.assertEqual((suite.get("tests"), suite.get("failures"), suite[0].get("name")),
                         ("3", "1", lost))
        self.assertIn("kern/x.S:26: bad instruction", suite[0][0].text or "")

        with (self.folder / "class.csv").open(newline="") as file:
            line = next(csv.DictReader(file))
        self.assertEqual([line[name] for name in (*ARCHES, "first error")],
                         ["does not build", "10", error])
        index = (self.folder / "index.html").read_text()
        for said in ("<p>1 graded (does not build on riscv64: 1)</p>",
                     "<td>all on riscv64: does not build</td>", "<td class=n>does not build</td>",
                     f"<td>{error}</td>"):
            self.assertIn(said, index)
        for name, head in (("feedback.md", "## "), ("feedback.html", "<h2>")):
            self.assertRegex(
                (at / name).read_text(),
                f"{head}riscv64: 0 of 10, does not build[^:]*kern/x.S:26: bad instruction")
        with redirect_stdout(io.StringIO()) as printed:
            results.say([row], self.folder)
        self.assertIn("1 submission: 1 graded (does not build on riscv64: 1)\n", printed.getvalue())

    def test_the_first_error_is_that_of_a_rung_whose_loss_is_no_consequence(self) -> None:
        lost = [grade(arch, False, False) for arch in ARCHES]
        for of_arch in lost:
            of_arch["rungs"][0]["cause"] = False
        row = dataclasses.replace(self.row(), result=self.result(lost, lost))
        self.assertTrue(row.why.startswith(f"{RUNGS[1][0]} (riscv64): lost: "), row.why)

    def test_only_an_error_of_the_harness_leaves_the_points_of_an_architecture_empty(self) -> None:
        full = [grade("riscv64", True, True)]
        judged = self.result(full, full, printed="fail: the harness cannot judge this kernel")
        row = dataclasses.replace(self.row(), result=judged)
        self.assertEqual((row.of("riscv64"), row.of("arm64"), row.why),
                         (10, "cannot be judged",
                          "arm64: cannot be judged: fail: the harness cannot judge this kernel"))
        for state, points, cell in (("build failure", 0, "build failure"),
                                    ("refused", 0, "refused"), ("harness error", None, "")):
            self.assertEqual(
                {self.row(state=state, points=points, arches=[]).of(arch)
                 for arch in ARCHES}, {cell})

    def test_a_student_s_feedback_names_no_file_that_only_the_instructor_has(self) -> None:
        full = [grade(arch, True, False) for arch in ARCHES]
        whole = self.result(full, full)
        for n in (1, 2):
            for arch in ARCHES:
                (self.folder / f"attempt-{n}-{arch}.txt").write_text(
                    f"lost\nlog: ../attempt-{n}-{arch}/grade/{arch}-lab3-1cpu.log\nreplay:    make "
                    f"grade\n"
                )
        whole["attempts"] = [
            one.attempt(self.folder, n, seed, list(ARCHES)) for n, seed in enumerate(SEEDS, 1)
        ]
        row, at = dataclasses.replace(self.row(), result=whole), self.folder / "students/ann"
        at.mkdir(parents=True)
        one.write(self.folder, whole["key"], whole, self.folder)
        results.write(self.folder, 3, [row])
        pages.write(self.folder, 3, [row])
        for name in ("feedback.md", "feedback.html", "prairielearn.json", "results.json"):
            self.assertNotIn("log:", (at / name).read_text())
        self.assertIn("lost\nreplay:    make grade\n", (at / "feedback.md").read_text())
        named = [
            line.removeprefix("log: ")
            for line in (self.folder / "index.html").read_text().splitlines()
            if line.startswith("log: ")
        ]
        self.assertEqual(
            named, [f"graded/{whole['key']}/attempt-1/{arch}-lab3-1cpu.log" for arch in ARCHES])
        self.assertTrue(all((self.folder / name).is_file() for name in named))
        self.assertNotIn(
            "log:",
            pages.student(
                "feedback.md", 3,
                self.row(state="harness error", points=None, arches=[], attempts=[],
                         said=whole["attempts"][0]["printed"])))

    def test_moodle_s_table_is_there_only_with_moodle_s_numbers(self) -> None:
        (self.folder / "students/ann").mkdir(parents=True)
        row = self.row()
        for platform, ident in ((MOODLE, "17"), ("", ""), (CANVAS, "17"), (MOODLE, "17"),
                                (GRADESCOPE, "ann@example.org")):
            results.write(self.folder, 3, [
                dataclasses.replace(
                    row, submission=dataclasses.replace(row.submission, ident=ident,
                                                        platform=platform))
            ])
            self.assertEqual((self.folder / "moodle.csv").exists(), platform == MOODLE, platform)
            with (self.folder / "canvas.csv").open(newline="") as file:
                self.assertEqual(
                    list(csv.DictReader(file))[-1]["ID"], ident if platform == CANVAS else "",
                    platform)

    def test_what_the_late_policy_took_is_explained(self) -> None:
        at = self.folder / "students/ann"
        at.mkdir(parents=True)
        when = "2030-02-02 10:00:00+01:00"
        for clock, said in (("platform", "the learning platform"),
                            ("commit", "the date of the commit"), ("file",
                                                                   "the time of the newest file")):
            row = dataclasses.replace(
                self.row(), late=late.Late(when, clock, 0, "2030-02-01 23:59:00+01:00", "10%/day"))
            one.write(self.folder, row.result["key"], row.result, self.folder)
            results.write(self.folder, 3, [row])
            pages.write(self.folder, 3, [row])
            for name in ("feedback.md", "feedback.html", "results.json"):
                self.assertIn(
                    f"Handed in on {when}, according to {said}; the deadline was 2030-02-01 "
                    f"23:59:00+01:00. The late policy (10%/day) takes off 10 points.",
                    (at / name).read_text())
        self.assertIn("10/20<br>0 after the late policy", (self.folder / "index.html").read_text())
        self.assertEqual(
            results.lateness(dataclasses.replace(row, late=late.Late(when, "file", row.points))),
            "")

    def test_points_that_changed_are_said_by_the_run_that_changed_them(self) -> None:
        for is_new in (True, False):
            row = self.row()
            row = dataclasses.replace(
                row, is_new=is_new, history=[{"when": "before", "state": "graded", "points": 3},
                                             *row.history])
            with redirect_stdout(io.StringIO()) as said:
                results.say([row], self.folder)
            self.assertEqual(is_new, f"changed: ann, 3 points to {row.points} points\n"
                             in said.getvalue())

    def test_a_change_from_no_score_is_said_so(self) -> None:
        row = self.row()
        row = dataclasses.replace(
            row, is_new=True, history=[{"when": "before", "state": "harness error", "points": None},
                                       *row.history])
        with redirect_stdout(io.StringIO()) as said:
            results.say([row], self.folder)
        self.assertIn("changed: ann, no score to 10 points\n", said.getvalue())

    def test_tables(self) -> None:
        rows = [
            self.row("=cmd|calc"),
            self.row("Bo", points=None, state="harness error", arches=[])
        ]
        (self.folder / "students/ann").mkdir(parents=True)
        results.write(self.folder, 3, rows)
        def read(name: str) -> list[list[str]]:
            with (self.folder / name).open(newline="") as file:
                return list(csv.reader(file))

        self.assertEqual([line[1:10] for line in read("class.csv")[1:]],
                         [["'=cmd|calc", "17", "late", "graded", "10", "20", "5", "5", ""],
                          ["Bo", "17", "late", "harness error", "", "20", "", "", ""]])
        self.assertEqual(
            read("canvas.csv")[1:],
            [["Points Possible", "", "", "", "", "20"], ["'=cmd|calc", "17", "", "", "", "10"]])
        results.write(self.folder, 3, [
            dataclasses.replace(row, submission=dataclasses.replace(
                row.submission, platform=MOODLE)) for row in rows
        ])
        head, *lines = read("moodle.csv")
        # Moodle's importgradeslib.php refuses a file without one of them
        self.assertLessEqual({"Identifier", "Grade", "Last modified (grade)"}, set(head))
        self.assertEqual([[line[head.index(name)] for name in ("Identifier", "Grade")]
                          for line in lines], [["Participant 17", "10"], ["Participant 17", ""]])
        self.assertEqual({len(line) for line in lines}, {len(head)})
        suites = xml.parse(self.folder / "junit.xml").getroot()
        self.assertEqual([(s.get("tests"), s.get("failures"), s.get("errors")) for s in suites],
                         [("4", "2", "0"), ("1", "0", "1")])
        # the last row has no score
        self.assertFalse((self.folder / "students/ann/results.json").exists())
        results.gradescope(self.folder / "results.json", rows[0])
        self.assertEqual(
            [t["status"] for t in json.loads((self.folder / "results.json").read_text())["tests"]],
            ["passed", "failed"] * 2)

    def test_no_cell_is_a_formula(self) -> None:
        """Some spreadsheets separate cells by semicolons or tabs."""
        for text, safe in (("=1", "'=1"), (" +1", "' +1"), ("\t1", "'\t1"), ("x;=1+1;\t@SUM(1)",
                                                                             "x;'=1+1;'\t@SUM(1)"),
                           ("a|-b", "a|'-b"), ("rung (riscv64): a-b=c", "rung (riscv64): a-b=c")):
            self.assertEqual(results.cell(text), safe)
        self.assertEqual(results.cell(-1), -1)

    def test_prairielearn(self) -> None:
        at = self.folder / "prairielearn.json"
        def read(row: results.Row) -> dict[str, Any]:
            results.prairielearn(at, row)
            return dict(json.loads(at.read_text()))
        got = read(self.row())
        self.assertEqual(
            (got["gradable"], got["score"], [(t["points"], t["max_points"]) for t in got["tests"]]),
            (True, 0.5, [(5, 5), (0, 5)] * 2))
        got = read(
            self.row(state="build failure", points=0, arches=[], said="build failure: kern/x.c"))
        self.assertEqual((got["gradable"], "score" in got, got["format_errors"]),
                         (False, False, ["build failure: build failure: kern/x.c"]))
        results.prairielearn(at, self.row(state="harness error", points=None, arches=[]))
        self.assertFalse(at.exists())

    def test_a_log_s_beginning_and_end_are_kept(self) -> None:
        (self.folder / "log").write_bytes(b"a" * 5000 + b"b" * 5000)
        self.assertEqual(one.text(self.folder / "log", 100),
                         "a" * 50 + "\n... (9900 bytes are left out) ...\n" + "b" * 50)
        (self.folder / "link").symlink_to("/etc/passwd")
        self.assertEqual(one.text(self.folder / "link"), "")


class Likeness(WithFolder):
    GIVEN = b"int given(void)\n{\n\treturn -ENOSYS;\n}\n"
    OWN = ("\tfor (int i = 0; i < n; i++)\n\t\tif (sum[i] > limit && !seen[i])\n\t\t\ttotal += "
           "sum[i] * weight(i, n);\n\t\telse\n\t\t\ttotal -= sum[n - i];\n\treturn total;\n")

    def test_the_lines_that_were_handed_out_do_not_count(self) -> None:
        mine = self.GIVEN.replace(b"\treturn -ENOSYS;\n", self.OWN.encode())
        self.assertEqual(likeness.own_lines({"kern/x.c": mine}, {"kern/x.c": self.GIVEN}),
                         f"/* kern/x.c */\n{self.OWN}")
        self.assertEqual(likeness.own_lines({"kern/x.c": self.GIVEN}, {"kern/x.c": self.GIVEN}), "")

    def test_other_names_are_alike_and_other_code_is_not(self) -> None:
        other = ("\tu32 word = *(u32 *)ip;\n\tif (word != expected) {\n\t\tprintk(\"%lx\", "
                 "ip);\n\t\treturn -EINVAL;\n\t}\n\tdo { store(ip, word ^ 3); ip += 4; } while (ip "
                 "< end);\n")
        renamed = self.OWN.replace("sum", "values").replace("total", "result")
        found = likeness.pairs({"ann": self.OWN, "bo": other, "<cy>": renamed, "dee": ""}, {})
        self.assertEqual([(pair.first, pair.second, pair.instructions) for pair in found],
                         [("<cy>", "ann", 0)])
        self.assertGreater(found[0].text, 90)

    def test_hidden_copies_hostile_text_and_what_everyone_writes(self) -> None:
        copy = (
            f"/* mine */ int my_own(void) {{ return 0; "
            f"}}\n{self.OWN.replace('limit', 'limit /* the least */')}\n// done {self.OWN!r}\n"
        )
        self.assertEqual([pair.text for pair in likeness.pairs({"ann": self.OWN, "bo": copy}, {})],
                         [100])
        self.assertEqual(
            likeness.pairs(
                {"ann": "return a(b, c, d, e, f);\n", "bo": "return b(a, c, d, e, f);\n"}, {}), [])
        # a quarter of a MiB each: with a square of its length this does not end
        for hostile in ('/*', '"', '"\\', "\\", "a", "-"):
            likeness.runs(hostile * (intake.LARGEST // len(hostile)))

    def operations(self, name: str, source: str) -> str:
        """What tree.py keeps of a file that is built for riscv64."""
        built = self.folder / name / "build/riscv64/lab3"
        built.mkdir(parents=True)
        subprocess.run(
            ["riscv64-linux-gnu-gcc", "-O2", "-c", "-x", "c", "-", "-o",
             str(built / "x.o")], input=source, text=True, check=True)
        return subprocess.run(["bash", "-c", tree.LIST_OPERATIONS],
                              env={**os.environ, "FILES": "x.c y.c"}, cwd=self.folder / name,
                              capture_output=True, text=True, check=True).stdout

    def test_a_copy_with_other_loops_is_alike_in_its_instructions(self) -> None:
        head = ("long weight(long, long);\nlong given(long *a, long n) { long t = 0; for (long i = "
                "0; i < n; i++) t ^= a[i] << (i & 7) | a[n - i]; return t; }\n")
        of = {
            "ann": "long sum(long *sum, long n, long limit, char *seen) { long total = 0;\n" +
            self.OWN.replace("int i", "long i") + "}\n",
            "bo": "long other(long *v, long m, long most, char *met) { long r = 0, j = 0; while (j "
                  "< m) {\nlong now = v[j];\nif (!(now <= most) && met[j] == 0) { long f = "
                  "weight(j, m); r = r + v[j] * f; }"
            " else { r = r - v[m - j]; }\nj = j + 1; }\nreturn r; }\n",
            "cy": "long word(long *at, long new) { long seen; do { seen = *at; if (seen == new) "
                  "return weight(new, 4); at += seen & 15; new ^= seen * 3; } while (at[1] != "
                  "new); return new / 5 + at[3] % 7; }\n"
        }
        operations = {name: self.operations(name, head + text) for name, text in of.items()}
        handed_out = self.operations("start", head)
        found = likeness.pairs({}, operations, handed_out)
        self.assertEqual([(pair.first, pair.second, pair.text) for pair in found],
                         [("ann", "bo", 0)])
        self.assertGreater(found[0].instructions, 60)
        self.assertEqual(likeness.pairs({}, {"dee": handed_out, "eli": handed_out}, handed_out), [])

    def test_the_report(self) -> None:
        taken = Taken({"kern/x.c": f"{self.OWN}// <script>\n".encode()})
        rows = [
            results.Row(Submission(name, name, "", Path()), taken, {"key": name}, [])
            for name in ("ann", "bo")
        ]
        def write(of: list[results.Row]) -> None:
            likeness.write(self.folder, 3, of, {"kern/x.c": self.GIVEN}, {"kern/x.c": b"int x;\n"},
                           self.folder)
        write(rows)
        self.assertEqual((self.folder / "likeness.csv").read_text().splitlines()[1:],
                         ["100,0,ann,bo"])
        self.assertIn("// &lt;script&gt;", (self.folder / "likeness.html").read_text())
        with patch.object(likeness, "pairs", side_effect=AssertionError("compared again")):
            write(rows)
            with self.assertRaises(AssertionError):
                write(rows[:1])
        for row in rows:
            (self.folder / "graded" / row.result["key"]).mkdir(parents=True)
            (self.folder / "graded" / row.result["key"] /
             tree.OPERATIONS).write_text("".join(f"add{n % 40}\n" for n in range(80)))
        write(rows)
        self.assertEqual((self.folder / "likeness.csv").read_text().splitlines()[1:],
                         ["100,100,ann,bo"])
        self.assertNotRegex((self.folder / "likeness.html").read_text(), "<script|\x1b")


class Runs(WithFolder):
    """The class's run, with another program in the place of the one that grades a submission."""

    def grade(self, keys: list[str], program: str, jobs: int = 2) -> list[list[str]]:
        """Returns the log of GNU parallel: exit status and key of each job."""
        (self.folder / "todo").mkdir(exist_ok=True)
        with patch("grading.classroom.__main__.sys.executable",
                   "/bin/sh"), patch.object(main, "ROOT", self.folder):
            (self.folder / "grading.classroom.one").write_text(program)
            main.grade(argparse.Namespace(out=self.folder, jobs=jobs, load=""), keys)
        lines = [line.split("\t") for line in (self.folder / "joblog").read_text().splitlines()[1:]]
        return sorted([line[6], line[8].split()[-1]] for line in lines)

    def test_an_error_of_the_harness_is_tried_again_and_a_bad_grade_is_not(self) -> None:
        program = ('echo $2 >> tried; [ $2 != b ] || [ $(grep -c b tried) = 3 ]; s=$?; [ $2 != c ] '
                   '|| exit 1; exit $s\n')
        self.assertEqual(self.grade(["a", "b", "c"], program), [["0", "a"], ["0", "b"], ["1", "c"]])
        tried = (self.folder / "tried").read_text().split()
        self.assertEqual([tried.count(key) for key in "abc"], [1, 3, 3])

    def test_an_error_of_parallel_s_own_is_said(self) -> None:
        """It is not an error of the harness in a submission."""
        for program, keys, why in (("kill -KILL $PPID; sleep 5", ["a"],
                                    "GNU parallel was ended by SIGKILL"), ("exit 1", ["a"], ""),
                                   ("exit 0", ["a"], "")):
            with redirect_stderr(io.StringIO()) as said:
                self.grade(keys, program)
            self.assertEqual(said.getvalue(), why
                             and f"grade-class: {why}: some submissions are not graded\n")
        (self.folder / "joblog").write_text("head\na\n")
        for status, jobs, error in ((0, 2, False), (1, 1, False), (2, 2, True), (101, 1, False),
                                    (255, 1, True)):
            self.assertEqual(main.own_error(status, self.folder / "joblog", jobs),
                             f"GNU parallel ended with status {status}" if error else "")

    def test_a_signal_ends_the_jobs_and_another_run_goes_on(self) -> None:
        self.assertEqual(self.ended_by(lambda process: process.send_signal(signal.SIGTERM)),
                         128 + signal.SIGTERM)

    def test_a_run_that_is_killed_leaves_no_job(self) -> None:
        self.assertEqual(self.ended_by(lambda process: process.kill()), -signal.SIGKILL)

    def test_the_jobs_end_with_their_parent(self) -> None:
        """As a job does of which parallel does not know yet when the signal comes."""
        self.assertEqual(
            self.ended_by(lambda _: os.kill(int(
                (self.folder / "parent").read_text()), signal.SIGKILL)), 0)

    def ended_by(self, ends: Callable[[subprocess.Popen[bytes]], None]) -> int:
        """Grades three submissions, two at a time, and ends the run while two of them are graded;
        returns the run's exit status."""
        (self.folder / "todo").mkdir()
        (self.folder / "grading.classroom.one").write_text(
            "echo $2 >> begun; echo $PPID > parent; trap 'rm -f $2; exit' TERM; : > $2; while :; "
            "do sleep 0.1; done\n"
        )
        program = (
            "import argparse, sys; from pathlib import Path; from grading.classroom import "
            "__main__ as main; from grading.machine.machine import ended_by_signals; "
            "ended_by_signals(); out = Path(sys.argv[1]); main.ROOT = out; sys.executable = "
            "'/bin/sh'; "
            "main.grade(argparse.Namespace(out=out, jobs=2, load=''), ['a', 'b', 'c'])")
        with (self.folder / "said").open("wb") as said, subprocess.Popen(
            ["/usr/bin/python3", "-c", program, str(self.folder)], cwd=ROOT, stdout=said,
                stderr=said) as process:
            while not ((self.folder / "a").exists() and (self.folder / "b").exists()):
                self.assertIsNone(process.poll(), (self.folder / "said").read_text())
            self.assertGreaterEqual(len(one.running(self.folder)), 2)
            ends(process)
            status = process.wait()
        until = time.monotonic() + 60
        while True:
            # before the look at the files, which a job removes when it ends
            seen = one.running(self.folder)
            if not any((self.folder / name).exists() for name in "ab"):
                break
            self.assertLess(time.monotonic(), until, "a job goes on")
            self.assertGreater(len(seen), 0, "a run would not wait for it")
        self.assertEqual(sorted((self.folder / "begun").read_text().split()), ["a", "b"])
        return status

    def test_the_key_follows_from_the_files_and_the_manifest(self) -> None:
        first = Taken({"a": b"1", "b": b"2"})
        keys = [
            main.key_of(manifest, taken)
            for manifest, taken in (({"lab": 3}, first), ({"lab": 4}, first),
                                    ({"lab": 3}, Taken({"a": b"12", "b": b""})),
                                    ({"lab": 3}, Taken({"a": b"1", "b": b"3"})),
                                    ({"lab": 3}, Taken({"a": b"1", "c": b"2"})),
                                    ({"lab": 3}, Taken(refused="why")))
        ]
        self.assertEqual(len(set(keys)), len(keys))
        self.assertEqual(keys[0],
                         main.key_of({"lab": 3}, Taken({"b": b"2", "a": b"1"}, [], ["more"], 1)))

    def test_what_has_its_result_is_not_graded_again(self) -> None:
        options = argparse.Namespace(lab=3, out=self.folder, late=None)
        entries = [
            main.Entry(Submission(str(n), str(n), "", Path()), taken, f"{n:064x}")
            for n, taken in enumerate((Taken({"kern/x.c": b"x"}), Taken({"kern/x.c": b"y"}),
                                       Taken(refused="a bomb"), Taken()))
        ]
        at, manifest = Path("/tree"), {"seeds": SEEDS}
        self.assertEqual(main.write_jobs(options, manifest, entries, at),
                         [entries[0].key, entries[1].key])
        self.assertEqual([main.result_of(options, e.key)["state"] for e in entries[2:]],
                         ["refused", "nothing handed in"])
        job = json.loads((self.folder / f"todo/{entries[0].key}.json").read_text())
        self.assertEqual((base64.b64decode(job["files"]["kern/x.c"]), job["seeds"]), (b"x", SEEDS))
        for entry, state in zip(entries, ("graded", "harness error")):
            one.write(self.folder, entry.key,
                      main.result_of(options, entries[3].key) | {"key": entry.key, "state": state})
        self.assertEqual(main.write_jobs(options, manifest, entries, at), [entries[1].key])
        made = main.rows(options, entries[2:])
        self.assertEqual([(row.state, len(row.history)) for row in made],
                         [("refused", 1), ("nothing handed in", 1)])
        again = main.rows(options, entries[2:])
        self.assertEqual([(len(row.history), row.is_new) for row in again], [(1, False),
                                                                             (1, False)])
        self.assertTrue(all(row.is_new for row in made))

    def test_what_is_left_is_found(self) -> None:
        (self.folder / "tmp").mkdir()
        self.assertEqual(main.left(self.folder), [])
        mark = (self.folder / "tmp").resolve() / "job-1"
        with subprocess.Popen(["sh", "-c", "echo begun; read -r word",
                               str(mark)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as process:
            assert process.stdout
            process.stdout.readline()  # its words cannot be read before it has begun
            self.assertEqual(main.left(self.folder), [f"process {process.pid}"])
        mark.mkdir()
        self.assertEqual(main.left(self.folder), [str(self.folder / "tmp/job-1")])


class Whole(WithFolder):
    """The command from its first to its last line, without a build and without a grade."""

    NAME = tree.written(3)[0]

    def setUp(self) -> None:
        super().setUp()
        self.out = self.folder / "out"
        for student in ("ann", "bo"):
            self.hand_in(student, f"int {student};\n")

    def hand_in(self, student: str, text: str) -> None:
        path = self.folder / "in" / student / self.NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    sandbox: walls.NoWalls | None = None  # what is raised where one is made

    def run_main(self, gives: Callable[[dict[str, Any]], None], *words: str) -> tuple[int, str]:
        """Run it; `gives` is called with each job, in the place of GNU parallel. Returns the status
        and what was printed."""
        def grade(options: argparse.Namespace, keys: list[str], _: object) -> None:
            for key in keys:
                gives(json.loads((options.out / f"todo/{key}.json").read_text()))

        def manifest(lab: int, seeds: list[str]) -> dict[str, object]:
            return {"lab": lab, "seeds": seeds}

        said = io.StringIO()
        folders = ["--in", str(self.folder / "in"), "--out", str(self.out)]
        with patch("sys.argv", ["grade-class", "--lab", "3", *folders, *words]), \
                patch.object(tree, "manifest", manifest), \
                patch.object(tree, "prepare", return_value=ROOT), \
                patch.object(main, "grade", grade), \
                patch.object(walls, "run", side_effect=self.sandbox), \
                redirect_stdout(said), redirect_stderr(said):
            return main.main(), said.getvalue()

    def full_marks(self, job: dict[str, Any]) -> None:
        one.write(
            self.out, job["key"],
            one.without_grade(job["key"], 3, job["possible"], one.GRADED, "")
            | {"points": job["possible"]})

    def points(self) -> dict[str, tuple[str, str]]:
        with (self.out / "class.csv").open(newline="") as file:
            return {
                line["student"]: (line["state"], line["points"])
                for line in csv.DictReader(file)
            }

    def test_a_submission_without_a_result_keeps_no_other_from_the_tables(self) -> None:
        def only_ann(job: dict[str, Any]) -> None:
            if job["students"] == "ann":
                self.full_marks(job)

        status, said = self.run_main(only_ann)
        self.assertEqual((status, self.points()),
                         (3, {"ann": ("graded", "200"), "bo": ("harness error", "")}), said)
        self.assertIn("look at: bo, harness error", said)
        self.assertTrue((self.out / "index.html").exists() and (self.out / "likeness.csv").exists())
        self.assertEqual((self.run_main(self.full_marks)[0], self.points()["bo"]),
                         (0, ("graded", "200")))

    def test_a_result_that_cannot_be_read_is_an_error_of_the_harness_and_is_graded_again(
            self) -> None:
        for broken in ("", '{"format": 1}'):
            self.run_main(self.full_marks)
            key = json.loads(
                (self.out / "students/bo/history.jsonl").read_text().splitlines()[-1])["key"]
            (self.out / f"graded/{key}/result.json").write_text(broken)
            self.assertEqual((self.run_main(lambda _: None)[0], self.points()),
                             (3, {"ann": ("graded", "200"), "bo": ("harness error", "")}))
            self.assertEqual((self.run_main(self.full_marks)[0], self.points()["bo"]),
                             (0, ("graded", "200")))

    def test_a_second_run_with_the_same_out_touches_nothing(self) -> None:
        """It would remove what the first one grades."""
        again = []

        def in_a_job(job: dict[str, Any]) -> None:
            (self.out / "tmp/job-1").mkdir(exist_ok=True)
            again.append(self.run_main(self.full_marks))
            self.assertTrue((self.out / "tmp/job-1").exists(), again)
            (self.out / "tmp/job-1").rmdir()
            self.full_marks(job)

        self.hand_in("ann", "int bo;\n")  # one job
        self.assertEqual(self.run_main(in_a_job)[0], 0)
        self.assertEqual(again, [
            (2, f"grade-class: another run uses {self.out}: wait for its end, or end it\n")
        ])
        self.assertEqual(self.run_main(in_a_job)[0], 0)

    def said(self, *words: str, **folders: Path) -> tuple[int, str]:
        """What is said by a run that must grade nothing. @folders: other folders for IN and OUT."""
        names = {"in": self.folder / "in", "out": self.out, **folders}
        with patch.object(tree, "prepare", side_effect=AssertionError("it prepares a tree")):
            return self.run_main(
                self.full_marks, *words,
                *(word for name, path in names.items() for word in (f"--{name}", str(path))))

    def test_an_out_inside_in_is_refused(self) -> None:
        """What is written there would be students."""
        for out in (self.folder / "in", self.folder / "in/graded",
                    self.folder / "out/../in/graded"):
            self.assertEqual(
                self.said(out=out),
                (2,
                 f"grade-class: OUT={out} is inside IN, or IN itself: name a folder outside of IN\n"
                 ))
        self.assertEqual(sorted(path.name for path in (self.folder / "in").iterdir()),
                         ["ann", "bo"])

    def test_an_out_that_cannot_be_written_is_refused(self) -> None:
        (self.folder / "file").touch()
        for out in (self.folder / "file", Path("/dev/null/x")):
            self.assertEqual(
                self.said(out=out),
                (2,
                 f"grade-class: OUT={out} is not a folder that can be written: Not a directory\n"))

    def test_the_results_of_another_lab_are_not_replaced(self) -> None:
        self.run_main(self.full_marks)
        before = (self.out / "class.csv").read_text()
        self.assertEqual(self.said("--lab", "1"), (
            2,
            f"grade-class: OUT={self.out} has the results of lab 3: name another folder for lab 1\n"
        ))
        self.assertEqual((self.out / "class.csv").read_text(), before)
        (self.out / "manifest.json").write_text("{")
        self.assertIn("manifest.json cannot be read", self.said()[1])

    def test_a_class_without_a_file_of_the_lab_is_warned_of(self) -> None:
        shutil.rmtree(self.folder / "in")
        (self.folder / "in/ann").mkdir(parents=True)
        status, said = self.run_main(self.full_marks)
        self.assertEqual((status, self.points()), (0, {"ann": ("nothing handed in", "0")}))
        self.assertIn("1 submission: ", said)
        self.assertIn("grade-class: no submission has a file of lab 3: are LAB and IN right?\n",
                      said)
        self.assertNotIn("are LAB and IN right", self.run_main(self.full_marks, "--alone")[1])

    def test_each_submission_has_a_row_that_says_what_was_seen(self) -> None:
        shutil.rmtree(self.folder / "in/bo")
        at = self.folder / "in"
        (at / "bo").mkdir()
        (at / "bo/patch.c").write_text("int bo;\n")
        (at / "cy.rar").write_bytes(b"Rar!\x1a\x07\x01")
        with tarfile.open(at / "di.tar", "w") as file:
            info = tarfile.TarInfo(self.NAME.upper() + "\x1b[2J<script>")
            for info in (info, tarfile.TarInfo(self.NAME.upper())):
                file.addfile(info, io.BytesIO(b""))
        (at / "ann" / self.NAME).write_bytes("/* déjà vu */ int ann;\n".encode("cp1252"))
        status, said = self.run_main(self.full_marks)
        self.assertEqual(status, 0, said)
        with (self.out / "class.csv").open(newline="") as table:
            lines = {row["student"]: row for row in csv.DictReader(table)}
        why = {student: (row["state"], row["first error"]) for student, row in lines.items()}
        unread = "cy.rar: an archive of this kind is not read; hand in a .zip or .tar.gz"
        near = f"patch.c: did you mean {self.NAME}?"
        self.assertEqual((why["bo"], why["cy"]),
                         (("nothing handed in", near), ("refused", unread)))
        self.assertEqual((why["ann"][0], why["di"][0]), ("graded", "graded"))
        self.assertEqual({student: row["names"] for student, row in lines.items()},
                         {"ann": "", "bo": near, "cy": "",
                          "di": f"{self.NAME.upper()} was taken as {self.NAME}; {self.NAME} is "
                          "empty"})
        self.assertIn(f"\nnothing handed in: bo, {near}\nrefused: cy, {unread}\n", said)
        for page in (self.out / "index.html", self.out / "students/di/feedback.html",
                     self.out / "students/di/feedback.md"):
            text = page.read_text()
            self.assertIn(f"{self.NAME.upper()} was taken as {self.NAME}", text)
            self.assertNotIn("\x1b", text)
        self.assertIn("\\x1b[2J&lt;script&gt;", (self.out / "index.html").read_text())
        for page in (self.out / "index.html", self.out / "students/bo/feedback.md"):
            self.assertIn(near, page.read_text())

    def test_an_empty_class_is_refused(self) -> None:
        folder = self.folder / "empty"
        folder.mkdir()
        self.assertEqual(self.said(**{"in": folder}),
                         (2, f"grade-class: IN={folder} has no submission.\n"))
        (folder / "README").touch()
        self.assertEqual(self.said(**{"in": folder}),
                         (2, f"grade-class: IN={folder} has no submission. Ignored: README\n"))

    def test_what_is_said_of_the_submissions_adds_up(self) -> None:
        self.run_main(self.full_marks)
        self.hand_in("bo", "int new;\n")
        self.hand_in("cy", "int ann;\n")
        self.hand_in("di", "int \0;\n")
        for student in ("eli", "flo"):
            (self.folder / "in" / student).mkdir()
        status, said = self.run_main(self.full_marks, "--jobs", "1")
        self.assertEqual(status, 0)
        self.assertIn("6 submissions: ", said)
        self.assertIn(
            "\n1 to grade, 1 at a time; 1 graded before; 1 equal to another one; 1 refused; 2 "
            "empty.\n",
            said)
        self.assertIn(f"\nrefused: di, {self.NAME} has a NUL character, ", said)

    def test_the_deadline_that_was_understood_is_said(self) -> None:
        _, said = self.run_main(self.full_marks, "--late", "10%/day", "--deadline",
                                "2030-02-01 23:59+01:00", "--before", "2030-02-03 12:00Z")
        self.assertIn(
            "\ndeadline: 2030-02-01 23:59:00+01:00\ncommits before: 2030-02-03 12:00:00+00:00\n",
            said)

    def test_after_a_signal_it_is_said_that_the_same_command_goes_on(self) -> None:
        with patch("builtins.print") as said, patch.object(
                one, "await_ends", side_effect=SystemExit(130)), self.assertRaises(SystemExit):
            self.run_main(self.full_marks)
        self.assertIn("The same command goes on.", said.call_args[0][0])

    def test_what_is_exported_builds_no_other_tree(self) -> None:
        """With DEBUG=1 the tree would have other objects than the submissions', each of which would
        be compiled whole."""
        named = {"APP", "ARCH", "DEBUG", "HOOK", "MODULE", "START", "TESTS"}
        done = subprocess.run(
            ["/usr/bin/python3", "-c", "from grading.classroom import tree; print(*tree.CLEAN)"],
            cwd=ROOT, env={**os.environ,
                           **dict.fromkeys(named, "1")}, capture_output=True, text=True, check=True)
        self.assertEqual(named & set(done.stdout.split()), set())
        self.assertIn("PATH", done.stdout.split())

    def test_two_first_runs_build_the_class_s_tree_once(self) -> None:
        built = []

        def build(_: int, at: Path) -> None:
            built.append(at)
            other = os.open(self.folder / "lock", os.O_RDWR)
            with self.assertRaises(BlockingIOError, msg="another run can build here now"):
                fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(other)
            at.mkdir()

        with patch.object(tree, "_build", build):
            trees = {tree.prepare(3, {"lab": 3, "seeds": seeds}, self.folder) for seeds in (1, 2)}
        self.assertEqual((built, list(trees)), ([*trees], built))

    def test_what_the_next_run_needs_is_replaced_and_never_rewritten(self) -> None:
        """A power cut while a file is rewritten leaves a part of it: then the seeds, or a student's
        history, cannot be read."""
        self.run_main(self.full_marks)
        with ExitStack() as opened:
            before = [
                opened.enter_context((self.out / name).open())
                for name in ("manifest.json", "students/bo/history.jsonl")
            ]
            self.hand_in("bo", "int more;\n")
            self.run_main(self.full_marks, "--seed", "2")
            texts = [file.read() for file in before]
        self.assertNotEqual(
            json.loads(texts[0])["seeds"],
            json.loads((self.out / "manifest.json").read_text())["seeds"])
        self.assertEqual([
            len(text.splitlines())
            for text in (texts[1], (self.out / "students/bo/history.jsonl").read_text())
        ], [1, 2])
        self.assertEqual([path for path in self.out.rglob("*.new")], [])

    def test_what_a_run_left_unfinished_is_named_and_then_removed(self) -> None:
        names = [
            self.out / name
            for name in ("tmp/job-1", "graded/.0123-abc", "returned/.abc", "returned/.0123.tar.x")
        ]

        def ended(job: dict[str, Any]) -> None:
            self.full_marks(job)
            for path in names[:3]:
                path.mkdir(parents=True, exist_ok=True)
            names[3].touch()  # rsync's

        status, said = self.run_main(ended)
        self.assertEqual(status, 3)
        for name in names:
            self.assertIn(str(name), said)
        self.assertEqual((self.run_main(ended)[0], [path for path in names if path.exists()]),
                         (0, []))

    def test_a_folder_of_something_else_is_no_out(self) -> None:
        """A run removes tmp/ and todo/ of the one before."""
        (self.out / "tmp").mkdir(parents=True)
        (self.out / "tmp/thesis.tex").touch()
        status, said = self.run_main(self.full_marks)
        self.assertEqual((status, said), (
            2,
            f"grade-class: OUT={self.out} has files of something else: name a new folder, or that "
            f"of an earlier run\n"
        ))
        self.assertTrue((self.out / "tmp/thesis.tex").exists())

    def test_a_full_disk_is_one_sentence(self) -> None:
        with patch.object(
                results, "write", side_effect=OSError(errno.ENOSPC, "No space left on device",
                                                      "/out/class.csv")):
            status, said = self.run_main(self.full_marks)
        self.assertEqual((status, said.splitlines()[-1]), (
            3,
            "grade-class: /out/class.csv cannot be written: No space left on device. The same "
            "command goes on."
        ))

    def test_without_a_sandbox_nothing_is_graded(self) -> None:
        self.sandbox = walls.NoWalls("the walls cannot be built: no namespaces")
        status, said = self.run_main(lambda job: self.fail("it is graded"))
        self.assertEqual((status, said.splitlines()[-1]), (2, f"grade-class: {self.sandbox}"))

    def test_a_run_waits_for_the_jobs_of_one_that_was_killed(self) -> None:
        """They remove their own folders meanwhile."""
        (self.out / "tmp/job-1").mkdir(parents=True)
        (self.out / "lock").touch()
        there = list[bool]()

        def running(_: Path) -> list[int]:
            there.append((self.out / "tmp/job-1").exists())
            return [7] if len(there) < 3 else []

        with patch.object(one, "running", running):
            self.assertEqual(self.run_main(self.full_marks)[0], 0)
        self.assertEqual(there[:3], [True] * 3)
        with patch.object(one, "running", lambda _: [7]), patch.object(walls, "PATIENCE", 0):
            status, said = self.run_main(self.full_marks)
        self.assertEqual((status, said),
                         (2, "grade-class: process 7 of an earlier run's job does not end\n"))

    def test_a_result_is_on_the_disk_before_it_has_its_name(self) -> None:
        """After a power cut a file that was not synchronised is empty, and its result would be
        taken for whole."""
        logs, synchronised, fsync = self.folder / "logs", set[str](), os.fsync
        (logs / "attempt-1-arm64/grade").mkdir(parents=True)
        (logs / "attempt-1-arm64/grade/arm64.log").write_text("log")
        (logs / "operations.txt").write_text("add\n")
        self.out.mkdir()

        def seen(file: int) -> None:
            synchronised.add(Path(os.readlink(f"/proc/self/fd/{file}")).name)
            fsync(file)

        attempts = [{"grades": [{"arch": "arm64", "boots": [{"log": "attempt-1/arm64.log"}]}]}]
        with patch("os.fsync", seen):
            one.write(self.out, "k",
                      one.without_grade("k", 3, 200, one.GRADED, "") | {"attempts": attempts}, logs)
        self.assertLessEqual({"result.json", "operations.txt", "attempt-1", "arm64.log"},
                             synchronised)

    def test_whatever_goes_wrong_in_a_job_its_result_says_so(self) -> None:
        key = "1" * 64
        for folder in ("todo", "tmp"):
            (self.out / folder).mkdir(parents=True)
        (self.out / f"todo/{key}.json").write_text(
            json.dumps({"key": key, "lab": 3, "seeds": SEEDS, "possible": 200, "students": "ann"}))
        full = OSError(errno.ENOSPC, "No space left on device")
        with patch("sys.argv", ["one", str(self.out), key]), \
                patch.object(one, "run", side_effect=full), \
                redirect_stdout(io.StringIO()) as said:
            self.assertEqual(one.main(), 1)
        self.assertRegex(said.getvalue(),
                         r"^ann: harness error, no score, [\d.]+ s of a processor$")
        got = main.result_of(argparse.Namespace(out=self.out, lab=3), key)
        self.assertEqual((got["state"], got["points"]), ("harness error", None))
        self.assertRegex(got["said"], r"^\S+ cannot be written: No space left on device$")


if __name__ == "__main__":
    unittest.main()

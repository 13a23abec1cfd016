"""`make soak-grade` grades each lab with new seeds, continues an interrupted run, and reports every
lost point."""

from __future__ import annotations

import functools
import io
import json
import tempfile
import threading
import unittest
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

from grading.selftest import soak

ABOUT: dict[str,
            Any] = {"seed": None, "lab": [1, 2, 3], "arch": ["riscv64", "arm64"], "made_of": "a"}


def graded(points: int = 100, why: str | None = None, verdict: str = "pass") -> dict[str, Any]:
    return {
        "verdict": verdict, "points": points, "possible": 100,
        "rungs": [{"name": "life", "boots": {"1": None, "4": why}}],
        "boots": [{"verdict": verdict, "why": "" if verdict == "pass" else "because"}]
    }


class TestSoak(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        patch = mock.patch.multiple(soak, FOLDER=self.folder, build=lambda labs, arches: "a")
        patch.start()
        self.addCleanup(patch.stop)

    def soak(self, *words: str,
             result: Any = lambda one, out, busy: out.mkdir() or soak.FULL) -> tuple[int, str]:
        with mock.patch.object(soak, "grade", result), mock.patch(
                "sys.argv", ["soak", *words]), redirect_stdout(io.StringIO()) as said:
            return soak.main(), said.getvalue()

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]

    def test_it_goes_on_where_it_was_ended(self) -> None:
        words = ("--seed", "5", "--lab", "1", "--arch", "arm64", "--count")
        self.soak(*words, "9")
        whole = self.log()
        (self.folder /
         "log.jsonl").write_text("".join(json.dumps(line) + "\n"
                                         for line in whole[:4]) + '{"number": 3, "la')
        again = mock.Mock(side_effect=lambda one, out, busy: out.mkdir() or soak.FULL)
        self.assertEqual(self.soak(*words[2:], "9", result=again)[0], 0)  # the seed is the log's
        self.assertEqual([call.args[0]["number"] for call in again.call_args_list],
                         [3, 4, 5, 6, 7, 8])
        self.assertEqual(self.log(), whole)

    def test_of_something_else_there_is_another_log(self) -> None:
        log = self.folder / "log.jsonl"
        first = soak.begun(log, ABOUT)[0]
        self.assertEqual(soak.begun(log, ABOUT)[0], first)
        changes: list[dict[str, Any]] = [{"made_of": "b"}, {"lab": [1]}, {"arch": ["arm64"]},
                                         {"seed": "7"}]
        for change in changes:
            log.write_text(json.dumps(first) + "\n" + json.dumps(soak.wanted(first, 0)) + "\n")
            self.assertEqual(len(soak.begun(log, {**ABOUT, **change})), 1, change)

    def test_a_third_of_each_is_beside_busy_processes(self) -> None:
        for labs in ([1], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6]):
            for arches in (["arm64"], ["riscv64", "arm64"]):
                all_of_them = [
                    soak.wanted({"seed": "5", "lab": labs, "arch": arches}, n)
                    for n in range(3 * len(labs) * len(arches))
                ]
                busy = [(one["lab"], one["arch"]) for one in all_of_them if one["busy"]]
                self.assertEqual(sorted(busy), sorted(
                    (lab, arch) for lab in labs for arch in arches))
                self.assertEqual(len({one["seed"] for one in all_of_them}), len(all_of_them))

    def test_every_schedule_of_a_change_is_played(self) -> None:
        def grade(one: dict[str, Any], out: Path, busy: soak.Busy, played: int = 20,
                  result: str = soak.FULL) -> str:
            out.mkdir(exist_ok=True)
            boots = [{"schedules": {one["change"]: [played, 20]}}] if played else []
            (out / "grade.json").write_text(json.dumps({"grades": [{"boots": boots}]}))
            return result

        words = ("--schedules", "--lab", "4", "--arch", "arm64")
        status, said = self.soak(*words, result=grade)
        self.assertEqual(status, 0, said)
        self.assertRegex(
            said,
            r"lab 4 arm64 +register +20 of +20 schedules: full marks\n[\s\S]*\n80 schedules of 4 "
            r"changes were played: 0 changes"
        )
        for wrong in (functools.partial(grade, played=19), functools.partial(grade, played=0),
                      functools.partial(grade, result="0 of 10 points")):
            self.assertEqual(self.soak(*words, result=wrong)[0], 1, wrong)

    def test_several_at_a_time_share_the_busy_processes(self) -> None:
        running, shared = list[int](), list[soak.Busy]()
        both = threading.Barrier(2, timeout=600)

        def grade(one: dict[str, Any], out: Path, busy: soak.Busy) -> str:
            out.mkdir()
            with busy.beside(one["busy"]):
                both.wait()
                running.append(len(busy._processes))
                both.wait()
            shared.append(busy)
            return soak.FULL

        words = ("--seed", "5", "--lab", "1", "2", "--count", "12", "--jobs", "2")
        self.assertEqual(self.soak(*words, result=grade)[0], 0)
        wants = [
            any(soak.wanted(self.log()[0], n)["busy"] for n in (first, first + 1))
            for first in range(0, 12, 2)
        ]
        self.assertEqual([n // soak.BUSY for n in running],
                         [int(w) for w in wants for _ in range(2)])
        self.assertEqual([len(busy._processes) for busy in shared], 12 * [0])

    def test_no_loss_is_hidden(self) -> None:
        self.assertEqual(soak.result_of(graded()), soak.FULL)
        self.assertEqual(soak.result_of(graded(90, "no call")), "90 of 100 points: life: no call")
        self.assertIn("harness error: because", soak.result_of(graded(0, verdict="harness error")))
        status, said = self.soak(
            "--seed", "5", "--count", "3",
            result=lambda one, out, busy: out.mkdir() or "90 of 100 points: life: no call")
        self.assertEqual(status, 1)
        self.assertEqual(said.count("make grade LAB=1 ARCH=riscv64 REPLAY="), 1)
        self.assertIn("3 grades, 0 beside busy processes: 3 without full marks", said)
        self.assertEqual(len([f for f in self.folder.iterdir() if f.is_dir()]), 3,
                         "what they left is not kept")


if __name__ == "__main__":
    unittest.main()

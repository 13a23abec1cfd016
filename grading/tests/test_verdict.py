"""Verdicts of exceptions: an error that a kernel can cause is a fail; only errors of the host are
harness errors."""

from __future__ import annotations

import os
import struct
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from grading import __main__ as program
from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.evidence import evidence
from grading.evidence.evidence import Evidence
from grading.machine.gdbstub import QemuError
from grading.machine.machine import Run
from grading.report import report
from grading.session import session
from grading.tests import mutants
from grading.truth import truth
from grading.verdict import Stopped, Verdict, blamed
from qemu.machine import ARCHES, ROOT

LAB = 3
LOGS = ROOT / "build/tests/verdict"


def too_deep() -> None:
    too_deep()


KERNELS: dict[str, Callable[[], object]] = {
    "ValueError": lambda: int("no number"),
    "IndexError": lambda: [][0],
    "KeyError": lambda: dict[str, int]()["no name"],
    "error": lambda: struct.unpack("<Q", b"short"),
    "UnicodeDecodeError": lambda: b"\xff".decode(),
    "RecursionError": too_deep,
    "AttributeError": lambda: None.symbol,  # type: ignore[attr-defined]
    "AssertionError": lambda: unittest.TestCase().assertTrue(False)
}
HOSTS: dict[str, Callable[[], object]] = {
    "FileNotFoundError": lambda: os.stat("/nothing-is-here"),
    "QemuError": lambda: (_ for _ in ()).throw(QemuError("no answer")),
    "TimeoutExpired": lambda: subprocess.run(["sleep", "9"], timeout=0.01, check=True)
}


class Blame(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        mutants.build(LAB)

    def kernel(self, arch: str) -> Kernel:
        return Kernel(ROOT / f"build/{arch}/lab{LAB}/callsite.elf", arch)

    def boot(self, arch: str = "arm64", seconds: float = evidence.JUDGING) -> Evidence:
        with mock.patch.object(evidence, "JUDGING", seconds):
            return session.Session(self.kernel(arch), LAB, 1, 5, LOGS / f"{arch}.log").run()

    def test_an_exception_has_the_verdict_of_whoever_caused_it(self) -> None:
        for verdict, causes in ((Verdict.FAIL, KERNELS), (Verdict.HARNESS, HOSTS)):
            for name, cause in causes.items():
                with self.subTest(name=name), self.assertRaises(Stopped) as caught, blamed():
                    cause()
                self.assertEqual(caught.exception.verdict, verdict)
                self.assertIn(f"{name}: ", caught.exception.why)

    def test_so_it_is_in_each_part_of_a_boot(self) -> None:
        for where, name in ((truth, "config"), (session, "parse"), (Run, "power_off"), (truth,
                                                                                        "read")):
            for verdict, error in ((Verdict.FAIL, IndexError("list")), (Verdict.HARNESS,
                                                                        OSError("disk full"))):
                with self.subTest(part=name,
                                  verdict=verdict), mock.patch.object(where, name,
                                                                      side_effect=error):
                    e = self.boot()
                    self.assertEqual(e.verdict, verdict, e.why)
                    self.assertIn(str(error), e.why)

    def test_what_ended_the_boot_is_not_hidden_by_what_it_left(self) -> None:
        left = mock.patch.object(truth, "read", side_effect=IndexError("half"))
        for error, verdict in ((QemuError("no answer"), Verdict.HARNESS),
                               (Stopped(Verdict.PANIC, "no answer"), Verdict.PANIC)):
            with left, mock.patch.object(Run, "memory", side_effect=error):
                e = self.boot()
            self.assertEqual((e.verdict, "no answer" in e.why), (verdict, True), e.why)

    def test_and_in_each_rung(self) -> None:
        e = Evidence("arm64", LAB, 1, 5, self.kernel("arm64"), Path())
        for error, harness in ((KeyError("wl_x"), None), (QemuError("no answer"), e)):
            with mock.patch.object(report, "_judged", side_effect=error):
                graded = report.judge("arm64", LAB, 5, [e])
            self.assertEqual(graded.points, 0)
            self.assertIs(graded.harness_error, harness)
            found = graded.results[0].findings[1]
            self.assertIn(str(error), found.why if found else "")

    def test_a_file_that_is_no_kernel_fails(self) -> None:
        for content in (b"", b"\x7fELF",
                        (ROOT / f"build/arm64/lab{LAB}/callsite.elf").read_bytes()[:5000]):
            with tempfile.TemporaryDirectory(prefix="callsite-test-") as name:
                (Path(name) / "arm64").mkdir()
                (Path(name) / "arm64/callsite.elf").write_bytes(content)
                words = [
                    "grading", "--lab",
                    str(LAB), "--arch", "arm64", "--kernels", name, "--out", name
                ]
                with mock.patch("sys.argv", words), mock.patch("sys.stderr") as said:
                    self.assertEqual(program.main(), program.EXIT_FAIL)
                self.assertIn("cannot judge this kernel", str(said.write.call_args_list))

    def test_judging_has_an_end(self) -> None:
        """The limit counts processor time, in the boot and in each rung; a waiting process uses
        none."""
        def for_ever(*_: object) -> None:
            while True:
                pass

        with mock.patch.object(truth, "read", for_ever):
            e = self.boot(seconds=3)
        self.assertEqual(e.verdict, Verdict.FAIL)
        self.assertIn("takes too much processor time", e.why)
        e = Evidence("arm64", LAB, 1, 5, self.kernel("arm64"), Path())
        began = time.process_time()
        with mock.patch.object(evidence, "JUDGING",
                               0.5), mock.patch.object(report, "_judged", for_ever):
            findings = report.findings_of(LAB, [e])
        self.assertLess(time.process_time() - began, 2, "each rung was given as much again")
        self.assertEqual(len(findings), len(rubric.lab(LAB).rungs))
        for found in filter(None, findings):
            self.assertIn("too much processor time", "".join(f.why for f in found.values() if f))

    def test_who_waits_uses_nothing_up(self) -> None:
        e = Evidence("arm64", LAB, 1, 5, self.kernel("arm64"), Path())
        with mock.patch.object(evidence, "JUDGING", 0.3), e.judged():
            time.sleep(0.6)
        self.assertLess(e.judging, 0.2)

    def test_the_limit_is_far_away_for_a_right_kernel(self) -> None:
        for arch in ARCHES:
            e = self.boot(arch)
            self.assertEqual(e.verdict, Verdict.PASS, e.why)
            report.findings_of(LAB, [e])
            self.assertLess(e.judging, evidence.JUDGING / 6)

    def test_text_that_is_not_where_it_was_loaded_fails(self) -> None:
        for there, says in (({}, "map text, 0xffffffff80000000, to no address"),
                            ({0: 0x5000}, "to 0x5000, and must map it to 0x4")):
            with mock.patch.object(Run, "mapped", return_value=there):
                e = self.boot()
            self.assertEqual(e.verdict, Verdict.FAIL)
            self.assertIn(says, e.why)


if __name__ == "__main__":
    unittest.main()

"""`make test` itself: what it counts, and what it runs a second time."""
import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kern.tests import run_all

COUNTED = """
import pathlib, unittest
class T(unittest.TestCase):
    def test_good(self):
        pass
    def test_bad(self):
        runs = pathlib.Path("runs")
        runs.write_text(runs.read_text() + "x" if runs.exists() else "x")
        self.assertNotIn(len(runs.read_text()), {fails})
"""


def tested(fails: tuple[int, ...]) -> tuple[int, str]:
    """A suite of two tests, one of which fails in these of its runs: make test's status and what it says."""
    with tempfile.TemporaryDirectory() as tree, contextlib.chdir(tree), contextlib.redirect_stdout(io.StringIO()) as said:
        Path("test_it.py").write_text(COUNTED.replace("{fails}", str(fails)))
        suite = "two tests", [run_all.PYTHON, "-m", "unittest", "discover", "-t", ".", "-s", "."]
        with mock.patch.object(run_all, "suites", lambda: [suite]), mock.patch("sys.argv", ["run_all"]):
            status = run_all.main()
    return status, said.getvalue()


class AgainAlone(unittest.TestCase):
    def test_what_passes_is_run_once(self) -> None:
        self.assertEqual((0, 1), (tested(())[0], tested(())[1].count("2 passed, 0 failed\n")))

    def test_what_fails_once_passes_and_is_named(self) -> None:
        status, said = tested((1,))
        self.assertEqual(0, status, said)
        self.assertIn("FAIL: test_bad", said)
        self.assertEqual([f"1 passed only when run again: {run_all.PYTHON} -m unittest test_it.T.test_bad", "2 passed, 0 failed"],
                         said.splitlines()[-2:])

    def test_it_must_pass_twice(self) -> None:
        for fails in ((1, 2), (1, 3), (1, 2, 3)):
            status, said = tested(fails)
            self.assertEqual((1, "1 passed, 1 failed"), (status, said.splitlines()[-1]))


class Alone(unittest.TestCase):
    def test_a_case_under_qemu(self) -> None:
        text = "ok     arm64 panic: text (0.1 s)\nFAILED arm64 panic: its callers, 1 CPUs\n     FAILED it's this\n1 passed, 1 failed\n"
        self.assertEqual([[run_all.PYTHON, "kern/tests/run_qemu.py", "--no-build", "arm64 panic: its callers, 1 CPUs"]], run_all.alone(text, [""]))
        self.assertEqual((1, 1), run_all.counts(text, 1))
        self.assertEqual(text.splitlines()[1:3], run_all.telling(text))

    def test_a_wrong_solution(self) -> None:
        failure = "FAIL lab 5 riscv64 cheat-x     fail: one CPU, 27.9 s\n     the mistakes named must be none\n"
        text = f"{failure}ok   lab 5 riscv64 y\n{failure}1 passed, 1 failed, 3 s\n"
        self.assertEqual([[run_all.PYTHON, "-m", "grading.wrong", "--lab", "5", "--arch", "riscv64", "cheat-x"]], run_all.alone(text, [""]))
        self.assertEqual(failure.splitlines(), run_all.telling(text))

    def test_two_subtests_of_one(self) -> None:
        head = "ERROR: test_x (a.T.test_x) (arch='{}')\n"
        self.assertEqual(2, len(run_all.alone(head.format("riscv64") + head.format("arm64"), [""])))

    def test_what_does_not_name_its_failures_is_not_run_again(self) -> None:
        self.assertEqual([], run_all.alone("[  FAILED  ] Ring.Wraps\n 1 FAILED TEST\n", ["make", "host-tests"]))


if __name__ == "__main__":
    unittest.main()

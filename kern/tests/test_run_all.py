"""`make test` itself: what it counts, what it prints about a failure, and the order in which it
runs suites."""
import contextlib
import fcntl
import io
import os
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


def tested(rows: list[list[run_all.Suite]], words: tuple[str, ...] = ()) -> tuple[int, str]:
    """The status and the output of `make test` with these suites, after a build of nothing."""
    builds = [[("build", ["touch", "built"])]]
    with contextlib.redirect_stdout(io.StringIO()) as said, \
            mock.patch("sys.argv", ["run_all", *words]), \
            mock.patch.object(run_all, "builds", lambda: builds), \
            mock.patch.object(run_all, "rows", lambda *_: rows):
        status = run_all.main()
    return status, said.getvalue()


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        self.enterContext(contextlib.chdir(self.enterContext(tempfile.TemporaryDirectory())))

    def two_tests(self, fails: tuple[int, ...], words: tuple[str, ...] = ()) -> tuple[int, str]:
        Path("test_it.py").write_text(COUNTED.replace("{fails}", str(fails)))
        return tested([[("two tests", [run_all.PYTHON, "-m", "unittest", "test_it"])]], words)

    def test_a_second_run_in_the_tree_is_refused(self) -> None:
        run_all.LOGS.mkdir(parents=True)
        with (run_all.LOGS /
              ".lock").open("w") as lock, contextlib.redirect_stderr(io.StringIO()) as why:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.assertEqual((2, ""), self.two_tests(()))
        self.assertEqual("The tests run in this tree already: wait for their end.\n",
                         why.getvalue())

    def test_a_make_in_a_suite_is_not_a_part_of_make_test(self) -> None:
        Path("Makefile").write_text("all:\n\t@test $(MAKELEVEL) = 0\n")
        with mock.patch.dict(os.environ, {"MAKELEVEL": "1", "MAKEFLAGS": "w"}):
            status, _ = tested([[("make", ["sh", "-c", "make >said && ! grep Entering said"])]])
        self.assertEqual(0, status)

    def test_what_passes(self) -> None:
        status, said = self.two_tests(())
        self.assertEqual((0, "3 passed, 0 failed"), (status, said.splitlines()[-1]))

    def test_what_fails_once_fails_and_is_named(self) -> None:
        status, said = self.two_tests((1,))
        self.assertEqual((1, "2 passed, 1 failed", "x"),
                         (status, said.splitlines()[-1], Path("runs").read_text()))
        self.assertIn("FAIL: test_bad", said)

    def test_what_is_skipped_has_not_passed(self) -> None:
        Path("test_skips.py").write_text(
            "import unittest\nclass T(unittest.TestCase):\n    def test_it(self):\n        pass\n"
            "    def test_skip(self):\n        self.skipTest('no board')\n")
        host = "echo 'skipped: no tree'; echo '[  PASSED  ] 3 tests.'; echo '[  SKIPPED ] 2 tests.'"
        status, said = tested([[("units", [run_all.PYTHON, "-m", "unittest", "test_skips"]),
                                ("host", ["sh", "-c", host])]])
        self.assertEqual((0, ["3 skipped", "5 passed, 0 failed"]), (status, said.splitlines()[-2:]))
        self.assertIn("\n     skipped: no tree\n", said)

    def test_several_times_is_until_something_fails(self) -> None:
        status, said = self.two_tests((3,), ("--times", "5", "--busy", "1"))
        self.assertEqual((1, "xxx", 2),
                         (status, Path("runs").read_text(), said.count("3 passed, 0 failed\n")))

    def test_builds_come_first_and_rows_run_side_by_side(self) -> None:
        """Each row waits for a file that the other one makes."""
        rows = [[(f"row {name}", [
            "sh", "-c",
            f"test -e built && touch {name} && until test -e {other}; do sleep 0.01; done"
        ]), (f"then {name}", ["test", "-e", other])]
                for name, other in (("one", "two"), ("two", "one"))]
        with mock.patch("os.sched_getaffinity", lambda _: {0, 1}):
            status, said = tested(rows)
        self.assertEqual((0, "5 passed, 0 failed"), (status, said.splitlines()[-1]), said)


class Said(unittest.TestCase):
    def test_a_case_under_qemu(self) -> None:
        text = ("ok     arm64 panic: text (0.1 s)\nFAILED arm64 panic: its callers, 1 CPUs\n     "
                "FAILED it's this\n1 passed, 1 failed\n")
        self.assertEqual((1, 1), run_all.counts(text, 1))
        self.assertEqual(text.splitlines()[1:3], run_all.telling(text))

    def test_a_wrong_solution(self) -> None:
        failure = ("FAIL lab 5 riscv64 cheat-x     fail: one CPU, 27.9 s\n     the mistakes named "
                   "must be none\n")
        text = f"{failure}ok   lab 5 riscv64 y\n{failure}1 passed, 1 failed, 3 s\n"
        self.assertEqual(failure.splitlines(), run_all.telling(text))


class Suites(unittest.TestCase):
    def test_every_file_of_tests_is_a_suite(self) -> None:
        test, long, ci = ([
            word for row in run_all.rows(which, 2) for _, command in row for word in command
            if ".test_" in word
        ] for which in ("test", "long", "ci"))
        files = {
            str(path.with_suffix("")).replace("/", ".")
            for path in Path().glob("**/test_*.py") if path.parts[0] != "build"
        }
        self.assertEqual(sorted(files), sorted(test + long))
        self.assertEqual(sorted(files), sorted(ci))


if __name__ == "__main__":
    unittest.main()

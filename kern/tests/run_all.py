"""Every test of the project that fits into a quarter of an hour: `make test`; --slice: and a third of the wrong solutions, as .ci/run does.

Each suite is one command whose output says how many of its tests passed; a
suite that ends badly without saying so counts as one failure. What is built is
built first. Then one suite more than there are processors runs at a time, because
some wait for guest time; those of one row, which use the same files, one after
the other. The last line is the sum: `N passed, N failed`.
"""
import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from qemu.machine import LAST_LAB  # noqa: E402

PYTHON = "/usr/bin/python3"
LOGS = Path("build/tests")
LONGEST = "40m"  # for a suite: one that hangs is a failure with a name
LABS = range(1, LAST_LAB + 1)
GRADED = sorted(int(rubric.parent.name[0]) for rubric in Path("labs").glob("*/rubric.toml"))
MAKE = ["make", "--no-print-directory", "-j2"]
Suite = tuple[str, list[str]]  # its name and its command
LONG = ("grading/tests/test_starts", "kern/ftrace/tests/test_module_steps", "kern/ftrace/tests/test_ring_steps", "kern/ftrace/tests/test_islands")

# What a suite's own last words look like: (pattern, what the groups are).
COUNTS = [
    (re.compile(r"\[  PASSED  \] (\d+) tests?"), "passed"),
    (re.compile(r"^ ?(\d+) FAILED TESTS?", re.M), "failed"),
    (re.compile(r"^(\d+) passed, (\d+) failed", re.M), "both"),
]


def unittest_counts(text: str) -> tuple[int, int] | None:
    ran = re.search(r"^Ran (\d+) tests?", text, re.M)
    if not ran:
        return None
    bad = sum(int(n) for n in re.findall(r"(?:failures|errors)=(\d+)", text))
    return max(0, int(ran[1]) - bad), bad  # a test may fail several times: once for each of its subtests


def counts(text: str, status: int) -> tuple[int, int]:
    """How many tests of a suite passed and failed, from what it printed and its exit status."""
    found = unittest_counts(text)
    if found is None:
        passed = failed = 0
        for pattern, kind in COUNTS:
            for groups in pattern.findall(text):
                if kind == "both":
                    passed, failed = passed + int(groups[0]), failed + int(groups[1])
                elif kind == "passed":
                    passed += int(groups)
                else:
                    failed += int(groups)
        found = (passed, failed) if passed or failed else (int(status == 0), int(status != 0))
    passed, failed = found
    return (passed, failed) if failed or status == 0 else (passed, 1)


def telling(text: str) -> list[str]:
    """What a failed suite said about it: its tests' failures, which may stand far from its end, or its last lines, a
    grade of both architectures among them."""
    unit = re.findall(r"^={70}\n((?:FAIL|ERROR): .*?)(?=^[=-]{70}\n(?:FAIL|ERROR|Ran|$))", text, re.M | re.S)
    if unit:
        return [line for failure in unit[:10] for line in shortened(failure.splitlines())]
    told = re.findall(r"^FAIL(?:ED)? .*\n(?:     .*\n){0,12}", text, re.M)
    if told:
        return "".join(list(dict.fromkeys(told))[:10]).splitlines()
    failures = re.findall(r"^.*(?:: Failure|: runtime error|ERROR: ).*\n(?:.+\n){0,6}", text, re.M)
    return "".join(failures[:10]).splitlines() + text.splitlines()[-90:]


def shortened(lines: list[str]) -> list[str]:
    lines = [line if len(line) <= 2000 else f"{line[:400]} ... {line[-1500:]}" for line in lines]
    return lines if len(lines) <= 40 else [*lines[:20], "...", *lines[-20:]]


def builds() -> list[Suite]:
    """What all others need, one after the other."""
    host = ("host tests", [*MAKE, "host-tests"])
    labs = [(f"build of lab {n}", [*MAKE, f"LAB={n}", "all"]) for n in LABS]
    if Path("labs/staff").exists():  # a student's tree: what is not written yet fails in all others
        return [host, *labs]
    return [host, *labs, ("build of the kernels with tests", [PYTHON, "kern/tests/run_qemu.py", "--only-build"])]


def rows(with_slice: bool, jobs: int) -> list[list[Suite]]:
    """The suites, those that take longest first; in a row are those that use the same files. With many jobs the kernel's
    own suite, which is the longest, has several."""
    if Path("labs/staff").exists():
        return []
    units = {name: [(name, [PYTHON, "-m", "unittest", name.replace("/", ".")])]
             for folder in ("grading", "kern/ftrace", "qemu", "docs/book", "kern")
             for name in (str(path.with_suffix("")) for path in sorted(Path(folder, "tests").glob("test_*.py")))}
    wrong = [*units.pop("grading/tests/test_loop"), *units.pop("grading/tests/test_signals")]  # in build/wrong/
    if with_slice:
        wrong.append(("a third of the wrong solutions", [PYTHON, "-m", "grading.selftest.wrong", "--third", *seed()]))
    in_build = [*units.pop("docs/book/tests/test_transcripts"), *((f"grade of lab {n}", [*MAKE, "grade", f"LAB={n}"]) for n in GRADED), ("bench", [PYTHON, "kern/ftrace/tests/bench.py", "--quick"])]
    return [wrong, [("the kernel under QEMU", [PYTHON, "kern/tests/run_qemu.py", "--no-build", f"--jobs={max(1, jobs // 3)}"])],
            in_build, *(units.pop(name) for name in LONG), [("lint", [*MAKE, "lint"])], [("fuzzing", [*MAKE, "fuzz"])], [("the book", [*MAKE, "docs"])],
            *units.values()]


def seed() -> list[str]:
    return ["--seed", os.environ["SEED"]] if os.environ.get("SEED") else []


def run(suite: Suite) -> tuple[int, int]:
    """How many tests of a suite passed and failed."""
    name, command = suite
    began = time.monotonic()
    log = LOGS / (name.replace(" ", "-").replace("/", "-") + ".log")
    with log.open("w") as out:
        process = subprocess.Popen(["timeout", "--kill-after=30", LONGEST, *command], stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    passed, failed = counts(text, process.returncode)
    lines = [f"{'ok  ' if not failed else 'FAIL'} {name:38} {passed:4} passed, {failed} failed, {time.monotonic() - began:4.0f} s, "
             f"{used.ru_utime + used.ru_stime:4.0f} s of a processor"]
    if failed:
        lines += ["     " + line for line in telling(text)] + [f"     log: {log}"]
    print("\n".join(lines), flush=True)
    return passed, failed


def run_all(wanted: Callable[[str], bool], with_slice: bool, jobs: int) -> tuple[int, int]:
    def run_row(row: list[Suite]) -> list[tuple[int, int]]:
        return [run(suite) for suite in row if wanted(suite[0])]

    print("What is built is built first, which takes some minutes. A line when a suite has ended:", flush=True)
    results = run_row(builds())
    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(run_row, rows(with_slice, jobs)):
            results += row
    return sum(passed for passed, _ in results), sum(failed for _, failed in results)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that want a processor, always."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(subprocess.Popen(["setpriv", "--pdeathsig", "KILL", PYTHON, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="run the suites whose name contains one of these words")
    parser.add_argument("--slice", action="store_true", help="a third of the wrong solutions, too")
    parser.add_argument("--busy", type=int, default=0, help="beside so many busy processes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 1, help="so many suites side by side")
    parser.add_argument("--times", type=int, default=1, help="so often, or until something fails")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    with busy(options.busy):
        for _ in range(options.times):
            passed, failed = run_all(lambda name: not options.only or any(word in name for word in options.only), options.slice,
                                     options.jobs)
            print(f"{passed} passed, {failed} failed", flush=True)
            if failed or not passed:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

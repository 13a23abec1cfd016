"""`make test`: all tests of the project, but for those that take long: with --long, as in `make
test-long`, these. With --ci, as in .ci/run, both, but for a minute of each fuzzer, and a part of
`make test-labs`.

Each suite is one command whose output says how many of its tests passed; a
suite that ends with an error and does not say so counts as one failure. What is built is
built first. Then two suites more than there are processors run at a time, because
some wait for guest time. Suites that use the same files are in one row, and run one after
another. The last two lines are the sums: `N skipped`, and `N passed, N failed`.
The reason why a test is skipped is printed below its suite's line.
"""
import argparse
import fcntl
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
from qemu import disk  # noqa: E402
from qemu.machine import ARCHES, LAST_LAB  # noqa: E402

PYTHON = "/usr/bin/python3"
LOGS = Path("build/tests")
LONGEST = "40m"  # for a suite: one that hangs is a failure with a name
LABS = range(1, LAST_LAB + 1)
GRADED = sorted(int(rubric.parent.name[0]) for rubric in Path("labs").glob("*/rubric.toml"))
MAKE = ["make", "--no-print-directory", "-j2"]
Suite = tuple[str, list[str]]  # its name and its command
HOST = ("host tests", [*MAKE, "host-tests"])
FUZZED, FUZZED_LONG = 10, 60  # seconds for each fuzzer
AT_LENGTH = "the kernel under QEMU, at length"
FUZZING_LONG = "fuzzing, a minute each"
LINUX = {arch: f"Linux's selftests, {arch}" for arch in ARCHES}
LONG = ("kern/ftrace/tests/test_module_steps", "kern/ftrace/tests/test_ring_steps",
        "kern/tests/test_boards", "kern/tests/test_card", "kern/ftrace/tests/test_islands",
        "docs/book/tests/test_transcripts", "grading/tests/test_loop", "grading/tests/test_line",
        "grading/tests/test_pages", AT_LENGTH, FUZZING_LONG, *LINUX.values())

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
    # a test may fail several times: once for each of its subtests
    return max(0, int(ran[1]) - bad - skipped(text)), bad


def skipped(text: str) -> int:
    said = re.findall(r"^\[  SKIPPED \] (\d+) test", text, re.M) + re.findall(
        r"^(?:OK|FAILED) \(.*?skipped=(\d+)", text, re.M)
    return sum(int(n) for n in said)


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
    """What a failed suite printed about the failure: its tests' failures, which may be far from its
    end; or its last lines, which have room for a grade of both architectures."""
    unit = re.findall(r"^={70}\n((?:FAIL|ERROR): .*?)(?=^[=-]{70}\n(?:FAIL|ERROR|Ran|$))", text,
                      re.M | re.S)
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


def builds() -> list[list[Suite]]:
    """The builds that all suites need, in rows; those of the kernels use the same files."""
    labs = [(f"build of lab {n}", [*MAKE, f"LAB={n}", "all"]) for n in LABS]
    if Path("labs/staff").exists():  # a student's tree: what is not written yet fails in all others
        return [[HOST], labs]
    return [[("build of the host tests", [*MAKE, "host-tests-built"])],
            [
                *labs,
                ("build of the kernels with tests",
                 [PYTHON, "kern/tests/run_qemu.py", "--only-build"])
            ]]


def rows(which: str, jobs: int) -> list[list[Suite]]:
    """The suites, the longest first. Those that use the same files are in one row. `which`: "test",
    "long", "ci", or "any" of the first two."""
    if Path("labs/staff").exists():
        return []
    units = {
        name: [(name, [PYTHON, "-m", "unittest", name.replace("/", ".")])]
        for folder in ("grading", "kern/ftrace", "qemu", "docs/book", "kern")
        for name in (str(path.with_suffix(""))
                     for path in sorted(Path(folder, "tests").glob("test_*.py")))
    }
    kernel = [(name, [
        PYTHON, "kern/tests/run_qemu.py", "--no-build", f"--part={part}",
        f"--jobs={max(1, jobs // 3)}"
    ]) for name, part in (("the kernel under QEMU", "short"), (AT_LENGTH, "long"))]
    # in build/wrong/
    wrong = [*units.pop("grading/tests/test_loop"), *units.pop("grading/tests/test_signals")]
    if which == "ci":
        wrong += [(f"a part of {name}",
                   [PYTHON, "-m", f"grading.{module}", "--part", *seed()])
                  for name, module in (("the wrong solutions", "selftest.wrong"),
                                       ("the tests of the handed-out tree", "tests.handed_out"))]
    in_build = [
        *units.pop("docs/book/tests/test_transcripts"),
        ("bench", [PYTHON, "kern/ftrace/tests/bench.py", "--quick"])
    ]
    grades = [[(f"grade of lab {n}", grade(n))] for n in GRADED]
    alone = [units.pop(name) for name in LONG if name in units]
    fuzzing = [(name, [*MAKE, "fuzz", f"FUZZ_SECONDS={seconds}"])
               for name, seconds in (("fuzzing", FUZZED), (FUZZING_LONG, FUZZED_LONG))]
    # not by a machine that tests each change: it takes a download, and ten minutes
    linux = [(name, [*MAKE, "test-linux", f"ARCH={arch}"])
             for arch, name in LINUX.items() if which != "ci"]
    every = [
        wrong, linux, kernel, in_build, *reversed(grades), *alone, [HOST],
        [("lint", [*MAKE, "lint"])], fuzzing if which != "ci" else fuzzing[:1],
        [("the book", [*MAKE, "docs"])], *units.values()
    ]
    kinds = {"test": (False,), "long": (True,)}.get(which, (False, True))
    return [
        row for row in ([suite for suite in row if (suite[0] in LONG) in kinds] for row in every)
        if row
    ]


def grade(lab: int) -> list[str]:
    """Grade a lab like `make grade`, but with its results in a folder of the lab."""
    return [
        PYTHON, "-m", "grading", f"--lab={lab}", f"--variant=lab{lab}",
        f"--out={(LOGS / f'grade{lab}').absolute()}"
    ]


def seed() -> list[str]:
    return ["--seed", os.environ["SEED"]] if os.environ.get("SEED") else []


def run(suite: Suite) -> tuple[int, int, int]:
    """How many tests of a suite passed, failed and were skipped."""
    name, command = suite
    began = time.monotonic()
    log = LOGS / (name.replace(" ", "-").replace("/", "-") + ".log")
    with log.open("w") as out:
        # As if a person had typed it: a make in a suite is not a part of the one that runs `make
        # test`.
        own = {
            key: value
            for key, value in os.environ.items() if key not in ("MAKELEVEL", "MAKEFLAGS", "MFLAGS")
        }
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "TERM", "timeout", "--kill-after=30", LONGEST, *command],
            env=own, stdout=out, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    passed, failed = counts(text, process.returncode)
    lines = [
        f"{'ok  ' if not failed else 'FAIL'} {name:38} {passed:4} passed, {failed} failed, "
        f"{time.monotonic() - began:4.0f} s, "
        f"{used.ru_utime + used.ru_stime:4.0f} s of a processor"
    ]
    if failed:
        lines += ["     " + line for line in telling(text)] + [f"     log: {log}"]
        lines += [f"     {full}" for full in filter(None, [disk.lacks(LOGS, disk.temporary())])]
    lines += ["     " + why for why in dict.fromkeys(re.findall(r"^skipped: .*", text, re.M))]
    print("\n".join(lines), flush=True)
    return passed, failed, skipped(text)


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Run so many processes, each of which keeps a processor busy."""
    with ExitStack() as stack:
        for _ in range(count):
            process = stack.enter_context(
                subprocess.Popen(
                    ["setpriv", "--pdeathsig", "KILL", PYTHON, "-c", "while True: pass"]))
            stack.callback(process.kill)
        yield


def run_all(wanted: Callable[[str], bool], which: str, jobs: int,
            beside: int) -> tuple[int, int, int]:
    """Returns the number of tests that passed, failed and were skipped. `beside`: so many busy
    processes run beside the tests."""
    def run_row(row: list[Suite]) -> list[tuple[int, int, int]]:
        return [run(suite) for suite in row if wanted(suite[0])]

    print("What is built is built first, which takes some minutes. A line when a suite has ended:",
          flush=True)
    results = list[tuple[int, int, int]]()
    for disturbers, todo in ((0, builds()), (beside, rows(which, jobs))):
        with busy(disturbers), ThreadPoolExecutor(jobs) as pool:
            for row in pool.map(run_row, todo):
                results += row
    passed, failed, skips = zip(*results) if results else ((), (), ())
    return sum(passed), sum(failed), sum(skips)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*",
                        help="run the suites whose name contains one of these words")
    parser.add_argument("--long", dest="which", action="store_const", const="long", default="test",
                        help="the tests that take longer, alone")
    parser.add_argument("--ci", dest="which", action="store_const", const="ci",
                        help="both, and a part of make test-labs")
    parser.add_argument("--busy", type=int, default=0, help="beside so many busy processes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)) + 2,
                        help="so many suites side by side")
    parser.add_argument("--times", type=int, default=1, help="so often, or until something fails")
    options = parser.parse_args()
    LOGS.mkdir(parents=True, exist_ok=True)
    with (LOGS / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("The tests run in this tree already: wait for their end.", file=sys.stderr)
            return 2
        return run_times(options)


def run_times(options: argparse.Namespace) -> int:
    """Run the tests options.times times, or until one fails."""
    which = "any" if options.only and options.which == "test" else options.which
    for _ in range(options.times):
        passed, failed, skips = run_all(
            lambda name: not options.only or any(word in name for word in options.only), which,
            options.jobs, options.busy)
        print(f"{skips} skipped\n{passed} passed, {failed} failed", flush=True)
        if failed or not passed:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(disk.ended(main, "the tests", 2, LOGS))

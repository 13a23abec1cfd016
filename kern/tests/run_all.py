"""Every test of the project: `make test`.

Each suite is one command whose output says how many of its tests passed; a
suite that ends badly without saying so counts as one failure. The last line
is the sum: `N passed, N failed`.

Much of this waits for machines on a host that may be busy. Up to three failed
tests of a suite are run again, each by itself, and must pass twice in a row;
then they count as passed, their first failure is told all the same, and the
last line but one names them: a test that needs this is a defect still.
"""
import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))
from qemu.machine import LAST_LAB  # noqa: E402

PYTHON = "/usr/bin/python3"
LOGS = Path("build/tests")
LABS = range(1, LAST_LAB + 1)
MAKE = ["make", "--no-print-directory", "-j2"]
FEW, TWICE = 3, 2  # failed tests of a suite that are run again, and how often each

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
    return int(ran[1]) - bad, bad


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


# A failed test as its suite names it: (pattern, the command that runs it alone).
ALONE = [
    (re.compile(r"^(?:FAIL|ERROR): \S+ \(([\w.]+)\).*", re.M), [PYTHON, "-m", "unittest", "{0}"]),
    (re.compile(r"^FAILED ((?:riscv64|arm64) .+)", re.M), [PYTHON, "kern/tests/run_qemu.py", "--no-build", "{0}"]),
    (re.compile(r"^FAIL lab (\d) +(\S+) +(\S+).*", re.M), [PYTHON, "-m", "grading.wrong", "--lab", "{0}", "--arch", "{1}", "{2}"]),
]


def alone(text: str, command: list[str]) -> list[list[str]]:
    """The commands that run a suite's failed tests again; none where it says of a failure only that there is one."""
    if command[0] == MAKE[0] and "grade" in command:
        return [command]
    failures = {match[0]: [word.format(*match.groups()) for word in words] for pattern, words in ALONE for match in pattern.finditer(text)}
    return list(failures.values())  # grading.wrong says each twice


def passes_alone(command: list[str], log: Path) -> bool:
    with log.open("a") as out:
        for _ in range(TWICE):
            print(f"\nagain: {shlex.join(command)}", file=out, flush=True)
            if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode:
                return False
    return True


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


def suites() -> list[tuple[str, list[str]]]:
    """Name and command of each suite, the quick ones first."""
    host = [("host tests", [*MAKE, "host-tests"])]
    units = [(f"{d} in Python", [PYTHON, "-m", "unittest", "discover", "-t", ".", "-s", d])
             for d in ("docs/book/tests", "qemu/tests", "grading/tests", "kern/ftrace/tests", "kern/tests")
             if list(Path(d).glob("test_*.py"))]
    builds = [(f"build of lab {n}", [*MAKE, f"LAB={n}", "all"]) for n in LABS]
    if Path("labs/staff").exists():  # a student's tree: what is not written yet fails in all others
        return [*host, *builds]
    kernel = [("the kernel under QEMU", [PYTHON, "kern/tests/run_qemu.py"])]
    seed = ["--seed", os.environ["SEED"]] if os.environ.get("SEED") else []
    grades = [(f"grade of lab {n}", [*MAKE, "grade", f"LAB={n}"]) for n in LABS]
    return [("lint", [*MAKE, "lint"]), ("the book", [*MAKE, "docs"]), *host, *builds, *units, *kernel, *grades,
            ("a third of the wrong solutions", [PYTHON, "-m", "grading.wrong", "--third", *seed]), ("bench", [PYTHON, "kern/ftrace/tests/bench.py", "--quick"])]


def run(name: str, command: list[str], late: list[str]) -> tuple[int, int]:
    """How many tests of a suite passed and failed; to @late, those that passed only when they were run again."""
    began = time.monotonic()
    note = " (some minutes: they are compiled with sanitizers)" if name == "host tests" else ""
    print(f"...  {name}{note}", end="\r" if sys.stdout.isatty() else "\n", flush=True)
    log = LOGS / (name.replace(" ", "-").replace("/", "-") + ".log")
    with log.open("w") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False).returncode
    text = log.read_text(errors="replace")
    passed, failed = counts(text, status)
    told = telling(text) if failed else []
    again = alone(text, command)
    if 0 < failed == len(again) <= FEW and all(passes_alone(words, log) for words in again):
        late += [shlex.join(words) for words in again]
        passed, failed = passed + failed, 0
        told = [f"passed {TWICE} times alone: {shlex.join(words)}" for words in again] + told
    print(f"{'ok  ' if not failed else 'FAIL'} {name:32} {passed:4} passed, {failed} failed, {time.monotonic() - began:.0f} s", flush=True)
    if told:
        print("\n".join("     " + line for line in told) + f"\n     log: {log}", flush=True)
    return passed, failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("only", nargs="*", help="run the suites whose name contains one of these words")
    words = parser.parse_args().only
    LOGS.mkdir(parents=True, exist_ok=True)
    late: list[str] = []
    results = [run(name, command, late) for name, command in suites() if not words or any(w in name for w in words)]
    passed, failed = (sum(numbers) for numbers in zip(*results)) if results else (0, 0)
    if late:
        print(f"{len(late)} passed only when run again: {'; '.join(late)}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Grades the kernel of one architecture with each seed, in the sandbox of a submission
(classroom/one.py).

    python3 -m grading.seeds ARCH OUT 'SEED ...' WORD ...

WORD ... are further words for each grade. Some schedules do not depend on the seed. If the first
seed's grade played its schedules and all were right, the later grades leave these out: the kernel
is the same. The results of grade N go to OUT/attempt-N-ARCH/, what it prints to .txt beside that
folder, its exit status to .status, and the processor time that it took, in seconds, to .cpu. The
grades are forked from this process, so the program and the kernel are read once.
"""

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from grading import __main__ as program
from grading.machine.machine import ended_by_signals
from grading.report import typed
from grading.stimulus.schedules import SCHEDULES
from qemu.machine import ROOT


def grade(arch: str, at: Path, seed: str, words: list[str]) -> int:
    with at.with_suffix(".txt").open("wb") as said:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
    sys.argv = ["grading", "--arch", arch, "--seed", seed, "--out", str(at), *words]
    return program.main()


def scheduled(at: Path) -> bool:
    """Has this grade played schedules, and were they right?"""
    with suppress(OSError, ValueError):
        boots = [rung["boots"] for grade in json.loads((at / "grade.json").read_text())["grades"]
                 for rung in grade["rungs"]]
        return [why for found in boots for boot, why in found.items()
                if boot == str(SCHEDULES)] == [None]
    return False


def main() -> int:
    arch, out, seeds, *words = sys.argv[1:]
    # what a student is told to type is for another machine
    typed.GIVEN = tuple(name for name in typed.GIVEN if not name.startswith("QEMU_"))
    with suppress(Exception):  # a file that is no kernel: each grade says so
        program.kernel_in(ROOT / "build", arch)
    for n, seed in enumerate(seeds.split(), 1):
        at = Path(out, f"attempt-{n}-{arch}")
        child = os.fork()
        if not child:
            again = n > 1 and scheduled(Path(out, f"attempt-1-{arch}"))
            sys.exit(grade(arch, at, seed, [*words, *(["--again"] if again else [])]))
        _, status, used = os.wait4(child, 0)
        code = os.waitstatus_to_exitcode(status)
        at.with_suffix(".status").write_text(f"{code if code >= 0 else 128 - code}\n")
        at.with_suffix(".cpu").write_text(f"{used.ru_utime + used.ru_stime:.2f}\n")
    return 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

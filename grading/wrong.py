"""The grader is graded: each wrong solution of a lab, and some right ones, must get the verdict written at its head.

    python3 -m grading.wrong                        every lab, both architectures, all of them; solution and start too
    python3 -m grading.wrong --third [--seed N]     a third of them, on one architecture each; another third tomorrow
    python3 -m grading.wrong no-sync ... --lab 3    these

A wrong solution is labs/<n>-<name>/wrong/NAME.patch: a head, a sentence, a
patch over the solution. The head:

    Verdict: panic, time-out     what `make grade` must end with, as in grading/verdict.py; several: one of these
    Rung: one CPU, parents       the first that are lost, in the order of the ladder, when the verdict is fail
    Also: off                    rungs that may be lost or not, as a thread was inside of a traced call or was not
    Mistake: wrong-offset        each mistake that the report must name, and no others
    Arch: arm64                  if it is a mistake on that architecture alone
    CPUs: 4                      how many CPUs it is booted with; default: 1

It is built in a copy of the tree, one for each lab and architecture, where
only what it changes is compiled, and graded by the same harness; the two
architectures side by side.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from rich.console import Console

from grading import report, rubric, session, side_by_side
from grading.elf import Kernel
from grading.machine import ended_by_signals
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
BUDGET = 250_000_000, 1_500_000_000  # instructions on one CPU, up to lab 4, and from lab 5 on, which waits by -icount; several times what a solution needs
# Warnings are no errors there: a wrong solution may well have one.
CLEAN = {name: value for name, value in os.environ.items() if name != "CI" and not name.startswith(("MAKE", "MFLAGS"))}
TREE = ("boot", "kern", "labs", "grading", "qemu", ".ci", "Makefile")
FIELDS = {"Verdict", "Rung", "Also", "Mistake", "Arch", "CPUs"}


class BadPatch(Exception):
    """It cannot be applied, or its head not understood; the message says why."""


@dataclass(frozen=True)
class Wrong:
    lab: int
    path: Path

    @property
    def name(self) -> str:
        return self.path.stem

    @cached_property
    def head(self) -> dict[str, str]:
        lines = self.path.read_text().split("\n\n", 1)[0].splitlines()
        fields = dict(line.split(": ", 1) for line in lines if re.match(r"\w+: ", line))
        if len(fields) != len(lines) or not {"Verdict"} <= set(fields) <= FIELDS:
            raise BadPatch(f"{self.path}: its head is not made of {', '.join(sorted(FIELDS))}, each once, then an empty line")
        return fields

    def listed(self, field: str) -> list[str]:
        return [word.strip() for word in self.head.get(field, "").split(",") if word.strip()]

    @property
    def verdicts(self) -> list[Verdict]:
        return [Verdict(word) for word in self.listed("Verdict")]

    @property
    def arches(self) -> tuple[str, ...]:
        return tuple(self.listed("Arch")) or ARCHES

    @property
    def cpus(self) -> list[int]:
        return [int(n) for n in self.listed("CPUs")] or [1]

    @property
    def files(self) -> list[str]:
        return re.findall(r"^\+\+\+ b/(\S+)", self.path.read_text(), re.M)


def shelf(lab: int) -> list[Wrong]:
    return [Wrong(lab, path) for path in sorted((rubric.LABS[lab] / "wrong").glob("*.patch"))]


# ---- built -------------------------------------------------------------------

def make(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-j2", "-C", str(tree), *words], capture_output=True, text=True, check=False, env=CLEAN)


def images(lab: int, arches: tuple[str, ...], start: bool = False) -> list[str]:
    return [f"build/{arch}/lab{lab}{'-start' if start else ''}/Image" for arch in arches]


def prepare(lab: int, whole: bool = False, arches: tuple[str, ...] = ARCHES) -> None:
    for start in (False, True) if whole else (False,):
        done = make(ROOT, f"{'START' if start else 'LAB'}={lab}", "build/initrd.cpio", *images(lab, arches, start))
        if done.returncode:
            raise BadPatch(f"{'the start of ' if start else ''}lab {lab} does not build:\n{done.stderr}")


def scratch(lab: int, arch: str) -> Path:
    return ROOT / f"build/wrong/{arch}-lab{lab}"


def fresh(tree: Path, lab: int, arch: str) -> Path:
    """The scratch tree as the tree is: the sources, and what was built of them, as old as there."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    built = ("build/.setup", "build/recordmcount", f"build/{arch}/include", f"build/{arch}/lab{lab}")
    subprocess.run(["cp", "-a", "--parents", *TREE, *(name for name in built if (ROOT / name).exists()), tree], cwd=ROOT, check=True)
    return tree


def build(wrong: Wrong, arch: str) -> str:
    """Why it cannot be built, or ''. A patch that does not fit is an error of ours."""
    tree = fresh(scratch(wrong.lab, arch), wrong.lab, arch)
    done = subprocess.run(["patch", "-p1", "-s", "-f", "--no-backup-if-mismatch", "-d", str(tree), "-i", str(wrong.path)],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise BadPatch(f"{wrong.path.relative_to(ROOT)} does not fit:\n{done.stdout}")
    made = make(tree, f"LAB={wrong.lab}", *images(wrong.lab, (arch,)))
    return (made.stderr or made.stdout or "make failed") if made.returncode else ""


# ---- graded --------------------------------------------------------------------

@dataclass
class Outcome:
    """What a solution got."""

    verdict: Verdict
    lost: list[str]  # rungs, by themselves
    mistakes: set[str]
    points: int
    why: list[str]

    def __str__(self) -> str:
        named = f" ({', '.join(sorted(self.mistakes))})" if self.mistakes else ""
        return self.verdict.value + (f": {', '.join(self.lost[:3])}" if self.lost and self.verdict == Verdict.FAIL else "") + named


def grade(kernel: Kernel, lab: int, cpus: list[int], budget: int = session.BUDGET, seed: int = SEED, out: Path = ROOT / "build/wrong") -> report.Grade:
    """Where a CPU waits for another, it may do so as long as the host lets that one stand."""
    return report.judge(kernel.arch, lab, seed, [rubric.boot(kernel, lab, smp, seed, out, budget=budget if smp == 1 else session.BUDGET) for smp in cpus])


def outcome(graded: report.Grade) -> Outcome:
    findings = [(r.rung.name, f) for r in graded.results for f in r.findings.values() if f and not f.need]
    why = {f.why: f"{name}: {f.why}" for name, f in reversed(findings)}
    return Outcome(graded.verdict, [r.rung.name for r in graded.results if r.lost], {f.mistake for _, f in findings if f.mistake},
                   graded.points, list(reversed(why.values())))


def outcome_of(wrong: Wrong, arch: str) -> Outcome:
    why = build(wrong, arch)
    elf = scratch(wrong.lab, arch) / f"build/{arch}/lab{wrong.lab}/callsite.elf"
    if why:
        return Outcome(Verdict.BUILD, [], set(), 0, [why])
    return outcome(grade(Kernel(elf, arch), wrong.lab, wrong.cpus, BUDGET[wrong.lab >= 5]))


def differs(wrong: Wrong, got: Outcome) -> str:
    """How what it got is not what is written beside it, or ''."""
    rungs, mistakes = wrong.listed("Rung"), set(wrong.listed("Mistake"))
    if got.verdict not in wrong.verdicts:
        return f"the verdict must be {wrong.head['Verdict']}"
    lost = [rung for rung in got.lost if rung not in wrong.listed("Also")]
    if got.verdict == Verdict.FAIL and rungs != lost[:len(rungs)]:
        return f"the rungs lost must begin with {', '.join(rungs)}, and do with {', '.join(lost) or 'none'}"
    if mistakes != got.mistakes:
        return f"the mistakes named must be {', '.join(sorted(mistakes)) or 'none'}"
    return ""


# ---- which, and what is said ---------------------------------------------------------

Todo = list[tuple[Wrong, str]]


def chosen(options: argparse.Namespace) -> Todo:
    """Each on all its architectures; or of each lab every third, on one: in six days all on both."""
    todo = []
    for lab in options.lab:
        for at, wrong in enumerate(shelf(lab)):
            turn = wrong.arches[(at // 3 + options.seed // 3) % len(wrong.arches)] if (at + options.seed) % 3 == 0 else ""
            todo += [(wrong, arch) for arch in wrong.arches if arch in options.arch and (arch == turn or not options.third)
                     and (wrong.name in options.names or not options.names)]
    return todo


def say(lab: int, arch: str, name: str, got: Outcome, bad: str, began: float) -> str:
    """What is said of one that is not as it must be; '' of one that is."""
    text = f"{'FAIL' if bad else 'ok  '} lab {lab} {arch:7} {name:34} {got}, {time.monotonic() - began:.1f} s"
    text += "\n     ".join(["", bad, *got.why]) if bad else ""
    print(text, flush=True)
    return text if bad else ""


def end(lines: list[str], seconds: float) -> int:
    """What failed once more, as the last lines are those that are read."""
    failures = [line for line in lines if line]
    print(*failures, f"{len(lines) - len(failures)} passed, {len(failures)} failed, {seconds:.0f} s", sep="\n")
    return 1 if failures or not lines else 0


def run(todo: Todo, whole: list[int], arches: list[str]) -> list[str]:
    """Each architecture in a process of its own; of the labs in `whole` the solution and the start, too."""
    try:
        for lab in dict.fromkeys([*whole, *(wrong.lab for wrong, _ in todo)]):
            prepare(lab, whole=lab in whole)
    except BadPatch as why:
        return [f"FAIL {why}"]
    done = side_by_side.run(lambda arch, _: list(on_one(todo, whole, arch)), arches, Console(quiet=True))
    return [line for arch in arches for line in done.get(arch, [f"FAIL {arch}: it died, and has said why"])]


def on_one(todo: Todo, whole: list[int], arch: str) -> Iterator[str]:
    for lab in whole:
        yield from (state(lab, arch, start) for start in (False, True))
    for wrong in (wrong for wrong, at in todo if at == arch):
        began = time.monotonic()
        try:
            got = outcome_of(wrong, arch)
            bad = differs(wrong, got)
        except BadPatch as why:
            got, bad = Outcome(Verdict.BUILD, [], set(), 0, [str(why)]), "the patch is no good"
        yield say(wrong.lab, arch, wrong.name, got, bad, began)


def state(lab: int, arch: str, start: bool) -> str:
    """The solution has full marks, the start none."""
    began = time.monotonic()
    kernel = Kernel(ROOT / f"{images(lab, (arch,), start)[0].removesuffix('Image')}callsite.elf", arch)
    got = outcome(graded := grade(kernel, lab, [1, 4]))
    right = got.points == (0 if start else graded.possible) and got.verdict == (Verdict.FAIL if start else Verdict.PASS)
    bad = "" if right and not got.mistakes else f"{got.points} of {graded.possible} points"
    return say(lab, arch, "start" if start else "solution", got, bad, began)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading.wrong", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--lab", type=int, nargs="+", choices=sorted(rubric.LABS), default=sorted(rubric.LABS))
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--third", action="store_true")
    parser.add_argument("--seed", type=int, default=datetime.date.today().toordinal(), help="which third; default: the day's")
    return parser.parse_args()


def main() -> int:
    options, began = arguments(), time.monotonic()
    if options.third:
        print(f"seed {options.seed} (again: make test-labs SEED={options.seed})", flush=True)
    lines = run(chosen(options), [] if options.names or options.third else options.lab, options.arch)
    return end(lines, time.monotonic() - began)


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

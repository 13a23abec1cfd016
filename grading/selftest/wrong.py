"""Tests the grader: each wrong solution of a lab, and some right ones, must get the verdict written
in its head.

    python3 -m grading.selftest.wrong                        all labs, both architectures, all wrong
                                                             solutions; also solution and start
    python3 -m grading.selftest.wrong --part [--seed N]      a twentieth of them, each on one
                                                             architecture; each commit has its own
    python3 -m grading.selftest.wrong no-sync ... --lab 3    only these
    python3 -m grading.selftest.wrong no-sync ... --seeds 10 each with ten seeds
    python3 -m grading.selftest.wrong no-sync ... --show     print diffs, grade nothing
    python3 -m grading.selftest.wrong --attacks              only the attacks

A wrong solution is labs/<n>-<name>/wrong/NAME.edit, or an attack on the grade,
grading/attacks/KIND/lab<n>-NAME.edit: a head, a sentence, and how it
differs from the solution (grading/selftest/edits.py). The head:

    Verdict: panic, time-out     the verdict of `make grade` (grading/verdict.py); any one of these
    Rung: one CPU, parents       for the verdict fail: the first lost rungs, in the order of the
                                 ladder. The host tests are built of it only if `host tests`
                                 is named here or in Also
    Also: off                    rungs that may or may not be lost, depending on timing
    Mistake: wrong-offset        the mistakes that the report must name; it must name no others
    Maybe: wrong-offset          mistakes that it may name or not, as the boot may reach a limit
                                 before it shows them
    Arch: arm64                  if it is a mistake on this architecture only
    CPUs: 4                      the number of CPUs; default: 1
    Says: may not have           a pattern that the messages of a build that fails must match

Each is built in a copy of the tree, one for each lab and architecture, where
only the changed files are compiled, and graded by the same harness. The two
architectures run side by side.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from rich.console import Console

from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.machine.machine import ended_by_signals
from grading.report import report, side_by_side, typed
from grading.selftest import edits
from grading.selftest.edits import SourceEdit, Unusable
from grading.session import session
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
PART = 20  # .ci/run takes one of so many parts
AT_ONCE = 16  # wrong solutions that one process grades
LONGEST = 4000  # characters of a message that are printed
# instructions on one CPU: up to lab 4; from lab 5 on, where -icount counts waiting too. Several
# times what a solution needs
BUDGET = 250_000_000, 1_500_000_000
# Warnings are not errors there: a wrong solution may have some.
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name != "CI" and not name.startswith(("MAKE", "MFLAGS"))
}
HOST_TESTS = "host tests"  # the rung
TREE = ("boot", "kern", "labs", "grading", "qemu", ".ci", "Makefile")
ATTACKS = ROOT / "grading/attacks"
FIELDS = {"Verdict", "Rung", "Also", "Mistake", "Maybe", "Arch", "CPUs", "Says"}


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
            raise edits.refused(self.path, f"its head is not made of {', '.join(sorted(FIELDS))}, "
                                "each once, then an empty line")
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

    @cached_property
    def edits(self) -> list[SourceEdit]:
        return edits.split(self.path)[1]

    @property
    def files(self) -> list[str]:
        return list(dict.fromkeys(edit.file for edit in self.edits))


def shelf(lab: int) -> list[Wrong]:
    own = (rubric.LABS[lab] / "wrong").glob("*.edit")
    return [Wrong(lab, path) for path in sorted([*own, *ATTACKS.glob(f"*/lab{lab}-*.edit")])]


# ---- built -------------------------------------------------------------------

def make(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-s", "-j2", "-C", str(tree), *words], capture_output=True,
                          text=True, check=False, env=CLEAN)


def images(lab: int, arches: tuple[str, ...], start: bool = False) -> list[str]:
    return [f"build/{arch}/lab{lab}{'-start' if start else ''}/Image" for arch in arches]


def host_tests(lab: int, *arches: str) -> list[str]:
    return [f"build/host/{name}" for name in rubric.lab(lab).tests(*arches)]


def prepare(lab: int, whole: bool = False, arches: tuple[str, ...] = ARCHES) -> None:
    for start in (False, True) if whole else (False,):
        done = make(ROOT, f"{'START' if start else 'LAB'}={lab}",
                    *(f"build/{arch}/initrd.cpio" for arch in arches), *images(lab, arches, start),
                    *host_tests(lab, *arches))
        if done.returncode:
            raise Unusable(
                f"{'the start of ' if start else ''}lab {lab} does not build:\n{done.stderr}")


def scratch(lab: int, arch: str) -> Path:
    return ROOT / f"build/wrong/{arch}-lab{lab}"


def fresh(tree: Path, lab: int, arch: str) -> Path:
    """Make the scratch tree anew: a copy of the sources and the built files, with the same times.
    Its host tests are the solution's."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    built = ("build/.setup", f"build/{arch}/initrd.cpio", f"build/{arch}/include",
             f"build/{arch}/lab{lab}", *host_tests(lab, arch))
    copy([*TREE, *(name for name in built if (ROOT / name).exists())], tree)
    return tree


def copy(names: list[str], tree: Path) -> None:
    subprocess.run(["cp", "-a", "--parents", *names, tree], cwd=ROOT, check=True)


def make_host_tests(tree: Path, lab: int, arch: str) -> None:
    """Build the host tests from the scratch tree's files. One that cannot be built is missing then.
    """
    tests = host_tests(lab, arch)
    copy(["build/host/gtest.h", "build/host/gtest.h.gch", *(f"{name}.d" for name in tests)], tree)
    for name in tests:
        (tree / name).unlink()
    make(tree, f"LAB={lab}", "--keep-going", *tests)


def build(wrong: Wrong, arch: str) -> str:
    """Why the changed tree cannot be built, or ''. Edits that cannot be applied raise Unusable."""
    tree = fresh(scratch(wrong.lab, arch), wrong.lab, arch)
    for name, text in edits.apply(wrong.edits, tree).items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    made = make(tree, f"LAB={wrong.lab}", *images(wrong.lab, (arch,)))
    if HOST_TESTS in wrong.listed("Rung") + wrong.listed("Also"):
        make_host_tests(tree, wrong.lab, arch)
    return (made.stderr or made.stdout or "make failed") if made.returncode else ""


# ---- graded --------------------------------------------------------------------

@dataclass
class Outcome:
    """The result of grading one solution."""

    verdict: Verdict
    lost: list[str]  # rungs that were lost by themselves
    mistakes: set[str]
    points: int
    why: list[str]
    said: str = ""  # by a build that failed

    def __str__(self) -> str:
        named = f" ({', '.join(sorted(self.mistakes))})" if self.mistakes else ""
        return self.verdict.value + (f": {', '.join(self.lost[:3])}"
                                     if self.lost and self.verdict == Verdict.FAIL else "") + named


def grade(kernel: Kernel, lab: int, cpus: list[int], budget: int = session.BUDGET, seed: int = SEED,
          out: Path = ROOT / "build/wrong") -> report.Grade:
    """Grade a kernel. Only boots with one CPU have the small budget: with several, a CPU may spin
    while the host runs no other."""
    return report.judge(kernel.arch, lab, seed, [
        rubric.boot(kernel, lab, smp, seed, out, budget=budget if smp == 1 else session.BUDGET)
        for smp in cpus])


def outcome(graded: report.Grade) -> Outcome:
    findings = [(r.rung.name, f) for r in graded.results for f in r.findings.values()
                if f and not f.need]
    why = {f.why: f"{name}: {f.why}" for name, f in reversed(findings)}
    return Outcome(graded.verdict, [r.rung.name for r in graded.results if r.lost],
                   {f.mistake
                    for _, f in findings if f.mistake}, graded.points, list(reversed(why.values())))


def outcomes_of(wrong: Wrong, arch: str, seeds: int) -> Iterator[Outcome]:
    """The results with so many seeds, from SEED on. If there are several, both plain boots of each
    are judged, with the numbers of CPUs that the seed chooses."""
    why = build(wrong, arch)
    elf = scratch(wrong.lab, arch) / f"build/{arch}/lab{wrong.lab}/callsite.elf"
    if why:
        yield Outcome(Verdict.BUILD, [], set(), 0, [why], why)
        return
    for seed in range(SEED, SEED + seeds):  # each places its modules elsewhere, in a Kernel
        cpus = wrong.cpus if seeds == 1 else list(rubric.boots(wrong.lab, seed)[:2])
        yield outcome(grade(Kernel(elf, arch), wrong.lab, cpus, BUDGET[wrong.lab >= 5], seed))


def differs(wrong: Wrong, got: Outcome) -> str:
    """How the result differs from what the head says, or ''."""
    rungs, mistakes = wrong.listed("Rung"), set(wrong.listed("Mistake"))
    if got.verdict not in wrong.verdicts:
        return f"the verdict must be {wrong.head['Verdict']}"
    lost = [rung for rung in got.lost if rung not in wrong.listed("Also")]
    if got.verdict == Verdict.FAIL and rungs != lost[:len(rungs)]:
        return (f"the rungs lost must begin with {', '.join(rungs)}, and begin with "
                f"{', '.join(lost) or 'none'}")
    if mistakes != got.mistakes - set(wrong.listed("Maybe")):
        return f"the mistakes named must be {', '.join(sorted(mistakes)) or 'none'}"
    says = wrong.head.get("Says", "")
    built = got.verdict != Verdict.BUILD or re.search(says, got.said)
    return "" if built else f"the build's messages must match '{says}'"


# ---- the choice, and the output ------------------------------------------------------

Todo = list[tuple[Wrong, str]]


def chosen(options: argparse.Namespace) -> Todo:
    """The wrong solutions to grade: each on all its architectures; or every twentieth on one
    architecture, so that forty seeds in a row have all."""
    todo = []
    for lab in options.lab:
        for at, wrong in enumerate(shelf(lab)):
            if options.attacks and not wrong.path.is_relative_to(ATTACKS):
                continue
            turn = wrong.arches[(at // PART + options.seed // PART) %
                                len(wrong.arches)] if (at + options.seed) % PART == 0 else ""
            todo += [(wrong, arch) for arch in wrong.arches
                     if arch in options.arch and (arch == turn or not options.part) and (
                         wrong.name in options.names or not options.names)]
    return todo


def seed_of_files() -> int:
    """A seed that follows from the files of the commit, so that every run on a commit grades the
    same wrong solutions. Without git: 0."""
    done = subprocess.run(["git", "rev-parse", "HEAD^{tree}"], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    return int(done.stdout[:6] or "0", 16)


def say(lab: int, arch: str, name: str, got: Outcome, bad: str, began: float) -> str:
    """Print the result. Returns the printed text if the result is wrong, else ''."""
    text = (f"{'FAIL' if bad else 'ok  '} lab {lab} {arch:7} {name:34} {got}, "
            f"{time.monotonic() - began:.1f} s")
    text += "\n     ".join(["", bad, *(why[:LONGEST] for why in got.why)]) if bad else ""
    print(text, flush=True)
    return text if bad else ""


def end(lines: list[str], seconds: float) -> int:
    """Print the failures again at the end, and the totals. Returns the exit status."""
    failures = [line for line in lines if line]
    print(*failures,
          f"{len(lines) - len(failures)} passed, {len(failures)} failed, {seconds:.0f} s", sep="\n")
    return 1 if failures or not lines else 0


def run(todo: Todo, whole: list[int], arches: list[str], seeds: int) -> list[str]:
    """Grade all, each architecture in its own process; also the solution and the start of the labs
    in `whole`. A process grades a few and ends, because each of them keeps 50 MB of its kernel's
    tables in memory."""
    try:
        for lab in dict.fromkeys([*whole, *(wrong.lab for wrong, _ in todo)]):
            prepare(lab, whole=lab in whole)
    except Unusable as why:
        return [f"FAIL {why}"]
    lines = []
    for some, labs in [([], whole),
                       *((todo[at:at + AT_ONCE], []) for at in range(0, len(todo), AT_ONCE))]:
        done = side_by_side.run(partial(on_one, some, labs, seeds), arches, Console(quiet=True))
        for arch in arches:
            lines += done.get(arch, [f"FAIL {arch}: its process died; the reason is printed above"])
    return lines


def on_one(todo: Todo, whole: list[int], seeds: int, arch: str,
           _: side_by_side.Say) -> list[str]:
    lines = [state(lab, arch, start) for lab in whole for start in (False, True)]
    for wrong in (wrong for wrong, at in todo if at == arch):
        began, points = time.monotonic(), 0
        try:
            for n, got in enumerate(outcomes_of(wrong, arch, seeds)):
                points = points if n else got.points
                bad = differs(wrong, got) if seeds == 1 else ""
                if got.points != points:
                    bad = (f"{got.points} points with seed {SEED + n:016x}, {points} with "
                           f"{SEED:016x}")
                    break
        except Unusable as why:
            got, bad = Outcome(Verdict.BUILD, [], set(), 0, [str(why)]), "it cannot be used"
        lines.append(say(wrong.lab, arch, wrong.name, got, bad, began))
    return lines


def state(lab: int, arch: str, start: bool) -> str:
    """The solution has full marks, the start none."""
    began = time.monotonic()
    kernel = Kernel(ROOT / f"{images(lab, (arch,), start)[0].removesuffix('Image')}callsite.elf",
                    arch)
    got = outcome(graded := grade(kernel, lab, [1, 4]))
    right = got.points == (0 if start else graded.possible) and got.verdict == (
        Verdict.FAIL if start else Verdict.PASS)
    bad = "" if right and not got.mistakes else f"{got.points} of {graded.possible} points"
    return say(lab, arch, "start" if start else "solution", got, bad, began)


def show(options: argparse.Namespace) -> int:
    """Print each chosen one as a unified diff. Returns the exit status."""
    found = dict.fromkeys(wrong for wrong, _ in chosen(options))
    if not found:
        labs, names = " or ".join(map(str, options.lab)), " ".join(options.names)
        sys.exit(f"no wrong solution of lab {labs} has such a name: {names}")
    try:
        for wrong in found:
            print(edits.split(wrong.path)[0] + edits.diff(wrong.edits, ROOT))
    except Unusable as why:
        sys.exit(str(why))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading.selftest.wrong", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--lab", type=int, nargs="+", choices=sorted(rubric.LABS),
                        default=sorted(rubric.LABS))
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--attacks", action="store_true")
    parser.add_argument("--part", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--seeds", type=int, default=1,
                        help="grade each with so many seeds: the points must be the same")
    parser.add_argument("--seed", type=int, default=seed_of_files(),
                        help="which part; default: the commit's")
    return parser.parse_args()


def main() -> int:
    options, began = arguments(), time.monotonic()
    if options.show:
        return show(options)
    if options.part:
        chosen_only = {name: str(of[0]) for name, of in (("LAB", options.lab),
                                                         ("ARCH", options.arch)) if len(of) == 1}
        again = typed.words({**chosen_only, "SEED": str(options.seed)})
        print(f"seed {options.seed} (again: make test-labs{again})", flush=True)
    whole = [] if options.names or options.part or options.attacks else options.lab
    lines = run(chosen(options), whole, options.arch, options.seeds)
    return end(lines, time.monotonic() - began)


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

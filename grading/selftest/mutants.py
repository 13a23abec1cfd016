"""`make test-mutants`: measures how much wrong code each lab's grade catches.

    python3 -m grading.selftest.mutants [KIND-OR-PART-OF-AN-ID ...] --lab 4 --arch arm64
    [--count 80] [--seed N] [--jobs 1]

A mutant is the solution with one small change to the lines that a student writes
(grading/selftest/mutations.py). Each mutant is built in a copy of the tree, where only the changed
file is compiled, and graded like labs/N/wrong (grading/selftest/wrong.py). A mutant that does not
compile, or whose object equals the solution's, is dropped. The others are caught, or survive with
full marks. Each result is written to build/mutants/ARCH-labN.jsonl, and the same command continues
from there as long as the sources are the same.

A survivor that computes the same as the solution is listed in labs/N/equivalent, one line each: its
id, " because ", the reason. The line begins with "on ARCH: " if that is true on one architecture
only; "=> *" means every change of that line. Exits with 1 if fewer than 95 % of the other mutants
are caught, or if fewer than 85 % of the caught ones are caught by a rung that says what is wrong.
"""

import argparse
import hashlib
import json
import random
import re
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from rich.console import Console

from grading.checks import host_tests, rubric
from grading.elf.elf import Kernel
from grading.machine.machine import ended_by_signals
from grading.report import report, side_by_side
from grading.selftest import soak, wrong
from grading.selftest.edits import Unusable
from grading.selftest.mutations import Mutant, mutants
from grading.selftest.soak import digest, harness
from grading.verdict import Verdict
from qemu.isa import ARCHES, ISAS
from qemu.machine import ROOT

FOLDER = ROOT / "build/mutants"
CAUGHT, NAMED = 95, 85  # least percentages: of all mutants; of the caught mutants
SURVIVED, BY_RUNG, BY_END, BY_BUILD, HARNESS = ("SURVIVED", "caught", "only ended", "not built",
                                                "harness error")
INVALID, SAME = "does not compile", "same code"  # dropped
Line = dict[str, Any]


# ---- which -------------------------------------------------------------------

def files(lab: int, *arches: str) -> list[str]:
    """The student's files that are built for one of these architectures."""
    others = [f"/{arch}/" for arch in ARCHES if arch not in arches]
    return [name for name in rubric.lab(lab).files if not any(other in name for other in others)]


def of_files(lab: int, *arches: str) -> list[Mutant]:
    return [mutant for name in files(lab, *arches)
            for mutant in mutants(name, (ROOT / name).read_text(), lab)]


def spread(found: list[Mutant], seed: str) -> list[Mutant]:
    """The mutants in an order that follows from the seed, and in which files and kinds take turns.
    """
    groups, rng = defaultdict[tuple[str, str], list[Mutant]](list), random.Random(seed)
    for mutant in found:
        groups[mutant.file, mutant.kind].append(mutant)
    for key in sorted(groups):
        rng.shuffle(groups[key])
    return [mutant for turn in zip_longest(*(groups[key] for key in sorted(groups)))
            for mutant in turn if mutant]


def equivalent(listed: str, known: set[str], arch: str) -> set[str]:
    """The ids that are listed as equivalent. A line that matches no mutant is an error."""
    found = set[str]()
    for line in filter(None, listed.splitlines()):
        name, _, reason = line.partition(" because ")
        where = re.match(r"on (\w+): ", name)
        name = name[where.end():] if where else name
        meant = {other for other in known
                 if other == name or name.endswith("*") and other.startswith(name[:-1])}
        if not reason.strip():
            raise Unusable(f"no reason is given for: {line}")
        if not meant:
            raise Unusable(f"there is no such mutant any more: {name}")
        if not where or where[1] == arch:
            found |= meant
    return found


def equivalents(lab: int, arch: str) -> set[str]:
    path = rubric.LABS[lab] / "equivalent"
    try:
        return equivalent(path.read_text() if path.exists() else "",
                          {mutant.id for mutant in of_files(lab, *ARCHES)}, arch)
    except Unusable as why:
        raise Unusable(f"{path.relative_to(ROOT)}: {why}") from why


# ---- built and graded ----------------------------------------------------------

@dataclass
class ScratchTree:
    """A copy of the tree in which mutants are built, one after the other."""

    path: Path
    lab: int
    arch: str

    def make(self, *targets: str) -> subprocess.CompletedProcess[str]:
        return wrong.make(self.path, f"LAB={self.lab}", f"ARCH={self.arch}", *targets)

    def code(self, file: str) -> str:
        """The digest of the object, or host program, that the file compiles to; "" if it does not
        compile."""
        host = file.endswith("/recordmcount.c")
        target = f"build/{self.arch}/lab{self.lab}/recordmcount" if host else str(
            Path(f"build/{self.arch}/lab{self.lab}", file).with_suffix(".o"))
        if self.make(target).returncode:
            return ""
        stripped = self.path / "build/stripped"
        tool = "objcopy" if host else f"{ISAS[self.arch].cross}objcopy"
        subprocess.run([tool, "--strip-debug", "--discard-locals", self.path / target, stripped],
                       check=True)
        return hashlib.sha256(stripped.read_bytes()).hexdigest()

    def result_of(self, mutant: Mutant, seed: int, seen: set[str]) -> Line:
        """Build and grade the mutant. A mutant whose code was seen before is dropped."""
        place = self.path / mutant.file
        right = self.code(mutant.file)
        try:
            place.write_text(mutant.text)
            code = self.code(mutant.file)
            if not code or code in {right, *seen}:
                return {"result": SAME if code else INVALID, "message": "", "code": code}
            built = self.make(*wrong.images(self.lab, (self.arch,)))
            result, why = refused(built.stderr
                                  or built.stdout) if built.returncode else self._graded(seed)
            return {"result": result, "message": why, "code": code}
        finally:
            place.write_bytes((ROOT / mutant.file).read_bytes())

    def _graded(self, seed: int) -> tuple[str, str]:
        """Grade boot by boot, until a rung says what is wrong."""
        kernel = Kernel(self.path / f"build/{self.arch}/lab{self.lab}/callsite.elf", self.arch)
        result = SURVIVED, ""
        for boot in rubric.boots(self.lab, seed):
            got = result_of(wrong.grade(kernel, self.lab, [boot], wrong.BUDGET[self.lab >= 5], seed,
                                        self.path / "build/grade"))
            result = got if got[0] != SURVIVED else result
            if result[0] in (BY_RUNG, HARNESS):
                break
        if result[0] == SURVIVED:  # fresh() has copied the solution's host tests
            wrong.make_host_tests(self.path, self.lab, self.arch)
            found = host_tests.lost(kernel, self.lab, rubric.lab(self.lab).tests(self.arch))
            result = (BY_RUNG, first_line(found.why)) if found else result
        return result


def refused(text: str) -> tuple[str, str]:
    """The result of a failed build: a compiler or linker error drops the mutant; another message of
    the build catches it."""
    return (INVALID, "") if re.search(r"-ld: |: in function `", text) else (BY_BUILD,
                                                                            first_line(text))


def first_line(text: str) -> str:
    return report.printable(next((line for line in text.splitlines() if line.strip()), ""))


def result_of(graded: report.Grade) -> tuple[str, str]:
    """The result of a grade, and the message of the first rung that says more than how the boot
    ended, if there is one."""
    if graded.harness_error:
        return HARNESS, graded.harness_error.why
    lost = [(result.rung.name, f) for result in graded.results for f in result.findings.values()
            if f and not f.need]
    ends = {e.ending() for e in graded.evidence if e.verdict != Verdict.PASS}
    for name, finding in lost:
        if finding.mistake or finding.why not in ends:
            return BY_RUNG, first_line(f"{name}: {finding.why}") + (f" ({finding.mistake})"
                                                                    if finding.mistake else "")
    return (BY_END, first_line(lost[0][1].why)) if lost else (SURVIVED, "")


# ---- one lab on one architecture ------------------------------------------------

def made_of(lab: int, arch: str) -> str:
    """A digest of everything that results depend on; the next run may continue only if it is the
    same."""
    return digest([*harness(), ROOT / wrong.images(lab, (arch,))[0],
                   rubric.LABS[lab] / "rubric.toml", *(ROOT / name for name in files(lab, arch))])


def kept(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["result"] not in (INVALID, SAME)]


class Cell:
    def __init__(self, lab: int, arch: str, options: argparse.Namespace) -> None:
        self.lab, self.arch, self.count = lab, arch, options.count
        self.listed = equivalents(lab, arch)
        wrong.prepare(lab, arches=(arch,))
        FOLDER.mkdir(parents=True, exist_ok=True)
        self.log = FOLDER / f"{arch}-lab{lab}{'-some' if options.names else ''}.jsonl"
        if options.names:
            self.log.unlink(missing_ok=True)
        about, *before = soak.begun(self.log, {"made_of": made_of(lab, arch), "seed": options.seed})
        self.seed, self.before = about["seed"], {line["id"]: line for line in before
                                                 if line["result"] != HARNESS}
        chosen = [m for m in of_files(lab, arch) if not options.names
                  or any(part == m.kind or part in m.id for part in options.names)]
        self.todo = spread(chosen, self.seed)
        self.trees = [ScratchTree(FOLDER / f"{arch}-lab{lab}-{n}", lab, arch)
                      for n in range(options.jobs)]
        self.stale = [*self.trees]  # a killed run may have left a mutant in its copy

    def run(self) -> list[Line]:
        """Grade as many mutants as are wanted; results that the log has are not computed again."""
        todo, lines = iter([m for m in self.todo if m.id not in self.listed]), list[Line]()
        while batch := list(islice(todo, min(len(self.trees), self.count - len(kept(lines))))):
            for line in self._several(batch):
                lines.append(line)
                if line["result"] not in (INVALID, SAME):
                    print(f"{len(kept(lines)):3} lab {self.lab} {self.arch} "
                          f"{line['id'].replace(' ', ':' + str(line['line']) + ' ', 1)}\n      "
                          f"{line['kind']}: {line['result']}  {line['message']}", flush=True)
        return kept(lines)

    def _several(self, batch: list[Mutant]) -> list[Line]:
        new = {str(n): mutant for n, mutant in enumerate(batch) if mutant.id not in self.before}
        while new and self.stale:
            wrong.fresh(self.stale.pop().path, self.lab, self.arch)
        results = side_by_side.run(lambda n, _: self._one(self.trees[int(n)], new[n]), list(new),
                                   Console(quiet=True))
        for n, mutant in new.items():
            got = results.get(n, {"result": HARNESS,
                                  "message": "its process died; the reason is printed above",
                                  "code": ""})
            self.before[mutant.id] = {"id": mutant.id, "line": mutant.line, "kind": mutant.kind,
                                      **got}
            with self.log.open("a") as log:
                print(json.dumps(self.before[mutant.id]), file=log)
        return [self.before[mutant.id] for mutant in batch]

    def _one(self, tree: ScratchTree, mutant: Mutant) -> Line:
        seed = hashlib.sha256(f"{self.seed} {mutant.id}".encode()).hexdigest()[:16]
        return tree.result_of(mutant, int(seed, 16),
                              {line["code"] for line in self.before.values()})


def summary(lab: int, arch: str, lines: list[Line], listed: int) -> bool:
    """Print the summary. Were enough mutants caught?"""
    counts = Counter(line["result"] for line in lines)
    total, named = len(lines), counts[BY_RUNG] + counts[BY_BUILD]
    caught = named + counts[BY_END]
    print(f"lab {lab} {arch}: {total} mutants, {listed} more are listed as equivalent; {caught} "
          f"caught, {100 * caught / max(total, 1):.1f} %; {named} of these by a rung that says "
          f"what is wrong, {100 * named / max(caught, 1):.1f} %")
    for line in lines:
        if line["result"] in (SURVIVED, HARNESS):
            print(f"  {line['result']}: {line['id']}  {line['message']}")
    return total > 0 and 100 * caught >= CAUGHT * total and 100 * named >= NAMED * caught


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading.selftest.mutants", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KIND-OR-PART-OF-AN-ID",
                        help="grade only these, even if they were graded before")
    parser.add_argument("--lab", type=int, nargs="+", choices=sorted(rubric.LABS),
                        default=sorted(rubric.LABS))
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--count", type=int, default=80,
                        help="mutants of each lab, on each architecture")
    parser.add_argument("--seed",
                        help="what the choice follows from; default: that of the log, or a new one")
    parser.add_argument("--jobs", type=int, default=1,
                        help="the number of mutants that are graded at the same time")
    return parser.parse_args()


def main() -> int:
    options, good = arguments(), True
    try:
        cells = [Cell(lab, arch, options) for lab in options.lab for arch in options.arch]
    except Unusable as why:
        print(why, file=sys.stderr)
        return 2
    done = [(cell, cell.run()) for cell in cells]
    for cell, lines in done:
        good &= summary(cell.lab, cell.arch, lines, len(cell.listed))
    return 0 if good else 1


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

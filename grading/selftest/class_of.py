"""Grades a class that is made for this test: each submission must get the state and the points for
which it was made.

    python3 -m grading.selftest.class_of --lab 3 --out DIR [--of 200] [--kill] [NAME ...]
        every submission, or those named

The class has the lab's solution and its start, its wrong solutions and attacks
(grading/selftest/wrong.py), and submissions that cannot be built or taken. With --of, solutions
and mutants in turn fill it up to that number: at most 5 % of the mutants may have full marks and
other code than the solution. It is handed in as tars, zips and folders in turn. With --kill every
process is killed when half of the class is graded. The same command continues where it was
interrupted, and a last run must find every result.
"""

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from grading.checks import rubric
from grading.classroom import one
from grading.classroom.tree import resolved
from grading.machine.machine import ended_by_signals
from grading.selftest import edits, mutants, wrong
from grading.selftest.mutations import Mutant
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

LARGEST = 2 << 20  # bytes of a result, whatever the submission prints
Files = dict[str, bytes]


@dataclass(frozen=True)
class Made:
    """A submission, and what it must get."""

    name: str
    files: Files
    states: list[str]
    points: str  # full, less, none; half: at least half, and not all; any: a mutant's
    says: str = ""  # a pattern that the result's text must match
    mutant: Mutant | None = None


def solution(lab: int, start: int = 0) -> Files:
    """The files of the lab, as the solution has them, or its start."""
    names = dict.fromkeys(
        name.replace("<arch>", arch) for name in rubric.lab(lab).files for arch in ARCHES)
    return {name: resolved((ROOT / name).read_bytes(), start) for name in names}


def edited(one: wrong.Wrong) -> Files:
    """The lab's files with these edits. Other files that they change are not handed in."""
    changed = edits.apply(one.edits, ROOT)
    return {name: changed[name].encode() if name in changed else (ROOT / name).read_bytes()
            for name in solution(one.lab)}


def members(lab: int) -> list[Made]:
    right, start = solution(lab), solution(lab, lab)
    found = [Made("solution", right, ["graded"], "full"), Made("start", start, ["graded"], "none"),
             Made("nothing", {"README": b"later\n"}, ["nothing handed in"], "none"),
             Made("one-file", dict(list(right.items())[:1]), ["graded"], "less")]
    if any("/arm64/" in name for name in right):
        rest = {name: data for name, data in right.items() if "/arm64/" not in name}
        broken = {name: data + b"\n\t.error \"not yet\"\n" for name, data in right.items()
                  if name.endswith(".S") and "/arm64/" in name}
        found.append(Made("one-architecture", rest, ["graded"], "half"))
        if broken:
            found.append(
                Made("one-that-does-not-build", {**right, **broken}, ["graded"], "half", "not yet"))
    for one in wrong.shelf(lab):
        if set(one.files) <= set(right) and len(one.arches) == len(ARCHES):
            passes, builds = one.verdicts == [Verdict.PASS], Verdict.BUILD not in one.verdicts
            found.append(
                Made(one.name, edited(one), ["graded", "flaky"] if builds else ["build failure"],
                     "full" if passes else "less" if builds else "none", one.head.get("Says", "")))
    return found


def filling(lab: int, count: int) -> list[Made]:
    """Solutions that differ in a comment, and mutants."""
    right, listed = solution(lab), set[str]().union(*(mutants.equivalents(lab, arch)
                                                      for arch in ARCHES))
    of = [m for m in mutants.spread(mutants.of_files(lab, *ARCHES), "class") if m.id not in listed]
    found = list[Made]()
    for n in range(count):
        if n % 2 and n // 2 < len(of):
            one = of[n // 2]
            found.append(
                Made(f"mutant-{n:03}", {**right, one.file: resolved(one.text.encode())},
                     ["graded", "build failure", "flaky", "over a limit"], "any", mutant=one))
        else:
            found.append(Made(f"student-{n:03}", {name: data + f"/* {n} */\n".encode()
                                                  for name, data in right.items()}, ["graded"],
                              "full"))
    return found


def same_code(mutant: Mutant, lab: int) -> bool:
    """Does the mutant compile to the solution's objects?"""
    for arch in [a for a in ARCHES if mutant.file in mutants.files(lab, a)]:
        wrong.prepare(lab, arches=(arch,))
        mutants.FOLDER.mkdir(parents=True, exist_ok=True)
        tree = mutants.ScratchTree(mutants.FOLDER / f"{arch}-lab{lab}-class", lab, arch)
        wrong.fresh(tree.path, lab, arch)
        right = tree.code(mutant.file)
        (tree.path / mutant.file).write_text(mutant.text)
        if tree.code(mutant.file) != right:
            return False
    return True


def hand_in(member: Made, at: Path, how: int) -> None:
    if how == 0:
        with tarfile.open(at / f"{member.name}.tar.gz", "w:gz") as tar:
            for name, data in member.files.items():
                info = tarfile.TarInfo(name)
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    elif how == 1:
        with zipfile.ZipFile(at / f"{member.name}.zip", "w") as archive:
            for name, data in member.files.items():
                archive.writestr(f"{member.name}/{name}", data)
    else:
        for name, data in member.files.items():
            (at / member.name / name).parent.mkdir(parents=True, exist_ok=True)
            (at / member.name / name).write_bytes(data)


def result_of(member: Made, folder: Path) -> Path:
    key: str = json.loads(
        (folder / "students" / member.name / "history.jsonl").read_text().splitlines()[-1])["key"]
    return folder / "graded" / key / "result.json"


def differs(member: Made, folder: Path) -> str:
    """How the student's result differs from what it must be, or ''."""
    path = result_of(member, folder)
    if (size := path.stat().st_size) > LARGEST:
        return f"has a result of {size} bytes"
    got = json.loads(path.read_text())
    if got["state"] not in member.states and not (got["flaky"] and "flaky" in member.states):
        return f"is {got['state']}, and must be {' or '.join(member.states)}: {got['said'][-300:]}"
    points = "less" if got["points"] else "none"
    if got["points"] == got["possible"]:
        points = "full"
    elif member.points == "half" and 2 * (got["points"] or 0) >= got["possible"]:
        points = "half"
    if (points != member.points and member.points != "any"
            and not (member.points == "less" and points == "none")):
        return f"has {got['points']} of {got['possible']} points, and must have {member.points}"
    if re.search(member.says, got["said"]):
        return ""
    return f"says {got['said'][-300:]!r}, and not {member.says}"


def survivors(wanted: list[Made], folder: Path, lab: int) -> list[Made]:
    """The mutants that have all points, though their code is not the solution's."""
    def full(member: Made) -> bool:
        got = json.loads(result_of(member, folder).read_text())
        return bool(got["points"] == got["possible"])

    return [member for member in wanted
            if member.mutant and full(member) and not same_code(member.mutant, lab)]


def killed(command: list[str | Path], out: Path, half: int) -> None:
    """Run the command, and kill its processes and those of all jobs when so many results are there.
    """
    def count() -> int:
        return len(list((out / "graded").glob("*/result.json")))

    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as grader:
        try:
            while grader.poll() is None and count() < half:
                time.sleep(0.2)
            if grader.poll() is not None:
                sys.exit(f"the grading ended with {grader.returncode} before half of the class was "
                         "graded")
        finally:
            if grader.poll() is None:
                os.killpg(grader.pid, signal.SIGKILL)
    while left := one.running(out):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    print(f"killed when {count()} of the class were graded", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="grading.selftest.class_of", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lab", type=int, required=True, choices=sorted(rubric.LABS))
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help=
        "a new folder, or that of an earlier run: DIR/in is written anew, DIR/out has the results")
    parser.add_argument("--jobs", type=int, default=2,
                        help="the number of submissions that are graded at the same time")
    parser.add_argument("--of", type=int, default=0, help="the number of submissions")
    parser.add_argument("--seed", default="1", help="the number that the class's seeds follow from")
    parser.add_argument("--kill", action="store_true",
                        help="kill everything when half of the class is graded, and go on")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these submissions")
    options = parser.parse_args()
    of_lab = members(options.lab)
    wanted = [member for member in of_lab + filling(options.lab, options.of - len(of_lab))
              if not options.names or member.name in options.names]
    handed_in = options.out / "in"
    if handed_in.exists() and not (options.out / "out/lock").exists():
        sys.exit(f"{handed_in} is there already, and no class of this program: name another folder")
    shutil.rmtree(handed_in, ignore_errors=True)
    handed_in.mkdir(parents=True)
    for n, member in enumerate(wanted):
        hand_in(member, handed_in, n % 3)
    command = [sys.executable, "-m", "grading.classroom", "--lab", str(options.lab),
               "--in", handed_in, "--out", options.out / "out", "--seed", options.seed, "--jobs",
               str(options.jobs)]
    if options.kill and not (options.out / "out").exists():
        killed(command, options.out / "out", len(wanted) // 2)
    for again in (False, True):
        began = time.monotonic()
        status = subprocess.run(command, cwd=ROOT, check=False).returncode
        wrongly = [f"{member.name} {why}" for member in wanted
                   if (why := differs(member, options.out / "out"))]
        print(*wrongly, f"{len(wanted) - len(wrongly)} passed, {len(wrongly)} "
              f"failed{', without grading anew' if again else ''}, {time.monotonic() - began:.0f} "
              "s", sep="\n")
        if status or wrongly:
            return 1
    survived, total = survivors(wanted, options.out / "out",
                                options.lab), sum(member.mutant is not None for member in wanted)
    print(*(f"survived: {member.name}, {member.mutant.id}" for member in survived if member.mutant),
          f"{total - len(survived)} of {total} mutants lost points, or are the solution", sep="\n")
    return 1 if 100 * len(survived) > (100 - mutants.CAUGHT) * total else 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

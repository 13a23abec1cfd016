"""Finds out which labs and halves of labs the student has not changed yet, and whether the graded
lab needs them.

Only a student's tree has the staff's objects: labs/staff/<arch>/lab<n>/<m>/ has the objects of lab
m, or of the half m of lab n itself, that lab n's kernel links.
"""

import os
import subprocess
from collections.abc import Collection
from pathlib import Path

from grading.elf.halves import files, halves
from grading.report.typed import with_staff
from qemu.isa import ARCHES


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True,
                          check=False).stdout.split()


def _rubric(number: str) -> Path:
    return next(Path("labs").glob(f"{number.split('.')[0]}-*/rubric.toml"))


def untouched() -> set[str]:
    """The student's files that did not change since the first commit of this tree."""
    handed_out = {file for rubric in Path("labs").glob("*/rubric.toml")
                  for names in files(rubric, ARCHES).values() for file in names}
    first = _git("rev-list", "--max-parents=0", "HEAD")[:1]
    return handed_out - set(_git("diff", "--name-only", *first, "--", *
                                 sorted(handed_out))) if first else set()


def waiting(lab: int) -> dict[str, list[str]]:
    """By half: its files that are as handed out, for each half after the first that has such files.
    The kernel is linked with the staff's objects for the whole half then, so that the halves before
    it can be graded."""
    if not Path("labs/staff").exists():
        return {}
    later, still = dict(list(files(_rubric(str(lab)), ARCHES).items())[1:]), untouched()
    return {number: sorted(still.intersection(names)) for number, names in later.items()
            if still.intersection(names)}


def _files(number: str, arch: str) -> set[str]:
    """The files of a lab or of a half."""
    return {name for half, names in files(_rubric(number), (arch,)).items()
            if number in (half, half.split(".")[0]) for name in names}


def _linked(lab: int, arch: str, staff: Collection[str]) -> dict[str, set[str]]:
    """By earlier lab, or earlier half of this lab: its files in this lab's kernel. recordmcount
    runs on the host."""
    last = max((half for half in halves(_rubric(str(lab))) if half not in staff), default="")
    folders = [folder for folder in Path(f"labs/staff/{arch}/lab{lab}").glob("[0-9]*")
               if "." not in folder.name or folder.name < last]
    return {folder.name: {f for f in _files(folder.name, arch)
                          if folder.joinpath(f).with_suffix(".o").exists()
                          or f.endswith("/recordmcount.c")} for folder in folders}


def _quoted(half: str) -> str:
    return f'"{halves(_rubric(half))[half]["name"]}"'


def _named(number: str) -> str:
    return f"its own half {_quoted(number)}" if "." in number else f"lab {number}"


def as_handed_out(lab: int, arches: list[str], staff: Collection[str] = (),
                  command: str = "grade") -> str:
    """A sentence about earlier files that this lab's kernel needs and that are still as handed out,
    or ''. `staff`: the halves of this lab for which the staff's objects are linked; `command`: of
    make, that was typed."""
    asked, still = set(filter(None, os.environ.get("STAFF", "").split(","))), untouched() if Path(
        "labs/staff").exists() else set()
    missing = {arch: {n: sorted(names & still) for n, names in _linked(lab, arch, staff).items()
                      if names & still and n not in asked} for arch in arches}
    labs = sorted({n for found in missing.values() for n in found})
    if not labs:
        return ""
    names = sorted({f for found in missing.values() for of_lab in found.values() for f in of_lab})
    done = [arch for arch in arches if not missing[arch]]
    return (f"Lab {lab} needs {' and '.join(map(_named, labs))}, of which {', '.join(names)} "
            f"{'is' if len(names) == 1 else 'are'} as handed out: write that first"
            + (f", or grade ARCH={done[0]} alone" if done else "") + ", or take the staff's "
            f"objects: {with_staff(lab, ','.join(sorted({*labs, *asked})), command)}")


def nothing_own(lab: int, staff: Collection[str]) -> str:
    """A sentence if the staff's objects are linked for every half of this lab, or ''."""
    parts = halves(_rubric(str(lab)))
    return "" if set(parts) - set(staff) else (f"Lab {lab}: the kernel is linked with the staff's "
                                               f"objects for {' and '.join(map(_quoted, parts))}, "
                                               "so there is nothing to grade.")


def graded_halves(lab: int, staff: Collection[str]) -> str:
    """A line that says which halves of this lab are graded, or '' for a lab without halves."""
    parts, still = halves(_rubric(str(lab))), waiting(lab)
    if len(parts) == 1:
        return ""
    own = [_quoted(number) for number in parts if number not in staff]
    said = [f"Lab {lab}: the {'half' if len(own) == 1 else 'halves'} {' and '.join(own)} "
            f"{'is' if len(own) == 1 else 'are'} graded."]
    for number in sorted(staff):
        names = ", ".join(still.get(number, []))
        said.append(f"The half {_quoted(number)} "
                    + (f"is not graded yet: {names} {'is' if len(still[number]) == 1 else 'are'} "
                       "as handed out, and the kernel is linked with the staff's objects for "
                       "this half." if names else "gets no points: the kernel is linked with the "
                       f"staff's objects for it (STAFF={number})."))
    return " ".join(said)

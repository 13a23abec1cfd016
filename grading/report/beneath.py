"""Which earlier labs the student has not changed yet, and whether the graded lab needs them.

Only a student's tree has the staff's objects: labs/staff/<arch>/lab<n>/<m>/ has the objects of lab m that lab n's kernel links.
"""

from __future__ import annotations

import os
import subprocess
import tomllib
from pathlib import Path

ARCHES = ("riscv64", "arm64")


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.split()


def _files(rubric: Path, arches: tuple[str, ...]) -> set[str]:
    return {name.replace("<arch>", arch) for name in tomllib.loads(rubric.read_text())["files"] for arch in arches}


def untouched() -> set[str]:
    """The student's files that did not change since the first commit of this tree."""
    files = {file for rubric in Path("labs").glob("*/rubric.toml") for file in _files(rubric, ARCHES)}
    first = _git("rev-list", "--max-parents=0", "HEAD")[:1]
    return files - set(_git("diff", "--name-only", *first, "--", *sorted(files))) if first else set()


def _linked(lab: int, arch: str) -> dict[int, set[str]]:
    """By earlier lab, its files in this lab's kernel. recordmcount runs on the host."""
    found: dict[int, set[str]] = {}
    for folder in Path(f"labs/staff/{arch}/lab{lab}").glob("[0-9]"):
        files = _files(next(Path("labs").glob(f"{folder.name}-*/rubric.toml")), (arch,))
        found[int(folder.name)] = {f for f in files if folder.joinpath(f).with_suffix(".o").exists() or f.endswith("/recordmcount.c")}
    return found


def as_handed_out(lab: int, arches: list[str]) -> str:
    """A sentence about earlier files that this lab's kernel needs and that are still as handed out, or ''."""
    staff, waiting = os.environ.get("STAFF", "").split(","), untouched() if Path("labs/staff").exists() else set()
    missing = {arch: {n: sorted(files & waiting) for n, files in _linked(lab, arch).items() if files & waiting and str(n) not in staff} for arch in arches}
    labs = sorted({n for found in missing.values() for n in found})
    if not labs:
        return ""
    files = sorted({f for found in missing.values() for names in found.values() for f in names})
    done = [arch for arch in arches if not missing[arch]]
    asked = ",".join(sorted({*map(str, labs), *filter(None, staff)}))
    return (f"Lab {lab} needs lab {' and lab '.join(map(str, labs))}, of which {', '.join(files)} {'is' if len(files) == 1 else 'are'} as handed out: "
            f"write that first, or take the staff's objects, make grade LAB={lab} STAFF={asked}" + (f"; or grade ARCH={done[0]} alone" if done else "") + ".")

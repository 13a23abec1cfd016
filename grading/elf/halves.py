"""A lab's halves, as its rubric.toml lists them. Lab 4 has two halves, which are graded one after
the other. Any other lab is one part.

STAFF=, labs/staff/ and the reports name a half by the lab's number and the half's own number: 4.1,
4.2.
"""

import tomllib
from pathlib import Path
from typing import Any


def halves(rubric: Path) -> dict[str, dict[str, Any]]:
    """By number: the half's entries of this rubric.toml. A lab without halves is one entry, with
    the lab's number."""
    lab, said = rubric.parent.name.split("-")[0], tomllib.loads(rubric.read_text())
    return {f"{lab}.{n}": half
            for n, half in enumerate(said["half"], 1)} if "half" in said else {lab: said}


def files(rubric: Path, arches: tuple[str, ...]) -> dict[str, list[str]]:
    """By half: the files that students hand in for these architectures."""
    return {number: [name.replace("<arch>", arch) for name in half["files"]
                     for arch in (arches if "<arch>" in name else arches[:1])]
            for number, half in halves(rubric).items()}

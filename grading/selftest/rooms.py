"""Checks that each room of grading/ imports only itself and rooms before it in grading.ROOMS. Part
of `make lint`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from grading import ROOMS
from qemu.machine import ROOT

ANYWHERE = ("verdict", "ROOMS")


def imported(file: Path) -> Iterator[str]:
    """What a file imports of grading, without `grading.`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module == "grading":
            yield from (name.name for name in node.names)
        elif isinstance(node,
                        ast.ImportFrom) and node.module and node.module.startswith("grading."):
            yield node.module.removeprefix("grading.")
        elif isinstance(node, ast.Import):
            yield from (name.name.removeprefix("grading.") for name in node.names
                        if name.name.startswith("grading."))


def wrong(grading: Path) -> list[str]:
    """A line for each import of a later room, or of a module that is in no room."""
    found = []
    for index, room in enumerate(ROOMS):
        for file in sorted((grading / room).glob("*.py")):
            found += [f"grading/{room}/{file.name} imports grading.{name}, which is not in a room "
                      f"before {room}/ (grading/__init__.py)" for name in imported(file)
                      if name.split(".")[0] not in (*ROOMS[:index + 1], *ANYWHERE)]
    return found


def main() -> int:
    found = wrong(ROOT / "grading")
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

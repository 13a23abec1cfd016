"""Checks that each room of the kernel uses only itself and the rooms before it in kern/rooms.mk.
Part of `make lint`.

    rooms.py FOLDER...    folders of kernels that were built, build/<arch>/<variant>: they have all
                          sources between them

What is checked are the names that the objects define and use, and the headers that the sources
include. Every source of a kernel is in a room, but for those of room_none. Circles of files that
use each other lie inside one room; one that does not has at most three files, or is that of
room_circle. A linker's table (TABLE_ENTRY) has no name, so through a table a room may call a later
one; nor is the call that the compiler puts into each function looked at.
"""
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
LATER = "a room that comes later in kern/rooms.mk"
CALL_SITE = "_mcount"
LARGEST = 3  # files of a circle that may lie in several rooms


@dataclass
class Rooms:
    """The lists of kern/rooms.mk. Files are paths from the root of the tree, patterns are of such
    paths."""

    root: Path
    order: list[str]
    patterns: list[list[str]]  # of each room
    none: list[str]
    circle: list[str]
    place: dict[Path, int] = field(init=False)  # the room of a source or header
    outside: set[Path] = field(init=False)

    def __post_init__(self) -> None:
        self.place = {file: place for place, patterns in enumerate(self.patterns)
                      for file in self.matching(patterns)}
        self.outside = set(self.matching(self.none))

    def matching(self, patterns: Iterable[str]) -> Iterator[Path]:
        return (file.relative_to(self.root) for pattern in patterns
                for file in sorted(self.root.glob(pattern)) if file.suffix in (".c", ".h", ".S"))

    def room(self, file: Path) -> str:
        return self.order[self.place[file]] if file in self.place else "no room"


def read(root: Path) -> Rooms:
    """What make makes of kern/rooms.mk."""
    show = ("$(foreach r,$(rooms),$(info room $r $(call room_files,$r)))$(info none "
            "$(room_none))$(info circle $(room_circle))")
    command = ["make", "-s", "-f", "kern/ftrace/stages.mk", "-f", "kern/rooms.mk",
               f"--eval=show: ; @:{show}", "show"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True, env=env)
    lines = [line.split() for line in done.stdout.splitlines()]
    rooms = [words[1:] for words in lines if words[0] == "room"]
    none, circle = (next(words[1:] for words in lines if words[0] == key)
                    for key in ("none", "circle"))
    return Rooms(root, [words[0] for words in rooms], [words[1:] for words in rooms], none, circle)


def names(objects: Iterable[Path]) -> dict[Path, tuple[set[str], set[str]]]:
    """The global names that each object defines, and those that it uses. The host's nm reads the
    objects of all architectures."""
    found: dict[Path, tuple[set[str], set[str]]] = {path: (set(), set()) for path in objects}
    text = subprocess.run(["nm", "-A", "-g", "-P", *found], check=True, capture_output=True,
                          text=True).stdout
    for file, name, kind in re.findall(r"^(.+): (\S+) (\S)", text, re.M):
        if name != CALL_SITE:
            found[Path(file)][kind in "Uw"].add(name)
    return found


def uses(root: Path, kernel: Path) -> dict[Path, dict[Path, list[str]]]:
    """Of each source of a kernel that is in the tree: the sources that it uses, and their names for
    what it uses."""
    sources = {
        source: its_names
        for path, its_names in names(sorted(kernel.rglob("*.o"))).items()
        for source in (path.relative_to(kernel).with_suffix(ending) for ending in (".c", ".S"))
        if (root / source).exists()
    }
    owner = {name: source for source, (defined, _) in sources.items() for name in defined}
    found: dict[Path, dict[Path, list[str]]] = {source: {} for source in sources}
    for source, (defined, used) in sources.items():
        for name in sorted(used - defined):
            if name in owner:
                found[source].setdefault(owner[name], []).append(name)
    return found


def calls(rooms: Rooms, graph: dict[Path, dict[Path, list[str]]]) -> list[str]:
    """A line for each name that a room uses and a later one defines, and for each source without a
    room."""
    lost = [
        f"{source} is in no room" for source in graph
        if source not in rooms.place and source not in rooms.outside
    ]
    return lost + [
        f"{source} uses {name} of {other}, {LATER}" for source, used in graph.items()
        for other, found in used.items() for name in found if source in rooms.place
        and other in rooms.place and rooms.place[source] < rooms.place[other]
    ]


def reached(graph: dict[Path, dict[Path, list[str]]], source: Path) -> set[Path]:
    found, left = set(), [source]
    while left:
        for other in graph[left.pop()]:
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def circles(graph: dict[Path, dict[Path, list[str]]]) -> list[frozenset[Path]]:
    """The largest sets of files in which each uses each other, by way of others."""
    ways = {source: reached(graph, source) for source in graph}
    return list(dict.fromkeys(frozenset(other for other in ways[source] if source in ways[other])
                              for source in graph if source in ways[source]))


def large(rooms: Rooms, graph: dict[Path, dict[Path, list[str]]]) -> list[frozenset[Path]]:
    """The large circles that do not lie in one room."""
    return [circle for circle in circles(graph) if len(circle) > LARGEST
            and (circle & rooms.outside or len({rooms.place.get(file) for file in circle}) > 1)]


def includes(rooms: Rooms) -> list[str]:
    """A line for each include of a header of a later room."""
    headers = [file for file in rooms.place if file.suffix == ".h"]
    home = {file.name: file for file in headers}
    home |= {str(file.relative_to("kern")): file for file in headers if file.parts[0] == "kern"}
    found = []
    for source, place in rooms.place.items():
        for name in re.findall(r'^#include "([^"]+)"', (rooms.root / source).read_text(), re.M):
            beside = Path(os.path.normpath(source.parent / name))
            header = beside if beside in rooms.place else home.get(name)
            if header and rooms.place[header] > place:
                found.append(f"{source} includes {header}, {LATER}")
    return found


def wrong(rooms: Rooms, kernels: Iterable[Path]) -> list[str]:
    found = includes(rooms)
    for kernel in kernels:
        graph = uses(rooms.root, kernel)
        found += calls(rooms, graph)
        found += [
            "a circle of files that does not lie in one room: " +
            ", ".join(f"{file} ({rooms.room(file)})" for file in sorted(circle))
            for circle in large(rooms, graph) if not circle <= set(rooms.matching(rooms.circle))
        ]
    return list(dict.fromkeys(found))


def cut(rooms: Rooms, kernels: Iterable[Path]) -> list[str]:
    """A line for each file of room_circle that is in no large circle any more."""
    left = {file for kernel in kernels for circle in large(rooms, uses(rooms.root, kernel))
            for file in circle}
    return [
        f"{file} is in no large circle: take it out of room_circle"
        for file in rooms.matching(rooms.circle) if file.suffix != ".h" and file not in left
    ]


def main() -> int:
    rooms, kernels = read(ROOT), [Path(name) for name in sys.argv[1:]]
    found = wrong(rooms, kernels) + cut(rooms, kernels)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

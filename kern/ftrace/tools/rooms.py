"""Checks that each room of kern/ftrace calls only itself and the rooms before it in stages.mk. Part of `make lint`.

    rooms.py FOLDER...    folders of kernels that were built: build/<arch>/<variant>

What is checked are the names that the objects define and use, and the headers that the sources include. A linker's
table (TABLE_ENTRY) has no name, so through a table a room may call a later one.
"""
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from elftools.elf.elffile import ELFFile

TRACER = Path(__file__).resolve().parents[1]


def rooms(tracer: Path) -> list[str]:
    found = re.search(r"^ftrace_rooms := \$\(addprefix kern/ftrace/,(.*)\)$", (tracer / "stages.mk").read_text(), re.M)
    assert found
    return found[1].split()


def names(file: Path) -> tuple[set[str], set[str]]:
    """The global names that an object defines, and those that it uses."""
    defined, used = set(), set()
    with file.open("rb") as stream:
        for symbol in ELFFile(stream).get_section_by_name(".symtab").iter_symbols():
            if symbol["st_info"]["bind"] != "STB_LOCAL":
                (used if symbol["st_shndx"] == "SHN_UNDEF" else defined).add(symbol.name)
    return defined, used


def calls(order: list[str], tracer: Path, kernel: Path) -> list[str]:
    """A line for each name that a room uses and a later one defines. @kernel: where the rooms' objects are."""
    objects = [(place, kernel / room / f"{file.stem}.o", *names(kernel / room / f"{file.stem}.o"))
               for place, room in enumerate(order) for file in sorted((tracer / room).glob("*.c"))
               if (kernel / room / f"{file.stem}.o").exists()]
    owner = {name: (place, file) for place, file, defined, _ in objects for name in defined}
    return [f"{order[place]}/{file.stem}.c uses {name} of {order[owner[name][0]]}/{owner[name][1].stem}.c"
            for place, file, _, used in objects for name in sorted(used)
            if name in owner and owner[name][0] > place]


def includes(order: list[str], tracer: Path) -> list[str]:
    """A line for each include of a header of a later room."""
    home = {header.name: place for place, room in enumerate(order) for header in (tracer / room).glob("*.h")}
    return [f"{room}/{file.name} includes {header} of {order[home[header]]}/"
            for place, room in enumerate(order) for file in sorted((tracer / room).glob("*.[ch]"))
            for header in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M)
            if home.get(header, 0) > place]


def wrong(tracer: Path, kernels: Iterable[Path]) -> list[str]:
    order = rooms(tracer)
    found = includes(order, tracer)
    for kernel in kernels:
        found += calls(order, tracer, kernel / "kern/ftrace")
    return [f"kern/ftrace/{line}, a room that comes later in stages.mk" for line in dict.fromkeys(found)]


def main() -> int:
    found = wrong(TRACER, map(Path, sys.argv[1:]))
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

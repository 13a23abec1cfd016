#!/usr/bin/python3
"""islands.py riscv64|arm64 [OBJECT...]: the places of islands in text, as a header.

An island is a copy of the tracer's stubs for call sites that are too far from
the stubs themselves (kern/ftrace/<arch>/islands.S). The objects that can be
large, a person's own program and generated sites, come after the tracer's
section; they are the arguments, in the linker's order. They are divided into
pieces that one call can span, and an island follows each piece. Small objects
get no island, and arm64 gets none, because a call spans 128 MiB there.

    #define FTRACE_ISLANDS 1
    #define FTRACE_ISLANDS_TEXT "prog.o"(".text.f" ".text.g") *(.ftrace.island.1)

The linker can put an island only between sections, so the objects have one
for each function or so. The sections after the last island are not named.
"""
import subprocess
import sys
from pathlib import Path

# on a full disk Python 3.11 may write half of it, which is read the next time
sys.dont_write_bytecode = True
sys.path.append(str(Path(__file__).resolve().parents[3]))
from output import put  # noqa: E402
from qemu.isa import ISAS  # noqa: E402

Section = tuple[str, str, int]  # object, name, size


def text_sections(arch: str, path: str) -> list[Section]:
    """The code sections of an object, in their order."""
    listing = subprocess.check_output([f"{ISAS[arch].cross}size", "-A", "-d", path], text=True)
    rows = [line.split() for line in listing.splitlines() if line.startswith(".text")]
    return [(path, row[0], int(row[1])) for row in rows if row[1] != "0"]


def pieces(sections: list[Section], step: int) -> list[list[Section]]:
    """The pieces after which an island follows: none is larger than step, unless it is a single
    section."""
    done: list[list[Section]] = []
    piece: list[Section] = []
    used = 0
    for section in sections:
        if used and used + section[2] > step:
            done.append(piece)
            piece, used = [], 0
        piece.append(section)
        used += section[2]
    return [*done, piece] if used > step else done


def statement(piece: list[Section]) -> str:
    """The piece, in the form that the linker script needs."""
    names: dict[str, list[str]] = {}
    for path, name, _ in piece:
        names.setdefault(path, []).append(f'"{name}"')
    return " ".join(f'"{path}"({" ".join(sections)})' for path, sections in names.items())


def main() -> int:
    arch, *paths = sys.argv[1:]
    found = pieces([s for path in paths for s in text_sections(arch, path)], ISAS[arch].island_step)
    text = [f"{statement(piece)} *(.ftrace.island.{n})" for n, piece in enumerate(found, 1)]
    return put(
        f"#define FTRACE_ISLANDS {len(found)}\n#define FTRACE_ISLANDS_TEXT {' '.join(text)}\n")


if __name__ == "__main__":
    sys.exit(main())

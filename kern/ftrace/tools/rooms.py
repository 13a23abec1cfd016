"""Checks that each room of kern/ftrace includes only headers of itself and of rooms before it in stages.mk. Part of `make lint`."""
import re
import sys
from pathlib import Path

TRACER = Path(__file__).resolve().parents[1]


def rooms(tracer: Path) -> list[str]:
    found = re.search(r"^ftrace_rooms := \$\(addprefix kern/ftrace/,(.*)\)$", (tracer / "stages.mk").read_text(), re.M)
    assert found
    return found[1].split()


def wrong(tracer: Path) -> list[str]:
    """A line for each include of a header of a later room."""
    order = rooms(tracer)
    place = {header.name: room for room in order for header in (tracer / room).glob("*.h")}
    found = []
    for room in order:
        for file in sorted((tracer / room).glob("*.[ch]")):
            for header in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M):
                if header in place and order.index(place[header]) > order.index(room):
                    found.append(f"kern/ftrace/{file.relative_to(tracer)} includes {header} of {place[header]}/, which comes after {room}/ in stages.mk")
    return found


def main() -> int:
    found = wrong(TRACER)
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

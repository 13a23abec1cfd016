"""Who may include whom: a room of kern/ftrace uses only those before it in ftrace_rooms (kern/ftrace/stages.mk). Part of `make lint`."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TRACER = ROOT / "kern/ftrace"


def rooms() -> list[str]:
    found = re.search(r"^ftrace_rooms := \$\(addprefix kern/ftrace/,(.*)\)$", (TRACER / "stages.mk").read_text(), re.M)
    assert found
    return found[1].split()


def wrong(order: list[str]) -> list[str]:
    place = {header.name: room for room in order for header in (TRACER / room).glob("*.h")}
    found = []
    for room in order:
        for file in sorted((TRACER / room).glob("*.[ch]")):
            for header in re.findall(r'^#include "([^"]+)"', file.read_text(), re.M):
                if header in place and order.index(place[header]) > order.index(room):
                    found.append(f"{file.relative_to(ROOT)}: includes {header} of {place[header]}/, which comes after {room}/ in stages.mk")
    return found


def main() -> int:
    found = wrong(rooms())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""What of a student's tree is as it was handed out.

    begun.py [--staff=FILE ...] TEST.cc ...
    begun.py --waiting LAB

The host tests that need no file as it was handed out; a file of which the
staff's object is taken counts as begun. The others are said, with the file that
nobody has begun, on the standard error: a test of what is not written yet says
nothing. --waiting: the halves of a lab for which the staff's objects are linked,
because files of theirs are as handed out.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from grading.report.beneath import untouched, waiting  # noqa: E402


def needed(test: Path) -> set[str]:
    """What a test is linked with stands in its first line."""
    return set(test.read_text().split("\n", 1)[0].split())


def main() -> int:
    if sys.argv[1:2] == ["--waiting"]:
        print(*waiting(int(sys.argv[2])))
        return 0
    staff = {word.removeprefix("--staff=") for word in sys.argv[1:] if word.startswith("--staff=")}
    without = untouched() - staff
    for test in (Path(word) for word in sys.argv[1:] if not word.startswith("--")):
        missing = sorted(needed(test) & without)
        if missing:
            print(f"{test.stem} needs your own {', '.join(missing)}: not run, as handed out", file=sys.stderr)
        else:
            print(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Finds out what a student has not begun yet: which host tests and which halves of a lab need a
file that is as handed out.

    begun.py [--graded] [--staffed=LAB ...] TEST.cc ...
    begun.py --waiting LAB

The first form prints the tests that can be run: those that need no file that is as handed out. A
file whose object is linked from the staff's, with LAB as in STAFF=, counts as begun. The other
tests, each with the file that is as handed out, are printed on the standard error. --graded: a test
needs only that the files are there. The second form prints the halves of a lab for which the
staff's objects are linked, because one of their files is as handed out.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from grading.report.beneath import untouched, waiting  # noqa: E402


def needed(test: Path) -> set[str]:
    """What a test is linked with: the words of its first lines, `// needs: ...`."""
    lines = test.read_text().split("\n")[:10]
    return {word for line in lines if line.startswith("// needs:") for word in line.split()}


def staffs(test: Path, labs: list[str]) -> set[str]:
    """The files for which the staff's objects are linked with a test: those of these labs."""
    folders = [Path("labs/staff", platform.machine(), test.stem, lab) for lab in labs]
    return {str(at.relative_to(folder).with_suffix(".c")) for folder in folders
            for at in folder.rglob("*.o")}


def main() -> int:
    if sys.argv[1:2] == ["--waiting"]:
        print(*waiting(int(sys.argv[2])))
        return 0
    words = sys.argv[1:]
    labs = [word.removeprefix("--staffed=") for word in words if word.startswith("--staffed=")]
    still = set() if "--graded" in words else untouched()
    for test in (Path(word) for word in words if not word.startswith("--")):
        missing = sorted(needed(test) & still - staffs(test, labs))
        if missing:
            print(f"{test.stem} needs your own {', '.join(missing)}: not run, as handed out",
                  file=sys.stderr)
        else:
            print(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())

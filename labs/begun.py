"""Which host tests are run in a student's tree: those that need no file as it was handed out.

    begun.py [--staff=FILE ...] TEST.cc ...

A file of which the staff's object is taken counts as begun. Prints them. The others are said, with the file that nobody has begun, on the
standard error: a test of what is not written yet says nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path


def git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.split()


def untouched() -> set[str]:
    """The student's files that are as in the first commit."""
    files = {name.replace("<arch>", arch) for rubric in Path("labs").glob("*/rubric.toml")
             for name in tomllib.loads(rubric.read_text())["files"] for arch in ("riscv64", "arm64")}
    first = git("rev-list", "--max-parents=0", "HEAD")[:1]
    return files - set(git("diff", "--name-only", *first, "--", *sorted(files))) if first else set()


def needed(test: Path) -> set[str]:
    """What a test is linked with stands in its first line."""
    return set(test.read_text().split("\n", 1)[0].split())


def main() -> int:
    staff = {word.removeprefix("--staff=") for word in sys.argv[1:] if word.startswith("--staff=")}
    waiting = untouched() - staff
    for test in (Path(word) for word in sys.argv[1:] if not word.startswith("--")):
        missing = sorted(needed(test) & waiting)
        if missing:
            print(f"{test.stem} needs your own {', '.join(missing)}: not run, as handed out", file=sys.stderr)
        else:
            print(test)
    return 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/python3
"""The tree that students get: the starts of their labs, nothing of what they are to write, one commit.

    handout.py OUT --labs 1-4 --student LAB FILE... --stage LAB NAME...

Student files are resolved by unifdef to their start; files that only later
labs are made of, and the instructor's own, are left out.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
INSTRUCTORS = re.compile(r"labs/|grading/tests/|\.ci/run$|kern/tests/(test_.*\.py|app_host\.|run_)|kern/ftrace/tests/(.*\.py|golden/)")
STAGES = re.compile(r"^STAGES := .*$", re.M)


class Refused(Exception):
    """The tree cannot be written; the message says why."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--labs", required=True, help="1-N")
    parser.add_argument("--student", nargs="+", action="append", metavar=("LAB", "FILE"))
    parser.add_argument("--stage", nargs="+", action="append", metavar=("LAB", "NAME"))
    return parser.parse_args()


def last_lab(text: str, starts: list[int]) -> int:
    match = re.fullmatch(r"1-(\d)", text)
    if not match or int(match[1]) not in starts:
        raise Refused(f"LABS={text}: labs are handed out from the first on, and have a start up to {max(starts)}: 1-{max(starts)}")
    return int(match[1])


def later_names(stages: dict[int, list[str]], last: int) -> set[str]:
    """Of what the stages are made of, what none up to the last lab has."""
    have = {name for lab, names in stages.items() if lab <= last for name in names}
    return {name for names in stages.values() for name in names} - have


def resolve(source: Path, start: int) -> str:
    done = subprocess.run(["unifdef", f"-DLAB_START={start}", str(source)], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: there was something to resolve
        raise Refused(f"unifdef: {source}: {done.stderr.strip()}")
    return done.stdout


def tests_what_is_there(source: Path, gone: set[str]) -> bool:
    """A host test names what it is linked with in its first line."""
    first = source.read_text().split("\n", 1)[0]
    return not any(Path(word).name in gone for word in first.split())


def files(gone: set[str]) -> list[str]:
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"], capture_output=True,
                            text=True, check=True).stdout.splitlines()
    mine = [f for f in listed if ((ROOT / f).is_file() or (ROOT / f).is_symlink()) and not INSTRUCTORS.match(f)
            and not (f.startswith("kern/ftrace/") and Path(f).name in gone)]
    return [f for f in mine if not f.endswith("_test.cc") or tests_what_is_there(ROOT / f, gone)]


def write(out: Path, name: str, start: int) -> None:
    target = out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / name, target, follow_symlinks=False)
    if target.suffix in (".c", ".h", ".S"):
        target.write_text(resolve(ROOT / name, start))
        if "LAB_START" in target.read_text():
            raise Refused(f"{name}: a condition on LAB_START is left")


def commit(out: Path) -> None:
    git = ["git", "-C", str(out), "-c", "user.name=Callsite", "-c", "user.email=callsite@localhost"]
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "The labs of Callsite"]):
        subprocess.run([*git, *words], check=True)


def main() -> int:
    args = options()
    student = {file: int(lab) for lab, *names in args.student for file in names}
    stages = {int(lab): names for lab, *names in args.stage}
    try:
        last = last_lab(args.labs, sorted(set(student.values())))
        if args.out.exists() and any(args.out.iterdir()):
            raise Refused(f"{args.out}: there is something already")
        for name in files(later_names(stages, last)):
            write(args.out, name, student.get(name, 0) if student.get(name, 0) <= last else 0)
        shutil.copy2(ROOT / "labs/student.md", args.out / "README.md")
        mk = args.out / "kern/ftrace/stages.mk"
        mk.write_text(STAGES.sub("STAGES := " + " ".join(map(str, range(1, last + 1))), mk.read_text()))
        commit(args.out)
    except Refused as why:
        print(f"handout: {why}", file=sys.stderr)
        return 1
    print(f"{args.out}: labs 1 to {last}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

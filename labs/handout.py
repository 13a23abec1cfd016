"""Makes the tree that students get: starts instead of solutions, the staff's objects, one commit.

    handout.py OUT --labs 0-4 --stage STAGE FILE...

Student files (the rubrics name them) are resolved by unifdef to their start.
Files that only later labs use, and those for the instructor, are left out.
The solution of a lab on which others build is included as objects, without
debugging information: `make LAB=5 STAFF=3,4`. So is the solution of each half
of a lab, as the first half is graded with the staff's second half (labs/student.mk).
"""

from __future__ import annotations

import argparse
import itertools
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from grading.checks import rubric  # noqa: E402
from labs.begun import needed  # noqa: E402
from qemu import disk  # noqa: E402
from qemu.isa import ARCHES, ISAS  # noqa: E402

# A file that would show a student how to do a lab is included only as an object, for each stage
# that links it.
WALK, DIRECT, FPROBE = ("kern/ftrace/graph/fgraph_one_walk", "kern/ftrace/trace/trace_graph_direct",
                        "kern/ftrace/probes/fprobe")
HIDDEN = ((5, WALK), (6, DIRECT), (7, DIRECT), (8, DIRECT), (8, FPROBE))
CONTENTS = ("docs/index.md", "docs/mkdocs.yml")  # a line for each page
INSTRUCTORS = re.compile(
    r"labs/(?!\d+-[^/]+/(?!wrong/|equivalent$|promises\.toml$)|"
    r"(student|staff|begun|handed_in)\.mk$|begun\.py$)|"
    r"grading/(attacks/|tests/|classroom/|"
    r"selftest/(edits|wrong|mutants|mutations|class_of|handed_out)\.py$)|"
    r"\.ci/run$|docs/(add|instructors|platforms)\.md$|"
    rf"({'|'.join((WALK, DIRECT, FPROBE))})\.c$")
STAGES = re.compile(r"^STAGES := .*$", re.M)
# The host test of lab 5 that is linked with earlier labs.
GRAPH_TEST = "kern/ftrace/tests/graph_test.cc"
HOST = "build/host/graph_test.d"


class NoHandout(Exception):
    """The tree cannot be written; the message says why."""


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--labs", required=True, help="0-N")
    parser.add_argument("--stage", nargs="+", action="append", metavar=("STAGE", "FILE"))
    return parser.parse_args()


def last_lab(text: str) -> int:
    match = re.fullmatch(r"0-(\d+)", text)
    if not match or int(match[1]) not in rubric.LABS:
        raise NoHandout(
            f"LABS={text}: labs are handed out from lab 0 on: give LABS=0-1 to "
            f"LABS=0-{max(rubric.LABS)}"
        )
    return int(match[1])


def run(*words: str | Path) -> None:
    env = {
        name: value
        for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    done = subprocess.run([str(w) for w in words], cwd=ROOT, env=env, capture_output=True,
                          text=True, check=False)
    if done.returncode:
        raise NoHandout(
            disk.told(done.stdout + done.stderr, ROOT / "build") or
            f"{' '.join(str(w) for w in words[:3])} ... "
            f"failed:\n{(done.stdout + done.stderr)[-2000:]}"
        )


# ---- what is left out ---------------------------------------------------------

def later_names(stages: dict[int, list[str]], last: int) -> set[str]:
    """The names of files that only the stages after the last lab have."""
    have = {name for lab, names in stages.items() if lab <= last for name in names}
    return {name for names in stages.values() for name in names} - have


def goes(name: str, gone: set[str], last: int) -> bool:
    if INSTRUCTORS.match(name) or name.startswith("kern/ftrace/") and Path(name).name in gone:
        return False
    lab = re.match(r"labs/(\d+)-", name)
    if lab and int(lab[1]) > last:
        return False
    return not name.endswith("_test.cc") or not any(
        Path(word).name in gone for word in needed(ROOT / name))


def files(gone: set[str], last: int) -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                            check=True).stdout.splitlines()
    return [
        f for f in listed
        if ((ROOT / f).is_file() or (ROOT / f).is_symlink()) and goes(f, gone, last)
    ]


# ---- what is written ----------------------------------------------------------

def resolve(name: str, start: int) -> str:
    """The file's start; 0: its solution. unifdef's status 1 says only that there was something to
    resolve."""
    done = subprocess.run(["unifdef", f"-DLAB_START={start}", name], cwd=ROOT, capture_output=True,
                          text=True, check=False)
    if done.returncode not in (0, 1):
        raise NoHandout(f"unifdef cannot resolve {name}: {done.stderr.strip()}")
    return done.stdout


def write(out: Path, name: str, start: int) -> None:
    target = out / name
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(ROOT / name, target, follow_symlinks=False)
    if not target.is_symlink() and target.suffix in (".c", ".h",
                                                     ".S") and "LAB_START" in target.read_text():
        target.write_text(resolve(name, start))
        if "LAB_START" in target.read_text():
            raise NoHandout(
                f"{name}: a condition on LAB_START is left, and no lab hands in this file")


def readme(last: int) -> str:
    lines = (ROOT / "labs/student.md").read_text().splitlines(keepends=True)
    return "".join(line for line in lines
                   if not re.match(r"\| (\d) \|", line) or int(line[2]) <= last)


# ---- the staff's objects ------------------------------------------------------

def objects(stages: dict[int, list[str]], stage: int, arch: str) -> dict[str, str]:
    """The objects of earlier labs and of its own halves that this stage links: their names in
    build/, with the lab or half (3, 4.1) of each."""
    whose = {
        name: half.number if lab == stage else str(lab)
        for lab in rubric.LABS if lab <= stage for half in rubric.lab(lab).halves
        if lab < stage or half.name for name in half.files
    }
    return {
        str(Path(name).with_suffix(".o")): number
        for name, number in whose.items() if name.endswith((
            ".c", ".S")) and Path(name).name in stages[stage] and not _of_another(name, arch)
    }


def _of_another(name: str, arch: str) -> bool:
    return any(f"/{a}/" in name for a in ARCHES if a != arch)


def staff(out: Path, stages: dict[int, list[str]], last: int) -> None:
    folder = out / "labs/staff"
    folder.mkdir()
    (folder / "README.md").write_text(
        "Objects of labs that others build on. `make LAB=3 STAFF=1,2` links these in the place of "
        "yours.\n"
    )
    for stage in range(2, last + 1):
        wanted = {arch: objects(stages, stage, arch) for arch in ARCHES}
        built = [f"build/{arch}/lab{stage}/{o}" for arch in ARCHES for o in wanted[arch]]
        run("make", "-s", "-j2", f"LAB={stage}",
            *(f"build/{arch}/lab{stage}/recordmcount" for arch in ARCHES), *built)
        for arch in ARCHES:
            for name, whose in wanted[arch].items():
                strip(arch, ROOT / f"build/{arch}/lab{stage}/{name}",
                      folder / f"{arch}/lab{stage}/{whose}/{name}")
    for arch, (lab, name) in itertools.product(ARCHES, HIDDEN) if last >= 5 else ():
        if lab <= last:
            run("make", "-s", f"LAB={lab}", f"build/{arch}/lab{lab}/{name}.o")
            strip(arch, ROOT / f"build/{arch}/lab{lab}/{name}.o",
                  folder / f"{arch}/always{lab}/{name}.o")
    if last >= 3:
        (folder / platform.machine()).mkdir()
        run("strip", "-o", folder / platform.machine() / "recordmcount",
            f"build/{ARCHES[0]}/lab3/recordmcount")
    if last >= 5:
        graph_test(folder)


def strip(arch: str, source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    run(f"{ISAS[arch].cross}objcopy", "--strip-debug", source, target)


def graph_test(folder: Path) -> None:
    """The objects with which lab 5's host test is linked: those of labs 2 to 4, and the hidden one
    of lab 5."""
    run("make", "-s", "-j2", HOST.removesuffix(".d"))
    whose = {
        name: str(lab)
        for lab in range(2, 5) for name in rubric.lab(lab).files
        if name in needed(ROOT / GRAPH_TEST)
    }
    for name, lab in {**whose, f"{WALK}.c": "always"}.items():
        target = (folder / platform.machine() / lab / name).with_suffix(".o")
        target.parent.mkdir(parents=True, exist_ok=True)
        run("objcopy", "--strip-debug", (ROOT / HOST / name).with_suffix(".o"), target)


# ---- one commit ---------------------------------------------------------------

def commit(out: Path) -> None:
    git = ["git", "-C", str(out)]
    for words in (["init", "-q", "-b", "main"], ["config", "user.name", "Callsite"],
                  ["config", "user.email",
                   "callsite@localhost"], ["add", "-A",
                                           "-f"], ["commit", "-q", "-m", "The labs of Callsite"]):
        run(*git, *words)


def hand_out(out: Path, labs: str, stages: dict[int, list[str]]) -> int:
    last = last_lab(labs)
    if out.exists():
        raise NoHandout(f"{out} exists; name a new folder")
    start = {file: lab for lab in rubric.LABS for file in rubric.lab(lab).files}
    for name in files(later_names(stages, last), last):
        write(out, name, start.get(name, 0))
    for name in CONTENTS:
        (out / name).write_text("".join(
            line for line in (ROOT / name).open()
            if not re.search(r"\b(add|instructors|platforms)\.md", line)))
    (out / "README.md").write_text(readme(last))
    mk = out / "kern/ftrace/stages.mk"
    mk.write_text(STAGES.sub("STAGES := " + " ".join(map(str, range(1, last + 1))), mk.read_text()))
    staff(out, stages, last)
    commit(out)
    return last


def main() -> int:
    args = options()
    out = args.out.absolute()
    there = out.exists()
    try:
        last = hand_out(out, args.labs, {int(stage): names for stage, *names in args.stage})
    except (NoHandout, OSError) as why:
        if out.exists() and not there:
            shutil.rmtree(out)
        print(f"handout: {disk.what(why, out)}", file=sys.stderr)
        return 1
    print(f"{args.out}: labs 0 to {last}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes, from templates/, what a learning platform needs that calls a program for each submission:
`make gradescope` and `make classroom`."""

import argparse
import io
import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from grading.checks import rubric
from grading.classroom import tree
from kern.ftrace.tools.walls import NoWalls
from qemu.disk import write_whole
from qemu.machine import ROOT

TEMPLATES = Path(__file__).with_name("templates")


def template(name: str, lab: int, seed: str = "") -> str:
    text = (TEMPLATES / name).read_text().replace("@LAB@", str(lab))
    text = text.replace("@STAFF@", tree.staff(lab))
    return text.replace(" @SEED@", f" --seed {shlex.quote(seed)}" if seed else "")


def gradescope(out: Path, lab: int, seed: str = "") -> None:
    """Write an autograder into the zip `out`: the two scripts that Gradescope calls, and this tree.
    """
    there = [name for name in tree.known() if os.path.lexists(ROOT / os.fsdecode(name))]
    packed = subprocess.run([
        "tar", "-cz", "--owner=0", "--group=0", "--null", "--verbatim-files-from", "--files-from=-"
    ], cwd=ROOT, input=b"\0".join(there), stdout=subprocess.PIPE, check=True).stdout
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in ("setup.sh", "run_autograder"):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o100755 << 16
            archive.writestr(info, template(name, lab, seed))
        archive.writestr("callsite.tar.gz", packed)
    write_whole(out, made.getvalue())


WORKFLOW = ".github/workflows/classroom.yml"


def check(out: Path, lab: int) -> None:
    """Raises NoWalls if `out` is no tree of make handout's with this lab, or has another
    workflow. One repository is one assignment of GitHub Classroom."""
    if not (out / "labs/staff").is_dir() or not any(out.glob(f"labs/{lab}-*/rubric.toml")):
        raise NoWalls(f"OUT={out} is no tree with lab {lab} that make handout wrote: type  make "
                      f"handout OUT=../lab{lab} LABS=0-{lab}")
    before = (out / WORKFLOW).read_text() if (out / WORKFLOW).exists() else ""
    if before and before.partition("\n")[0] != template("classroom.yml", lab).partition("\n")[0]:
        raise NoWalls(f"{out / WORKFLOW} is another lab's: write a tree of its own for lab {lab}, "
                      "with make handout")


def classroom(out: Path, lab: int) -> Path:
    """Write the workflow into `out`, a tree that students get. Returns the path of the workflow."""
    workflow = out / WORKFLOW
    workflow.parent.mkdir(parents=True, exist_ok=True)
    write_whole(workflow, template("classroom.yml", lab))
    return workflow


def main() -> int:
    parser = argparse.ArgumentParser(prog="grading.classroom.platforms", description=__doc__)
    parser.add_argument("--lab", type=int, required=True, choices=sorted(rubric.LABS))
    parser.add_argument("--seed", default="",
                        help="the same seeds for all submissions; default: new ones for each")
    parser.add_argument("--classroom", action="store_true",
                        help="write GitHub Classroom's workflow into the tree OUT, no zip")
    parser.add_argument("out", type=Path, metavar="OUT",
                        help="the zip to write; with --classroom the tree of make handout")
    options = parser.parse_args()
    is_new = False
    try:
        if options.classroom:
            check(options.out, options.lab)
            print(f"{classroom(options.out, options.lab)}: a workflow for lab {options.lab}")
            return 0
        with options.out.open("ab") as file:  # before the work
            is_new = not file.tell()
        tree.known()
        gradescope(options.out, options.lab, options.seed)
        print(f"{options.out}: an autograder for lab {options.lab}. It holds the solutions: do not "
              "hand it out.")
        return 0
    except NoWalls as why:
        options.out.unlink() if is_new else None
        print(f"{'classroom' if options.classroom else 'gradescope'}: {why}", file=sys.stderr)
    except OSError as why:
        options.out.unlink() if is_new and options.out.exists() else None
        print(f"OUT={options.out} cannot be written: {why.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())

"""Grades one submission: builds it in a copy of the class's tree and grades it with each seed, all
in a sandbox (kern/ftrace/tools/walls.py).

    python3 -m grading.classroom.one OUT KEY [TREE]

reads OUT/todo/KEY.json (__main__.py wrote it) and makes OUT/graded/KEY/: result.json (its form is
result.schema.json), what was printed, and the consoles' logs. It appears whole or not at all. On a
worker (workers.py) TREE is the worker's copy of the class's tree, and the folder is packed into
OUT/KEY.tar. Only this process writes it, after all that ran in the sandbox has ended. Exits with 1
if the harness failed, which is no score: then another attempt may succeed.

Each architecture is built and graded by itself (grading/seeds.py): what is missing for one costs
nothing of the other. The messages of a failed build do not show whose fault it is, because the
student's files can choose them. So the tree as it was handed out is built in the same sandbox, and
then the submission again. If the tree as it was handed out does not build, the harness failed.
"""

import argparse
import base64
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

from grading.classroom import tree
from grading.machine.machine import ended_by_signals
from kern.ftrace.tools import walls
from kern.ftrace.tools.walls import NoWalls
from qemu import disk
from qemu.emulator import UNPACKED
from qemu.machine import ARCHES

FORMAT = 1
GRADED, BUILD, OVER, REFUSED, NOTHING, HARNESS = ("graded", "build failure", "over a limit",
                                                  "refused", "nothing handed in", "harness error")
# AddressSanitizer, in the host tests, reserves 16 TiB of addresses.
LIMITS = walls.Limits(seconds=3 * 3600, file=256 << 20, memory=1 << 45, processes=512,
                      together=2 << 30)
JOB = b"grading.classroom.one"  # the module's name on a job's command line; the next word is OUT
# QEMU's own filter of system calls
QEMU_SANDBOX = "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny"
ROOM = 64 << 20  # bytes that are free where a build may fail by its own fault
LONGEST_TEXT = 64 << 10  # bytes that are kept of what a build or a grade printed
LONGEST_LOG = 1 << 20  # of a console's log: its beginning and its end
# The two scripts read for each architecture: MAKE_, the command that builds it; TESTS_, the one for
# its host tests, without which only their rung is lost; STAFF_, the labs and halves for
# which the staff's objects are linked; HALVES_, the options that name these halves to the grader.
CPU = "awk '{print ($14 + $15 + $16 + $17) / 100}' /proc/$$/stat"
BUILD_EACH = rf"""
rm -f ../build-*.status ../build.cpu build/host/*_test
for arch in {' '.join(ARCHES)}; do
	command=MAKE_$arch tests=TESTS_$arch
	${{!command}} >../build-$arch.txt 2>&1
	echo $? >../build-$arch.status
	${{!tests}} >../tests-$arch.txt 2>&1
done
{CPU} >../build.cpu
"""
GRADE_EACH = rf"""
({tree.LIST_OPERATIONS}) >../operations.txt 2>/dev/null
for arch in {' '.join(ARCHES)}; do
	staff=STAFF_$arch halves=HALVES_$arch
	[ "$(cat ../build-$arch.status)" != 0 ] || STAFF=${{!staff}} \
		/usr/bin/python3 -m grading.seeds $arch .. "$SEEDS" --lab $LAB ${{!halves}} &
done
wait
{CPU} >../graded.cpu
"""


def tree_at(source: Path, at: Path) -> Path:
    """A copy of the class's tree."""
    shutil.copytree(source, at, symlinks=True, ignore=lambda path, names: ["qemu-10"]
                    if path == str(source / "build") else [])
    (at / "build/qemu-10").symlink_to(
        (source / "build/qemu-10").resolve()) if (source / "build/qemu-10").exists() else None
    return at


def run(job: dict[str, Any], folder: Path) -> walls.Ended:
    """Build and grade in this folder. What is written lies there. Raises NoWalls if this machine
    cannot build what was handed out."""
    source, lab, files = Path(job["tree"]), job["lab"], {name: base64.b64decode(data)
                                                         for name, data in job["files"].items()}
    at, qemu = tree_at(source, folder / "tree"), os.path.abspath(
        os.environ["QEMU_DIR"]) if os.environ.get("QEMU_DIR") else ""
    for name, new in files.items():
        if new != (at / name).read_bytes():
            (at / name).write_bytes(new)
    settings = {"SEEDS": " ".join(job["seeds"]),
                "LAB": str(lab), "FILES": " ".join(tree.written(lab)), "QEMU_EXTRA": QEMU_SANDBOX,
                **({"QEMU_DIR": qemu} if qemu else {})}
    for arch in ARCHES:
        staffed = tree.staffed(source, lab, files, arch)
        settings |= {f"MAKE_{arch}": " ".join(tree.make(lab, arch, staffed)),
                     f"TESTS_{arch}": " ".join(tree.make_tests(lab, arch, staffed)),
                     f"STAFF_{arch}": tree.staff(lab, staffed),
                     f"HALVES_{arch}": " ".join(f"--staff={half}" for half in staffed)}

    def within(script: str, where: Path, **more: str) -> walls.Ended:
        return walls.run(["/bin/bash", "-c", script], [UNPACKED.resolve(), *filter(None, [qemu])],
                         LIMITS, walls.SUBMISSION, writes=[folder], at=where,
                         settings=settings | more)

    ended = within(BUILD_EACH, at)
    if not ended.over and failed(folder):
        if full := disk.lacks(folder, size=ROOM):
            raise NoWalls(full)
        said = [*failed(folder).values()]
        handed_out = tree_at(source, folder / "handed-out")
        for name in tree.written(lab):
            os.utime(handed_out / name)
        within(BUILD_EACH, handed_out,
               **{f"MAKE_{arch}": " ".join(tree.make(lab, arch)) for arch in ARCHES})
        if failed(folder):
            raise NoWalls("what was handed out does not build here, either:\n" +
                          "\n".join([*failed(folder).values(), *said])[-2000:])
        ended = within(BUILD_EACH, at)
        if failed(folder) and (full := disk.lacks(folder, size=ROOM)):
            raise NoWalls(full)
    return ended if ended.over else within(GRADE_EACH, at)


def running(out: Path) -> list[int]:
    """The processes of jobs in OUT: those that grade a submission, which remove its folder at the
    end, and those within the sandbox."""
    out, found = out.resolve(), []
    mark = f"{out}/tmp/job-".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
            words = line.split(b"\0")
            grades = words[words.index(JOB) + 1] if JOB in words[:-1] else b""
            if mark in line or grades and (process / "cwd" / os.fsdecode(grades)).resolve() == out:
                found.append(int(process.name))
        except OSError:
            pass  # it has just ended
    return found


def await_ends(out: Path, seconds: float) -> None:
    """Wait until the jobs of an earlier run in OUT have ended, which may have lost its parallel
    just now. Raises NoWalls if they go on for so long."""
    until = time.monotonic() + seconds
    while found := running(out):
        if time.monotonic() > until:
            raise NoWalls(f"process {found[0]} of an earlier run's job does not end")
        time.sleep(0.1)


def failed(folder: Path) -> dict[str, str]:
    """What each build printed that failed, by architecture."""
    return {arch: text(folder / f"build-{arch}.txt") for arch in ARCHES
            if text(folder / f"build-{arch}.status", 10).strip() != "0"}


# ---- what came of it -----------------------------------------------------------------

def clean(text: str) -> str:
    """Text of a student's: no control characters but the end of a line and the tab."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def cleaned(value: Any) -> Any:
    """The same, with every text in it clean."""
    if isinstance(value, dict):
        return {clean(name): cleaned(of) for name, of in value.items()}
    return [cleaned(of) for of in value] if isinstance(
        value, list) else clean(value) if isinstance(value, str) else value


def text(path: Path, longest: int = LONGEST_TEXT) -> str:
    """What a file of a run holds, as it may be shown: its beginning and its end, if it is long."""
    if path.is_symlink() or not path.is_file():
        return ""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        data = file.read(longest if size <= longest else longest // 2)
        if size > longest:
            file.seek(size - longest // 2)
            data += f"\n... ({size - longest} bytes are left out) ...\n".encode() + file.read()
    return clean(data.decode(errors="replace").replace("\r\n", "\n"))


def number(path: Path) -> float:
    try:
        return float(text(path, 100))
    except ValueError:
        return 0.0


def attempt(folder: Path, number: int, seed: str, built: list[str]) -> dict[str, Any]:
    """The result of one seed: the entries of grade.json for the architectures that were built, or
    why there are none."""
    grades, said, harness = [], list[str](), False
    for at in (folder / f"attempt-{number}-{arch}" for arch in built):
        status, printed = text(at.with_suffix(".status"), 10).strip(), text(at.with_suffix(".txt"))
        of_arch = cleaned(json.loads((at / "grade.json").read_text())["grades"]) if status in (
            "0", "1", "3") and (at / "grade.json").is_file() else []
        harness |= status == "3" or not of_arch and not (status == "2" and printed.startswith(
            BUILD)) and not (status == "1" and printed.startswith("fail: "))
        # where write() puts it
        said.append(
            re.sub(rf"^log: \S*/{at.name}/grade/", f"log: attempt-{number}/", printed, flags=re.M))
        for grade in of_arch:
            for boot in grade["boots"]:
                boot["log"] = f"attempt-{number}/{Path(boot['log']).name}"
            grade.pop("replay")
            grades.append(grade)
    return {"seed": seed, "state": HARNESS if harness else GRADED if grades else BUILD,
            "points": None if harness else sum(g["points"] for g in grades),
            "printed": "\n".join(said), "grades": grades}


def together(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By architecture, each rung with what each seed says of it. A rung counts if it was reached
    with every seed."""
    arches = []
    for graded in ([g for a in attempts for g in a["grades"] if g["arch"] == arch]
                   for arch in ARCHES):
        if not graded or len(graded) < len(attempts):
            continue
        rungs = []
        for rung in zip(*(g["rungs"] for g in graded)):
            points = [r["points"] for r in rung]
            rungs.append(
                {"name": rung[0]["name"], "promise": rung[0]["promise"], "points": min(points),
                 "possible": rung[0]["possible"],
                 "reached": [p == r["possible"] for p, r in zip(points, rung)],
                 "why": [next((why for why in r["boots"].values() if why), "") for r in rung],
                 "cause": any(r["cause"] for r in rung),
                 "mistakes": sorted({page for r in rung for page in r["mistakes"].values()})})
        arches.append({"arch": graded[0]["arch"], "verdicts": [g["verdict"] for g in graded],
                       "points": sum(r["points"] for r in rungs),
                       "possible": sum(r["possible"] for r in rungs), "rungs": rungs})
    return arches


def without_grade(key: str, lab: int, possible: int, state: str, said: str) -> dict[str, Any]:
    """The result of what was not graded. An error of the harness is no score."""
    return {"format": FORMAT,
            "key": key, "lab": lab, "state": state, "points": None if state == HARNESS else 0,
            "possible": possible, "flaky": False, "said": said, "arches": [], "attempts": [],
            "cost": {"processor": 0, "build": 0, "attempts": [], "seconds": 0}}


def result(job: dict[str, Any], folder: Path, ended: walls.Ended) -> dict[str, Any]:
    unbuilt, about = failed(folder), (job["key"], job["lab"], job["possible"])
    said = "\n".join(dict.fromkeys(unbuilt.values()))
    if ended.over:
        return without_grade(*about, OVER, ended.over)
    if ended.status is None or not (folder / "build.cpu").exists():
        return without_grade(*about, HARNESS, clean(ended.errors.decode(errors="replace"))[-2000:])
    if len(unbuilt) == len(ARCHES):
        return without_grade(*about, BUILD, said)
    whole = without_grade(*about, GRADED, "")
    attempts = [attempt(folder, n, seed, [arch for arch in ARCHES if arch not in unbuilt])
                for n, seed in enumerate(job["seeds"], 1)]
    whole.update(attempts=attempts, said=said)
    if any(a["state"] == HARNESS for a in attempts):
        return {**whole, "state": HARNESS, "points": None,
                "said": next(a["printed"][-2000:] for a in attempts if a["state"] == HARNESS)}
    if any(a["state"] == BUILD for a in attempts):
        return {**whole, "state": BUILD,
                "said": next(a["printed"] for a in attempts if a["state"] == BUILD)}
    arches = together(attempts)
    for arch in (arch for arch in ARCHES
                 if arch not in unbuilt and arch not in {of["arch"] for of in arches}):
        n = next(n for n, a in enumerate(attempts, 1)
                 if arch not in {grade["arch"] for grade in a["grades"]})
        whole["said"] += f"{arch}: " + text(folder / f"attempt-{n}-{arch}.txt")
    flaky = any(len(set(rung["reached"])) > 1 for arch in arches for rung in arch["rungs"])
    return {**whole, "arches": arches, "points": sum(arch["points"] for arch in arches),
            "flaky": flaky}


def write_whole(path: Path, text: str) -> None:
    """Replace a file: after a power cut it has the old text or the new one."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text)
    on_disk(new)
    os.replace(new, path)


def on_disk(*paths: Path) -> None:
    """What these files and folders hold now outlives a power cut."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.close(file)


def write(out: Path, key: str, whole: dict[str, Any], folder: Path | None = None) -> None:
    """Write OUT/graded/KEY, at once."""
    (out / "graded").mkdir(exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{key[:16]}-", dir=out / "graded"))
    try:
        _fill(new, whole, folder)
    except OSError:
        shutil.rmtree(new, ignore_errors=True)
        raise
    # of an attempt in which the harness failed
    shutil.rmtree(out / "graded" / key, ignore_errors=True)
    new.rename(out / "graded" / key)


def _fill(new: Path, whole: dict[str, Any], folder: Path | None) -> None:
    new.chmod(0o755)
    for n, graded in enumerate(whole["attempts"], 1):
        (new / f"attempt-{n}").mkdir()
        for grade in graded["grades"]:
            for boot in grade["boots"]:
                assert folder
                (new / boot["log"]).write_text(
                    text(folder / f"attempt-{n}-{grade['arch']}/grade" / Path(boot["log"]).name,
                         LONGEST_LOG))
    if whole["attempts"]:
        assert folder
        (new / tree.OPERATIONS).write_text(text(folder / "operations.txt", LONGEST_LOG))
    (new / "result.json").write_text(json.dumps(whole, indent=1) + "\n")
    on_disk(*new.rglob("*"), new)


def main() -> int:
    parser = argparse.ArgumentParser(prog="grading.classroom.one", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of grade-class")
    parser.add_argument("key", metavar="KEY", help="a line of OUT/todo/keys")
    parser.add_argument("tree", nargs="?", metavar="TREE", help="on a worker: the class's tree")
    options = parser.parse_args()
    return disk.ended(lambda: grade(options), options.key, 1, options.out)


def grade(options: argparse.Namespace) -> int:
    out, key, began = options.out, options.key, time.monotonic()
    try:
        job = json.loads((out / "todo" / f"{key}.json").read_text())
    except OSError as why:
        print(f"KEY={key} is not to be graded: there is no {why.filename}", file=sys.stderr)
        return 1
    job.update(tree=os.path.abspath(options.tree)) if options.tree else None
    with tempfile.TemporaryDirectory(prefix="job-", dir=out / "tmp") as scratch:
        folder = Path(scratch).resolve()
        try:
            ended = run(job, folder)
            whole = result(job, folder, ended)
        # whatever it is, the class has a result that says so
        except Exception as why:  # pylint: disable=broad-except
            ended = walls.Ended(None, b"", b"")
            said = str(why) if isinstance(
                why, NoWalls) else disk.why(why, folder) or clean(traceback.format_exc())[-2000:]
            whole = without_grade(key, job["lab"], job["possible"], HARNESS, said)
        cpu = [round(sum(number(folder / f"attempt-{n}-{arch}.cpu") for arch in ARCHES), 2)
               for n in range(1, len(job["seeds"]) + 1)]
        build, graded = number(folder / "build.cpu"), number(folder / "graded.cpu")
        whole["cost"] = {"processor": round(build + graded, 2), "build": build,
                         "attempts": cpu, "seconds": round(time.monotonic() - began, 1),
                         "memory": ended.memory >> 20}
        write(out, key, whole, folder)
    if options.tree:
        shutil.make_archive(str(out / key), "tar", out / "graded", key)
        shutil.rmtree(out / "graded" / key)
    points = "no score"
    if whole["points"] is not None:
        points = f"{whole['points']} of {whole['possible']} points"
    print(f"{job['students']}: {whole['state']}{', flaky' if whole['flaky'] else ''}, {points}, "
          f"{whole['cost']['processor']} s of a processor", flush=True)
    return 1 if whole["state"] == HARNESS else 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

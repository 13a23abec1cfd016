"""Grades one submission: builds it in a copy of the class's tree and grades it with each seed, all in a sandbox (box.py).

    python3 -m grading.classroom.one OUT KEY [TREE]

reads OUT/todo/KEY.json (__main__.py wrote it) and makes OUT/graded/KEY/: result.json (its form is result.schema.json), what was printed, and the
consoles' logs. It appears whole or not at all. On a worker (workers.py) TREE is the worker's copy of the class's tree, and the folder is packed into OUT/KEY.tar. Only this process writes it, after all that ran in the sandbox has ended. Exits with 1 if the
harness failed, which is no score: then another attempt may succeed.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from grading.classroom import box, tree
from grading.machine.machine import ended_by_signals
from qemu.emulator import UNPACKED
from qemu.machine import ARCHES

FORMAT = 1
GRADED, BUILD, REFUSED, NOTHING, HARNESS = "graded", "build failure", "refused", "nothing handed in", "harness error"
LIMITS = box.Limits(seconds=3 * 3600, file=256 << 20)
LONGEST_TEXT = 64 << 10  # bytes that are kept of what a build or a grade printed
LONGEST_LOG = 1 << 20  # of a console's log: its beginning and its end
OURS = re.compile(r"No space left on device|Cannot allocate memory|Resource temporarily unavailable|is not installed|sandbox cannot be made|Read-only file system")
SCRIPT = r"""
cpu() { awk '{print ($14 + $15 + $16 + $17) / 100}' /proc/$$/stat; }
"$@" >../build.txt 2>&1
echo $? >../build.status
cpu >../build.cpu
[ "$(cat ../build.status)" = 0 ] || exit
(""" + tree.LIST_OPERATIONS + r""") >../operations.txt 2>/dev/null
n=0
for seed in $SEEDS; do
	n=$((n + 1))
	/usr/bin/python3 -m grading --lab $LAB $HALVES --seed $seed --out ../attempt-$n >../attempt-$n.txt 2>&1
	echo $? >../attempt-$n.status
	cpu >../attempt-$n.cpu
done
"""


def run(job: dict[str, Any], folder: Path) -> box.Came:
    """Build and grade in this folder. What is written lies there."""
    source, at = Path(job["tree"]), folder / "tree"
    shutil.copytree(source, at, symlinks=True, ignore=lambda path, names: ["qemu-10"] if path == str(source / "build") else [])
    (at / "build/qemu-10").symlink_to((source / "build/qemu-10").resolve()) if (source / "build/qemu-10").exists() else None
    for name, data in job["files"].items():
        new = base64.b64decode(data)
        if new != (at / name).read_bytes():
            (at / name).write_bytes(new)
    halves = [f"--staff={half}" for half in tree.waiting(source, job["lab"], {name: base64.b64decode(data) for name, data in job["files"].items()})]
    settings = {"SEEDS": " ".join(job["seeds"]), "LAB": str(job["lab"]), "FILES": " ".join(tree.written(job["lab"])), "HALVES": " ".join(halves), "QEMU_EXTRA": box.QEMU_SANDBOX,
                **({"STAFF": tree.staff(job["lab"])} if job["lab"] > 1 else {}),
                **({"QEMU_DIR": os.environ["QEMU_DIR"]} if "QEMU_DIR" in os.environ else {})}
    return box.run(["/bin/bash", "-c", SCRIPT, "sh", *tree.make(at, job["lab"])], [UNPACKED.resolve(), *([os.environ["QEMU_DIR"]] if "QEMU_DIR" in os.environ else [])],
                   [folder], limits=LIMITS, at=at, settings=settings)


# ---- what came of it -----------------------------------------------------------------

def clean(text: str) -> str:
    """Text of a student's: no control characters but the end of a line and the tab."""
    return "".join(c if c in "\n\t" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def cleaned(value: Any) -> Any:
    """The same, with every text in it clean."""
    if isinstance(value, dict):
        return {clean(name): cleaned(of) for name, of in value.items()}
    return [cleaned(of) for of in value] if isinstance(value, list) else clean(value) if isinstance(value, str) else value


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


def attempt(folder: Path, n: int, seed: str) -> dict[str, Any]:
    """The result of one seed: the entries of grade.json, or why there are none."""
    status, printed = text(folder / f"attempt-{n}.status", 10).strip(), text(folder / f"attempt-{n}.txt")
    grades = []
    if status in ("0", "1", "3") and (folder / f"attempt-{n}/grade.json").is_file():
        grades = cleaned(json.loads((folder / f"attempt-{n}/grade.json").read_text())["grades"])
    failed = status == "3" or not grades and not (status == "2" and printed.startswith(BUILD)) and not (status == "1" and printed.startswith("fail: "))
    state = HARNESS if failed else GRADED if grades else BUILD
    for grade in grades:
        for boot in grade["boots"]:
            boot["log"] = f"attempt-{n}/{Path(boot['log']).name}"
        grade.pop("replay")
    return {"seed": seed, "state": state, "points": None if failed else sum(g["points"] for g in grades), "printed": printed, "grades": grades}


def together(attempts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By architecture, each rung with what each seed says of it. A rung counts if it was reached with every seed."""
    arches = []
    for graded in zip(*(a["grades"] for a in attempts)):
        rungs = []
        for rung in zip(*(g["rungs"] for g in graded)):
            points = [r["points"] for r in rung]
            rungs.append({"name": rung[0]["name"], "promise": rung[0]["promise"], "points": min(points), "possible": rung[0]["possible"],
                          "reached": [p == r["possible"] for p, r in zip(points, rung)],
                          "why": [next((why for why in r["boots"].values() if why), "") for r in rung],
                          "mistakes": sorted({page for r in rung for page in r["mistakes"].values()})})
        arches.append({"arch": graded[0]["arch"], "verdicts": [g["verdict"] for g in graded], "points": sum(r["points"] for r in rungs),
                       "possible": sum(r["possible"] for r in rungs), "rungs": rungs})
    return arches


def result(job: dict[str, Any], folder: Path, ended: box.Came) -> dict[str, Any]:
    built, said = text(folder / "build.status", 10).strip(), text(folder / "build.txt")
    whole: dict[str, Any] = {"format": FORMAT, "key": job["key"], "lab": job["lab"], "state": GRADED, "points": 0, "possible": job["possible"], "flaky": False,
                             "said": "", "arches": [], "attempts": []}
    if built not in ("", "0"):
        return {**whole, "state": HARNESS if OURS.search(said) else BUILD, "points": None if OURS.search(said) else 0, "said": said}
    attempts = [attempt(folder, n, seed) for n, seed in enumerate(job["seeds"], 1)]
    whole.update(attempts=attempts)
    if ended.status is None or built == "" or any(a["state"] == HARNESS for a in attempts):
        over = ended.over or clean(ended.errors.decode(errors="replace"))[-2000:]
        return {**whole, "state": HARNESS, "points": None, "said": over or next((a["printed"][-2000:] for a in attempts if a["state"] == HARNESS), "")}
    if any(a["state"] == BUILD for a in attempts):
        return {**whole, "state": BUILD, "said": attempts[0]["printed"]}
    arches = together(attempts)
    flaky = any(len(set(rung["reached"])) > 1 for arch in arches for rung in arch["rungs"])
    return {**whole, "arches": arches, "points": sum(arch["points"] for arch in arches), "flaky": flaky}


def write(out: Path, key: str, whole: dict[str, Any], folder: Path | None = None) -> None:
    """Write OUT/graded/KEY, at once."""
    (out / "graded").mkdir(exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{key[:16]}-", dir=out / "graded"))
    new.chmod(0o755)
    for n, graded in enumerate(whole["attempts"], 1):
        (new / f"attempt-{n}").mkdir()
        for boot in (boot for grade in graded["grades"] for boot in grade["boots"]):
            assert folder
            (new / boot["log"]).write_text(text(folder / f"attempt-{n}/grade" / Path(boot["log"]).name, LONGEST_LOG))
    if whole["attempts"]:
        assert folder
        (new / tree.OPERATIONS).write_text(text(folder / "operations.txt", LONGEST_LOG))
    (new / "result.json").write_text(json.dumps(whole, indent=1) + "\n")
    with (new / "result.json").open() as file:
        os.fsync(file.fileno())
    shutil.rmtree(out / "graded" / key, ignore_errors=True)  # of an attempt in which the harness failed
    new.rename(out / "graded" / key)


def main() -> int:
    out, key = Path(sys.argv[1]), sys.argv[2]
    job, began = json.loads((out / "todo" / f"{key}.json").read_text()), time.monotonic()
    job.update(tree=os.path.abspath(sys.argv[3])) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory(prefix="job-", dir=out / "tmp") as scratch:
        folder = Path(scratch).resolve()
        try:
            ended = run(job, folder)
            whole = result(job, folder, ended)
        except box.NoWalls as why:
            ended = box.Came(None, b"", b"")
            whole = {"format": FORMAT, "key": key, "lab": job["lab"], "state": HARNESS, "points": None, "possible": job["possible"], "flaky": False,
                     "said": str(why), "arches": [], "attempts": []}
        cpu = [number(folder / f"{name}.cpu") for name in ("build", *(f"attempt-{n}" for n in range(1, len(job["seeds"]) + 1)))]
        whole["cost"] = {"processor": max(cpu), "build": cpu[0], "attempts": [round(max(0.0, b - a), 2) for a, b in zip(cpu, cpu[1:])],
                         "seconds": round(time.monotonic() - began, 1), "memory": ended.memory >> 20}
        write(out, key, whole, folder)
    if len(sys.argv) > 3:
        shutil.make_archive(str(out / key), "tar", out / "graded", key)
        shutil.rmtree(out / "graded" / key)
    points = f"{whole['points']} of {whole['possible']} points" if whole["points"] is not None else "no score"
    print(f"{job['students']}: {whole['state']}{', flaky' if whole['flaky'] else ''}, {points}, {whole['cost']['processor']} s", flush=True)
    return 1 if whole["state"] == HARNESS else 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

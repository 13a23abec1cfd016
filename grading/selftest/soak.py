"""`make soak-grade`: grades the solutions again and again, each time with another seed. None may
lose a point.

A third of the grades runs beside eight busy processes. All seeds follow from one number, which is
printed. Each result is written to build/soak-grade/log.jsonl, and the same command continues from
there as long as the sources are the same.

With --schedules, a part of `make soak`, every schedule of every change is played instead, and none
may fail.
"""

import argparse
import hashlib
import json
import secrets
import shutil
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grading import ROOMS
from grading.checks import rubric
from grading.machine.machine import ended_by_signals
from grading.session.session import BUDGET
from qemu.machine import ARCHES, ROOT, WITH_US

FOLDER = ROOT / "build/soak-grade"
BUSY = 8
# a boot with every schedule may execute this many times the instructions of a graded boot
MANY = 10
FULL = "full marks"
Line = dict[str, Any]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading.selftest.soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=24, help="grades, with those that the log has")
    parser.add_argument("--lab", type=int, nargs="+", choices=sorted(rubric.LABS),
                        default=sorted(rubric.LABS))
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--jobs", type=int, default=1, help="so many grades at the same time")
    parser.add_argument(
        "--seed",
        help="the number that all seeds follow from; default: that of the log, or a new one")
    parser.add_argument("--schedules", action="store_true",
                        help="play every schedule of these labs once")
    return parser.parse_args()


def build(labs: list[int], arches: list[str]) -> str:
    """Build each lab's kernels in a folder of their own. Returns a digest of them and of the
    harness."""
    for lab in labs:
        subprocess.run(["make", "-s", "-C", ROOT, f"LAB={lab}",
                        *(f"build/{arch}/{name}" for arch in arches
                          for name in ("initrd.cpio", f"lab{lab}/Image")),
                        *(f"build/host/{name}" for name in rubric.lab(lab).tests(*arches))],
                       check=True)
        (FOLDER / f"lab{lab}").mkdir(parents=True, exist_ok=True)
        for name, built in [("host", "host"), *((arch, f"{arch}/lab{lab}") for arch in arches)]:
            subprocess.run(["ln", "-sfn", ROOT / "build" / built, FOLDER / f"lab{lab}/{name}"],
                           check=True)
    return digest([*harness(), *FOLDER.glob("lab*/*/Image")])


def harness() -> list[Path]:
    """The files on which a grade depends, without those of the kernel."""
    rooms = [file for room in ROOMS for file in ROOT.glob(f"grading/{room}/*.py")]
    return [*ROOT.glob("grading/*.py"), *rooms, *ROOT.glob("qemu/*.[cp]*"),
            *ROOT.glob("labs/*/*.py")]


def digest(files: list[Path]) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in sorted(files)
                                   if file.is_file())).hexdigest()


def begun(log: Path, about: Line) -> list[Line]:
    """The lines of the log; the first says what it is about. If it is about something else, a new
    log is begun."""
    lines = [json.loads(line) for line in log.read_text().splitlines(True)
             if line.endswith("\n")] if log.exists() else []
    if not lines or {**about, "seed": about["seed"] or lines[0]["seed"]} != lines[0]:
        lines = [{**about, "seed": about["seed"] or f"{secrets.randbits(64):016x}"}]
    # drops an incomplete last line
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"seed {lines[0]['seed']}, {len(lines) - 1} grades in {log}", flush=True)
    return lines


def wanted(about: Line, number: int) -> Line:
    """The n-th grade: every lab and architecture in turn; after two rounds of them there is one
    beside busy processes."""
    cells = [(lab, arch) for lab in about["lab"] for arch in about["arch"]]
    again, nth = divmod(number, len(cells))
    seed = hashlib.sha256(f"{about['seed']} {number}".encode()).hexdigest()[:16]
    return {"number": number, "lab": cells[nth][0], "arch": cells[nth][1], "seed": seed,
            "busy": again % 3 == 2}


class Busy:
    """Busy processes that load the host while a grade wants them; several grades share them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted = 0
        self._processes: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def beside(self, wanted: bool) -> Iterator[None]:
        self._change(wanted)
        try:
            yield
        finally:
            self._change(-wanted)

    def _change(self, by: int) -> None:
        with self._lock:
            self._wanted += by
            if self._wanted and not self._processes:
                self._processes = [subprocess.Popen([*WITH_US, sys.executable, "-c",
                                                     "while True: pass"]) for _ in range(BUSY)]
            while self._processes and not self._wanted:
                self._processes[-1].kill()
                self._processes.pop().wait()


def grade(one: Line, out: Path, busy: Busy) -> str:
    """Run one grade. Returns its result in one line."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    command = [*WITH_US, sys.executable, "-m", "grading", "--lab", str(one["lab"]), "--arch",
               one["arch"], "--seed", one["seed"], "--kernels", str(FOLDER / f"lab{one['lab']}"),
               "--out", str(out)]
    if "schedule" in one:
        command += ["--schedule", one["schedule"], "--budget", str(MANY * BUDGET)]
    with (out / "output").open("w") as output, busy.beside(one["busy"]):
        subprocess.run(command, stdout=output, stderr=output, cwd=ROOT, check=False)
    return result_of(json.loads((out / "grade.json").read_text())["grades"][0]) if (
        out / "grade.json").exists() else "harness error: no grade"


def result_of(graded: Line) -> str:
    """The result in one line: full marks, or the first thing that is wrong."""
    boots = [f"{boot['verdict']}: {boot['why']}" for boot in graded["boots"] if boot["why"]]
    lost = [f"{rung['name']}: {why}" for rung in graded["rungs"] for why in rung["boots"].values()
            if why]
    return next(
        (f"{graded['points']} of {graded['possible']} points: {why}" for why in boots + lost), FULL)


def summary(lines: list[Line]) -> int:
    counts = Counter((line["lab"], line["arch"], line["result"] == FULL) for line in lines)
    for lab, arch in sorted({(line["lab"], line["arch"]) for line in lines}):
        print(f"lab {lab} {arch:8} {counts[lab, arch, True]:5} full marks "
              f"{counts[lab, arch, False]:5} not")
    wrong = [line for line in lines if line["result"] != FULL]
    for line in wrong:
        print(f"{FOLDER}/{line['number']}: "
              f"{line['result']}{', beside busy processes' if line['busy'] else ''}\n  make grade "
              f"LAB={line['lab']} ARCH={line['arch']} REPLAY={line['seed']}")
    print(f"{len(lines)} grades, {sum(line['busy'] for line in lines)} beside busy processes: "
          f"{len(wrong)} without full marks")
    return 1 if wrong else 0


def play(options: argparse.Namespace) -> int:
    """Run one boot for each change with all its schedules. Every schedule must be played, and none
    may fail."""
    build(options.lab, options.arch)
    ones = [{"lab": lab, "arch": arch, "change": change.name, "schedule": f"{change.name}:*",
             "seed": "0", "busy": False} for lab in options.lab for arch in options.arch
            for change in rubric.lab(lab).schedules]

    def played(one: Line) -> Line:
        out = FOLDER / f"{one['lab']}-{one['arch']}-{one['change']}"
        one["result"] = grade(one, out, Busy())
        told = out / "grade.json"
        boots = json.loads(told.read_text())["grades"][0]["boots"] if told.exists() else []
        schedules = boots[0]["schedules"] if boots else {}
        one["played"], one["all"] = schedules.get(one["change"], [0, 0])
        return one

    with ThreadPoolExecutor(options.jobs) as pool:
        for one in pool.map(played, ones):
            print(f"lab {one['lab']} {one['arch']:8} {one['change']:16} {one['played']:4} of "
                  f"{one['all']:4} schedules: {one['result']}", flush=True)
    wrong = [one for one in ones if one["result"] != FULL or not one["played"] == one["all"] > 0]
    print(f"{sum(one['played'] for one in ones)} schedules of {len(ones)} changes were played: "
          f"{len(wrong)} changes without full marks")
    return 1 if wrong or not ones else 0


def main() -> int:
    options, log = arguments(), FOLDER / "log.jsonl"
    if options.schedules:
        return play(options)
    lines = begun(log, {"made_of": build(options.lab, options.arch),
                        **{n: vars(options)[n] for n in ("seed", "lab", "arch")}})
    busy = Busy()

    def graded(number: int) -> Line:
        one = wanted(lines[0], number)
        return {**one, "result": grade(one, FOLDER / str(number), busy)}

    with ThreadPoolExecutor(options.jobs) as pool:
        # in this order, so that the log has no gaps
        for one in pool.map(graded, range(len(lines) - 1, options.count)):
            lines.append(one)
            with log.open("a") as file:
                print(json.dumps(one), file=file)
            print(*(f"{name} {value}" for name, value in one.items()), sep=", ", flush=True)
            if one["result"] == FULL:
                shutil.rmtree(FOLDER / str(one["number"]))
    return summary(lines[1:])


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

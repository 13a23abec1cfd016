"""Lines of code by cloc, beside what DESIGN.md allows: `make sizes`.

Tests and generated files are not counted; of a student's file the solution is. cloc leaves out
blanks and comments. A line that is wider than 100 columns counts as two. Ends with 1 if a part is
over its limit.
"""
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from grading.checks import rubric  # noqa: E402
from qemu.machine import ARCHES  # noqa: E402

WIDTH = 100
# the labs for which DESIGN.md has a limit; the later ones are about modules and probes
TRACER_LABS = range(1, 7)


def handed_in(labs: Iterable[int]) -> set[str]:
    return {
        name.replace("<arch>", arch)
        for lab in labs for name in rubric.lab(lab).files for arch in ARCHES
    }


def inside(*folders: str, but: tuple[str, ...] = ()) -> Callable[[str], bool]:
    """But for make files, which have a limit of their own."""
    return lambda f: f.startswith(folders) and not f.startswith(but) and not f.endswith(".mk")


FETCH = tuple(f"kern/ftrace/{arch}/fetch.h" for arch in ARCHES)
# What the static events have in another room.
EVENTS = ("kern/ftrace/events/", "kern/base/tracepoint.", *FETCH)
# What is only there for modules and probes, though another room or an architecture has it.
MODULES = ("kern/ftrace/modules/", "kern/ftrace/filters/mod_filter", "kern/module.h",
           "kern/loader/", "kern/ftrace/probes/", "kern/breakpoint.h",
           *(f"kern/{file}" for arch in ARCHES
             for file in (f"arch/{arch}/reloc.", f"ftrace/{arch}/trampoline.c",
                          f"ftrace/{arch}/probe.h")))
# DESIGN.md's limits come from counts in which a line had any width. Here a line has 100 columns.
# The counts of commit 6b61a536, first as it was, then formatted at 100 columns (black,
# clang-format):
#
#   kern/ftrace  6,407   6,543    build tools           966   1,143    grading, qemu  13,452  19,620
#   kern         7,361   7,486    modules, probes     4,287   4,520    events         2,669   2,839
#
# So six limits differ from DESIGN.md's. These are above them, and each is in use: the check of the
# rooms' directions, the tables of the tracer's proof, events that survive a reset, the interrupt
# controllers of boards, and the profiler. A limit has room for a correction, and none for a new
# mechanism. Two are above their first value for what a user of ftrace on Linux types: snapshots
# (90 lines in ring/ and trace/, 130 in events/), threads chosen by their pids (30, 160), events
# that a function switches (80 in events/), the buffers in a panic's report (20, 65), and in files/
# and trace/ the CPUs that are recorded, one CPU's buffer size, tracing_thresh, pause-on-trace,
# markers and saved_cmdlines (110), instances whose buffers come at their first use (20), the
# latency tracers (390 in events/; 60 in trace/, files/ and ring/; 50 in kern/: the functions that
# mask interrupts in their sight). The
# shell's was 1,500, until it got pipes and lists: pipe.c and pipe.h have 102 lines, `<`, `&&`,
# `||`, $? and $! about 110, and `ps`, 75 lines, has become a program. Globs are 60 lines in the
# shell; their matching, 50 lines, has moved from kern/ftrace to kern/base. Filters of groups, the
# errors of t:, e: and s: lines and printk_formats are 52 lines in events/, ftrace_enabled and
# groups in tracing_cpumask 10 in files/, /proc/cmdline and the second path of tracefs 20 in kern/.
PARTS: list[tuple[str, int | None, Callable[[str], bool]]] = [
    (f"what students write in labs 1 to {TRACER_LABS[-1]}", 2000,
     lambda f: f in handed_in(TRACER_LABS)),
    (f"in labs {TRACER_LABS[-1] + 1} and {max(rubric.LABS)}", 600,
     lambda f: f in handed_in(rubric.LABS) - handed_in(TRACER_LABS)),
    ("kern/ftrace/", 7170, inside("kern/ftrace/", but=("kern/ftrace/tools/", *MODULES, *EVENTS))),
    ("loader, modules, probes, live patch", 4700, inside(*MODULES)),
    ("events", 4872, inside(*EVENTS)),
    ("build tools in kern/ftrace/", 1350, inside("kern/ftrace/tools/")),
    ("kern/ without what is named here", 7885,
     inside("kern/", but=("kern/ftrace/", "kern/apps/", "kern/shell/", "kern/samples/", *MODULES,
                          *EVENTS))),
    ("kern/shell/", 1660, inside("kern/shell/")),
    ("grading/ and qemu/", 16000, inside("grading/", "qemu/")),
    ("Makefile", 160, lambda f: f == "Makefile"),
    ("all other make files", 500, lambda f: f.endswith(".mk")),
    ("kern/apps/ and kern/samples/", None, inside("kern/apps/", "kern/samples/")),
    ("boot/", None, lambda f: f.startswith("boot/") and not f.endswith(".mk")),
]


def wide(file: str) -> int:
    """How many of its lines are wider than the 100 columns that a line has: each counts as two."""
    return sum(len(line.expandtabs(8)) > WIDTH for line in Path(file).read_text().splitlines())


def solution(file: str) -> str:
    """Where the file's solution lies: itself, if it holds no other state."""
    text = Path(file).read_text()
    if not file.endswith((".c", ".h", ".S")) or "LAB_START" not in text:
        return file
    resolved = Path("build/sizes", file)
    resolved.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["unifdef", "-ULAB_START", "-o", resolved, file], check=False)
    if done.returncode > 1:
        sys.exit(f"unifdef cannot read {file}")
    return str(resolved)


def main() -> int:
    files = [
        f for f in subprocess.check_output(["git", "ls-files"], text=True).split()
        if f.endswith((".mk",
                       "Makefile")) or f.endswith((".c", ".h", ".S", ".py")) and "/tests/" not in f
    ]
    listing = Path("build/sizes.txt")
    listing.parent.mkdir(exist_ok=True)
    listing.write_text("\n".join(map(solution, files)) + "\n")
    out = subprocess.check_output(
        ["cloc", "--quiet", "--json", "--by-file", f"--list-file={listing}"], text=True)
    counts = {
        f.removeprefix("./").removeprefix("build/sizes/"): v["code"] + wide(f)
        for f, v in json.loads(out).items() if f not in ("header", "SUM")
    }
    over = False
    for name, limit, belongs in PARTS:
        n = sum(code for f, code in counts.items() if belongs(f))
        print(f"{name:35} {n:6,}" + (f" of {limit:6,}" if limit else "") +
              (f"   {n - limit:,} too many" if limit and n > limit else ""))
        over |= limit is not None and n > limit
    return 1 if over else 0


sys.exit(main())

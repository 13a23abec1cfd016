"""Lines of code by cloc, beside what DESIGN.md allows: `make sizes`.

Tests and generated files are not counted; of a student's file the solution is. cloc leaves out blanks and comments.
A part that is over its limit is shown with what the limit did not foresee; without that it must be within it.
"""
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from grading.checks import rubric  # noqa: E402
from qemu.machine import ARCHES  # noqa: E402

TRACER_LABS = range(1, 7)  # the labs for which DESIGN.md has a limit; the later ones are about modules and probes


def handed_in(labs: Iterable[int]) -> set[str]:
    return {name.replace("<arch>", arch) for lab in labs for name in rubric.lab(lab).files for arch in ARCHES}


def inside(*folders: str, but: tuple[str, ...] = ()) -> Callable[[str], bool]:
    return lambda f: f.startswith(folders) and not (but and f.startswith(but))


# What is only there for modules and probes, though a room or an architecture has it.
MODULES = ("kern/ftrace/modules/", "kern/ftrace/filters/mod_filter", "kern/ftrace/riscv64/trampoline.c", "kern/ftrace/arm64/trampoline.c",
           "kern/module.h", "kern/loader/", "kern/arch/riscv64/reloc.", "kern/arch/arm64/reloc.",
           "kern/ftrace/probes/", "kern/ftrace/probe_events/", "kern/ftrace/riscv64/fetch.h", "kern/ftrace/arm64/fetch.h", "kern/ftrace/riscv64/probe.h", "kern/ftrace/arm64/probe.h", "kern/breakpoint.h")
PARTS: list[tuple[str, int | None, Callable[[str], bool]]] = [
    (f"what students write in labs 1 to {TRACER_LABS[-1]}", 2000, lambda f: f in handed_in(TRACER_LABS)),
    (f"in labs {TRACER_LABS[-1] + 1} to {max(rubric.LABS)}", None, lambda f: f in handed_in(rubric.LABS) - handed_in(TRACER_LABS)),
    ("kern/ftrace/", 6000, inside("kern/ftrace/", but=("kern/ftrace/tools/", *MODULES))),
    ("modules, probes, trace events", 2500, inside(*MODULES)),
    ("build tools in kern/ftrace/", 1000, inside("kern/ftrace/tools/")),
    ("kern/ without ftrace, apps, shell", 7000, inside("kern/", but=("kern/ftrace/", "kern/apps/", "kern/shell/", "kern/samples/", *MODULES))),
    ("kern/shell/", 1300, inside("kern/shell/")),
    ("grading/ and qemu/", 6500, inside("grading/", "qemu/")),
    ("kern/apps/ and kern/samples/", None, inside("kern/apps/", "kern/samples/")),
    ("boot/", None, inside("boot/")),
]


# What the limits did not foresee, and has been built since: of a part, what for, and its files.
UNFORESEEN: dict[str, dict[str, Callable[[str], bool]]] = {
    "kern/ftrace/": {
        "only in the kernels of early labs": inside(
            "kern/ftrace/ops/s", "kern/ftrace/graph/fgraph_one.c", "kern/ftrace/graph/graph_walk.c"),
        "events that survive a reset (last_boot=)": inside("kern/ftrace/ring/ring_region", "kern/ftrace/files/last_boot"),
        "the function profiler": inside("kern/ftrace/trace/profile"),
    },
    "modules, probes, trace events": {
        "events by probes: arguments, filters, error_log": inside("kern/ftrace/probe_events/", "kern/ftrace/riscv64/fetch.h", "kern/ftrace/arm64/fetch.h"),
        "the loader, with all relocations of three compilers": inside("kern/module.h", "kern/loader/", "kern/arch/"),
    },
    "kern/ without ftrace, apps, shell": {
        "interrupt controllers of boards: BCM2836, APLIC and IMSIC, GICv2 beside GICv3": inside("kern/arch/arm64/bcm2836", "kern/arch/arm64/irqchip", "kern/arch/riscv64/aia"),
    },
    "kern/shell/": {"frames for a grade over a serial line": inside("kern/shell/framed")},
    "grading/ and qemu/": {
        "a class of untrusted submissions": inside("grading/classroom/", "grading/report/classroom", "grading/seeds"),
        "the grader graded: mutants, wrong solutions, soak": inside("grading/selftest/"),
        "gdb: a replay that stops at the finding, commands": inside("qemu/debug", "grading/report/replay", "grading/machine/gdbstub"),
        "forced interleavings, and the order of stores": inside("grading/machine/hold", "grading/stimulus/schedules", "grading/stimulus/steps", "grading/session/schedule_session",
                                                                  "grading/checks/schedule_checks", "grading/checks/probe_schedules", "grading/checks/order"),
        "labs 7 and 8": inside("grading/checks/module_checks", "grading/session/module_session", "grading/session/probe_session", "grading/elf/module", "grading/truth/probes"),
        "boards: a grade over a serial line": inside("grading/machine/line", "grading/session/line_", "grading/checks/console_checks"),
        "provenance: what an object may define, import and place": inside("grading/elf/handed_in", "grading/elf/link", "grading/elf/names", "grading/elf/halves", "grading/checks/integrity"),
        "what lies beneath, side by side, progress": inside("grading/report/beneath", "grading/report/side_by_side", "grading/report/progress"),
    },
}


def solution(file: str) -> str:
    """Where the file's solution lies: itself, if it holds no other state."""
    text = Path(file).read_text()
    if file.endswith(".py") or "LAB_START" not in text:
        return file
    resolved = Path("build/sizes", file)
    resolved.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["unifdef", "-ULAB_START", "-o", resolved, file], check=False)
    if done.returncode > 1:
        sys.exit(f"unifdef cannot read {file}")
    return str(resolved)


def main() -> int:
    files = [f for f in subprocess.check_output(["git", "ls-files"], text=True).split()
             if (f.endswith((".c", ".h", ".S", ".py"))) and "/tests/" not in f]
    listing = Path("build/sizes.txt")
    listing.parent.mkdir(exist_ok=True)
    listing.write_text("\n".join(map(solution, files)) + "\n")
    out = subprocess.check_output(["cloc", "--quiet", "--json", "--by-file", f"--list-file={listing}"], text=True)
    counts = {f.removeprefix("./").removeprefix("build/sizes/"): v["code"] for f, v in json.loads(out).items() if f not in ("header", "SUM")}
    over = False
    for name, limit, belongs in PARTS:
        n = sum(code for f, code in counts.items() if belongs(f))
        print(f"{name:34} {n:6}" + (f" of {limit:,}" if limit else ""))
        if limit is None or n <= limit:
            continue
        more = {what: sum(code for f, code in counts.items() if belongs(f) and within(f)) for what, within in UNFORESEEN.get(name, {}).items()}
        for what, code in more.items():
            print(f"{'':34} {code:6}    {what}")
        over |= n - sum(more.values()) > limit
    return 1 if over else 0


sys.exit(main())

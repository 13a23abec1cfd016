"""`make grade`: boots the kernels, sends them a seed, judges what they did."""

from __future__ import annotations

import argparse
import secrets
import sys
from pathlib import Path

from rich.console import Console

from grading import report, rubric
from grading.elf import Kernel
from grading.evidence import Evidence
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

EXIT_FAIL, EXIT_HARNESS = 1, 3


def seed_of(text: str) -> int:
    value = int(text, 16)
    if not 0 <= value < 1 << 64:
        raise ValueError
    return value


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading", description=__doc__)
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--lab", type=int, choices=sorted(rubric.LABS), default=max(rubric.LABS))
    parser.add_argument("--seed", type=seed_of, help="16 hexadecimal digits; default: a new one")
    parser.add_argument("--smp", type=int, nargs="+", default=[1, 4], help="boots: with so many CPUs each")
    parser.add_argument("--gdb", action="store_true", help="wait for gdb at port 1234")
    parser.add_argument("--out", type=Path, default=ROOT / "build/grade.json")
    return parser.parse_args()


def boot(kernel: Kernel, smp: int, options: argparse.Namespace, seed: int, console: Console) -> Evidence:
    log = ROOT / f"build/grade/{kernel.arch}-lab{options.lab}-{smp}cpu.log"
    name = f"{kernel.arch}, {smp} CPU{'s' if smp > 1 else ''}"
    with console.status(f"{name}: starting") as status:
        session = rubric.lab(options.lab).session
        return session(kernel, options.lab, smp, seed, log, lambda text: status.update(f"{name}: {text}"), options.gdb).run()


def grade(arch: str, options: argparse.Namespace, seed: int, console: Console) -> report.Grade:
    kernel = Kernel(ROOT / f"build/{arch}/callsite.elf", arch)
    evidence = [boot(kernel, smp, options, seed, console) for smp in options.smp]
    return report.judge(arch, options.lab, seed, evidence)


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 120)
    seed = options.seed if options.seed is not None else secrets.randbits(64)
    missing = [a for a in options.arch if not (ROOT / f"build/{a}/callsite.elf").exists()]
    if missing:
        console.print(f"{Verdict.BUILD.value}: there is no kernel for {', '.join(missing)}; type make")
        return EXIT_HARNESS
    grades = []
    for arch in options.arch:
        grades.append(grade(arch, options, seed, console))
        report.show(grades[-1], console)
    report.write_json(grades, options.out)
    if any(g.harness_error for g in grades):
        console.print("The harness failed; this is no score.")
        return EXIT_HARNESS
    full = all(g.verdict == Verdict.PASS for g in grades)
    total, possible = sum(g.points for g in grades), sum(g.possible for g in grades)
    console.print(f"{total} of {possible} points" + (": full marks." if full else "."))
    return 0 if full else EXIT_FAIL


if __name__ == "__main__":
    sys.exit(main())

"""Measures the processor time of a grade, and of the same boots without the observer: part of `make
bench`.

A grade of one architecture boots with one CPU and with several; then the same lines are typed at
machines without an observer. Other load on the host only makes times longer, so the shortest of
several measurements is shown.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.machine.machine import Run, ended_by_signals
from grading.report import report
from grading.session.session import WORKLOAD_SECONDS, machine_of
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
MUST = {lab: 5.0 if lab >= 6 else 3.0 for lab in rubric.LABS}  # seconds for both boots and judging
RATIO = 2.5


def spent() -> float:
    """Processor seconds of this process and of the child processes that it waited for."""
    return sum(os.times()[:4])


def lines(evidence: Evidence) -> list[str]:
    """The lines that were typed. A background program and all lines up to its `wait` become one
    line: otherwise its output would hide the next prompt."""
    typed = "\n".join(line for _, line in evidence.typed[:-1])
    return typed.replace(" &\n", " & ; ").replace("\nwait\n", " ; wait\n").split("\n")


def typed_again(evidence: Evidence, log: Path) -> None:
    with Run(machine_of(evidence.kernel, evidence.lab, evidence.smp), log) as machine:
        machine.console.wait_ready(WORKLOAD_SECONDS)
        for line in lines(evidence):
            machine.console.command(line, WORKLOAD_SECONDS)
        machine.power_off()


def measure(lab: int, arch: str) -> tuple[float, float]:
    """Processor seconds of a grade, and of its boots without the observer."""
    out, began = ROOT / "build/bench", spent()
    kernel = Kernel(ROOT / f"build/{arch}/lab{lab}/callsite.elf", arch)
    boots = [rubric.boot(kernel, lab, smp, SEED, out) for smp in (1, 4)]
    graded = report.judge(arch, lab, SEED, boots)
    whole = spent() - began
    if graded.points != graded.possible:
        sys.exit(f"lab {lab} on {arch}: {graded.points} of {graded.possible} points; a cost is "
                 "measured of what is right")
    began = spent()
    for e in boots:
        typed_again(e, out / f"{arch}-lab{lab}-{e.smp}cpu-plain.log")
    return whole, spent() - began


def main() -> int:
    parser = argparse.ArgumentParser(prog="grading.selftest.cost", description=__doc__)
    parser.add_argument("--lab", type=int, nargs="+", default=sorted(rubric.LABS))
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    print(
        "a grade of one architecture, processor seconds (must); without the observer; ratio (must)")
    for lab in options.lab:
        images = [f"build/{arch}/lab{lab}/Image" for arch in ARCHES]
        subprocess.run(["make", "-s", "-C", str(ROOT), f"LAB={lab}",
                        *(f"build/{arch}/initrd.cpio" for arch in ARCHES), *images,
                        *(f"build/host/{name}" for name in rubric.lab(lab).tests(*ARCHES))],
                       check=True)
        for arch in ARCHES:
            whole, plain = (min(seconds)
                            for seconds in zip(*(measure(lab, arch) for _ in range(options.times))))
            print(f"  lab {lab} {arch:8} {whole:5.2f} ({MUST[lab]:.0f})  {plain:5.2f}  "
                  f"{whole / plain:4.2f} ({RATIO})", flush=True)
    return 0


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

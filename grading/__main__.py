"""`make grade` and `make submit`: boot the kernels, send them a seed, and judge what they did."""

import argparse
import fcntl
import fnmatch
import functools
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.elf.handed_in import TREE, broken, rules, tree_of
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.line import UBoot, parts_of
from grading.machine.machine import ended_by_signals
from grading.report import progress, replay, report, side_by_side, submit
from grading.report.beneath import as_handed_out, graded_halves, nothing_own
from grading.session.line_session import Place
from grading.session.session import BUDGET
from grading.stimulus.schedules import SCHEDULES
from grading.verdict import Refused, Stopped, Verdict, blamed
from qemu import disk, plugin
from qemu.emulator import Unfit
from qemu.machine import ARCHES, ROOT

EXIT_FAIL, EXIT_USAGE, EXIT_HARNESS = 1, 2, 3
HARNESS_FAILED = "The harness failed; this is no score"
NARROWEST = 80  # columns; a narrower table would cut words
KERNEL_FILES = ("callsite.elf", "callsite.map", "Image", "recordmcount")
SHARED = ("initrd.cpio", "modules")  # of all kernels of an architecture


def seed_of(text: str) -> int:
    if not re.fullmatch(r"(0x)?[0-9a-fA-F]{1,16}", text):
        raise Refused(f"REPLAY={text} is not a seed: a seed has 1 to 16 hexadecimal digits")
    return int(text, 16)


def cpus_of(text: str) -> int:
    numbers = [str(n) for n in (1, *rubric.MANY_CPUS)]
    if text not in numbers:
        raise Refused(f"SMP={text}: a grade boots with {', '.join(numbers[:-1])} or "
                      f"{numbers[-1]} CPUs")
    return int(text)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="grading", description=__doc__)
    parser.add_argument("--arch", nargs="+", choices=ARCHES, default=list(ARCHES))
    parser.add_argument("--lab", type=int, choices=sorted(rubric.LABS), default=max(rubric.LABS))
    parser.add_argument("--seed", help="16 hexadecimal digits; default: a new one")
    parser.add_argument("--smp", nargs="+", help="the number of CPUs of each boot")
    parser.add_argument("--rung", help="grade only this rung, by its number or name")
    parser.add_argument("--schedule", default="", help="play only this schedule")
    parser.add_argument("--again", action="store_true", help="of the schedules, play only those "
                        "that the seed chooses: another seed's grade of this kernel has played the "
                        "others")
    parser.add_argument(
        "--staff", action="append", default=[],
        help="the staff's objects are linked for this half of the lab, which gets no points: 4.2")
    parser.add_argument("--gdb", action="store_true",
                        help="repeat the boot under gdb, up to the point where it goes wrong")
    parser.add_argument("--machine",
                        metavar="serial:DEVICE[@BAUD]|pty:PATH|unix:PATH|telnet:HOST:PORT",
                        help="grade the machine at this line, by its console alone")
    parser.add_argument(
        "--power", default="", help=
        "with --machine: a command that is called with `on` before the boot and with `off` after it"
    )
    parser.add_argument(
        "--uboot", action="append", default=[],
        help="with --machine: a line that is typed at U-Boot's prompt; default: it boots by itself")
    parser.add_argument("--uboot-prompt", default=UBoot().prompt)
    parser.add_argument("--budget", type=int, default=BUDGET,
                        help="the number of instructions that one CPU may execute in a boot")
    parser.add_argument("--submit", action="store_true", help="write the lab's files into one tar")
    parser.add_argument("--kernels", type=Path, default=ROOT / "build",
                        help="the folder that has ARCH/callsite.elf")
    parser.add_argument("--variant", default="", help="the kernels are those in ARCH/VARIANT/ of "
                        "that folder, and what they share is in ARCH/")
    parser.add_argument(
        "--make", metavar="COMMAND", help=
        "the command that builds the kernels; it is run when nothing else speaks against a grade")
    parser.add_argument("--out", type=Path, default=ROOT / "build",
                        help="the folder for grade.json, best.json, logs and the tar")
    return parser.parse_args()


def wanted_rung(options: argparse.Namespace) -> rubric.Rung | None:
    """The rung that --rung names; None if there is no --rung."""
    if options.rung is None:
        return None
    lab = rubric.lab(options.lab)
    rungs = lab.rungs
    judged = [rung for half in lab.judged(options.staff) for rung in half.rungs]
    for number, rung in enumerate(rungs, 1):
        if options.rung in (str(number), rung.name) and rung in judged:
            return rung
        if options.rung in (str(number), rung.name):
            raise Refused(
                f"RUNG={options.rung} cannot be graded. {graded_halves(options.lab, options.staff)}"
            )
    raise Refused(f"RUNG={options.rung} is not a rung of lab {options.lab}. Its rungs are:\n" +
                  "\n".join(f"  {number:2} {rung.name}" for number, rung in enumerate(rungs, 1)))


def wanted_boots(options: argparse.Namespace, rung: rubric.Rung | None) -> list[int]:
    """The boots of --smp; else all boots by which the rung is judged; with --schedule, only the
    boot of the schedules."""
    if options.schedule:
        return [SCHEDULES]
    rungs = [rung] if rung else [rung for half in rubric.lab(options.lab).judged(options.staff)
                                 for rung in half.rungs]
    return options.smp or [boot for boot in rubric.boots(options.lab, options.seed)
                           if any(rung.judges(boot) for rung in rungs)]


@functools.cache
def kernel_in(folder: Path, arch: str) -> Kernel:
    """This architecture's kernel in this folder. It is read once: the processes that grade are
    forked from this one, and inherit what it has read."""
    return Kernel(folder / arch / "callsite.elf", arch)


@dataclass
class ArchResult:
    """The result of the process that grades one architecture."""

    evidence: list[Evidence]
    findings: report.Findings
    # by rung and number of CPUs: the moment at which the finding happens
    moments: dict[tuple[int, int], replay.Moment]


def grade(arch: str, options: argparse.Namespace, rung: rubric.Rung | None,
          say: side_by_side.Say) -> ArchResult:
    kernel = kernel_in(options.kernels, arch)
    if options.machine:
        place = Place(options.machine, UBoot(options.uboot_prompt, tuple(options.uboot)),
                      options.power)
        evidence = [rubric.boot_on_line(kernel, options.lab, options.seed, options.out / "grade",
                                        place, say)]
        return ArchResult([e.summary() for e in evidence],
                          report.findings_of(options.lab, evidence, options.staff), {})
    evidence = [rubric.boot(kernel, options.lab, smp, options.seed, options.out / "grade",
                            lambda text, smp=smp: say(  # type: ignore[misc]
                                f"{report.cpus(smp)}: {text}"),
                            options.budget, options.schedule, options.again)
                for smp in wanted_boots(options, rung)]
    say("judging")
    findings = report.findings_of(options.lab, evidence, options.staff)
    moments = {}
    if options.gdb:
        moments = {(n, e.boot): replay.moment(e, found) for n, by_boot in enumerate(findings)
                   for e in evidence if (found := by_boot.get(e.boot)) and not found.need}
    return ArchResult([e.summary() for e in evidence], findings, moments)


def only(graded: report.Grade, rung: rubric.Rung) -> None:
    """Keep the results of one rung, and of the lost rungs that it needs."""
    names = {rung.name}
    # most need rungs above them, some need one below
    for result in (*reversed(graded.results), *graded.results):
        if result.rung.name in names:
            names |= {f.need for f in result.findings.values() if f and f.need}
    graded.results = [r for r in graded.results if r.rung.name in names]


def verdict(grades: list[report.Grade], options: argparse.Namespace, whole: bool,
            console: Console) -> int:
    report.write_json(grades, options.out / "grade.json")
    if failed := next((g.harness_error for g in grades if g.harness_error), None):
        console.print(f"{HARNESS_FAILED}: {report.printable(failed.why)}.", markup=False,
                      highlight=False, soft_wrap=True)
        return EXIT_HARNESS
    right = all(g.right for g in grades)
    total, possible = sum(g.points for g in grades), sum(g.possible for g in grades)
    console.print(f"{total} of {possible} points" + (
        "." if not right or not whole else
        ": full marks." if total == possible else ": all of the half that is graded."))
    if whole:
        progress.show(grades, progress.remember(grades, options.out / "best.json"), console)
    if options.submit:
        tar = submit.write(options.lab, options.out)
        console.print(f"{os.path.relpath(tar)} holds: {' '.join(rubric.lab(options.lab).files)}",
                      soft_wrap=True)
    return 0 if right else EXIT_FAIL


def under_gdb(grades: list[report.Grade], outcomes: dict[str, ArchResult], rung: rubric.Rung | None,
              console: Console) -> int:
    """Start gdb for the lowest lost rung: the rung that was asked for, or one that it needs."""
    found = progress.next_rung(grades)
    if not found:
        console.print(f"{rung.name if rung else 'Every rung'} is reached: there is no moment at "
                      "which to stop.")
        return 0
    graded, result = found
    number = report.number_of(graded.lab, result.rung) - 1
    boot, finding = result.lost_in[0]
    evidence = next(e for e in graded.evidence if e.boot == boot)
    return replay.under_gdb(evidence, result.rung, finding,
                            outcomes[graded.arch].moments[number, boot], console)


def lock(options: argparse.Namespace) -> None:
    """Lock options.lock, which ends when it is closed, because two grades would write the same
    files. Raises Refused if another grade has the lock."""
    folder = options.out / "grade"
    folder.mkdir(parents=True, exist_ok=True)
    options.lock = (folder / "lock").open("w")
    try:
        fcntl.flock(options.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(f"another grade writes its results into {os.path.relpath(options.out)}/; "
                      "wait until it has ended") from None


def make(command: str) -> None:
    """Build the kernels. The files of make's job server are passed on. Raises Refused if make
    fails, which has said why; Unfit if that is the disk's fault."""
    if subprocess.run(shlex.split(command), close_fds=False, check=False).returncode:
        if why := disk.lacks(ROOT / "build", disk.temporary()):
            raise Unfit(why)
        raise Refused(f"{Verdict.BUILD.value}: make says above what is wrong")


def make_tests(options: argparse.Namespace) -> None:
    """Build the host tests of the halves that are judged. If one cannot be built, its rung is lost.
    """
    tests = rubric.lab(options.lab).tests(*options.arch, staff=options.staff)
    for name in tests if options.make else ():
        (options.kernels / "host" / name).unlink(missing_ok=True)
    if options.make and tests:
        command = [word for word in shlex.split(options.make) if word != "all"]
        subprocess.run([*command, "--keep-going", "graded=1",
                        *(f"build/host/{name}" for name in tests)], close_fds=False, check=False)


def unlike(kernel: Kernel, lab: int) -> str:
    """A sentence if the image that is booted is not the one that was linked, or ''."""
    if kernel.is_in(kernel.path.with_name("Image").read_bytes()):
        return ""
    return (f"the Image of {kernel.arch} was not made from its callsite.elf; type make LAB={lab} "
            f"ARCH={kernel.arch}")


@contextmanager
def no_build(folder: Path) -> Iterator[None]:
    """Meanwhile no make builds in this folder: each has the folder's lock while it does."""
    with ExitStack() as stack:
        if (folder / ".lock").exists():
            fcntl.flock(stack.enter_context((folder / ".lock").open()), fcntl.LOCK_SH)
        yield


def take_copies(options: argparse.Namespace) -> None:
    """Copy the kernels, and let options.kernels name the copies: `make` may build others meanwhile.
    Raises Refused if there is no kernel."""
    copies, host = options.out / "grade/kernels", options.kernels / "host"
    shutil.rmtree(copies, ignore_errors=True)
    for arch in options.arch:
        shared, into = options.kernels / arch, copies / arch
        folder = shared / options.variant
        # Without a variant it has links to a kernel's files, and none to its recordmcount.
        linked = (folder / KERNEL_FILES[0]).resolve().parent
        if not (linked / KERNEL_FILES[0]).exists():
            raise Refused(f"{Verdict.BUILD.value}: there is no kernel for {arch}; type make "
                          f"LAB={options.lab} ARCH={arch}")
        of_kernel = [folder / name if (folder / name).exists() else linked / name
                     for name in KERNEL_FILES]
        into.mkdir(parents=True)
        with no_build(shared):
            for file in [*of_kernel, *(shared / name for name in SHARED)]:
                if file.is_dir():
                    shutil.copytree(file, into / file.name)
                elif file.exists():
                    shutil.copy2(file, into)
            (into / TREE).symlink_to(tree_of(folder / KERNEL_FILES[0]))
    for name in rubric.lab(options.lab).tests(*options.arch, staff=options.staff):
        objects = {f"{name}.d/{of}" for arch in options.arch for of in rules(arch)}
        with no_build(host):
            for file in [host / of for of in (name, *objects) if (host / of).exists()]:
                at = copies / file.relative_to(options.kernels)
                at.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, at)
    options.kernels = copies


def refuse(options: argparse.Namespace) -> rubric.Rung | None:
    """Prepare a grade: choose the seed, build the kernels, copy them, build the observer. What can
    be refused without a kernel is refused first. Returns the rung that --rung names, or None.
    Raises Refused if these options or kernels cannot be graded, Unfit if this host cannot grade,
    Stopped if a kernel's ELF file cannot be read."""
    unfinished = nothing_own(options.lab, options.staff) or as_handed_out(
        options.lab, options.arch, options.staff, "submit" if options.submit else "grade")
    if unfinished:
        raise Refused(unfinished)
    if options.gdb and options.schedule and len(options.arch) > 1:
        raise Refused("SCHEDULE= with GDB=1 needs ARCH=riscv64 or ARCH=arm64")
    if options.machine and (len(options.arch) > 1 or options.gdb or options.schedule or options.smp
                            or options.submit):
        raise Refused("MACHINE= needs ARCH=riscv64 or ARCH=arm64; SMP=, SCHEDULE=, GDB=1 and make "
                      "submit need QEMU")
    if options.machine and not any(rung.console for rung in rubric.lab(options.lab).rungs):
        raise Refused(f"MACHINE=: no rung of lab {options.lab} can be judged by the console alone")
    if options.machine:
        parts_of(options.machine)
    options.smp = [cpus_of(text) for text in options.smp or ()]
    changes = [change.name for change in rubric.lab(options.lab).schedules]
    if options.schedule and not fnmatch.filter(changes, options.schedule.partition(":")[0] or "*"):
        raise Refused(f"SCHEDULE={options.schedule} is not a schedule of lab {options.lab}. " +
                      (f"Its changes are: {', '.join(changes)}" if changes else "It has none"))
    if options.gdb:
        replay.needs()
    options.seed = seed_of(options.seed) if options.seed else secrets.randbits(64)
    rung = wanted_rung(options)
    lock(options)
    if options.make:
        make(options.make)
        make_tests(options)
    take_copies(options)
    for arch in options.arch if not options.machine else []:
        plugin.build(arch)
    with blamed():
        wrong = [why for arch in options.arch
                 if (why := broken(kernel_in(options.kernels, arch))
                     or unlike(kernel_in(options.kernels, arch), options.lab))]
    if wrong:
        raise Refused(f"{Verdict.BUILD.value}: {wrong[0]}")
    return rung


def main() -> int:
    options = arguments()
    return disk.ended(lambda: run(options), HARNESS_FAILED, EXIT_HARNESS, options.out)


def run(options: argparse.Namespace) -> int:
    if options.uboot:
        # for the command that repeats the grade: make has expanded what it exports
        os.environ["UBOOT"] = "; ".join(options.uboot)
    console = Console(width=max(NARROWEST, Console().width) if sys.stdout.isatty() else 120)
    try:
        rung = refuse(options)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return EXIT_USAGE
    except Unfit as why:
        print(f"{HARNESS_FAILED}: {why}.", file=sys.stderr)
        return EXIT_HARNESS
    except Stopped as stopped:
        print(report.printable(str(stopped)), file=sys.stderr)
        return EXIT_HARNESS if stopped.verdict == Verdict.HARNESS else EXIT_FAIL
    if options.gdb and options.schedule:
        arch = options.arch[0]
        options.lock.close()
        return replay.schedule_under_gdb(kernel_in(options.kernels, arch), options.lab,
                                         options.schedule, options.out / "grade", console)
    outcomes = side_by_side.run(lambda arch, say: grade(arch, options, rung, say), options.arch,
                                console)
    grades = [report.grade_of(a, options.lab, options.seed, outcomes[a].evidence,
                              outcomes[a].findings, options.staff) for a in options.arch
              if a in outcomes]
    if said := graded_halves(options.lab, options.staff):
        console.print(said, highlight=False, soft_wrap=True)
    for graded in grades:
        if rung:
            only(graded, rung)
        if not graded.harness_error:  # its points would be no score
            report.show(graded, console)
    if len(grades) < len(options.arch):
        console.print(f"{HARNESS_FAILED}.")
        return EXIT_HARNESS
    try:
        status = verdict(grades, options, not rung and not options.smp and not options.schedule
                         and not options.machine, console)
    except Refused as missing:
        console.print(f"Nothing was written: {missing}.", highlight=False)
        return EXIT_FAIL
    options.lock.close()
    return under_gdb(grades, outcomes, rung,
                     console) if options.gdb and status != EXIT_HARNESS else status


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

"""Finds the moment at which a finding happened, and repeats the boot under gdb up to that moment.

The boot is repeated by typing the same lines. If a record of the observer's log
shows the finding, gdb stops when the same CPU reaches the same instruction for
the nth time after the same line was typed. If no record shows it (a wrong output,
a word that was never written), gdb stops before that line.
"""

import json
import shutil
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from grading.checks.registers import unfinished
from grading.checks.rubric import Rung, boot
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Defect, Finding
from grading.machine.hold import Cpus
from grading.machine.machine import Run
from grading.machine.observer import MOST, Kind, saved
from grading.report.report import cpus
from grading.session.session import machine_of
from grading.stimulus.schedules import CALLED, CALLER, CHANGER, SCHEDULES, Schedule
from grading.verdict import Refused, Stopped, Verdict
from qemu import debug

# Commands that may print much and change only the number of the next thread. A short command that
# makes as many threads replaces them.
ONLY_READS, AS_MANY_THREADS = ("cat ", "cksum "), "cat current_tracer"
ENDED = "gdb has ended"
# seconds after which the running machine is stopped
PATIENCE = {Verdict.TIMEOUT: 10, Verdict.DEAD: 10, Verdict.FLOOD: 2}


@dataclass
class Moment:
    """Where gdb stops; qemu/debugger/replay.py reads this."""

    before: list[str] = field(default_factory=list)  # lines to type first
    line: str | None = None  # the line during which it happens; None: while the kernel boots
    address: int = 0  # the instruction; 0: none
    nth: int = 0  # stop when it is reached for the nth time
    vcpu: int | None = None  # count only this CPU; None: every CPU
    again: bool = False  # stop when the kernel starts a second time
    seconds: int = 0  # stop after this time; 0: no limit
    # stop just before the machine ends; if false and there is no instruction, stop before the line
    # is typed
    ends: bool = False


def needs() -> None:
    if not shutil.which(debug.GDB):
        raise Refused(debug.MISSING)
    if not sys.stdin.isatty():
        raise Refused("GDB=1 needs a terminal, and this is not one")


def moment(evidence: Evidence, finding: Finding) -> Moment:
    if evidence.why and finding.seq is None:
        if lost := unfinished(evidence):
            return _of_record(evidence, lost.seq)
        return _at(evidence, len(evidence.typed) - 1, again=evidence.verdict == Verdict.REBOOT,
                   seconds=PATIENCE.get(evidence.verdict, 0), ends=True)
    seq = finding.seq if finding.seq is not None else _written(evidence, finding.address)
    if seq is not None:
        return _of_record(evidence, seq)
    return _at(evidence,
               len(evidence.typed) if finding.began is None else _line_at(evidence, finding.began))


def _at(evidence: Evidence, index: int, **where: bool | int | None) -> Moment:
    before = [AS_MANY_THREADS if line.startswith(ONLY_READS) else line
              for _, line in evidence.typed[:max(index, 0)] if line != "poweroff"]
    line = evidence.typed[index][1] if 0 <= index < len(evidence.typed) else None
    return Moment(before, line, **where)  # type: ignore[arg-type]


def _line_at(evidence: Evidence, seq: int) -> int:
    """The index of the line during which a record was logged; -1: before the first line."""
    return sum(at <= seq for at, _ in evidence.typed) - 1


def _log(evidence: Evidence) -> Path:
    return evidence.log.with_suffix(".observer") / "observer.log"


def _written(evidence: Evidence, address: int) -> int | None:
    """The record of the last store into a word of text; None: there was no store."""
    at = address - evidence.kernel.text[0]
    stores = [r.seq for r in saved(_log(evidence))
              if r.kind == Kind.STORE and r.v[0] <= at < r.v[0] + r.size] if address else []
    return stores[-1] if stores else None


def _of_record(evidence: Evidence, seq: int) -> Moment:
    index = _line_at(evidence, seq)
    first = evidence.typed[index][0] if index >= 0 else 0
    records = [r for r in saved(_log(evidence), first, seq + 1 + MOST) if r.seq <= seq]
    here = records[-1]
    cpus = [r.vcpu for r in records if r.kind == here.kind and r.addr == here.addr]
    # If only one CPU came to this instruction, it may be another CPU the next time.
    vcpu = here.vcpu if len(set(cpus)) > 1 else None
    return _at(evidence, index, address=here.addr, nth=cpus.count(here.vcpu), vcpu=vcpu)


def describe(evidence: Evidence, moment: Moment) -> str:
    """A description of the moment, in words."""
    during = f"during '{moment.line}'" if moment.line else "while the kernel boots"
    if moment.again:
        return f"where the kernel starts again, {during}"
    if moment.ends and moment.seconds:
        return f"{during}, when no prompt has come for {moment.seconds} seconds"
    if moment.ends:
        return f"{during}, before the machine ends"
    if not moment.address:
        return (f"before '{moment.line}': `console {moment.line}` types it"
                if moment.line else "at the prompt, at the end of the run")
    cpu = f"CPU {moment.vcpu} is" if moment.vcpu is not None else "it is"
    name = evidence.kernel.name_at(moment.address)
    return f"{during}, when {cpu} at {name} ({moment.address:#x}) for time {moment.nth}"


def under_gdb(evidence: Evidence, rung: Rung, finding: Finding, moment: Moment,
              console: Console) -> int:
    if finding.kind == Defect.TOO_LITTLE:
        console.print(f"\n{escape(rung.name)} was lost because something did not happen: there is "
                      "no moment at which to stop under gdb.", highlight=False, soft_wrap=True)
        return 1
    if finding.schedule:
        return schedule_under_gdb(evidence.kernel, evidence.lab, finding.schedule,
                                  evidence.log.parent, console)
    if finding.by_hand:
        console.print(f"\n{escape(rung.name)} was lost by your program "
                      "on this host, not by a kernel: there is nothing to stop under gdb. By "
                      f"hand:\n{escape(finding.by_hand)}", highlight=False, soft_wrap=True)
        return 1
    stops = describe(evidence, moment)
    console.print(f"\nThe same boot again, {evidence.arch}, {cpus(evidence.smp)}, under gdb. It "
                  f"stops {escape(stops)}.", highlight=False, soft_wrap=True)
    with tempfile.NamedTemporaryFile("w", prefix="callsite-moment-", suffix=".json") as file:
        json.dump({**asdict(moment), "why": f"{rung.name}: {finding.why}", "where": stops}, file)
        file.flush()
        return debug.debug(machine_of(evidence.kernel, evidence.lab, evidence.smp),
                           evidence.kernel.path, [], file.name)


def schedule_under_gdb(kernel: Kernel, lab: int, name: str, out: Path, console: Console) -> int:
    """Play a schedule until its CPUs are held, then give the machine to gdb."""
    def give_to_gdb(machine: Run, schedule: Schedule, cpus: Cpus) -> None:
        said = _of_schedule(schedule, [kernel.name_at(cpus.pc(cpu)) for cpu in sorted(cpus.all)])
        cpus.end()
        with (tempfile.TemporaryDirectory(prefix="callsite-gdb-") as folder,
              machine.handed_over(Path(folder))):
            debug.run_gdb(Path(folder), kernel.arch, kernel.path, [], {"CALLSITE_HELD": said})
        raise Stopped(Verdict.FAIL, ENDED)

    console.print(f"\n{name}, {kernel.arch}: a boot up to where its CPUs are held, then gdb.",
                  highlight=False, soft_wrap=True)
    e = boot(kernel, lab, SCHEDULES, 0, out, schedule=name, when_held=give_to_gdb)
    if e.why != ENDED:
        console.print(escape(e.why), highlight=False, soft_wrap=True)
    return int(e.why != ENDED)


def _of_schedule(schedule: Schedule, at: list[str]) -> str:
    """A text for the user of gdb: where each CPU is, and what the schedule does next."""
    change = schedule.change
    goes = (f"CPU {CHANGER} continues until {change.ends} returns or must wait; then both continue."
            if schedule.inside else
            f"CPU {CALLER}, until its call has returned; then both continue.")
    return (f"\n{schedule}: CPU {CHANGER} runs '{change.line}' and is at {at[CHANGER]} (gdb's "
            f"thread {CHANGER + 1}); CPU {CALLER} calls {CALLED} and is at {at[CALLER]} (thread "
            f"{CALLER + 1}).\nNext in the schedule: {goes}\nOne alone: set scheduler-locking on, "
            f"thread {CALLER + 1}, continue. All of them, up to the prompt: console.\n")

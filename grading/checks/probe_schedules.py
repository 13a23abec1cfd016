"""Lab 8: checks each schedule, in which one CPU calls a function while another registers or
unregisters a probe or a live patch of it.

Each call executes the probed instruction exactly once, in place or in a slot; or, if it is patched,
the new function. The runs of handlers are in the observer's log, with the probe's number.
"""

from grading.checks.checks import first_of
from grading.checks.schedule_checks import Wrong, first_wrong, was_left
from grading.evidence.evidence import Evidence, between, during
from grading.evidence.finding import Finding
from grading.machine.observer import Record
from grading.stimulus.schedules import CALLED, CALLER, ScheduleRun
from grading.truth import probes
from grading.truth.truth import Call

PATCH = -1  # in a change's sets: the live patch of calls_traced; other numbers are those of probes


def probes_under_schedules(evidence: Evidence) -> Finding | None:
    return first_wrong(evidence, _call_wrong)


def patches_under_schedules(evidence: Evidence) -> Finding | None:
    """All functions of a live patch change at once. Each call of calls_traced is followed by one of
    calls_second, which the same patch replaces. While the patch is being enabled, no old function
    runs after a new one; while it is being disabled, no new one after an old one."""
    return first_of(_piecewise(evidence, run) for played in evidence.played
                    if PATCH in played.change.comes | played.change.goes for run in played.runs)


def _piecewise(evidence: Evidence, run: ScheduleRun) -> Finding | None:
    change, kernel = run.schedule.change, evidence.kernel
    new = [probes.body(kernel, name) for name in (probes.NEW_TRACED, probes.NEW_SECOND)]
    old = [probes.body(kernel, name) for name in (CALLED, probes.SECOND)]
    log = [r for r in during(run, evidence.truth.hits["step"])
           if r.vcpu == CALLER and r.addr in (*new, *old)]
    for first, second in zip(log, log[1:]):
        is_new = first.addr == new[0], second.addr == new[1]
        if first.addr in (old[0], new[0]) and second.addr in (old[1], new[1]) and is_new == (
            (True, False) if change.comes else (False, True)):
            return Finding(f"{run.schedule}: while {change.ends} ran, another "
                           f"CPU called {kernel.name_at(first.addr).partition('+')[0]}, and then "
                           f"{kernel.name_at(second.addr).partition('+')[0]}: all functions of a "
                           "patch change at once", seq=second.seq,
                           mistake="patch-switched-piecewise", schedule=str(run.schedule))
    return None


def _hits(evidence: Evidence, run: ScheduleRun, call: Call) -> list[Record]:
    """The hits on the CPU that makes the calls, from this call to the next one."""
    later = [c.seq for c in during(run, evidence.truth.calls)
             if c.name == CALLED and c.vcpu == CALLER and c.seq > call.seq]
    return [r for r in between(evidence.truth.hits["step"], call.seq, min(later, default=run.last))
            if r.vcpu == CALLER]


def _call_wrong(evidence: Evidence, run: ScheduleRun, call: Call, ended: int) -> Wrong | None:
    change, kernel, hits = run.schedule.change, evidence.kernel, _hits(evidence, run, call)
    at, slots = probes.on_schedule(kernel), probes.slots(kernel)
    done = [r for r in hits if r.word == kernel.word(at) and (r.addr == at or r.addr in slots)]
    new = [r for r in hits if r.addr == probes.body(kernel, probes.NEW_TRACED)]
    if len(done) + len(new) != 1:
        return f"the probed instruction of {CALLED} was executed {len(done)} times in one call" + (
            f", and the new function {len(new)} times" if new else ""), call.seq
    handled = [r for r in hits if r.addr == kernel.symbol(probes.BEFORE)]
    after = [r for r in hits if r.addr == kernel.symbol(probes.AFTER)]
    ran = [r.v[0] for r in handled] + [PATCH] * len(new)
    must = change.stays | (change.comes if call.seq > ended else frozenset())
    may = change.stays | change.comes | (frozenset() if call.seq > ended else change.goes)
    for number in sorted({*ran, *must}):
        if number not in may:
            return (f"{_name(number)} was in effect for a call that began after {change.ends} had "
                    "returned", call.seq)
        if ran.count(number) != 1:
            return f"{_name(number)} was in effect {ran.count(number)} times for one call", call.seq
    if call.seq > ended and change.comes and change.line.endswith(
            "post") and [r.v[0] for r in after] != [*change.comes]:
        return (f"the post handler of {_name(min(change.comes))} ran {len(after)} times for a call "
                f"that began after {change.ends} had returned", call.seq)
    late = [r for r in (*handled, *after, *new, *(r for r in hits if r.addr in slots))
            if r.seq > ended > call.seq
            and not (r in new and was_left(evidence, call, ended, r.addr))]
    if late and change.goes and not change.stays:
        return (f"{change.ends} returned while another CPU was still about to execute "
                f"{kernel.name_at(late[0].addr)}"), late[0].seq
    return None


def _name(number: int) -> str:
    return "the live patch" if number == PATCH else f"probe {number}"

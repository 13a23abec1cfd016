"""Checks each schedule: every call ran the right ops or users, and no call was still in an op after
the op was unregistered."""

from collections.abc import Callable, Iterator

from grading.checks.graph_checks import lost_at_return
from grading.checks.seen import Amount, Coverage
from grading.evidence.evidence import Evidence, between, during, once
from grading.evidence.finding import Finding
from grading.machine.observer import Record
from grading.stimulus.schedules import CALLED, CALLER, ScheduleRun
from grading.truth.returns import HANDLERS, ends as ends_of
from grading.truth.truth import AT_ENTRY, AT_RETURN, Call

TRACER = -1  # the number of the function tracer's own op
OPS = 8  # the ops of the shell's command `op`
AT_LEAST = 10  # schedules that each change must have


Wrong = tuple[str, int | None]  # what is wrong, and the record that shows it


def right_under_schedules(evidence: Evidence) -> Finding | None:
    """Ops: each call ran the ops that it must run, and none is in an op that was unregistered."""
    return first_wrong(evidence, _call_wrong)


def returns_under_schedules(evidence: Evidence) -> Finding | None:
    """The same for function_graph's users: each call returns to its caller, even if users were
    registered or unregistered while it was in flight."""
    return first_wrong(evidence, _return_wrong)


def first_wrong(evidence: Evidence, wrong: Callable[[Evidence, ScheduleRun, Call, int],
                                                    Wrong | None]) -> Finding | None:
    for played in evidence.played:
        for run in played.runs:
            if found := _wrong(evidence, run, wrong):
                return Finding(f"{run.schedule}: {found[0]}", seq=found[1],
                               schedule=str(run.schedule))
    return None


def _amounts(evidence: Evidence) -> Iterator[Amount]:
    for p in evidence.played:
        yield Amount(f"'{p.change.line}'", len(p.todo), AT_LEAST)
        yield Amount(f"'{p.change.line}'", len(p.runs), p.planned)


PLAYED = Coverage("schedule", _amounts)


def _wrong(evidence: Evidence, run: ScheduleRun, wrong: Callable[[Evidence, ScheduleRun, Call, int],
                                                                 Wrong | None]) -> Wrong | None:
    """What is wrong with a call of this schedule, or None."""
    calls = [call for call in during(run, evidence.truth.calls)
             if call.name == CALLED and call.vcpu == CALLER]
    ended = _ended(evidence, run)
    change = run.schedule.change
    if run.goes_on:
        ended = run.last
        if change.stays and not calls:
            return f"{CALLED} was called, and the call did not reach the tracer", None
    elif ended is None:
        return f"{change.ends} did not return", None
    elif change.stays and len(calls) < 2 or change.comes and not any(
            call.seq > ended for call in calls):
        return (f"{CALLED} was called twice, the second time after {change.ends} had returned, and "
                f"{len(calls)} of these calls reached the tracer", None)
    return next((found for call in calls if (found := wrong(evidence, run, call, ended))), None)


def _ended(evidence: Evidence, run: ScheduleRun) -> int | None:
    """The record at which the function that makes the change returned; None: it did not."""
    name = run.schedule.change.ends
    ends = set(ends_of(evidence.kernel, name))
    return next((r.seq for hits in ("step", f"end of {name}")
                 for r in during(run, evidence.truth.hits[hits]) if r.addr in ends), None)


def number(evidence: Evidence, callback: Record) -> int:
    """The number of the op whose callback this was."""
    lo, hi = evidence.kernel.extent("hand_ops")
    return (callback.v[2] - lo) * OPS // (hi - lo) if lo <= callback.v[2] < hi else TRACER


def _call_wrong(evidence: Evidence, run: ScheduleRun, call: Call, ended: int) -> Wrong | None:
    change, called = run.schedule.change, [number(evidence, r) for r in call.callbacks]
    wanted = change.stays | (change.comes if call.seq > ended else frozenset())
    possible = change.stays | change.comes | (frozenset() if call.seq > ended else change.goes)
    if found := _entered_wrong(evidence, call):
        return found
    for op in sorted({*called, *wanted}):
        if op not in possible:
            return (f"{_op(op)} was called for a call that began after {change.ends} had returned",
                    call.seq)
        if called.count(op) != 1:
            return f"{_op(op)} was called {called.count(op)} times for one call", call.seq
    late = (call.landed and call.landed.seq > ended > call.seq
            and not was_left(evidence, call, ended))
    if late and change.goes & set(called):
        return (f"{change.ends} returned while another CPU was still in a call that "
                f"{_op(min(change.goes & set(called)))} traces", ended)
    return None


def was_left(evidence: Evidence, call: Call, ended: int, at: int | None = None) -> bool:
    """Did an interrupt come before the record @ended when the CPU was about to execute the first
    instruction after the call site, or the one at `at`? Then the tracer had been left, and a grace
    period may end in that interrupt, before the instruction is executed and logged."""
    at = call.site.address + 4 if at is None else at
    return any(t.vcpu == call.vcpu and t.v[1] == at
               for t in between(evidence.truth.traps, call.seq, ended))


def _entered_wrong(evidence: Evidence, call: Call, but: int = 0) -> Wrong | None:
    """Did the function begin after its site, with its caller's registers? `but`: registers that may
    differ."""
    if call.word == evidence.kernel.isa.nop:
        return None
    if not call.landed or call.landed.addr != call.site.address + 4:
        return "the function did not continue after its call site", call.seq
    if evidence.lost(call, but):
        return "the function did not get the registers that its caller left", call.seq
    return None


# ---- function_graph ------------------------------------------------------------------

def _return_wrong(evidence: Evidence, run: ScheduleRun, call: Call, ended: int) -> Wrong | None:
    span = next(s for s in evidence.truth.returns.spans if s.call is call)
    back = span.leaving and span.leaving.back
    if found := _entered_wrong(evidence, call, 1 << evidence.isa.link):  # the return is patched
        return found
    if not back or back.addr != span.home:
        return "the call did not return to its caller" + (
            f", but to {evidence.kernel.name_at(back.addr)}" if back else ""), call.seq
    if lost_at_return(evidence, span):
        return "the call returned, and a register was not as the function had left it", back.seq
    users = {user for seq, user, _ in _user_events(evidence)
             if call.seq < seq < back.seq} | run.schedule.change.stays | run.schedule.change.comes
    return next((found for user in sorted(users)
                 if (found := _user_wrong(evidence, run, call, back.seq, ended, user))), None)


def _user_wrong(evidence: Evidence, run: ScheduleRun, call: Call, back: int, ended: int,
                user: int) -> Wrong | None:
    change, name, events = run.schedule.change, _user(
        user), [(seq, what) for seq, of, what in _user_events(evidence)
                if of == user and call.seq < seq < back]
    whats = [what for _, what in events]
    if whats not in ([], [AT_ENTRY], [AT_ENTRY, AT_RETURN]):
        return (f"for one call {name} was called "
                f"{', '.join('at the return' if what else 'at the entry' for what in whats)}"
                ), events[-1][0]
    must = user in change.stays or user in change.comes and call.seq > ended
    if must and whats != [AT_ENTRY, AT_RETURN] or whats == [AT_ENTRY] and user not in change.goes:
        when = ("at the entry of a call and not at its return" if whats else
                "neither at the entry nor at the return of a call")
        return f"{name} was called {when}", call.seq
    if user in change.goes and events and events[-1][0] > ended:
        return f"{name} was called for a call after {change.ends} had returned", events[-1][0]
    return None


@once
def _user_events(evidence: Evidence) -> list[tuple[int, int, int]]:
    """The handler calls on the CPU that makes the calls, outside of interrupts: (record, user,
    AT_ENTRY or AT_RETURN)."""
    hands = [(t.seq, t.user, t.what) for t in evidence.truth.user_events
             if t.vcpu == CALLER and not t.level and t.what in (AT_ENTRY, AT_RETURN)]
    entry = evidence.kernel.symbol(HANDLERS[0])
    own = [(r.seq, TRACER, AT_ENTRY if r.addr == entry else AT_RETURN) for r in evidence.truth.users
           if r.vcpu == CALLER and not r.level]
    return sorted(hands + own)


def _user(user: int) -> str:
    return "the function_graph tracer" if user == TRACER else f"user {user}"


def _op(op: int) -> str:
    return "the function tracer" if op == TRACER else f"op {op}"

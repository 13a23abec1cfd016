"""What each schedule showed: which ops each call was told to, and that no call was in an op when the change that removed it was done."""

from __future__ import annotations

from collections.abc import Iterator

from grading.evidence import Evidence, during
from grading.finding import Finding
from grading.observer import Record
from grading.registers import lost
from grading.schedules import CALLER, Shown
from grading.seen import Amount, Seen
from grading.truth import Call

TRACER = -1  # as the number of an op: the function tracer's own
OPS = 8  # of the shell's
AT_LEAST = 10  # schedules of each change


def right_under_schedules(e: Evidence) -> Finding | None:
    for played in e.played:
        for shown in played.shown:
            if found := _wrong(e, shown):
                return Finding(f"{shown.schedule}: {found[0]}", seq=found[1], schedule=str(shown.schedule))
    return None


def _amounts(e: Evidence) -> Iterator[Amount]:
    for p in e.played:
        yield Amount(f"'{p.change.line}'", len(p.todo), AT_LEAST)
        yield Amount(f"'{p.change.line}'", len(p.shown), p.planned)


PLAYED = Seen("schedule", _amounts)


def _wrong(e: Evidence, shown: Shown) -> tuple[str, int | None] | None:
    """What was wrong with one of its calls, and the record that shows it."""
    calls = [call for call in during(shown, e.truth.calls) if call.name == "calls_traced" and call.vcpu == CALLER]
    ended = _ended(e, shown)
    if ended is None or len(calls) < 2 and shown.schedule.change.stays:
        return f"{len(calls)} calls of calls_traced were seen, and 2 were made", None
    return next((found for call in calls if (found := _call_wrong(e, shown, call, ended))), None)


def _ended(e: Evidence, shown: Shown) -> int | None:
    """When the change was done: its function came to its end."""
    ends = set(e.kernel.exits(shown.schedule.change.ends))
    return next((r.seq for r in during(shown, e.truth.hits["step"]) if r.addr in ends), None)


def number(e: Evidence, callback: Record) -> int:
    """The op that a callback was called for."""
    lo, hi = e.kernel.extent("hand_ops")
    return (callback.v[2] - lo) * OPS // (hi - lo) if lo <= callback.v[2] < hi else TRACER


def _call_wrong(e: Evidence, shown: Shown, call: Call, ended: int) -> tuple[str, int] | None:
    change, told = shown.schedule.change, [number(e, r) for r in call.callbacks]
    wanted = change.stays | (change.comes if call.seq > ended else frozenset())
    possible = change.stays | change.comes | (frozenset() if call.seq > ended else change.goes)
    if not call.landed or call.landed.addr != call.site.address + 4:
        return "the function did not go on after its call site", call.seq
    if lost(e, call):
        return "the function did not get the registers that its caller left", call.seq
    for op in sorted({*told, *wanted}):
        if op not in possible:
            return f"{_op(op)} was called for a call that began after {change.ends} had returned", call.seq
        if told.count(op) != 1:
            return f"{_op(op)} was called {told.count(op)} times for one call", call.seq
    late = call.landed.seq > ended > call.seq
    if late and change.goes & set(told):
        return f"{change.ends} returned while another CPU was still in a call that {_op(min(change.goes & set(told)))} traces", ended
    return None


def _op(op: int) -> str:
    return "the function tracer" if op == TRACER else f"op {op}"

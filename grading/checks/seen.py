"""Says how much must be observed before a rung is reached, so that no rung is reached because its
check had nothing to look at.

Each rung names its Coverage in SEEN of labs/*/checks.py. grading/report/report.py looks at it after
the rung's check: if the check found something wrong, that is reported, even if too little was
observed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from grading.checks import checks, frames, rare
from grading.checks.graph_checks import bounds, framed, stayed
from grading.evidence.evidence import Evidence, Phase, between, during, expected_run
from grading.evidence.finding import Finding, Defect
from grading.stimulus import workload
from grading.text.graph_text import RETURN
from grading.truth.truth import KEPT_NOTHING, Call


class Amount(NamedTuple):
    """How much was observed at one place, and the least that is needed."""

    where: str
    seen: int
    least: int


@dataclass(frozen=True)
class Coverage:
    """One kind of thing by which a rung is judged. `what` names it in the singular: "call of the
    workload"."""

    what: str
    amounts: Callable[[Evidence], Iterable[Amount]]
    # the name of a lost rung without which this could not be tried, or ""
    waits: Callable[[Evidence], str] = lambda e: ""


def too_little(evidence: Evidence, wanted: Iterable[Coverage]) -> Finding | None:
    """A finding about the first of these of which too little was observed. For a boot that does not
    try it, `amounts` must have an Amount whose `least` is 0: no Amount at all counts as too little.
    """
    for seen in wanted:
        for amount in list(seen.amounts(evidence)) or [Amount("", 0, 1)]:
            if amount.seen < amount.least:
                rung = seen.waits(evidence)
                return Finding(f"needs: {rung}" if rung else _said(seen.what, amount),
                               kind=Defect.TOO_LITTLE, need=rung)
    return None


def _said(what: str, amount: Amount) -> str:
    where = f"{amount.where}: " if amount.where else ""
    if not amount.seen:
        return f"{where}no {what} was observed, so the rung cannot be judged"
    return (f"{where}too little was observed to judge the rung: {what}, {amount.seen} times, and "
            f"at least {amount.least} times are needed")


def _half(number: int) -> int:
    """Half of the number that the seed asks for, which is enough to judge by. Other rungs check
    that all of it happened."""
    return max(1, (number + 1) // 2)


def once(what: str, count: Callable[[Evidence], int], least: int = 1) -> Coverage:
    """Coverage that is counted once for the whole boot."""
    return Coverage(what, lambda e: [Amount("", count(e), least)])


def with_one_cpu(seen: Coverage) -> Coverage:
    """Coverage that only boots with one CPU must have."""
    return replace(seen, amounts=lambda e: seen.amounts(e) if e.smp == 1 else [Amount("", 0, 0)])


def _phases(evidence: Evidence, on: int, off: int) -> list[Phase]:
    return [*(evidence.on() if on else []), *(evidence.off() if off else [])]


def _not_run(evidence: Evidence, on: int, off: int) -> Iterator[Amount]:
    """Amounts for the phases, with a tracer on or off, that are missing in this boot."""
    for phases, number, when in ((evidence.on(), on, "with a tracer on"), (evidence.off(), off,
                                                                           "with no tracer on")):
        if len(phases) < number:
            yield Amount(f"workload {len(phases) + 1} of {number} {when}", 0, 1)


def in_phases(what: str, on: int, off: int, count: Callable[[Evidence, Phase], int],
              least: Callable[[Evidence, Phase], int]) -> Coverage:
    """Coverage that is counted in each phase: `on` phases with the tracer on, `off` with it off."""
    def amounts(evidence: Evidence) -> Iterator[Amount]:
        yield from (Amount(phase.name, count(evidence, phase), least(evidence, phase))
                    for phase in _phases(evidence, on, off))
        yield from _not_run(evidence, on, off)
    return Coverage(what, amounts)


# ---- the workload, in each phase ------------------------------------------------------------

def _calls(evidence: Evidence, phase: Phase, names: frozenset[str] | None = None) -> int:
    """The number of calls that the seed asks for, of all functions or of these."""
    return sum(names is None or call.function in names
               for calls in evidence.expected(phase).contexts.values() for call in calls)


def _traced_names(phase: Phase) -> frozenset[str]:
    """The functions that are traced during the whole phase; for users that leave this is unknown.
    """
    if phase.users:
        return frozenset(name for user in stayed(phase) for name in user.filter.names)
    return phase.filter.names if phase.filter else frozenset()


def half_of(evidence: Evidence, phase: Phase, names: frozenset[str]) -> int:
    return _half(_calls(evidence, phase, names))


def half_of_run(evidence: Evidence, seed: int) -> int:
    return _half(expected_run(seed, evidence.smp).calls)


def _half_of_traced(evidence: Evidence, phase: Phase) -> int:
    return half_of(evidence, phase, _traced_names(phase))


def _half_of_returning(evidence: Evidence, phase: Phase) -> int:
    return half_of(evidence, phase, _traced_names(phase) & phase.returning)


def ran(on: int, off: int) -> Coverage:
    """Coverage of the workload: the calls of every context in each phase."""
    def amounts(evidence: Evidence) -> Iterator[Amount]:
        for phase in _phases(evidence, on, off):
            executed = evidence.executed_contexts(phase)
            for name, calls in evidence.expected(phase).contexts.items():
                yield Amount(f"{phase.name}, {name}", len(executed.get(name, [])),
                             _half(len(calls)))
        yield from _not_run(evidence, on, off)
    return Coverage("call of the workload", amounts)


def called(on: int) -> Coverage:
    return in_phases(
        "traced function that found a call at its site", on, 0,
        lambda e, p: sum(checks.traced(e, c) and c.name in _traced_names(p) for c in e.calls(p)),
        _half_of_traced)


def called_back(on: int) -> Coverage:
    return in_phases("run of the tracer's callback", on, 0,
                     lambda e, p: len(during(p, e.truth.callbacks)), _half_of_traced)


def printed(on: int) -> Coverage:
    """Events of the function tracer."""
    return in_phases("printed event", on, 0, lambda e, p: len(p.trace.events)
                     if p.trace else 0, _half_of_traced)


def arguments(on: int, off: int) -> Coverage:
    return in_phases("call of the workload whose arguments the function's first instruction found",
                     on, off,
                     lambda e, p: sum(bool(call.arguments) for _, _, call in e.call_pairs(p)),
                     lambda e, p: _half(_calls(e, p)))


def _compared(call: Call) -> bool:
    at = call.landed
    return bool(at and at.addr == call.site.address + 4 and at.v[0] != KEPT_NOTHING)


def registers(on: int, off: int = 0) -> Coverage:
    """Calls whose registers the observer compared; it does not compare at a site that holds the
    nop."""
    return in_phases("call whose registers were compared, at its site and after it", on, off,
                     lambda e, p: sum(map(_compared, e.calls(p))),
                     lambda e, p: _half_of_traced(e, p) if p.on else _half(_calls(e, p)))


def _compared_in_overwritten(evidence: Evidence) -> Iterator[Amount]:
    if evidence.overwritten:
        yield Amount(evidence.overwritten.name,
                     sum(map(_compared, evidence.calls(evidence.overwritten))),
                     _half(_calls(evidence, evidence.overwritten)))


OVERWRITTEN = Coverage("call under a tracer that overwrites every register that it may",
                       _compared_in_overwritten)


# ---- the boot
# -------------------------------------------------------------------------------------

ANYTHING_CALLED = once("traced function that found a call at its site",
                       lambda e: sum(checks.traced(e, c) for p in e.on() for c in e.calls(p)))
POWERED_OFF = once("'poweroff' typed at the shell",
                   lambda e: sum(line == "poweroff" for _, line in e.typed))
SITES = once("call site in the kernel", lambda e: len(e.kernel.sites), len(workload.FUNCTIONS))


def _words(evidence: Evidence, text: bytes) -> Amount:
    lo, hi = evidence.kernel.text
    return Amount("", len(text), hi - lo)


TEXT_AT_BOOT = Coverage("byte of text, after boot,", lambda e: [_words(e, e.text_at_boot)])
TEXT_AT_END = Coverage("byte of text, after the last tracer was switched off,",
                       lambda e: [_words(e, e.text_at_end)])


# In a boot that ended early text may not have been read.
TEXTS = Coverage("text in memory, compared with what CPUs stored there,",
                 lambda e: [Amount("", len(e.texts), 0 if e.why else 2)])


def text_traced(waits: str = "") -> Coverage:
    """Text while every function is traced, which is tried only if the workload's results were
    right. `waits`: the rung that is lost if not."""
    return Coverage("byte of text, while every function was traced (which is tried if the "
                    "workload's results are right),", lambda e: [_words(e, e.text_traced)],
                    lambda e: waits if checks.right_result(e) else "")


def text_of(on: int) -> Coverage:
    return in_phases("byte of text", on, 0, lambda e, p: len(p.text),
                     lambda e, p: e.kernel.text[1] - e.kernel.text[0])


def batches(least: int) -> Coverage:
    """Batches that ended and began when every CPU was known to be online."""
    return once("batch of patches with every CPU online",
                lambda e: sum(bool(b.stores and b.end is not None and len(b.online) >= e.smp)
                              for b in e.truth.batches), least)


def answers(what: str, least: int = 1) -> Coverage:
    return once(what, lambda e: len(e.truth.hits["answer"]), least)


BETWEEN = once("instruction of the tracer's assembly before which registers were checked",
               lambda e: e.checked, 100)


# ---- patched returns -----------------------------------------------------------------------------

ANYTHING_RETURNED = once("run of return_to_handler",
                         lambda e: sum(len(during(p, e.truth.handlers)) for p in e.on()))


def returned(on: int) -> Coverage:
    return in_phases("run of return_to_handler", on, 0,
                     lambda e, p: len(during(p, e.truth.handlers)), _half_of_returning)


def went_home(on: int, off: int) -> Coverage:
    return in_phases("call that was followed to where it returned", on,
                     off, lambda e, p: sum(bool(s.body and s.leaving and s.leaving.back)
                                           for s in e.spans(p)), lambda e, p: _half(_calls(e, p)))


def returned_compared(on: int) -> Coverage:
    """Returns at which the observer compared the registers."""
    def compared(evidence: Evidence, phase: Phase) -> int:
        backs = (s.leaving.back for s in evidence.spans(phase) if s.leaving)
        return sum(bool(back and back.v[0] != KEPT_NOTHING) for back in backs)
    return in_phases("return whose registers were compared", on, 0, compared, _half_of_returning)


def handlers_given(on: int) -> Coverage:
    """For lab 5 only: in lab 6 a single user is called on the direct path."""
    return in_phases("call of function_graph's handlers at an entry or a return", on, 0,
                     lambda e, p: len(during(p, e.truth.users)), _half_of_returning)


def graph_printed(on: int) -> Coverage:
    return in_phases(
        "printed event of function_graph", on, 0, lambda e, p: min(
            (len(u.trace.events) for u in stayed(p)), default=0), lambda e, p: min(
                (_half(_calls(e, p, u.filter.names)) for u in stayed(p)), default=0))


def values_printed(on: int) -> Coverage:
    return in_phases(
        "return that is printed with a value", on, 0,
        lambda e, p: sum(bool(event.kind == RETURN and event.value)
                         for u in stayed(p) for event in u.trace.events),
        lambda e, p: sum(_half(_calls(e, p, u.filter.names)) for u in stayed(p)))


def timed(on: int) -> Coverage:
    return in_phases("call whose instructions were counted", on, 0,
                     lambda e, p: sum(bool(bounds(s, framed(e, p))) for s in e.spans(p)),
                     _half_of_returning)


def _interrupted(evidence: Evidence) -> Iterator[Amount]:
    tries, called = frames.tries(evidence), rare.calls(evidence)
    for answer, least, user in ((frames.WANTED, frames.FEW, "a user that says yes"),
                                (frames.REFUSED, frames.FEW, "a user that says no"),
                                (frames.FULL, 1, "a user for which there is no room"),
                                (frames.NO_STACK, 1, "a thread without a shadow stack")):
        yield Amount(user, sum(t.answer == answer for t in tries), least)
    for name in ("rare_outer", "rare_away", *rare.CHAIN):
        if evidence.kernel.symbol(name):
            yield Amount(name, int(name in called), 1)
    for name, least in rare.ASKED.items():
        if evidence.kernel.symbol(name):
            yield Amount(name,
                         sum(r.addr == evidence.kernel.symbol(name) for r in evidence.truth.rare),
                         least)


INTERRUPTED = with_one_cpu(
    Coverage("call of a traced function of kern/apps/", _interrupted, lambda e: "off"
             if checks.rest_at_end(e) else ""))
FRAMES_OUT = once("call site that called the tracer while every function was traced", lambda e: sum(
    checks.traced(e, c) for c in between(e.truth.calls, *e.frames_out)), 10)

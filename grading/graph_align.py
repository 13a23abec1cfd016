"""Holds a printed function_graph against the calls that were executed, CPU by CPU.

A call is an entry and a return. As in align.py one inversion is legal: an
interrupt that comes while an entry or a return is on its way to the buffer
prints its own events first. Nothing in the text tells an interrupt's calls
from the thread's, so where both readings fit, both are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

from grading.graph_text import ENTRY, RETURN, GraphEvent
from grading.observer import Record
from grading.returns import Leaving, Span

Framed = Callable[[Span], bool]  # is its return address taken?


@dataclass(frozen=True)
class Step:
    """An entry or a return that was executed."""

    kind: str
    span: Span
    seq: int
    done: int  # when the context went on
    vcpu: int
    depths: frozenset[int]  # that may be printed: a frame that just comes or goes may count or not

    @property
    def level(self) -> int:
        return self.span.call.level

    def text(self) -> str:
        said = f"{self.span.name}() {{" if self.kind == ENTRY else f"}} /* {self.span.name} */"
        return "  " * min(self.depths) + said + (f"  level {self.level}" if self.level else "")


@dataclass
class Divergence:
    cpu: int
    why: str
    executed_at: int
    printed_at: int
    executed: Sequence[Step]
    printed: Sequence[GraphEvent]

    def neighbours(self, around: int = 3) -> list[tuple[str, str, bool]]:
        rows = []
        for step in range(-around, around + 1):
            e, p = self.executed_at + step, self.printed_at + step
            left = self.executed[e].text() if 0 <= e < len(self.executed) else ""
            right = self.printed[p].text() if 0 <= p < len(self.printed) else ""
            if left or right:
                rows.append((left or "-", right or "-", step == 0))
        return rows


@dataclass
class Alignment:
    pairs: list[tuple[Step, GraphEvent]] = field(default_factory=list)
    divergence: Divergence | None = None


def _chain(span: Span) -> Iterator[Span]:
    below = span.below
    while below:
        yield below
        below = below.below


def nobody(_: Span) -> bool:
    return False


def depths(span: Span, counts: Framed, unsure: Framed = nobody) -> frozenset[int]:
    """How many such calls are out beneath this one: between what is sure and what is possible."""
    chain = list(_chain(span))
    transit = {s for at in (span, *chain) for s in at.transit} | {s for s in chain if unsure(s)}
    sure = sum(counts(s) and s not in transit for s in chain)
    return frozenset(range(sure, sure + 1 + sum(counts(s) for s in transit)))


class _Depths:
    """depths() of many calls: of one that has nothing uncertain beneath it, from the call beneath."""

    def __init__(self, counts: Framed, unsure: Framed) -> None:
        self._counts, self._unsure = counts, unsure
        self._known: dict[Span, frozenset[int]] = {}

    def of(self, span: Span) -> frozenset[int]:
        if not span.steady or self._unsure is not nobody:
            return depths(span, self._counts, self._unsure)
        chain = [span]
        while chain[-1] not in self._known and (below := chain[-1].below):
            chain.append(below)
        for at in reversed(chain):
            if at not in self._known:
                below = at.below
                self._known[at] = frozenset([min(self._known[below]) + self._counts(below)]) if below else frozenset([0])
        return self._known[span]


def hit_of(span: Span, framed: Framed) -> int | None:
    """Which run of return_to_handler is this call's, counted within its return; None: there is none for it."""
    if not span.leaving or not framed(span):
        return None
    at = [s for s in span.leaving.spans if framed(s)].index(span)
    return at if at < len(span.leaving.hits) else None


def _seen_leaving(span: Span, leaving: Leaving, framed: Framed) -> Record:
    """The run of return_to_handler that is this call's. Of a chain of tail calls one may have no frame, as the user that
    wanted it has just left: then the last run stands for all that are left of the chain."""
    if not leaving.hits or not framed(span):
        return leaving.left
    at = hit_of(span, framed)
    return leaving.hits[-1 if at is None else at]


def steps(spans: Sequence[Span], names: Collection[str], framed: Framed, unsure: Framed = nobody) -> dict[int, list[Step]]:
    """By CPU: what a user whose filter is `names` must hear of, when all users together have `framed` calls.

    The depth is that of the shadow stack, as on Linux, where it counts every user's frames, or the user's own.
    `unsure`: a call that may have no frame all the same, as who wanted it was leaving.
    """
    found: list[Step] = []
    own, every = _Depths(lambda s: s.name in names, nobody), _Depths(framed, unsure)
    for span in spans:
        if span.name not in names:
            continue
        call, depth = span.call, own.of(span) | every.of(span)
        found.append(Step(ENTRY, span, call.seq, span.body.seq if span.body else call.seq, call.vcpu, depth))
        if span.leaving:
            hit = _seen_leaving(span, span.leaving, framed)
            back = span.leaving.back
            found.append(Step(RETURN, span, hit.seq, back.seq if back else hit.seq, hit.vcpu, depth))
    cpus: dict[int, list[Step]] = {}
    for step in sorted(found, key=lambda s: (s.seq, -s.span.call.seq)):  # of a chain the innermost first
        cpus.setdefault(step.vcpu, []).append(step)
    return cpus


def belongs(step: Step, event: GraphEvent) -> bool:
    return (step.kind == event.kind and event.func in (step.span.name, "")
            and event.depth in step.depths)


def difference(step: Step, event: GraphEvent) -> str:
    if step.kind == event.kind and event.func in (step.span.name, ""):
        return f"{step.kind} of {step.span.name}: {min(step.depths)} traced calls are around it, {event.depth} are printed"
    return f"executed the {step.kind} of {step.span.name}, printed the {event.kind} of {event.func or 'something'}"


@dataclass
class _State:
    at: int = 0  # executed steps that were taken
    number: int = 0  # printed events that were matched
    pending: tuple[int, ...] = ()  # steps that wait while an interrupt prints
    pairs: int = 0


def _next(state: _State, executed: Sequence[Step], event: GraphEvent) -> list[tuple[_State, int | None]]:
    """What may follow: the new state and the step that the event was matched with, likeliest last."""
    found: list[tuple[_State, int | None]] = []
    at, pending = state.at, state.pending
    over = (not pending or at == len(executed) or executed[at].level <= executed[pending[-1]].level
            or executed[at].seq > executed[pending[-1]].done)
    free = at < len(executed) and not (pending and executed[at].level <= executed[pending[-1]].level)
    if free and at + 1 < len(executed) and executed[at + 1].level > executed[at].level \
            and executed[at + 1].seq < executed[at].done:
        found.append((_State(at + 1, state.number, (*pending, at), state.pairs), None))
    if free and belongs(executed[at], event):
        found.append((_State(at + 1, state.number + 1, pending, state.pairs + 1), at))
    if pending and over and belongs(executed[pending[-1]], event):
        found.append((_State(at, state.number + 1, pending[:-1], state.pairs + 1), pending[-1]))
    return found


def align_cpu(cpu: int, executed: Sequence[Step], printed: Sequence[GraphEvent], cut: bool = False) -> Alignment:
    """Match them one to one. `cut`: the user left in the middle, and what is printed may stop early."""
    state, furthest = _State(), _State()
    pairs: list[tuple[Step, GraphEvent]] = []
    choices: list[tuple[_State, int | None]] = []
    while state.number < len(printed) or not cut and (state.at < len(executed) or state.pending):
        follow = _next(state, executed, printed[state.number]) if state.number < len(printed) else []
        if (state.number, state.at) > (furthest.number, furthest.at):
            furthest = state
        choices += follow
        if not choices:
            return _parted(cpu, pairs, furthest, executed, printed)
        state, matched = choices.pop()
        del pairs[state.pairs - (matched is not None):]
        if matched is not None:
            pairs.append((executed[matched], printed[state.number - 1]))
    return Alignment(pairs)


def _parted(cpu: int, pairs: list[tuple[Step, GraphEvent]], state: _State, executed: Sequence[Step],
            printed: Sequence[GraphEvent]) -> Alignment:
    at = state.pending[-1] if state.pending else state.at
    if state.number == len(printed):
        why = f"executed, but not printed: {executed[at].kind} of {executed[at].span.name}"
    elif at == len(executed):
        why = f"printed, but not executed: {printed[state.number].kind} of {printed[state.number].func}"
    else:
        why = difference(executed[at], printed[state.number])
    return Alignment(pairs, Divergence(cpu, why, at, state.number, executed, printed))


def align(executed: dict[int, list[Step]], printed: Sequence[GraphEvent], cut: bool = False) -> dict[int, Alignment]:
    """By CPU."""
    cpus = sorted({*executed, *(e.cpu for e in printed)})
    return {cpu: align_cpu(cpu, executed.get(cpu, []), [e for e in printed if e.cpu == cpu], cut) for cpu in cpus}

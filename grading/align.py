"""Holds a printed trace against the calls that were executed, CPU by CPU, in order.

One inversion is legal: what comes between a call site and the reservation of
its event, an interrupt or, after it, another thread, prints its own events
first. So an executed call may wait while others are printed, until its own
context goes on. Where an event can be that of two calls, both are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from grading.trace_text import Event
from grading.truth import Call


@dataclass
class Divergence:
    """The first place where the two part."""

    cpu: int
    why: str
    executed_at: int  # indices into the CPU's sequences
    printed_at: int
    executed: Sequence[Call]
    printed: Sequence[Event]

    def neighbours(self, around: int = 3) -> list[tuple[str, str, bool]]:
        """(executed, printed, here) lines about the place."""
        rows = []
        for step in range(-around, around + 1):
            e, p = self.executed_at + step, self.printed_at + step
            call = self.executed[e] if 0 <= e < len(self.executed) else None
            event = self.printed[p] if 0 <= p < len(self.printed) else None
            if call or event:
                rows.append((f"{call.name}, level {call.level}" if call else "-",
                             f"{event.flags} {event.func} <-{event.parent}" if event else "-", step == 0))
        return rows


@dataclass
class Alignment:
    """Which printed event belongs to which executed call."""

    pairs: list[tuple[Call, Event]] = field(default_factory=list)
    divergence: Divergence | None = None


def belongs(call: Call, event: Event) -> bool:
    """May the event be this call's? The workload tells its contexts apart by the printed 'h'.

    Other functions may run in an interrupt before the kernel has noted that it is in one.
    """
    return call.name == event.func and (not call.name.startswith("wl_") or bool(call.level) == event.interrupt)


def _difference(call: Call, event: Event) -> str:
    if call.name != event.func:
        return f"executed {call.name}, printed {event.func}"
    if not belongs(call, event):
        return f"{call.name} ran in {'an interrupt' if call.level else 'a thread'}, and is printed otherwise"
    return f"pid {event.pid} is printed for two threads"


@dataclass(frozen=True)
class _State:
    at: int  # executed calls that were taken
    number: int = 0  # printed events that were matched
    pending: tuple[int, ...] = ()  # calls that wait while others print
    pairs: int = 0


Matched = tuple[_State, int | None]  # a state, and the call that its last event was matched with


class _Search:
    """All ways of matching one CPU's events with its calls, the likeliest first."""

    def __init__(self, executed: Sequence[Call], printed: Sequence[Event], needed: Callable[[Call], bool],
                 first: int) -> None:
        self.executed, self.printed = executed, printed
        self.first = first  # before this call the trace goes on
        self.needed_end = max((i + 1 for i, call in enumerate(executed) if needed(call)), default=0)
        self.needed = needed
        self.furthest = _State(0)
        self.pairs: list[tuple[Call, Event]] = []
        self._thread_of: dict[tuple[str, int], tuple[int, int]] = {}  # a pid stands for one thread; and since which pair
        self._tried: set[tuple[object, ...]] = set()

    def _fits(self, i: int, number: int) -> bool:
        call, event = self.executed[i], self.printed[number]
        known = self._thread_of.get(_who(event))
        return belongs(call, event) and (known is None or known[0] == call.thread)

    def _over(self, at: int, waits: int) -> bool:
        """May the call that waits be printed now? What came in its way has returned: another may follow at once."""
        if at >= self.needed_end or at == waits + 1:
            return True
        call, before = self.executed[at], self.executed[at - 1]
        mine = self.executed[waits]
        return (call.thread != mine.thread or call.level <= mine.level
                or before.thread != call.thread or call.trap != before.trap)

    def _free(self, at: int, pending: tuple[int, ...]) -> bool:
        """Has the call's own context nothing left to print?"""
        call = self.executed[at]
        return not any(self.executed[i].thread == call.thread and call.level <= self.executed[i].level for i in pending)

    def _next(self, s: _State) -> Iterator[Matched]:
        """What may follow, likeliest last."""
        at, executed = s.at, self.executed
        free = at < len(executed) and self._free(at, s.pending)
        if free and at < self.first and not s.number:  # it was too early
            yield _State(at + 1, 0, s.pending), None
        if free and at + 1 < len(executed) and (executed[at + 1].level > executed[at].level
                                                or executed[at + 1].thread != executed[at].thread):
            yield _State(at + 1, s.number, (*s.pending, at), s.pairs), None
        if free and self._fits(at, s.number):
            yield _State(at + 1, s.number + 1, s.pending, s.pairs + 1), at
        for i in s.pending:
            if self._fits(i, s.number) and self._over(at, i):
                yield _State(at, s.number + 1, tuple(p for p in s.pending if p != i), s.pairs + 1), i

    def _take(self, s: _State, matched: int | None) -> None:
        keep = s.pairs - (matched is not None)
        if keep < len(self.pairs):
            del self.pairs[keep:]
            self._thread_of = {who: known for who, known in self._thread_of.items() if known[1] < keep}
        if matched is not None:
            event = self.printed[s.number - 1]
            self._thread_of.setdefault(_who(event), (self.executed[matched].thread, keep))
            self.pairs.append((self.executed[matched], event))

    def missing(self, s: _State) -> int | None:
        """The first call that should have been printed, when no more events come."""
        left = [i for i in s.pending if self.needed(self.executed[i])]
        left += [i for i in range(s.at, self.needed_end) if self.needed(self.executed[i])][:1]
        return min(left, default=None)

    def run(self, begin: _State) -> bool:
        choices: list[Matched] = [(begin, None)]
        while choices:
            s, matched = choices.pop()
            self._take(s, matched)
            if (s.number, s.at) >= (self.furthest.number, self.furthest.at):
                self.furthest = s
            if s.number == len(self.printed):
                if self.missing(s) is None:
                    return True
                continue
            follow = list(self._next(s))
            if len(follow) > 1 or s.pending:
                seen = (s, frozenset((who, known[0]) for who, known in self._thread_of.items()))
                if seen in self._tried:
                    continue
                self._tried.add(seen)
            choices += follow
        return False


def _who(event: Event) -> tuple[str, int]:
    return (event.comm if event.pid == 0 else "", event.pid)


def _likeliest(executed: Sequence[Call], printed: Sequence[Event], last: int, look: int = 24) -> int:
    """Where in the executed calls, not behind `last`, the first few events stand as they are printed."""
    def score(start: int) -> int:
        return next((n for n, (call, event) in enumerate(zip(executed[start:start + look], printed))
                     if not belongs(call, event)), look)

    return max(range(min(last + 1, len(executed))), key=score, default=0)


def align_cpu(cpu: int, executed: Sequence[Call], printed: Sequence[Event], whole: bool = True,
              needed: Callable[[Call], bool] = lambda call: True) -> Alignment:
    """Match one CPU's printed events with its executed calls.

    `needed` says which executed calls must be printed; others may be missing at the end, and
    unless it is `whole` at the start too (the trace was switched on and off among them).
    """
    first = 0 if whole else next((i for i, call in enumerate(executed) if needed(call)), len(executed))
    search = _Search(executed, printed, needed, first)
    for begin in sorted({0, _likeliest(executed, printed, first)}, reverse=True):
        if search.run(_State(begin)):
            return Alignment(search.pairs)
    return Alignment(search.pairs, _parted(cpu, search))


def _meant(search: _Search, s: _State) -> int:
    """Which of the calls that could be printed next the event was to be: one of its name, or else one that waits."""
    waiting = [*s.pending[::-1], *([s.at] if s.at < len(search.executed) else [])]
    name = search.printed[s.number].func if s.number < len(search.printed) else ""
    return next((at for at in waiting if search.executed[at].name == name), waiting[0] if waiting else s.at)


def _parted(cpu: int, search: _Search) -> Divergence:
    s, executed, printed = search.furthest, search.executed, search.printed
    at = _meant(search, s)
    if s.number == len(printed):
        at = search.missing(s) or 0
        why = f"executed, but not printed: {executed[at].name}"
    elif at == len(executed):
        why = f"printed, but not executed: {printed[s.number].func}"
    else:
        why = _difference(executed[at], printed[s.number])
    return Divergence(cpu, why, at, s.number, executed, printed)


def align(executed: Sequence[Call], printed: Sequence[Event], whole: bool = True,
          needed: Callable[[Call], bool] = lambda call: True) -> dict[int, Alignment]:
    """By CPU. `whole`: the printed trace begins with the first executed call."""
    cpus = sorted({c.vcpu for c in executed} | {e.cpu for e in printed})
    return {cpu: align_cpu(cpu, [c for c in executed if c.vcpu == cpu], [e for e in printed if e.cpu == cpu], whole, needed)
            for cpu in cpus}

"""Compares a printed trace with the executed calls, CPU by CPU, in order.

One difference in the order is allowed. An interrupt may come between a call site and the
reservation of its event, and another thread may run after that interrupt; both
print their own events first. So an executed call may stay pending while later
calls are printed, until its own context executes another call. Where an event
can belong to two calls, both are tried.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from grading.text.graph_text import GraphEvent
from grading.text.trace_text import FunctionEvent
from grading.truth.truth import Call

NEVER = 1 << 62


@dataclass(eq=False)
class Executed:
    """Something that must be printed: a call, or in graph_align.py an entry or a return."""

    call: Call
    seq: int
    vcpu: int
    done: int = NEVER  # the record at which its context continued

    def __str__(self) -> str:
        return self.call.name

    def text(self) -> str:
        return f"{self.call.name}, level {self.call.level}"


AnyExecuted = TypeVar("AnyExecuted", bound=Executed)
AnyEvent = TypeVar("AnyEvent", FunctionEvent, GraphEvent)


@dataclass
class Divergence:
    """The first place where the printed trace differs from the executed calls."""

    cpu: int
    why: str
    executed_at: int  # indices into the CPU's sequences
    printed_at: int
    executed: Sequence[Executed]
    printed: Sequence[FunctionEvent | GraphEvent]

    def neighbours(self, around: int = 3) -> list[tuple[str, str, bool]]:
        """The lines around that place: (executed, printed, is it the difference?)."""
        rows = []
        for step in range(-around, around + 1):
            e, p = self.executed_at + step, self.printed_at + step
            left = self.executed[e].text() if 0 <= e < len(self.executed) else ""
            right = self.printed[p].text() if 0 <= p < len(self.printed) else ""
            if left or right:
                rows.append((left or "-", right or "-", step == 0))
        return rows


@dataclass
class Alignment(Generic[AnyExecuted, AnyEvent]):
    """The pairs of an executed call and its printed event."""

    pairs: list[tuple[AnyExecuted, AnyEvent]] = field(default_factory=list)
    divergence: Divergence | None = None


class _State(NamedTuple):
    at: int  # number of executed calls that were taken
    number: int = 0  # number of printed events that were matched
    pending: tuple[int, ...] = ()  # indices of executed calls whose events are still to come
    pairs: int = 0


# a state, and the index of the executed call that its last event was matched with
Matched = tuple[_State, int | None]


class _Search(Generic[AnyExecuted, AnyEvent]):
    """All ways to match one CPU's events with its executed calls, the most likely first."""

    def __init__(self, executed: Sequence[AnyExecuted], printed: Sequence[AnyEvent],
                 differ: Callable[[AnyExecuted, AnyEvent],
                                  str], needed: Callable[[AnyExecuted], bool], first: int) -> None:
        self.executed: Sequence[AnyExecuted] = executed
        self.printed: Sequence[AnyEvent] = printed
        self.differ: Callable[[AnyExecuted, AnyEvent], str] = differ
        self.needed = needed
        self.first = first  # calls before this index may have been executed while tracing was off
        self.needed_end = next(
            (i + 1 for i in reversed(range(len(executed))) if needed(executed[i])), 0)
        self.furthest = _State(0)
        self.pairs: list[tuple[AnyExecuted, AnyEvent]] = []
        # by comm and pid: the thread, and the number of the first pair that has both
        self._thread_of: dict[tuple[str, int], tuple[int, int]] = {}
        self._tried: set[tuple[object, ...]] = set()

    def _fits(self, i: int, number: int) -> bool:
        ran, event = self.executed[i], self.printed[number]
        known = self._thread_of.get(event.task)
        return (known is None or known[0] == ran.call.thread) and not self.differ(ran, event)

    def _over(self, at: int, waits: int) -> bool:
        """May the event of the pending call be printed before call `at`? Yes, once the context that
        came in between has returned."""
        if at >= self.needed_end or at == waits + 1:
            return True
        mine, before, following = (self.executed[i].call for i in (waits, at - 1, at))
        return (following.thread != mine.thread or following.level <= mine.level
                or self.executed[at].seq >= self.executed[waits].done
                or before.thread != following.thread or following.trap != before.trap)

    def _next(self, state: _State) -> Iterator[Matched]:
        """The states that may follow, the most likely last."""
        at, executed = state.at, self.executed
        # Otherwise a context would continue while one of its events is not printed yet.
        free = at < len(executed) and all(executed[i].done > executed[at].seq
                                          for i in state.pending)
        if free and at < self.first and not state.number:  # it was executed before tracing was on
            yield _State(at + 1, 0, state.pending), None
        if free and at + 1 < len(executed) and executed[at + 1].seq < executed[at].done:
            yield _State(at + 1, state.number, (*state.pending, at), state.pairs), None
        if free and self._fits(at, state.number):
            yield _State(at + 1, state.number + 1, state.pending, state.pairs + 1), at
        for i in state.pending:
            if self._fits(i, state.number) and self._over(at, i):
                yield _State(at, state.number + 1, tuple(p for p in state.pending if p != i),
                             state.pairs + 1), i

    def _take(self, state: _State, matched: int | None) -> None:
        keep = state.pairs - (matched is not None)
        if keep < len(self.pairs):
            del self.pairs[keep:]
            self._thread_of = {who: known for who, known in self._thread_of.items()
                               if known[1] < keep}
        if matched is not None:
            ran, event = self.executed[matched], self.printed[state.number - 1]
            self._thread_of.setdefault(event.task, (ran.call.thread, keep))
            self.pairs.append((ran, event))

    def _missing(self, state: _State) -> int | None:
        """The first call whose event is missing, when all printed events were matched."""
        left = [i for i in state.pending if self.needed(self.executed[i])]
        left += [i for i in range(state.at, self.needed_end) if self.needed(self.executed[i])][:1]
        return min(left, default=None)

    def run(self, begin: int) -> bool:
        choices: list[Matched] = [(_State(begin), None)]
        while choices:
            s, matched = choices.pop()
            self._take(s, matched)
            if (s.number, s.at) >= (self.furthest.number, self.furthest.at):
                self.furthest = s
            if s.number == len(self.printed):
                if self._missing(s) is None:
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

    def _meant(self, state: _State) -> int:
        """The executed call to which the event probably belongs: one with its name, else the newest
        pending one."""
        waiting = [*state.pending[::-1], *([state.at] if state.at < len(self.executed) else [])]
        name = self.printed[state.number].func
        return next((at for at in waiting if self.executed[at].call.name == name),
                    waiting[0] if waiting else state.at)

    def parted(self, cpu: int) -> Divergence:
        s, executed, printed = self.furthest, self.executed, self.printed
        if s.number == len(printed):
            at = self._missing(s) or 0
            why = f"executed, but not printed: {executed[at]}"
        else:
            at, event = self._meant(s), printed[s.number]
            why = f"printed, but not executed: {event}" if at == len(executed) else (self.differ(
                executed[at], event) or f"pid {event.task[1]} is printed for two threads")
        return Divergence(cpu, why, at, s.number, executed, printed)


def _likeliest(executed: Sequence[AnyExecuted], printed: Sequence[AnyEvent],
               differ: Callable[[AnyExecuted, AnyEvent], str], last: int, look: int = 24) -> int:
    """The index in `executed`, at most `last`, from which on `look` calls fit the first printed
    events best."""
    def score(start: int) -> int:
        return next((n for n, (ran, event) in enumerate(zip(executed[start:start + look], printed))
                     if differ(ran, event)), look)

    return max(range(min(last + 1, len(executed))), key=score, default=0)


def align(executed: Mapping[int, Sequence[AnyExecuted]], printed: Sequence[AnyEvent],
          differ: Callable[[AnyExecuted, AnyEvent], str], whole: bool = True,
          needed: Callable[[AnyExecuted],
                           bool] = lambda ran: True) -> dict[int, Alignment[AnyExecuted, AnyEvent]]:
    """Align each CPU's calls and events. `differ` says why an event does not belong to a call, or
    returns "".

    `needed` says which calls must be printed. Other calls may be missing at the end and, unless the
    trace is `whole`, at the start: tracing was switched on and off between them.
    """
    found = {}
    for cpu in sorted({*executed, *(e.cpu for e in printed)}):
        mine, events = executed.get(cpu, ()), [e for e in printed if e.cpu == cpu]
        first = 0 if whole else next((i for i, ran in enumerate(mine) if needed(ran)), len(mine))
        search = _Search(mine, events, differ, needed, first)
        begins = sorted({0, _likeliest(mine, events, differ, first)}, reverse=True)
        found[cpu] = Alignment(search.pairs,
                               None if any(map(search.run, begins)) else search.parted(cpu))
    return found


def by_cpu(executed: Iterable[AnyExecuted]) -> dict[int, list[AnyExecuted]]:
    """Sort by CPU and fill in `done`: a context has continued when it, or one that it interrupted,
    executes again on that CPU."""
    cpus: dict[int, list[AnyExecuted]] = {}
    # for each thread on a CPU: the newest of each interrupt level
    waiting: dict[tuple[int, int], list[AnyExecuted]] = {}
    for ran in executed:
        inner = waiting.setdefault((ran.vcpu, ran.call.thread), [])
        while inner and inner[-1].call.level >= ran.call.level:
            before = inner.pop()
            before.done = min(before.done, ran.seq)
        inner.append(ran)
        cpus.setdefault(ran.vcpu, []).append(ran)
    return cpus


def differ(ran: Executed, event: FunctionEvent) -> str:
    """Why a function event does not belong to the call, or "". The printed 'h' is checked for the
    workload alone: other functions may run in an interrupt before the kernel has noted that it is
    in one."""
    call = ran.call
    if call.name != event.func:
        return f"executed {call.name}, printed {event.func}"
    if call.name.startswith("wl_") and bool(call.level) != event.interrupt:
        at, other = ("an interrupt", "a thread") if call.level else ("a thread", "an interrupt")
        return f"{call.name} ran in {at}, and is printed as if it ran in {other}"
    return ""

"""Holds a printed trace against the calls that were executed, CPU by CPU, in order.

One inversion is legal: an interrupt that comes between a call site and the
reservation of its event prints its own events first. So an executed call may
wait while calls of a higher interrupt level are printed, and no longer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    inversions: int = 0
    divergence: Divergence | None = None


def belongs(call: Call, event: Event) -> bool:
    """May the event be this call's? The workload tells its contexts apart by the printed 'h'.

    Other functions may run in an interrupt before the kernel has noted that it is in one.
    """
    return call.name == event.func and (not call.name.startswith("wl_") or bool(call.level) == event.interrupt)


def _difference(call: Call, event: Event) -> str:
    if call.name != event.func:
        return f"executed {call.name}, printed {event.func}"
    return f"{call.name} ran in {'an interrupt' if call.level else 'a thread'}, and is printed otherwise"


def align_cpu(cpu: int, executed: Sequence[Call], printed: Sequence[Event], first: int = 0,
              needed: Callable[[Call], bool] = lambda call: True) -> Alignment:
    """Match one CPU's printed events with its executed calls from executed[first] on.

    `needed` says which executed calls must be printed; others may be missing
    at the two ends only (the trace was switched on and off among them).
    """
    result = Alignment()
    pending: list[int] = []
    at = first

    def interrupts_are_over() -> bool:
        """What came between the waiting call and its event has returned: another interrupt may follow at once."""
        return (at == len(executed) or executed[at].level <= executed[pending[-1]].level
                or executed[at].trap != executed[at - 1].trap)

    def part(why: str, number: int) -> Alignment:
        result.divergence = Divergence(cpu, why, pending[-1] if pending else at, number, executed, printed)
        return result

    for number, event in enumerate(printed):
        while True:
            if pending and belongs(executed[pending[-1]], event) and interrupts_are_over():
                result.pairs.append((executed[pending.pop()], event))
                break
            if at == len(executed):
                return part(f"printed, but not executed: {event.func}", number)
            if belongs(executed[at], event) and not (pending and executed[at].level <= executed[pending[-1]].level):
                result.pairs.append((executed[at], event))
                at += 1
                break
            if at + 1 < len(executed) and executed[at + 1].level > executed[at].level and not (
                    pending and executed[at].level <= executed[pending[-1]].level):
                pending.append(at)
                result.inversions += 1
                at += 1
                continue
            return part(_difference(executed[at], event), number)
    left = [i for i in [*pending, *range(at, len(executed))] if needed(executed[i])]
    if left:
        pending, at = [], left[0]
        return part(f"executed, but not printed: {executed[at].name}", len(printed))
    return _same_threads(cpu, result, executed, printed)


def _same_threads(cpu: int, result: Alignment, executed: Sequence[Call], printed: Sequence[Event]) -> Alignment:
    """A pid stands for one thread."""
    thread_of: dict[tuple[str, int], int] = {}
    for number, (call, event) in enumerate(result.pairs):
        key = (event.comm if event.pid == 0 else "", event.pid)
        if thread_of.setdefault(key, call.thread) != call.thread:
            why = f"pid {event.pid} is printed for two threads"
            result.divergence = Divergence(cpu, why, number, number, executed, printed)
            return result
    return result


def find_start(executed: Sequence[Call], printed: Sequence[Event], look: int = 24) -> int:
    """Where in the executed calls the printed ones begin: the best place for the first few."""
    names = [e.func for e in printed[:look]]
    if not names:
        return 0
    best, best_score = 0, -1
    for start, call in enumerate(executed):
        if call.name != names[0]:
            continue
        score = 0
        for offset, name in enumerate(names):
            if start + offset >= len(executed) or executed[start + offset].name != name:
                break
            score += 1
        if score > best_score:
            best, best_score = start, score
        if score == len(names):
            break
    return best


def align(executed: Sequence[Call], printed: Sequence[Event], whole: bool = True,
          needed: Callable[[Call], bool] = lambda call: True) -> dict[int, Alignment]:
    """By CPU. `whole`: the printed trace begins with the first executed call."""
    cpus = sorted({c.vcpu for c in executed} | {e.cpu for e in printed})
    alignments = {}
    for cpu in cpus:
        mine = [c for c in executed if c.vcpu == cpu]
        theirs = [e for e in printed if e.cpu == cpu]
        first = 0 if whole else find_start(mine, theirs)
        skipped = next((i for i in range(first) if needed(mine[i])), None)
        if skipped is not None and not whole:
            first = skipped
        alignments[cpu] = align_cpu(cpu, mine, theirs, first, needed)
    return alignments

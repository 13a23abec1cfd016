"""Pairs function_graph's printed lines with the executed calls; each call is an entry and a return.

The text does not say whether a call ran in an interrupt or in the thread; grading/checks/align.py
tries both.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cache

from grading.checks.align import Executed, by_cpu
from grading.machine.observer import Record
from grading.text.graph_text import ENTRY, RETURN, GraphEvent
from grading.truth.returns import Leaving, Span

# does this call have a frame, so that its return address is replaced?
Framed = Callable[[Span], bool]


@dataclass(eq=False)
class GraphStep(Executed):
    """An entry or a return that was executed."""

    kind: str = field(kw_only=True)
    span: Span = field(kw_only=True)
    # all depths that may be printed: a frame that was just being pushed or popped may count or not
    depths: frozenset[int] = field(kw_only=True)

    def __str__(self) -> str:
        return f"{self.kind} of {self.span.name}"

    def text(self) -> str:
        said = f"{self.span.name}() {{" if self.kind == ENTRY else f"}} /* {self.span.name} */"
        return "  " * min(self.depths) + said + (f"  level {self.call.level}"
                                                 if self.call.level else "")


def differ(step: GraphStep, event: GraphEvent) -> str:
    if step.kind != event.kind or event.func not in (step.span.name, ""):
        return f"executed the {step}, printed the {event}"
    if event.depth not in step.depths:
        return (f"{step}: {min(step.depths)} traced calls are around it, and the printed depth is "
                f"{event.depth}")
    return ""


def nobody(_: Span) -> bool:
    return False


class _Depths:
    """The least and the greatest depth of a call: a frame that was just being pushed or popped may
    count or not.

    `unsure`: the calls that count but may have no frame.
    """

    def __init__(self, counts: Framed, unsure: Framed) -> None:
        self._counts, self._unsure = counts, unsure
        self._known: dict[Span, tuple[int, int]] = {}

    def of(self, span: Span) -> tuple[int, int]:
        if span not in self._known:
            self._known[span] = self._beneath(span)
        return self._known[span]

    def _beneath(self, span: Span) -> tuple[int, int]:
        below = span.below
        least, most = self.of(below) if below else (0, 0)
        if below and self._counts(below):
            most += 1
            least += below not in span.transit and not self._unsure(below)
        return least, most + sum(self._counts(s) for s in span.transit if s is not below)


@cache
def _between(*bounds: tuple[int, int]) -> frozenset[int]:
    return frozenset(depth for least, most in bounds for depth in range(least, most + 1))


def hit_of(span: Span, framed: Framed) -> int | None:
    """The index in span.leaving.hits of this call's run of return_to_handler; None: it has none."""
    if not span.leaving or not framed(span):
        return None
    at = [s for s in span.leaving.spans if framed(s)].index(span)
    return at if at < len(span.leaving.hits) else None


def _seen_leaving(span: Span, leaving: Leaving, framed: Framed) -> Record:
    """This call's run of return_to_handler. In a chain of tail calls one call may have no frame,
    because its user has just been unregistered: then the last run is taken for the rest of the
    chain."""
    if not leaving.hits or not framed(span):
        return leaving.left
    at = hit_of(span, framed)
    return leaving.hits[-1 if at is None else at]


def steps(spans: Sequence[Span], names: Collection[str], framed: Framed,
          unsure: Framed = nobody) -> dict[int, list[GraphStep]]:
    """By CPU: the entries and returns that a user with the filter `names` must print, if the calls
    `framed` have frames.

    The depth may be that of the shadow stack, as on Linux, where it counts the frames of all users,
    or that of the user's own frames. `unsure`: calls that may have no frame because their user was
    just being unregistered.
    """
    found: list[GraphStep] = []
    own, every = _Depths(lambda s: s.name in names, nobody), _Depths(framed, unsure)
    for span in spans:
        if span.name not in names:
            continue
        call, depths = span.call, _between(own.of(span), every.of(span))
        found.append(GraphStep(call, call.seq, call.vcpu, (span.body or call).seq, kind=ENTRY,
                               span=span, depths=depths))
        if span.leaving:
            hit = _seen_leaving(span, span.leaving, framed)
            found.append(GraphStep(call, hit.seq, hit.vcpu, (span.leaving.back or hit).seq,
                                   kind=RETURN, span=span, depths=depths))
    # in a chain of tail calls the innermost comes first
    return by_cpu(sorted(found, key=lambda s: (s.seq, -s.call.seq)))

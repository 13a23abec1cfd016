"""Follows each call of the workload and of kern/apps/frames.c, from its call site to its return.

Only executed addresses are used. A call must return to the address after its call
instruction. Between the function's last instruction and that address only
return_to_handler may run in the same context, once for each traced call; in a
chain of tail calls once for each function of the chain, the last function first.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from grading.elf.elf import Kernel, Site
from grading.machine.observer import Record

if TYPE_CHECKING:
    from grading.truth.truth import Call

FOLLOWED = ("wl_", "frames_traced")
HANDLER = "return_to_handler"
# of the function_graph tracer; the second argument is the user
HANDLERS = ("trace_graph_entry", "trace_graph_return")


@dataclass(eq=False)
class Span:
    """One call."""

    call: Call
    insns: int  # instructions that its CPU had executed at the site
    maker: Span | None  # the call, in the same context, that made this one
    tail: bool  # is it a tail call, made by a jump?
    home: int  # the return address: after the call instruction; for a tail call, the maker's
    below: Span | None  # the thread's newest call in flight, at any interrupt level
    transit: tuple[Span, ...]  # calls of the thread that were just being entered or returned from
    body: Record | None = None  # the instruction after the site
    leaving: Leaving | None = None
    name: str = field(init=False)
    seq: int = field(init=False)

    def __post_init__(self) -> None:
        self.name, self.seq = self.call.name, self.call.seq

    @property
    def depth(self) -> int:
        return 1 + self.maker.depth if self.maker else 1


@dataclass(eq=False)
class Leaving:
    """A return instruction, which ends one call or a whole chain of tail calls."""

    spans: list[Span]  # the innermost first
    left: Record  # the return instruction
    hits: list[Record] = field(default_factory=list)  # return_to_handler
    back: Record | None = None  # the next record of this context, after the handlers
    # the users' handlers, each with struct ftrace_regs
    user_handlers: list[Record] = field(default_factory=list)


@dataclass
class Returns:
    spans: list[Span] = field(default_factory=list)
    # runs of return_to_handler although no followed call had just returned
    stray: list[Record] = field(default_factory=list)
    # return instructions of functions that had not been entered
    unmatched: list[Record] = field(default_factory=list)


@cache
def _jumps(kernel: Kernel) -> dict[int, list[tuple[int, int]]]:
    """The addresses of the direct calls and jumps in text, by the function that they reach, each
    with its link register (0: it is a jump). That of a pair is the address of its second word."""
    lo, _ = kernel.text
    found: dict[int, list[tuple[int, int]]] = {f.start: [] for f in kernel.functions}
    before = 0
    for address, (word,) in enumerate(struct.iter_unpack("<I", kernel.text_bytes())):
        address = lo + 4 * address
        jump = kernel.isa.any_jump(address, before, word)
        if jump and jump[0] in found:
            found[jump[0]].append((address, jump[1]))
        before = word
    return found


def calls_to(kernel: Kernel, name: str | tuple[str, ...],
             extent: tuple[int, int] | None = None) -> list[int]:
    """The call instructions whose target is this function, in all of text or in `extent`. A tuple
    has prefixes of functions' names."""
    targets = {f.start for f in kernel.functions
               if (f.name == kernel.named(name) if isinstance(name, str) else
                   f.name.startswith(name))}
    lo, hi = extent or kernel.text
    return [a for target in targets for a, link in _jumps(kernel)[target] if link and lo <= a < hi]


def ends(kernel: Kernel, name: str) -> list[int]:
    """The addresses of which one is executed when a call of this function ends: its returns and
    tail calls. After a tail call of a function of the same file the call goes on: then they are
    those at which its callers continue."""
    start, _ = kernel.extent(name)
    found = set[int]()
    for at in kernel.exits(name):
        target = kernel.jumps_to(at)
        if target and any(lo <= target < hi for lo, hi in kernel.code_with(start)):
            found |= _continues(kernel, start)
        else:
            found.add(at)
    return sorted(found)


def _continues(kernel: Kernel, start: int, seen: frozenset[int] = frozenset()) -> set[int]:
    """Where the direct callers of this function continue, also those of a function that ends with a
    tail call of it."""
    found = set[int]()
    for at, link in _jumps(kernel)[start]:
        caller = kernel.function_at(at)
        if link:
            found.add(at + 4)
        elif caller and caller.start not in seen | {start}:
            found |= _continues(kernel, caller.start, seen | {start})
    return found


@dataclass(frozen=True)
class Places:
    """The addresses of a kernel that the observer must watch to follow calls."""

    handler: int
    bodies: dict[int, Site]
    exits: dict[int, Site]
    homes: set[int]


@cache
def places(kernel: Kernel, followed: tuple[str, ...] = FOLLOWED) -> Places:
    """The places for the functions whose names begin with one of these. Their tail calls must go to
    functions of the same group."""
    handler = kernel.symbol(HANDLER)
    sites = [s for s in kernel.sites if s.function.name.startswith(followed)] if handler else []
    return Places(handler, {s.address + 4: s for s in sites},
                  {a: s for s in sites for a in range(s.function.start, s.function.end, 4)
                   if kernel.word(a) == kernel.isa.ret}, {a + 4 for a in calls_to(kernel, followed)}
                  if handler else set())


class _Context:
    """A thread, or one interrupt of a thread."""

    def __init__(self) -> None:
        self.stack: list[Span] = []
        self.leaving: Leaving | None = None


class Reader:
    """Follows the contexts record by record."""

    def __init__(self, watched: Places) -> None:
        self.places = watched
        self.returns = Returns()
        self._contexts: dict[tuple[int, int, int], _Context] = defaultdict(_Context)

    def site(self, record: Record, call: Call) -> None:
        context = self._contexts[record.context]
        self._arrive(context, record)
        if record.addr + 4 not in self.places.bodies:
            return
        top = context.stack[-1] if context.stack else None
        # the maker's stack frame is popped: this call returns in its place
        tail = bool(top and call.sp == top.call.sp)
        home = top.home if tail and top else call.parent
        below, transit = self._under(call)
        span = Span(call, record.insns, top, tail, home, below, transit)
        context.stack.append(span)
        self.returns.spans.append(span)

    def _under(self, call: Call) -> tuple[Span | None, tuple[Span, ...]]:
        """The thread's newest call in flight below a new call, and the calls that were just being
        entered or returned from."""
        transit: list[Span] = []
        for level in range(call.level, -1, -1):
            context = self._contexts.get((call.thread, level, call.trap if level else 0))
            if not context:
                continue
            if context.leaving:
                transit += context.leaving.spans
            if context.stack:
                top = context.stack[-1]
                return top, tuple(transit + ([top] if not top.body else []))
        return None, tuple(transit)

    def handler(self, record: Record) -> None:
        context = self._contexts[record.context]
        if context.leaving:
            context.leaving.hits.append(record)
        else:
            self.returns.stray.append(record)

    def user_handler(self, record: Record) -> None:
        context = self._contexts[record.context]
        if context.leaving:
            context.leaving.user_handlers.append(record)

    def body(self, record: Record) -> None:
        context = self._contexts[record.context]
        self._arrive(context, record)
        top = context.stack[-1] if context.stack else None
        if top and not top.body and top.call.site.address + 4 == record.addr:
            top.body = record

    def home(self, record: Record) -> None:
        self._arrive(self._contexts[record.context], record)

    def exit(self, record: Record) -> None:
        context = self._contexts[record.context]
        self._arrive(context, record)
        spans: list[Span] = []
        while context.stack and (not spans or spans[-1].tail):
            spans.append(context.stack.pop())
        if not spans or spans[0].call.site is not self.places.exits[record.addr]:
            self.returns.unmatched.append(record)
            return
        context.leaving = Leaving(spans, record)
        for span in spans:
            span.leaving = context.leaving

    def _arrive(self, context: _Context, record: Record) -> None:
        """A context executes again, so the call that was returning has returned to this record's
        address."""
        if context.leaving:
            context.leaving.back = record
            context.leaving = None

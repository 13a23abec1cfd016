"""How calls ended, the workload's or others that are followed: from the call site to the instruction behind the call.

Everything is an address that was executed. The call instruction says where the
call must come home to; between the function's last instruction and that place
nothing may run in the same context but return_to_handler, once for each call
that is traced: a tail call has one for each function of the chain, the last first.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from grading.elf import Kernel, Site
from grading.insn import RISCV64
from grading.observer import Record

if TYPE_CHECKING:
    from grading.truth import Call

WORKLOAD = ("wl_",)
HANDLER = "return_to_handler"
HANDLERS = ("trace_graph_entry", "trace_graph_return")  # of the function_graph tracer, each with its user as second argument


@dataclass(eq=False)
class Span:
    """One call."""

    call: Call
    insns: int  # executed by its CPU when the site was
    maker: Span | None  # who made the call, in the same context
    tail: bool  # by a jump
    home: int  # the address behind the call instruction; of a tail call, its maker's
    below: Span | None  # the thread's newest call that was out, whatever its level
    transit: tuple[Span, ...]  # calls of the thread that were just being entered or left
    body: Record | None = None  # the instruction behind the site
    leaving: Leaving | None = None

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def depth(self) -> int:
        return 1 + self.maker.depth if self.maker else 1


@dataclass(eq=False)
class Leaving:
    """A return: of one call, and of those that it was the tail of."""

    spans: list[Span]  # the innermost first
    left: Record  # the return instruction
    hits: list[Record] = field(default_factory=list)  # return_to_handler
    back: Record | None = None  # what ran next in this context


@dataclass
class Returns:
    spans: list[Span] = field(default_factory=list)
    stray: list[Record] = field(default_factory=list)  # return_to_handler, and no call that is followed had just ended
    unmatched: list[Record] = field(default_factory=list)  # the last instruction of a function that had not begun


def calls_to(kernel: Kernel, prefix: str | tuple[str, ...]) -> list[int]:
    """Each call instruction whose target is a function with such a name."""
    targets = {f.start for f in kernel.functions if f.name.startswith(prefix)}
    lo, _ = kernel.text
    words = struct.unpack(f"<{len(kernel.text_bytes()) // 4}I", kernel.text_bytes())
    found = []
    for i, word in enumerate(words):
        address = lo + 4 * i
        jump = kernel.isa.jump(address, word)
        if not jump and kernel.arch == "riscv64" and i:
            jump = RISCV64.far_call(address - 4, words[i - 1], word)
        if jump and jump[1] and jump[0] in targets:
            found.append(address)
    return found


def user_loads(kernel: Kernel) -> dict[int, int]:
    """In the tracer's two handlers: the first load from the second argument, by its offset there.

    Its address says whose handler runs.
    """
    found = {}
    for name in HANDLERS:
        held = {kernel.isa.arguments + 1}
        for at in range(*kernel.extent(name), 4):
            word = kernel.word(at)
            move, load = kernel.isa.move(word), kernel.isa.load(word)
            if move and move[1] in held:
                held.add(move[0])
            if load and load[0] in held:
                found[at] = load[1]
                break
    return found


@dataclass(frozen=True)
class Places:
    """The addresses of one kernel that the observer watches for this."""

    handler: int
    bodies: dict[int, Site]
    exits: dict[int, Site]
    calls: set[int]
    ret: int  # the return instruction

    def points(self) -> set[int]:
        return {self.handler, *self.bodies, *self.exits, *self.calls, *(a + 4 for a in self.calls)} - {0}


def places(kernel: Kernel, followed: tuple[str, ...] = WORKLOAD) -> Places:
    """Of the functions whose names begin so; one that ends in a jump must jump to another of them."""
    handler = kernel.symbol(HANDLER)
    sites = [s for s in kernel.sites if s.function.name.startswith(followed)] if handler else []
    return Places(handler, {s.address + 4: s for s in sites},
                  {a: s for s in sites for a in kernel.exits(s.function.name)},
                  set(calls_to(kernel, followed)) if handler else set(), kernel.isa.ret)


class _Context:
    """A thread, or one interrupt of a thread."""

    def __init__(self) -> None:
        self.stack: list[Span] = []
        self.call = 0  # the call instruction that was just executed
        self.jumped = False  # the top's last instruction was a jump: perhaps to another function
        self.leaving: Leaving | None = None


class Reader:
    """Follows the contexts record by record; is told who runs."""

    def __init__(self, watched: Places) -> None:
        self.places = watched
        self.returns = Returns()
        self._contexts: dict[tuple[int, int, int], _Context] = defaultdict(_Context)

    def site(self, r: Record, call: Call) -> None:
        context = self._contexts[call.thread, call.level, call.trap]
        self._arrive(context, r)
        if call.site.address + 4 not in self.places.bodies:
            return
        top = context.stack[-1] if context.stack else None
        tail = bool(context.jumped and top)
        home = context.call + 4 if context.call else top.home if tail and top else 0
        below, transit = self._under(call)
        span = Span(call, r.insns, top, tail, home, below, transit)
        context.stack.append(span)
        context.call, context.jumped = 0, False
        self.returns.spans.append(span)

    def _under(self, call: Call) -> tuple[Span | None, tuple[Span, ...]]:
        """What the thread has out beneath a new call, and which of it was just on its way in or out."""
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

    def point(self, r: Record, who: tuple[int, int, int]) -> None:
        context = self._contexts[who]
        if r.addr == self.places.handler:
            if context.leaving:
                context.leaving.hits.append(r)
            else:
                self.returns.stray.append(r)
            return
        self._arrive(context, r)
        top = context.stack[-1] if context.stack else None
        if r.addr in self.places.bodies and top and not top.body and top.call.site is self.places.bodies[r.addr]:
            top.body = r
        if r.addr in self.places.exits:
            self._leave(context, r)
        if r.addr in self.places.calls:
            context.call, context.jumped = r.addr, False

    def _arrive(self, context: _Context, r: Record) -> None:
        """The context goes on: what was returning has returned, to here."""
        if context.leaving:
            context.leaving.back = r
            context.leaving = None

    def _leave(self, context: _Context, r: Record) -> None:
        if r.value != self.places.ret:
            context.jumped = True
            return
        spans: list[Span] = []
        while context.stack and (not spans or spans[-1].tail):
            spans.append(context.stack.pop())
        context.jumped = False
        if not spans or spans[0].call.site is not self.places.exits[r.addr]:
            self.returns.unmatched.append(r)
            return
        context.leaving = Leaving(spans, r)
        for span in spans:
            span.leaving = context.leaving

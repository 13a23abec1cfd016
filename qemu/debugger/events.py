# mypy: no-warn-return-any, allow-subclassing-any
"""trace: the newest events, read from the rings' memory, also after a panic.

The lines are those of `cat trace` with the options that are on after boot. Nothing is
consumed. A page that a reader has taken out of the ring is read, too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import islice

import gdb  # type: ignore[import]

from qemu.debugger.guest import (Command, Value, address, as_int, evaluate, name_of, need_kernel,
                                 offset_of, pointer, read, text)

# A slot's word, as ring_buffer.h draws it: | EMPTY 1 | page 20 | position 43 |
EMPTY, POSITION_BITS = 1 << 63, 43
RULE = " ------------------------------------------\n"


@dataclass(frozen=True)
class BufferEvent:
    ts: int
    cpu: int
    data: bytes
    lost: int = 0

    def number(self, name: str, at: int, layout: str = "Q") -> int:
        return int(struct.unpack_from("<" + layout, self.data, at)[0])

    def field(self, type_name: str, name: str, layout: str = "Q") -> int:
        return self.number(name, offset_of(type_name, name), layout)

    @property
    def type(self) -> int:
        return self.field("struct trace_entry", "type", "H")

    @property
    def pid(self) -> int:
        return self.field("struct trace_entry", "pid", "i")


# ---- Rings ----


@dataclass(frozen=True)
class BufferPage:
    """Unread data of one page: the time before its first event, that event's number."""

    ts: int
    first: int
    data: bytes


def page_of(desc: Value, ts: int | None = None, first: int | None = None,
            offset: int = 0) -> BufferPage:
    page = desc["page"].dereference()
    data = read(as_int(page["data"].address) + offset, as_int(page["commit"]) - offset)
    return BufferPage(as_int(page["time_stamp"]) if ts is None else ts,
                      as_int(desc["first"]) if first is None else first, data)


def pages_newest_first(rb: Value) -> Iterator[BufferPage]:
    slots, position = int(rb["nr_slots"]), as_int(rb["position"])
    held = rb["pages"][int(rb["held"])]
    for p in range(position, max(position - slots, -1), -1):
        word = as_int(rb["slots"][p % slots])
        if not word & EMPTY and word & (1 << POSITION_BITS) - 1 == p:
            yield page_of(rb["pages"][(word & ~EMPTY) >> POSITION_BITS])
    if rb["holds_events"] and int(rb["offset"]) < as_int(held["page"]["commit"]):
        yield page_of(held, as_int(rb["ts"]), as_int(rb["seq"]), int(rb["offset"]))


def decode(page: BufferPage, cpu: int) -> list[BufferEvent]:
    extend, stamp, padding = (int(gdb.parse_and_eval(f"RB_{n}"))
                              for n in ("TIME_EXTEND", "TIME_STAMP", "PADDING"))
    found, at, ts, bits = [], 0, page.ts, 27
    while at + 4 <= len(page.data):
        head, = struct.unpack_from("<I", page.data, at)
        kind, delta = head & 31, head >> 5
        if kind == padding:
            break
        if kind in (extend, stamp):
            delta |= struct.unpack_from("<I", page.data, at + 4)[0] << bits
            ts = delta if kind == stamp else ts + delta
            at += 8
            continue
        ts += delta
        start = at + (4 if kind else 8)
        size = 4 * kind if kind else struct.unpack_from("<I", page.data, at + 4)[0] - 4
        found.append(BufferEvent(ts, cpu, page.data[start:start + size]))
        at = start + size
    return found


def newest(rb: Value, cpu: int, count: int) -> list[BufferEvent]:
    """At least the newest @count events, if there are as many, oldest first."""
    events: list[BufferEvent] = []
    first = None  # the number of events[0]
    for page in pages_newest_first(rb):
        older = decode(page, cpu)
        if events and first is not None and first > page.first + len(older):
            events[0] = BufferEvent(events[0].ts, cpu, events[0].data,
                                    first - page.first - len(older))
        events, first = older + events, page.first
        if len(events) >= count:
            break
    return events


# ---- Lines ----


@cache
def name_at(at: int) -> str:
    return name_of(at)


def comm_of(pid: int) -> str:
    comms = evaluate("saved_comms")
    if pid == 0:
        return "<idle>"
    return text(comms[pid]) or "<...>" if comms is not None and 0 < pid < 4096 else "<...>"


def flags_of(event: BufferEvent) -> str:
    flags, depth = (event.field("struct trace_entry", n, "B") for n in ("flags", "preempt_count"))
    irqs, resched, hard, soft = flags & 1, flags & 4, flags & 8, flags & 0x10
    return ("d" if irqs else ".") + \
        ("N" if resched and flags & 0x20 else "n" if resched else "p" if flags & 0x20 else ".") + \
        ("H" if hard and soft else "h" if hard else "s" if soft else ".") + \
        "".join(f"{d:x}" if d else "." for d in (depth & 15, depth >> 4))


def time_of(event: BufferEvent, clock: Value) -> str:
    if not clock["in_ns"]:
        return f" {event.ts:12}"
    us = (event.ts + 500) // 1000
    return f" {us // 1000000:5}.{us % 1000000:06}"


def print_text(event: BufferEvent) -> str:
    text = event.data[offset_of("struct print_entry", "buf"):].split(b"\0")[0]
    return text.decode(errors="replace")


def common_line(event: BufferEvent, clock: Value) -> str:
    line = (f"{comm_of(event.pid):>16}-{event.pid:<7} [{event.cpu:03}] "
            f"{flags_of(event)}{time_of(event, clock)}: ")
    if event.type == int(gdb.parse_and_eval("TRACE_FN")):
        ip, parent = (event.field("struct function_entry", n) for n in ("ip", "parent_ip"))
        return f"{line}{name_at(ip)} <-{name_at(parent)}\n"
    if event.type == int(gdb.parse_and_eval("TRACE_PRINT")):
        return f"{line}{name_at(event.field('struct print_entry', 'ip'))}: {print_text(event)}"
    return f"{line}Unknown type {event.type}\n"


@dataclass
class GraphCpu:
    """The state of a CPU on which its next line of function_graph depends."""

    last_pid: int | None = None
    depth: int = 0
    open: dict[int, int] = field(default_factory=dict)


ENTRY, RETURN = "struct ftrace_graph_ent_entry", "struct ftrace_graph_ret_entry"


def duration(ns: int) -> str:
    mark = next((m for above, m in ((10**9, "$"), (10**8, "@"), (10**7, "*"), (10**6, "#"),
                                    (10**5, "!"), (10**4, "+")) if ns > above), " ")
    whole = str(ns // 1000)
    number = whole if len(whole) > 6 else f"{whole}.{ns % 1000:03}"[:8]
    return f"{mark} {number} us {'':{max(8 - len(number), 0)}}|  "


class Graph:
    """Prints function_graph's events: a call and its return are one line if no event is between
    them."""

    def __init__(self) -> None:
        self._cpus: dict[int, GraphCpu] = {}
        self._irq = address("__irqentry_text_start") or 0, address("__irqentry_text_end") or 0
        self.types = {int(v): n for n in ("ENT", "RET", "RETADDR_ENT")
                      if (v := evaluate(f"TRACE_GRAPH_{n}")) is not None}

    @staticmethod
    def _proc(pid: int) -> str:
        """The name and pid, centred in 14 columns; if the number of blanks is odd, the extra one
        comes last."""
        who = f"{comm_of(pid)[:7]}-{pid}"
        spaces = max(14 - len(who), 0)
        return f"{'':{spaces // 2}}{who}{'':{spaces - spaces // 2}}"

    def _switch(self, state: GraphCpu, event: BufferEvent) -> str:
        last, state.last_pid = state.last_pid, event.pid
        if last is None or last == event.pid:
            return ""
        return f"{RULE} {event.cpu}) {self._proc(last)} => {self._proc(event.pid)}\n{RULE}\n"

    def _arrow(self, event: BufferEvent, func: int, arrow: str) -> str:
        return f" {event.cpu})   {arrow} |\n" if self._irq[0] <= func < self._irq[1] else ""

    def lines(self, event: BufferEvent, following: BufferEvent | None) -> tuple[str, int]:
        """The text, and how many of the two events it shows."""
        state = self._cpus.setdefault(event.cpu, GraphCpu())
        switch = self._switch(state, event)
        kind = self.types.get(event.type)
        if kind == "RET":
            return switch + self._return(state, event), 1
        if kind is None:
            depth = state.depth + 1 if state.depth > 0 else 0
            return (f"{switch} {event.cpu})               |  {'':{2 * depth}}/* "
                    f"{print_text(event).rstrip(chr(10))} */\n", 1)
        func, depth = event.field(ENTRY, "func"), event.field(ENTRY, "depth", "i")
        arrow = self._arrow(event, func, "==========>")
        if following and self._is_leaf(event, func, depth, following):
            state.depth, state.open[depth] = depth - 1, 0
            line = f" {event.cpu}) {self._took(following)}{'':{2 * depth}}{name_at(func)}();\n"
            return switch + arrow + line + self._arrow(event, func, "<=========="), 2
        state.depth, state.open[depth] = depth, func
        return (
            f"{switch}{arrow} {event.cpu})               |  {'':{2 * depth}}{name_at(func)}() {{\n",
            1)

    def _is_leaf(self, event: BufferEvent, func: int, depth: int, following: BufferEvent) -> bool:
        return (self.types.get(following.type) == "RET" and not following.lost
                and following.pid == event.pid and following.field(RETURN, "depth", "i") == depth
                and following.field(RETURN, "func") == func)

    def _took(self, event: BufferEvent) -> str:
        return duration(event.field(RETURN, "rettime") - event.field(RETURN, "calltime"))

    def _return(self, state: GraphCpu, event: BufferEvent) -> str:
        func, depth = event.field(RETURN, "func"), event.field(RETURN, "depth", "i")
        told = "" if state.open.get(depth) == func else f" /* {name_at(func)} */"
        state.depth, state.open[depth] = depth - 1, 0
        return (f" {event.cpu}) {self._took(event)}{'':{2 * depth}}}}{told}\n"
                + self._arrow(event, func, "<=========="))


def printed(events: list[BufferEvent], tracer: str, clock: Value) -> Iterator[str]:
    graph = Graph()
    queues: dict[int, list[BufferEvent]] = {}
    for event in reversed(events):
        queues.setdefault(event.cpu, []).append(event)
    while any(queues.values()):
        queue = min((q for q in queues.values() if q), key=lambda q: (q[-1].ts, q[-1].cpu))
        event = queue.pop()
        if event.lost:
            yield f"CPU:{event.cpu} [LOST {event.lost} EVENTS]\n"
        if tracer == "function_graph" and (event.type in graph.types
                                           or event.type == int(gdb.parse_and_eval("TRACE_PRINT"))):
            line, used = graph.lines(event, queue[-1] if queue else None)
            if used == 2:
                queue.pop()
            yield line
        else:
            yield common_line(event, clock)


class TraceCommand(Command):
    """trace [N]: the newest N events (20) of all CPUs, as `cat trace` shows them.

The events are read from the rings' memory: nothing runs in the guest, so the command also works
after a panic. A function whose entry is not among the N events is named at its closing brace."""

    name = "trace"

    def run(self, words: list[str]) -> None:
        need_kernel()
        if len(words) > 1 or (words and not words[0].isdigit()):
            raise gdb.GdbError("trace [N]")
        count = int(words[0]) if words else 20
        tr = gdb.parse_and_eval("global_trace")
        name_at.cache_clear()
        rings = [tr["cpu"][n] for n in range(int(gdb.parse_and_eval("nr_cpus")))]
        events = sorted((e for n, rb in enumerate(rings) if int(rb["nr_slots"])
                         for e in newest(rb, n, count)), key=lambda e: (e.ts, e.cpu))
        there = sum(
            as_int(rb["accepted"]) - as_int(rb["overrun"]) - as_int(rb["read"]) for rb in rings)
        shown = events[-count:] if count else []
        tracer = text(tr["tracer"]["name"]) if int(tr["tracer"]) else "nop"
        gdb.write(f"# tracer: {tracer}; {len(shown)} of {there} events\n")
        for line in printed(shown, tracer, tr["clock"]):
            gdb.write(line)

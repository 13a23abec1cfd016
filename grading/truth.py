"""What was executed, put together from the observer's records.

A thread is known by the address that the switch code loads its context from,
its interrupt level by the exception entries and returns that it has behind it.
The memory of a dead thread may be another's: each that begins is a new one.
"""

from __future__ import annotations

import gc
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from grading import returns
from grading.elf import Kernel, Site
from grading.observer import Config, Kind, Record
from qemu.machine import Machine

# Reached from call sites; what begins the tracer's own work.
TRAMPOLINES = ("_mcount", "ftrace_caller")
CALLBACKS = ("function_trace_call",)
HAND_USERS = ("hand_entry", "hand_return")
BIRTH = "thread_start_asm"  # a thread's first instruction
ANOTHER = 1 << 64  # to a thread's address, for each that had it before
AT_ENTRY, AT_RETURN, OF_PARENT = range(3)
# The shell's ops (kern/ftrace/op.c), and what they load from when they are called.
OP_CALLBACKS = ("op_see", "op_add", "op_patch")
OPS, OP_SEEN = 8, 512
# Lab 3's writers of text, whose loads tell whether they looked before.
PATCHERS = ("ftrace_make_call", "ftrace_make_nop", "ftrace_modify_call", "ftrace_init_nop", "ftrace_update_ftrace_func",
            "patch_word")
# A caller with a pattern in every register (kern/apps/registers.c), and the tracer that it is called with.
PATTERN_CALL, PATTERN_TRACER, PATTERN_BACK = "registers_out", "registers_tracer", "registers_back"
PATTERN_ITEMS = 30
ENTRY_ITEMS = 36  # kern/apps/entry.c
# What a batch makes use of.
BATCH_STEPS = ("text_alias_open", "text_alias_close", "arch_sync_all")
RETURNS_FROM_EXCEPTION = {"riscv64": 0x10200073, "arm64": 0xD69F03E0}


@dataclass(frozen=True)
class Call:
    """A call site that was executed."""

    seq: int
    vcpu: int
    thread: int
    level: int
    site: Site
    word: int
    trap: int = 0  # level > 0: which of the thread's interrupts
    insns: int = 0  # that its CPU had executed

    @property
    def name(self) -> str:
        return self.site.function.name


@dataclass(frozen=True)
class Touch:
    """An address that watched code loaded from, and who ran it."""

    seq: int
    vcpu: int
    thread: int
    level: int
    pc: int
    addr: int
    insns: int = 0


@dataclass(frozen=True)
class Told:
    """A user that the shell made (`graph`) is told something; the value is kept modulo 256."""

    seq: int
    vcpu: int
    thread: int
    level: int
    user: int
    what: int  # AT_ENTRY, AT_RETURN, OF_PARENT
    value: int


@dataclass
class Batch:
    """From the entry of ftrace_batch_begin to the end of ftrace_batch_end, on one CPU."""

    vcpu: int
    begin: int
    end: int | None = None
    stores: list[Record] = field(default_factory=list)
    online: frozenset[int] = frozenset()
    steps: list[tuple[str, int]] = field(default_factory=list)  # BATCH_STEPS, in the order in which they were entered, and when
    syncing: bool = False  # its last act is a jump to arch_sync_all: it ends with that


@dataclass(frozen=True)
class Answer:
    """Lab 2: of lookup_rec, to a question of kern/apps/lookup.c."""

    item: int
    right: bool
    null: bool
    insns: int  # that its CPU had executed


@dataclass
class Truth:
    calls: list[Call] = field(default_factory=list)
    trampolines: list[Record] = field(default_factory=list)
    callbacks: list[Record] = field(default_factory=list)
    touches: list[Touch] = field(default_factory=list)  # of workload_probe
    op_touches: list[Touch] = field(default_factory=list)  # of op_probe
    stores: list[Record] = field(default_factory=list)
    fences: list[Record] = field(default_factory=list)
    operands: list[Record] = field(default_factory=list)  # loads from what a cache operation then works on
    batches: list[Batch] = field(default_factory=list)
    handlers: list[Record] = field(default_factory=list)  # return_to_handler
    unregistered: list[Record] = field(default_factory=list)  # a user of function_graph has left
    returns: returns.Returns = field(default_factory=returns.Returns)
    told: list[Told] = field(default_factory=list)
    idle: list[Record] = field(default_factory=list)  # ftrace_stub, the tracer that does nothing
    faults_in_stub: int = 0  # exceptions right behind the entry of a trampoline
    looks: list[Record] = field(default_factory=list)  # of the patcher, at words of text
    pattern: list[str] = field(default_factory=list)  # PATTERN_..., in the order in which they ran
    pattern_at: list[int] = field(default_factory=list)  # and when
    kept: dict[tuple[bool, int], bool] = field(default_factory=dict)  # what registers.c saw: (traced, item) -> was it right?
    entered: dict[tuple[bool, int], bool] = field(default_factory=dict)  # what entry.c saw: (changed, item) -> was it right?
    frames: dict[int, set[bool]] = field(default_factory=dict)  # what frames.c saw: item -> right, wrong, or now this, now that
    switches: list[int] = field(default_factory=list)  # to another thread, by seq
    traps: list[int] = field(default_factory=list)  # exceptions taken, by seq
    answers: list[Answer] = field(default_factory=list)  # what lookup.c saw, in the order in which it asked
    users: list[Touch] = field(default_factory=list)  # function_graph's handlers, each with the address of its user


@cache
def stubs(kernel: Kernel) -> tuple[int, ...]:
    """Every address that a patched call site may call."""
    named = [a for n, a in kernel.symbols.items() if re.match(r"ftrace_(island_\d+_)?stub_\d+$", n)]
    return tuple(sorted({*named, kernel.symbol("ftrace_stubs"), *(kernel.symbol(n) for n in TRAMPOLINES)} - {0}))


def vectors(kernel: Kernel) -> list[int]:
    if kernel.arch == "riscv64":
        return [kernel.symbol("exception_vector")]
    table = kernel.symbol("exception_vector")
    return [table + 0x80 * i for i in range(16)]


def operand_loads(kernel: Kernel) -> list[int]:
    """arm64: each `ldr wzr, [xN]` that stands right before a cache operation on xN, and shows its operand."""
    if kernel.arch != "arm64":
        return []
    lo, _ = kernel.text
    words = struct.unpack(f"<{len(kernel.text_bytes()) // 4}I", kernel.text_bytes())
    return [lo + 4 * i for i, (load, op) in enumerate(zip(words, words[1:]))
            if op & 0xFFFFF000 == 0xD50B7000 and load == 0xB940001F | (op & 31) << 5]


def config(kernel: Kernel, machine: Machine, followed: tuple[str, ...] = returns.WORKLOAD) -> Config:
    """What the observer is asked to look at in this kernel; `followed`: whose calls are known to their ends."""
    start = machine.load_address()
    lo, hi = kernel.text
    points = {*stubs(kernel), *(kernel.symbol(n) for n in CALLBACKS), kernel.symbol("ftrace_batch_begin"),
              *(kernel.symbol(n) for n in ("ftrace_stub", PATTERN_CALL, PATTERN_TRACER, PATTERN_BACK)),
              *(kernel.symbol(n) for n in BATCH_STEPS), *kernel.exits("arch_sync_all"),
              *kernel.exits("ftrace_batch_end"), *kernel.exits("unregister_ftrace_graph"),
              *returns.places(kernel, followed).points(), kernel.symbol(BIRTH)} - {0}
    shown = (*HAND_USERS, *OP_CALLBACKS, "registers_show", "lookup_show", "entry_show", "frames_show")
    tracer = range(kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end"))  # no function of the workload's is there
    tell = [(f.start, f.end) for f in kernel.functions if f.name.startswith("wl_") and f.start not in tracer]
    tell += [kernel.extent(name) for name in shown if kernel.symbol(name)]
    probes = sorted(lo_hi for lo_hi in probe_memory(kernel).values() if lo_hi[0])
    if kernel.hook == "mcount":
        tell += [kernel.extent(n) for n in PATCHERS if kernel.symbol(n)]
        probes.append(kernel.text)
    return Config(start, start, start + hi - lo, sites=[s.address for s in kernel.sites], points=sorted(points),
                  mems=[a for a in (kernel.symbol("__switch_to_load"), *operand_loads(kernel), *returns.user_loads(kernel)) if a],
                  mem_ranges=tell, probes=probes, vectors=vectors(kernel))


def probe_memory(kernel: Kernel) -> dict[str, tuple[int, int]]:
    """What trusted code touches to tell the observer a value, by name; (0, 0) where this kernel has none."""
    sizes = {"workload_probe": 4096, "op_probe": OPS * OP_SEEN}
    told = {name: (at, at + size) if (at := kernel.symbol(name)) else (0, 0) for name, size in sizes.items()}
    return told | {name: kernel.extent(name) for name in ("graph_probe", "registers_seen", "lookup_seen", "entry_seen", "frames_seen")}


class _Reader:
    """Follows the machine record by record."""

    def __init__(self, kernel: Kernel, followed: tuple[str, ...]) -> None:
        self.truth = Truth()
        self._kernel = kernel
        self._thread: dict[int, int] = {}
        self._lives: dict[int, int] = {}  # a thread's address -> the newest that had it
        self._birth = kernel.symbol(BIRTH)
        self._level: dict[int, int] = {}
        self._traps: dict[int, int] = {}
        self._switch = kernel.symbol("__switch_to_load")
        told = probe_memory(kernel)
        self._probe, self._told, self._op_probe = told["workload_probe"], told["graph_probe"], told["op_probe"]
        self._seen, self._lookup = told["registers_seen"], told["lookup_seen"]
        self._entry, self._frames = told["entry_seen"], told["frames_seen"]
        self._pattern = {kernel.symbol(n): n for n in (PATTERN_CALL, PATTERN_TRACER, PATTERN_BACK) if kernel.symbol(n)}
        self._stub = kernel.symbol("ftrace_stub")
        self._text = kernel.text
        self._entered = -1  # a trampoline: when
        self._trampolines = set(stubs(kernel))
        self._callbacks = {kernel.symbol(n) for n in CALLBACKS} - {0}
        self._begin = kernel.symbol("ftrace_batch_begin")
        self._ends, self._synced = set(kernel.exits("ftrace_batch_end")), set(kernel.exits("arch_sync_all"))
        self._steps = {kernel.symbol(n): n for n in BATCH_STEPS if kernel.symbol(n)}
        self._into_sync = {a for a in self._ends if kernel.jumps_to(a) == kernel.symbol("arch_sync_all")}
        self._unregistered = set(kernel.exits("unregister_ftrace_graph"))
        self._open: dict[int, Batch] = {}
        self._online: set[int] = set()
        self._last_switch: dict[int, int] = {}
        self._operand_loads = set(operand_loads(kernel))
        self._user_loads = returns.user_loads(kernel)
        self._returns = returns.Reader(returns.places(kernel, followed))
        self._returning = self._returns.places.points()
        self.truth.returns = self._returns.returns

    def who(self, vcpu: int) -> tuple[int, int]:
        thread = self._thread.get(vcpu, -1 - vcpu)
        return thread, self._level.get(thread, 0)

    def _trap(self, thread: int, level: int) -> int:
        return self._traps.get(thread, 0) if level else 0

    def see(self, r: Record) -> None:
        if r.kind == Kind.SITE:
            thread, level = self.who(r.vcpu)
            self._online.add(r.vcpu)
            call = Call(r.seq, r.vcpu, thread, level, self._kernel.site_at[r.addr], r.value, self._trap(thread, level),
                        r.insns)
            self.truth.calls.append(call)
            self._returns.site(r, call)
        elif r.kind == Kind.MEM:
            self._memory(r)
        elif r.kind == Kind.POINT:
            self._point(r)
        elif r.kind == Kind.VECTOR:
            self.truth.faults_in_stub += r.seq == self._entered + 1
            self.truth.traps.append(r.seq)
            self._move(r.vcpu, 1)
        elif r.kind == Kind.FENCE:
            self._fence(r)
        elif r.kind == Kind.STORE:
            self.truth.stores.append(r)
            if r.vcpu in self._open:
                self._open[r.vcpu].stores.append(r)

    def _memory(self, r: Record) -> None:
        pc = r.pc()
        if pc == self._switch:
            if r.addr != self._last_switch.get(r.vcpu, 0) + 8:  # the second half of a pair
                self._thread[r.vcpu] = self._lives.get(r.addr, r.addr)
                self.truth.switches.append(r.seq)
            self._last_switch[r.vcpu] = r.addr
        elif self._probe[0] <= r.addr < self._probe[1]:
            thread, level = self.who(r.vcpu)
            self.truth.touches.append(Touch(r.seq, r.vcpu, thread, level, pc, r.addr))
        elif self._told[0] <= r.addr < self._told[1]:
            which, value = divmod(r.addr - self._told[0], 256)
            self.truth.told.append(Told(r.seq, r.vcpu, *self.who(r.vcpu), which // 4, which % 4, value))
        elif self._op_probe[0] <= r.addr < self._op_probe[1]:
            thread, level = self.who(r.vcpu)
            self.truth.op_touches.append(Touch(r.seq, r.vcpu, thread, level, pc, r.addr, r.insns))
        elif self._seen[0] <= r.addr < self._seen[1]:
            traced, rest = divmod(r.addr - self._seen[0], 2 * PATTERN_ITEMS)
            self._show(self.truth.kept, (bool(traced), rest // 2), bool(rest % 2))
        elif self._lookup[0] <= r.addr < self._lookup[1]:
            item, bits = divmod(r.addr - self._lookup[0], 4)
            self.truth.answers.append(Answer(item, bool(bits & 1), bool(bits & 2), r.insns))
        elif self._entry[0] <= r.addr < self._entry[1]:
            changed, rest = divmod(r.addr - self._entry[0], 2 * ENTRY_ITEMS)
            self._show(self.truth.entered, (bool(changed), rest // 2), bool(rest % 2))
        elif self._frames[0] <= r.addr < self._frames[1]:
            item, right = divmod(r.addr - self._frames[0], 2)
            self.truth.frames.setdefault(item, set()).add(bool(right))
        elif self._text[0] <= r.addr < self._text[1]:
            self.truth.looks.append(r)
        elif pc in self._operand_loads:
            self.truth.operands.append(r)
        elif pc in self._user_loads:
            self.truth.users.append(Touch(r.seq, r.vcpu, *self.who(r.vcpu), pc, r.addr - self._user_loads[pc]))

    @staticmethod
    def _show(shown: dict[tuple[bool, int], bool], item: tuple[bool, int], right: bool) -> None:
        """What was wrong once stays so, whoever says later that it was right."""
        shown[item] = shown.get(item, True) and right

    def _point(self, r: Record) -> None:
        if r.addr == self._birth and r.vcpu in self._thread:
            self._thread[r.vcpu] += ANOTHER
            self._lives[self._thread[r.vcpu] % ANOTHER] = self._thread[r.vcpu]
        if r.addr in self._returning:
            thread, level = self.who(r.vcpu)
            self._returns.point(r, (thread, level, self._trap(thread, level)))
        if r.addr == self._returns.places.handler:
            self.truth.handlers.append(r)
        if r.addr in self._trampolines:
            self.truth.trampolines.append(r)
            self._entered = r.seq
        if r.addr in self._pattern:
            self.truth.pattern.append(self._pattern[r.addr])
            self.truth.pattern_at.append(r.seq)
        if r.addr == self._stub:
            self.truth.idle.append(r)
        if r.addr in self._unregistered:
            self.truth.unregistered.append(r)
        if r.addr in self._callbacks:
            self.truth.callbacks.append(r)
        if r.addr == self._begin:
            batch = Batch(r.vcpu, r.seq, online=frozenset(self._online | {r.vcpu}))
            self._open[r.vcpu] = batch
            self.truth.batches.append(batch)
        if r.vcpu in self._open:
            self._in_batch(r, self._open[r.vcpu])

    def _in_batch(self, r: Record, batch: Batch) -> None:
        if r.addr in self._steps:
            batch.steps.append((self._steps[r.addr], r.seq))
        if r.addr in self._into_sync:
            batch.syncing = True
        elif r.addr in (self._synced if batch.syncing else self._ends):
            self._open.pop(r.vcpu).end = r.seq

    def _move(self, vcpu: int, by: int) -> None:
        thread, level = self.who(vcpu)
        self._level[thread] = max(0, level + by)
        if not level:
            self._traps[thread] = self._traps.get(thread, 0) + 1

    def _fence(self, r: Record) -> None:
        self.truth.fences.append(r)
        if r.value == RETURNS_FROM_EXCEPTION[self._kernel.arch]:
            self._move(r.vcpu, -1)


def read(kernel: Kernel, records: Iterable[Record], followed: tuple[str, ...] = returns.WORKLOAD) -> Truth:
    reader = _Reader(kernel, followed)
    gc.disable()  # a million objects that all stay: each round of it would look at all of them
    try:
        for record in records:
            reader.see(record)
    finally:
        gc.enable()
    return reader.truth

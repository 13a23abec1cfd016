"""Says what was executed: configures the observer for a kernel, and builds calls, batches and
returns from its records.

Each record has the CPU, the thread, the interrupt level, and values of registers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from grading.elf import names
from grading.elf.elf import Kernel, Site
from grading.elf.module import Module
from grading.machine.observer import Config, Kind, Record
from grading.truth import returns
from qemu.machine import Machine

TRAMPOLINES = ("_mcount", "ftrace_caller")  # reached from call sites
CALLBACKS = ("function_trace_call",)  # the first function of the tracer itself
REST_OF_CALLBACK = "function_trace_slow"  # the function to which it may jump
# labels to which functions of kern/apps/ may return
HOMES = ("entry_back", "entry_elsewhere", "entry_through", "frames_lost")
# of kern/apps/frames.c; words of the frame that is its argument
FRAMES = {"frames_call": 0, "frames_stack": 8}
# of kern/apps/rare.c; the number of words to log
RARE = {
    "rare_entry": 3, "rare_return": 5, "rare_gone": 3, "rare_walk": 0, "rare_refused": 0,
    "rare_data": 0, "rare_room": 0, "rare_answer": 0, "rare_stack": 0, "rare_left": 0
}
# Lab 5: ftrace_graph_stub goes on after its call of ftrace_graph_caller.
STUB_GOES_ON = "after ftrace_graph_call"
RARE_PLACES = ("ftrace_graph_stop", "rare_home_f", "rare_home_c", "rare_home_a", "rare_lost")
AT_ENTRY, AT_RETURN, OF_PARENT = range(3)
HANDS = ("hand_entry", "hand_return")  # the handlers of a user that fgraph_op registered
# Of kern/apps/registers.c: the call, its tracer, and where the call returns to.
PATTERN_CALL, PATTERN_TRACER, PATTERN_BACK = "registers_out", "registers_tracer", "registers_back"
# the functions that a batch calls
BATCH_STEPS = ("text_alias_open", "text_alias_close", "arch_sync_all")
PATCHERS = ("ftrace_make_call", "ftrace_make_nop", "ftrace_modify_call", "ftrace_init_nop",
            "ftrace_update_ftrace_func")
ENCODER = ("insn_call", "registers_word")
HASH = ("ftrace_hash_add", "ftrace_hash_search", "entry_counted")
TRAMPOLINE_ENCODER, TRAMPOLINE_READER = "trampoline_encode", "trampoline_target"
# of kern/apps/trampolines.c: what each call of these two had to do with
TRAMPOLINE_WORDS = "trampolines_seen"
ROOM = ("kfree", "shadow_users_begin", "shadow_users_end")
GRACE = "synchronize_sched"  # waits for a grace period
# Kernels with modules: the functions that add and remove a module's call sites.
MODULES = ("ftrace_module_enable", "ftrace_add_table", "ftrace_module_release",
           "profile_forget_modules", "ftrace_make_call", "ftrace_make_nop", "ftrace_modify_call")
# The first entry of which a kernel has a file applies: the files whose stores and barriers are
# logged; helpers that store for them.
ORDERED_CODE = ((("kern/ftrace/graph/fgraph_one.c", "kern/ftrace/graph/fgraph.c",
                  "kern/ftrace/graph/shadow_frame.c"),
                 ("memcpy", "memset")), (("kern/ftrace/ops/ops.c", "kern/ftrace/core/hash.c"), ()),
                (("kern/ftrace/core/patch.c",), ()),
                (("kern/ftrace/riscv64/mcount.S", "kern/ftrace/arm64/mcount.S"), ()))
# Variables that events load while another CPU may store into them.
ORDERED_DATA = {"ftrace_trace_function": 8, "graph_user": 8, "fgraph_stamp": 8, "fgraph_slots": 8,
                "fgraph_array": 128, "ftrace_graph_dead": 1}
# The assembly that is handed in, which may be interrupted between any two instructions: how many
# frames a call has on the stack there. A frame has at most MOST_FRAME bytes; the handouts say so.
ASSEMBLY = {"mcount.S": 1, "mcount_caller.S": 1, "caller.S": 1, "graph.S": 1, "graph_caller.S": 2}
MOST_FRAME = 256
REGS_WORDS = 14  # of struct ftrace_regs
# as mask of changed registers: the observer had no earlier values to compare with
KEPT_NOTHING = (1 << 64) - 1


@dataclass(eq=False)
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
    parent: int = 0  # where the function returns to
    sp: int = 0
    fp: int = 0
    callbacks: list[Record] = field(default_factory=list)
    landed: Record | None = None  # where the context continued, with the mask of changed registers
    # for some functions: the eight argument registers at the function's first instruction
    arguments: tuple[int, ...] = ()
    name: str = field(init=False)  # the function's

    def __post_init__(self) -> None:
        self.name = self.site.function.name

    @property
    def went_astray(self) -> bool:
        """Did it continue, but not at the instruction after its site?"""
        return bool(self.landed and self.landed.addr != self.site.address + 4)


class UserEvent(NamedTuple):
    """A handler of a function_graph user that the program graph registered ran, or read its data.
    """

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
    # BATCH_STEPS, in the order in which they were entered, and when
    steps: list[tuple[str, int]] = field(default_factory=list)
    # ftrace_batch_end ended with a jump to arch_sync_all: the batch ends when that returns
    syncing: bool = False


@dataclass
class Truth:
    calls: list[Call] = field(default_factory=list)
    # by the name that config() gave the address
    hits: dict[str, list[Record]] = field(default_factory=lambda: defaultdict(list))
    # of every tracer and op, in the order in which they ran
    callbacks: list[Record] = field(default_factory=list)
    # callbacks in a context that had not just executed a call site
    lone: list[Record] = field(default_factory=list)
    stores: list[Record] = field(default_factory=list)  # into text
    # loads of text words by the patcher, or by memcpy and memcmp for it
    looks: list[Record] = field(default_factory=list)
    fences: list[Record] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    returns: returns.Returns = field(default_factory=returns.Returns)
    user_events: list[UserEvent] = field(default_factory=list)
    # the function_graph tracer's two handlers, each with its user as second argument
    users: list[Record] = field(default_factory=list)
    # FRAMES: the shadow stack as kern/apps/frames.c handed it over
    frames: list[Record] = field(default_factory=list)
    rare: list[Record] = field(default_factory=list)  # RARE
    traps: list[Record] = field(default_factory=list)  # exceptions taken
    # the values of words of text that the kernel changes
    words: list[Record] = field(default_factory=list)
    # of the exception vector, the page tables, and how they are read
    settings: list[Record] = field(default_factory=list)
    # exits of CALLBACKS that were not entered by their first instruction
    middle: list[Record] = field(default_factory=list)
    # what an interrupt between two instructions would find wrong: loads and stores of the tracer's
    # code below sp, or while sp was not aligned; in its assembly a wrong sp or reserved register
    between: list[Record] = field(default_factory=list)
    # stores and READs of handed-in code, while the harness records their order
    writes: list[Record] = field(default_factory=list)
    # executed instructions that are neither the text as linked nor a word that may change
    foreign: list[Record] = field(default_factory=list)
    known: dict[Any, Any] = field(default_factory=dict)  # what evidence.once() keeps

    @property
    def trampolines(self) -> list[Record]:
        """Entries of trampolines; from lab 3 on, only those that no call site had just called."""
        return self.hits["trampoline"]

    def asked(self, *names: str) -> list[tuple[str, Record, Record]]:
        """The calls of these functions by kern/apps/, in order: (name, arguments, return value);
        see _questions."""
        found = []
        for seq, name, question in sorted(
            (r.seq, name, r) for name in names for r in self.hits[name]):
            answer = next((r for r in self.hits["answer"] if r.seq > seq), None)
            found += [(name, question, answer)] if answer else []
        return found

    @property
    def handlers(self) -> list[Record]:
        return self.hits[returns.HANDLER]


@cache
def stubs(kernel: Kernel) -> tuple[int, ...]:
    """Every address that a patched call site may call."""
    named = [a for n, a in kernel.symbols.items() if names.STUB.fullmatch(n)]
    return tuple(sorted(
        {*named, kernel.symbol("ftrace_stubs"), *(kernel.symbol(n) for n in TRAMPOLINES)} - {0}))


def tracers(kernel: Kernel) -> set[int]:
    """Every address that lab 3's call at ftrace_call may call."""
    return set(map(kernel.symbol, ("ftrace_stub", PATTERN_TRACER, *CALLBACKS))) - {0}


def vectors(kernel: Kernel) -> list[int]:
    table = kernel.symbol("exception_vector")
    return [table + 0x80 * i for i in range(kernel.isa.vectors)]


@cache
def changing(kernel: Kernel) -> frozenset[int]:
    """The words of text, besides the call sites, that the kernel changes."""
    beside = {s.address - 4 for s in kernel.sites if kernel.hook in kernel.isa.word_before}
    return frozenset(
        {*beside, kernel.symbol("ftrace_call"), kernel.symbol("ftrace_graph_call")} - {0})


@cache
def _questions(kernel: Kernel) -> dict[int, str]:
    """Call instructions of kern/apps/ whose arguments are logged (-> the function's name), and the
    addresses after them (-> "answer")."""
    asked = (("app_main_lookup", ("lookup_rec", "lookup_rec_range")), ("registers_patched",
                                                                       PATCHERS),
             ("registers_encoded", ENCODER), ("trampolines_made", (TRAMPOLINE_ENCODER,)),
             ("trampolines_followed", (TRAMPOLINE_READER,)), ("entry_own_filter",
                                                              ("ftrace_set_filter",)),
             ("entry_hash", HASH), *((app, ("register_ftrace_function",))
               for app in ("entry_start", "entry_clash", "entry_fill", "entry_disabled")))
    calls = [(a, name) for app, names in asked for name in names
             for a in returns.calls_to(kernel, name, kernel.extent(app))]
    return {a + 4 * back: "answer" if back else name for a, name in calls for back in (0, 1)}


@cache
def _kept(kernel: Kernel) -> dict[int, int]:
    """Addresses at which the first argument register points to a user's entry data, those of this
    call (AT_RETURN) or of its caller's call (OF_PARENT)."""
    wanted = (("fgraph_retrieve_data", AT_RETURN), ("fgraph_retrieve_parent_data", OF_PARENT))
    return {a + 4: what for name, what in wanted
            for a in returns.calls_to(kernel, name, kernel.extent("hand_return"))}


@cache
def _named(kernel: Kernel) -> dict[int, str]:
    """The addresses that are logged only while the harness records, with their names."""
    found = {kernel.symbol(n): n for n in ("ftrace_stub", returns.HANDLER, PATTERN_CALL,
                                           PATTERN_BACK, TRAMPOLINE_WORDS, *RARE_PLACES)}
    if graph_call := kernel.symbol("ftrace_graph_call"):
        found[graph_call + 4] = STUB_GOES_ON
    return {a: n for a, n in {**found, **dict.fromkeys(stubs(kernel), "trampoline"),
                              **_questions(kernel)}.items() if a}


@cache
def _always(kernel: Kernel) -> dict[int, str]:
    """The addresses that are always logged, with their names."""
    found = {kernel.symbol(n): n for n in ("ftrace_batch_begin", GRACE, "panic", "probe_site_add",
                                           *BATCH_STEPS, *ROOM)}
    ends: tuple[str, ...] = ("ftrace_batch_end", "arch_sync_all", "unregister_ftrace_graph")
    if kernel.symbol(MODULES[0]):
        found |= {kernel.symbol(n): n for n in MODULES}
        ends += ("ftrace_module_release",)
    return {a: n for a, n in {**found, **{a: f"end of {n}" for n in ends
                                          for a in returns.ends(kernel, n)}}.items() if a}


@cache
def ordered_code(kernel: Kernel) -> list[tuple[int, int]]:
    """The address ranges of code whose stores are logged."""
    own, helpers = next(((code, helpers) for files, helpers in ORDERED_CODE
                         if (code := kernel.code_of(*files))), ([], ()))
    return own + [kernel.extent(name) for name in helpers
                  if any(returns.calls_to(kernel, name, code) for code in own)]


def _callbacks(kernel: Kernel) -> list[tuple[int, int, int]]:
    """The callbacks, as (address, number of words of memory to log, the argument that points to
    them or their address)."""
    op, regs = kernel.symbol("function_trace_op"), REGS_WORDS
    if kernel.hook == "mcount":
        return [(kernel.symbol(n), 1, op) for n in (*CALLBACKS, PATTERN_TRACER)]
    ops = ("op_see", "op_add", "op_patch", "entry_tracer", "entry_counter", "entry_skipper")
    found = [(kernel.symbol(n), regs, 3) for n in (*CALLBACKS, *ops)]
    found += [(kernel.symbol(n), words, 0) for n, words in (FRAMES | RARE).items()]
    return found + [(kernel.symbol(n), regs, 2) for n in (*HANDS, *returns.HANDLERS)]


def config(kernel: Kernel, machine: Machine, followed: tuple[str, ...] = returns.FOLLOWED,
           sites: str = "", modules: tuple[Module, ...] = ()) -> Config:
    """The observer's configuration for this kernel. `followed`: prefixes of functions whose calls
    are followed to their return. `sites`: only sites of functions whose names begin with it are
    logged, and all sites of `modules`."""
    c, start, (lo, hi) = Config(image=kernel.text_bytes()), machine.load_address(), kernel.text
    c.add("start", start)
    c.add("text", lo, start, hi - lo)
    c.add("head", kernel.symbol("__irqentry_text_start") - lo)
    if kernel.isa.after_firmware:
        c.add("firmware", kernel.isa.ram, start)
    places = returns.places(kernel, followed)
    watched = {"word": changing(kernel), "point": _always(kernel),
               "deref": _kept(kernel), "exit": places.exits, "vector": vectors(kernel),
               "home": {*places.homes, *map(kernel.symbol, HOMES)} - {0}}
    for role, addresses in watched.items():
        for address in addresses:
            c.add(role, address)
    for site in kernel.sites:
        if not site.function.name.startswith(sites):
            c.add("word", site.address)
            continue
        c.add("site", site.address, int(not site.function.name.startswith(followed)))
        c.add("body", site.address + 4)
        if (site.function.name.startswith("wl_")
                or kernel.hook == "entry" and not kernel.symbol(returns.HANDLER)):
            c.add("arguments", site.function.start if kernel.hook == "mcount" else site.address + 4)
    for module in modules:
        c.add("module", module.base, module.end, len(c.image))
        c.image += module.text
        for address in range(module.room, module.trampoline(module.stubs), 4):
            c.add("word", address)
        for site in module.sites:
            c.add("site", site.address, 0)
            c.add("body", site.address + 4)
    # else, in labs 1 and 2, every site calls _mcount: it is counted
    patched = bool(kernel.symbol("ftrace_caller"))
    for address, name in _named(kernel).items():
        c.add("stray" if patched and name == "trampoline" else "hit", address)
    for address, words, source in _callbacks(kernel):
        if address:
            c.add("callback", address, words, source)
    for name in CALLBACKS:
        c.add("enter", kernel.symbol(name))
        for address in (*kernel.exits(name), *kernel.exits(REST_OF_CALLBACK)):
            if kernel.jumps_to(address) != kernel.symbol(REST_OF_CALLBACK):
                c.add("leave", address)
    for address in vectors(kernel):
        c.add("vector", address)
    c.add("birth", kernel.symbol("thread_start_asm"))
    c.add("fences")
    own = kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end")
    c.add("tracer", *own)
    for name, frames in ASSEMBLY.items():
        for code in kernel.code_of(f"kern/ftrace/{kernel.arch}/{name}"):
            c.add("between", *code, frames * MOST_FRAME)
    for code in ordered_code(kernel):
        c.add("order", *code)
    for name, size in ORDERED_DATA.items():
        if kernel.symbol(name):
            c.add("ordered", kernel.symbol(name), kernel.symbol(name) + size)
    if kernel.hook == "mcount":
        c.add("mcount")
        for code in (own, *map(kernel.extent, ("memcpy", "memcmp"))):
            c.add("looks", *code)
    return c


class _Reader:
    """Builds the Truth, record by record."""

    def __init__(self, kernel: Kernel, followed: tuple[str, ...]) -> None:
        self.truth = t = Truth()
        self._kernel = kernel
        self._named = {**_named(kernel), **_always(kernel)}
        # a site was executed, and nothing after it yet
        self._open: dict[tuple[int, int, int], Call] = {}
        # by CPU: the last recording in which it came to a site, the lowest level there
        self._levels: dict[int, tuple[int, int]] = {}
        # HOOK=mcount: the function's first instruction
        self._entered: dict[tuple[int, int, int], Record] = {}
        # by context: the user whose return handler runs
        self._telling: dict[tuple[int, int, int], int] = {}
        self._apart = {kernel.symbol(n): seen
                       for names, seen in ((FRAMES, t.frames), (RARE, t.rare)) for n in names}
        self._handlers = {kernel.symbol(n) for n in returns.HANDLERS} - {0}
        self._at_return = {kernel.symbol(n) for n in (HANDS[1], returns.HANDLERS[1])} - {0}
        self._users, self._kept = kernel.extent("hand_users"), _kept(kernel)
        self._user_size = (self._users[1] - self._users[0]) // 20 or 1
        self._entry_of_user, self._return_of_user = map(kernel.symbol, HANDS)
        self._sync = kernel.symbol("arch_sync_all")
        self._into_sync = {a for a in kernel.exits("ftrace_batch_end")
                           if kernel.jumps_to(a) == self._sync and self._sync}
        self._batches: dict[int, Batch] = {}
        self._stored: dict[int, Record] = {}
        self._online: set[int] = set()
        self._returns = returns.Reader(returns.places(kernel, followed))
        t.returns = self._returns.returns
        self.see: dict[int, Callable[[Record], None]] = {
            Kind.SITE: self._site, Kind.BODY: self._body, Kind.EXIT: self._returns.exit,
            Kind.HOME: self._home, Kind.CALLBACK: self._callback, Kind.HIT: self._hit,
            Kind.POINT: self._point, Kind.VECTOR: self._vector, Kind.FENCE: t.fences.append,
            Kind.STORE: self._store, Kind.LOOK: t.looks.append, Kind.WORD: t.words.append,
            Kind.FOREIGN: t.foreign.append, Kind.SETTING: t.settings.append,
            Kind.MIDDLE: t.middle.append, Kind.BELOW: t.between.append,
            Kind.BETWEEN: t.between.append, Kind.WRITE: t.writes.append,
            Kind.READ: t.writes.append, Kind.START: lambda r: None}

    def _looked(self, record: Record) -> bool:
        """Did this CPU's last call site or callback, at this or a lower interrupt level, belong to
        the same recording?"""
        recording, level = self._levels.get(record.vcpu, (0, 0))
        self._levels[record.vcpu] = (record.size, min(level, record.level)
                                     if recording == record.size else record.level)
        return recording == record.size and level <= record.level

    def _site(self, record: Record) -> None:
        who = record.context
        self._looked(record)
        before = self._open.get(who)
        if before and record.v[0] != KEPT_NOTHING:
            before.landed = record
        self._online.add(record.vcpu)
        call = self._open[who] = Call(record.seq, record.vcpu, record.thread, record.level,
                                      self._kernel.site_at[record.addr], record.word, record.trap,
                                      record.insns, record.v[1], record.v[2], record.v[3])
        entered = self._entered.pop(who, None)
        if entered and entered.addr == call.site.function.start:
            call.arguments = entered.more
        self.truth.calls.append(call)
        self._returns.site(record, call)

    def _body(self, record: Record) -> None:
        call = self._land(record)
        if call and call.site.address + 4 == record.addr and record.more:
            call.arguments = record.more
        self._returns.body(record)

    def _home(self, record: Record) -> None:
        self._land(record)
        self._returns.home(record)

    def _land(self, record: Record) -> Call | None:
        """The open call that continues at this record, if there is one."""
        call = self._open.pop(record.context, None)
        if not call or call.landed:
            return None
        call.landed = record
        return call

    def _callback(self, record: Record) -> None:
        if record.addr in self._apart:
            self._apart[record.addr].append(record)
            return
        self.truth.callbacks.append(record)
        looked, call = self._looked(record), self._open.get(record.context)
        if call:
            call.callbacks.append(record)
        elif looked:
            self.truth.lone.append(record)
        if record.addr in self._handlers:
            self.truth.users.append(record)
        if record.addr in self._at_return:
            self._returns.user_handler(record)
        if self._users[0] <= record.v[1] < self._users[1]:
            user = (record.v[1] - self._users[0]) // self._user_size
            if record.addr == self._entry_of_user:
                self._tell(record, user, AT_ENTRY, record.more[9])
            elif record.addr == self._return_of_user:
                self._telling[record.context] = user

    def _tell(self, record: Record, user: int, what: int, value: int) -> None:
        self.truth.user_events.append(
            UserEvent(record.seq, record.vcpu, record.thread, record.level, user, what, value))

    def _hit(self, record: Record) -> None:
        if record.addr in self._kept:
            what = self._kept[record.addr]
            if what == AT_RETURN or record.v[0]:
                self._tell(record, self._telling.get(record.context, -1), what, record.v[1])
        elif record.more:
            self._entered[record.context] = record
        else:
            self.truth.hits[self._named.get(record.addr, "step")].append(record)
            if record.addr == self._returns.places.handler:
                self._returns.handler(record)

    def _vector(self, record: Record) -> None:
        self._online.add(record.vcpu)
        self.truth.traps.append(record)

    def _store(self, record: Record) -> None:
        """The second store of the same word is the one of arch_sync_line() (kern/arch.h)."""
        last = self._stored.get(record.vcpu)
        self._stored[record.vcpu] = record
        if last and (last.v, last.size) == (record.v, record.size):
            return
        self.truth.stores.append(record)
        if record.vcpu in self._batches:
            self._batches[record.vcpu].stores.append(record)

    def _point(self, record: Record) -> None:
        name = self._named[record.addr]
        self.truth.hits[name].append(record)
        if name == "ftrace_batch_begin":
            batch = Batch(record.vcpu, record.seq, online=frozenset(self._online | {record.vcpu}))
            self._batches[record.vcpu] = batch
            self.truth.batches.append(batch)
        elif record.vcpu in self._batches:
            self._in_batch(record, name, self._batches[record.vcpu])

    def _in_batch(self, record: Record, name: str, batch: Batch) -> None:
        if name in BATCH_STEPS:
            batch.steps.append((name, record.seq))
        elif record.addr in self._into_sync:
            batch.syncing = True
        elif name == ("end of arch_sync_all" if batch.syncing else "end of ftrace_batch_end"):
            self._batches.pop(record.vcpu).end = record.seq


def read(kernel: Kernel, records: Iterable[Record],
         followed: tuple[str, ...] = returns.FOLLOWED) -> Truth:
    reader = _Reader(kernel, followed)
    for record in records:
        reader.see[record.kind](record)
    return reader.truth

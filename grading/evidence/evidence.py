"""The evidence of one graded boot: what was typed, what the kernel printed, and what the processor
executed."""

from __future__ import annotations

import gc
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from operator import attrgetter
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from grading.elf.elf import Kernel, Site
from grading.elf.module import Module
from grading.stimulus import seeded, workload
from grading.stimulus.schedules import Played
from grading.stimulus.trials import Trial
from grading.text.graph_text import GraphTrace
from grading.text.trace_text import FunctionTrace
from grading.truth.returns import Span
from grading.truth.truth import KEPT_NOTHING, Call, Truth
from grading.verdict import Verdict, blamed, limited
from qemu.isa import ISAS, Isa

JUDGING = 60.0  # seconds of processor time in which one boot's evidence must be gathered and judged

expected_run = lru_cache(64)(workload.expect)  # many checks need the same one


class Window(Protocol):
    """A part of the observer's log: the records from `first` up to `last`."""

    first: int
    last: int


Item = TypeVar("Item")
Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


def between(seen: list[Item], first: int, last: int) -> list[Item]:
    """The items of a list in log order whose place is in [first, last)."""
    seq = attrgetter("seq")
    return seen[bisect_left(seen, first, key=seq):bisect_left(seen, last, key=seq)]


def during(window: Window, seen: list[Item]) -> list[Item]:
    return between(seen, window.first, window.last)


def once(work: Callable[Concatenate[Evidence, Asked],
                        Answer]) -> Callable[Concatenate[Evidence, Asked], Answer]:
    """A decorator: compute the answer once for each boot and keep it in its Truth, as several rungs
    need it."""
    def known(evidence: Evidence, /, *about: Asked.args, **named: Asked.kwargs) -> Answer:
        key = (work, *about, *named.items())
        if key not in evidence.truth.known:
            evidence.truth.known[key] = work(evidence, *about, **named)
        found: Answer = evidence.truth.known[key]
        return found
    return known


@dataclass(frozen=True)
class Filter:
    """The text for set_ftrace_filter and set_ftrace_notrace, and the names of the functions that it
    selects."""

    filter: str
    notrace: str
    names: frozenset[str]

    def __str__(self) -> str:
        return f"'{self.filter}'" + (f" without '{self.notrace}'" if self.notrace else "")


@dataclass(eq=False)
class User:
    """One function_graph tracer: that of tracefs's top directory, or of an instance."""

    directory: str  # "" or "instances/NAME/"
    filter: Filter
    trace: GraphTrace = field(default_factory=GraphTrace)
    stats: dict[int, dict[str, int]] = field(default_factory=dict)  # CPU -> per_cpu/cpuN/stats
    leaves: bool = False  # it is unregistered while the workload runs


@dataclass(frozen=True)
class HandUser:
    """A user of function_graph that the shell's `fgraph_op` command registered."""

    number: int
    kind: str  # see, keep, skip
    filter: str
    names: frozenset[str]

    @property
    def returning(self) -> bool:
        return self.kind != "skip"


@dataclass(eq=False)
class Phase:
    """One workload, with the tracer off or on."""

    name: str
    seed: int
    filter: Filter | None  # None: the tracer is off
    first: int = 0  # the number of observer records before the command that starts the phase
    last: int = 0  # and that at the prompt after the command that ends it
    output: str = ""
    trace: FunctionTrace | None = None
    text: bytes = b""  # the kernel's text during the phase
    # by name: tracefs files that list functions
    files: dict[str, str] = field(default_factory=dict)
    # of function_graph; `filter` is then the union of their filters
    users: list[User] = field(default_factory=list)
    # the users that the shell's `fgraph_op` command registered
    hands: list[HandUser] = field(default_factory=list)
    refused: str = ""  # what the shell printed when one user too many was registered
    rewritten: str = ""  # the filter with which all users began, if each of them then wrote its own

    @property
    def on(self) -> bool:
        return self.filter is not None

    def listed(self, file: str) -> list[str]:
        """The functions that the file lists, or the comment that is its only line."""
        lines = self.files.get(file, "").splitlines()
        return [line if line[0] == "#" else line.split()[0] for line in lines
                if line.strip() and line[0] not in " \t"]

    @cached_property
    def returning(self) -> frozenset[str]:
        """The functions of which at least one user wants the return."""
        if self.hands:
            return frozenset(name for hand in self.hands if hand.returning for name in hand.names)
        return self.filter.names if self.filter else frozenset()


@dataclass
class Spoilt:
    """Lab 3: the harness overwrote a call site in memory: before the function was traced, or (four
    CPUs) while it was."""

    site: Site
    # the word that was written: an instruction without effect, or (many CPUs) a call of another
    # function
    word: int
    seed: int
    first: int = 0
    last: int = 0
    printed: str = ""
    text: bytes = b""
    output: str = ""  # the workload's


@dataclass(eq=False)
class Loaded:
    """Lab 7: a module that was loaded, and its text."""

    module: Module
    far: bool
    rest: bytes = b""  # its text after the load, while no tracer was on
    traced: bytes = b""  # its text while its functions were traced

    def word(self, text: bytes, address: int) -> int:
        at = address - self.module.base
        return int.from_bytes(text[at:at + 4], "little")

    def trampoline(self, text: bytes, number: int) -> tuple[int, int, int]:
        at = self.module.trampoline(number)
        return self.word(text, at), self.word(text, at + 4), self.word(text, at + 8)


@dataclass(eq=False)
class Visit:
    """Lab 7: seeded calls in modules while they are traced."""

    name: str
    runs: list[seeded.SeededRun]
    names: frozenset[str]  # the traced functions
    loaded: list[Loaded]
    first: int = 0
    last: int = 0
    output: str = ""
    trace: FunctionTrace | None = None


@dataclass(eq=False)
class Coming:
    """Lab 7: a module that is loaded while several tracers are on."""

    run: seeded.SeededRun
    first: int = 0
    last: int = 0
    output: str = ""
    traces: dict[str, FunctionTrace] = field(default_factory=dict)  # by tracefs directory
    # the functions that function_graph printed, in the order of their entries
    graph: list[str] = field(default_factory=list)
    loaded: tuple[int, int] = (0, 0)  # the first and the last record while it was loaded


@dataclass(eq=False)
class Going:
    """Lab 7: a module is removed while it is traced; another module is loaded at its address."""

    gone: Module
    successor: Loaded
    first: int = 0  # the first and the last record while it was removed
    last: int = 0
    # tracefs files after the removal, and (with " again") with the other module loaded
    files: dict[str, str] = field(default_factory=dict)


@dataclass
class Held:
    """Lab 7: a module that was loaded while one op, or several, that may change pc selected all its
    functions."""

    ops: int
    loaded: Loaded  # `traced`: its text then
    # what the shell printed when another op that may change pc was to select its functions
    refused: str = ""
    printed: str = ""  # what was printed when the ops were unregistered


@dataclass
class Redirected:
    """Lab 7: the harness overwrote a module's trampolines. Then a command changed which of its
    functions are traced."""

    loaded: Loaded
    wanted: str  # the change, as a function "was to be ...": traced, traced twice, no longer traced
    printed: str = ""
    before: bytes = b""  # the module's text, with the overwritten trampolines
    after: bytes = b""
    kernel: bytes = b""  # the kernel's text, afterwards


@dataclass
class Overwritten:
    """Lab 7: the harness overwrote a call site of a module: before its function was traced (one
    CPU), or while it was."""

    loaded: Loaded
    site: Site
    word: int  # the word that was written
    expected: int  # the word that was there and must be there
    printed: str = ""
    before: bytes = b""  # the module's text, with the overwritten site
    after: bytes = b""


@dataclass(frozen=True)
class Complaint:
    """Output of the shell for a command that should print nothing."""

    line: str  # the command
    printed: list[str]
    error: str  # the errno's name in the output, such as ENOSYS, or ""

    def __str__(self) -> str:
        return f"'{self.line}' printed: {'; '.join(self.printed)}"


@dataclass
class Evidence:
    arch: str
    lab: int
    smp: int
    seed: int
    kernel: Kernel
    log: Path
    verdict: Verdict = Verdict.PASS
    why: str = ""
    panic: str = ""
    # after a time-out: several samples of each CPU's pc
    whereabouts: list[list[int]] = field(default_factory=list)
    came_from: list[list[int]] = field(default_factory=list)  # and of the pc at its last trap
    complaint: Complaint | None = None
    phases: list[Phase] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)  # lab 4: workloads with ops registered
    files: dict[str, str] = field(default_factory=dict)
    truth: Truth = field(default_factory=Truth)
    # each copy of text that was read, with the number of observer records before it
    texts: list[tuple[int, bytes]] = field(default_factory=list)
    text_at_boot: bytes = b""
    text_at_end: bytes = b""
    text_traced: bytes = b""  # labs 3 and 4: while every function was traced
    # labs 1 to 3: the workload under a tracer that overwrites every register that it may overwrite
    overwritten: Phase | None = None
    spoilt: Spoilt | None = None
    checked: int = 0  # instructions of the tracer's assembly before which registers were checked
    # when it was checked, and the CPUs that could write text then
    alias: list[tuple[str, list[int]]] = field(default_factory=list)
    loaded: list[Loaded] = field(default_factory=list)  # lab 7
    visits: list[Visit] = field(default_factory=list)
    coming: list[Coming] = field(default_factory=list)
    going: Going | None = None
    held: list[Held] = field(default_factory=list)
    redirected: list[Redirected] = field(default_factory=list)
    # the trampolines are right again, and the module is removed
    disabled: Redirected | None = None
    overwritten_sites: list[Overwritten] = field(default_factory=list)
    # what the commands printed while a call was inside a module that is removed
    inside: dict[str, str] = field(default_factory=dict)
    walk: str = ""  # the threads' stacks, while one thread sleeps in a call whose return is patched
    # the first and the last record while a slot got a new owner, and a thread slept in a call of
    # the old one
    slot_again: tuple[int, int] = (0, 0)
    # lab 6: users were registered and unregistered while handlers ran
    changed_inside: tuple[int, int] = (0, 0)
    # the first and the last record while function_graph traced every function
    frames_out: tuple[int, int] = (0, 0)
    # from this record on functions of the programs for grading are called, until the boot ends
    interrupted: int = 1 << 62
    # each line, with the number of observer records before it
    typed: list[tuple[int, str]] = field(default_factory=list)
    observed: int = 0  # number of executed call sites
    seconds: float = 0.0
    # lab 8: the instructions of the workload that are probed
    probed: list[int] = field(default_factory=list)
    returning: tuple[str, ...] = ()  # lab 8 at a serial line: the leaves whose returns are probed
    # lab 8: by name, the first and the last record of a part of the boot
    parts: dict[str, tuple[int, int]] = field(default_factory=dict)
    played: list[Played] = field(default_factory=list)  # only in the boot of the schedules
    boot: int = -1  # SCHEDULES, or the number of CPUs
    # the serial line to the machine, if there is one; then the console is all of the evidence
    line: str = ""
    # with a serial line: the number of lines that were typed again, and of parts that were read
    # again
    again: int = 0
    judging: float = 0.0  # seconds of JUDGING that were used
    insns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.boot < 0:
            self.boot = self.smp

    @property
    def isa(self) -> Isa:
        return ISAS[self.arch]

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Turn every exception inside into Stopped, with the right verdict, and limit the processor
        time."""
        began = time.process_time()
        # a boot's records all stay alive: every collection would scan them for nothing
        gc.disable()
        try:
            with blamed(), limited(JUDGING - self.judging):
                yield
        finally:
            gc.freeze()
            gc.unfreeze()  # both together move every object to the oldest generation without a scan
            gc.enable()
            self.judging += time.process_time() - began

    def summary(self) -> Evidence:
        """A copy without the large data that only checks use."""
        return replace(self, phases=[], trials=[], truth=Truth(), files={}, spoilt=None, texts=[],
                       text_at_boot=b"", text_at_end=b"", text_traced=b"", overwritten=None,
                       loaded=[], visits=[], coming=[], going=None, held=[], redirected=[],
                       disabled=None, overwritten_sites=[])

    def ending(self) -> str:
        """A sentence that says how the boot ended early."""
        during = (f" during '{self.typed[-1][1]}'"
                  if self.verdict == Verdict.TIMEOUT and self.typed else "")
        return f"{self.verdict.value}{during}: {self.why}" + "".join(
            f". CPU {cpu} was in {name}" for cpu, name in self.stuck().items())

    def stuck(self) -> dict[int, str]:
        """By CPU: the function in which most samples of its pc were taken after a time-out. On a
        busy host most samples are in an interrupt, and no function has most of the other samples.
        Then it is the function that was interrupted most often."""
        found = dict[int, str]()
        for samples in (self.came_from, self.whereabouts):
            names = [Counter(self.kernel.name_at(pc).partition("+")[0] for pc in seen)
                     for seen in zip(*samples)]
            most = {cpu: counts.most_common(1)[0] for cpu, counts in enumerate(names)}
            found |= {cpu: name for cpu, (name, times) in most.items()
                      if 2 * times > len(samples) and name != "exception_vector"}
        return found

    def on(self) -> list[Phase]:
        return [p for p in self.phases if p.on]

    def off(self) -> list[Phase]:
        return [p for p in self.phases if not p.on]

    def calls(self, phase: Phase | Trial) -> list[Call]:
        return during(phase, self.truth.calls)

    def spans(self, phase: Phase) -> list[Span]:
        return during(phase, self.truth.returns.spans)

    @property
    def rest_text(self) -> bytes:
        return self.kernel.rest_text(self.lab)

    def changed_at_rest(self, text: bytes) -> list[int]:
        """The words of a copy of text that are not as they must be while no tracer is on."""
        patched = self.kernel.symbol("ftrace_call")
        return [a for a in self.kernel.differing(text, self.rest_text) if a != patched]

    def right_results(self) -> bool:
        """Did each workload print the result that follows from its seed?"""
        phases = [*self.phases, *([self.overwritten] if self.overwritten else [])]
        return all(self.expected(phase).line in phase.output for phase in phases)

    @once
    def free(self) -> int:
        """The mask of registers that the tracer may change. With HOOK=mcount the prologue has saved
        the link register already."""
        link = [self.isa.link] if self.kernel.hook == "mcount" else []
        return sum(1 << n for n in (*self.isa.scratch, *link))

    def lost(self, call: Call, but: int = 0) -> list[int]:
        """The registers whose values changed between the call site and the instruction after it,
        and must not."""
        if not call.landed or call.went_astray or call.landed.v[0] in (0, KEPT_NOTHING):
            return []
        mask = call.landed.v[0] & ~self.free() & ~but
        return [n for n in range(len(self.isa.names)) if mask >> n & 1] if mask else []

    def registers_kept(self) -> bool:
        """Did every call preserve its registers and continue after its site, was nothing
        wrong between two instructions, and was there a traced call?"""
        calls = self.truth.calls
        return not self.truth.between and any(c.landed for c in calls if c.callbacks) and not any(
            c.went_astray or self.lost(c) for c in calls)

    def expected(self, phase: Phase) -> workload.ExpectedRun:
        return expected_run(phase.seed, self.smp)

    @once
    def executed_contexts(self, phase: Phase) -> dict[str, list[Call]]:
        """The workload's calls by context; contexts have the names of ExpectedRun."""
        threads: dict[int, str] = {}
        contexts: dict[str, list[Call]] = {}
        for call in self.calls(phase):
            if call.name.startswith("wl_"):
                contexts.setdefault(self._context(call, threads), []).append(call)
        return contexts

    def call_pairs(self, phase: Phase) -> Iterator[tuple[str, workload.ExpectedCall, Call]]:
        """Pairs of a call that the seed asks for and the call that was executed in its place, with
        the context's name."""
        executed = self.executed_contexts(phase)
        for name, calls in self.expected(phase).contexts.items():
            yield from ((name, want, call) for want, call in zip(calls, executed.get(name, [])))

    @staticmethod
    def _context(call: Call, threads: dict[int, str]) -> str:
        if call.level:
            return f"interrupt {call.vcpu}"
        if call.name in ("wl_begin", "wl_end"):
            return "main"
        return threads.setdefault(call.thread, f"thread {call.vcpu}")

"""One graded boot: what was asked of the kernel, what it said, and what it did."""

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

from grading import workload
from grading.elf import Kernel, Site
from grading.graph_text import GraphTrace
from grading.returns import Span
from grading.schedules import Played
from grading.steps import Steps
from grading.trace_text import FunctionTrace
from grading.trials import Trial
from grading.truth import Call, Truth
from grading.verdict import Verdict, blamed, limited

JUDGING = 60.0  # seconds of processor time for one boot: its evidence gathered and judged

expected_run = lru_cache(64)(workload.expect)  # every check asks again


class Window(Protocol):
    """A part of the observer's log."""

    first: int
    last: int


Item = TypeVar("Item")
Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")


def between(seen: list[Item], first: int, last: int) -> list[Item]:
    """Of what is in the order of the log, what came then."""
    seq = attrgetter("seq")
    return seen[bisect_left(seen, first, key=seq):bisect_left(seen, last, key=seq)]


def during(window: Window, seen: list[Item]) -> list[Item]:
    return between(seen, window.first, window.last)


def once(work: Callable[Concatenate[Evidence, Asked], Answer]) -> Callable[Concatenate[Evidence, Asked], Answer]:
    """Several rungs ask this of a boot: it is worked out once, and kept with the truth that it follows from."""
    def known(e: Evidence, /, *about: Asked.args, **named: Asked.kwargs) -> Answer:
        key = (work, *about, *named.items())
        if key not in e.truth.known:
            e.truth.known[key] = work(e, *about, **named)
        found: Answer = e.truth.known[key]
        return found
    return known


@dataclass(frozen=True)
class Filter:
    """What is written to set_ftrace_filter and set_ftrace_notrace; names: what that selects."""

    filter: str
    notrace: str
    names: frozenset[str]

    def __str__(self) -> str:
        return f"'{self.filter}'" + (f" without '{self.notrace}'" if self.notrace else "")


@dataclass(eq=False)
class User:
    """One function_graph tracer: the top directory's, or an instance's."""

    directory: str  # "" or "instances/NAME/"
    filter: Filter
    trace: GraphTrace = field(default_factory=GraphTrace)
    stats: dict[int, dict[str, int]] = field(default_factory=dict)  # CPU -> per_cpu/cpuN/stats
    leaves: bool = False  # it is switched off while the workload runs


@dataclass(frozen=True)
class HandUser:
    """A user of function_graph that the shell's `graph` command made."""

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
    first: int = 0  # of the observer's records, from the command that starts the phase
    last: int = 0  # to the prompt after the one that ends it
    output: str = ""
    trace: FunctionTrace | None = None
    text: bytes = b""  # the kernel's text while it was so
    files: dict[str, str] = field(default_factory=dict)  # lab 4: the lists of functions
    users: list[User] = field(default_factory=list)  # of function_graph; `filter` is then all of theirs together
    hands: list[HandUser] = field(default_factory=list)  # the same, by hand
    refused: str = ""  # what was said to one user too many
    rewritten: str = ""  # the users' filter when they began; then each wrote its own

    @property
    def on(self) -> bool:
        return self.filter is not None

    def listed(self, file: str) -> list[str]:
        """The functions that the file named, or its only line, a comment."""
        return [line if line[0] == "#" else line.split()[0] for line in self.files.get(file, "").splitlines() if line.strip() and line[0] not in " \t"]

    @cached_property
    def returning(self) -> frozenset[str]:
        """The functions whose return somebody wants to hear of."""
        if self.hands:
            return frozenset(name for hand in self.hands if hand.returning for name in hand.names)
        return self.filter.names if self.filter else frozenset()


@dataclass
class Spoilt:
    """Lab 3: a word of a call site was changed behind the kernel's back; then its function was to be traced."""

    site: Site
    word: int  # what was written there, and does nothing
    seed: int
    first: int = 0
    last: int = 0
    said: str = ""
    text: bytes = b""
    output: str = ""  # the workload's


@dataclass(frozen=True)
class Complaint:
    """What the shell said, where it should have said nothing."""

    line: str  # that was typed
    said: list[str]
    error: str  # its name, ENOSYS or the like, if it says one

    def __str__(self) -> str:
        return f"'{self.line}' said: {'; '.join(self.said)}"


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
    whereabouts: list[list[int]] = field(default_factory=list)  # when its time was over: a few times, the instruction that each CPU was at
    complaint: Complaint | None = None
    phases: list[Phase] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)  # lab 4: with ops
    files: dict[str, str] = field(default_factory=dict)
    truth: Truth = field(default_factory=Truth)
    texts: list[tuple[int, bytes]] = field(default_factory=list)  # each that was read, and the observer's records before it
    text_at_boot: bytes = b""
    text_at_end: bytes = b""
    text_traced: bytes = b""  # while every function was, labs 3 and 4
    overwritten: Phase | None = None  # labs 1 to 3: the workload under a tracer that overwrites every register that it may
    spoilt: Spoilt | None = None
    steps: Steps = field(default_factory=Steps)  # lab 1
    alias: list[tuple[str, list[int]]] = field(default_factory=list)  # when, and the CPUs that text's alias was open to
    walk: str = ""  # the threads' stacks, while one of them sleeps in a call whose return is patched
    slot_again: tuple[int, int] = (0, 0)  # the records of the time in which a slot changed hands under a sleeper
    frames_out: tuple[int, int] = (0, 0)  # the records of the time in which function_graph had every function
    interrupted: int = 1 << 62  # frames_traced is called from this record on: the last that is tried
    typed: list[tuple[int, str]] = field(default_factory=list)  # each line, and the observer's records before it
    observed: int = 0  # call sites that were executed and are judged
    seconds: float = 0.0
    played: list[Played] = field(default_factory=list)  # in the boot of the schedules
    boot: int = -1  # SCHEDULES, or (-1) it is known by its CPUs
    judging: float = 0.0  # seconds of processor time that went into it, of JUDGING
    insns: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.boot < 0:
            self.boot = self.smp

    @contextmanager
    def judged(self) -> Iterator[None]:
        """Whatever is raised inside becomes Stopped, with the right verdict; and a boot is not judged for ever."""
        began = time.process_time()
        gc.disable()  # what is read of a boot stays: each round of it would look at all of that
        try:
            with blamed(), limited(JUDGING - self.judging):
                yield
        finally:
            gc.freeze()
            gc.unfreeze()  # both together put every object into the oldest generation, without a look at it
            gc.enable()
            self.judging += time.process_time() - began

    def summary(self) -> Evidence:
        """Without what the checks alone need, which is most of it."""
        return replace(self, phases=[], trials=[], truth=Truth(), files={}, spoilt=None, texts=[], text_at_boot=b"", text_at_end=b"", text_traced=b"", overwritten=None)

    def ending(self) -> str:
        """How a boot that ended early did."""
        during = f" during '{self.typed[-1][1]}'" if self.verdict == Verdict.TIMEOUT and self.typed else ""
        return f"{self.verdict.value}{during}: {self.why}" + "".join(f". CPU {cpu} was in {name}" for cpu, name in self.stuck().items())

    def stuck(self) -> dict[int, str]:
        """By CPU, the function in which it was when the time was over: at most of the looks at it, as any may find it in an interrupt."""
        names = [Counter(self.kernel.name_at(pc).partition("+")[0] for pc in seen) for seen in zip(*self.whereabouts)]
        most = {cpu: found.most_common(1)[0] for cpu, found in enumerate(names)}
        return {cpu: name for cpu, (name, times) in most.items() if 2 * times > len(self.whereabouts)}

    def on(self) -> list[Phase]:
        return [p for p in self.phases if p.on]

    def off(self) -> list[Phase]:
        return [p for p in self.phases if not p.on]

    def calls(self, phase: Phase | Trial) -> list[Call]:
        return during(phase, self.truth.calls)

    def spans(self, phase: Phase) -> list[Span]:
        return during(phase, self.truth.returns.spans)

    def expected(self, phase: Phase) -> workload.ExpectedRun:
        return expected_run(phase.seed, self.smp)

    @once
    def executed_contexts(self, phase: Phase) -> dict[str, list[Call]]:
        """The workload's calls by context, under the names that the expectation gives them."""
        threads: dict[int, str] = {}
        contexts: dict[str, list[Call]] = {}
        for call in self.calls(phase):
            if call.name.startswith("wl_"):
                contexts.setdefault(self._context(call, threads), []).append(call)
        return contexts

    def call_pairs(self, phase: Phase) -> Iterator[tuple[str, workload.ExpectedCall, Call]]:
        """Context by context, each call that the seed asks for with the one that was executed in its place."""
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

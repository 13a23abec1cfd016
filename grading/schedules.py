"""Schedules: every place at which one CPU's change of the tracer can meet another CPU's traced call, one after the other.

CPU A types a line that changes something (registers an op, takes it away, exchanges a filter); CPU B makes a traced call. A's
*steps* are the stores and fences of the handed-in files that it executes, and its grace periods; B's are the functions that
its call goes through. A schedule says in front of which step A is stopped, and in front of which of B's steps B is stopped
then, while A goes on to its end:

    unregister:ftrace_shutdown+0x98:op_see      A up to this store; B up to op_see; A to its end, if it comes there; B; A
    unregister:ftrace_shutdown+0x98             the same, and B's call is made as a whole while A stands there

As long as B is inside of the tracer, A may not end: what it took away is still in use. A schedule that fails is played again
by its name: SCHEDULE=...
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.elf import OBJDUMP, Kernel
from grading.hold import interleaved
from grading.machine import Run
from grading.verdict import Stopped, Verdict

CHANGER, CALLER = 0, 1  # the CPUs of A and of B
KERNEL_BASE = 0xFFFFFFFF80000000
LINE_INSNS = 40_000_000  # for a line of the shell, from Enter to the next prompt
STORES = {"riscv64": ("sb", "sh", "sw", "sd", "sc.", "amo", "fence"),
          "arm64": ("str", "stp", "stur", "stlr", "stx", "stlx", "dmb", "dsb", "ic", "dc", "cas", "swp")}
OWN_FRAME = re.compile(r"\(sp\)|\(s0\)|\[sp\b|\[x29\b")  # nobody else looks there
AGAIN = 2  # as often is the same instruction a step of its own: a loop's later rounds are like its second


@dataclass(frozen=True)
class Change:
    """What A does: the line, the function that is done when it is; lines that make ready for it and undo it, each time and once.

    stays, goes: the ops that see every call, whatever A does; that see none which begins when the function has returned.
    """

    name: str
    line: str
    ends: str
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    stays: frozenset[int] = frozenset()
    goes: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Schedule:
    change: Change
    step: str  # of A
    inside: str  # of B; "": its call is made as a whole

    def __str__(self) -> str:
        return ":".join(filter(None, (self.change.name, self.step, self.inside)))


@dataclass
class Shown:
    """A schedule that was played, in the observer's log: B's calls begin at `first`, A was done at `ended`."""

    schedule: Schedule
    first: int
    ended: int = 0
    last: int = 0


@dataclass
class Played:
    """What was played of how many. One that has no end is the last: it stopped there."""

    change: Change
    possible: int = 0
    shown: list[Shown] = field(default_factory=list)
    why: str = ""  # what was not reached


def stepping(kernel: Kernel, sources: Iterable[str]) -> dict[int, str]:
    """Instructions of these files' objects that others can see, and the grace period; what to call them."""
    extents = [kernel.extent(name) for source in sources for name in _functions(kernel, source)]
    text = subprocess.run([OBJDUMP[kernel.arch], "-d", "--no-show-raw-insn", "-j", ".text", str(kernel.path)],
                          capture_output=True, text=True, check=True).stdout
    found = {}
    for line in re.finditer(r"^ *([0-9a-f]{16}):\s+(\S+)(.*)$", text, re.M):
        address = int(line[1], 16)
        if line[2].startswith(STORES[kernel.arch]) and not OWN_FRAME.search(line[3]) and any(lo <= address < hi for lo, hi in extents):
            found[address] = kernel.name_at(address)
    grace = kernel.symbol("synchronize_sched")
    return {**found, grace: kernel.name_at(grace)}


def _functions(kernel: Kernel, source: str) -> list[str]:
    with (kernel.path.parent / source).with_suffix(".o").open("rb") as file:
        symbols = ELFFile(file).get_section_by_name(".symtab").iter_symbols()
        return [s.name for s in symbols if s["st_info"]["type"] == "STT_FUNC" and s["st_size"]]


def some(schedules: list[Schedule], most: int, rng: random.Random) -> list[Schedule]:
    """As many as there is time for: those with one switch first, then those with two, each in the order of A's steps."""
    whole = [s for s in schedules if not s.inside]
    halved = [s for s in schedules if s.inside]
    halved = rng.sample(halved, max(0, min(len(halved), most - len(whole))))
    return whole[:most] + sorted(halved, key=schedules.index)


class Player:
    """Plays the schedules of one change after the other. Between two of them all CPUs run, and nothing is wanted of them."""

    def __init__(self, machine: Run, kernel: Kernel, sources: Iterable[str]) -> None:
        self.played: list[Played] = []
        self._machine = machine
        self._kernel = kernel
        self._steps = stepping(kernel, sources)
        self._front = kernel.symbol("calls_traced")
        self._home = next(a + 4 for a in range(*kernel.extent("calls_thread"), 4) if kernel.jumps_to(a) == self._front)
        self._wanted = machine.machine.load_address() + kernel.symbol("calls_wanted") - KERNEL_BASE
        self._prompt = kernel.symbol("line_begin")
        self._a = set[int]()  # the CPU that changes, where it is held

    def play(self, changes: Iterable[Change], most: int, rng: random.Random, only: str = "") -> None:
        """Of each change at most so many schedules; or the one with this name."""
        with interleaved(self._machine) as self._cpus:
            self._cpus.type(f"calls {CALLER} &")
            self._back_at_prompt()
            for change in changes:
                self.played.append(Played(change))
                try:
                    self._all(self.played[-1], most, rng, only)
                except Stopped as stopped:
                    self.played[-1].why = stopped.why
                    raise
            self._lines(["calls off"])
        self._machine.console.send(b"\r")

    def _all(self, played: Played, most: int, rng: random.Random, only: str) -> None:
        change = played.change
        self._lines(change.first)
        todo = self._dry(change)
        played.possible = len(todo)
        for schedule in [s for s in todo if str(s) == only] if only else some(todo, most, rng):
            played.shown.append(Shown(schedule, self._machine.observer.written()))
            self._one(schedule, played.shown[-1])
        self._lines(change.last)

    def _dry(self, change: Change) -> list[Schedule]:
        """All schedules: A's steps are seen once, in the order in which they come, and B's path before and behind them."""
        self._lines(change.before)
        path, steps = self._path(), list[str]()
        self._cpus.type(f"taskset -c {CHANGER} {change.line}")
        ends = set(self._kernel.exits(change.ends))
        while (at := self._a_comes_to(set(self._steps) | ends)) not in ends:
            times = sum(step.partition("#")[0] == self._steps[at] for step in steps)
            if times < AGAIN:
                steps.append(self._steps[at] + (f"#{times + 1}" if times else ""))
        self._back_at_prompt()
        path |= self._path()
        self._lines(change.after)
        return [Schedule(change, step, inside) for step in steps for inside in ("", *sorted(path))]

    def _one(self, schedule: Schedule, shown: Shown) -> None:
        change, ends = schedule.change, set(self._kernel.exits(schedule.change.ends))
        step, _, times = schedule.step.partition("#")
        observer = self._machine.observer
        self._lines(change.before)
        self._cpus.type(f"taskset -c {CHANGER} {change.line}")
        for _ in range(int(times or 1)):
            at = self._a_comes_to({self._address(step)} | ends)
        with observer.recording():
            self._b_calls()
            if self._b_comes_to({self._address(schedule.inside), self._home}) != self._home:
                at = self._a_goes_past(ends)
                shown.ended = observer.written() if at else 0
                self._b_comes_to({self._home})
            self._cpus.go(*self._cpus.all - self._a)
            if at not in ends:
                self._a_comes_to(ends)
            shown.ended = shown.ended or observer.written()
            self._b_calls()  # once more, behind the change
            self._b_comes_to({self._home})
            self._cpus.go(CALLER)
            shown.last = observer.written()
        self._back_at_prompt()
        self._lines(change.after)

    def _address(self, name: str) -> int:
        """Of a step; of none, B's home."""
        symbol, _, offset = name.partition("+")
        return self._kernel.symbol(symbol) + int(offset or "0", 16) if name else self._home

    def _path(self) -> set[str]:
        """The functions that B's call goes through now."""
        self._b_calls()
        self._b_comes_to({self._front})
        starts = {self._kernel.name_at(pc) for pc in self._cpus.walk(CALLER, self._home)}
        self._cpus.go(CALLER)
        return {name for name in starts if "+" not in name}

    def _a_goes_past(self, ends: set[int]) -> int:
        """B stands inside of the tracer: where A comes to its end; 0: it does not, and stands where it waits."""
        self._cpus.hold(CALLER, serving=True)
        self._cpus.go(*self._a)
        cpu = self._cpus.reach(ends, but={CALLER})
        self._cpus.hold(*self._cpus.all - {CALLER})
        self._a = set() if cpu is None else {cpu}
        return 0 if cpu is None else self._cpus.pc(cpu)

    def _a_comes_to(self, places: set[int], insns: int = LINE_INSNS) -> int:
        self._cpus.go(*self._a)
        cpu = self._cpus.reach(places, insns=insns)
        if cpu is None:
            raise Stopped(Verdict.FAIL, f"{self._named(places)} was not reached; {self._where()}")
        self._a = {cpu}
        return self._cpus.pc(cpu)

    def _b_calls(self) -> None:
        self._cpus.write(self._wanted, 1)

    def _b_comes_to(self, places: set[int]) -> int:
        """It is held there."""
        self._cpus.go(CALLER)
        if self._cpus.reach(places, but=self._cpus.all - {CALLER}) is None:
            raise Stopped(Verdict.FAIL, f"the call on CPU {CALLER} did not come to {self._named(places)}; {self._where()}")
        return self._cpus.pc(CALLER)

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._cpus.type(line)
            self._back_at_prompt()

    def _back_at_prompt(self) -> None:
        self._a_comes_to({self._prompt})
        self._cpus.go(*self._a)
        self._a = set()

    def _named(self, places: set[int]) -> str:
        return " or ".join(sorted(self._kernel.name_at(place) for place in places)[:3])

    def _where(self) -> str:
        return "the CPUs are at " + ", ".join(self._kernel.name_at(self._cpus.pc(cpu)) for cpu in sorted(self._cpus.all))

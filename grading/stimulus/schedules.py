"""Plays schedules: interleavings of one CPU's change of the tracer with another CPU's traced call.

CPU A executes a shell command that changes the tracer (registers an op, unregisters it, replaces a
filter); CPU B makes a traced call. A's *steps* are the stores, fences and grace periods of the
handed-in files that it executes; B's *places* are its call site and the tracer's functions that its
call runs. Both are read from the observer's log of one run without any stop. A schedule:

    1. A runs up to a step.                            4. Both run until B's call has returned.
    2. B runs up to a place in its call.               5. Both run until the change has ended.
    3. A runs until the change ends or it must wait.   6. B calls once more.

    unregister:ftrace_shutdown+0x98:op_see      the change, A's step, B's place
    unregister:ftrace_shutdown+0x98             without a place: B makes its whole call in step 2,
                                                and there are no steps 3 and 4

Schedules without a place are played one after the other during one change: A runs from step to
step, and at each of them B makes a whole call.

Other CPUs, if there are any, have nothing to do. A is held at its step only, where it has no
spinlock that B needs. At the end of step 3 it may be anywhere, in the scheduler too, with a lock
that CPU B waits for.

The observer's log shows what each of B's calls did; which ops it must run depends on whether the
change had ended. A schedule that fails is played again by its name: SCHEDULE=...
"""

import random
import re
import struct
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import takewhile

from grading.elf.elf import KERNEL_BASE, Kernel
from grading.machine.hold import INSNS, Cpus, interleaved
from grading.machine.machine import Run
from grading.machine.observer import Config, Kind, Record
from grading.truth import returns
from grading.verdict import Stopped, Verdict

SCHEDULES = 0  # the boot of the schedules; other boots are named by their number of CPUs
CALLED = "calls_traced"
STOPS = "stop_machine"
CHANGER, CALLER = 0, 1  # the CPUs of A and of B
CALL_INSNS = 5_000_000  # instructions for a call, and the sleep of the thread that makes it
# an access of the function's own stack frame, which no other CPU reads
OWN_FRAME = re.compile(r"\(sp\)|\(s0\)|\[sp\b|\[x29\b")
# a boot's limits grow by this with each schedule: several times what a schedule takes
EACH_INSNS, EACH_SECONDS = 50_000_000, 4.0
# so many executions of an instruction in a loop are steps: later iterations are like the second one
AGAIN = 2


@dataclass(frozen=True)
class Change:
    """What A does: a command, and the function that makes the change. The change has ended when
    that function returns.

    first, last: commands before and after all schedules of the change; before, after: those of each
    schedule. stays: the ops (or users of function_graph) that run in every call. comes: those that
    run in each call that begins after the change has ended. goes: those that run in no such call;
    and when the change has ended, no earlier call is still in them. inside: names of B's places,
    besides those that its call is seen to pass.
    """

    name: str
    line: str
    ends: str
    first: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    stays: frozenset[int] = frozenset()
    comes: frozenset[int] = frozenset()
    goes: frozenset[int] = frozenset()
    inside: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schedule:
    change: Change
    step: str  # A's step
    inside: str  # B's place; "": B makes its whole call

    def __str__(self) -> str:
        return ":".join(filter(None, (self.change.name, self.step, self.inside)))


@dataclass
class ScheduleRun:
    """A schedule that was played, and its part of the observer's log. `goes_on`: the change has not
    ended there; it goes on in the next schedule's part."""

    schedule: Schedule
    first: int
    last: int = 0
    goes_on: bool = False


@dataclass
class Played:
    """The schedules of one change, and the runs of the schedules that were played."""

    change: Change
    todo: list[Schedule] = field(default_factory=list)  # all schedules
    planned: int = 0  # how many of them must be played
    # instructions that A executed from its first step to the end of the change, in the run without
    # any stop
    insns: int = 0
    runs: list[ScheduleRun] = field(default_factory=list)


def stepping(kernel: Kernel, sources: Iterable[str], also: tuple[str, ...] = ()) -> dict[int, str]:
    """The name of each step, by its address: the instructions of these files whose effect other
    CPUs can see, and the grace period. `also`: prefixes of further instructions."""
    code = kernel.code_of(*sources)
    text = subprocess.run([f"{kernel.isa.cross}objdump", "-d", "--no-show-raw-insn",
                           "-j", ".text", f"--start-address={min(code)[0]:#x}",
                           f"--stop-address={max(code)[1]:#x}", str(kernel.path)],
                          capture_output=True, text=True, check=True).stdout
    found, before = {}, ""
    for line in re.finditer(r"^ *([0-9a-f]{16}):\s+(\S+)(.*)$", text, re.M):
        address = int(line[1], 16)
        # arch_sync_line() stores a word that was just loaded from the same place
        again = line[3] == before
        if (line[2].startswith((*kernel.isa.stores, *also)) and not again
            and not OWN_FRAME.search(line[3]) and any(lo <= address < hi for lo, hi in code)):
            found[address] = kernel.name_at(address)
        before = line[3]
    grace = kernel.symbol("synchronize_sched")
    return {**found, grace: kernel.name_at(grace)}


def some(schedules: list[Schedule], most: int, rng: random.Random,
         again: bool = False) -> list[Schedule]:
    """All schedules in which B makes its whole call, all with A's first step, and at most `most` of
    the others. `again`: only these others."""
    always = {s for s in schedules if not s.inside or s.step == schedules[0].step}
    others = [s for s in schedules if s not in always]
    chosen = (set() if again else always) | set(rng.sample(others, min(most, len(others))))
    return [s for s in schedules if s in chosen]


WhenHeld = Callable[[Run, Schedule, Cpus], None]  # called when the CPUs of a schedule are held


class Player:
    """Plays the schedules of one change after the other. Between two schedules all CPUs run freely.
    """

    def __init__(self, kernel: Kernel, sources: Iterable[str],
                 when_held: WhenHeld | None = None) -> None:
        self.when_held = when_held
        self.played: list[Played] = []
        self.kernel = kernel
        self._steps = stepping(kernel, sources)
        # where A's stop_machine() begins and ends
        self._stopping = [stop, *returns.ends(kernel, STOPS)] if (stop :=
                                                                  kernel.symbol(STOPS)) else []
        own = kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end")
        self._places = {f.start: f.name for f in kernel.functions if own[0] <= f.start < own[1]}
        site = next(s.address for s in kernel.sites if s.function.name == CALLED)
        self._site = kernel.name_at(site)
        # the body of a function whose return is patched is a place too
        if kernel.symbol(returns.HANDLER):
            self._places[site + 4] = kernel.name_at(site + 4)

    def config(self, config: Config, changes: Iterable[Change]) -> Config:
        """Add the addresses of all steps and places, and of the ends of all changes, to the
        observer's configuration."""
        for address in {*self._steps, *self._places, *self._stopping,
                        *(a for change in changes for a in returns.ends(self.kernel, change.ends))}:
            config.add("hit", address)
        return config

    def begin(self, machine: Run) -> None:
        self.machine = machine
        base = machine.machine.load_address() - KERNEL_BASE
        self._wanted, self._made = base + self.kernel.symbol(
            "calls_wanted"), base + self.kernel.symbol("calls_made")
        machine.console.command(f"calls {CALLER} &")

    def play(self, change: Change, most: int, rng: random.Random, only: str = "",
             again: bool = False) -> None:
        """Play the schedules of a change: those that are always played, but not `again`, and `most`
        random ones; or those whose names match `only`."""
        played = Played(change)
        self.played.append(played)
        self._lines(change.first)
        todo, played.insns = self._dry(change)
        chosen = [s for s in todo
                  if fnmatchcase(str(s), only)] if only else some(todo, most, rng, again)
        played.todo, played.planned = todo, len(chosen)
        self.machine.grant(EACH_INSNS * len(chosen), EACH_SECONDS * len(chosen))
        for several in ([s for s in chosen if not s.inside], *([s] for s in chosen if s.inside)):
            while several:
                several = several[self._change(played, several):]
        self._lines(change.last)

    def _change(self, played: Played, schedules: list[Schedule]) -> int:
        """Make the change, and play these schedules meanwhile. Returns how many were played."""
        change, observer = played.change, self.machine.observer
        first = observer.written()
        self._lines(change.before)
        with observer.recording(), interleaved(self.machine) as cpus:
            runs = _Play(self, cpus, change, first, 2 * played.insns + INSNS).run(schedules)
        runs[-1].last = observer.written()
        played.runs += runs
        self.machine.console.wait_ready(60)
        self._lines(change.after)
        return len(runs)

    def end(self) -> None:
        self.machine.console.command("calls off")

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            if said := self.machine.console.command(line):
                raise Stopped(Verdict.FAIL, f"'{line}' printed: {said.strip()}")

    def _dry(self, change: Change) -> tuple[list[Schedule], int]:
        """Run the change without any stop. Returns all its schedules, with A's steps in the order
        of their execution, and the number of A's instructions."""
        self._lines(change.before)
        places = self._places_of_call() | {self._site}
        counted, ends = Counter[str](), set(returns.ends(self.kernel, change.ends))
        steps = list[str]()
        log = [r for r in self._log(lambda: self._lines([self.typed(change)]))
               if r.kind == Kind.HIT and r.vcpu == CHANGER]
        if not any(r.addr in ends for r in log):
            raise Stopped(Verdict.FAIL,
                          f"'{change.line}': {change.ends} did not return on CPU {CHANGER}")
        insns = next(r.insns for r in log if r.addr in ends) - next(
            (r.insns for r in log if r.addr in self._steps), 0)
        stopped = False  # B, by A's stop_machine(): A cannot be held there while B calls
        for r in takewhile(lambda r: r.addr not in ends, log):
            stopped = r.addr in self._stopping[:1] or stopped and r.addr not in self._stopping
            if r.addr in self._steps and not stopped:
                step = self._steps[r.addr]
                counted[step] += 1
                if counted[step] <= AGAIN:
                    steps.append(step if counted[step] == 1 else f"{step}#{counted[step]}")
        places |= self._places_of_call() | {*change.inside}
        self._lines(change.after)
        return [Schedule(change, step, inside) for step in steps
                for inside in ("", *sorted(places))], insns

    def _places_of_call(self) -> set[str]:
        """The places that a call passes between its call site and its end."""
        log = [r for r in self._log(self._call) if r.vcpu == CALLER and not r.level]
        ends = [n for n, r in enumerate(log) if r.kind in (Kind.SITE, Kind.BODY, Kind.HOME)]
        return {self._places[r.addr]
                for r in log[ends[0]:ends[-1]] if r.addr in self._places} if ends else set()

    def _log(self, does: Callable[[], None]) -> list[Record]:
        observer = self.machine.observer
        with observer.recording():
            first = observer.written()
            does()
            return list(observer.records(first))

    def _call(self) -> None:
        with interleaved(self.machine) as cpus:
            self.want(cpus)
            cpus.run(self.is_made, CALL_INSNS)

    def typed(self, change: Change) -> str:
        return f"taskset -c {CHANGER} {change.line}"

    def want(self, cpus: Cpus) -> None:
        """Ask B for one more call."""
        cpus.write(self._wanted, self._word(self._wanted) + 1)

    def is_made(self) -> bool:
        return self._word(self._made) == self._word(self._wanted)

    def _word(self, physical: int) -> int:
        return int(struct.unpack("<Q", self.machine.read(physical, 8))[0])

    def address(self, name: str) -> int:
        symbol, _, offset = name.partition("+")
        return self.kernel.address_of(symbol) + int(offset or "0", 16)

    def ended_since(self, change: Change, first: int) -> Callable[[], bool]:
        """A function that says whether the change has ended."""
        has, ends = self.machine.observer.has, set(returns.ends(self.kernel, change.ends))
        return lambda: has(first, ends)


class _Play:
    """Plays schedules during one change, from A's command until B has called once more."""

    def __init__(self, player: Player, cpus: Cpus, change: Change, first: int, insns: int) -> None:
        self._player = player
        self._cpus = cpus
        self._change = change
        self._first = first
        self._insns = insns  # the number of instructions that A may execute while B is held
        self._ended = player.ended_since(change, first)
        self._stops = Counter[str]()  # by step: how often A was held there

    def run(self, schedules: Iterable[Schedule]) -> list[ScheduleRun]:
        """Play schedules, all but a single one without a place, until one of A's steps is not
        reached before the change ends. The last run's part of the log has no end yet."""
        player, cpus, runs = self._player, self._cpus, list[ScheduleRun]()
        cpus.begin(player.typed(self._change))
        for self._now in schedules:
            if not self._to_step(self._now.step) and runs:
                break
            at = player.machine.observer.written() if runs else self._first
            if runs:
                runs[-1].last, runs[-1].goes_on = at, True
            runs.append(ScheduleRun(self._now, at))
            self._call(self._now)
        if not cpus.run(self._ended):
            raise Stopped(Verdict.FAIL, f"{runs[-1].schedule}: {self._change.ends} does not "
                          f"return; {self._where()}")
        player.want(cpus)
        self._made()
        return runs

    def _call(self, schedule: Schedule) -> None:
        """A is held at its step: let B make a call, and A go on."""
        player, cpus = self._player, self._cpus
        player.want(cpus)
        inside = schedule.inside and cpus.reach({player.address(schedule.inside)},
                                                but=cpus.all - {CALLER}, until=player.is_made,
                                                insns=CALL_INSNS) == CALLER
        if player.when_held:
            player.when_held(player.machine, schedule, cpus)
        if inside:
            cpus.serve(CALLER, often=False)
            cpus.go(CHANGER)
            cpus.run(self._ended, self._insns)
            cpus.go(CALLER)
        self._made()
        cpus.go(CHANGER)

    def _to_step(self, step: str) -> bool:
        step, _, times = step.partition("#")
        while self._stops[step] < int(times or 1):
            self._cpus.go(CHANGER)
            if self._cpus.reach({self._player.address(step)}, but=self._cpus.all - {CHANGER},
                                until=self._ended) is None:
                return False
            self._stops[step] += 1
        return True

    def _made(self) -> None:
        if not self._cpus.run(self._player.is_made, CALL_INSNS):
            raise Stopped(Verdict.FAIL, f"{self._now}: the call on CPU {CALLER} does not return; "
                          f"{self._where()}")

    def _where(self) -> str:
        kernel = self._player.kernel
        return "the CPUs are at " + ", ".join(
            kernel.name_at(self._cpus.pc(cpu)) for cpu in sorted(self._cpus.all))

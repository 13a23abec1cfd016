"""CPUs held at an instruction while others run: an interleaving that is meant, and not met by chance.

    with interleaved(machine) as cpus:
        cpus.type("workload 0123456789abcdef &")
        inside = cpus.reach({callback}, but={0})            # all run; one of them is held in front of its callback
        cpus.type("op 0 off")
        left = cpus.reach(returns, insns=2_000_000)          # None: the others did not get there in so many instructions
        cpus.go(inside)

A held CPU is in front of the instruction, as a thread that a hypervisor has put aside. `serving` holds the thread and not
the CPU: whatever interrupts it is served, which a CPU that waits for every other one's answer needs. What nobody holds runs.

QEMU's debugger stub resumes the CPUs that it is told of (vCont); all stop when one of them meets a breakpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from grading.gdbstub import Stub
from grading.machine import Run

SLICE = 0.02  # seconds between two looks at what runs
SERVED = 0.001  # the same, while somebody's interrupts are to be served
SERVICE = 1.0  # seconds in which a CPU, on a busy host, is back from an interrupt
PATIENCE = 10.0  # seconds, for CPUs that wait for an interrupt and execute nothing
MOST = 200_000  # instructions of a look that count: a busy host may make it long
INSNS = 300_000  # that one CPU may execute before a place counts as not reached


class Cpus:
    """The CPUs of a machine that stands still between any two calls. A CPU is held wherever it was when that was said."""

    def __init__(self, run: Run, stub: Stub) -> None:
        self.all = frozenset(range(run.machine.smp))
        self._run = run
        self._stub = stub
        self._held: set[int] = set()
        self._serving: dict[int, int] = {}  # held CPUs whose interrupts are served, and where their threads are held
        self._away: set[int] = set()  # those of them that may be in an interrupt now
        self._breakpoints: set[int] = set()

    def type(self, line: str) -> None:
        """For the shell to read when it runs. The rest of a long line waits outside of the port's FIFO."""
        self._run.console.begin(line)

    def hold(self, *cpus: int, serving: bool = False) -> None:
        self._held |= set(cpus)
        if serving:
            self._serving |= {cpu: self._stub.pc(cpu) for cpu in cpus}

    def is_held(self, cpu: int) -> bool:
        return cpu in self._held

    def go(self, *cpus: int) -> None:
        """They run with the others from now on. Where they stood they have left: to come there is new."""
        for cpu in self._held & set(cpus):
            if cpu not in self._away:
                self._step(cpu)
            self._serving.pop(cpu, None)
        self._held -= set(cpus)
        self._away -= set(cpus)

    def write(self, physical: int, word: int) -> None:
        self._stub.write_physical(physical, word.to_bytes(8, "little"))

    def pc(self, cpu: int) -> int:
        return self._stub.pc(cpu)

    def walk(self, cpu: int, end: int, most: int = 5000) -> list[int]:
        """One CPU alone, instruction by instruction, until it is there (again): where it was."""
        self._set_breakpoints(set())
        passed = list[int]()
        while len(passed) < most and (not passed or passed[-1] != end):
            self._stub.step_one(cpu)
            passed.append(self._stub.pc(cpu))
        return passed

    def reach(self, places: Iterable[int], but: Iterable[int] = (), insns: int = INSNS) -> int | None:
        """Run what is not held until a CPU is in front of one of these places; it is held there. None: none got there.

        `but`: CPUs that pass them. `insns`: as many may each CPU execute meanwhile, give or take what a look takes.
        """
        wanted, passing = set(places), set(but)
        executed, end = [0] * len(self.all), self._run.clock() + PATIENCE
        while max(executed) <= insns and self._run.clock() < end:
            for cpu in self.all - self._held - passing:
                if self._stub.pc(cpu) in wanted:
                    self.hold(cpu)
                    return cpu
            served, before = bool(self._away), self._insns()
            self._look(wanted)
            if not served:  # else they may have waited for an answer all the time
                executed = [n + min(after - b, MOST) for n, after, b in zip(executed, self._insns(), before)]
        return None

    def _look(self, wanted: set[int]) -> None:
        """Run for the time of a look, or until a CPU meets a breakpoint. Who serves an interrupt gets the time for it."""
        self._set_breakpoints(wanted | {self._serving[cpu] for cpu in self._away})
        for cpu in self.all - self._held:
            if self._stub.pc(cpu) in self._breakpoints:
                self._step(cpu)
        self._stub.go_on_with((self.all - self._held) | self._away)
        if self._stub.stopped(SERVICE if self._away else SERVED if self._serving else SLICE):
            self._away -= {cpu for cpu in self._away if self._stub.pc(cpu) == self._serving[cpu]}
        else:
            self._stub.hold()
            self._away = set(self._serving)

    def _step(self, cpu: int) -> None:
        """From this instruction to another one: what QEMU calls a step may be none."""
        at, most = self._stub.pc(cpu), 100
        while self._stub.pc(cpu) == at and (most := most - 1):
            self._stub.step_one(cpu)

    def _set_breakpoints(self, places: set[int]) -> None:
        for place in self._breakpoints - places:
            self._stub.breakpoint(place, False)
        for place in places - self._breakpoints:
            self._stub.breakpoint(place, True)
        self._breakpoints = places

    def _insns(self) -> list[int]:
        return self._run.observer.insns_of(len(self.all))

    def end(self) -> None:
        """All of them go on."""
        self._set_breakpoints(set())


@contextmanager
def interleaved(run: Run) -> Iterator[Cpus]:
    """The machine's CPUs, held and let go one by one; afterwards they run."""
    with run.held() as stub:
        cpus = Cpus(run, stub)
        yield cpus
        cpus.end()

"""CPUs held at an instruction while others run: an interleaving that is meant, and not met by chance.

    with interleaved(machine) as cpus:
        cpus.begin("op 0 off")
        cpus.reach({callback}, but={0})         # all run; one of them, not CPU 0, is held in front of its callback
        cpus.serve(1)
        cpus.run(lambda: left(), insns=500_000)  # the others run until that is so, or for so many instructions
        cpus.go(1)

A held CPU has not executed the instruction that it is held at. Of a CPU that is served only the thread is held: its interrupts are
handled, because another CPU may wait for its answer. All other CPUs run.

QEMU's debugger stub resumes the CPUs that it is told of (vCont); all stop when one of them meets a breakpoint. Each such stop
costs QEMU all that it has translated, about 10 ms: what can be seen in memory or in the observer's log is looked for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from grading.gdbstub import Stub
from grading.machine import Run

POLL = 0.001  # seconds between two looks at what is waited for
SLICE = 0.05  # seconds that the CPUs run at most between two stops
SERVED = 0.005  # the same, while somebody's interrupts are to be answered
SERVICE = 1.0  # seconds in which a CPU, on a busy host, is back from an interrupt
PATIENCE = 10.0  # seconds, for CPUs that wait for an interrupt and execute nothing
SLICES = 4  # at least, before a place counts as not reached: a CPU that waits for a held one's answer may spin all through one
INSNS = 300_000  # that one CPU may execute before a place counts as not reached
SP = {"riscv64": 2, "arm64": 31}  # its number in the stub's packets
STEPS = 100  # of QEMU's for one instruction: each may be none


def never() -> bool:
    return False


class Cpus:
    """The CPUs of a machine that stands still between any two calls. A CPU is held wherever it was when that was said."""

    def __init__(self, run: Run, stub: Stub) -> None:
        self.all = frozenset(range(run.machine.smp))
        self._run = run
        self._stub = stub
        self._held: set[int] = set()
        self._served: dict[int, tuple[int, int]] = {}  # held CPUs whose interrupts are answered, and where their threads are held: pc, sp
        self._away: set[int] = set()  # those of them that may be in an interrupt now
        self._breakpoints: set[int] = set()

    def begin(self, line: str) -> None:
        """For the shell to read when it runs. The rest of a long line waits outside of the port's FIFO."""
        self._run.console.begin(line)

    def hold(self, *cpus: int) -> None:
        self._held |= set(cpus)

    def serve(self, cpu: int) -> None:
        self._held.add(cpu)
        self._served[cpu] = self._at(cpu)

    def go(self, *cpus: int) -> None:
        """They run with the others from now on."""
        self._held -= set(cpus)
        self._away -= set(cpus)
        for cpu in cpus:
            self._served.pop(cpu, None)

    def write(self, physical: int, word: int) -> None:
        self._stub.write_physical(physical, word.to_bytes(8, "little"))

    def pc(self, cpu: int) -> int:
        return self._stub.pc(cpu)

    def _at(self, cpu: int) -> tuple[int, int]:
        return self._stub.pc(cpu), self._stub.register(cpu, SP[self._run.machine.arch])

    def _is_back(self, cpu: int) -> bool:
        """From an interrupt, which may execute the same code: on another part of the stack."""
        return self._at(cpu) == self._served[cpu]

    def step(self, cpu: int) -> None:
        """From this instruction to another one; no other CPU runs."""
        at, most = self._stub.pc(cpu), STEPS
        while self._stub.pc(cpu) == at and (most := most - 1):
            self._stub.step_one(cpu)

    def run(self, until: Callable[[], bool], insns: int = INSNS) -> bool:
        """Run what is not held until that is so: is it? `insns`: as many may one CPU execute meanwhile, give or take a slice."""
        self.reach((), until=until, insns=insns)
        return until()

    def reach(self, places: Iterable[int], but: Iterable[int] = (), until: Callable[[], bool] = never, insns: int = INSNS) -> int | None:
        """Run what is not held until a CPU is in front of one of these places; it is held there. None: none got there.

        `but`: CPUs that pass them. One that is there when this begins has come there.
        """
        wanted, passing = set(places), set(but)
        executed, end = [0] * len(self.all), self._run.clock() + PATIENCE
        while not until() and max(executed) <= insns and self._run.clock() < end:
            answered, before = bool(self._away), self._run.insns()
            self._slice(wanted, until)
            for cpu in self.all - self._held - passing if wanted else ():
                if self._stub.pc(cpu) in wanted:
                    self.hold(cpu)
                    return cpu
            if not answered:  # else they may have waited for an answer all the time
                executed = [n + min(after - b, insns // SLICES) for n, after, b in zip(executed, self._run.insns(), before)]
        return None

    def _slice(self, wanted: set[int], until: Callable[[], bool]) -> None:
        """Run for a while, or until a CPU meets a breakpoint. Who answers an interrupt gets the time for it."""
        self._set_breakpoints(wanted | {self._served[cpu][0] for cpu in self._away})
        for cpu in (self.all - self._held) | self._away if self._breakpoints else ():
            if self._stub.pc(cpu) in self._breakpoints and not (cpu in self._away and self._is_back(cpu)):
                self.step(cpu)
        self._stub.go_on_with((self.all - self._held) | self._away)
        end = self._run.clock() + (SERVICE if self._away else SERVED if self._served else SLICE)
        while not (stopped := self._stub.stopped(POLL)) and self._run.clock() < end and (self._away or not until()):
            pass
        if stopped:
            self._away -= {cpu for cpu in self._away if self._is_back(cpu)}
        else:
            self._stub.hold()
            self._away = set(self._served)

    def _set_breakpoints(self, places: set[int]) -> None:
        for place in self._breakpoints - places:
            self._stub.breakpoint(place, False)
        for place in places - self._breakpoints:
            self._stub.breakpoint(place, True)
        self._breakpoints = places

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

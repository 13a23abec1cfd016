"""Forces an interleaving: holds chosen CPUs at an instruction while the others run.

    with interleaved(machine) as cpus:
        cpus.begin("op 0 off")
        cpus.reach({callback}, but={0})         # all run; a CPU other than CPU 0 is held before its
                                                callback
        cpus.serve(1)
        cpus.run(lambda: left(), insns=500_000)  # the others run until left() is true, at most so
                                                 many instructions
        cpus.go(1)

A held CPU has not yet executed the instruction at which it is held. A *served* CPU holds only its
thread: it still handles interrupts, because another CPU may wait for its answer. All other CPUs
run. A thread that is held in the tracer's text stays on its CPU (irq_exit defers the switch), so
synchronize_sched() on another CPU waits until it goes on: to see that one return, hold the thread
elsewhere, for example at the first instruction of mutex_lock and not at the tracer's call of it.

QEMU's debugger stub resumes single CPUs (vCont), and stops all of them when one reaches a
breakpoint. Each stop discards QEMU's translated code and costs about 10 ms, so conditions are read
from memory or from the observer's log where possible.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from grading.elf.elf import Kernel
from grading.machine.gdbstub import Stub
from grading.machine.machine import Run
from qemu.machine import MOST_CPUS

POLL = 0.001  # seconds between two checks of the condition
SLICE = 0.05  # seconds that the CPUs run at most between two stops
SERVED = 0.005  # the same, while a CPU is served
SERVICE = 1.0  # seconds in which a CPU returns from an interrupt, even on a busy host
# seconds for which each CPU ran or was idle before a place counts as not reached, however little
# was executed
PATIENCE = 10.0
# the least number of slices before a place counts as not reached: a CPU may spin for a whole slice,
# waiting for a held CPU
SLICES = 4
INSNS = 300_000  # that one CPU may execute before a place counts as not reached
OF_A_LINE = 400_000_000  # the same, after a line was typed: a right kernel executes some millions
# slices for which each CPU ran or was idle by then: one CPU may wait in a loop for another that the
# host does not run
TURNS = 2
STEPS = 100  # QEMU steps for one instruction at most: a step may execute none


def never() -> bool:
    return False


class Cpus:
    """The CPUs of a machine that is stopped between any two calls of these methods. A CPU is held
    at its current instruction."""

    def __init__(self, run: Run, stub: Stub, work: list[int]) -> None:
        self.all = frozenset(range(run.machine.smp))
        self._work = work  # of each CPU: the physical address of its ipi_work
        self._run = run
        self._stub = stub
        self._held: set[int] = set()
        # served CPUs -> where their threads are held: pc, sp
        self._served: dict[int, tuple[int, int]] = {}
        self._often: set[int] = set()  # served CPUs that handle interrupts after each slice
        self._away: set[int] = set()  # served CPUs that may be in an interrupt now
        self._breakpoints: set[int] = set()
        self._insns = INSNS
        # of each thread of QEMU: the seconds of this call of reach() in which it ran, or had
        # nothing to do
        self._turns: dict[str, float] = {}
        self._length = SLICE  # of the last slice

    def begin(self, line: str) -> None:
        """Type a line, which the shell reads when its CPU runs. From now on a place counts as not
        reached only after OF_A_LINE instructions."""
        self._insns = OF_A_LINE
        self._run.console.begin(line)

    def hold(self, *cpus: int) -> None:
        self._held |= set(cpus)

    def serve(self, cpu: int, often: bool = True) -> None:
        """Hold only this CPU's thread. Not `often`: let it handle interrupts only when another CPU
        has sent it one, which costs less."""
        self._held.add(cpu)
        self._served[cpu] = self._at(cpu)
        if often:
            self._often.add(cpu)

    def go(self, *cpus: int) -> None:
        """Let these CPUs run with the others again."""
        self._held -= set(cpus)
        self._away -= set(cpus)
        self._often -= set(cpus)
        for cpu in cpus:
            self._served.pop(cpu, None)

    def alone(self, cpu: int, place: int) -> bool:
        """Run this CPU alone until it is about to execute the place, and hold it there. False: it
        does not come there."""
        others = self.all - self._held
        self.hold(*others)
        self.go(cpu)
        reached = self.reach({place}) == cpu
        self.go(*others - {cpu})
        return reached

    def line_up(self, places: dict[int, int]) -> bool:
        """Run until each of these CPUs is about to execute its place, and hold it there. False: one
        does not come there."""
        waiting = set(places)
        while waiting:
            for cpu in [cpu for cpu in waiting if self.pc(cpu) == places[cpu]]:
                self.hold(cpu)
                waiting.remove(cpu)
            if waiting and self.reach({places[cpu] for cpu in waiting}, but=self.all - waiting,
                                      insns=OF_A_LINE) is None:
                return False
        return True

    def write(self, physical: int, word: int) -> None:
        self._stub.write_physical(physical, word.to_bytes(8, "little"))

    def pc(self, cpu: int) -> int:
        return self._stub.pc(cpu)

    def _at(self, cpu: int) -> tuple[int, int]:
        return self._stub.pc(cpu), self._stub.register(cpu, self._run.machine.isa.sp)

    def _is_back(self, cpu: int) -> bool:
        """Is the CPU back at its thread's place? sp tells it from an interrupt that executes the
        same code."""
        return self._at(cpu) == self._served[cpu]

    def step(self, cpu: int) -> None:
        """Step this CPU until its pc changes; no other CPU runs."""
        at, most = self._stub.pc(cpu), STEPS
        while self._stub.pc(cpu) == at and (most := most - 1):
            self._stub.step_one(cpu)

    def run(self, until: Callable[[], bool], insns: int = 0) -> bool:
        """Run the CPUs that are not held until `until()` is true. Returns its last value. `insns`:
        the limit for each CPU, give or take a slice."""
        self.reach((), until=until, insns=insns)
        return until()

    def reach(self, places: Iterable[int], but: Iterable[int] = (),
              until: Callable[[], bool] = never, insns: int = 0) -> int | None:
        """Run the CPUs that are not held until one is about to execute one of these addresses, and
        hold it. None: no CPU reached one.

        `but`: CPUs that are not stopped there. A CPU that is already at such an address executes it
        first, and counts when it comes back. `insns`: the limit for each CPU; 0: see begin().
        """
        wanted, passing, insns = set(places), set(but), insns or self._insns
        executed = [0] * len(self.all)
        self._turns = {}
        while not until() and not self._had_turns(
                TURNS * self._length if max(executed) > insns else PATIENCE):
            answered, before = bool(self._away), self._run.insns()
            self._slice(wanted, until)
            for cpu in self.all - self._held - passing if wanted else ():
                if self._stub.pc(cpu) in wanted:
                    self.hold(cpu)
                    return cpu
            if not answered:  # otherwise the CPUs may have spent the slice waiting for a served CPU
                executed = [n + min(after - b, insns // SLICES)
                            for n, after, b in zip(executed, self._run.insns(), before)]
        return None

    def _had_turns(self, seconds: float) -> bool:
        return bool(self._turns) and min(self._turns.values()) >= seconds

    def _slice(self, wanted: set[int], until: Callable[[], bool]) -> None:
        """Run for one slice, or until a CPU reaches a breakpoint. A served CPU gets time to handle
        its interrupt."""
        self._set_breakpoints(wanted | {self._served[cpu][0] for cpu in self._away})
        for cpu in (self.all - self._held) | self._away if self._breakpoints else ():
            if self._stub.pc(cpu) in self._breakpoints and not (cpu in self._away
                                                                and self._is_back(cpu)):
                self.step(cpu)
        before, began = self._run.threads(), self._run.clock()
        self._stub.go_on_with((self.all - self._held) | self._away)
        self._length = SERVICE if self._away else SERVED if self._served else SLICE
        while not (stopped := self._stub.stopped(POLL)
                   ) and self._run.clock() < began + self._length and (self._away or not until()):
            pass
        # when the machine has stopped all of them wait
        after, took = before if stopped else self._run.threads(), self._run.clock() - began
        self._turns = {name: self._turns.get(name, 0.0)
                       + (took if stopped or waits else ran - before.get(name, (ran, False))[0])
                       for name, (ran, waits) in after.items()}
        if stopped:
            self._away -= {cpu for cpu in self._away if self._is_back(cpu)}
        else:
            self._stub.hold()
            self._away = {cpu for cpu in self._served if cpu in self._often or self._is_asked(cpu)}

    def _is_asked(self, cpu: int) -> bool:
        """Has another CPU sent this one an interrupt that it has not handled?"""
        return any(self._run.read(self._work[cpu], 8)) or any(
            self._stub.control_register(cpu, name) & bits
            for name, bits in self._run.machine.isa.asked)

    def _set_breakpoints(self, places: set[int]) -> None:
        for place in self._breakpoints - places:
            self._stub.breakpoint(place, False)
        for place in places - self._breakpoints:
            self._stub.breakpoint(place, True)
        self._breakpoints = places

    def end(self) -> None:
        """Remove all breakpoints, so that every CPU can run freely."""
        self._set_breakpoints(set())


@cache
def _words(image: Path, arch: str) -> list[int]:
    """The offsets in the image of watchdog_due, and of each CPU's ipi_work."""
    kernel = Kernel(image.with_name("callsite.elf"), arch)
    cpu, cpus = kernel.members("cpu"), kernel.symbol("cpus")
    work = range(cpus + cpu["ipi_work"], cpus + MOST_CPUS * cpu[""], cpu[""])
    return [at - kernel.text[0] for at in (kernel.symbol("watchdog_due"), *work)]


@contextmanager
def interleaved(run: Run) -> Iterator[Cpus]:
    """The machine's CPUs, to be held and released one by one; afterwards all of them run. The
    kernel's watchdog is off (kern/sched/cpu.h)."""
    with run.held() as stub:
        machine = run.machine
        watchdog, *work = (machine.load_address() + offset
                           for offset in _words(machine.image_path(), machine.arch))
        cpus = Cpus(run, stub, work)
        cpus.write(watchdog, (1 << 64) - 1)
        yield cpus
        cpus.end()
        cpus.write(watchdog, 0)

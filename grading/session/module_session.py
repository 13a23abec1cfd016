"""A graded boot of lab 7: loads and removes modules, near and far, while tracers are on, and keeps what was printed as evidence."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from grading.elf.elf import Kernel
from grading.elf.module import PAGE, TRAMPOLINE, Module, ModuleFile, stubs
from grading.evidence.evidence import Coming, Complaint, Filter, Going, Loaded, Phase, Redirected, Visit
from grading.machine.machine import Run
from grading.machine.observer import Config
from grading.session.session import BUDGET, INITRD, KERNEL_BASE, WORKLOAD_SECONDS, Session
from grading.stimulus import seeded
from grading.text.trace_text import parse
from grading.truth import truth

NEAR, FAR = 1 << 20, 256 << 20  # a module this far from the stubs is in reach; a module this far from KERNEL_BASE is out of reach
SCHEDULED = KERNEL_BASE + FAR  # where a module of the schedules is; other modules are further away
FAR_PAGES = (512 << 20) // PAGE
ROOM = 8  # pages for a module
GRAPHED = re.compile(r"\| +(\w+ \[\w+\])\(\)")
# Tracers in instances, besides that of the top directory, which traces all that comes: one that does the same, one that has a request for
# the module, one that has another function alone, and function_graph.
SECOND, REQUEST, OTHER, GRAPH = "instances/second/", "instances/request/", "instances/other/", "instances/graph/"


def _file(kernel: Kernel, name: str) -> ModuleFile:
    return ModuleFile(INITRD.parent / kernel.arch / f"modules/{name}.ko", kernel.arch, len(stubs(kernel)))


def scheduled(kernel: Kernel) -> tuple[Module, ...]:
    """The module that the schedules of lab 7 load; none in earlier labs."""
    return (_file(kernel, "maple").at(SCHEDULED),) if kernel.symbol("ftrace_module_enable") else ()


def modules(kernel: Kernel, seed: int) -> tuple[Module, Module, Module]:
    """Two modules, the first near and the second far, at addresses that the seed chooses; and the first at the address of the second."""
    rng = random.Random(seed)
    one, two = (_file(kernel, name) for name in rng.sample(("maple", "pine"), 2))
    lowest = kernel.symbol("_end") + -kernel.symbol("_end") % PAGE
    pages = (kernel.symbol("ftrace_stubs") + NEAR - lowest) // PAGE - ROOM
    far = SCHEDULED + rng.randrange(ROOM, FAR_PAGES) * PAGE
    return one.at(lowest + rng.randrange(pages) * PAGE), two.at(far), one.at(far)


class ModuleSession(Session):
    """One boot. Modules are named by where they are: near or far."""

    def __init__(self, kernel: Kernel, lab: int, smp: int, seed: int, log: Path, say: Callable[[str], None] = lambda text: None,
                 budget: int = BUDGET) -> None:
        super().__init__(kernel, lab, smp, seed, log, say, budget)
        self._near, self._far, self._successor = modules(kernel, seed)
        self._placed = self._near, self._successor, self._far
        kernel.place(self._placed)

    def _config(self) -> Config:
        return truth.config(self._kernel, self._machine, modules=self._placed)

    def _talk(self, machine: Run, rng: random.Random) -> None:
        e = self._evidence
        self._phase(machine, Phase("before", rng.getrandbits(64), None))
        near, far = self._load(machine, self._near, False), self._load(machine, self._far, True)
        if not e.complaint:
            self._visit(machine, "two modules", [near, far], rng)
        for loaded in (near, far):
            if not e.complaint:
                self._remove(machine, loaded.module)
        if not e.complaint and e.smp > 1:
            self._come_and_go(machine, rng)
        if not e.complaint:
            self._coming(machine, rng, OTHER)
            self._coming(machine, rng, SECOND)
            self._coming(machine, rng, REQUEST, OTHER, GRAPH)
            self._going(machine)
            self._inside(machine)
            for line in ("insmod stone", "rmmod stone"):  # it has no function
                self._quiet(machine, line)
        self._phase(machine, Phase("after", rng.getrandbits(64), None))
        e.text_at_end = self._text(machine)
        if not e.complaint:
            self._redirected(machine)

    # ---- one command each ----

    def _load(self, machine: Run, module: Module, far: bool) -> Loaded:
        self._say(f"insmod {module.name} at {module.base:#x}")
        self._insert(machine, module)
        loaded = Loaded(module, far, self._text_of(machine, module))
        self._evidence.loaded.append(loaded)
        return loaded

    def _insert(self, machine: Run, module: Module) -> None:
        self._quiet(machine, f"insmod {module.name} at={module.base:#x}")

    def _remove(self, machine: Run, module: Module) -> None:
        """After a removal that leaves the module's records in the list nothing more is tried: the kernel would read freed memory."""
        first, line = machine.observer.written(), f"rmmod {module.name}"
        self._quiet(machine, line)
        unlinks = self._kernel.symbol("profile_forget_modules")
        if not self._evidence.complaint and not any(r.addr == unlinks for r in machine.observer.records(first)):
            self._evidence.complaint = Complaint(line, ["nothing, but unlink_sites() was not called: the module's records are still in the list"], "")

    def _physical(self, machine: Run, module: Module) -> dict[int, int]:
        """By page of the module's text: its physical address."""
        found = ((page, machine.mapped(page)) for page in range(module.base, module.end, PAGE))
        return {page: next(iter(where.values())) for page, where in found if where}

    def _text_of(self, machine: Run, module: Module) -> bytes:
        return b"".join(machine.read(at, PAGE) for at in self._physical(machine, module).values())

    # ---- traced ----

    def _trace(self, machine: Run, at: str = "") -> None:
        self._quiet(machine, f"echo 0 > {at}tracing_on")

    def _clear(self, machine: Run, at: str = "") -> None:
        self._end(machine, Filter("x", "x", frozenset()), at)

    def _visit(self, machine: Run, name: str, all_: Sequence[Loaded], rng: random.Random) -> None:
        """Run seeded calls in each of these modules, on several CPUs if there are several, while all their functions are traced."""
        cpus = range(self._evidence.smp)
        runs = [seeded.SeededRun(loaded.module, rng.getrandbits(64), cpu) for loaded in all_ for cpu in cpus[:2]]
        visit = Visit(name, runs, frozenset(n for loaded in all_ for n in loaded.module.names), list(all_))
        self._evidence.visits.append(visit)
        self._say(f"{name}: {', '.join(run.command for run in runs)}")
        self._quiet(machine, f"echo '{' '.join(f'{loaded.module.name}_*' for loaded in all_)}' > set_ftrace_filter")
        if self._evidence.complaint:
            return
        self._quiet(machine, "echo function > current_tracer")
        for loaded in all_:
            loaded.traced = self._text_of(machine, loaded.module)
        self._run(machine, visit, [])
        self._clear(machine)

    def _run(self, machine: Run, visit: Visit, beside: list[str]) -> None:
        """Run all of a visit side by side, and these commands, one after the other, beside them."""
        console = machine.console
        with machine.observer.recording():
            visit.first = machine.observer.written()
            if self._evidence.smp == 1:
                visit.output = "\n".join(console.command(run.command, WORKLOAD_SECONDS) for run in visit.runs)
            else:
                jobs = [f"taskset -c {run.cpu} {run.command} &" for run in visit.runs]
                visit.output = console.command(" ; ".join([*jobs, *beside, "wait"]), WORKLOAD_SECONDS)
            self._trace(machine)
            visit.last = machine.observer.written()
        visit.trace = parse(console.command("cat trace", WORKLOAD_SECONDS))

    def _come_and_go(self, machine: Run, rng: random.Random) -> None:
        """Calls in one module on two CPUs, while the other module comes and goes on a third."""
        for stays, goes, far in ((self._far, self._near, True), (self._near, self._far, False)):
            runs = [seeded.SeededRun(stays, rng.getrandbits(64), cpu) for cpu in (0, 1, 0, 1)]
            visit = Visit(f"{goes.name} comes and goes", runs, stays.names | goes.names, [])
            self._evidence.visits.append(visit)
            self._say(f"{visit.name}: {', '.join(run.command for run in runs)}")
            self._all_that_come(machine)
            self._insert(machine, stays)
            visit.loaded = [Loaded(stays, far, traced=self._text_of(machine, stays))]
            self._quiet(machine, "echo > trace")
            change = [f"taskset -c 2 insmod {goes.name} at={goes.base:#x}", f"taskset -c 2 rmmod {goes.name}"]
            self._run(machine, visit, 3 * change)
            self._clear(machine)
            self._remove(machine, stays)

    def _all_that_come(self, machine: Run, tracer: str = "function", at: str = "") -> None:
        """Start a tracer of all functions of modules that are loaded from now on."""
        self._begin(machine, Filter("", "*", frozenset()), tracer, at)

    # ---- coming and going ----

    def _coming(self, machine: Run, rng: random.Random, *instances: str) -> None:
        module = self._far if self._evidence.smp == 1 else self._near
        coming = Coming(seeded.SeededRun(module, rng.getrandbits(64)))
        self._evidence.coming.append(coming)
        self._say(f"{module.name} comes: {coming.run.command}")
        for at in instances:
            self._quiet(machine, f"mkdir {at.rstrip('/')}")
            if at in (REQUEST, OTHER):
                self._begin(machine, Filter(f":mod:{module.name}" if at == REQUEST else "wl_begin", "", frozenset()), "function", at)
            else:
                self._all_that_come(machine, "function_graph" if at == GRAPH else "function", at)
        if instances != (OTHER,):
            self._all_that_come(machine)
        with machine.observer.recording():
            coming.first = machine.observer.written()
            self._insert(machine, module)
            coming.loaded = coming.first, machine.observer.written()
            coming.output = machine.console.command(coming.run.command, WORKLOAD_SECONDS)
            for at in ("", *instances):
                self._trace(machine, at)
            coming.last = machine.observer.written()
        for at in ("", *instances):
            printed = machine.console.command(f"cat {at}trace", WORKLOAD_SECONDS)
            if at == GRAPH:
                coming.graph = GRAPHED.findall(printed)
            else:
                coming.traces[at] = parse(printed)
        self._remove(machine, module)
        for at in ("", *instances):
            self._clear(machine, at)
        for at in instances:
            self._quiet(machine, f"rmdir {at.rstrip('/')}")

    def _going(self, machine: Run) -> None:
        """The far module is removed while it is traced. Then the other comes to its address, with the same functions under other names."""
        going = self._evidence.going = Going(self._far, Loaded(self._successor, True))
        self._say(f"{self._far.name} goes, and {self._successor.name} comes to its address")
        self._insert(machine, self._far)
        self._begin(machine, Filter(f"{self._far.name}_*", "", frozenset()))
        going.first = machine.observer.written()
        self._remove(machine, self._far)
        going.last = machine.observer.written()
        self._files(machine, going, "")
        self._insert(machine, self._successor)
        going.successor.traced = self._text_of(machine, self._successor)
        self._files(machine, going, " again")
        self._clear(machine)
        self._remove(machine, self._successor)

    def _files(self, machine: Run, going: Going, when: str) -> None:
        for file in ("enabled_functions", "set_ftrace_filter"):
            going.files[file + when] = machine.console.command(f"cat {file}")

    def _inside(self, machine: Run) -> None:
        """A thread sleeps in a call that function_graph traces, and that returns to the module. Then it wakes up."""
        module = self._near
        self._say(f"rmmod {module.name} while a call is inside it")
        self._insert(machine, module)
        self._begin(machine, Filter(f"{module.name}_nap", "", frozenset()), "function_graph")
        self._quiet(machine, f"echo nap > /proc/{module.name}")
        said = self._evidence.inside
        said["sleeps"] = machine.console.command(f"rmmod {module.name}")
        said["modules"] = machine.console.command("cat /proc/modules")
        self._insert(machine, self._far)
        said["another"] = machine.console.command(f"rmmod {self._far.name}")
        if module.name in said["modules"]:
            self._quiet(machine, f"echo wake > /proc/{module.name}")
            said["awake"] = machine.console.command(f"rmmod {module.name}")
        self._clear(machine)

    # ---- trampolines that lead elsewhere ----

    def _redirected(self, machine: Run) -> None:
        """Overwrite a far module's trampolines: they jump to what is in another register (one CPU), or to another stub. The kernel must find
        it when tracing begins (one CPU) or ends (four CPUs). Comes last: such a kernel starts no tracer any more."""
        module, lines = self._far, ("echo function > current_tracer", "echo nop > current_tracer")
        self._say(f"other trampolines in {module.name}")
        loaded = self._load(machine, module, True)
        self._quiet(machine, f"echo '{module.name}_*' > set_ftrace_filter")
        if self._evidence.smp > 1:
            self._quiet(machine, lines[0])
        where = self._physical(machine, module)
        for number in range(module.stubs):
            right = loaded.trampoline(loaded.rest, number)
            words = self._kernel.isa.aside(right, TRAMPOLINE) if self._evidence.smp > 1 else self._kernel.isa.astray(right)
            for at, word in zip(range(module.trampoline(number), module.trampoline(number + 1), 4), words):
                machine.write(where[at - at % PAGE] + at % PAGE, word.to_bytes(4, "little"))
        redirected = self._evidence.redirected = Redirected(loaded, before=self._text_of(machine, module))
        redirected.printed = machine.console.command(lines[self._evidence.smp > 1])
        redirected.after, redirected.kernel = self._text_of(machine, module), self._text(machine)

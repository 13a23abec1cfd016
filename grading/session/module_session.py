"""A graded boot of lab 7: loads and removes near and far modules while tracers are on, and keeps
the output as evidence."""

import random
import re
from collections.abc import Iterator, Sequence

from grading.elf.elf import KERNEL_BASE, Kernel, Site
from grading.elf.link import PAGE
from grading.elf.module import TRAMPOLINE, Module, ModuleFile
from grading.evidence.evidence import (Coming, Complaint, Filter, Going, Held, Loaded, Overwritten,
                                       Phase, Redirected, Visit)
from grading.machine.hold import interleaved
from grading.machine.machine import Run
from grading.machine.observer import Config
from grading.session.session import WORKLOAD_SECONDS, Session, made_with
from grading.stimulus import seeded
from grading.text.trace_text import parse
from grading.truth import truth
from qemu.isa.common import Way

FAR = 256 << 20  # a module this far from KERNEL_BASE is out of reach
SCHEDULED = KERNEL_BASE + FAR  # where a module of the schedules is; other modules are further away
FAR_PAGES = (512 << 20) // PAGE
ROOM = 8  # pages for a module
GRAPHED = re.compile(r"\| +(\w+ \[\w+\])\(\)")
# The tracers of instances. (That of the top directory selects all functions of each module that is
# loaded.) SECOND does the same, REQUEST has a :mod: request for the module, OTHER selects only a
# function of the workload, GRAPH is function_graph.
SECOND, REQUEST, OTHER, GRAPH = ("instances/second/", "instances/request/", "instances/other/",
                                 "instances/graph/")

# By case: the functions that are traced while a thread of a module sleeps. They decide which shadow
# frames the thread has then.
INSIDE = {
    "the function": "{}_nap",  # a frame of a module's function, which returns to the kernel
    "its return address": "sleep_ns",  # a frame of a kernel's function, which returns to the module
    # a frame of a module's function, and above it a frame of the kernel's functions only
    "below the top": "{}_nap *schedule",
}


def inside(near: Module, far: Module) -> Iterator[tuple[Module, Module, tuple[str, str]]]:
    """The module in which a thread sleeps, the other module, and the case, with what is traced:
    each case in each module."""
    return ((module, other, case) for module, other in ((near, far), (far, near))
            for case in INSIDE.items())


def _file(kernel: Kernel, name: str) -> ModuleFile:
    return ModuleFile(made_with(kernel) / f"modules/{name}.ko", kernel)


def scheduled(kernel: Kernel) -> tuple[Module, ...]:
    """The module that the schedules of lab 7 load; none in earlier labs."""
    return (_file(kernel, "maple").at(SCHEDULED),) if kernel.symbol("ftrace_module_enable") else ()


def modules(kernel: Kernel, seed: int) -> tuple[Module, Module, Module, Module]:
    """One module near, at the last page from which it reaches the stubs; another one far, at an
    address that the seed chooses; the first module again, at that far address; and once more, just
    out of reach: a page above its end when it is near. One of near and far is at a page with an odd
    number."""
    rng = random.Random(seed)
    one, two = (_file(kernel, name) for name in rng.sample(("maple", "pine"), 2))
    far, near = SCHEDULED + rng.randrange(ROOM, FAR_PAGES) * PAGE, one.at(one.last_near())
    far += (near.base ^ far ^ PAGE) & PAGE
    return near, two.at(far), one.at(far), one.at(near.end)


class ModuleSession(Session):
    """One boot. Modules are named by where they are: near or far."""

    def _config(self) -> Config:
        placed = modules(self._kernel, self._evidence.seed)
        self._near, self._far, self._successor, self._other = placed
        self._kernel.place((self._near, self._other, self._successor, self._far))
        return truth.config(self._kernel, self._machine, modules=placed)

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
            one, two = (self._far, self._near) if e.smp == 1 else (self._near, self._far)
            self._coming(machine, rng, one, OTHER)
            self._coming(machine, rng, two, SECOND)
            self._coming(machine, rng, one, OTHER, SECOND)
            self._coming(machine, rng, two, REQUEST, OTHER, GRAPH)
            self._going(machine)
            self._held(machine, self._far, 1)
            self._held(machine, self._near, 2)
            self._held(machine, self._far, 3)
            self._inside(machine)
            for line in ("insmod stone", "rmmod stone"):  # it has no function
                self._quiet(machine, line)
        self._phase(machine, Phase("after", rng.getrandbits(64), None))
        e.text_at_end = self._text(machine)
        if e.smp == 1:
            self._say("trampolines over other distances")
            with machine.observer.recording():
                self._quiet(machine, "trampolines")
        if not e.complaint:
            self._overwritten(machine, rng)

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
        """If the module's records are still in the list after its removal, the boot ends: the
        kernel would read freed memory."""
        first, line = machine.observer.written(), f"rmmod {module.name}"
        self._quiet(machine, line)
        unlinks = self._kernel.symbol("profile_forget_modules")
        if not self._evidence.complaint and not any(r.addr == unlinks
                                                    for r in machine.observer.records(first)):
            self._evidence.complaint = Complaint(line,
                                                 ["nothing, but unlink_sites() was not called: the "
                                                  "module's records are still in the list"], "")

    def _physical(self, machine: Run, module: Module) -> dict[int, int]:
        """The physical address of each page of the module's text."""
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
        """Run seeded calls in each of these modules, on several CPUs if there are several, while
        all their functions are traced."""
        cpus = range(self._evidence.smp)
        runs = [seeded.SeededRun(loaded.module, rng.getrandbits(64), cpu) for loaded in all_
                for cpu in cpus[:2]]
        visit = Visit(name, runs, frozenset(n for loaded in all_ for n in loaded.module.names),
                      list(all_))
        self._evidence.visits.append(visit)
        self._say(f"{name}: {', '.join(run.command for run in runs)}")
        self._quiet(
            machine,
            f"echo '{' '.join(f'{loaded.module.name}_*' for loaded in all_)}' > set_ftrace_filter")
        if self._evidence.complaint:
            return
        self._quiet(machine, "echo function > current_tracer")
        for loaded in all_:
            loaded.traced = self._text_of(machine, loaded.module)
        self._run(machine, visit, [])
        self._clear(machine)

    def _run(self, machine: Run, visit: Visit, beside: list[str]) -> None:
        """Run all of a visit's runs at the same time, and meanwhile these commands, one after the
        other."""
        console = machine.console
        with machine.observer.recording():
            visit.first = machine.observer.written()
            if self._evidence.smp == 1:
                visit.output = "\n".join(
                    console.command(run.command, WORKLOAD_SECONDS) for run in visit.runs)
            else:
                jobs = [f"taskset -c {run.cpu} {run.command} &" for run in visit.runs]
                visit.output = console.command(" ; ".join([*jobs, *beside, "wait"]),
                                               WORKLOAD_SECONDS)
            self._trace(machine)
            visit.last = machine.observer.written()
        visit.trace = parse(console.command("cat trace", WORKLOAD_SECONDS))

    def _come_and_go(self, machine: Run, rng: random.Random) -> None:
        """Calls in one module on two CPUs, while the other module is loaded and removed on a third.
        """
        for stays, goes, far in ((self._far, self._near, True), (self._near, self._far, False)):
            runs = [seeded.SeededRun(stays, rng.getrandbits(64), cpu) for cpu in (0, 1, 0, 1)]
            visit = Visit(f"{goes.name} comes and goes", runs, stays.names | goes.names, [])
            self._evidence.visits.append(visit)
            self._say(f"{visit.name}: {', '.join(run.command for run in runs)}")
            self._all_that_come(machine)
            self._insert(machine, stays)
            visit.loaded = [Loaded(stays, far, traced=self._text_of(machine, stays))]
            self._quiet(machine, "echo > trace")
            change = [f"taskset -c 2 insmod {goes.name} at={goes.base:#x}",
                      f"taskset -c 2 rmmod {goes.name}"]
            self._run(machine, visit, 3 * change)
            self._clear(machine)
            self._remove(machine, stays)

    def _all_that_come(self, machine: Run, tracer: str = "function", at: str = "") -> None:
        """Start a tracer of all functions of modules that are loaded from now on."""
        self._begin(machine, Filter("", "*", frozenset()), tracer, at)

    # ---- loaded and removed ----

    def _coming(self, machine: Run, rng: random.Random, module: Module, *instances: str) -> None:
        coming = Coming(seeded.SeededRun(module, rng.getrandbits(64)))
        self._evidence.coming.append(coming)
        self._say(f"{module.name} comes: {coming.run.command}")
        for at in instances:
            self._quiet(machine, f"mkdir {at.rstrip('/')}")
            if at in (REQUEST, OTHER):
                self._begin(machine, Filter(f":mod:{module.name}" if at == REQUEST else "wl_begin",
                                            "", frozenset()), "function", at)
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
        """The far module is removed while it is traced. Then the other module is loaded at its
        address; it has the same functions with other names."""
        going = self._evidence.going = Going(self._far, Loaded(self._successor, True))
        self._say(
            f"{self._far.name} is removed, and {self._successor.name} is loaded at its address")
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

    def _held(self, machine: Run, module: Module, ops: int) -> None:
        """A module is loaded while this many ops that may change pc select all functions of modules
        that are loaded. Another one is then to select the module's functions, too."""
        self._say(f"{module.name} comes, {ops} op{'s' * (ops > 1)} may change pc")
        for number in range(ops):
            self._quiet(machine, f"op {number} hold !*")
        if self._evidence.complaint:
            return
        # the kernel says for which functions there are two ops
        machine.console.command(f"insmod {module.name} at={module.base:#x}")
        held = Held(ops, Loaded(module, module is self._far, traced=self._text_of(machine, module)))
        self._evidence.held.append(held)
        # functions that are never traced have no name that a filter finds: all others are left out
        held.refused = machine.console.command(
            f"op {ops} hold {f'{module.name}_*' if ops == 1 else '!*'}")
        if not held.refused.strip():
            self._quiet(machine, f"op {ops} off")
        for number in range(ops):
            held.printed += machine.console.command(f"op {number} off").strip()
        self._allow_writes(machine)
        self._remove(machine, module)

    def _inside(self, machine: Run) -> None:
        """A thread of a module sleeps in a call that function_graph traces, and another module,
        which lies below it or above, is loaded and removed. Then the thread wakes up."""
        said = self._evidence.inside
        for module, other, (case, traced) in inside(self._near, self._far):
            self._say(f"rmmod {module.name} while a call is inside it")
            self._insert(machine, module)
            self._begin(machine, Filter(traced.format(module.name), "", frozenset()),
                        "function_graph")
            self._quiet(machine, f"echo nap > /proc/{module.name}")
            said[case] = machine.console.command(f"rmmod {module.name}")
            stays = module.name in machine.console.command("cat /proc/modules")
            self._insert(machine, other)
            said["another"] = machine.console.command(f"rmmod {other.name}")
            if stays:
                self._quiet(machine, f"echo wake > /proc/{module.name}")
            self._clear(machine)
            if said["another"]:
                self._quiet(machine, f"rmmod {other.name}")
            if stays:
                said["awake"] = machine.console.command(f"rmmod {module.name}")
            if not stays or said["another"] or said["awake"]:
                return

    # ---- trampolines and sites that are overwritten ----

    def _overwritten(self, machine: Run, rng: random.Random) -> None:
        """Overwrite a far module's trampolines, then a call site of another module. This comes
        last, because disabled records stay disabled."""
        loaded = self._load(machine, self._far, True)
        self._quiet(machine, f"mkdir {SECOND.rstrip('/')}")
        self._all_that_come(machine, at=SECOND)
        if self._evidence.smp > 1:
            other = Loaded(self._other, True)
            self._insert(machine, other.module)
        else:
            self._quiet(machine, f"mkdir {GRAPH.rstrip('/')}")
            self._all_that_come(machine, "function_graph", GRAPH)
        self._redirected(machine, loaded, rng)
        if self._evidence.smp > 1:
            self._goes_disabled(machine, loaded)
            self._goes_overwritten(machine, other, rng)
        else:
            self._comes_overwritten(machine, Loaded(self._near, False), rng)

    def _redirected(self, machine: Run, loaded: Loaded, rng: random.Random) -> None:
        """Make the trampolines lead elsewhere, each time in another way. The kernel must notice it
        when a function begins to be traced (one CPU); when a second tracer selects it, and when no
        tracer selects it any more (many CPUs)."""
        names = [name.split(" ")[0] for name in sorted(loaded.module.names)]
        ways = [self._kernel.isa.aside(TRAMPOLINE),
                *(self._kernel.isa.flipped(*bit) for bit in self._bits(len(names) - 1, rng))]
        self._say(f"other trampolines in {loaded.module.name}")
        if self._evidence.smp > 1:
            self._quiet(machine, f"echo '{' '.join(names)}' > set_ftrace_filter")
            self._quiet(machine, "echo function > current_tracer")
            self._quiet(machine, f"mkdir {OTHER.rstrip('/')}")
            for old, new in ((True, False), (False, True), (True, True)):
                self._also_traced(machine, loaded, names.pop(), old, new)
        for n, way in enumerate(ways[:len(names)]):
            if self._evidence.smp > 1:
                rest = names[n + 1:]
                line = (f"echo '{' '.join(rest)}' > set_ftrace_filter" if rest else
                        "echo nop > current_tracer")
                self._redirect(machine, loaded, range(loaded.module.stubs), way, "no longer traced",
                               line)
            else:
                # a tracer that should not be on may refuse it
                machine.console.command(f"echo {names[n]} > set_ftrace_filter")
                self._redirect(machine, loaded, range(loaded.module.stubs), way, "traced",
                               "echo function > current_tracer")

    def _bits(self, count: int, rng: random.Random) -> list[tuple[int, int]]:
        """Bits to change, as (word of a trampoline, bit): the lowest bit of each executed word, and
        random others."""
        executed = self._kernel.isa.executed
        lowest = [(word, 0) for word in range(executed)]
        return lowest + rng.sample([(word, bit) for word in range(executed)
                                    for bit in range(1, 32)], count - executed)

    def _also_traced(self, machine: Run, loaded: Loaded, name: str, old: bool, new: bool) -> None:
        """A second tracer selects this function. Of the trampoline that its site calls and the
        list's, which it will call, the old one leads elsewhere, or the new one, or both."""
        module, isa = loaded.module, self._kernel.isa
        site = next(s for s in module.sites if s.function.name == f"{name} [{module.name}]")
        called = isa.jump(site.address, loaded.word(self._text_of(machine, module), site.address))
        # a kernel that did not refuse the last time still traces that function
        machine.console.command(f"echo nop > {OTHER}current_tracer")
        self._allow_writes(machine)
        self._quiet(machine, f"echo {name} > {OTHER}set_ftrace_filter")
        if called and module.is_trampoline(called[0]):
            number = (called[0] - module.room) // TRAMPOLINE
            self._redirect(machine, loaded, [number] * old + [0] * new, isa.aside(TRAMPOLINE),
                           "traced twice", f"echo function > {OTHER}current_tracer")

    def _lead(self, machine: Run, loaded: Loaded, numbers: Sequence[int], way: Way) -> None:
        """Overwrite these trampolines, and make all others right."""
        module, where = loaded.module, self._physical(machine, loaded.module)
        for number in range(module.stubs):
            right = loaded.trampoline(loaded.rest, number)
            for at, word in zip(range(module.trampoline(number), module.trampoline(number + 1), 4),
                                way(right) if number in numbers else right):
                self._write(machine, where, at, word)

    def _redirect(self, machine: Run, loaded: Loaded, numbers: Sequence[int], way: Way,
                  wanted: str, line: str) -> None:
        """Overwrite these trampolines, and type the line, which a kernel must refuse."""
        module = loaded.module
        self._lead(machine, loaded, numbers, way)
        redirected = Redirected(loaded, wanted, before=self._text_of(machine, module))
        self._evidence.redirected.append(redirected)
        redirected.printed = machine.console.command(line)
        redirected.after, redirected.kernel = self._text_of(machine, module), self._text(machine)
        self._allow_writes(machine)

    def _allow_writes(self, machine: Run) -> None:
        """Clear ftrace_disabled, which a kernel sets when it has refused to write a site."""
        machine.write(self._machine.load_address()
                      + self._kernel.symbol("ftrace_disabled") - KERNEL_BASE, b"\0")

    @staticmethod
    def _write(machine: Run, where: dict[int, int], at: int, word: int) -> None:
        machine.write(where[at - at % PAGE] + at % PAGE, word.to_bytes(4, "little"))

    def _overwrite(self, machine: Run, loaded: Loaded, words: dict[Site, int]) -> None:
        """Write these words at the sites, in the place of those that must be there."""
        where, was = self._physical(machine, loaded.module), self._text_of(machine, loaded.module)
        for site, word in words.items():
            self._write(machine, where, site.address, word)
        self._evidence.overwritten_sites = [Overwritten(
            loaded, site, word, loaded.word(was, site.address),
            before=self._text_of(machine, loaded.module)) for site, word in words.items()]

    def _chosen(self, module: Module, count: int, rng: random.Random) -> list[Site]:
        """Random sites of functions that do not run when the module is removed."""
        self._say(f"other words at call sites of {module.name}")
        return rng.sample([s for s in module.sites if s.function.name != module.named("exit")],
                          count)

    def _comes_overwritten(self, machine: Run, loaded: Loaded, rng: random.Random) -> None:
        """Load a module while a tracer selects its functions. Before the first of them is traced,
        one of its call sites gets an instruction without effect that is not the nop."""
        module, [site] = loaded.module, self._chosen(loaded.module, 1, rng)
        with interleaved(machine) as cpus:
            cpus.begin(f"insmod {module.name} at={module.base:#x}")
            if cpus.reach({self._kernel.symbol("ftrace_add_table")}) is not None:
                self._overwrite(machine, loaded,
                                {site: self._kernel.isa.idle(rng.randrange(1 << 30))})
        printed = machine.console.wait_ready(WORKLOAD_SECONDS)
        for was in self._evidence.overwritten_sites:
            was.printed, was.after = printed, self._text_of(machine, module)

    def _goes_overwritten(self, machine: Run, loaded: Loaded, rng: random.Random) -> None:
        """Remove a far module while it is traced. Some of its call sites call addresses at which no
        trampoline begins."""
        module = loaded.module
        first, last = module.trampoline(0), module.trampoline(module.stubs)
        targets = [first - 4, first + 4, last, module.functions[0].start]
        self._overwrite(machine, loaded, {
            site: self._kernel.isa.call(site.address, target, self._kernel.link_register)
            for site, target in zip(self._chosen(module, len(targets), rng), targets)})
        printed, after = self._gone(machine, module)
        for was in self._evidence.overwritten_sites:
            was.printed, was.after = printed, after

    def _goes_disabled(self, machine: Run, loaded: Loaded) -> None:
        """Remove the far module: the records of its traced functions are disabled, and all its
        trampolines are right again."""
        self._lead(machine, loaded, (), self._kernel.isa.aside(TRAMPOLINE))
        before = self._text_of(machine, loaded.module)
        printed, after = self._gone(machine, loaded.module)
        if after:
            self._evidence.disabled = Redirected(loaded, "removed", printed, before, after)

    def _gone(self, machine: Run, module: Module) -> tuple[str, bytes]:
        """Remove a module. Returns what is printed, and its text after its sites were made nops."""
        after = b""
        with interleaved(machine) as cpus:
            cpus.begin(f"rmmod {module.name}")
            if cpus.reach({self._kernel.symbol("profile_forget_modules")}) is not None:
                after = self._text_of(machine, module)
        return machine.console.wait_ready(WORKLOAD_SECONDS), after

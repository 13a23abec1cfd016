"""What a graded boot at a serial line (line_session.py) does in labs 7 and 8 between its first and
its last workload."""

import random

from grading.elf.module import Module
from grading.evidence.evidence import Coming, Going, Loaded, Phase, Visit
from grading.machine.line import LineConsole
from grading.session.line_session import LineSession, ends, traces
from grading.session.module_session import GRAPH, GRAPHED, OTHER, REQUEST, SECOND, inside, modules
from grading.session.probe_session import chosen
from grading.stimulus import workload
from grading.stimulus.seeded import SeededRun
from grading.text.trace_text import PROBE_LINE, parse

PROBES, PROFILE = "probes", "kprobe_profile"  # the phase with probes; in Evidence.files: that file
# The events by probes in functions, and by probes at returns of leaves; a number follows.
AT, BACK = "at", "back"
BEFORE = " before"  # a file of Going.files before the removal
# in set_ftrace_notrace: only functions of modules that are loaded later are traced
ALL_THAT_COME = "*"


def insmod(module: Module) -> str:
    return f"insmod {module.name} at={module.base:#x}"


class ModuleLineSession(LineSession):
    """Lab 7: modules are traced, are loaded while tracers are on, and are removed while they are
    traced and while a call is inside them."""

    def _traced(self, console: LineConsole, rng: random.Random) -> None:
        near, far, successor, _ = modules(self._evidence.kernel, self._evidence.seed)
        if self._evidence.smp == 1:
            self._visit(console, "two modules", [near, far], [], rng)
        else:
            for stays, goes in ((far, near), (near, far)):
                self._visit(console, f"{goes.name} comes and goes", [stays],
                            3 * [insmod(goes), f"rmmod {goes.name}"], rng)
        for module, instances in ((near, [SECOND]), (far, [REQUEST, OTHER, GRAPH])):
            self._coming(console, module, instances, rng)
        self._going(console, far, successor)
        self._inside(console, near, far)

    def _visit(self, console: LineConsole, name: str, stay: list[Module], beside: list[str],
               rng: random.Random) -> None:
        """Seeded calls in these modules, and meanwhile these commands on the last CPU."""
        runs = [SeededRun(module, rng.getrandbits(64), cpu) for module in stay
                for cpu in range(min(self._evidence.smp, 2))]
        visit = Visit(name, runs, frozenset(), [])
        self._evidence.visits.append(visit)
        self._say(f"{name}: {', '.join(run.command for run in runs)}")
        self._type(console, [*traces("", "set_ftrace_notrace", ALL_THAT_COME), *map(insmod, stay),
                             "echo > trace"])
        visit.output = console.command("; ".join(
            [*(f"taskset -c {run.cpu} {run.command} &" for run in runs),
             *(f"taskset -c {self._evidence.smp - 1} {line}" for line in beside), "wait"]))
        self._type(console, ["echo 0 > tracing_on"])
        visit.trace = parse(console.file("trace"))
        self._type(console,
                   [*ends("", "set_ftrace_notrace"), *(f"rmmod {module.name}" for module in stay)])

    def _coming(self, console: LineConsole, module: Module, instances: list[str],
                rng: random.Random) -> None:
        coming = Coming(SeededRun(module, rng.getrandbits(64)))
        self._evidence.coming.append(coming)
        self._say(f"{module.name} comes: {coming.run.command}")
        tracers = {REQUEST: ("set_ftrace_filter", f":mod:{module.name}"),
                   OTHER: ("set_ftrace_filter", "wl_begin"),
                   GRAPH: ("set_ftrace_notrace", ALL_THAT_COME, "function_graph")}
        tracers = {at: tracers.get(at, ("set_ftrace_notrace", ALL_THAT_COME))
                   for at in [*instances, ""]}
        self._type(console, [f"mkdir {at.rstrip('/')}" for at in instances])
        self._type(console,
                   [*(line for at, tracer in tracers.items() for line in traces(at, *tracer)),
                    insmod(module)])
        coming.output = console.command(coming.run.command)
        self._type(console, [f"echo 0 > {at}tracing_on" for at in tracers])
        for at in tracers:
            printed = console.file(f"{at}trace")
            if at == GRAPH:
                coming.graph = GRAPHED.findall(printed)
            else:
                coming.traces[at] = parse(printed)
        self._type(console, [f"rmmod {module.name}", *(line for at, tracer in tracers.items()
                                                       for line in ends(at, tracer[0])),
                             *(f"rmdir {at.rstrip('/')}" for at in instances)])

    def _going(self, console: LineConsole, gone: Module, successor: Module) -> None:
        going = self._evidence.going = Going(gone, Loaded(successor, True))
        self._say(f"{gone.name} is removed, and {successor.name} is loaded at its address")
        self._type(console, [insmod(gone), *traces("", "set_ftrace_filter", f"{gone.name}_*")])
        for when, line in ((BEFORE, f"rmmod {gone.name}"), ("", insmod(successor)),
                           (" again", f"rmmod {successor.name}")):
            going.files |= {file + when: console.command(f"cat {file}")
                            for file in ("enabled_functions", "set_ftrace_filter")}
            self._type(console, [line])
        self._type(console, ends("", "set_ftrace_filter"))

    def _inside(self, console: LineConsole, near: Module, far: Module) -> None:
        said = self._evidence.inside
        for module, other, (case, functions) in inside(near, far):
            self._say(f"rmmod {module.name} while a call is inside it")
            self._type(console, [insmod(module),
                                 *traces("", "set_ftrace_filter", functions.format(module.name),
                                         "function_graph"), f"echo nap > /proc/{module.name}"])
            said[case] = console.command(f"rmmod {module.name}")
            if module.name not in console.command("cat /proc/modules"):
                return
            self._type(console, [insmod(other)])
            said["another"] = console.command(f"rmmod {other.name}")
            self._type(console,
                       [f"echo wake > /proc/{module.name}", *ends("", "set_ftrace_filter")])
            said["awake"] = console.command(f"rmmod {module.name}")
            if said["another"] or said["awake"]:
                return


class ProbeLineSession(LineSession):
    """Lab 8: events by probes in functions of the workload, and at the returns of leaves. Returns
    of functions that end with a tail call are probed, too: a leaf that one of them calls finds in
    its link register where the first probe has sent that return."""

    def _traced(self, console: LineConsole, rng: random.Random) -> None:
        e, phase = self._evidence, Phase(PROBES, rng.getrandbits(64), None)
        e.phases.append(phase)
        e.probed, e.returning = chosen(e.kernel, rng), tuple(rng.sample(workload.LEAVES,
                                                                        len(workload.LEAVES)))
        self._say(f"{phase.name}: workload {phase.seed:016x}")
        self._type(console,
                   [*(f"echo 'p:{AT}{n} {e.kernel.name_at(address)}' >> kprobe_events"
                      for n, address in enumerate(e.probed)),
                    *(f"echo 'r{2 * e.smp}:{BACK}{n} {name} $retval:x64' >> kprobe_events"
                      for n, name in enumerate(e.returning)),
                    *(f"echo 'r:{name} {name}' >> kprobe_events" for name in workload.TAILS),
                    "echo 1 > events/kprobes/enable"])
        phase.output = self._type(console,
                                  [f"workload {phase.seed:016x}", "echo 0 > events/kprobes/enable"])
        phase.trace, e.files[PROFILE] = parse(console.file("trace"),
                                              PROBE_LINE), console.command(f"cat {PROFILE}")
        self._type(console, ["echo > kprobe_events", "echo > trace"])

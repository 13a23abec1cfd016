"""A graded boot on a machine at the far end of a serial line (grading/machine/line.py).

There is no observer and no view of memory: the evidence is what the console printed. Only the rungs
that have a check in CONSOLE of labs/<n>-<name>/checks.py are judged by it, and such a grade is not
safe from a kernel that prints what it has not done.
"""

import random
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from grading.elf.elf import Kernel
from grading.evidence.evidence import Complaint, Evidence, Filter, Phase, User
from grading.machine.line import LineConsole, UBoot, open_line
from grading.session.graph_session import INSTANCE, OPTIONS
from grading.session.session import FILTERS, filters, panic_of
from grading.stimulus.workload import MAX_CPUS
from grading.text import graph_text
from grading.text.trace_text import parse
from grading.verdict import Stopped, Verdict, blamed

AT_BOOT, AT_END = "text after boot", "text at the end"  # in Evidence.files: what `text` printed
BOOT_SECONDS = 600  # a card may be read bit by bit
POWER_SECONDS = 60


@dataclass(frozen=True)
class Place:
    """Where the machine is, and how it is started."""

    line: str  # as open_line() takes it
    uboot: UBoot = UBoot()
    power: str = ""  # a command that is called with `on` before the boot, and with `off` after it

    def switch(self, to: str) -> None:
        if self.power:
            subprocess.run(f"{self.power} {to}", shell=True, check=True, timeout=POWER_SECONDS,
                           stdin=subprocess.DEVNULL)

    @contextmanager
    def powered(self, log: Path) -> Iterator[LineConsole]:
        """The line is open before the power is on, so that nothing is lost."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with closing(LineConsole(open_line(self.line), log)) as console:
            self.switch("on")
            try:
                yield console
            finally:
                self.switch("off")


def traces(at: str, file: str, functions: str, tracer: str = "function") -> list[str]:
    """The commands that start a tracer in the tracefs directory `at`; `file` is set_ftrace_filter
    or set_ftrace_notrace."""
    return [f"echo '{functions}' > {at}{file}", f"echo {tracer} > {at}current_tracer"]


def ends(at: str, *files: str) -> list[str]:
    return [f"echo nop > {at}current_tracer", f"echo 1 > {at}tracing_on",
            *(f"echo > {at}{file}" for file in files)]


class LineSession:
    """Labs 1 to 6; what other labs do with a tracer on is in line_parts.py."""

    def __init__(self, kernel: Kernel, lab: int, seed: int, log: Path, place: Place,
                 say: Callable[[str], None] = lambda text: None) -> None:
        self._evidence = Evidence(kernel.arch, lab, 1, seed, kernel, log, line=place.line)
        self._place = place
        self._say = say

    def run(self) -> Evidence:
        """Boot, type all commands, power off, and return the evidence."""
        e, began = self._evidence, time.monotonic()
        try:
            with blamed(), self._place.powered(e.log) as console:
                try:
                    with e.judged():
                        self._talk(console, random.Random(e.seed))
                except Stopped:
                    e.panic = panic_of(console.transcript())
                    raise
                finally:
                    e.again = console.retyped + console.refetched
        except Stopped as stopped:
            e.verdict, e.why = stopped.verdict, stopped.why
        finally:
            e.seconds = time.monotonic() - began
        return e

    def _talk(self, console: LineConsole, rng: random.Random) -> None:
        e = self._evidence
        self._say("booting")
        console.boot(self._place.uboot, BOOT_SECONDS)
        cpus = re.search(r", (\d{1,4}) CPUs?,", console.command("uptime"))
        if not cpus or int(cpus[1]) not in range(1, MAX_CPUS + 1):
            raise Stopped(Verdict.FAIL, "'uptime' does not say how many CPUs there are")
        e.smp = e.boot = int(cpus[1])
        e.files[AT_BOOT] = console.command("text")
        self._phase(console, Phase("before", rng.getrandbits(64), None))
        self._traced(console, rng)
        self._phase(console, Phase("after", rng.getrandbits(64), None))
        e.files[AT_END] = console.command("text")
        self._say("powering off")
        console.power_off()

    def _traced(self, console: LineConsole, rng: random.Random) -> None:
        for phase in self._phases(rng):
            self._phase(console, phase)

    def _phases(self, rng: random.Random) -> Iterator[Phase]:
        """The phases with a tracer on: in labs 5 and 6 function_graph, and in lab 6 two users of it
        at once."""
        kernel, lab = self._evidence.kernel, self._evidence.lab
        if lab < 3:
            yield Phase("trace", rng.getrandbits(64),
                        Filter("", "", frozenset(s.function.name for s in kernel.sites)))
            return
        chosen = [[one] for one in filters(kernel, rng.getrandbits(64))]
        if lab == 6:
            chosen[1].append(filters(kernel, rng.getrandbits(64))[1])
        for number, together in enumerate(chosen, 1):
            users = [User(directory, one)
                     for directory, one in zip(("", INSTANCE), together)] if lab >= 5 else []
            names = frozenset(name for one in together for name in one.names)
            yield Phase(f"trace {number}", rng.getrandbits(64),
                        Filter(together[0].filter, together[0].notrace, names), users=users)

    def _phase(self, console: LineConsole, phase: Phase) -> None:
        self._evidence.phases.append(phase)
        self._say(f"{phase.name}: workload {phase.seed:016x}")
        tracers = [("", phase.filter, "function")] if phase.filter else []
        tracers = [(user.directory, user.filter, "function_graph")
                   for user in phase.users] or tracers
        begin, stop, end = list[str](), list[str](), list[str]()
        for at, chosen, tracer in tracers:
            wanted = {file: functions for file, functions in zip(
                FILTERS, (chosen.filter, chosen.notrace)) if functions}
            begin += [f"mkdir {at.rstrip('/')}"] if at else []
            begin += [f"echo '{functions}' > {at}{file}" for file, functions in wanted.items()]
            begin.append(f"echo {tracer} > {at}current_tracer")
            begin += [f"echo 1 > {at}options/{option}" for option in OPTIONS if phase.users]
            stop.append(f"echo 0 > {at}tracing_on")
            end += ends(at, *wanted)
            end += [f"rmdir {at.rstrip('/')}"] if at else []
        phase.output = self._type(console, [*begin, f"workload {phase.seed:016x}", *stop])
        for user in phase.users:
            user.trace = graph_text.parse(console.file(f"{user.directory}trace"))
        if phase.filter and not phase.users:
            phase.trace = parse(console.file("trace"))
        self._type(console, end)

    def _type(self, console: LineConsole, commands: list[str]) -> str:
        """Run commands of which only the workload may print something. Returns what it printed."""
        if self._evidence.lab < 3:  # every function is traced, so each byte that is typed would be
            commands = ["; ".join(commands)]
        said = [(command, console.command(command)) for command in commands if command]
        for command, text in said:
            others = [line for line in text.splitlines() if not line.startswith("workload ")]
            if others and not self._evidence.complaint:
                self._evidence.complaint = Complaint(command, others[:2], "")
        return "".join(text for _, text in said)

"""Runs one graded boot: types the commands of a lab at the shell, and gathers the evidence."""

import fnmatch
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from grading.elf.elf import KERNEL_BASE, Kernel
from grading.evidence.evidence import Complaint, Evidence, Filter, Phase, Spoilt
from grading.machine.machine import Run
from grading.machine.observer import Config, Record
from grading.stimulus import trials, workload
from grading.stimulus.trials import Trial
from grading.text.trace_text import parse
from grading.truth import truth
from grading.verdict import Stopped, Verdict, blamed
from qemu.machine import ROOT, Machine

BUDGET = 4_000_000_000  # instructions that one CPU may execute in a graded boot
# bytes that a boot may print: the solutions print 0.2 MiB, and a UART takes 7 seconds for 4
PRINTED = 4 << 20
# observer records that are read if the log was too small: as many as a boot of a right solution
# needs. A million take 500 MiB
BEGINNING = 200_000
# from power-on to the first prompt; for the whole boot: LONGEST in grading/machine/machine.py
BOOT_SECONDS = 60
FILTERS = "set_ftrace_filter", "set_ftrace_notrace"
WORKLOAD_SECONDS = 90  # for one run of the seeded workload

FROM = re.compile(r"^(\w+: )*")  # the name of the command, before the shell's message

GLOBS = ["wl_leaf_*", "wl_*_?a*", "*_pick_*", "wl_[fp]*", "wl_fan_?????", "wl_[!lt]*", "wl_*r*"]


def filters(kernel: Kernel, seed: int) -> list[Filter]:
    """Two filters: the whole workload; and one with each kind of word, which the seed chooses: a
    glob, names that it does not match, and a glob that leaves some of all these out."""
    rng = random.Random(seed)
    names = [n for n in workload.FUNCTIONS if n not in ("wl_begin", "wl_end")]
    glob = rng.choice(GLOBS)
    matched = fnmatch.filter(names, glob)
    but = rng.choice([g for g in GLOBS if 0 < len(fnmatch.filter(matched, g)) < len(matched)])
    exact = rng.sample([n for n in names if n not in matched], rng.randint(2, 8))
    exact.append(rng.choice([n for n in names
                             if not fnmatch.filter([n], but) and n not in matched]))
    return [make_filter(kernel, "wl_*", ""),
            make_filter(kernel, " ".join([glob, *exact]), but)]


def make_filter(kernel: Kernel, select: str, notrace: str) -> Filter:
    names = {s.function.name for s in kernel.sites}
    chosen = {n for n in names if any(fnmatch.fnmatchcase(n, g) for g in select.split())}
    refused = {n for n in names if any(fnmatch.fnmatchcase(n, g) for g in notrace.split())}
    return Filter(select, notrace, frozenset(chosen - refused))


def spoil(kernel: Kernel, seed: int, smp: int) -> Spoilt:
    """Choose a call site and the word to write there: with one CPU an instruction without effect
    that is not the nop, with several a call of another function than the tracer."""
    rng = random.Random(seed)
    site = rng.choice([s for s in kernel.sites if s.function.name in workload.FUNCTIONS])
    word = kernel.isa.idle(rng.randrange(1 << 30))
    if smp > 1:
        word = kernel.isa.call(site.address, kernel.symbol("ftrace_stub"), kernel.link_register)
    return Spoilt(site, word, rng.getrandbits(64))


def made_with(kernel: Kernel) -> Path:
    """The folder of the initrd and of modules/, which the initrd has: a grade has copies of them
    beside the kernel's; the build has them one folder higher."""
    folder = kernel.path.absolute().parent
    return folder if (folder / "initrd.cpio").exists() else ROOT / "build" / kernel.arch


def machine_of(kernel: Kernel, lab: int, smp: int) -> Machine:
    return Machine(kernel.arch, smp, image=kernel.path.with_name("Image"), icount=lab >= 5
                   and smp == 1, initrd=made_with(kernel) / "initrd.cpio" if lab >= 7 else None)


class Session:
    """Runs one boot; `say` gets a text about the current step, for the progress line."""

    def __init__(self, kernel: Kernel, lab: int, smp: int, seed: int, log: Path,
                 say: Callable[[str], None] = lambda text: None, budget: int = BUDGET) -> None:
        self._evidence = Evidence(kernel.arch, lab, smp, seed, kernel, log)
        self._kernel = kernel
        self._machine = machine_of(kernel, lab, smp)
        self._say = say
        self._budget = budget

    def run(self) -> Evidence:
        """Boot, type all commands, power off, and return the evidence."""
        e, began = self._evidence, time.monotonic()
        try:
            with blamed():
                config = self._config()
                config.add("pick", e.seed)
            with blamed(), Run(self._machine, e.log, config, self._budget,
                               PRINTED) as machine:
                try:
                    with e.judged():
                        self._boot_and_off(machine)
                        # the limits may have been passed since the last check
                        machine.check_limits()
                except Stopped as stopped:
                    e.verdict, e.why = stopped.verdict, stopped.why
                    e.panic = panic_of(machine.console.transcript())
                    if e.verdict == Verdict.TIMEOUT:
                        e.whereabouts, e.came_from = machine.whereabouts()
                    else:
                        e.whereabouts, e.came_from = [], []
                with e.judged():
                    self._collect(machine)
        except Stopped as stopped:
            # the evidence of a boot that ended early may be incomplete
            if not e.why or stopped.verdict == Verdict.HARNESS:
                e.verdict, e.why = stopped.verdict, stopped.why
        finally:
            e.seconds = time.monotonic() - began
        return e

    def _config(self) -> Config:
        return truth.config(self._kernel, self._machine)

    def _truth(self, records: Iterable[Record]) -> truth.Truth:
        return truth.read(self._kernel, records)

    def _collect(self, machine: Run) -> None:
        self._say("reading what was executed")
        if machine.observer.lost() and not self._evidence.why:
            raise Stopped(Verdict.HARNESS,
                          f"the observer's log is too small by {machine.observer.lost()} records")
        if not machine.observer.loaded():
            raise Stopped(Verdict.HARNESS, "QEMU did not load the observer")
        if self._evidence.phases and not self._evidence.phases[-1].last:  # it ended early
            self._evidence.phases[-1].last = machine.observer.written()
        self._evidence.typed = machine.typed
        self._evidence.insns = machine.observer.insns()
        self._evidence.checked = machine.observer.checked()
        last = BEGINNING if machine.observer.lost() else None
        self._evidence.truth = self._truth(machine.observer.records(last=last))
        self._evidence.observed = len(self._evidence.truth.calls)

    def _boot_and_off(self, machine: Run) -> None:
        self._say("booting")
        machine.console.wait_ready(BOOT_SECONDS)
        self._evidence.text_at_boot = self._text(machine)
        self._talk(machine, random.Random(self._evidence.seed))
        self._say("powering off")
        machine.power_off()

    def _talk(self, machine: Run, rng: random.Random) -> None:
        e = self._evidence
        self._phase(machine, Phase("before", rng.getrandbits(64), None))
        if e.lab <= 3:
            self._registers(machine, rng.getrandbits(64))
        if e.lab >= 3:
            for number, chosen in enumerate(filters(self._kernel, rng.getrandbits(64)), 1):
                self._phase(machine, Phase(f"trace {number}", rng.getrandbits(64), chosen))
        else:
            everything = Filter("", "", frozenset(s.function.name for s in self._kernel.sites))
            self._phase(machine, Phase("trace", rng.getrandbits(64), everything))
        if e.lab >= 4:
            self._trials(machine, trials.choose(rng.getrandbits(64)))
        if e.lab == 4:
            self._live_filter(machine)
            self._say("entry")
            with machine.observer.recording():
                self._quiet(machine, "entry")
        self._phase(machine, Phase("after", rng.getrandbits(64), None))
        e.text_at_end = self._text(machine)
        # a tracer that breaks the workload would break the shell too
        if e.lab >= 3 and e.right_results():
            self._quiet(machine, "echo function > current_tracer")
            e.text_traced = self._text(machine)
            self._quiet(machine, "echo nop > current_tracer; echo > trace")
        if e.lab == 2 and e.smp == 1:
            self._say("lookups of records")
            with machine.observer.recording():
                machine.console.command(f"lookup {rng.getrandbits(64):016x}")
        if e.lab == 3:
            self._alias(machine, "after the last tracer was switched off")
            e.spoilt = spoil(self._kernel, rng.getrandbits(64), e.smp)
            self._refused(machine, e.spoilt)
        if e.lab >= 2 and e.smp == 1:
            for name in ("available_filter_functions", "available_filter_functions_addrs"):
                e.files[name] = machine.console.command(f"cat {name}")

    def _registers(self, machine: Run, seed: int) -> None:
        """Trace a caller with a pattern in every register, then the workload, by a tracer that
        overwrites every register that it may.

        The workload runs only if the first was right: a tracer that loses registers would crash the
        kernel.
        """
        e, lab = self._evidence, self._evidence.lab
        selected = " ".join(("registers_call", "wl_*"))
        if lab == 3:
            self._quiet(machine, f"echo '{selected}' > set_ftrace_filter")
        pattern = Phase("registers", 0, None)
        with self._recorded(machine, pattern):
            self._quiet(machine, "registers")
        e.truth = truth.read(self._kernel, machine.observer.records(pattern.first, pattern.last))
        if e.registers_kept():
            self._say(f"registers: workload {seed:016x}")
            phase = e.overwritten = Phase("overwritten registers", seed,
                                          make_filter(self._kernel, selected, ""))
            with self._recorded(machine, phase):
                phase.output = machine.console.command(f"registers {seed:016x}", WORKLOAD_SECONDS)
        if lab == 3:
            self._quiet(machine, "echo > set_ftrace_filter")

    @contextmanager
    def _recorded(self, machine: Run, phase: Phase | Trial | Spoilt) -> Iterator[None]:
        """Record call sites in this block, and note which part of the observer's log it is."""
        with machine.observer.recording():
            phase.first = machine.observer.written()
            yield
            phase.last = machine.observer.written()

    def _text(self, machine: Run) -> bytes:
        assert machine.observer
        lo, hi = self._kernel.text
        text, before = machine.memory(self._machine.load_address(),
                                      hi - lo), machine.observer.written()
        if not self._evidence.spoilt:  # afterwards text has a word that the harness wrote
            self._evidence.texts.append((before, text))
        return text

    def _alias(self, machine: Run, when: str) -> None:
        text, loaded = self._kernel.text[0], self._machine.load_address()
        for cpu, physical in (machine.mapped(text) or {0: 0}).items():
            if physical != loaded:
                where = f"{physical:#x}" if physical else "no address"
                raise Stopped(Verdict.FAIL, f"{when}: the page tables of CPU {cpu} map text, "
                              f"{text:#x}, to {where}, and must map it to {loaded:#x}")
        self._evidence.alias.append(
            (when, machine.writable(loaded, loaded + self._kernel.text[1] - text)))

    def _refused(self, machine: Run, spoilt: Spoilt) -> None:
        """Overwrite a call site. The kernel must notice it when tracing begins (one CPU) or ends
        (many CPUs). This comes last, because such a kernel starts no further tracer."""
        console, name = machine.console, spoilt.site.function.name
        self._say(f"another word at the call site of {name}")
        begin, end = [f"echo {name} > set_ftrace_filter",
                      "echo function > current_tracer"], ["echo nop > current_tracer"]
        if self._evidence.smp > 1:
            for line in begin:
                self._quiet(machine, line)
        machine.write(self._machine.load_address() + spoilt.site.address - KERNEL_BASE,
                      spoilt.word.to_bytes(4, "little"))
        with self._recorded(machine, spoilt):
            spoilt.printed = "".join(
                console.command(line) for line in (end if self._evidence.smp > 1 else begin))
            spoilt.text = self._text(machine)
            self._alias(machine, "after a site was refused")
            spoilt.output = self._workload(machine, spoilt.seed)

    def _phase(self, machine: Run, phase: Phase) -> None:
        self._evidence.phases.append(phase)
        self._say(f"{phase.name}: workload {phase.seed:016x}" + (
            f", filter '{phase.filter.filter}'" if phase.filter and phase.filter.filter else ""))
        console = machine.console
        with self._recorded(machine, phase) if self._evidence.lab < 3 else nullcontext():
            if phase.filter:  # in labs 1 and 2 every function is traced as soon as the tracer is on
                phase.files = self._begin(machine, phase.filter)
                phase.text = self._text(machine)
                if self._evidence.lab == 3:
                    self._alias(machine, f"in {phase.name}")
                if self._evidence.lab >= 4:
                    phase.files["enabled_functions"] = console.command("cat enabled_functions")
            with (self._recorded(machine, phase) if self._evidence.lab >= 3 else
                  machine.observer.ordering()):
                phase.output = self._workload(machine, phase.seed)
                if phase.filter:
                    self._quiet(machine, "echo 0 > tracing_on")
        if phase.filter:
            phase.trace = parse(console.command("cat trace", WORKLOAD_SECONDS))
            self._end(machine, phase.filter)

    def _in_order(self, machine: Run, *commands: str) -> list[str]:
        """Run commands that must print nothing, while the observer logs the order of stores.
        Returns what each command printed."""
        with machine.observer.ordering():
            return [self._quiet(machine, command) for command in commands]

    def _live_filter(self, machine: Run) -> None:
        """Write the filter and the notrace list of an op that is registered."""
        self._in_order(machine, "echo 'wl_leaf_*' > set_ftrace_filter",
                       "echo function > current_tracer", "echo 'wl_pick_*' > set_ftrace_filter",
                       "echo 'wl_pick_*' > set_ftrace_notrace", "echo nop > current_tracer",
                       "echo > set_ftrace_notrace", "echo > set_ftrace_filter")

    def _trials(self, machine: Run, todo: list[Trial]) -> None:
        """Run each trial with its ops; ops that the next trial needs too stay registered."""
        running: set[trials.Op] = set()
        said: dict[trials.Op, str] = {}
        for trial in todo:
            self._evidence.trials.append(trial)
            self._say(f"{trial.name}: workload {trial.seed:016x}, {len(trial.ops)} ops")
            self._stop_ops(machine, running - set(trial.ops))
            for op in trial.ops:
                if op not in running:
                    [said[op]] = self._in_order(machine, op.command)
            trial.lacks = next((op for op in trial.ops if said[op]), None)
            trial.unmade = (f"'{trial.lacks.command}' was refused, "
                            f"{FROM.sub('', said[trial.lacks].splitlines()[0])}"
                            if trial.lacks else "")
            running = set(trial.ops)
            if trial.refused:
                trial.printed = machine.console.command(trial.refused.command).strip()
            with self._recorded(machine, trial):
                trial.output = self._workload(machine, trial.seed)
            if trial.refused and not trial.printed:
                self._stop_ops(machine, {trial.refused})
        self._stop_ops(machine, running)

    def _stop_ops(self, machine: Run, ops: set[trials.Op]) -> None:
        for op in sorted(ops, key=lambda op: op.number):
            self._in_order(machine, f"op {op.number} off")

    def _quiet(self, machine: Run, command: str) -> str:
        """Run a command that must print nothing. The first time that one prints something, that is
        kept as complaint. Returns the output."""
        said = machine.console.command(command).strip()
        if said and not self._evidence.complaint:
            lines = [re.sub(r"^\w+: current_tracer: ", "", line) for line in said.splitlines()]
            error = re.search(r"\bE[A-Z]{3,}\b", said)
            self._evidence.complaint = Complaint(command, lines[:2], error[0] if error else "")
        return said

    def _begin(self, machine: Run, chosen: Filter, tracer: str = "function",
               at: str = "") -> dict[str, str]:
        """Start a tracer with this filter, in the tracefs directory `at`. Returns, in lab 4, what
        the filter's files print."""
        for file, functions in zip(FILTERS, (chosen.filter, chosen.notrace)):
            if functions:
                self._quiet(machine, f"echo '{functions}' > {at}{file}")
        printed = {file: machine.console.command(f"cat {file}")
                   for file in FILTERS} if self._evidence.lab == 4 else {}
        self._quiet(machine, f"echo {tracer} > {at}current_tracer")
        return printed

    def _end(self, machine: Run, chosen: Filter, at: str = "") -> None:
        self._quiet(machine, f"echo nop > {at}current_tracer")
        self._quiet(machine, f"echo 1 > {at}tracing_on")
        for file, functions in zip(FILTERS, (chosen.filter, chosen.notrace)):
            if functions:
                self._quiet(machine, f"echo > {at}{file}")

    def _workload(self, machine: Run, seed: int) -> str:
        return machine.console.command(f"workload {seed:016x}", WORKLOAD_SECONDS)


def panic_of(text: str) -> str:
    lines = text.split("\n")
    start = next((i for i, line in enumerate(lines) if "panic:" in line), None)
    # the refused sites, with the expected words
    refused = [line for line in lines[:start] if line.startswith(("ftrace: refused", "ftrace:   "))]
    return "\n".join(refused[-6:] + (lines[start:start + 40] if start is not None else []))

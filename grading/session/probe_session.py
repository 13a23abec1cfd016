"""A graded boot of lab 8: probes on the instructions of a program for grading and of the workload,
kretprobes, live patches."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

from grading.elf.elf import KERNEL_BASE, Kernel
from grading.evidence.evidence import Phase
from grading.machine.machine import Run
from grading.machine.observer import Config
from grading.session.session import WORKLOAD_SECONDS, Session
from grading.stimulus import workload
from grading.truth import probes, truth

AT_ONCE = 8  # probes on the workload
STAYS = 3  # of them stay registered, while the others are unregistered and registered again


def chosen(kernel: Kernel, rng: random.Random) -> list[int]:
    """One instruction in each of a few functions of the workload, which is executed once in each
    call."""
    names = [n for n in workload.FUNCTIONS
             if n not in ("wl_begin", "wl_end") and probes.entered_with(kernel, n)]
    return [rng.choice(probes.entered_with(kernel, name)) for name in rng.sample(names, AT_ONCE)]


class ProbeSession(Session):
    """One boot with probes: on each instruction of a function, then on the workload, then others.
    """

    def _config(self) -> Config:
        self._evidence.probed = chosen(self._kernel, random.Random(self._evidence.seed))
        return probes.add(self._kernel, truth.config(self._kernel, self._machine),
                          self._evidence.probed)

    def _talk(self, machine: Run, rng: random.Random) -> None:
        e = self._evidence
        self._phase(machine, Phase("before", rng.getrandbits(64), None))
        self._probe(machine, f"steps {rng.getrandbits(63):#x}")
        if e.complaint:  # no probe can be registered, so there is nothing to observe
            return
        self._hits(machine, Phase("probes", rng.getrandbits(64), None))
        self._come_and_go(machine, Phase("come and go", rng.getrandbits(64), None))
        for words in ("moves", "nested", "traps", "stale", f"returns {rng.getrandbits(32):#x}",
                      "patches"):
            self._probe(machine, words)
        self._overwritten(machine)
        self._phase(machine, Phase("after", rng.getrandbits(64), None))
        e.text_at_end = self._text(machine)

    @contextmanager
    def _part(self, machine: Run, name: str) -> Iterator[None]:
        """Record all that is executed in this block, as a part of the boot with this name."""
        first = machine.observer.written()
        with machine.observer.recording(), machine.observer.ordering():
            yield
        self._evidence.parts[name] = (first, machine.observer.written())

    def _probe(self, machine: Run, words: str) -> None:
        """Run the program probe, as a part of the boot."""
        self._say(f"probe {words}")
        with self._part(machine, words.split()[0]):
            self._quiet(machine, f"probe {words}")

    def _overwritten(self, machine: Run) -> None:
        """The harness overwrites an instruction when its breakpoint is to be written, and its
        breakpoint when the instruction is to be written back. At the end both are as they were."""
        at = probes.steps(self._kernel).start
        insn = self._kernel.word(at)
        self._say("other words in the place of a breakpoint")
        with self._part(machine, "overwritten"):
            first = machine.observer.written()
            self._quiet(machine, f"probe at 0 {at:#x} disabled")
            self._write(machine, at, self._kernel.isa.idle(1))
            self._quiet(machine, "probe on 0")
            self._write(machine, at, insn)
            self._quiet(machine, "probe on 0")
            self._write(machine, at, insn)
            self._quiet(machine, "probe off 0")
            if not any(r.addr == self._kernel.symbol(probes.FREES) and r.v[1] & 0xFF
                       for r in machine.observer.records(first)):
                self._write(machine, at, self._kernel.isa.brk)
                self._quiet(machine, f"probe at 0 {at:#x}")
                self._quiet(machine, "probe off 0")

    def _write(self, machine: Run, at: int, word: int) -> None:
        machine.write(self._machine.load_address() + at - KERNEL_BASE, word.to_bytes(4, "little"))

    @contextmanager
    def _probed(self, machine: Run, phase: Phase) -> Iterator[None]:
        """Probes on the chosen instructions, in a part of the boot; the block is the phase."""
        e = self._evidence
        self._say(f"{phase.name}: workload {phase.seed:016x}")
        e.phases.append(phase)
        with self._part(machine, phase.name):
            for number, address in enumerate(e.probed):
                self._quiet(machine,
                            f"probe at {number} {address:#x}{' post' if number % 2 else ''}")
            phase.text = self._text(machine)
            phase.first = machine.observer.written()
            yield
            phase.last = machine.observer.written()
            for number in reversed(range(len(e.probed))):
                self._quiet(machine, f"probe off {number}")

    def _hits(self, machine: Run, phase: Phase) -> None:
        """A workload with probes on its instructions."""
        with self._probed(machine, phase):
            phase.output = self._workload(machine, phase.seed)

    def _come_and_go(self, machine: Run, phase: Phase) -> None:
        """A workload while some of the probes stay, and the others are unregistered and registered
        again."""
        line = (
            f"workload {phase.seed:016x} & ; probe turns {STAYS} {len(self._evidence.probed)}; wait"
        )
        with self._probed(machine, phase):
            phase.output = machine.console.command(line, WORKLOAD_SECONDS)

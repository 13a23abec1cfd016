"""A ring buffer's reader against its writer, on a booted kernel: each is stopped before its loads
and stores, while the other goes on.

The kernel itself checks that every event is read once and in order, and that all are accounted for
(ring_steps_kt.c). This file forces the order: one of the two runs up to a step, the other runs to
its end, then the first continues. Neither may wait for the other.
"""
import os
import subprocess
import unittest
from typing import NamedTuple

from grading.elf.elf import Kernel
from grading.machine.hold import Cpus, interleaved
from grading.machine.machine import Run
from grading.machine.observer import Kind
from grading.stimulus.schedules import stepping
from grading.truth import truth
from qemu.machine import FINISHED, ROOT, Machine

LOADS = {"riscv64": ("ld", "lw", "lbu", "lhu", "lr."), "arm64": ("ld",)}
# they are stopped before one of this many steps; make soak: 1
EVERY = int(os.environ.get("EVERY", "24"))
AGAIN = 3  # one instruction counts as a step of its own this many times
# The reader, the mode of a full buffer, the writer; events written before, events read before,
# events written meanwhile. A page has 145 events, the buffer two pages.
SCENARIOS = (
    "pipe overwrite thread 0 0 2",  # the very first events
    # the reader is in the writer's page, which the writer leaves
    "pipe overwrite thread 144 142 2",
    "pipe overwrite thread 289 0 2",  # the writer overwrites the page that the reader takes
    "pipe stop thread 289 0 2",  # there is room if the reader takes it first
    "pipe overwrite thread 289 143 2",  # the writer finds the slot that the reader has left
    "pipe overwrite thread 290 0 440",  # the writer goes round, past the reader
    "raw overwrite thread 144 142 2",
    "raw overwrite thread 289 0 2",
    "trace overwrite thread 144 142 2",
    "trace overwrite thread 289 143 440",
    "pipe overwrite irq 144 142 2",
    "pipe overwrite irq 289 0 2",
    "raw overwrite irq 290 0 440",
)


class Side(NamedTuple):
    name: str
    cpu: int
    start: int
    ends: frozenset[int]


class Step(NamedTuple):
    """Before this instruction, for the nth time."""

    first: Side
    address: int
    nth: int


class OnAMachine:
    arch: str

    @classmethod
    def setUpClass(cls) -> None:
        directory = ROOT / "build" / cls.arch / f"{FINISHED}-tests"
        subprocess.run([
            "make", "--no-print-directory", "-s", "-C",
            str(ROOT), f"ARCH={cls.arch}", "TESTS=1", *(str((directory / name).relative_to(ROOT))
                                                        for name in ("Image", "callsite.map"))
        ], check=True)
        cls.kernel = kernel = Kernel(directory / "callsite.elf", cls.arch, any_name=True)
        cls.writer, cls.reader = (Side(name, cpu, kernel.symbol(name),
                                       frozenset(kernel.exits(name)))
                                  for name, cpu in (("ring_writer", 1), ("ring_read", 0)))
        cls.steps = stepping(
            kernel, ["kern/ftrace/ring/ring_buffer.c", "kern/ftrace/tests/ring_steps_kt.c"],
            LOADS[cls.arch])
        machine = Machine(cls.arch, 2, image=directory / "Image")
        config = truth.config(kernel, machine, (), "kt_ring")
        for address in cls.steps:
            config.add("hit", address)
        cls.run_ = cls.enterClassContext(
            Run(machine, ROOT / f"build/tests/ring-steps-{cls.arch}.log", config))
        cls.run_.console.wait_ready(60)

    def line_up(self, cpus: Cpus) -> bool:
        """Both are stopped before their work."""
        cpus.go(self.writer.cpu, self.reader.cpu)
        return cpus.line_up({side.cpu: side.start for side in (self.writer, self.reader)})

    def to(self, cpus: Cpus, side: Side, place: int = 0, nth: int = 1) -> None:
        """Only this one runs, up to this place or to its end."""
        for _ in range(nth):
            cpus.go(side.cpu)
            reached = cpus.reach({place, *side.ends} - {0})
            where = " and ".join(self.kernel.name_at(cpus.pc(cpu)) for cpu in sorted(cpus.all))
            self.assertEqual(reached, side.cpu,
                             f"{side.name} does not come to its end: the CPUs are at {where}")
        self.assertTrue(not place or cpus.pc(side.cpu) == place,
                        f"{side.name} did not come to {self.kernel.name_at(place)}")

    def one(self, cpus: Cpus, step: Step) -> None:
        first, other = step.first, self.writer if step.first is self.reader else self.reader
        self.to(cpus, first, step.address, step.nth)
        if "irq" in self.line:
            cpus.serve(first.cpu)
        self.to(cpus, other)
        if step.address:
            self.to(cpus, first)

    def play(self, steps: list[Step]) -> None:
        """A round for each of them."""
        console, done = self.run_.console, 0
        with interleaved(self.run_) as cpus:
            cpus.begin(f"{self.line} {len(steps)}")
            while done < len(steps) and self.line_up(cpus):
                self.one(cpus, steps[done])
                done += 1
            cpus.go(*cpus.all)
        said = console.wait_ready(60)
        last = steps[max(done - 1, 0)]
        self.assertIn(
            "1 passed, 0 failed", said,
            f"the other went on while {last.first.name} was in front of "
            f"{self.kernel.name_at(last.address)}, time {last.nth}")
        self.assertEqual(done, len(steps))

    def alone(self, side: Side) -> list[Step]:
        """Its steps while the other one has not begun."""
        observer = self.run_.observer
        with interleaved(self.run_) as cpus:
            cpus.begin(f"{self.line} 1")
            self.assertTrue(self.line_up(cpus))
            first = observer.written()
            with observer.recording():
                self.to(cpus, side)
            steps = [
                r.addr for r in observer.records(first) if r.kind == Kind.HIT and r.vcpu == side.cpu
            ]
            cpus.go(*cpus.all)
        self.assertIn("1 passed, 0 failed", self.run_.console.wait_ready(60))
        return [
            Step(side, at, steps[:n].count(at) + 1) for n, at in enumerate(steps)
            if steps[:n].count(at) < AGAIN
        ]

    def test_whoever_stands_where(self) -> None:
        for number, scenario in enumerate(SCENARIOS):
            with self.subTest(scenario=scenario):
                self.line = f"taskset -c {self.reader.cpu} kt_ring {scenario}"
                steps = self.alone(
                    self.reader) + ([] if "irq" in scenario else self.alone(self.writer))
                self.assertGreater(len(steps), 50)
                self.play(steps[number % EVERY::EVERY])


class TestRiscv64(OnAMachine, unittest.TestCase):
    arch = "riscv64"


class TestArm64(OnAMachine, unittest.TestCase):
    arch = "arm64"


if __name__ == "__main__":
    unittest.main()

"""Holding CPUs on a host that has no processor for one of them."""

from __future__ import annotations

import os
import subprocess
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock, patch

from grading.elf.elf import Kernel
from grading.machine.hold import SLICE, Cpus, interleaved
from grading.machine.machine import Run
from grading.truth import truth
from qemu.machine import ARCHES, FINISHED, ROOT, Machine


def threads(run: Run) -> dict[str, int]:
    """The names and numbers of QEMU's threads."""
    return {(task / "comm").read_text().strip(): int(task.name)
            for task in Path(f"/proc/{run.pid}/task").iterdir()}


class Starved(unittest.TestCase):
    """CPU 0 waits in a loop for CPU 1, which the host hardly runs, because both threads have one
    processor and CPU 1's has the lowest priority."""

    def reaches(self, arch: str) -> None:
        directory = ROOT / f"build/{arch}/{FINISHED}-tests"
        subprocess.run([
            "make", "-s", "-C",
            str(ROOT), f"ARCH={arch}", "TESTS=1", *(str((directory / name).relative_to(ROOT))
                                                    for name in ("Image", "callsite.map"))
        ], check=True)
        kernel = Kernel(directory / "callsite.elf", arch)
        machine = Machine(arch, 2, image=directory / "Image",
                          extra=["-name", "hold,debug-threads=on"])
        with Run(machine, ROOT / f"build/tests/hold-{arch}.log",
                 truth.config(kernel, machine, (), "kt_ring")) as run:
            run.console.wait_ready(60)
            cpu, = list(os.sched_getaffinity(0))[:1]
            for name, number in threads(run).items():
                if name.startswith("CPU "):
                    os.sched_setaffinity(number, {cpu})
            os.sched_setscheduler(threads(run)["CPU 1/TCG"], os.SCHED_IDLE, os.sched_param(0))
            with interleaved(run) as cpus:
                cpus.begin("taskset -c 0 kt_ring pipe overwrite thread 2 0 2 1")
                self.assertEqual(cpus.reach({kernel.address_of("ring_write")}), 1)
                cpus.go(1)

    def test_a_cpu_that_the_host_does_not_run_may_still_come(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                self.reaches(arch)


class Budget(unittest.TestCase):
    """How many instructions a CPU may execute before a place counts as not reached."""

    def reached(self, typed: bool) -> bool:
        """Is the prompt, which comes after two million instructions, waited for?"""
        executed = 0

        def insns() -> list[int]:
            nonlocal executed
            executed += 100_000
            return [executed]

        run: Any = SimpleNamespace(
            machine=SimpleNamespace(smp=1), console=Mock(), insns=insns,
            clock=lambda: executed / 1e6, threads=lambda: {"CPU 0": (executed / 1e6, False)})
        cpus = Cpus(run, Mock(stopped=lambda seconds: False), [0])
        if typed:
            cpus.begin("frames &")
        with patch.object(Cpus, "_slice", self.slice_of(cpus)):
            return cpus.run(lambda: executed > 2_000_000)

    def slice_of(self, cpus: Cpus) -> Callable[..., None]:
        def ran(*_: object) -> None:
            cpus._turns = {"CPU 0": cpus._turns.get("CPU 0", 0.0) + SLICE}
        return ran

    def test_is_that_of_a_line_after_one_was_typed(self) -> None:
        self.assertTrue(self.reached(typed=True))
        self.assertFalse(self.reached(typed=False))


class Asked(unittest.TestCase):
    """A served CPU handles interrupts when another CPU has sent it one. Each time costs a stop."""

    def let_run(self, often: bool, work: bytes, mip: int = 0) -> list[set[int]]:
        """The CPUs that run in the first slice after CPU 1 was served, and in the second one."""
        ran, times = list[set[int]](), iter(range(1000))
        run: Any = SimpleNamespace(
            machine=SimpleNamespace(smp=2, isa=SimpleNamespace(sp=2, asked=(("mip", 8),))),
            clock=lambda: next(times), threads=dict, read=lambda at, size: {0x18: work}[at])
        stub = Mock(stopped=lambda seconds: False, control_register=lambda cpu, name: mip,
                    go_on_with=lambda cpus: ran.append(set(cpus)))
        cpus = Cpus(run, stub, [0x10, 0x18])
        cpus.serve(1, often)
        for _ in range(2):
            cpus._slice(set(), lambda: False)
        return ran

    def test_a_cpu_is_let_run_only_when_it_is_asked(self) -> None:
        self.assertEqual(self.let_run(False, bytes(8)), [{0}, {0}])
        self.assertEqual(self.let_run(False, bytes((2, *bytes(7)))), [{0}, {0, 1}])
        self.assertEqual(self.let_run(False, bytes(8), mip=0x88), [{0}, {0, 1}])
        self.assertEqual(self.let_run(False, bytes(8), mip=0x80), [{0}, {0}])

    def test_a_cpu_that_is_served_often_is_let_run_each_time(self) -> None:
        self.assertEqual(self.let_run(True, bytes(8)), [{0}, {0, 1}])


if __name__ == "__main__":
    unittest.main()

"""What the test cases share that use one boot of the finished kernel for all their tests."""
from collections import Counter

from grading.machine.machine import Run
from grading.stimulus.workload import expect
from kern.ftrace.tests import finished
from qemu.machine import ROOT, Machine


class OneBoot:
    """The base of a class that on_each_machine() makes test cases of. `name`: that of the log."""

    name: str
    arch: str
    cpus: int
    machine: Run

    @classmethod
    def config(cls) -> Machine:
        return finished(cls.arch, cls.cpus)

    @classmethod
    def setUpClass(cls) -> None:
        cls.machine = Run(cls.config(),
                          ROOT / f"build/tests/{cls.name}-{cls.arch}-{cls.cpus}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    @classmethod
    def sh(cls, line: str) -> str:
        return cls.machine.console.command(line, 120)

    def quiet(self, *lines: str) -> None:
        for line in lines:
            self.assertEqual(self.sh(line), "", line)

    def work(self, *seeds: int) -> Counter[str]:
        """Run workloads. Returns how often each function is called."""
        for seed in seeds:
            self.assertEqual(self.sh(f"workload {seed:016x}"), expect(seed, self.cpus).line + "\n")
        return Counter(call.function for seed in seeds
                       for calls in expect(seed, self.cpus).contexts.values() for call in calls)

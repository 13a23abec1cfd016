"""Computes on the host the calls that `echo SEED > /proc/maple` makes (kern/samples/seeded.h), and
the line that it prints."""

from dataclasses import dataclass

from grading.elf.module import Module
from grading.stimulus.workload import MASK, Generator, mix

PARTS = ("leaf", "twig", "bough", "root")


@dataclass(frozen=True)
class SeededRun:
    """One write of a seed to a module's file, on this CPU."""

    module: Module
    seed: int
    cpu: int = 0

    @property
    def command(self) -> str:
        return f"echo {self.seed:016x} > /proc/{self.module.name}"


@dataclass(frozen=True)
class Expected:
    """The calls, in order, without the write itself; and the line that is printed."""

    calls: list[str]
    line: str


class _Work:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def call(self, part: str, value: int) -> int:
        value &= MASK
        self.calls.append(part)
        if part == "leaf":
            return mix(value)
        if part == "twig":
            left = self.call("leaf", value)
            return (left * 31 + self.call("leaf", value + 1)) & MASK
        if part == "bough":
            return self.call("leaf", value + 2) if value & 1 else self.call("twig", value + 3)
        if not value & 7:
            return value
        leaf = self.call("leaf", value)
        return leaf ^ self.call("root", (value & 7) - 1)


def expect(run: SeededRun) -> Expected:
    work, random = _Work(), Generator(run.seed)
    top, sum_ = 60 + random.next() % 41, 0
    for _ in range(top):
        x = random.next()
        sum_ = mix((sum_ + work.call(PARTS[x % len(PARTS)], x >> 8)) & MASK)
    return Expected([run.module.named(part) for part in work.calls],
                    f"{run.module.name} {run.seed:016x}: {top} calls, result {sum_:016x}")

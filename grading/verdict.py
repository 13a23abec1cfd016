"""What can become of a run: each end has its own name, and none stands for another."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    PASS = "pass"
    FAIL = "fail"
    TIMEOUT = "time-out"
    PANIC = "panic"
    REBOOT = "reboot loop"
    FLOOD = "flood"
    DEAD = "dead"
    BUILD = "build failure"
    HARNESS = "harness error"


class Stopped(Exception):
    """The run ended before its time: with which verdict, and what was seen."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(f"{verdict.value}: {why}")
        self.verdict = verdict
        self.why = why

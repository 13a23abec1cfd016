"""What can become of a run: each end has its own name, and none stands for another."""

from __future__ import annotations

import signal
import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FrameType

HOST = (OSError, subprocess.SubprocessError)  # QEMU's errors are among them (grading/gdbstub.py)


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


class Refused(Exception):
    """What was asked for cannot be done; the message says why."""


class Stopped(Exception):
    """The run ended before its time: with which verdict, and what was seen."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(f"{verdict.value}: {why}")
        self.verdict = verdict
        self.why = why


@contextmanager
def blamed() -> Iterator[None]:
    """Whose fault an exception is: the only place that says so. Inside, the host and QEMU are asked for things, which is
    the harness's own business, and the guest, its log and its ELF file are read: a right kernel's raise nothing."""
    try:
        yield
    except Stopped:
        raise
    except HOST as error:
        raise Stopped(Verdict.HARNESS, f"{type(error).__name__}: {error}") from error
    except Exception as error:  # pylint: disable=broad-except
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise Stopped(Verdict.FAIL, "this kernel, or what it did, is such that it cannot be judged: "
                      f"{type(error).__name__}: {error} ({Path(at.filename).name}, line {at.lineno})") from error


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """At most so much of this process's own processor time; a busy host takes nothing of it. What takes longer is the kernel's
    doing, as what a right one leaves is judged in a small part of it: a fail, or whoever fears his score would choose none."""
    def end(_: int, __: FrameType | None) -> None:
        raise Stopped(Verdict.FAIL, "what this boot left takes too much time to be judged: many times that of a right kernel's")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

"""The verdicts of a run, and the one place where an exception gets its verdict."""

import signal
import subprocess
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from types import FrameType

from kern.ftrace.tools.walls import NoWalls, Refused as Refused
from qemu import disk

# QEMU's errors are among them (grading/machine/gdbstub.py)
HOST = (OSError, subprocess.SubprocessError, NoWalls)


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
    """The run ended early, with this verdict and this reason."""

    def __init__(self, verdict: Verdict, why: str) -> None:
        super().__init__(f"{verdict.value}: {why}")
        self.verdict = verdict
        self.why = why


@contextmanager
def blamed() -> Iterator[None]:
    """Turn each exception into Stopped. An error of the host or of QEMU is a harness error. Any
    other exception came from reading the guest, its log or its ELF file and is the kernel's fault:
    a right kernel causes none."""
    try:
        yield
    except Stopped:
        raise
    except HOST as error:
        raise Stopped(Verdict.HARNESS,
                      disk.why(error) or f"{type(error).__name__}: {error}") from error
    except Exception as error:  # pylint: disable=broad-except
        at = traceback.extract_tb(error.__traceback__)[-1]
        raise Stopped(Verdict.FAIL, "the harness cannot judge this kernel or what it did, "
                      f"which never happens with a right kernel: {type(error).__name__}: {error} "
                      f"({Path(at.filename).name}, line {at.lineno})") from error


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Limit this process's own processor time, which a busy host does not use up. Exceeding it is a
    fail and not a harness error: a right kernel needs a small part of it, and a slow grade must not
    hide a bad score."""
    def end(_: int, __: FrameType | None) -> None:
        raise Stopped(Verdict.FAIL, "judging this boot takes too much processor time: many times "
                      "what a right kernel's boot needs")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)

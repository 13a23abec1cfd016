# mypy: no-warn-return-any, allow-subclassing-any
"""`make grade GDB=1`: types the lines of a graded boot again, up to the moment that
grading/report/replay.py has found."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import gdb  # type: ignore[import]

from qemu.debugger.console import CONSOLE, aside
from qemu.debugger.guest import cpus, name_of, vcpu_of

PATIENCE = 60  # seconds in which an interrupt handler returns
TRIES = 5  # attempts to leave an interrupt: another one may come at once


class NthArrival(gdb.Breakpoint):
    """The nth time that a CPU comes to an instruction."""

    def __init__(self, address: int, nth: int, vcpu: int | None) -> None:
        super().__init__(f"*{address:#x}", internal=True)
        self.silent = True
        self.left, self._vcpu = nth, vcpu

    def stop(self) -> bool:
        if self._vcpu is None or gdb.selected_thread().num == self._vcpu + 1:
            self.left -= 1
        return self.left == 0


def type_before(lines: list[str]) -> bool:
    """Type the lines as the grader did, without showing their output again. False: something else
    stopped the guest."""
    CONSOLE.muted = True
    try:
        for line in lines:
            if not CONSOLE.run_to_prompt():
                return False
            CONSOLE.type(line.encode() + b"\r")
        return CONSOLE.run_to_prompt()
    finally:
        CONSOLE.muted = False


class Patience(threading.Timer):
    """Stop the guest after this many seconds; 0: never."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds, lambda: gdb.post_event(lambda: gdb.execute("interrupt")))
        self.daemon = True
        self._seconds, self._began = seconds, time.monotonic()
        if seconds:
            self.start()

    def ended(self) -> bool:
        self.cancel()
        return bool(self._seconds) and time.monotonic() - self._began >= self._seconds


def out_of_interrupt() -> bool:
    """Continue until the interrupted code runs again. False: no code was interrupted."""
    frame = gdb.newest_frame()
    while frame and name_of(frame.pc()) != "exception_vector":
        frame = frame.older()
    if not frame or not frame.older():
        return False
    gdb.execute(f"thbreak *{frame.older().pc() & ~1:#x}", to_string=True)
    patience = Patience(PATIENCE)
    with aside():
        gdb.execute("continue")
    patience.ended()
    return True


def to_what_runs() -> None:
    """The guest was stopped anywhere: select a CPU that is not idle, and run it out of an
    interrupt."""
    stopped = gdb.selected_thread(), gdb.newest_frame().pc()
    busy = [cpu for cpu in cpus() if int(cpu["running"]) != int(cpu["idle"])]
    vcpu = vcpu_of(busy[0]) if busy else None
    if vcpu:
        vcpu.switch()
    for _ in range(TRIES):
        if not out_of_interrupt():
            break
    if stopped != (gdb.selected_thread(), gdb.newest_frame().pc()):
        gdb.execute("frame")


def watch(plan: dict[str, Any]) -> NthArrival | None:
    if plan["again"]:
        gdb.execute("thbreak *kernel_main", to_string=True)
    return NthArrival(plan["address"], plan["nth"], plan["vcpu"]) if plan["address"] else None


def play(plan: dict[str, Any]) -> bool:
    """Repeat the boot. Has it come to the moment, as far as can be seen?"""
    stay = not plan["address"] and not plan["ends"]
    if (plan["line"] or stay) and not type_before(plan["before"]):
        return False
    if stay:
        return True
    moment = watch(plan)
    patience = Patience(plan["seconds"])
    if plan["line"]:
        gdb.write("callsite# ")
        CONSOLE.type(plan["line"].encode() + b"\r")
    at_prompt = CONSOLE.run_to_prompt()
    if patience.ended() and not at_prompt:
        to_what_runs()
    if moment:
        reached = moment.left == 0
        moment.delete()
        return reached
    return not at_prompt


def replay(path: Path) -> None:
    plan = json.loads(path.read_text())
    try:
        reached = play(plan)
    except gdb.error as error:  # QEMU has ended
        gdb.write(f"\nThe machine has ended: {error}\n")
        return
    said = f"This is {plan['where']}." if reached else \
        (f"This time the boot did not reach that place. It was {plan['where']}; `bt` says where it "
         f"is now.")
    gdb.write(f"\n{plan['why']}\n{said}\n")

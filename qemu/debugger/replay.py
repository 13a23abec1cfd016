# mypy: no-warn-return-any, allow-subclassing-any
"""`make grade GDB=1`: a graded boot typed again, up to the moment that grading/replay.py has found."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import gdb  # type: ignore[import]

from qemu.debugger.console import CONSOLE


class Moment(gdb.Breakpoint):
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
    """As the grader typed them; what they print was printed there. False: something else stopped the guest."""
    CONSOLE.muted = True
    try:
        for line in lines:
            if not CONSOLE.run_to_prompt():
                return False
            CONSOLE.type(line.encode() + b"\r")
        return CONSOLE.run_to_prompt()
    finally:
        CONSOLE.muted = False


def interrupt_after(seconds: int) -> threading.Timer:
    timer = threading.Timer(seconds, lambda: gdb.post_event(lambda: gdb.execute("interrupt")))
    timer.daemon = True
    if seconds:
        timer.start()
    return timer


def watch(plan: dict[str, Any]) -> Moment | None:
    if plan["again"]:
        gdb.execute("thbreak *kernel_main", to_string=True)
    return Moment(plan["address"], plan["nth"], plan["vcpu"]) if plan["address"] else None


def play(plan: dict[str, Any]) -> bool:
    """Is the guest at the moment, as far as it can be told?"""
    if (plan["line"] or plan["stay"]) and not type_before(plan["before"]):
        return False
    if plan["stay"]:
        return True
    moment = watch(plan)
    timer = interrupt_after(plan["seconds"])
    if plan["line"]:
        gdb.write("callsite# ")
        CONSOLE.type(plan["line"].encode() + b"\r")
    at_prompt = CONSOLE.run_to_prompt()
    timer.cancel()
    if moment:
        reached = moment.left == 0
        moment.delete()
        return reached
    return not at_prompt


def replay(path: Path) -> None:
    plan = json.loads(path.read_text())
    try:
        reached = play(plan)
    except gdb.error as error:  # QEMU is gone
        gdb.write(f"\nThe machine has ended: {error}\n")
        return
    said = f"This is {plan['where']}." if reached else \
        f"This time it did not come to that. It was {plan['where']}; `bt` says where it is now."
    gdb.write(f"\n{plan['why']}\n{said}\n")

"""Steps through the instructions of _mcount one by one, while kern/apps/registers.c calls it.

An interrupt may come between any two instructions, and must find sp aligned and the reserved
registers unchanged. A real interrupt seldom comes at a place where it does harm, so QEMU's debugger
stub steps the machine. (The observer checks loads and stores below sp, at every call.)
"""

from dataclasses import dataclass, field

from grading.elf.elf import Kernel
from grading.machine.gdbstub import Stub
from grading.machine.machine import Run
from grading.truth.truth import PATTERN_BACK, PATTERN_CALL, PATTERN_TRACER, ordered_code

MOST = 1000  # steps of one call; a call that takes more does not return
PC = 32  # the stub's number; other registers have the instructions' numbers
UNALIGNED, TOUCHED = "stack-not-aligned", "reserved-register-touched"


@dataclass
class Steps:
    """What was observed while stepping."""

    why: str = ""  # the first thing that is wrong
    mistake: str = ""
    traced: bool = False  # was a tracer on when it was found?
    # number of instructions that _mcount executed: with no tracer on, with one on
    taken: list[int] = field(default_factory=lambda: [0, 0])


class _Call:
    """One call of _mcount, from the call instruction to the instruction after it."""

    def __init__(self, kernel: Kernel, stub: Stub, seen: Steps, traced: bool) -> None:
        self._kernel, self._stub, self._seen, self._traced = kernel, stub, seen, traced
        self._sp = kernel.isa.sp
        self._own = (kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end"))
        self._file = ordered_code(kernel)
        # where the code of the file may go to
        self._ways = {kernel.symbol(PATTERN_BACK), kernel.symbol(PATTERN_TRACER) if traced else 0}

    def run(self) -> bool:
        """Step until the call returns. False: it did not return."""
        now = self._stub.registers()
        for _ in range(MOST):
            own = self._own[0] <= now[PC] < self._own[1]
            self._stub.step()
            before, now = now, self._stub.registers()
            # otherwise the machine was reset, or an exception had no handler
            if own and self._kernel.text[0] <= now[PC] < self._kernel.text[1]:
                self._seen.taken[self._traced] += 1
                self._look(before, now)
            if now[PC] == self._kernel.symbol(PATTERN_BACK):
                return True
        return False

    def _look(self, before: list[int], now: list[int]) -> None:
        if now[self._sp] % 16:
            self._found(before, UNALIGNED,
                        f"makes sp {now[self._sp]:#x}, which is not a multiple of 16")
        if self._handed_in(before[PC]) and not self._handed_in(now[PC]) and now[
                PC] not in self._ways:
            self._found(before, "", f"goes to {self._kernel.name_at(now[PC])}. It must go to the "
                        "callback, while a tracer is on, and back, and nowhere else")
        for number in self._kernel.isa.reserved:
            if now[number] != before[number]:
                self._found(
                    before, TOUCHED,
                    f"changes {self._kernel.isa.names[number]}, which the tracer must not change")

    def _handed_in(self, address: int) -> bool:
        return any(lo <= address < hi for lo, hi in self._file)

    def _found(self, before: list[int], mistake: str, what: str) -> None:
        if not self._seen.why:
            at = before[PC]
            self._seen.why = f"{self._kernel.name_at(at)} ({self._kernel.disassemble(at)}) {what}"
            self._seen.mistake, self._seen.traced = mistake, self._traced


def watch(machine: Run, kernel: Kernel, seen: Steps) -> None:
    """Type `registers` and step through its two calls of _mcount; then the machine runs again."""
    breakpoint_at = f"1,{kernel.symbol(PATTERN_CALL):x},4"
    with machine.held() as stub:
        for traced in (False, True):
            stub.do("Z" + breakpoint_at)
            stub.go_on()
            if not traced:
                machine.console.begin("registers")
            came = stub.stopped(10)
            if not came:
                stub.hold()
            stub.do("z" + breakpoint_at)
            if not came or not _Call(kernel, stub, seen, traced).run():
                break

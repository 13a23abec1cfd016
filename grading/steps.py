"""The stub's own instructions, one by one, while kern/apps/registers.c calls it.

An interrupt may come between any two, and writes what it likes below sp. Seldom
does one come at the right place, so each step is taken alone (the machine is
held by QEMU's debugger stub), and what lies below sp is overwritten before it:
a word that is stored there is seen, and so is one that is loaded from there.
What was overwritten is put back then, so that the boot goes on.

Memory is meant by virtual addresses: it is touched only while pc is a virtual
address of the stub, where the one CPU has page tables whatever it does next.
"""

from __future__ import annotations

from dataclasses import dataclass

from grading.elf import Kernel
from grading.gdbstub import Stub
from grading.machine import Run
from grading.truth import PATTERN_BACK, PATTERN_CALL

MOST = 1000  # steps of one call; who takes more does not come back
FILL = 0x7E57B10E57AC4BED
ROOM = 64  # words below sp
PC = 32
# In the order of the debugger's stub: sp, and what is nobody's to touch.
SP = {"riscv64": 2, "arm64": 31}
RESERVED = {"riscv64": {3: "gp", 4: "tp"}, "arm64": {18: "x18"}}
BELOW, UNALIGNED, TOUCHED = "stored-below-sp", "stack-not-aligned", "reserved-register-touched"


@dataclass
class Steps:
    """What was seen."""

    why: str = ""  # the first that is wrong
    mistake: str = ""
    traced: bool = False  # then somebody was tracing


def _words(data: bytes) -> list[int]:
    return [int.from_bytes(data[i:i + 8], "little") for i in range(0, len(data), 8)]


class _Call:
    """One call of the stub, from the call instruction to the one behind it."""

    def __init__(self, kernel: Kernel, stub: Stub, seen: Steps, traced: bool) -> None:
        self._kernel, self._stub, self._seen, self._traced = kernel, stub, seen, traced
        self._sp = SP[kernel.arch]
        self._own = (kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end"))
        self._under = b""  # what lay below sp

    def run(self) -> bool:
        """False: it did not come back."""
        now = self._stub.registers()
        self._top = now[self._sp]
        for _ in range(MOST):
            held = (not self._seen.why and self._own[0] <= now[PC] < self._own[1] and now[self._sp] <= self._top
                    and self._overwrite(now[self._sp]))
            self._stub.step()
            before, now = now, self._stub.registers()
            if held:
                self._look(before, now)
            if now[PC] == self._kernel.symbol(PATTERN_BACK):
                return True
        return False

    def _overwrite(self, sp: int) -> bool:
        self._under = self._stub.read(sp - 8 * ROOM, 8 * ROOM)
        if self._under:
            self._stub.write(sp - 8 * ROOM, FILL.to_bytes(8, "little") * ROOM)
        return bool(self._under)

    def _look(self, before: list[int], now: list[int]) -> None:
        sp = before[self._sp]
        low = min(sp, now[self._sp])
        below = _words(self._stub.read(sp - 8 * ROOM, 8 * ROOM))
        if not below or not self._kernel.text[0] <= now[PC] < self._kernel.text[1]:
            return  # the machine was reset, or has an exception that no code of ours takes
        loaded = FILL in now[:31]
        if loaded:
            self._stub.load_registers(before)
        self._put_back(sp, below)
        free = (low - (sp - 8 * ROOM)) // 8
        if loaded:
            self._found(before, BELOW, "loads from below sp, where an interrupt has written meanwhile: first load, then raise sp")
        elif any(word != FILL for word in below[:max(free, 0)]):
            self._found(before, BELOW, "stores below sp, where an interrupt overwrites it: first lower sp, then store")
        elif now[self._sp] % 16:
            self._found(before, UNALIGNED, f"makes sp {now[self._sp]:#x}, which is not a multiple of 16")
        for number, name in RESERVED[self._kernel.arch].items():
            if now[number] != before[number]:
                self._found(before, TOUCHED, f"changes {name}, which is not yours to touch")

    def _put_back(self, sp: int, below: list[int]) -> None:
        """All but what the instruction stored."""
        words = (old if new == FILL else new for old, new in zip(_words(self._under), below))
        self._stub.write(sp - 8 * ROOM, b"".join(word.to_bytes(8, "little") for word in words))

    def _found(self, before: list[int], mistake: str, what: str) -> None:
        if not self._seen.why:
            at = before[PC]
            self._seen.why = f"{self._kernel.name_at(at)} ({self._kernel.disassemble(at)}) {what}"
            self._seen.mistake, self._seen.traced = mistake, self._traced


def watch(machine: Run, kernel: Kernel, seen: Steps) -> None:
    """Type `registers` and take each step of what it calls; then the machine goes on alone."""
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

# mypy: no-warn-return-any, allow-subclassing-any
"""Reads the stopped guest, for the other files: symbols, memory, CPUs, threads.

Structures are read through the kernel's own DWARF, so they may change.
Functions here return None for what a stage does not have yet; commands print a sentence.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import gdb  # type: ignore[import]
from elftools.elf.elffile import ELFFile  # type: ignore[import]

from qemu.isa import ISAS

ROOT = Path(__file__).resolve().parent.parent.parent
ARCH = os.environ["CALLSITE_ARCH"]
ISA = ISAS[ARCH]
MASK = (1 << 64) - 1
Value = Any  # gdb.Value


def evaluate(expression: str) -> Value | None:
    try:
        return gdb.parse_and_eval(expression)
    except gdb.error:
        return None


def address(name: str) -> int | None:
    """The address of a symbol, with or without DWARF; None: there is no such symbol."""
    found = evaluate(f"(unsigned long)&{name}")
    return None if found is None else int(found)


def as_int(value: Value) -> int:
    return int(value.cast(gdb.lookup_type("unsigned long"))) & MASK


def pointer(at: int, type_name: str) -> Value:
    return gdb.Value(at).cast(gdb.lookup_type(type_name).pointer())


def offset_of(type_name: str, field: str) -> int:
    return gdb.lookup_type(type_name)[field].bitpos // 8


def read(at: int, size: int) -> bytes:
    """Read memory through the selected CPU. Inferior.read_memory() of gdb 16 uses any CPU, and one
    in the firmware has no page tables."""
    # each byte is a character
    return pointer(at, "char").string("latin-1", length=size).encode("latin-1")


def word(at: int) -> int:
    return int.from_bytes(read(at, 4), "little")


def constant(name: str) -> int:
    """A number that kern/layout.h defines: macros are not in the DWARF."""
    text = (ROOT / "kern/layout.h").read_text()
    found = re.search(rf"^#define {name} (0x[0-9a-f]+)$", text, re.M)
    if not found:
        raise gdb.GdbError(f"kern/layout.h does not define {name} as a number.")
    return int(found[1], 16)


@cache
def symbols() -> list[tuple[int, int, str]]:
    """Start, size and name of each function and object, as the ELF has them: gdb cuts `.part.0`
    off."""
    with open(gdb.current_progspace().filename, "rb") as stream:
        table = ELFFile(stream).get_section_by_name(".symtab")
        return sorted((s["st_value"], s["st_size"], s.name) for s in table.iter_symbols()
                      if s["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT"))


def symbol(at: int) -> tuple[str, int]:
    """The function or object at an address, and the offset in it; else the address as text, and 0.
    """
    index = bisect_right(symbols(), (at, 1 << 64)) - 1
    if index >= 0:
        start, size, name = symbols()[index]
        if at == start or at < start + size:
            return name, at - start
    return f"{at:#x}", 0


def name_of(at: int) -> str:
    return symbol(at)[0]


def place(at: int) -> str:
    name, offset = symbol(at)
    return f"{name}+{offset:#x}" if offset else name


def disassemble(at: int) -> str:
    return " ".join(gdb.selected_inferior().architecture().disassemble(at)[0]["asm"].split())


def text(value: Value) -> str:
    return value.string(errors="replace")


# ---- CPUs and threads ----


def kernel_runs() -> bool:
    """Is paging on, and has the first line of C been executed?"""
    try:
        return int(gdb.parse_and_eval("nr_cpus")) > 0
    except gdb.error:
        return False


def need_kernel() -> None:
    if not kernel_runs():
        raise gdb.GdbError("The kernel has not run that far yet: continue first, or `console`.")


def cpus() -> list[Value]:
    return [gdb.parse_and_eval(f"cpus[{n}]") for n in range(int(gdb.parse_and_eval("nr_cpus")))]


def vcpu_of(cpu: Value) -> Any:
    """gdb's thread for the CPU: on QEMU's machines vCPU n has the hardware id n."""
    for thread in gdb.selected_inferior().threads():
        if thread.ptid[1] - 1 == int(cpu["hwid"]) & 0xff:
            return thread
    return None


def every_thread() -> Iterator[Value]:
    """All threads, the CPUs' idle threads (pid 0) first."""
    for cpu in cpus():
        if int(cpu["idle"]):
            yield cpu["idle"].dereference()
    at = gdb.parse_and_eval("all_threads")
    found = []
    while int(at):
        found.append(at.dereference())
        at = at["all_next"]
    yield from reversed(found)


def thread_of_stack(sp: int) -> Value | None:
    """The thread whose stack has this address: the stack that begins nearest below it."""
    best = None
    for thread in every_thread():
        base = as_int(thread["stack"])
        if base <= sp and (best is None or base > as_int(best["stack"])):
            best = thread
    return best


def running_on(thread: Value) -> Any:
    """gdb's thread for the CPU that runs it, or None."""
    at = as_int(thread.address)
    for cpu in cpus():
        if as_int(cpu["running"]) == at:
            return vcpu_of(cpu)
    return None


def in_firmware() -> bool:
    """Is this hart in the firmware, which has no page tables? The kernel's addresses lead nowhere
    then."""
    return bool(int(gdb.parse_and_eval(ISA.in_firmware)))


class Command(gdb.Command):
    """A command named by its class's `name`; its docstring is its help."""

    name = ""

    def __init__(self) -> None:
        super().__init__(self.name, gdb.COMMAND_DATA)

    def invoke(self, argument: str, from_tty: bool) -> None:
        self.dont_repeat()
        try:
            self.run(gdb.string_to_argv(argument))
        except gdb.MemoryError as error:
            if in_firmware():
                raise gdb.GdbError("This hart is in the firmware, where the kernel's addresses are "
                                   "not mapped. `console` runs on to the prompt.") from error
            raise

    def run(self, words: list[str]) -> None:
        raise NotImplementedError

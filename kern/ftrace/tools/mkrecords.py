#!/usr/bin/python3
"""Make the table of call sites: run recordmcount in a sandbox, and check all that it prints.

    mkrecords.py TOOL KERNEL.elf    assembly on standard output; ftrace.h describes the table
    mkrecords.py --empty            the same labels with nothing in them, for the first link

recordmcount is a student's program, and it runs on the machine of the person
who builds the kernel. So it runs in a sandbox (walls.py): it sees only itself
and the ELF file, and may not start a second process. Its output is data: each
line must belong to the table, each number is compared with the ELF file, and
the assembly is written here, from the numbers.

The folder tools/, in the order in which the Makefile runs it for a kernel:

    1. compile.py   runs the compiler on each handed-in file, in a sandbox
    2. islands.py   where islands are put into text; the linker script includes it
    3. first link   with the empty tables of mksyms.py and mkrecords.py: first.elf
    4. mksyms.py    the table of symbols of first.elf
    5. mkrecords.py from lab 2 on, with recordmcount.c: its table of call sites
    6. second link  with both tables, which come after text, so no site moves
    7. proof.py     reads the new kernel and indirect-calls; if it fails, there is no kernel

walls.py is the sandbox of compile.py and mkrecords.py, kernel_elf.py reads the kernel for 4, 5 and
7, and output.py writes what 2, 4 and 5 print; no other program here imports another one. `make
lint` runs rooms.py.
"""
import os
import re
import signal
import sys
from dataclasses import dataclass

# on a full disk Python 3.11 may write half of it, which is read the next time
sys.dont_write_bytecode = True
import walls  # noqa: E402
from kernel_elf import Elf  # noqa: E402
from output import put  # noqa: E402
from walls import Refused, printable  # noqa: E402

# of a processor; of the clock, as the host may be busy; bytes
SECONDS, PATIENCE, MEMORY = 5, 300, 1 << 30
CRASHED = 2  # exit status if recordmcount ended with a signal; after any other error 1
DISABLED = 1 << 24  # FTRACE_FL_DISABLED, in the upper word of a record


class Crashed(Refused):
    """recordmcount ended with a signal."""


@dataclass
class Offsets:
    """The values that the table may contain: offsets from _text."""

    base: int
    size: int  # of text
    stubs: set[int]  # the tracer's, and each island's


@dataclass
class Table:
    records: list[tuple[int, int]]  # offset, state
    regions: list[tuple[int, int]]  # first record, stubs


def read_kernel(path: str) -> Offsets:
    symbols = Elf(path).symbols
    base = symbols["_text"]
    marks = (symbols.get("ftrace_stubs", symbols["__ftrace_text_start"]), *(
        value for name, value in symbols.items() if re.fullmatch(r"ftrace_island_\d+", name)))
    return Offsets(base, symbols["_etext"] - base, {mark - base for mark in marks})


# ---- run ------------------------------------------------------------------------

def run(tool: str, kernel: str, size: int) -> str:
    """The tool's output, at most @size bytes. Its messages go to standard error."""
    command = [os.path.abspath(tool), os.path.abspath(kernel)]
    limits = walls.Limits(seconds=PATIENCE, processor=SECONDS, memory=MEMORY, file=size)
    ended = walls.run(command, command, limits, walls.PROGRAM)
    said = printable(ended.errors[:4000])
    sys.stderr.write(said and said.rstrip("\n") + "\n")
    if ended.over or ended.status:
        signaled = ended.status and ended.status - 128 in (signal.SIGSEGV, signal.SIGBUS)
        raise (Crashed if signaled else Refused)(ending(ended.status, size))
    return ended.output.decode(errors="replace")


def ending(status: int | None, size: int) -> str:
    """Why there is no output to read. bubblewrap reports a signal as shells do, 128 and its number.
    """
    if status in (None, 128 + signal.SIGXCPU, 128 + signal.SIGKILL):
        return f"it does not end: it was stopped after {SECONDS} seconds"
    if status == 128 + signal.SIGXFSZ:
        return f"it prints more than a table of this kernel can be: it was stopped at {size} bytes"
    if status == 128 + signal.SIGSYS:
        return ("it asked for another process or a connection and was stopped: it is to read its "
                "kernel and print a table")
    if status - 128 in set(signal.Signals):
        return f"it ended with {signal.Signals(status - 128).name}"
    return f"it ended with status {status}"


# ---- read -----------------------------------------------------------------------

NUMBER = r"(0|0x[0-9a-f]{1,16}|[1-9][0-9]{0,9})"
RECORDS = [
    '\t.section .ftrace_records, "aw"', "\t.balign 8", "\t.globl ftrace_records", "ftrace_records:"
]
RECORD = re.compile(rf"\t\.quad {NUMBER}")
COUNT = [
    "\t.section .rodata", "\t.balign 4", "\t.globl ftrace_record_count", "ftrace_record_count:"
]
COUNTED = re.compile(rf"\t\.long {NUMBER}")
REGIONS = ["\t.section .rodata", "\t.balign 4", "\t.globl ftrace_regions", "ftrace_regions:"]
REGION = re.compile(rf"\t\.long {NUMBER}, {NUMBER}")


FORMS = ((RECORDS, RECORD), (COUNT, COUNTED), (REGIONS, REGION))


def foreign(lines: list[str], at: int) -> Refused:
    line = repr(printable(lines[at].encode())[:80]) if at < len(lines) - 1 else "the end"
    return Refused(f"line {at + 1} of its output belongs to no table of call sites: {line}")


def parse(text: str) -> tuple[Table, int]:
    """The table, and the number of records that the output gives. A line that does not belong to
    the table there is refused."""
    lines, at = text.split("\n"), 0
    found: list[list[tuple[int, ...]]] = []
    for title, form in FORMS:
        for line in title:
            if lines[at:at + 1] != [line]:
                raise foreign(lines, at)
            at += 1
        found.append([])
        while at < len(lines) and (match := form.fullmatch(lines[at])):
            found[-1].append(tuple(int(n, 0) for n in match.groups()))
            at += 1
        if form is COUNTED and len(found[-1]) != 1:
            raise foreign(lines, at)
    if lines[at:] != [""]:
        raise foreign(lines, at)
    records = [(word & 0xFFFFFFFF, word >> 32) for (word,) in found[0]]
    return Table(records, [(first, stubs) for first, stubs in found[2]]), found[1][0][0]


def check(table: Table, counted: int, kernel: Offsets) -> None:
    if counted != len(table.records):
        raise Refused(f"it says that there are {counted} records, and prints {len(table.records)}")
    for number, (offset, state) in enumerate(table.records):
        if offset >= kernel.size:
            raise Refused(f"record {number} is outside of text: {kernel.base + offset:#x}")
        if offset % 4:
            raise Refused(f"record {number} is not 4-byte aligned: {kernel.base + offset:#x}")
        if state not in (0, DISABLED):
            raise Refused(
                f"record {number} has state {state:#x}, which only a running kernel gives it")
    starts = [first for first, _ in table.regions]
    if not starts or starts[0] or starts != sorted(starts) or table.regions[-1] != (counted, 0):
        raise Refused("its regions do not cover all records, from record 0 to the last one")
    for _, stubs in table.regions[:-1]:
        if stubs not in kernel.stubs:
            raise Refused(f"a region calls {kernel.base + stubs:#x}, where there are no stubs")


# ---- written --------------------------------------------------------------------

def assembly(table: Table) -> str:
    return "\n".join([
        *RECORDS, *(f"\t.quad {state << 32 | offset:#x}" for offset, state in table.records),
        *COUNT, f"\t.long {len(table.records)}", *REGIONS,
        *(f"\t.long {first}, {stubs:#x}" for first, stubs in table.regions), ""
    ])


def table_of(tool: str, path: str) -> Table:
    kernel = read_kernel(path)
    table, counted = parse(run(tool, path, 65536 + 8 * kernel.size))
    check(table, counted, kernel)
    return table


def main() -> int:
    if sys.argv[1:] == ["--empty"]:
        return put(assembly(Table([], [(0, 0), (0, 0)])))
    if len(sys.argv) != 3:
        print("usage: mkrecords.py TOOL KERNEL.elf | --empty", file=sys.stderr)
        return 1
    tool, path = sys.argv[1:]
    try:
        return put(assembly(table_of(tool, path)))
    except Refused as why:
        print(f"recordmcount: {path}: {why}", file=sys.stderr)
        return CRASHED if isinstance(why, Crashed) else 1


if __name__ == "__main__":
    sys.exit(main())

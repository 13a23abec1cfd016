# mypy: no-warn-return-any, allow-subclassing-any
"""callsites and who-patches: the word in each call site, and which code writes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import gdb  # type: ignore[import]

from qemu.debugger.guest import (ISA, Command, Value, address, as_int, constant, disassemble,
                                 evaluate, name_of, place, read, symbol, symbols, word)


@dataclass(frozen=True)
class SiteRecord:
    """One record: which word is toggled, and in which function."""

    ip: int
    function: str
    record: Value


def kernel_base() -> int:
    return int(gdb.parse_and_eval("(unsigned long)&_start"))


def sites() -> Iterator[SiteRecord]:
    table, base = evaluate("ftrace_tables"), kernel_base()
    if table is None:
        raise gdb.GdbError("This kernel has no table of call sites: lab 2 makes it.")
    while int(table):
        record = table["records"]
        for n in range(int(table["end"] - record)):
            ip = base + int(record[n]["offset"])
            yield SiteRecord(ip, name_of(ip), record[n])
        table = table["next"]


# ---- What a site calls ----


def object_name(at: int) -> str:
    """The name of the object at this address, for an array with the element's number; else the
    address."""
    name, offset = symbol(at)
    array = evaluate(f"'{name}'")
    if array is None:
        return f"op {at:#x}"
    if array.type.code != gdb.TYPE_CODE_ARRAY:
        return name
    return f"{name}[{offset // array.type.target().sizeof}]"


def op_name(op: Value) -> str:
    return f"{object_name(as_int(op))} ({name_of(as_int(op['func']))})"


def hash_has(table: Value, offset: int) -> bool:
    slots = 1 << (32 - int(table["shift"]))
    data = read(as_int(table["slots"].address), 4 * slots)
    return offset in memoryview(data).cast("I")


def selects(op: Value, offset: int) -> bool:
    wanted, excluded = op["filter"]["filter_hash"], op["filter"]["notrace_hash"]
    return (not int(wanted)
            or hash_has(wanted, offset)) and not (int(excluded) and hash_has(excluded, offset))


def listed_ops(offset: int) -> list[str]:
    """The ops that the list calls for a function."""
    op, names = evaluate("ops_list"), []
    while op is not None and int(op):
        if selects(op.dereference(), offset):
            names.append(op_name(op))
        op = op["next"]
    return names


def slot_of(target: int) -> int | None:
    """The number of the stub at an address, or of the stub to which an island's entry at the
    address leads."""
    first, second = address("ftrace_stub_0"), address("ftrace_stub_1")
    if first is None or second is None:
        return None
    name, _ = symbol(target)
    island = re.match(r"ftrace_island_\d+", name)
    start = address(island[0]) if island else first
    number, rest = divmod(target - (start or 0), second - first)
    # In the DWARF of most files the array has no length, and gdb may use such a file's.
    slots = next((size for _, size, name in symbols() if name == "ftrace_slots"), 0)
    return number if not rest and 0 <= number < slots // gdb.lookup_type(
        "struct ftrace_slot").sizeof else None


def told_of(target: int, offset: int) -> str:
    """The ops that are called for a call to @target, as text."""
    number = slot_of(target)
    if number is None:
        # a program of labs 1 and 3 declares it as void *
        op = evaluate("*(struct ftrace_ops **)&function_trace_op")
        return place(target) + (f": {op_name(op)}" if op is not None else "")
    if number == 0:
        return f"list: {', '.join(listed_ops(offset)) or 'no op'}"
    slot = gdb.parse_and_eval(f"ftrace_slots[{number}]")
    if not int(slot["op"]):
        return f"stub {number}, which has no op"
    return f"stub {number}: {op_name(slot['op'])}"


def call_target(ip: int) -> int | None:
    """The target of the call whose last word is at @ip. None: there is no call."""
    before = word(ip - 4) if disassemble(ip).startswith("jalr") else 0
    jump = ISA.any_jump(ip, before, word(ip))
    return jump[0] if jump and jump[1] else None


def describe(site: SiteRecord) -> tuple[str, bool]:
    """The site's present word as text, with what it calls; is it a call?"""
    target = call_target(site.ip)
    told = f"  -> {told_of(target, int(site.record['offset']))}" if target is not None else ""
    disabled = int(site.record["flags"]) & 1
    marks = "  (disabled: its word was not as its record says)" if disabled else ""
    asm = disassemble(site.ip).split(" <")[0]
    return f"{word(site.ip):08x}  {asm}{told}{marks}", target is not None


class Callsites(Command):
    """callsites [GLOB]: each call site, the word that is there now, and what it calls.

It reads the records and the text; it does not use what the kernel prints about them."""

    name = "callsites"

    def run(self, words: list[str]) -> None:
        pattern = words[0] if words else "*"
        count = calls = 0
        for site in sites():
            if not fnmatchcase(site.function, pattern):
                continue
            said, is_call = describe(site)
            count, calls = count + 1, calls + is_call
            gdb.write(f"{site.ip:016x} {site.function:28} {said}\n")
        gdb.write(f"{count} call sites, {calls} of them calls\n")


class SiteWatch(gdb.Breakpoint):
    """Watches the place through which a site is written: its word in the alias of text.

    Code that synchronises loads from there, too: only a store that changes the word stops."""

    def __init__(self, site: SiteRecord) -> None:
        self.site = site
        self._word = word(site.ip)
        alias = site.ip - kernel_base() + constant("ALIAS_BASE")
        super().__init__(f"*(unsigned int *){alias:#x}", gdb.BP_WATCHPOINT, gdb.WP_ACCESS)

    def stop(self) -> bool:
        before, self._word = self._word, word(self.site.ip)
        if self._word == before:
            return False
        gdb.write(f"\n{self.site.function} at {self.site.ip:#x} is written: now "
                  f"{describe(self.site)[0]}\n")
        return True


def find_site(word_: str) -> SiteRecord:
    """By the function's name, or by any address in it."""
    found = [s for s in sites() if s.function == word_]
    if not found:
        value = evaluate(word_)
        if value is None:
            raise gdb.GdbError(f"'{word_}' is neither a function with a call site nor an address.")
        name = name_of(as_int(value))
        found = [s for s in sites() if s.function == name]
        found = [s for s in found if s.ip == as_int(value)] or found
    if len(found) != 1:
        raise gdb.GdbError(f"{len(found)} call sites are in '{word_}': " + (
            ", ".join(f"{s.ip:#x}" for s in found) or "callsites lists those that there are."))
    return found[0]


class WhoPatches(Command):
    """who-patches FUNCTION|ADDRESS: stop whenever its call site is changed.

Text is never writable where it is executed: a patch is stored through an alias. So the
watchpoint is on the site's word in the alias. It stops after the store: `bt` shows which
function made it, `up` goes to the caller. `delete N` removes the watchpoint."""

    name = "who-patches"

    def run(self, words: list[str]) -> None:
        if len(words) != 1:
            raise gdb.GdbError("who-patches FUNCTION|ADDRESS")
        site = find_site(words[0])
        watch = SiteWatch(site)
        gdb.write(f"{watch.number}: stops when the call site of {site.function}, {site.ip:#x}, is "
                  "written\n")

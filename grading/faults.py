"""What ended a boot in a panic, by the exception that the processor took: nothing of it is read from what the kernel printed."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from grading.evidence import Evidence, once
from grading.graph_checks import lost_at_return
from grading.observer import Record
from grading.registers import LINK, NAMES, lost, unfinished
from grading.returns import HANDLER


class Access(Enum):
    EXECUTION = "execution"
    READ = "read"
    WRITE = "write"
    NONE = "none"  # an instruction that is none, a breakpoint


RISCV64 = {1: Access.EXECUTION, 12: Access.EXECUTION, 5: Access.READ, 13: Access.READ, 7: Access.WRITE, 15: Access.WRITE}  # scause
EXECUTION_ABORTS, DATA_ABORTS, WRITES = (0x20, 0x21), (0x24, 0x25), 1 << 6  # esr_el1, bits 31:26 and its bit
INTERRUPT = 1 << 63  # scause
KINDS_OF_VECTOR = 0x200  # arm64: four in a row, of which the first is for exceptions that an instruction causes


class Fault(NamedTuple):
    access: Access
    pc: int
    address: int
    link: int  # what the link register held


@once
def last(e: Evidence) -> Fault | None:
    """The last exception that an instruction caused."""
    found = next((r for r in reversed(e.truth.traps) if _by_an_instruction(e, r)), None)
    return Fault(_access(e, found.v[0]), found.v[1], found.v[2], found.v[3]) if found else None


def _by_an_instruction(e: Evidence, r: Record) -> bool:
    if e.arch == "riscv64":
        return not r.v[0] & INTERRUPT
    return (r.addr - e.kernel.symbol("exception_vector")) % KINDS_OF_VECTOR == 0


def _access(e: Evidence, cause: int) -> Access:
    if e.arch == "riscv64":
        return RISCV64.get(cause, Access.NONE)
    if cause >> 26 & 63 in EXECUTION_ABORTS:
        return Access.EXECUTION
    if cause >> 26 & 63 not in DATA_ABORTS:
        return Access.NONE
    return Access.WRITE if cause & WRITES else Access.READ


def back_into(e: Evidence, stub: str) -> bool:
    """The last traced call's callback had run, and nobody came back from the stub: the exception or interrupt that its CPU took last
    found it in the stub, with an address in the stub to return to."""
    call = unfinished(e)
    newest = next((r for r in reversed(e.truth.traps) if call and r.vcpu == call.vcpu and r.seq > call.seq), None)
    lo, hi = e.kernel.extent(stub)
    return bool(newest and all(lo <= address < hi for address in (newest.v[1], newest.v[3])))


def register_lost(e: Evidence) -> str:
    """Of the newest call at which a register was another: a panic may come much later, in code that is nobody's mistake. Or ''."""
    but = 1 << LINK[e.arch] if e.kernel.symbol(HANDLER) else 0
    found = [(call.landed.seq, call, f"after the call site of {call.name}", numbers) for call in e.truth.calls
             if call.landed and (numbers := lost(e, call, but))]
    found += [(span.leaving.back.seq, span.call, f"when {span.name} had returned", numbers) for span in e.truth.returns.spans
              if span.leaving and span.leaving.back and (numbers := lost_at_return(e, span))]
    if not found:
        return ""
    _, call, when, numbers = max(found, key=lambda each: each[0])
    names = ", ".join(NAMES[e.arch][n] for n in numbers)
    return f"Before that, {when}, on CPU {call.vcpu}, {names} {'was' if len(numbers) == 1 else 'were'} not as before the tracer ran"

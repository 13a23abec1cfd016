"""Finds out why a boot ended in a panic, from the exceptions that the processor took and never from
what the kernel printed."""

from collections.abc import Collection
from typing import NamedTuple

from grading.checks.entry import handler_arguments
from grading.checks.graph_checks import lost_at_return
from grading.checks.registers import callback_arguments, unfinished
from grading.evidence.evidence import Evidence, once
from grading.machine.observer import Record
from grading.truth.returns import HANDLER
from grading.truth.truth import Call
from grading.verdict import Verdict


class Fault(NamedTuple):
    access: str  # Isa.access()
    pc: int
    address: int
    link: int  # the value of the link register


@once
def last(evidence: Evidence) -> Fault | None:
    """The last exception that an instruction caused."""
    found = next((r for r in reversed(evidence.truth.traps) if _by_an_instruction(evidence, r)),
                 None)
    return (Fault(evidence.isa.access(found.v[0]), found.v[1], found.v[2], found.v[3])
            if found else None)


def _by_an_instruction(evidence: Evidence, record: Record) -> bool:
    return evidence.isa.by_an_instruction(record.addr - evidence.kernel.symbol("exception_vector"),
                                          record.v[0])


def panicked(evidence: Evidence) -> tuple[str, int]:
    """The function that called panic(), and the first number in its message; ("", 0) if there was
    no such call."""
    calls = evidence.truth.hits["panic"]
    return (evidence.kernel.name_at(calls[-1].v[3] - 4).partition("+")[0].partition(".")[0],
            calls[-1].v[1]) if calls else ("", 0)


def lock_misused(evidence: Evidence) -> str:
    """The mistake, if the kernel ended the boot because ftrace_lock was not held, or was locked
    twice; or ""."""
    caller, mutex = panicked(evidence)
    if caller in ("ftrace_batch_begin", "mutex_unlock"):
        return "lock-not-held"
    if caller == "mutex_lock" and mutex == evidence.kernel.symbol("ftrace_lock"):
        return "lock-not-given-back"
    return ""


def back_into(evidence: Evidence, stub: str) -> bool:
    """Did the last traced call stay in the stub for ever after its callback? Then the last
    exception or interrupt of its CPU was taken in the stub, and the link register also pointed into
    the stub."""
    (lo, hi), trap = evidence.kernel.extent(stub), _last_of(evidence, unfinished(evidence))
    return bool(trap and all(lo <= address < hi for address in (trap.v[1], trap.v[3])))


def _last_of(evidence: Evidence, call: Call | None) -> Record | None:
    """The last exception or interrupt on this call's CPU after the call."""
    return next((r for r in reversed(evidence.truth.traps)
                 if call and r.vcpu == call.vcpu and r.seq > call.seq), None)


def astray(evidence: Evidence) -> str:
    """If the CPU jumped to an address without code after the last traced call's callback: a
    sentence that says so, or ''."""
    call = unfinished(evidence)
    trap = _last_of(evidence, call)
    if not call or not trap or not _by_an_instruction(
            evidence, trap) or evidence.isa.access(trap.v[0]) != "execution":
        return ""
    held = {call.fp: "the value of the frame pointer at the call site",
            call.sp: "the value of the stack pointer at the call site"}.get(
                trap.v[1], "where there is no code")
    return (f"{call.name} was called on CPU {call.vcpu}, its call site called the tracer, and the "
            f"tracer did not return to it: the CPU continued at {trap.v[1]:#x}, {held}")


def earlier_defect(evidence: Evidence) -> str:
    """A defect that was observed before the boot ended, or ''. A panic may come much later, in code
    that is right."""
    wrong = (callback_arguments(evidence) if evidence.kernel.hook == "mcount" else
             handler_arguments(evidence) if evidence.lab in (5, 6) else None)
    gone = gone_called(evidence) if evidence.lab in (5, 6) else ""
    return (gone or astray(evidence) or register_lost(evidence) or
            (f"Before that, {wrong.why}" if wrong and wrong.seq is not None else ""))


def gone_called(evidence: Evidence) -> str:
    """A sentence that says that ftrace_graph_gone called a gone handler that is NULL, or ''."""
    fault = last(evidence)
    lo, hi = evidence.kernel.extent("ftrace_graph_gone")
    called = fault and fault.access == "execution" and not fault.pc and lo <= fault.link < hi
    return ("A call was left whose user has no gone handler, and ftrace_graph_gone called "
            "gonefunc, which is NULL" if called else "")


def fault_in(evidence: Evidence, files: Collection[str]) -> str:
    """If an instruction of one of these files caused the last exception before a panic, or had
    called the function that did: a sentence that names it, or ''."""
    fault, kernel = last(evidence), evidence.kernel
    if evidence.verdict != Verdict.PANIC or not fault or not fault.access:
        return ""
    at, call = fault.pc, fault.link - 4
    for file in files:
        code = kernel.code_of(file)
        if any(lo <= at < hi for lo, hi in code):
            return (f"The last fault was in {file}, at {kernel.name_at(at)}: "
                    f"{kernel.disassemble(at, kernel.word(at))}")
        if any(lo <= call < hi for lo, hi in code):
            return (f"The last fault was at {kernel.name_at(at)}, and the last call before it in "
                    f"{file}, at {kernel.name_at(call)}")
    return ""


def register_lost(evidence: Evidence) -> str:
    """A sentence about the newest call that did not preserve a register, or ''."""
    but = 1 << evidence.isa.link if evidence.kernel.symbol(HANDLER) else 0
    found = [(call.landed.seq, call, f"after the call site of {call.name}", numbers)
             for call in evidence.truth.calls
             if call.landed and (numbers := evidence.lost(call, but))]
    found += [(span.leaving.back.seq, span.call, f"when {span.name} had returned", numbers)
              for span in evidence.truth.returns.spans
              if span.leaving and span.leaving.back and (numbers := lost_at_return(evidence, span))]
    if not found:
        return ""
    _, call, when, numbers = max(found, key=lambda each: each[0])
    names = ", ".join(evidence.isa.names[n] for n in numbers)
    return (f"Before that, {when}, on CPU {call.vcpu}, {names} "
            f"{'was not what it was' if len(numbers) == 1 else 'were not what they were'} before "
            "the tracer ran")

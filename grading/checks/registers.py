"""Checks that the tracer preserves registers and passes the right arguments, at every executed call
site.

The observer reads all registers at the site and again where the function continues. At each
callback it reads the arguments, the frame records and struct ftrace_regs.
"""

from grading.checks.checks import first_of
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.observer import Kind, Record
from grading.truth.truth import MOST_FRAME, Call
from qemu.isa import Isa

# the upper half of the values that kern/apps/registers.c and entry.c put into every register
PATTERN = 0x5CA1AB1E


def mistake_of(isa: Isa, number: int) -> str:
    if number == isa.sp:
        return "stack-not-given-back"
    if number == isa.fp:
        return "frame-pointer-lost"
    if number in isa.reserved:
        return "reserved-register-touched"
    if number == isa.link:
        return "return-address-lost"
    return "argument-clobbered" if number in (
        *isa.arguments, isa.static_chain) else "saved-register-lost" if number < 32 else ""


def where(evidence: Evidence, address: int) -> str:
    lo, hi = evidence.kernel.text
    return f"{address:#x}" + (f" ({evidence.kernel.name_at(address)})"
                              if lo <= address < hi else "")


def registers_kept(evidence: Evidence) -> Finding | None:
    """Every call, traced or not, preserves the registers that it must preserve, and continues after
    its site."""
    if evidence.truth.between:
        return wrong_between(evidence)
    finding = first_of(kept(evidence, call) or went_on(evidence, call)
                       for call in evidence.truth.calls)
    seen = any(call.landed for call in evidence.truth.calls if call.callbacks)
    return finding or (None if seen else Finding(
        "no traced call reached the callback and returned to its call site"))


def wrong_between(evidence: Evidence) -> Finding | None:
    """A finding if an interrupt that comes between two instructions of the tracer would find sp or
    a reserved register wrong, or overwrite memory that is used."""
    # an access below sp is the cause of what is found wrong there
    for r in sorted(evidence.truth.between, key=lambda r: (r.kind != Kind.BELOW, r.seq)):
        what, mistake = _wrong_at(evidence, r)
        return Finding(
            f"{evidence.kernel.name_at(r.addr)} ({evidence.kernel.disassemble(r.addr)}) {what}",
            seq=r.seq, mistake=mistake if evidence.lab == 1 else "")
    return None


def _wrong_at(evidence: Evidence, record: Record) -> tuple[str, str]:
    """What is wrong when this instruction begins, and the mistake's name in lab 1."""
    sp, was, mask = record.v[:3]
    if sp % 16:
        return f"ran with sp {sp:#x}, which is not a multiple of 16", "stack-not-aligned"
    # of riscv64's load the observer sees the new sp
    if record.kind == Kind.BELOW and evidence.kernel.disassemble(record.addr).startswith("ld sp,"):
        return "loads sp from memory: the frame must be removed by an addition to sp", ""
    if record.kind == Kind.BELOW:
        return ("uses memory below sp, which an interrupt may overwrite: lower sp before "
                "you store, and raise it after you load", "stored-below-sp")
    if sp > was:
        return (f"ran with sp {sp - was} bytes above where the call began: an interrupt would "
                "overwrite the stack frame of the function or of its caller", "")
    if not mask:
        return (f"ran with {was - sp} bytes on the stack since the call began: a frame may have at "
                f"most {MOST_FRAME}", "")
    number = next(n for n in range(len(evidence.isa.names)) if mask >> n & 1)
    if number == evidence.isa.fp:
        return (f"ran with a frame pointer, {evidence.isa.names[number]}, that is not the caller's "
                "and does not point into the stub's own frame: an interrupt would walk the stack "
                "from it", "frame-pointer-lost")
    return (f"ran with another value in {evidence.isa.names[number]} than before the call: an "
            "interrupt would find that value", "reserved-register-touched")


def kept(evidence: Evidence, call: Call, but: int = 0) -> Finding | None:
    wrong = evidence.lost(call, but)
    if not wrong:
        return None
    number = max(wrong, key=lambda n: (n in (evidence.isa.sp, evidence.isa.fp), -n))
    when = "was traced" if call.callbacks else "was not traced"
    return Finding(f"{call.name} {when}, on CPU {call.vcpu}, and after its call site "
                   f"{evidence.isa.names[number]} was not what it had been before", seq=call.seq,
                   mistake=mistake_of(evidence.isa, number))


def went_on(evidence: Evidence, call: Call) -> Finding | None:
    """A finding if the call did not continue at the instruction after its site."""
    if not call.landed or not call.went_astray:
        return None
    return Finding(f"{call.name} was called, on CPU {call.vcpu}. It must continue at "
                   f"{where(evidence, call.site.address + 4)}, after its call site, and continued "
                   f"at {where(evidence, call.landed.addr)}", seq=call.seq)


# ---- a return that is patched ----------------------------------------------------------------

def found_as_left(evidence: Evidence) -> Finding | None:
    """Labs 5 and 6: a function begins with the register values of its caller, except for the link
    register."""
    if evidence.truth.between:
        return wrong_between(evidence)
    for call in evidence.truth.calls:
        if wrong := evidence.lost(call, 1 << evidence.isa.link):
            return Finding(f"{call.name} was called, on CPU {call.vcpu}, and after its call site "
                           f"{evidence.isa.names[wrong[0]]} was not what it had been before",
                           seq=call.seq)
    return None


def unfinished(evidence: Evidence) -> Call | None:
    """The last call since the last typed line whose callback ran and that did not continue
    afterwards."""
    since = evidence.typed[-1][0] if evidence.typed else 0
    return next((call for call in reversed(evidence.truth.calls)
                 if call.seq >= since and call.callbacks and not call.landed), None)


def spoilt(evidence: Evidence) -> str:
    """For a boot that ended early: the mistake that may have corrupted it, or ''."""
    wrong: list[int] = next(
        (numbers for call in evidence.truth.calls if (numbers := evidence.lost(call))), [])
    if wrong:
        return mistake_of(evidence.isa, max(wrong))
    wrong_call = callback_arguments(evidence)
    return (wrong_call.mistake
            if wrong_call and wrong_call.mistake == "address-taken-for-the-value" else "")


# ---- the arguments of a callback, with HOOK=mcount ----------------------------------------------

def callback_arguments(evidence: Evidence) -> Finding | None:
    """Every callback gets the right ip, parent_ip, op and regs, and a frame record by which the
    stack can be walked."""
    seen = 0
    for call in evidence.truth.calls:
        for r in call.callbacks:
            seen += 1
            if finding := _arguments_wrong(evidence, call, r):
                finding.seq = r.seq
                return finding
    return lone_callbacks(evidence) or (None
                                        if seen else Finding("no call site reached a callback"))


def lone_callbacks(evidence: Evidence) -> Finding | None:
    """A finding if a callback ran in a context that had not just executed a call site."""
    if not evidence.truth.lone:
        return None
    return Finding(f"the tracer's callback ran {len(evidence.truth.lone)} times on a stack on "
                   "which no call site had just been executed", seq=evidence.truth.lone[-1].seq)


def _arguments_wrong(evidence: Evidence, call: Call, record: Record) -> Finding | None:
    (ip, parent, op, regs), (below, home, callers, _) = record.v, record.more[:4]
    stub = f"{call.name} was traced, and the callback's"
    if ip != call.site.address:
        return Finding(f"{stub} ip was {where(evidence, ip)}, and not "
                       f"{where(evidence, call.site.address)}, the call site",
                       mistake="wrong-call-site-offset")
    if parent != call.parent:
        return Finding(
            f"{stub} parent_ip was {where(evidence, parent)}, and not "
            f"{where(evidence, call.parent)}, the function's return address"
            + (": it is the other word of the frame record, the saved frame pointer"
               if parent == callers else ""), mistake=_mistake_of_parent(call, parent, callers))
    if op != record.more[8]:
        return Finding(
            f"{stub} op was {where(evidence, op)}, and not {record.more[8]:#x}, the value of "
            "function_trace_op",
            mistake="address-taken-for-the-value"
            if op == evidence.kernel.symbol("function_trace_op") else "")
    if regs:
        return Finding(f"{stub} regs was {regs:#x}, and not 0")
    if (below, home) != (call.fp, call.site.address + 4):
        return Finding(f"{stub} caller made no frame record with the function's frame pointer and "
                       "the address after the call site: a stack walk from the callback goes wrong")
    return None


def _mistake_of_parent(call: Call, parent: int, callers: int) -> str:
    if parent == callers:
        return "frame-pointer-for-parent"
    if parent >> 32 == PATTERN:
        return "parent-from-argument"
    return "parent-of-the-stub" if parent == call.site.address + 4 else ""

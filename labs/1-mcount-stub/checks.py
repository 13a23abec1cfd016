"""Lab 1: what each rung is held against. Its own: what a caller sees that has a pattern in every register.

That caller is kern/apps/registers.c. It is trusted, and it says what it saw by
addresses that the observer sees.
"""

from __future__ import annotations

from grading.checks import all_of, lives, named, no_hits, right_arguments, right_parents, right_result, three_agree
from grading.evidence import Evidence
from grading.finding import Finding
from grading.registers import IP, NOT_FIRST_ARGUMENT, NOT_SITE, OP, PARENT, RECORD, REGS, STACK, mistake_of, registers_kept, wrong_items
from grading.truth import PATTERN_TRACER

MISTAKES = {
    "argument-clobbered": "an argument register does not come back as it was",
    "return-address-lost": "the link register is not kept over the call of the callback",
    "frame-pointer-lost": "the frame pointer does not come back as it was",
    "stack-not-given-back": "the stack pointer does not come back as it was",
    "wrong-call-site-offset": "ip is not the address of the call",
    "parent-of-the-stub": "the parent is read from the stub's own frame",
    "parent-from-argument": "the parent is taken from the first argument register",
    "pointer-taken-for-the-function": "the variable is called, and not the function whose address it holds",
    "asked-the-wrong-way-round": "the callback runs when nobody traces",
}
ADVICE = {"saved-in-a-global", "traced-the-tracer"}  # the build refuses the second

MANY = 20  # more than interrupts can be


# ---- the caller with the pattern -----------------------------------------------

def callback_arguments(e: Evidence) -> Finding | None:
    """ip, parent_ip, op and regs, and a frame record to walk the stack by."""
    if e.smp > 1:
        return None
    wrong = {item for traced, item in wrong_items(e) if traced}
    if IP in wrong:
        return Finding("ip is not the address of the instruction that called _mcount", mistake="wrong-call-site-offset")
    if PARENT in wrong:
        slug = "parent-from-argument" if NOT_FIRST_ARGUMENT in wrong else "parent-of-the-stub" if NOT_SITE in wrong else ""
        return Finding("parent_ip is not where the function that called _mcount returns to", mistake=slug)
    if OP in wrong:
        return Finding("op is not the value of function_trace_op")
    if REGS in wrong:
        return Finding("regs is not 0")
    if RECORD in wrong:
        return Finding("the stub's frame record does not say who called it: a walk from the callback goes wrong")
    return None


# ---- called, or not ---------------------------------------------------------------

def something_traced(e: Evidence) -> Finding | None:
    for phase in e.on():
        if not any(phase.first <= r.seq < phase.last for r in e.truth.callbacks):
            return Finding(f"{phase.name}: the tracer's callback never ran")
        if not phase.trace or not phase.trace.events:
            return Finding(f"{phase.name}: not one event is printed")
    return None


def stub_called(e: Evidence) -> Finding | None:
    """Every executed call site entered the stub."""
    stub = e.kernel.symbol("_mcount")
    sites = [0] * 64
    entered = [0] * 64
    for call in e.truth.calls:
        sites[call.vcpu] += 1
    for point in e.truth.trampolines:
        entered[point.vcpu] += point.addr == stub
    for cpu in range(64):
        if abs(sites[cpu] - entered[cpu]) > 1:  # one may be cut in the middle at the end
            return Finding(f"CPU {cpu} executed {sites[cpu]} call sites and entered _mcount {entered[cpu]} times")
    return None if any(sites) else Finding("no call site was executed")


def silent_callback(e: Evidence) -> Finding | None:
    return (no_hits(e, e.truth.callbacks, "the tracer's callback")
            or no_hits(e, e.truth.idle, "what ftrace_trace_function holds while nobody traces"))


def _wrong_way_round(e: Evidence, finding: Finding) -> str:
    """The pointer was called while it held ftrace_stub, and not while it held a tracer."""
    called = any(phase.first <= r.seq < phase.last for phase in e.on() for r in e.truth.callbacks)
    return "asked-the-wrong-way-round" if e.truth.idle and not called else ""


def _own_parents(e: Evidence, finding: Finding) -> str:
    events = [event for phase in e.on() if phase.trace for event in phase.trace.events]
    return "parent-of-the-stub" if sum(v.parent == v.func for v in events) * 2 > len(events) else ""


# ---- a boot that ended early --------------------------------------------------------

def ended(e: Evidence) -> str:
    wrong = {item for _, item in wrong_items(e)}
    if wrong & {*range(STACK + 1)}:
        return mistake_of(e, max(wrong & {*range(STACK + 1)}))
    if e.truth.pattern and e.truth.pattern[-1] == PATTERN_TRACER:
        return "return-address-lost"  # the callback ran, and nobody came back from the stub
    if e.truth.faults_in_stub > MANY and not e.truth.callbacks and not e.truth.idle:
        return "pointer-taken-for-the-function"  # each call of the stub is an exception
    return ""


CHECKS = {
    "callback": named(something_traced, _wrong_way_round),
    "life": lives,
    "stub-called": stub_called,
    "silent": named(silent_callback, _wrong_way_round),
    "result": right_result,
    "arguments": all_of(registers_kept, right_arguments),
    "one CPU": three_agree,
    "four CPUs": three_agree,
    "parents": named(all_of(callback_arguments, right_parents), _own_parents),
}

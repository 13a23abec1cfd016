"""Lab 1: the check of each rung, and the mistakes that it names."""

from __future__ import annotations

import sys
from collections import Counter

from grading.checks.checks import (all_of, lives, named, no_hits, right_arguments, right_parents,
                                   right_result, three_agree)
from grading.checks.console_checks import lives_and_traces, printed_as_expected
from grading.checks.faults import back_into
from grading.checks.registers import callback_arguments, registers_kept, spoilt
from grading.checks.seen import (BETWEEN, OVERWRITTEN, POWERED_OFF, arguments, called_back, printed,
                                 ran, registers)
from grading.evidence.evidence import Evidence, between, during
from grading.evidence.finding import Finding
from grading.machine.observer import Kind

MISTAKES = {
    "argument-clobbered": "an argument register does not come back as it was",
    "return-address-lost": "the link register is not kept over the call of the callback",
    "frame-pointer-lost": "the frame pointer does not come back as it was",
    "stack-not-given-back": "the stack pointer does not come back as it was",
    "wrong-call-site-offset": "ip is not the address of the call",
    "parent-of-the-stub": "the parent is read from _mcount's own frame",
    "parent-from-argument": "the parent is taken from the first argument register",
    "pointer-taken-for-the-function": "the address of the variable is called, and not the function "
                                      "whose address it holds",
    "asked-the-wrong-way-round": "the callback runs while no tracer is on",
    "stub-called-for-nobody": "ftrace_stub is called while no tracer is on",
    "stored-below-sp": "memory below sp is used, which an interrupt may overwrite",
    "stack-not-aligned": "sp is not a multiple of 16",
    "saved-register-lost": "a register that calls preserve does not come back as it was",
    "reserved-register-touched": "gp, tp or x18 is written",
    "address-taken-for-the-value": "op is the address of the variable, and not its value",
    "frame-pointer-for-parent": "parent_ip is the other word of the frame record",
    "saved-in-a-global": "memory outside the stack is written",
}
ADVICE = {"traced-the-tracer"}  # it is an error of the build
AT_ONCE = 16  # instructions of a call while no tracer is on: twice what is needed


# ---- what _mcount may do besides the call of the callback ---------------------------

def stores_outside(evidence: Evidence) -> Finding | None:
    """A store of _mcount that is not on the stack: all CPUs and interrupts would share the word."""
    store = next((r for r in evidence.truth.writes if r.kind == Kind.WRITE), None)
    return Finding(f"{evidence.kernel.name_at(store.addr)} "
                   f"({evidence.kernel.disassemble(store.addr)}) stores at {store.v[0]:#x}, which "
                   "is not on the stack: another CPU, or an interrupt, stores there, too",
                   seq=store.seq, mistake="saved-in-a-global") if store else None


def calls_only_the_callback(evidence: Evidence) -> Finding | None:
    """The handed-in assembly has no jump out of itself. (The build refuses an indirect call that is
    not the callback's.)"""
    kernel = evidence.kernel
    for lo, hi in kernel.code_of(f"kern/ftrace/{kernel.arch}/mcount.S"):
        for at in range(lo, hi, 4):
            if (target := kernel.jumps_to(at)) and not lo <= target < hi:
                return Finding(f"{kernel.name_at(at)} goes to {kernel.name_at(target)}. It must go "
                               "to the callback, while a tracer is on, and back, and nowhere else",
                               address=at)
    return None


# ---- called, or not ---------------------------------------------------------------

def something_traced(evidence: Evidence) -> Finding | None:
    for phase in evidence.on():
        if not during(phase, evidence.truth.callbacks):
            return Finding(f"{phase.name}: the tracer's callback never ran", began=phase.first)
        if not phase.trace or not phase.trace.events:
            return Finding(f"{phase.name}: no event is printed", began=phase.first)
    return None


def stub_called(evidence: Evidence) -> Finding | None:
    """Each executed call site entered _mcount."""
    mcount = evidence.kernel.symbol("_mcount")
    seen = False
    windows = [
        (p.first, p.last)
        for p in [*evidence.phases, *([evidence.overwritten] if evidence.overwritten else [])]
    ]
    for window in [(0, sys.maxsize)] if evidence.why else windows:
        sites = Counter(c.vcpu for c in between(evidence.truth.calls, *window))
        entered = Counter(
            r.vcpu for r in between(evidence.truth.trampolines, *window) if r.addr == mcount
        )
        seen = seen or bool(sites)
        for cpu in sites | entered:
            # the window may begin or end in the middle of a call
            if abs(sites[cpu] - entered[cpu]) > 1:
                return Finding(
                    f"CPU {cpu} executed {sites[cpu]} call sites and entered _mcount "
                    f"{entered[cpu]} times"
                )
    return None if seen else Finding("no call site was executed")


def silent_callback(evidence: Evidence) -> Finding | None:
    finding = no_hits(evidence, evidence.truth.callbacks, "the tracer's callback")
    if finding:
        return finding
    for phase in evidence.off():
        hits = during(phase, evidence.truth.hits["ftrace_stub"])
        if hits:
            return Finding(
                f"{phase.name}: _mcount called ftrace_stub {len(hits)} times while no tracer was "
                f"on. When "
                "ftrace_trace_function holds ftrace_stub, _mcount must return without a call",
                seq=hits[0].seq)
    return None


def loaded_once(evidence: Evidence) -> Finding | None:
    """Each call of _mcount loads the pointer once, so what it calls is what it has compared."""
    mcount, last = evidence.kernel.symbol("_mcount"), dict[tuple[int, ...], int]()
    for r in sorted([*evidence.truth.trampolines, *evidence.truth.writes], key=lambda r: r.seq):
        if r.kind == Kind.READ and last.get(r.context) == Kind.READ:
            return Finding(f"{evidence.kernel.name_at(r.addr)} "
                           f"({evidence.kernel.disassemble(r.addr)}) loads ftrace_trace_function a "
                           "second time in the same call. Another CPU may have changed it since: "
                           "call the value that you have compared", seq=r.seq)
        if r.kind == Kind.READ or r.addr == mcount:
            last[r.context] = r.kind
    return None


def returns_at_once(evidence: Evidence) -> Finding | None:
    """The fewest instructions that a call took, as an interrupt may come in others."""
    taken = min((call.landed.insns - call.insns for phase in evidence.off()
                 for call in evidence.calls(phase) if call.landed), default=0)
    return Finding(f"while no tracer was on, a call of _mcount took {taken} instructions: compare "
                   "the pointer before you do anything else, and return"
                   ) if taken > AT_ONCE else None


def _for_nobody(evidence: Evidence, finding: Finding) -> str:
    return "stub-called-for-nobody" if evidence.truth.hits["ftrace_stub"] else ""


def _wrong_way_round(evidence: Evidence, finding: Finding) -> str:
    """The function in the pointer was called while it was ftrace_stub, but not while it was a
    tracer."""
    called = any(during(phase, evidence.truth.callbacks) for phase in evidence.on())
    return "asked-the-wrong-way-round" if evidence.truth.hits["ftrace_stub"] and not called else ""


def _own_parents(evidence: Evidence, finding: Finding) -> str:
    events = [event for phase in evidence.on() if phase.trace for event in phase.trace.events]
    return "parent-of-the-stub" if sum(v.parent == v.func for v in events) * 2 > len(events) else ""


# ---- a boot that ended early --------------------------------------------------------

def ended(evidence: Evidence) -> str:
    if spoilt(evidence):
        return spoilt(evidence)
    if back_into(evidence, "_mcount"):
        return "return-address-lost"
    if stores_outside(evidence):
        return "saved-in-a-global"
    variable = evidence.kernel.symbol("ftrace_trace_function")
    if any(r.v[1] == variable for r in evidence.truth.traps):
        return "pointer-taken-for-the-function"  # the CPU tried to execute data
    return ""


CHECKS = {
    "callback": named(something_traced, _wrong_way_round),
    "life": lives,
    "stub-called": stub_called,
    "silent": named(all_of(silent_callback, returns_at_once, loaded_once), _wrong_way_round,
                    _for_nobody),
    "result": right_result,
    "arguments": all_of(stores_outside, calls_only_the_callback, registers_kept, right_arguments),
    "one CPU": three_agree,
    "many CPUs": three_agree,
    "parents": named(all_of(callback_arguments, right_parents), _own_parents),
}

CONSOLE = {
    "life": lives_and_traces, "result": right_result, "one CPU": printed_as_expected,
    "many CPUs": printed_as_expected
}

SEEN = {
    "callback": (called_back(1), printed(1)),
    "life": (POWERED_OFF, ran(1, 2)),
    "stub-called": (ran(1, 2),),
    "silent": (ran(0, 2),),
    "result": (ran(1, 2),),
    "arguments": (arguments(1, 2), registers(1, 2), BETWEEN, OVERWRITTEN),
    "one CPU": (ran(1, 2), printed(1)),
    "many CPUs": (ran(1, 2), printed(1)),
    "parents": (called_back(1), printed(1)),
}

"""Lab 5: the check of each rung, and the mistakes that it names. Checks that lab 6 shares are in
grading/checks/graph_checks.py."""

from __future__ import annotations

import re

from grading.checks import faults, graph_checks
from grading.checks.checks import (all_of, foreign, lives, named, of_kind, only_selected,
                                   right_arguments, right_result, synchronised, traced, word_in)
from grading.checks.console_checks import lives_and_traces, nested_as_expected
from grading.checks.entry import handler_arguments
from grading.checks.frames import (NOT_ASKED, ended_without_stack, frames_kept,
                                   patched_if_wanted, results_shown)
from grading.evidence.evidence import Evidence, between, expected_run
from grading.evidence.finding import Defect, Finding
from grading.checks.graph_checks import (RESULT, STACK, at_rest, comes_home, depth, durations,
                                         entries_end, frames_fit, frames_out, link_replaced,
                                         registers_given_back, something_returned, three_agree,
                                         through_handler, values)
from grading.checks.integrity import as_linked, words_stored
from grading.checks.order import stacks_in_time, user_in_time, user_read_once
from grading.checks.rare import handed, left, own_calls, refused, walks
from grading.checks.registers import found_as_left
from grading.checks.schedule_checks import PLAYED, TRACER, returns_under_schedules
from grading.session.graph_session import BEFORE, GraphSession
from grading.stimulus.schedules import Change
from grading.truth.truth import STUB_GOES_ON
from grading.checks.seen import (ANYTHING_RETURNED, BETWEEN, FRAMES_OUT, INTERRUPTED, POWERED_OFF,
                                 TEXT_AT_BOOT, TEXT_AT_END, arguments, batches, called,
                                 graph_printed, handlers_given, ran, registers, returned,
                                 returned_compared, text_of, timed, values_printed, went_home)
from grading.checks.shadow import whole
from grading.verdict import Verdict

SESSION = GraphSession


# ---- mistakes with a name, recognised by what was executed --------------------------

def _call_left(evidence: Evidence, finding: Finding) -> str:
    """At the end the call in ftrace_graph_stub is still there."""
    at, rest = evidence.kernel.symbol("ftrace_graph_call"), evidence.rest_text
    return "call-left-behind" if evidence.text_at_end and word_in(
        evidence.kernel, evidence.text_at_end, at) != word_in(evidence.kernel, rest, at) else ""


def _entered(evidence: Evidence, finding: Finding) -> str:
    """The entry handler ran, and then the call did not continue after its call site."""
    called = [
        s for phase in evidence.on() for s in evidence.spans(phase) if traced(evidence, s.call)
    ]
    lost = [
        s for s in called if not s.body and any(t.seq > s.call.seq and t.vcpu == s.call.vcpu
                                                for t in evidence.truth.users)
    ]
    fault = faults.last(evidence) if evidence.verdict == Verdict.PANIC else None
    if len(lost) < len(called) and not (fault and fault.access == "execution"):
        return ""  # an interrupt, or the end of the boot, came in between
    return "" if not lost else "wrong-parent-slot" if any(
        r.seq > lost[0].call.seq for r in evidence.truth.handlers) else "link-register-lost"


def _passed(evidence: Evidence, finding: Finding) -> str:
    """prepare_ftrace_return was called with another third argument than regs."""
    wrong = handler_arguments(evidence)
    return wrong.mistake if wrong else ""


def _result(evidence: Evidence, finding: Finding) -> str:
    """A result register was changed at a return."""
    clobbered = registers_given_back(evidence)
    return clobbered.mistake if clobbered else ""


def ended(evidence: Evidence) -> str:
    """The mistake of a boot that ended early: a call did not return to its caller, or it did and a
    register was lost; or a thread had no shadow stack."""
    if slug := ended_without_stack(evidence):
        return slug
    finding, lost, fault = (
        comes_home(evidence),
        _result(evidence, Finding("")),
        faults.last(evidence),
    )
    if not finding or lost == STACK:
        return lost
    # otherwise the tracer itself has reported the mistake
    astray = finding.kind == Defect.WENT_ELSEWHERE or finding.kind == Defect.WENT_NOWHERE and fault
    return _passed(evidence, finding) or _entered(evidence, finding) or (
        "return-to-wrong-place" if astray and evidence.verdict == Verdict.PANIC
        and evidence.truth.handlers else "")


def later_user(evidence: Evidence) -> Finding | None:
    """A user that is registered after a call was entered is not called at its return."""
    if told := between(evidence.truth.users, *evidence.slot_again):
        return Finding(
            "a thread slept in sleep_ns, which a user traced. That user was unregistered, and "
            f"another one was registered, for {BEFORE} only. Then sleep_ns returned, and "
            f"{evidence.kernel.name_at(told[0].addr)} ran, a handler of the later user: the frame "
            "has another user's birth", seq=told[0].seq)
    if not between(evidence.truth.handlers, *evidence.slot_again):
        return Finding("a thread slept in sleep_ns, which a user traced. That user was "
                       "unregistered, and sleep_ns did not return through return_to_handler")
    return None


def stub_goes_on(evidence: Evidence) -> Finding | None:
    """After a traced call's entry, ftrace_graph_stub goes on after its call."""
    went = evidence.truth.hits[STUB_GOES_ON]
    for call in evidence.truth.calls:
        context = call.thread, call.level, call.trap
        if call.callbacks and call.landed and not any(
                r.context == context for r in between(went, call.seq, call.landed.seq)):
            return Finding(f"{call.name} was traced, and ftrace_graph_caller did not return to "
                           "ftrace_graph_stub: the instruction after ftrace_graph_call was not "
                           "executed", seq=call.seq)
    return None


def predicted(evidence: Evidence) -> Finding | None:
    """return_to_handler ends in a jump that leaves the return-address predictor alone, and
    ftrace_graph_caller in a return."""
    kernel = evidence.kernel
    for name, why in (("return_to_handler", "is a return, and takes another call's entry from the "
                       "return-address predictor: the traced function's own return has taken the "
                       "entry of its call"),
                      ("ftrace_graph_caller", "is not a return, and leaves the entry of "
                       "ftrace_graph_call in the return-address predictor")):
        for at in kernel.exits(name):
            if kernel.isa.returns(kernel.word(at)) == (name == "return_to_handler"):
                return Finding(f"{kernel.name_at(at)} ({kernel.disassemble(at)}) {why}")
    return None


def graph_call_refused(evidence: Evidence) -> Finding | None:
    """With several CPUs ftrace_graph_call gets another word. A user is refused then, once, and the
    word is left alone."""
    was, kernel, where = evidence.spoilt, evidence.kernel, "ftrace_graph_call held another word"
    if evidence.smp == 1:
        return None
    if not was or not was.text:
        return Finding("the boot ended before the harness had overwritten ftrace_graph_call")
    address = was.site.address
    if word_in(kernel, was.text, address) != was.word:
        return Finding(f"{where} than the nop, and it was overwritten when a user was registered",
                       address=address)
    if "(ENODEV)" not in was.printed:
        return Finding(f"{where} than the nop, and a user was registered: that must fail with "
                       f"ENODEV. The shell printed '{was.printed.strip()}'")
    report = re.findall(rf"at {address:#x} \(error .*\n.*expected +([0-9a-f]+)", was.printed)
    if report != [f"{was.site.rest:08x}"]:
        return Finding(
            f"{where} than the nop, and a user was refused. The kernel must report this once, with "
            f"the nop, {was.site.rest:08x}, as the expected word; it reported {len(report)} times"
            f"{', with ' if report else ''}{' and '.join(report)}")
    if changed := foreign(kernel, kernel.differing(was.text, evidence.rest_text), set()):
        return Finding(f"{where}, a user was refused, and text was changed at "
                       f"{kernel.name_at(changed[0])}")
    if (want := expected_run(was.seed, evidence.smp).line) not in was.output:
        return Finding(f"{where}, a user was refused, and then the workload did not print '{want}'")
    return None


MISTAKES = {
    RESULT: "return_to_handler does not preserve a result register",
    STACK: "return_to_handler does not restore sp",
    "wrong-parent-slot": "another word than the return address is replaced, so the functions' "
                         "bodies are skipped",
    "regs-not-passed": "the third argument of prepare_ftrace_return is not regs",
    "link-register-lost": "the tracer does not return to the instruction after the call site",
    "return-to-wrong-place": "a function does not return to the instruction after its call",
    "frame-not-popped": "after a user said no at the entry, the frame stays on the shadow stack",
    "patched-without-a-frame": "a return is patched although no frame keeps its return address",
    "shadow-frame-read-after-release": "a frame is read after it was released",
    "frame-not-filled": "a word of the frame is missing or wrong",
    "stores-out-of-order": "the stores to the shadow stack are in an order in which an interrupt "
                           "between two of them does harm",
    "sp-does-not-fit": "regs->sp differs between the call and its return",
    "call-left-behind": "after the last user is unregistered, ftrace_graph_stub still has its call",
    NOT_ASKED: "a call of a thread without a shadow stack is traced",
    **graph_checks.MISTAKES,
    "duration-not-measured": "the printed time is not the time between the call and its return",
}
ADVICE: set[str] = set()

ONLY, ON, OFF = ("echo calls_traced > set_ftrace_filter", "echo function_graph > current_tracer",
                 "echo nop > current_tracer")
SCHEDULES = (
    Change("on", ON, "register_ftrace_graph", first=(ONLY,), last=("echo > set_ftrace_filter",),
           after=(OFF,), comes=frozenset({TRACER})),
    Change("off", OFF, "unregister_ftrace_graph", first=(ONLY,), last=("echo > set_ftrace_filter",),
           before=(ON,), goes=frozenset({TRACER})),
)

CHECKS = {
    "returned": something_returned,
    "life": all_of(frames_fit, lives),
    "off": all_of(named(at_rest, _call_left), words_stored),
    "filter": all_of(only_selected, graph_call_refused),
    "arguments": named(
        all_of(right_arguments, right_result, registers_given_back, found_as_left,
               handler_arguments, results_shown), _result),
    "handler": named(all_of(through_handler, link_replaced, patched_if_wanted, own_calls, refused,
                            later_user, stub_goes_on, predicted), entries_end),
    "home": named(all_of(comes_home, frames_kept, left, walks, whole), _passed, _entered,
                  of_kind(Defect.WENT_ELSEWHERE, "return-to-wrong-place")),
    "one CPU": named(three_agree, entries_end, depth),
    "many CPUs": named(three_agree, entries_end, depth),
    "values": named(all_of(values, durations, handed),
                    of_kind(Defect.WRONG_DURATION, "duration-not-measured")),
    "frames out": frames_out,
    "synchronised": all_of(synchronised, user_in_time, stacks_in_time, user_read_once),
    "schedules": all_of(as_linked, words_stored, returns_under_schedules),
}

CONSOLE = {"life": lives_and_traces, "one CPU": nested_as_expected, "many CPUs": nested_as_expected}

SEEN = {
    "returned": (ANYTHING_RETURNED,),
    "life": (POWERED_OFF, ran(2, 3)),
    "off": (TEXT_AT_BOOT, ran(0, 3), TEXT_AT_END),
    "filter": (called(2), text_of(2)),
    "arguments": (BETWEEN, arguments(2, 3), registers(2), returned_compared(2), handlers_given(2)),
    "handler": (returned(2), INTERRUPTED),
    "home": (went_home(2, 3), INTERRUPTED),
    "one CPU": (ran(2, 3), graph_printed(2)),
    "many CPUs": (ran(2, 3), graph_printed(2)),
    "values": (values_printed(2), timed(2)),
    "frames out": (FRAMES_OUT,),
    "synchronised": (batches(4),),
    "schedules": (PLAYED,),
}

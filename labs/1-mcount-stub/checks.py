"""Lab 1: what each rung is held against."""

from __future__ import annotations

from grading.checks import lives, no_hits, right_arguments, right_parents, right_result, three_agree
from grading.evidence import Evidence
from grading.finding import Finding


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
    return no_hits(e, e.truth.callbacks, "the tracer's callback")


CHECKS = {
    "callback": something_traced,
    "life": lives,
    "stub-called": stub_called,
    "silent": silent_callback,
    "result": right_result,
    "arguments": right_arguments,
    "one CPU": three_agree,
    "four CPUs": three_agree,
    "parents": right_parents,
}

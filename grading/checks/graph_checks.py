"""Labs 5 and 6: checks of patched returns. Each call is entered once, is left once, and returns to
its caller.

As in checks.py, a check takes the evidence of one boot and returns None or a Finding.
"""

from collections.abc import Iterator

from grading.checks import checks, rare
from grading.checks.align import Alignment, Divergence, align
from grading.checks.checks import first_of, in_time, within
from grading.checks.graph_align import Framed, GraphStep, differ, hit_of, nobody, steps
from grading.evidence.evidence import Evidence, Phase, User, between, during, once
from grading.evidence.finding import Defect, Finding
from grading.machine.observer import Record
from grading.stimulus import workload
from grading.text.graph_text import ENTRY, RETURN, GraphEvent
from grading.truth.returns import HANDLER, Leaving, Span
from grading.truth.truth import KEPT_NOTHING

Aligned = Alignment[GraphStep, GraphEvent]
RESULT, STACK = "result-clobbered", "stack-not-given-back"


def _leavings(evidence: Evidence, phase: Phase) -> Iterator[Leaving]:
    """Each return of the phase, once."""
    for span in evidence.spans(phase):
        if span.leaving and span.leaving.spans[0] is span:
            yield span.leaving


def cpu_of(span: Span) -> str:
    return f"CPU {span.call.vcpu}" + (", in an interrupt" if span.call.level else "")


def _leavers(phase: Phase) -> frozenset[str]:
    """The functions that are traced only for users that are unregistered during the phase."""
    leaver = frozenset(name for u in phase.users if u.leaves for name in u.filter.names)
    return leaver - {name for u in stayed(phase) for name in u.filter.names}


def framed(evidence: Evidence, phase: Phase) -> Framed:
    """Which calls of the phase should have a frame? For a user that is unregistered in it: only
    while its sites hold calls."""
    leaver, returning = _leavers(phase), phase.returning
    return lambda s: s.name in returning and (
        s.name not in leaver or checks.traced(evidence, s.call))


def unsure(evidence: Evidence, phase: Phase) -> Framed:
    """Of which calls is it unknown whether they have a frame? Of none, if no user is unregistered.
    A user's handler is no longer called some time before its sites become nops. A call made in
    between had a frame if all calls that returned together with it went through return_to_handler;
    otherwise it is unknown."""
    leaver, patched = _leavers(phase), framed(evidence, phase)
    if not leaver:
        return nobody

    def by_return(span: Span) -> bool:
        leaving = span.leaving
        return leaving is not None and len(leaving.hits) == sum(map(patched, leaving.spans))

    return lambda s: s.name in leaver and not by_return(s)


def stayed(phase: Phase) -> list[User]:
    """The users that were registered during the whole workload."""
    return [u for u in phase.users if not u.leaves]


# ---- the patched return --------------------------------------------------------

def through_handler(evidence: Evidence) -> Finding | None:
    """Each traced call returns through return_to_handler once, and nothing else executes
    return_to_handler."""
    for phase in evidence.on():
        patched = framed(evidence, phase)
        for span in evidence.spans(phase):
            if patched(span) and not span.leaving:
                return of_call(phase.name, span, f"{span.name} was entered and never returned")
        wrong = first_of(_hits(phase, leaving, [s for s in leaving.spans if patched(s)])
                         for leaving in _leavings(evidence, phase))
        if wrong:
            return wrong
        if stray := during(phase, evidence.truth.returns.stray):
            return Finding(f"{phase.name}, CPU {stray[0].vcpu}: return_to_handler ran, and none of "
                           "the workload's functions had just returned", seq=stray[0].seq)
    return None


def link_replaced(evidence: Evidence) -> Finding | None:
    """A function's link register holds return_to_handler if a user wants its return; else its
    caller's value."""
    handler = evidence.kernel.symbol(HANDLER)
    for phase in evidence.on():
        patched, doubtful = framed(evidence, phase), unsure(evidence, phase)
        for span in evidence.spans(phase):
            link = handler if patched(span) else span.call.parent
            if span.body and span.body.v[2] != link and not doubtful(span):
                return of_call(phase.name,
                               span, f"{span.name} was entered, and its link register was "
                               f"{span.body.v[2]:#x}, and must be {evidence.kernel.name_at(link)}")
    return None


def _hits(phase: Phase, leaving: Leaving, traced: list[Span]) -> Finding | None:
    gone = sum(not any(s.name in u.filter.names for u in stayed(phase))
               for s in traced) if phase.users else 0
    if len(traced) - gone <= len(leaving.hits) <= len(traced):
        return None  # the user may have been unregistered after the call site was executed
    chain = " <- ".join(s.name for s in leaving.spans)
    past = ": a traced call returned without the tracer" if len(leaving.hits) < len(traced) else ""
    return of_call(phase.name, leaving.spans[0], f"when {chain} returned, {len(traced)} traced "
                   f"calls ended, and return_to_handler ran {len(leaving.hits)} times{past}",
                   leaving.left.seq)


def of_call(where: str, span: Span, why: str, seq: int | None = None, mistake: str = "",
            kind: Defect = Defect.OTHER) -> Finding:
    """A finding about one call, with the calls that are still in flight, innermost first. `seq`:
    the record that shows it; default: the call's."""
    rows: list[tuple[str, str, bool]] = []
    at: Span | None = span
    while at and len(rows) < 8:
        rows.append((at.name, "by a jump" if at.tail else "", at is span))
        at = at.maker
    return Finding(f"{where}{', ' if where else ''}{cpu_of(span)}: {why}", rows,
                   ("calls in progress, the innermost first", ""), seq=seq or span.seq,
                   mistake=mistake, kind=kind)


def comes_home(evidence: Evidence) -> Finding | None:
    """Each call returns to the instruction after its call instruction."""
    for phase in evidence.phases:
        for span in evidence.spans(phase):
            if not span.body:
                return of_call(phase.name, span,
                               f"{span.name} was called, and did not continue after its call site")
        for leaving in _leavings(evidence, phase):
            first, last = leaving.spans[0], leaving.spans[-1]
            if last.home and (not leaving.back or leaving.back.addr != last.home):
                went = (f"went to {evidence.kernel.name_at(leaving.back.addr)}"
                        if leaving.back else "did not return to any watched address")
                tail = f" (by tail calls from {last.name})" if last is not first else ""
                return of_call(
                    phase.name, first, f"{first.name}{tail} must return to "
                    f"{evidence.kernel.name_at(last.home)}, and {went}", leaving.left.seq,
                    kind=Defect.WENT_ELSEWHERE if leaving.back else Defect.WENT_NOWHERE)
        for at in during(phase, evidence.truth.returns.unmatched):
            return Finding(f"{phase.name}, CPU {at.vcpu}: {evidence.kernel.name_at(at.addr)} "
                           "returned, and had not been entered", seq=at.seq)
    return None


def lost_at_return(evidence: Evidence, span: Span) -> list[int]:
    """The result registers and preserved registers whose values changed between the function's
    return instruction and its caller."""
    back = span.leaving.back if span.leaving else None
    if not back or not back.v[0] or back.addr != span.home or back.v[0] == KEPT_NOTHING:
        return []
    return [n for n in (*evidence.isa.results, *evidence.isa.preserved) if back.v[0] >> n & 1]


def registers_given_back(evidence: Evidence) -> Finding | None:
    """After each return, the result registers and the preserved registers have the values that the
    function left in them."""
    for span in evidence.truth.returns.spans:
        back, lost = span.leaving.back if span.leaving else None, lost_at_return(evidence, span)
        if back and lost:
            # sp first: a wrong sp makes all values loaded from the stack wrong
            number = min(lost, key=lambda n: n != evidence.isa.sp)
            mistake = ("" if evidence.lab != 5 else STACK if number == evidence.isa.sp else
                       RESULT if number in evidence.isa.results else "")
            return of_call("", span, f"{span.name} returned, and {evidence.isa.names[number]} was "
                           "not as the function had left it", back.seq, mistake)
    return None


def silent_handler(evidence: Evidence) -> Finding | None:
    """While no tracer is on, no return goes through return_to_handler, except those of calls that
    were in flight when it was switched off."""
    before = evidence.phases[0]
    if early := during(before, evidence.truth.handlers):
        return Finding(
            f"{before.name}: return_to_handler ran {len(early)} times while no tracer was on",
            seq=early[0].seq)
    for phase, following in zip(evidence.phases, evidence.phases[1:]):
        if phase.on and not following.on:
            until = min(at for at in (following.first, evidence.frames_out[0],
                                      evidence.slot_again[0]) if at > phase.last)
            if late := between(evidence.truth.handlers, phase.last, until):
                return Finding(f"after {phase.name}: return_to_handler ran {len(late)} times, and "
                               "no traced call was in progress", seq=late[0].seq)
    return checks.silent_trampolines(evidence)


def at_rest(evidence: Evidence) -> Finding | None:
    return checks.rest_at_boot(evidence) or silent_handler(evidence) or checks.rest_at_end(evidence)


def frames_out(evidence: Evidence) -> Finding | None:
    """The tracer is switched off while calls are in flight: each of them still returns through
    return_to_handler, and no other call does."""
    begin, end = evidence.frames_out
    calls = sum(checks.traced(evidence, c) for c in between(evidence.truth.calls, begin, end))
    hits = len(between(evidence.truth.handlers, begin, evidence.interrupted))
    if not calls:
        return Finding("every function was traced, and no call site held a call")
    if not hits:
        return Finding(f"every function was traced, {calls} call sites called the tracer, and "
                       "return_to_handler never ran")
    if hits > calls:
        return Finding(f"every function was traced, {calls} call sites called the tracer, and "
                       f"return_to_handler ran more often, {hits} times")
    return checks.right_result(evidence)


# ---- expected = executed = printed ------------------------------------------------

def nested_as_expected(evidence: Evidence, phase: Phase) -> Finding | None:
    """The workload made the calls that its seed asks for, and each call has the right caller."""
    if finding := checks.executed_as_expected(evidence, phase):
        return finding
    span_of = {span.seq: span for span in evidence.spans(phase)}
    for name, want, call in evidence.call_pairs(phase):
        span = span_of.get(call.seq)
        if span and name != "main" and (span.depth, span.tail) != (want.depth, want.tail):
            return of_call(phase.name, span, f"{want.function} was called at depth {span.depth}"
                           f"{' by a jump' if span.tail else ''}, and must be {_place(want)}")
    return None


def _place(want: workload.ExpectedCall) -> str:
    return f"at depth {want.depth}, called by {want.maker}" + (" by a jump" if want.tail else "")


@once
def aligned(evidence: Evidence, phase: Phase, user: User) -> dict[int, Aligned]:
    executed = steps(evidence.spans(phase), user.filter.names, framed(evidence, phase),
                     unsure(evidence, phase))
    return align(executed, user.trace.events, differ)


def nested_as_printed(evidence: Evidence, phase: Phase, user: User) -> Finding | None:
    where = f"{phase.name}, {user.directory}trace"
    trace = user.trace
    if trace.tracer != "function_graph":
        return Finding(f"{where}: it begins with '# tracer: {trace.tracer}', and must begin with "
                       "'# tracer: function_graph'")
    if trace.unknown:
        return Finding(f"{where}: this is not a line of function_graph: '{trace.unknown[0]}'")
    if finding := _counts(where, user):
        return finding
    found = aligned(evidence, phase, user)
    finding = checks.parted(evidence, where, found)
    diverged = next((a.divergence for a in found.values() if a.divergence), None)
    if finding and diverged and one_deeper(diverged):
        finding.kind = Defect.ONE_DEEPER
    return finding or first_of(in_time(where, a) for a in found.values())


def one_deeper(divergence: Divergence) -> bool:
    """Is the printed event right except that its depth is one too large?"""
    executed, printed = divergence.executed, divergence.printed
    if divergence.executed_at >= len(executed) or divergence.printed_at >= len(printed):
        return False
    step, event = executed[divergence.executed_at], printed[divergence.printed_at]
    if not isinstance(step, GraphStep) or not isinstance(event, GraphEvent):
        return False
    return (step.kind == event.kind and event.func in (step.span.name, "")
            and event.depth == min(step.depths) + 1)


def _counts(where: str, user: User) -> Finding | None:
    """Each CPU's buffer counts as many entries as were printed, and lost none."""
    for cpu, counts in user.stats.items():
        printed = sum(event.cpu == cpu for event in user.trace.events)
        lost = sum(counts.get(name, 0) for name in ("overrun", "dropped events", "commit overrun"))
        if lost:
            return Finding(
                f"{where}, CPU {cpu}: {lost} events were lost in a buffer that has room for all")
        if counts.get("entries") != printed:
            return Finding(f"{where}, CPU {cpu}: stats counts {counts.get('entries')} entries, and "
                           f"{printed} are printed")
    return None


def three_agree(evidence: Evidence) -> Finding | None:
    return first_of(within(phase, nested_as_expected(evidence, phase)
                           or first_of(nested_as_printed(evidence, phase, user)
                                       for user in stayed(phase))) for phase in evidence.phases)


def _alignments(evidence: Evidence) -> Iterator[tuple[Phase, Aligned]]:
    """The alignments of each user that was registered during the whole workload, CPU by CPU."""
    return ((phase, alignment) for phase in evidence.on() for user in stayed(phase)
            for alignment in aligned(evidence, phase, user).values())


def values(evidence: Evidence) -> Finding | None:
    """Each call is printed with the value that the result register had at its return."""
    for phase, alignment in _alignments(evidence):
        for step, event, _ in _returns(alignment):
            value = step.span.leaving.left.v[1] if step.span.leaving else None
            if value is not None and _number(event.value) != value:
                return Finding(f"{phase.name}, {cpu_of(step.span)}: {step.span.name} returned "
                               f"{value:#x}, and is printed as '{event.line.strip()}'",
                               seq=step.span.call.seq)
    return None


def _number(text: str) -> int | None:
    """The value of a printed number: hexadecimal, or decimal for an errno."""
    try:
        return int(text, 0) & workload.MASK
    except ValueError:
        return None


# ---- durations -----------------------------------------------------------------------

# With several CPUs time is the host's. No host executes this many instructions in a nanosecond.
FASTEST = 10


def durations(evidence: Evidence) -> Finding | None:
    """With one CPU an instruction takes one nanosecond, so a call's duration is the number of
    instructions between entry and return. With several CPUs it is at least the time of its
    instructions on the fastest host, and no more than the printed times allow. A short call may lie
    within one tick of the clock, but not every call."""
    return first_of(
        within(phase, _lasted(evidence, phase, alignment) or sums(phase.name, alignment)
               or _no_longer(phase.name, alignment))
        for phase, alignment in _alignments(evidence))


def at_return(span: Span, patched: Framed) -> tuple[Record, Record] | None:
    """The call's run of return_to_handler, and the next record after it."""
    at, leaving = hit_of(span, patched), span.leaving
    if at is None or not leaving or not leaving.back:
        return None
    return leaving.hits[at], (*leaving.hits, leaving.back)[at + 1]


def bounds(span: Span, patched: Framed) -> tuple[int, int] | None:
    """The least and the greatest number of instructions between the two readings of the clock.
    Each CPU counts its own."""
    ends, body = at_return(span, patched), span.body
    return (ends[0].insns - body.insns,
            ends[1].insns - span.insns) if ends and body and body.vcpu == ends[0].vcpu else None


def _returns(alignment: Aligned) -> Iterator[tuple[GraphStep, GraphEvent, int]]:
    for step, event in alignment.pairs:
        if step.kind == RETURN:
            yield step, event, -1 if event.duration is None else event.duration


def _lasted(evidence: Evidence, phase: Phase, alignment: Aligned) -> Finding | None:
    step_ns, patched = evidence.isa.clock_ns, framed(evidence, phase)
    longest, last = 0, None
    for step, event, ns in _returns(alignment):
        limits = bounds(step.span, patched)
        if ns < 0:
            return Finding(
                f"{phase.name}: a return is printed without a duration: '{event.line.strip()}'")
        if not limits:
            continue
        early = step_ns + event.unit
        longest, last = max(ns, longest), step.span
        if evidence.smp > 1:
            wrong, each = ns < limits[0] / FASTEST - early, f"at least 1/{FASTEST}"
        else:
            wrong, each = not limits[0] - early < ns < limits[1] + early, "1"
        if wrong:
            return Finding(f"{phase.name}: {step.span.name} is printed with {ns / 1000:.3f} "
                           f"us; from its call site to its return {limits[0]} to {limits[1]} "
                           f"instructions ran, of {each} ns each: '{event.line.strip()}'",
                           seq=step.span.call.seq, kind=Defect.WRONG_DURATION)
    return Finding(f"{phase.name}: each return is printed with 0.000 us", seq=last.call.seq,
                   kind=Defect.WRONG_DURATION) if last and not longest else None


def _no_longer(where: str, alignment: Aligned) -> Finding | None:
    """A call began after the line that its thread or interrupt printed before."""
    last: dict[tuple[int, int, int], int] = {}  # by thread or interrupt: the time of its last line
    began: dict[Span, int | None] = {}
    for step, event in alignment.pairs:
        call = step.span.call
        who = call.thread, call.level, call.trap
        before = began.setdefault(step.span, last.get(who))
        last[who] = event.usec
        # `f();` has the time of the entry only
        if step.kind == ENTRY or before is None or event.duration is None or "}" not in event.line:
            continue
        if event.duration > 1000 * (event.usec + 1 - before) + event.unit:
            return Finding(f"{where}: {step.span.name} lasted {event.duration / 1000:.3f} us, and "
                           f"the line before its entry was printed {event.usec - before} us before "
                           f"its return: '{event.line.strip()}'", seq=call.seq,
                           kind=Defect.WRONG_DURATION)
    return None


def sums(where: str, alignment: Aligned) -> Finding | None:
    """The durations of the calls that a call makes add up to no more than its own."""
    inner: dict[Span, int] = {}
    printed = {step.span for step, _ in alignment.pairs}
    for step, event, ns in _returns(alignment):
        if ns < 0:
            return Finding(
                f"{where}: a return is printed without a duration: '{event.line.strip()}'")
        if inner.get(step.span, 0) >= ns + event.unit:
            return Finding(f"{where}: {step.span.name} lasted {ns / 1000:.3f} us, "
                           f"and the calls that it made lasted {inner[step.span] / 1000:.3f} us: "
                           f"'{event.line.strip()}'", seq=step.span.call.seq,
                           kind=Defect.WRONG_DURATION)
        maker = step.span.maker
        while maker and maker not in printed:
            maker = maker.maker
        if maker:
            inner[maker] = inner.get(maker, 0) + ns
    return None


def something_returned(evidence: Evidence) -> Finding | None:
    """return_to_handler ran at least once. Other rungs judge each phase."""
    if any(during(phase, evidence.truth.handlers) for phase in evidence.on()):
        return None
    return checks.not_started(evidence) or Finding(
        "function_graph was on, and return_to_handler never ran")


# ---- mistakes with a name in both labs 5 and 6: recognised by what was executed and printed ----

RECURSION, DEPTH = "recursion-not-put-back", "depth-counted-twice"
MISTAKES = {
    **rare.MISTAKES, RECURSION: "after the first entries no other is seen",
    DEPTH: "an entry and its return have different depths"
}


def frames_fit(evidence: Evidence) -> Finding | None:
    """A finding with the message of the kernel's frame check, if it printed one."""
    said = next((line for p in evidence.phases
                 for line in p.output.splitlines() if "and returned with" in line), "")
    return Finding(f"the kernel printed: {said}", mistake="sp-does-not-fit") if said else None


def entries_end(evidence: Evidence, finding: Finding) -> str:
    """The mistake's name, if only the first few calls return through return_to_handler, and none of
    the many calls after them."""
    if frames_fit(evidence):
        return ""
    for phase in evidence.on():
        hits, traced = during(phase, evidence.truth.handlers), [
            s for s in evidence.spans(phase)
            if s.name in phase.returning and checks.traced(evidence, s.call)]
        if hits and 10 * sum(s.seq > hits[-1].seq for s in traced) > 9 * len(traced):
            return RECURSION
    return ""


depth = checks.of_kind(Defect.ONE_DEEPER, DEPTH)

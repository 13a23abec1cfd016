"""The invariants of labs 5 and 6: each call entered once, left once, and home again.

As in checks.py a check takes the evidence of one boot and returns None, or what is wrong.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from grading import checks, workload
from grading.checks import MANY, ONE, Check, Rung
from grading.evidence import Evidence, HandUser, Phase, User
from grading.finding import Finding
from grading.graph_align import Alignment, Divergence, Framed, Step, align, hit_of, steps
from grading.graph_text import RETURN, GraphEvent
from grading.observer import Record
from grading.returns import Leaving, Span
from grading.truth import AT_ENTRY, AT_RETURN, OF_PARENT, Told, Touch

# The clock's step: riscv64's timebase is 10 MHz, arm64's counter 62.5 MHz (QEMU's virt machines).
CLOCK_NS = {"riscv64": 100, "arm64": 16}


def _leavings(e: Evidence, phase: Phase) -> Iterator[Leaving]:
    """Each return of the phase once."""
    for span in e.spans(phase):
        if span.leaving and span.leaving.spans[0] is span:
            yield span.leaving


def _who(span: Span) -> str:
    return f"CPU {span.call.vcpu}" + (", in an interrupt" if span.call.level else "")


def framed(e: Evidence, phase: Phase) -> Framed:
    """Whose return does somebody want to hear of? Of a user that leaves, as long as its sites hold calls."""
    leaver = frozenset(name for u in phase.users if u.leaves for name in u.filter.names)
    leaver -= {name for u in stayed(phase) for name in u.filter.names}
    return lambda s: s.name in phase.returning and (
        s.name not in leaver or checks.calls_tracer(e.kernel, s.call.site.address, s.call.word))


def stayed(phase: Phase) -> list[User]:
    """Those who were there for the whole workload."""
    return [u for u in phase.users if not u.leaves]


# ---- the patched return --------------------------------------------------------

def through_handler(e: Evidence) -> Finding | None:
    """While traced, each call returns through return_to_handler, once; nothing else comes there."""
    for phase in e.on():
        patched = framed(e, phase)
        for span in e.spans(phase):
            if patched(span) and not span.leaving:
                return Finding(f"{phase.name}, {_who(span)}: {span.name} was entered and never returned", _stack(span))
        for leaving in _leavings(e, phase):
            finding = _hits(phase, leaving, [s for s in leaving.spans if patched(s)])
            if finding:
                return finding
        stray = [r for r in e.truth.returns.stray if phase.first <= r.seq < phase.last]
        if stray:
            return Finding(f"{phase.name}, CPU {stray[0].vcpu}: return_to_handler ran, and none of the workload's functions "
                           "had just returned")
    return None


def _hits(phase: Phase, leaving: Leaving, traced: list[Span]) -> Finding | None:
    gone = sum(not any(s.name in u.filter.names for u in stayed(phase)) for s in traced) if phase.users else 0
    if len(traced) - gone <= len(leaving.hits) <= len(traced):
        return None  # a user that is leaving may have gone after the site was called
    span = leaving.spans[0]
    chain = " <- ".join(s.name for s in leaving.spans)
    if len(leaving.hits) < len(traced):
        why = f"its call site was traced, and it returned past the tracer: return_to_handler ran {len(leaving.hits)} times"
    else:
        why = f"return_to_handler ran {len(leaving.hits)} times"
    return Finding(f"{phase.name}, {_who(span)}: when {chain} returned, {len(traced)} traced calls ended; {why}", _stack(span))


def _stack(span: Span) -> list[tuple[str, str, bool]]:
    """The calls that were out: who made it, innermost first."""
    rows: list[tuple[str, str, bool]] = []
    at: Span | None = span
    while at and len(rows) < 8:
        rows.append((at.name, "a tail call" if at.tail else "a call", at is span))
        at = at.maker
    return rows


def comes_home(e: Evidence) -> Finding | None:
    """After each call its caller goes on behind the call instruction: the real return address came back."""
    for phase in e.phases:
        for span in e.spans(phase):
            if not span.body:
                return Finding(f"{phase.name}, {_who(span)}: {span.name} was called and did not go on behind its call site",
                               _stack(span))
        for leaving in _leavings(e, phase):
            first, last = leaving.spans[0], leaving.spans[-1]
            if last.home and (not leaving.back or leaving.back.addr != last.home):
                went = e.kernel.name_at(leaving.back.addr) if leaving.back else "nowhere that is watched"
                tail = f" (by tail calls from {last.name})" if last is not first else ""
                return Finding(f"{phase.name}, {_who(first)}: {first.name}{tail} must return to "
                               f"{e.kernel.name_at(last.home)}, and went to {went}", _stack(first))
        if e.truth.returns.unmatched and phase.first <= e.truth.returns.unmatched[0].seq < phase.last:
            at = e.truth.returns.unmatched[0]
            return Finding(f"{phase.name}, CPU {at.vcpu}: {e.kernel.name_at(at.addr)} returned, and had not been entered")
    return None


def silent_handler(e: Evidence) -> Finding | None:
    """Off is off: no return goes through the tracer, but those of calls that were out when it went."""
    before = e.phases[0]
    early = [r for r in e.truth.handlers if before.first <= r.seq < before.last]
    if early:
        return Finding(f"{before.name}: return_to_handler ran {len(early)} times while nobody traces")
    for phase, following in zip(e.phases, e.phases[1:]):
        if phase.on and not following.on:
            until = min(at for at in (following.first, e.frames_out[0], e.slot_again[0]) if at > phase.last)
            late = [r for r in e.truth.handlers if phase.last <= r.seq < until]
            if late:
                return Finding(f"after {phase.name}: return_to_handler ran {len(late)} times, and no call was out")
    return checks.silent_trampolines(e)


def at_rest(e: Evidence) -> Finding | None:
    return checks.rest_at_boot(e) or silent_handler(e) or checks.rest_at_end(e)


def frames_out(e: Evidence) -> Finding | None:
    """Switched off with calls out: text is at rest, each of them still comes home, and nobody else comes there."""
    begin, end = e.frames_out
    calls = sum(begin <= c.seq < end and checks.calls_tracer(e.kernel, c.site.address, c.word) for c in e.truth.calls)
    during = sum(begin <= r.seq < end for r in e.truth.handlers)
    after = sum(end <= r.seq for r in e.truth.handlers)
    if not calls:
        return Finding("every function was traced, and not one call site held a call")
    if not during + after:
        return Finding(f"every function was traced, {calls} call sites called the tracer, return_to_handler never ran")
    if during + after > calls:
        return Finding(f"every function was traced: {calls} call sites called the tracer, return_to_handler ran "
                       f"{during + after} times")
    return checks.right_result(e)


# ---- expected = executed = printed ------------------------------------------------

def _contexts(e: Evidence, phase: Phase) -> dict[str, list[Span]]:
    """The workload's calls by context, as Evidence.executed_contexts names them."""
    at = {s.call.seq: s for s in e.spans(phase)}
    return {name: [at[c.seq] for c in calls if c.seq in at] for name, calls in e.executed_contexts(phase).items()}


def nested_as_expected(e: Evidence, phase: Phase) -> Finding | None:
    """The workload's calls, and who made each, are those that its seed asks for."""
    finding = checks.executed_as_expected(e, phase)
    if finding:
        return finding
    executed = _contexts(e, phase)
    for name, calls in e.expected(phase).contexts.items():
        for want, span in zip(calls, executed.get(name, [])):
            if name != "main" and (span.depth, span.tail) != (want.depth, want.tail):
                return Finding(f"{phase.name}, {name}: {want.function} was called {span.depth} deep"
                               f"{' by a jump' if span.tail else ''}, and must be {_place(want)}", _stack(span))
    return None


def _place(want: workload.Call) -> str:
    return f"{want.depth} deep, called by {want.maker}" + (" by a jump" if want.tail else "")


def aligned(e: Evidence, phase: Phase, user: User) -> dict[int, Alignment]:
    executed = steps(e.spans(phase), user.filter.names, framed(e, phase))
    return align(executed, user.trace.events)


def nested_as_printed(e: Evidence, phase: Phase, user: User) -> Finding | None:
    where = f"{phase.name}, {user.directory}trace"
    trace = user.trace
    if trace.tracer != "function_graph":
        return Finding(f"{where}: it begins with '# tracer: {trace.tracer}'")
    if trace.unknown:
        return Finding(f"{where}: not a line of function_graph: '{trace.unknown[0]}'")
    finding = _counts(where, user)
    if finding:
        return finding
    for alignment in aligned(e, phase, user).values():
        if alignment.divergence:
            return _diverged(e, where, alignment.divergence)
        finding = _really_traced(e, where, alignment) or _one_thread_each(where, alignment) or _in_time(where, alignment)
        if finding:
            return finding
    return None


def _counts(where: str, user: User) -> Finding | None:
    """What each CPU's buffer counts is what is printed, and nothing was lost."""
    for cpu, counts in user.stats.items():
        printed = sum(event.cpu == cpu for event in user.trace.events)
        lost = sum(counts.get(name, 0) for name in ("overrun", "dropped events", "commit overrun"))
        if lost:
            return Finding(f"{where}, CPU {cpu}: {lost} events were lost in a buffer that has room for all")
        if counts.get("entries") != printed:
            return Finding(f"{where}, CPU {cpu}: stats says {counts.get('entries')} entries, {printed} are printed")
    return None


def _diverged(e: Evidence, where: str, d: Divergence) -> Finding:
    finding = Finding(f"{where}, CPU {d.cpu}, event {d.printed_at}: {d.why}", d.neighbours())
    if d.executed_at < len(d.executed):
        call = d.executed[d.executed_at].span.call
        finding.site = checks.site_lines(e.kernel, call.site, call.word, call=True)
    return finding


def _really_traced(e: Evidence, where: str, alignment: Alignment) -> Finding | None:
    """What is printed came from a call site that called the tracer."""
    for step, event in alignment.pairs:
        call = step.span.call
        if not checks.calls_tracer(e.kernel, call.site.address, call.word):
            return Finding(f"{where}: '{event.line.strip()}' is printed, and its call site held no call",
                           site=checks.site_lines(e.kernel, call.site, call.word, call=True))
    return None


def _one_thread_each(where: str, alignment: Alignment) -> Finding | None:
    threads: dict[tuple[str, int], int] = {}
    for step, event in alignment.pairs:
        key = (event.comm if event.pid == 0 else "", event.pid)
        if threads.setdefault(key, step.span.call.thread) != step.span.call.thread:
            return Finding(f"{where}: {event.comm}-{event.pid} is printed for two threads: '{event.line.strip()}'")
    return None


def _in_time(where: str, alignment: Alignment) -> Finding | None:
    last = 0
    for _, event in alignment.pairs:
        if event.usec < last:
            return Finding(f"{where}: time goes back: '{event.line.strip()}'")
        last = event.usec
    return None


def three_agree(e: Evidence) -> Finding | None:
    for phase in e.phases:
        finding = nested_as_expected(e, phase)
        for user in stayed(phase):
            finding = finding or nested_as_printed(e, phase, user)
        if finding:
            return finding
    return None


def values(e: Evidence) -> Finding | None:
    """What each call is printed to have returned is what it returned."""
    for phase in e.on():
        expected = e.expected(phase).values
        want = {span.call.seq: value for name, spans in _contexts(e, phase).items() if name in expected
                for span, value in zip(spans, expected[name])}
        for user in stayed(phase):
            for alignment in aligned(e, phase, user).values():
                for step, event, _ in _returns(alignment):
                    value = want.get(step.span.call.seq)
                    if value is not None and _number(event.value) != value:
                        return Finding(f"{phase.name}, {_who(step.span)}: {step.span.name} returned {value:#x}, and is "
                                       f"printed as '{event.line.strip()}'")
    return None


def _number(text: str) -> int | None:
    """As printed: in hexadecimal, or an error in decimal."""
    try:
        return int(text, 0) & workload.MASK
    except ValueError:
        return None


# ---- durations -----------------------------------------------------------------------

def durations(e: Evidence) -> Finding | None:
    """On one CPU an instruction is a nanosecond: a call lasts as long as what ran between its two ends."""
    for phase in e.on():
        for user in stayed(phase):
            for alignment in aligned(e, phase, user).values():
                finding = (_lasted(e, phase, alignment) if e.smp == 1 else None) or _sums(phase, alignment)
                if finding:
                    return finding
    return None


def _ends(span: Span, patched: Framed) -> tuple[Record, Record] | None:
    """Where the tracer took over at the call's return, and where it had done."""
    at, leaving = hit_of(span, patched), span.leaving
    if at is None or not leaving or not leaving.back:
        return None
    return leaving.hits[at], (*leaving.hits, leaving.back)[at + 1]


def bounds(span: Span, patched: Framed) -> tuple[int, int] | None:
    """At least and at most so many instructions ran between the two looks at the clock."""
    ends = _ends(span, patched)
    return (ends[0].insns - span.body.insns, ends[1].insns - span.insns) if ends and span.body else None


def _returns(alignment: Alignment) -> Iterator[tuple[Step, GraphEvent, int]]:
    for step, event in alignment.pairs:
        if step.kind == RETURN:
            yield step, event, -1 if event.duration is None else event.duration


def _lasted(e: Evidence, phase: Phase, alignment: Alignment) -> Finding | None:
    step_ns, patched = CLOCK_NS[e.arch], framed(e, phase)
    for step, event, ns in _returns(alignment):
        limits = bounds(step.span, patched)
        if ns < 0:
            return Finding(f"{phase.name}: a return without a duration: '{event.line.strip()}'")
        if limits and not limits[0] - step_ns - event.unit < ns < limits[1] + step_ns + event.unit:
            return Finding(f"{phase.name}: {step.span.name} is printed with {ns / 1000:.3f} us; from its call site to its "
                           f"return {limits[0]} to {limits[1]} instructions ran, of 1 ns each: '{event.line.strip()}'")
    return None


def _sums(phase: Phase, alignment: Alignment) -> Finding | None:
    """The calls that a call makes last no longer than itself, together."""
    inner: dict[Span, int] = {}
    printed = {step.span for step, _ in alignment.pairs}
    for step, event, ns in _returns(alignment):
        if ns < 0:
            return Finding(f"{phase.name}: a return without a duration: '{event.line.strip()}'")
        if inner.get(step.span, 0) >= ns + event.unit:
            return Finding(f"{phase.name}: {step.span.name} lasted {ns / 1000:.3f} us, and the calls that it made "
                           f"{inner[step.span] / 1000:.3f} us: '{event.line.strip()}'")
        maker = step.span.maker
        while maker and maker not in printed:
            maker = maker.maker
        if maker:
            inner[maker] = inner.get(maker, 0) + ns
    return None


# ---- many users ------------------------------------------------------------------------

T = TypeVar("T", Touch, Told)


def _between(records: Sequence[T], span: Span, first: int, last: int) -> list[T]:
    """What the span's context did between the two."""
    found = []
    for at in range(bisect_left(records, first, key=lambda r: r.seq), len(records)):
        r = records[at]
        if r.seq >= last:
            break
        if (r.thread, r.level, r.vcpu) == (span.call.thread, span.call.level, span.call.vcpu):
            found.append(r)
    return found


def handled(span: Span, patched: Framed, records: Sequence[T]) -> tuple[list[T], list[T]] | None:
    """What the users' handlers did at a call's entry, and what at its return."""
    ends = _ends(span, patched)
    if not span.body or patched(span) and not ends:
        return None
    return (_between(records, span, span.call.seq, span.body.seq),
            _between(records, span, ends[0].seq, ends[1].seq) if ends else [])


def _hand_calls(e: Evidence, phase: Phase) -> Iterator[tuple[Span, list[Told], list[Told]]]:
    patched = framed(e, phase)
    for span in e.spans(phase):
        done = handled(span, patched, e.truth.told)
        if done:
            yield span, done[0], done[1]


def _rows(entered: Sequence[int], returned: Sequence[int]) -> list[tuple[str, str, bool]]:
    """User by user: told of the entry, told of the return."""
    rows = []
    for at in range(max(len(entered), len(returned))):
        left = str(entered[at]) if at < len(entered) else "-"
        right = str(returned[at]) if at < len(returned) else "-"
        rows.append((left, right, False))
    return rows


TOLD = ("told of the entry: user", "told of the return: user")


def sixteen(e: Evidence) -> Finding | None:
    """Each of sixteen users is told of its own functions and of no others; there is no seventeenth."""
    phases = [p for p in e.on() if p.hands]
    for phase in phases:
        if "ENOSPC" not in phase.refused:
            return Finding(f"{phase.name}: the seventeenth user must be refused with ENOSPC; "
                           f"the shell said '{phase.refused.strip()}'")
        for span, entered, returned in _hand_calls(e, phase):
            want = [h.number for h in phase.hands if span.name in h.names]
            got = [t.user for t in entered]
            if sorted(got) != want:
                return Finding(f"{phase.name}, {_who(span)}: {span.name} was entered; it is in the filters of users {want}, "
                               f"and users {sorted(got)} were told", _stack(span))
            want = [h.number for h in phase.hands if span.name in h.names and h.returning]
            got = [t.user for t in returned if t.what == AT_RETURN]
            if sorted(got) != want:
                return Finding(f"{phase.name}, {_who(span)}: {span.name} returned; users {want} had asked for it, "
                               f"and users {sorted(got)} were told", _stack(span))
    return None if phases else Finding("sixteen users were not tried")


def reverse(e: Evidence) -> Finding | None:
    """Who was told first of the entry is told last of the return."""
    for phase in e.on():
        asked = {h.number for h in phase.hands if h.returning}
        for span, entered, returned in _hand_calls(e, phase):
            first = [t.user for t in entered if t.user in asked]
            last = [t.user for t in returned if t.what == AT_RETURN]
            if last != first[::-1]:
                return Finding(f"{phase.name}, {_who(span)}: when {span.name} returned, its users were told in a wrong order: "
                               "it must be the reverse of that at the entry", _rows(first, last), TOLD)
        if len(stayed(phase)) > 1:
            finding = _reverse_tracers(e, phase)
            if finding:
                return finding
    return None


def _reverse_tracers(e: Evidence, phase: Phase) -> Finding | None:
    """The same of two function_graph tracers, known by what their handlers were given."""
    patched = framed(e, phase)
    for span in e.spans(phase):
        done = handled(span, patched, e.truth.users)
        want = sum(span.name in u.filter.names for u in phase.users)
        if not done or not patched(span):
            continue
        entered, returned = [t.addr for t in done[0]], [t.addr for t in done[1]]
        if len(set(entered)) != want:
            return Finding(f"{phase.name}, {_who(span)}: {span.name} was entered, {want} tracers have it in their filter, "
                           f"the entry handler ran for {len(set(entered))} of them", _stack(span))
        if returned != entered[::-1]:
            numbers = {addr: n for n, addr in enumerate(dict.fromkeys(entered + returned))}
            return Finding(f"{phase.name}, {_who(span)}: when {span.name} returned, the tracers were told in a wrong order: "
                           "it must be the reverse of that at the entry",
                           _rows([numbers[a] for a in entered], [numbers[a] for a in returned]), TOLD)
    return None


def kept(e: Evidence) -> Finding | None:
    """What a user kept at the entry it finds at the return of the same call, and its caller's too."""
    seen = 0
    for phase in e.on():
        keepers = {h.number: h for h in phase.hands if h.kind == "keep"}
        value: dict[tuple[Span, int], int] = {}
        for span, entered, returned in _hand_calls(e, phase):
            value |= {(span, t.user): t.value for t in entered}
            for t in returned:
                if t.user in keepers and t.what == AT_RETURN:
                    seen += 1
                    if t.value != value.get((span, t.user)):
                        return Finding(f"{phase.name}, {_who(span)}: user {t.user} kept {value.get((span, t.user), 0):#x} when "
                                       f"{span.name} was entered, and found {t.value:#x} when it returned", _stack(span))
            finding = _parents(phase, span, returned, keepers, value)
            if finding:
                return finding
    return None if seen else Finding("no user that keeps something was told of a return")


def _parents(phase: Phase, span: Span, returned: list[Told], keepers: Mapping[int, HandUser],
             value: Mapping[tuple[Span, int], int]) -> Finding | None:
    """What a user kept for the next traced call further out."""
    if span.transit:
        return None  # an interrupt, while a frame was coming or going: either is right
    outer = span.below
    while outer and outer.name not in phase.returning:
        outer = outer.below
    found = {t.user: t.value for t in returned if t.what == OF_PARENT}
    asked = {t.user for t in returned if t.what == AT_RETURN}
    want = {n: value.get((outer, n)) for n, h in keepers.items() if outer and outer.name in h.names and n in asked}
    if found == want:
        return None
    return Finding(f"{phase.name}, {_who(span)}: when {span.name} returned, users found of what they had kept for "
                   f"{outer.name if outer else 'nobody'}: {found}, and must find {want}", _stack(span))


def slot_again(e: Evidence) -> Finding | None:
    """A user hears of no return whose entry it was not told: the frame of a sleeper is an earlier owner's."""
    first, last = e.slot_again
    open_calls: dict[tuple[int, int, int], int] = {}
    for t in e.truth.told:
        if not first <= t.seq < last or t.what == OF_PARENT:
            continue
        key = (t.user, t.thread, t.level)
        open_calls[key] = open_calls.get(key, 0) + (1 if t.what == AT_ENTRY else -1)
        if open_calls[key] < 0:
            return Finding(f"CPU {t.vcpu}: user {t.user} was told of a return, and of no entry: the frame was older than the "
                           "user, and belonged to one that had left")
    if not any(key[0] == 0 and calls > 0 for key, calls in open_calls.items()):
        return Finding("nobody slept in a traced function while its user left")
    return None if any(key[0] == 1 for key in open_calls) else Finding("the user that came later was told nothing at all")


def leaver_left(e: Evidence) -> Finding | None:
    """A user who left is told nothing more, whatever was out; the other goes on as before."""
    for phase in e.on():
        gone = [u for u in phase.users if u.leaves]
        left = [r.seq for r in e.truth.unregistered if phase.first <= r.seq < phase.last]
        if not gone:
            continue
        if not left:
            return Finding(f"{phase.name}: {gone[0].directory} has another tracer, and unregister_ftrace_graph never returned")
        users = {t.addr for t in e.truth.users if phase.first <= t.seq < phase.last}
        if not users:
            return Finding(f"{phase.name}: not one handler ran, of {len(phase.users)} users")
        after = {t.addr for t in e.truth.users if left[0] <= t.seq < phase.last}
        if len(after) > len(phase.users) - len(gone):
            return Finding(f"{phase.name}: handlers ran for a user that had left")
        for user in stayed(phase):
            finding = nested_as_printed(e, phase, user)
            if finding:
                return finding
    return None


def something_returned(e: Evidence) -> Finding | None:
    for phase in e.on():
        if not any(phase.first <= r.seq < phase.last for r in e.truth.handlers):
            return Finding(f"{phase.name}: return_to_handler never ran")
    return None


MECHANISM: dict[int, Check] = {5: something_returned, 6: something_returned}

LADDERS: dict[int, list[Rung]] = {
    5: [
        Rung("life", 10, "boots, runs the workload, powers off", checks.lives),
        Rung("off", 10, "off: every site is a nop, and no return is patched", at_rest),
        Rung("filter", 5, "only what the filter selects is changed", checks.only_selected),
        Rung("result", 5, "the workload's result is right, traced or not", checks.right_result),
        Rung("arguments", 5, "every argument arrives, traced or not", checks.right_arguments),
        Rung("handler", 10, "each traced call returns through return_to_handler", through_handler),
        Rung("home", 10, "and from there to its caller, tail calls too", comes_home, stopped=True),
        Rung("values", 5, "each return is printed with what was returned", values),
        Rung("one CPU", 10, "nesting: expected = executed = printed", three_agree, (ONE,)),
        Rung("four CPUs", 10, "nesting: expected = executed = printed", three_agree, (MANY,)),
        Rung("durations", 10, "as long as what was executed; parts within the whole", durations),
        Rung("frames out", 5, "switched off inside of traced calls: all come home", frames_out),
        Rung("synchronised", 5, "a batch returns when every CPU has synchronised", checks.synchronised),
    ],
    6: [
        Rung("life", 5, "boots, runs the workload, powers off", checks.lives),
        Rung("off", 5, "off: every site is a nop, and no return is patched", at_rest),
        Rung("result", 5, "the workload's result is right, traced or not", checks.right_result),
        Rung("arguments", 5, "every argument arrives, traced or not", checks.right_arguments),
        Rung("handler", 5, "each traced call returns through return_to_handler", through_handler),
        Rung("home", 5, "and from there to its caller, tail calls too", comes_home, stopped=True),
        Rung("values", 5, "each return is printed with what was returned", values),
        Rung("one CPU", 10, "each user's nesting: expected = executed = printed", three_agree, (ONE,)),
        Rung("four CPUs", 10, "each user's nesting: expected = executed = printed", three_agree, (MANY,)),
        Rung("durations", 5, "as long as what was executed; parts within the whole", durations),
        Rung("sixteen", 10, "sixteen users, each told of its own; no seventeenth", sixteen),
        Rung("reverse", 10, "told first of the entry, told last of the return", reverse),
        Rung("data", 5, "what is kept at the entry is found at the return", kept),
        Rung("leaving", 5, "a user that left is told nothing; the other goes on", leaver_left),
        Rung("slot", 5, "who comes to a slot hears of no older call", slot_again),
        Rung("frames out", 5, "switched off inside of traced calls: all come home", frames_out),
    ],
}

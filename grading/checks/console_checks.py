"""Checks that look at the console alone: what a machine at a serial line printed, and what follows
from the seed."""

import re
import zlib
from collections import Counter
from collections.abc import Iterator

from grading.checks.checks import all_of, first_difference, first_of, lives
from grading.evidence.evidence import Evidence, Phase, User, Visit
from grading.evidence.finding import Finding, side_by_side
from grading.session.line_parts import AT, BACK, PROBES, PROFILE
from grading.session.line_session import AT_BOOT, AT_END
from grading.stimulus import seeded, workload
from grading.text.graph_text import ENTRY, GraphEvent
from grading.text.trace_text import FunctionEvent, FunctionTrace
from grading.truth.probes import slots


def _contexts(phase: Phase) -> dict[str, list[FunctionEvent]]:
    """The printed events of the workload by context; contexts have the names of ExpectedRun."""
    threads, contexts = dict[tuple[str, int], str](), dict[str, list[FunctionEvent]]()
    for event in phase.trace.events if phase.trace else []:
        if event.func in ("wl_begin", "wl_end"):
            contexts.setdefault("main", []).append(event)
        elif event.func in workload.FUNCTIONS or phase.name == PROBES:
            if event.interrupt:
                name = f"interrupt {event.cpu}"
            else:
                name = threads.setdefault(event.task, f"thread {event.cpu}")
            contexts.setdefault(name, []).append(event)
    return contexts


def whole(name: str, trace: FunctionTrace | None) -> Finding | None:
    if not trace or trace.in_buffer != len(trace.events) or trace.overrun or not trace.events:
        counted = (f"its header counts {trace.in_buffer} entries of {trace.written}"
                   if trace else "none was printed")
        return Finding(f"{name}: the trace is not complete: {counted}, and "
                       f"{len(trace.events) if trace else 0} are printed")
    return None


def unlike(name: str, got: list[str], want: list[str]) -> Finding | None:
    """A finding with the first difference between what was printed and what follows from the seed.
    """
    at = first_difference(want, got)
    return None if got == want else Finding(
        f"{name}: call {at} that is printed is not the one that follows from the seed",
        side_by_side(got, want, at), ("printed", "expected"))


def _printed(evidence: Evidence, phase: Phase, parents: bool) -> Finding | None:
    if found := whole(phase.name, phase.trace):
        return found
    assert phase.filter
    printed, expected = _contexts(phase), evidence.expected(phase).contexts
    for name in dict.fromkeys([*expected, *printed]):
        want = [c.function + f" <-{c.caller}" * parents for c in expected.get(name, [])
                if c.function in phase.filter.names]
        got = [event.func + f" <-{event.parent}" * parents for event in printed.get(name, [])]
        if found := unlike(f"{phase.name}, {name}", got, want):
            return found
    return None


def printed_as_expected(evidence: Evidence) -> Finding | None:
    """In each context the calls that the seed asks for are printed, in order, and no others of the
    workload."""
    return first_of(_printed(evidence, phase, False)
                    for phase in evidence.on()) if evidence.on() else Finding("nothing was traced")


def parents_as_expected(evidence: Evidence) -> Finding | None:
    """The same, with the right callers."""
    return first_of(_printed(evidence, phase, True)
                    for phase in evidence.on()) if evidence.on() else Finding("nothing was traced")


# ---- modules ----------------------------------------------------------------------------------

def runs_printed(evidence: Evidence) -> Finding | None:
    """The calls of each run of a module's functions are printed, in order, and no others."""
    if not evidence.visits:
        return Finding("no calls were made in modules")
    return first_of(_runs(visit) for visit in evidence.visits)


def _runs(visit: Visit) -> Finding | None:
    if found := whole(visit.name, visit.trace):
        return found
    assert visit.trace
    begins = {run.module.named("write") for run in visit.runs}
    functions = {run.module.named(part) for run in visit.runs for part in ("write", *seeded.PARTS)}
    printed, of = list[list[str]](), dict[tuple[str, int], list[str]]()
    for event in (event for event in visit.trace.events if event.func in functions):
        if event.func in begins or event.task not in of:
            of[event.task] = []
            printed.append(of[event.task])
        of[event.task].append(event.func)
    for run in visit.runs:
        expected = seeded.expect(run)
        want = [run.module.named("write"), *expected.calls]
        nearest = _nearest(printed, want)
        if found := unlike(f"{visit.name}, '{run.command}'", nearest, want):
            return found
        printed.remove(nearest)
        if expected.line not in visit.output:
            return Finding(f"{visit.name}: '{run.command}' must print '{expected.line}'")
    return Finding(f"{visit.name}: the trace has {sum(map(len, printed))} calls that nobody made, "
                   f"first {printed[0][0]}") if printed else None


def _nearest(printed: list[list[str]], want: list[str]) -> list[str]:
    return max(printed, key=lambda got: first_difference(want, got) + (got == want), default=[])


# ---- events by probes -------------------------------------------------------------------------

# where a return goes to in the caller; the function's size
NOT_COMPARED = re.compile(r"\+0x[0-9a-f]+/0x[0-9a-f]+(?= <-)|/0x[0-9a-f]+(?=\))")


def probes_printed(evidence: Evidence) -> Finding | None:
    """In each context each hit of a probe in a function is printed, and the hits are counted."""
    return _hits(evidence, AT) or _counted(evidence)


def returns_printed(evidence: Evidence) -> Finding | None:
    """In each context each return of a probed leaf is printed, with its caller and its value."""
    return _hits(evidence, BACK)


def _hits(evidence: Evidence, kind: str) -> Finding | None:
    phase = _probed(evidence)
    if not phase or (found := whole(phase.name, phase.trace)):
        return found if phase else Finding("no workload ran with probes")
    printed, expected = _contexts(phase), evidence.expected(phase).contexts
    for name in dict.fromkeys([*expected, *printed]):
        want = [text for call in expected.get(name, []) for text in _of_call(evidence, call)
                if text.startswith(kind)]
        got = [f"{event.func}: {NOT_COMPARED.sub('', event.parent)}"
               for event in printed.get(name, []) if event.func.startswith(kind)]
        if found := unlike(f"{phase.name}, {name}", got, want):
            return found
    return None


def _probed(evidence: Evidence) -> Phase | None:
    return next((phase for phase in evidence.phases if phase.name == PROBES), None)


def _of_call(evidence: Evidence, call: workload.ExpectedCall) -> Iterator[str]:
    """The events of one call, as they are printed without what NOT_COMPARED matches."""
    for n, address in enumerate(evidence.probed):
        start, end = evidence.kernel.extent(call.function)
        if start <= address < end:
            yield f"{AT}{n}: ({evidence.kernel.name_at(address)})"
    if call.function in evidence.returning:
        yield (f"{BACK}{evidence.returning.index(call.function)}: ({call.caller} <- "
               f"{call.function}) arg1={workload.returned(call):#x}")


def _counted(evidence: Evidence) -> Finding | None:
    phase = _probed(evidence)
    assert phase
    wanted = Counter(text.partition(":")[0] for calls in evidence.expected(phase).contexts.values()
                     for call in calls for text in _of_call(evidence, call))
    counts = {words[0]: words[1:] for line in evidence.files.get(PROFILE, "").splitlines()
              if len(words := line.split()) == 3}
    wrong = [name for n in range(len(evidence.probed))
             if counts.get(name := f"{AT}{n}") != [str(wanted[name]), "0"]]
    return Finding(
        f"{PROFILE}: the probe {wrong[0]} must have {wanted[wrong[0]]} hits, none of them missed; "
        f"it has {' and '.join(counts.get(wrong[0], ['none']))}") if wrong else None


# ---- function_graph ---------------------------------------------------------------------------

Entry = tuple[str, int]  # a function, and its depth


def _depths(calls: list[workload.ExpectedCall], names: frozenset[str],
            counted: frozenset[str]) -> list[Entry]:
    """The calls of these functions, each with the number of counted calls that are around it."""
    around, found = list[tuple[int, bool]](), list[Entry]()
    for call in calls:
        while around and around[-1][0] >= call.depth:
            around.pop()
        if call.function in names:
            found.append((call.function, sum(counts for _, counts in around)))
        around.append((call.depth, call.function in counted))
    return found


def _interrupted(printed: list[Entry], thread: list[Entry], interrupt: list[Entry]) -> bool:
    """Are these the thread's entries with those of its CPU's interrupt, in one piece, anywhere
    between them? The depths of the interrupt's entries count those of the thread that are around
    it."""
    if len(printed) != len(thread) + len(interrupt):
        return False
    for at in range(first_difference(printed, thread) + 1):
        inner = printed[at:at + len(interrupt)]
        deeper = inner[0][1] - interrupt[0][1] if interrupt else 0
        if deeper >= 0 and inner == [(function, depth + deeper) for function, depth in interrupt
                                     ] and printed[at + len(interrupt):] == thread[at:]:
            return True
    return False


def _nested(evidence: Evidence, phase: Phase, user: User) -> Finding | None:
    where = phase.name + (f", {user.directory}trace" if user.directory else "")
    if user.trace.lost:
        return Finding(
            f"{where}: {user.trace.lost} events were lost in a buffer that has room for all")
    expected, names, ends = (evidence.expected(phase).contexts, user.filter.names,
                             ("wl_begin", "wl_end"))
    began = [event.func for event in user.trace.events
             if event.kind == ENTRY and event.func in ends]
    if began != [call.function for call in expected["main"] if call.function in names]:
        return Finding(f"{where}: the entries of {' and '.join(ends)} that are printed are "
                       f"{', '.join(began) or 'none'}")
    for cpu in range(evidence.smp):
        events = [event for event in user.trace.events
                  if event.cpu == cpu and event.func in workload.FUNCTIONS]
        printed = [(event.func, event.depth) for event in events
                   if event.kind == ENTRY and event.func not in ends]
        assert phase.filter
        # the user's own calls, or as on Linux those of all users
        for counted in (names, phase.filter.names):
            thread, interrupt = (_depths(expected[f"{kind} {cpu}"], names, counted)
                                 for kind in ("thread", "interrupt"))
            if _interrupted(printed, thread, interrupt):
                break
        else:
            got, want = [["  " * depth + f"{function}()" for function, depth in entries]
                         for entries in (printed, thread)]
            return Finding(f"{where}, CPU {cpu}: the calls that are printed are not those that "
                           "follow from the seed: the thread's, and those of an interrupt, in one "
                           "piece, between them",
                           side_by_side(got, want, first_difference(printed, thread)),
                           ("printed", "the thread's"))
        calls = list[GraphEvent]()
        for event in events:
            if event.kind == ENTRY:
                calls.append(event)
            elif not calls or (calls[-1].func, calls[-1].depth) != (event.func, event.depth):
                return Finding(f"{where}, CPU {cpu}: the return of {event.func} is printed, and it "
                               f"is not that of the last call: '{event.line.strip()}'")
            else:
                calls.pop()
        if calls:
            return Finding(f"{where}, CPU {cpu}: no return of {calls[-1].func} is printed")
    return None


def nested_as_expected(evidence: Evidence) -> Finding | None:
    """On each CPU, for each user, the entries that the seed asks for are printed, in order and at
    their depth, each with its return."""
    return first_of(_nested(evidence, phase, user) for phase in evidence.on()
                    for user in phase.users) if evidence.on() else Finding("nothing was traced")


def _traces(evidence: Evidence) -> Finding | None:
    """A kernel that boots and traces nothing has no points."""
    events = [len(trace.events) for trace in (*(phase.trace for phase in evidence.phases),
                                              *(visit.trace for visit in evidence.visits)) if trace]
    events += [len(user.trace.events) for phase in evidence.on() for user in phase.users]
    return None if events and all(events) else Finding("no event is printed")


# ---- the kernel's text
# ----------------------------------------------------------------------------

BLOCK = 1024  # bytes of text for each CRC that it prints


def _crcs(text: bytes) -> list[str]:
    return [f"{zlib.crc32(text[at:at + BLOCK]):08x}" for at in range(0, len(text), BLOCK)]


def _other_text(evidence: Evidence, when: str, *allowed: bytes) -> Finding | None:
    """A finding if a block of text has none of these contents. The tracer's call in ftrace_call and
    the slots of probes may change."""
    printed, known = evidence.files.get(when, "").split(), list(zip(*map(_crcs, allowed)))
    if len(printed) != len(known):
        return Finding(f"{when}: it has {len(printed)} KiB, and must have {len(known)}: is this "
                       f"the kernel of {evidence.kernel.path}? Write it to the card again")
    may = (evidence.kernel.symbol("ftrace_call"),
           *(slots(evidence.kernel) if evidence.kernel.symbol("kprobe_slots") else ()))
    changes = {(address - evidence.kernel.text[0]) // BLOCK for address in may}
    wrong = [n for n, (crc, right) in enumerate(zip(printed, known))
             if crc not in right and n not in changes]
    return Finding(f"{when}: {len(wrong)} of {len(known)} KiB are not as they must be, first the "
                   f"one at {evidence.kernel.name_at(evidence.kernel.text[0] + wrong[0] * BLOCK)}. "
                   f"If the machine does not run the kernel of {evidence.kernel.path}, write it to "
                   "the card again") if wrong else None


def _this_kernel(evidence: Evidence) -> Finding | None:
    return _other_text(evidence, AT_BOOT, evidence.kernel.text_bytes(), evidence.rest_text)


def at_rest_after_boot(evidence: Evidence) -> Finding | None:
    return _traces(evidence) or _other_text(evidence, AT_BOOT, evidence.rest_text)


def at_rest_at_end(evidence: Evidence) -> Finding | None:
    return _traces(evidence) or _other_text(evidence, AT_END, evidence.rest_text)


lives_and_traces = all_of(lives, _this_kernel, _traces)

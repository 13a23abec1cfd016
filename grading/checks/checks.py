"""The checks that several labs share; a check of one lab only is in that lab's checks.py.

A check takes the evidence of one boot and returns None or a Finding. It never
trusts the console: the printed trace is one of three things that must agree
(expected from the seed, executed, printed).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from grading.checks.align import (NEVER, Alignment, Divergence, Executed, AnyExecuted, AnyEvent,
                                  align, by_cpu, differ)
from grading.elf.elf import Kernel, Site
from grading.evidence.evidence import Evidence, Phase, Window, between, during, once
from grading.evidence.finding import Defect, Finding, seq_at, side_by_side
from grading.machine.observer import Kind, Record
from grading.stimulus.workload import PASSED, ExpectedCall, ExpectedRun
from grading.text.trace_text import FunctionEvent
from grading.truth.truth import Batch, Call, stubs
from qemu.isa import ARM64, Isa

Check = Callable[[Evidence], Finding | None]


# ---- call sites in words ----------------------------------------------------

def calls_tracer(kernel: Kernel, address: int, word: int) -> bool:
    """Is the word a call to the tracer, with this hook style's link register, and not the
    compiler's call to _mcount?"""
    jump = kernel.isa.jump(address, word)
    return (jump is not None and jump[1] == kernel.link_register and jump[0] in stubs(kernel)
            and jump[0] != kernel.symbol("_mcount"))


def site_lines(kernel: Kernel, site: Site, found: int, call: bool) -> list[str]:
    """Lines that show the site's word and the word that it should have held; or one line that says
    that it was right."""
    name, at = site.function.name, site.address
    if not call:
        return word_lines(kernel, name, at, found, site.rest)
    if calls_tracer(kernel, at, found):
        return [f"{name} at {at:#x}: its call site is right, {kernel.disassemble(at, found)}"]
    nearest = min(stubs(kernel), key=lambda stub: abs(stub - at))
    want = kernel.isa.call(at, nearest, kernel.link_register)
    return [*word_lines(kernel, name, at, found, want)[:2],
            f"should be  a call like  {kernel.disassemble(at, want)}"]


def word_lines(kernel: Kernel, what: str, at: int, found: int, want: int) -> list[str]:
    """Lines that show a word as it was and as it should be."""
    return [f"{what} at {at:#x}", f"was        {found:08x}  {kernel.disassemble(at, found)}",
            f"should be  {want:08x}  {kernel.disassemble(at, want)}"]


def at_site(evidence: Evidence, call: Call, why: str, called: bool) -> Finding:
    """A finding about one call's site. `called`: the site should have called the tracer."""
    return Finding(why, site=site_lines(evidence.kernel, call.site, call.word, called),
                   seq=call.seq)


def traced(evidence: Evidence, call: Call) -> bool:
    """Did its site call the tracer?"""
    return calls_tracer(evidence.kernel, call.site.address, call.word)


def foreign(kernel: Kernel, addresses: Iterable[int], allowed: set[int]) -> list[int]:
    """The addresses that are not allowed to differ."""
    # calls inside the tracer that are patched too
    own = {kernel.symbol(n) for n in ("ftrace_call", "ftrace_graph_call")}
    return [a for a in addresses if a not in allowed | own]


def word_in(kernel: Kernel, text: bytes, address: int) -> int:
    """The word at this address in a copy of text that was read out of memory."""
    at = address - kernel.text[0]
    return int.from_bytes(text[at:at + 4], "little")


# ---- mistakes with a name ------------------------------------------------------

# returns a slug or ""; it looks at observations, never at the student's source
Recogniser = Callable[[Evidence, Finding], str]


def named(check: Check, *recognisers: Recogniser) -> Check:
    """The check; if one of the recognisers knows the cause of its finding, the finding gets the
    mistake's name."""
    def and_named(evidence: Evidence) -> Finding | None:
        finding = check(evidence)
        if finding and not finding.mistake:
            finding.mistake = next(
                (slug for slug in (known(evidence, finding) for known in recognisers) if slug), "")
        return finding
    return and_named


def of_kind(kind: Defect, slug: str) -> Recogniser:
    """A recogniser that gives this name to every finding of this kind."""
    return lambda e, finding: slug if finding.kind == kind else ""


def within(part: Window, finding: Finding | None) -> Finding | None:
    """The finding; if it does not say when it happened, a debugger stops where this window begins.
    """
    if finding and finding.began is None:
        finding.began = part.first
    return finding


def first_of(findings: Iterable[Finding | None]) -> Finding | None:
    return next((finding for finding in findings if finding), None)


# ---- life -------------------------------------------------------------------

def all_of(*checks: Check) -> Check:
    """One check made of several: it returns the first finding."""
    return lambda e: first_of(check(e) for check in checks)


def lives(evidence: Evidence) -> Finding | None:
    if evidence.why:
        return Finding(evidence.ending())
    return Finding(str(evidence.complaint)) if evidence.complaint else None


def right_result(evidence: Evidence) -> Finding | None:
    """The program prints the right result, traced or not: arguments and return values were passed
    on."""
    phases = [*evidence.phases, *([evidence.overwritten] if evidence.overwritten else [])]
    return first_of(within(phase, result_printed(phase.name, evidence.expected(phase),
                                                 phase.output)) for phase in phases)


def result_printed(where: str, run: ExpectedRun, output: str) -> Finding | None:
    if run.line in output:
        return None
    said = output.strip().splitlines()
    return Finding(f"{where}: the workload's result is wrong. It must print '{run.line}', and "
                   f"printed '{said[-1] if said else ''}'")


def right_arguments(evidence: Evidence) -> Finding | None:
    """Each function of the workload received the arguments that its caller passed."""
    return first_of(wrong_argument(evidence, phase) for phase in evidence.phases)


def wrong_argument(evidence: Evidence, phase: Phase) -> Finding | None:
    # contexts in which another function was called: other rungs report that
    astray: set[str] = set()
    for name, want, call in evidence.call_pairs(phase):
        astray |= {name} if want.function != call.name else set()
        wrong = _first_wrong(want, call) if name not in astray else None
        if wrong is not None:
            register = PASSED.get(want.function, (1,))[wrong]
            return Finding(f"{phase.name}, {name}: {call.name} received "
                           f"{call.arguments[register]:#x} as {argument(evidence.isa, register)}, "
                           f"and must receive {want.received[wrong]:#x}", seq=call.seq)
    return None


def _first_wrong(want: ExpectedCall, call: Call) -> int | None:
    """The first known argument that is wrong; None: all are right, or the function's body did not
    run."""
    if not call.arguments:
        return None
    registers = PASSED.get(want.function, (1,))
    return next((i for i, (n, value) in enumerate(zip(registers, want.received))
                 if call.arguments[n] != value), None)


def argument(isa: Isa, number: int) -> str:
    return f"argument {number} (counted from 0: {isa.names[isa.arguments[number]]})"


def first_difference(first: Sequence[object], second: Sequence[object]) -> int:
    return next((i for i, (x, y) in enumerate(zip(first, second)) if x != y),
                min(len(first), len(second)))


# ---- expected = executed = printed -------------------------------------------

def executed_as_expected(evidence: Evidence, phase: Phase) -> Finding | None:
    """In each context the workload made the calls that its seed asks for, in order."""
    executed, expected = evidence.executed_contexts(phase), evidence.expected(phase).contexts
    for name in dict.fromkeys([*expected, *executed]):
        calls = expected.get(name, [])
        want, got = [c.function for c in calls], [c.name for c in executed.get(name, [])]
        if want != got:
            at = first_difference(want, got)
            rows = side_by_side(got, want, at)
            return Finding(
                f"{phase.name}, {name}: call {at} is not the one that follows from the seed", rows,
                ("executed", "expected"), seq=seq_at(executed.get(name, []), at))
    return None


def _selected(evidence: Evidence, phase: Phase) -> list[Call]:
    assert phase.filter
    return [c for c in evidence.calls(phase) if c.name in phase.filter.names]


@once
def _aligned(evidence: Evidence, phase: Phase) -> dict[int, Alignment[Executed, FunctionEvent]]:
    """The alignment of each CPU's calls and events. In labs 1 and 2 tracing is switched on and off
    while other functions run, so only the workload's calls must be printed."""
    assert phase.trace
    brackets = [c.seq for c in evidence.calls(phase) if c.name in ("wl_begin", "wl_end")]
    lo, hi = (brackets[0], brackets[-1]) if evidence.lab < 3 and len(brackets) == 2 else (0, NEVER)
    executed = by_cpu(Executed(c, c.seq, c.vcpu) for c in _selected(evidence, phase))
    return align(executed, phase.trace.events, differ, whole=evidence.lab >= 3,
                 needed=lambda ran: lo <= ran.seq <= hi)


def printed_as_executed(evidence: Evidence, phase: Phase) -> Finding | None:
    trace = phase.trace
    if trace is None or trace.in_buffer < 0:
        return Finding(f"{phase.name}: no trace was printed")
    if trace.in_buffer != len(trace.events):
        return Finding(f"{phase.name}: the header of the trace counts {trace.in_buffer} entries, "
                       f"and {len(trace.events)} are printed")
    if trace.overrun:
        return Finding(
            f"{phase.name}: {trace.overrun} events were lost in a buffer that has room for all")
    found = _aligned(evidence, phase)
    printed, ran = sum(len(a.pairs)
                       for a in found.values()), len(during(phase, evidence.truth.callbacks))
    wrong = parted(evidence, phase.name, found) or first_of(in_time(phase.name, a)
                                                            for a in found.values())
    if wrong or ran >= printed:
        return wrong
    return Finding(f"{phase.name}: {printed} events are printed, and the tracer's callback ran "
                   f"only {ran} times")


def parted(evidence: Evidence, where: str, found: dict[int, Alignment[AnyExecuted,
                                                                      AnyEvent]]) -> Finding | None:
    """The first event that was not executed as printed; else the first event whose call site did
    not call the tracer."""
    for alignment in found.values():
        if alignment.divergence:
            return _diverged(evidence, where, alignment.divergence)
    for alignment in found.values() if evidence.lab >= 3 else ():
        for ran, event in alignment.pairs:
            if not traced(evidence, ran.call):
                return at_site(evidence, ran.call, f"{where}: '{event.line.strip()}' is printed, "
                               f"and the call site of {ran.call.name} held no call to the tracer",
                               True)
    return None


def _diverged(evidence: Evidence, where: str, divergence: Divergence) -> Finding:
    finding = Finding(
        f"{where}, CPU {divergence.cpu}, event {divergence.printed_at}: {divergence.why}",
        divergence.neighbours())
    if divergence.executed_at < len(divergence.executed):
        call = divergence.executed[divergence.executed_at].call
        finding.site, finding.seq = site_lines(evidence.kernel, call.site, call.word,
                                               call=evidence.lab >= 3), call.seq
    return finding


def in_time(where: str, alignment: Alignment[AnyExecuted, AnyEvent]) -> Finding | None:
    for (_, before), (_, event) in pairwise(alignment.pairs):
        if event.usec < before.usec:
            return Finding(f"{where}, CPU {event.cpu}: an event has an earlier time than the one "
                           f"before it: '{event.line.strip()}'")
    return None


def right_parents(evidence: Evidence) -> Finding | None:
    """The printed parent of each call is its caller, tail calls included."""
    for phase in [phase for phase in evidence.on() if phase.trace]:
        event_of = {ran.seq: event for a in _aligned(evidence, phase).values()
                    for ran, event in a.pairs}
        for name, want, call in evidence.call_pairs(phase):
            event = event_of.get(call.seq)
            if event and event.parent != want.caller:
                return Finding(
                    f"{phase.name}, {name}: {want.function} was called from {want.caller}, "
                    f"and is printed as '{event.line.strip()}'", seq=call.seq)
    return None


def three_agree(evidence: Evidence) -> Finding | None:
    return first_of(within(phase, executed_as_expected(evidence, phase)
                           or (printed_as_executed(evidence, phase) if phase.on else None))
                    for phase in evidence.phases)


# ---- while no tracer is on ----------------------------------------------------

def no_hits(evidence: Evidence, points: list[Record], what: str) -> Finding | None:
    for phase in evidence.off():
        if hits := during(phase, points):
            return Finding(f"{phase.name}: {what} ran {len(hits)} times while no tracer was on, "
                           f"first {evidence.kernel.name_at(hits[0].addr)} on CPU {hits[0].vcpu}",
                           seq=hits[0].seq)
    return None


# ---- call sites -----------------------------------------------------------------

def rest_at_boot(evidence: Evidence) -> Finding | None:
    return _at_rest(evidence, evidence.text_at_boot, "after boot") or _rest_executed(evidence)


def rest_at_end(evidence: Evidence) -> Finding | None:
    return _at_rest(evidence, evidence.text_at_end, "after the last tracer was switched off")


def _at_rest(evidence: Evidence, text: bytes, when: str) -> Finding | None:
    if not text:
        return Finding(f"text was not read {when}")
    kernel, want, wrong = evidence.kernel, evidence.rest_text, evidence.changed_at_rest(text)
    if not wrong:
        return None
    name, found, rest = kernel.name_at(wrong[0]), *(word_in(kernel, t, wrong[0])
                                                    for t in (text, want))
    return Finding(f"{len(wrong)} words of text are wrong {when}, first at {name}",
                   site=word_lines(kernel, name, wrong[0], found, rest), address=wrong[0])


def _rest_executed(evidence: Evidence) -> Finding | None:
    for phase in evidence.off():
        for call in evidence.calls(phase):
            if call.word != call.site.rest:
                return at_site(evidence, call, f"{phase.name}: CPU {call.vcpu} executed another "
                               f"word than the nop at the call site of {call.name} while no tracer "
                               "was on", False)
    return None


def calls_while_on(evidence: Evidence) -> Finding | None:
    """Each time a selected site was executed, it held a call to the tracer."""
    for phase in evidence.on():
        for call in _selected(evidence, phase):
            if not traced(evidence, call):
                return at_site(evidence, call, f"{phase.name}: CPU {call.vcpu} ran {call.name}, "
                               "which is traced, and its call site held no call to the tracer",
                               True)
        if phase.filter and not any(c.name in phase.filter.names for c in evidence.calls(phase)):
            return Finding(f"{phase.name}: no traced function ran", began=phase.first)
    return None


def only_selected(evidence: Evidence) -> Finding | None:
    """While a tracer is on, text is changed at the selected sites and nowhere else."""
    kernel, rest = evidence.kernel, evidence.rest_text
    for phase in evidence.on():
        assert phase.filter
        chosen = {s.address for s in kernel.sites if s.function.name in phase.filter.names}
        changed = kernel.differing(phase.text, rest)
        if wrong := foreign(kernel, changed, chosen):
            return Finding(
                f"{phase.name}: {len(wrong)} words of text that the filter {phase.filter} does not "
                f"select were changed, first at {kernel.name_at(wrong[0])}", address=wrong[0],
                kind=Defect.BEYOND_FILTER)
        if missed := sorted(chosen - set(changed)):
            return Finding(
                f"{phase.name}: {len(missed)} sites that the filter {phase.filter} selects hold no "
                f"call, first {kernel.name_at(missed[0])}", address=missed[0])
        for call in evidence.calls(phase):
            if call.name not in phase.filter.names and call.word != call.site.rest:
                return at_site(evidence, call, f"{phase.name}: {call.name} is not in the filter, "
                               "and its call site did not hold the nop", False)
    return None


def every_site(evidence: Evidence) -> Finding | None:
    """Without a filter every function is traced, not only the workload's."""
    for site in evidence.kernel.sites if evidence.text_traced else []:
        word = word_in(evidence.kernel, evidence.text_traced, site.address)
        if not calls_tracer(evidence.kernel, site.address, word):
            return Finding(f"every function was traced, and the call site of {site.function.name} "
                           "held no call to the tracer",
                           site=site_lines(evidence.kernel, site, word, call=True))
    return None


def silent_trampolines(evidence: Evidence) -> Finding | None:
    for phase in evidence.off():
        for call in evidence.calls(phase):
            if traced(evidence, call):
                return at_site(evidence, call, f"{phase.name}: the call site of {call.name} called "
                               f"a trampoline on CPU {call.vcpu} while no tracer was on", False)
    return no_hits(evidence, evidence.truth.trampolines, "a trampoline")


def synchronised(evidence: Evidence) -> Finding | None:
    """Before a batch of patches returns, every online CPU has synchronised its instruction fetch.
    """
    batches = [b for b in evidence.truth.batches if b.stores]
    if not batches:
        return Finding("no call site was patched")
    return first_of(_synchronised(evidence, batch) for batch in batches)


def _synchronised(evidence: Evidence, batch: Batch) -> Finding | None:
    if batch.end is None:
        return Finding("a batch of patches did not end")
    after = batch.stores[-1].seq
    fences = between(evidence.truth.fences, after, batch.end)
    if evidence.isa.cache_line:
        finding, after = _maintenance(evidence, batch)
        if finding:
            return finding
    for cpu in sorted(batch.online):
        if not any(f.vcpu == cpu and f.seq > after and evidence.isa.synchronises(f.word)
                   for f in fences):
            site = evidence.kernel.name_at(evidence.kernel.text[0] + batch.stores[-1].v[0])
            return Finding(f"the batch of {len(batch.stores)} patches on CPU {batch.vcpu} "
                           f"(the last at {site}) returned before CPU {cpu} had executed "
                           f"{evidence.isa.synchronising}", seq=batch.end,
                           kind=Defect.NOT_SYNCHRONISED)
    return None


LINE = ARM64.cache_line
ALIGN = 2 << 20  # text and its alias begin at multiples of this
STEPS = ["dc cvau", "a dsb ish after dc cvau", "ic ivau", "a dsb ish after ic ivau"]


def _maintenance(evidence: Evidence, batch: Batch) -> tuple[Finding | None, int]:
    """arm64: each cache line that was written goes through dc cvau, dsb ish, ic ivau, dsb ish.
    Returns a finding, and the record of the last of these.

    A line can be cleaned by any virtual address that maps to it; an instruction cache may know it
    only by the address that is executed.
    """
    assert batch.end is not None
    mine = [r for r in (*batch.stores, *between(evidence.truth.fences, batch.begin, batch.end))
            if r.vcpu == batch.vcpu]
    # by the number of steps done: the lines of text
    done: list[set[int]] = [set() for _ in range(len(STEPS) + 1)]
    last = batch.begin
    for r in sorted(mine, key=lambda r: r.seq):
        if r.kind == Kind.STORE:
            for lines in done:
                lines.discard(r.v[0] // LINE)
            done[0].add(r.v[0] // LINE)
        elif _advance(evidence, done, r):
            last = r.seq
    late = next((steps for steps, lines in enumerate(done[:-1]) if lines), None)
    if late is None:
        return None, last
    does = {0: ARM64.cleans, 2: ARM64.invalidates}.get(late)
    others = [r for r in mine if r.kind == Kind.FENCE and does and does(r.word)]
    early = any(_line(r) in done[late] and (late == 0 or _is_text(evidence, r)) for r in others)
    elsewhere = "" if not others else (
        f" (it was executed before {STEPS[late - 1] if late else 'the store'}, which is too "
        "early)") if early else (" (it was executed for other addresses: arch_sync_line takes the "
                                 "address that is executed, then its alias)")
    return Finding(f"a batch of {len(batch.stores)} patches on CPU {batch.vcpu} returned without "
                   f"{STEPS[late]} for a cache line that it wrote{elsewhere}", seq=batch.end,
                   kind=Defect.NO_LINE_MAINTENANCE), last


def _line(record: Record) -> int:
    return record.v[0] % ALIGN // LINE


def _is_text(evidence: Evidence, record: Record) -> bool:
    lo, hi = evidence.kernel.text
    return lo <= record.v[0] < hi


def _advance(evidence: Evidence, done: list[set[int]], record: Record) -> bool:
    """Apply one barrier or cache operation. True if it was the next step of some line."""
    line = {_line(record)}
    # by the number of steps done before: the lines that go one step further
    further: dict[int, set[int]] = {}
    if ARM64.completes(record.word):
        further = {1: set(done[1]), 3: set(done[3])}
    elif ARM64.cleans(record.word):
        further = {0: done[0] & line}
    elif ARM64.invalidates_all(record.word, evidence.smp):
        further = {2: set(done[2])}
    elif ARM64.invalidates(record.word) and _is_text(evidence, record):
        further = {2: done[2] & line}
    for steps, lines in further.items():
        done[steps] -= lines
        done[steps + 1] |= lines
    return any(further.values())


def not_started(evidence: Evidence) -> Finding | None:
    """A finding if the shell refused to start the tracer; then no other finding is of use."""
    begins = evidence.complaint and (evidence.complaint.line == "registers"
                                     or evidence.complaint.line.endswith("> current_tracer"))
    return Finding(str(evidence.complaint)) if begins else None


def something_called(evidence: Evidence) -> Finding | None:
    """The site of at least one traced function held a call. Other rungs judge each phase."""
    if any(traced(evidence, call) for phase in evidence.on()
           for call in _selected(evidence, phase)):
        return None
    return not_started(evidence) or Finding("no traced function found a call at its site")

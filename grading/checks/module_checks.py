"""Lab 7: checks of modules' call sites, trampolines and calls."""

from collections.abc import Iterator
from errno import ERANGE

from grading.checks.align import Alignment, Executed, align, by_cpu, differ
from grading.checks.checks import first_difference, first_of, in_time, within, word_lines
from grading.elf.link import PAGE
from grading.elf.module import TRAMPOLINE, Module, stubs
from grading.evidence.evidence import Evidence, Loaded, Visit, Window, during
from grading.evidence.finding import Finding, returned, seq_at, side_by_side
from grading.machine.observer import Record
from grading.stimulus import seeded
from grading.text.trace_text import FunctionEvent, FunctionTrace
from grading.truth.truth import TRAMPOLINE_ENCODER, TRAMPOLINE_READER, TRAMPOLINE_WORDS, Call
from qemu.isa.common import Words


# ---- where a site leads ----------------------------------------------------------

def calls(evidence: Evidence, address: int, word: int) -> int | None:
    """The address that the word calls with the tracer's link register; None: it is no such call."""
    jump = evidence.kernel.isa.jump(address, word)
    return jump[0] if jump and jump[1] == evidence.kernel.link_register else None


def leads_to(evidence: Evidence, loaded: Loaded, address: int, word: int) -> int | None:
    """The address to which the word at a site leads, through a trampoline if it calls one; None: it
    does not call."""
    target, module = calls(evidence, address, word), loaded.module
    if target is None or not module.is_trampoline(target):
        return target
    return evidence.kernel.isa.trampoline(
        target, loaded.trampoline(loaded.traced, (target - module.room) // TRAMPOLINE))


def loaded_of(visit: Visit, call: Call) -> Loaded | None:
    return next((loaded for loaded in visit.loaded
                 if loaded.module.base <= call.site.address < loaded.module.end), None)


def far_calls(evidence: Evidence) -> Iterator[tuple[Loaded, Call]]:
    """The calls of far modules that led to a stub through a trampoline."""
    known = set(stubs(evidence.kernel))
    for visit in evidence.visits:
        for call in during(visit, evidence.truth.calls):
            loaded = loaded_of(visit, call)
            target = calls(evidence, call.site.address, call.word)
            if loaded and loaded.far and target is not None and loaded.module.is_trampoline(
                    target) and leads_to(evidence, loaded, call.site.address, call.word) in known:
                yield loaded, call


def called(evidence: Evidence) -> Finding | None:
    """A traced function of a far module called a trampoline that leads to a stub. If none did, or
    the boot ended early, a trampoline that leads elsewhere explains it."""
    found = None if evidence.why else something_led(evidence)
    return trampolines_lead(evidence) or found if found or evidence.why else None


def something_led(evidence: Evidence) -> Finding | None:
    if next(far_calls(evidence), None):
        return None
    return Finding(
        str(evidence.complaint) if evidence.complaint else
        "no traced function of a far module called a trampoline that leads to a stub of the kernel")


# ---- text -------------------------------------------------------------------------

def _wrong_word(loaded: Loaded, text: bytes, calls_at_sites: bool) -> int | None:
    """The first word before the trampolines that is not as linked. A word at a call site is
    accepted if it is a call."""
    module, sites = loaded.module, {s.address
                                    for s in loaded.module.sites} if calls_at_sites else set()
    return next((a for a in range(module.base, module.room, 4)
                 if a not in sites and loaded.word(text, a) != module.word(a)), None)


def modules_at_rest(evidence: Evidence) -> Finding | None:
    """After a load every site is a nop, and the module's functions are as linked."""
    for loaded in evidence.loaded:
        if not loaded.rest:
            return Finding(
                f"the text of {loaded.module.name} was not found in memory: it was not loaded")
        for text, traced in ((loaded.rest, False), (loaded.traced, True)):
            wrong = _wrong_word(loaded, text, traced) if text else None
            if wrong:
                return _changed(evidence, loaded, text, wrong)
            rest = range(loaded.module.trampoline(loaded.module.stubs), loaded.module.end, 4)
            used = next((address for address in rest if text and loaded.word(text, address)), None)
            if used:
                return _changed(evidence, loaded, text, used)
    return None


def _changed(evidence: Evidence, loaded: Loaded, text: bytes, address: int) -> Finding:
    name = evidence.kernel.name_at(address)
    site = word_lines(evidence.kernel, name, address, loaded.word(text, address),
                      loaded.module.word(address))
    return Finding(f"{_where(loaded)}: the word at {name} is wrong", site=site)


def _where(loaded: Loaded) -> str:
    return f"{loaded.module.name}, {'out of' if loaded.far else 'in'} reach of the stubs"


def near_calls_stubs(evidence: Evidence) -> Finding | None:
    """A module in reach has no trampolines: each of its traced sites calls a stub of the kernel."""
    known = set(stubs(evidence.kernel))
    for loaded in (loaded for loaded in evidence.loaded if not loaded.far and loaded.rest):
        module = loaded.module
        if any(loaded.trampoline(loaded.rest, n) != (0, 0, 0) for n in range(module.stubs)):
            return Finding(
                f"{_where(loaded)}: there are words where a far module has its trampolines",
                mistake="every-module-far")
        for site in module.sites if loaded.traced else ():
            word = loaded.word(loaded.traced, site.address)
            target = calls(evidence, site.address, word)
            if target not in known:
                return Finding(f"{_where(loaded)}: the site of {site.function.name} must call a "
                               "stub of the kernel",
                               site=word_lines(evidence.kernel, site.function.name, site.address,
                                               word, word)[:2], mistake="every-module-far"
                               if target is not None and module.is_trampoline(target) else "")
    return None


def trampolines_lead(evidence: Evidence) -> Finding | None:
    """Trampoline n of a far module leads to the kernel's stub n."""
    texts = [(loaded, loaded.rest) for loaded in evidence.loaded if loaded.far and loaded.rest]
    texts += [(evidence.going.successor, evidence.going.successor.traced)
              ] if evidence.going and evidence.going.successor.traced else []
    for loaded, text in texts:
        for number, stub in enumerate(stubs(evidence.kernel)):
            at, words = loaded.module.trampoline(number), loaded.trampoline(text, number)
            target = evidence.kernel.isa.trampoline(at, words)
            if target != stub:
                leads = ("is no trampoline" if target is None else
                         f"leads to {target:#x}, {evidence.kernel.name_at(target)}")
                return Finding(
                    f"{_where(loaded)}: trampoline {number}, at {at:#x}, {leads}; it must lead to "
                    f"ftrace_stub_{number}, {stub:#x}",
                    site=[evidence.kernel.disassemble(at + 4 * n, word)
                          for n, word in enumerate(words)],
                    mistake=_wrong_trampoline(evidence, target, stub))
    return _executed_trampolines(evidence)


def trampolines_computed(evidence: Evidence) -> Finding | None:
    """trampoline_encode() and trampoline_target() are right over any distance, and with any bit
    changed."""
    asked = evidence.truth.asked(TRAMPOLINE_ENCODER, TRAMPOLINE_READER)
    return first_of(
        (_made if name == TRAMPOLINE_ENCODER else _read)(evidence, question, answer.v[0], seen)
        for (name, question, answer), seen in zip(asked, evidence.truth.hits[TRAMPOLINE_WORDS]))


def _words(seen: Record) -> Words:
    return seen.v[0] & 0xFFFFFFFF, seen.v[0] >> 32, seen.v[1]


def _made(evidence: Evidence, question: Record, result: int, seen: Record) -> Finding | None:
    """trampoline_encode() must return 0 and make words that lead to the target, if the instructions
    reach it; else it must return -ERANGE and store nothing."""
    isa, (ip, target), words = evidence.kernel.isa, question.v[:2], _words(seen)
    off, error = target - ip, -result % (1 << 32)
    reached = isa.trampoline(ip, isa.trampoline_to(ip, target)) == target
    said = (f"{TRAMPOLINE_ENCODER}({ip:#x}, {target:#x}), {abs(off):#x} bytes "
            f"{'back' if off < 0 else 'ahead'}, ")
    if error != (0 if reached else ERANGE):
        return Finding(f"{said}returned {returned(result)}: it must return "
                       f"{0 if reached else '-ERANGE'}", mistake="trampoline-wrong-reach",
                       seq=question.seq)
    if not reached:
        return Finding(f"{said}returned -ERANGE and stored words",
                       seq=question.seq) if any(words) else None
    led = isa.trampoline(ip, words)
    if led == target:
        return None
    return Finding(
        f"{said}made words that {'are no trampoline' if led is None else f'lead to {led:#x}'}",
        site=_shown(evidence, ip, words), mistake="trampoline-off-by-a-page"
        if led is not None and abs(led - target) == PAGE else "", seq=question.seq)


def _read(evidence: Evidence, question: Record, result: int, seen: Record) -> Finding | None:
    """trampoline_target() must find where these words lead, or that they are no trampoline. A word
    that is not executed does not matter."""
    isa, ip, words, found = evidence.kernel.isa, question.v[0], _words(
        seen), seen.v[2] if result & 0xFF else None
    leads = isa.trampoline(
        ip, words if isa.executed == 3 else (words[0], words[1], isa.trampoline_to(ip, ip)[2]))
    if found == leads:
        return None
    are, said = (f"lead to {at:#x}" if at is not None else "are no trampoline"
                 for at in (leads, found))
    return Finding(f"{TRAMPOLINE_READER} says that these words at {ip:#x} {said}; they {are}",
                   site=_shown(evidence, ip, words), mistake="instructions-not-compared"
                   if leads is None else "trampoline-misread", seq=question.seq)


def _shown(evidence: Evidence, ip: int, words: Words) -> list[str]:
    return [f"{word:08x}  {evidence.kernel.disassemble(ip + 4 * n, word)}"
            for n, word in enumerate(words)]


def _executed_trampolines(evidence: Evidence) -> Finding | None:
    """Each executed word of a trampoline is one of the instructions that lead to its stub."""
    for r in evidence.truth.words:
        module = next((m for m in evidence.kernel.modules if m.has_trampoline(r.addr)), None)
        if module and r.addr not in evidence.kernel.site_at and module.word(r.addr):
            return Finding(f"{module.name}: CPU {r.vcpu} executed another word in a trampoline "
                           "than the one that leads to its stub",
                           site=word_lines(evidence.kernel,
                                           f"trampoline {(r.addr - module.room) // TRAMPOLINE}",
                                           r.addr, r.word, module.word(r.addr)), seq=r.seq)
    return None


def _wrong_trampoline(evidence: Evidence, target: int | None, stub: int) -> str:
    if target is None:
        return ""
    if abs(target - stub) == 4096:
        return "trampoline-off-by-a-page"
    return "same-stub-for-all" if target == stubs(evidence.kernel)[0] else ""


# ---- expected = executed = printed --------------------------------------------------

def executed_runs(evidence: Evidence, window: Window) -> list[list[Call]]:
    """The calls that each write to a module's file made, the write first."""
    of: dict[int, list[Call]] = {}
    found: list[list[Call]] = []
    for call in during(window, evidence.truth.calls):
        if not evidence.kernel.module_at(call.site.address):
            continue
        part = call.name.split(" ")[0].partition("_")[2]
        if part == "write":
            found.append(of.setdefault(call.thread, []))
            of[call.thread] = found[-1] = [call]
        elif part in seeded.PARTS and call.thread in of:
            of[call.thread].append(call)
    return found


def runs_as_expected(evidence: Evidence, name: str, window: Window, runs: list[seeded.SeededRun],
                     output: str) -> Finding | None:
    """Each run made the calls that follow from its seed, and printed their result."""
    executed = executed_runs(evidence, window)
    for run in runs:
        want = seeded.expect(run)
        names = [run.module.named("write"), *want.calls]
        same = next((done for done in executed if [c.name for c in done] == names), None)
        if not same:
            near: list[Call] = max((done for done in executed if done[0].name == names[0]),
                                   key=lambda done: first_difference([c.name for c in done], names),
                                   default=[])
            got = [c.name for c in near]
            at = first_difference(got, names)
            return Finding(
                f"{name}: call {at} of '{run.command}' is not the one that follows from the seed",
                side_by_side(got, names, at), ("executed", "expected"), seq=seq_at(near, at))
        executed.remove(same)
        if want.line not in output:
            return Finding(f"{name}: '{run.command}' must print '{want.line}'")
    return None


def traced_as_executed(evidence: Evidence, name: str, trace: FunctionTrace | None,
                       executed: list[Call]) -> Finding | None:
    """The printed events are the executed calls, in their order on each CPU."""
    if trace is None or trace.in_buffer < 0:
        return Finding(f"{name}: no trace was printed")
    if trace.in_buffer != len(trace.events) or trace.overrun:
        return Finding(f"{name}: the header of the trace counts {trace.in_buffer} entries of "
                       f"{trace.written}, and {len(trace.events)} are printed")
    found: dict[int, Alignment[Executed, FunctionEvent]] = align(
        by_cpu(Executed(c, c.seq, c.vcpu) for c in executed), trace.events, differ)
    for alignment in found.values():
        if alignment.divergence:
            return _diverged(evidence, name, alignment)
    return first_of(in_time(name, a) for a in found.values())


def _diverged(evidence: Evidence, name: str,
              alignment: Alignment[Executed, FunctionEvent]) -> Finding:
    d = alignment.divergence
    assert d
    seq = d.executed[d.executed_at].seq if d.executed_at < len(d.executed) else None
    return Finding(f"{name}, CPU {d.cpu}, event {d.printed_at}: {d.why}", d.neighbours(), seq=seq)


def of_modules(evidence: Evidence, window: Window, names: frozenset[str]) -> list[Call]:
    return [c for c in during(window, evidence.truth.calls) if c.name in names]


def registers_kept(evidence: Evidence, call: Call) -> Finding | None:
    """After its site the function continues with its caller's registers."""
    if not call.landed or call.landed.addr != call.site.address + 4:
        return Finding(f"{call.name} did not continue after its call site", seq=call.seq)
    if changed := evidence.lost(call):
        return Finding(f"{call.name}: {', '.join(evidence.isa.names[n] for n in changed)} changed "
                       "between the call site and the instruction after it", seq=call.seq)
    return None


def three_agree(evidence: Evidence) -> Finding | None:
    """Expected from the seed = executed = printed."""
    for visit in evidence.visits:
        executed = of_modules(evidence, visit, visit.names)
        found = (runs_as_expected(evidence, visit.name, visit, visit.runs, visit.output)
                 or traced_as_executed(evidence, visit.name, visit.trace, executed))
        found = found or first_of(registers_kept(evidence, c) for c in executed
                                  if c.word != evidence.kernel.isa.nop)
        if found:
            return within(visit, found)
    return None if evidence.visits else Finding("no calls were made in modules")


def is_of(module: Module, name: str) -> bool:
    return name.endswith(f"[{module.name}]")

"""Lab 3: the check of each rung, and the mistakes that it names."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EFAULT, EINVAL, ERANGE

from grading.checks import faults
from grading.checks.checks import (all_of, calls_tracer, calls_while_on, every_site, foreign, lives,
                                   named, of_kind, only_selected, rest_at_boot, rest_at_end,
                                   right_parents, silent_trampolines, something_called,
                                   synchronised, three_agree, traced, word_in)
from grading.checks.console_checks import (at_rest_after_boot, at_rest_at_end, lives_and_traces,
                                           parents_as_expected)
from grading.checks.integrity import as_linked, words_stored
from grading.checks.registers import callback_arguments, registers_kept, spoilt
from grading.checks.schedule_checks import PLAYED, TRACER, right_under_schedules
from grading.evidence.evidence import Evidence, between, during, expected_run
from grading.evidence.finding import Defect, Finding, returned
from grading.stimulus.schedules import Change
from grading.checks.seen import (ANYTHING_CALLED, BETWEEN, OVERWRITTEN, POWERED_OFF, TEXT_AT_BOOT,
                                 TEXT_AT_END, Amount, Coverage, batches, called, called_back,
                                 half_of_run, once as seen_once, printed, ran, registers, text_of,
                                 text_traced)
from grading.elf.elf import ALIAS_BASE
from grading.truth.truth import ENCODER, PATCHERS, stubs
from grading.verdict import Verdict


NO_BATCH = "while no batch was open, with an address that is out of reach"
AFTER_TEXT = "in a batch, for a site at _etext, after the end of text"
FAR = "in a batch, for the last word of text and address 0, which is out of reach"
NOP = "in a batch, for a site that holds the nop"
CALL = "in a batch, for a site that holds the call of ftrace_caller"
OTHER = "in a batch, for a site that holds the call of _mcount"
NO_CALL = "in a batch, while ftrace_call holds a breakpoint"
SITES = "ftrace_make_call", "ftrace_make_nop", "ftrace_modify_call", "ftrace_init_nop"
# The calls that kern/apps/registers.c makes, in order: the function, when it is called, the error.
# Instead of an error: what the site of registers_encoded then calls, or "" for the nop.
ASKED: tuple[tuple[str, str, int | str], ...] = (
    *((name, NO_BATCH, EFAULT) for name in (*SITES, "ftrace_update_ftrace_func")),
    *((name, AFTER_TEXT, EFAULT) for name in SITES),
    # that word is neither a nop nor a call
    ("ftrace_make_call", FAR, ERANGE), ("ftrace_make_nop", FAR, ERANGE),
    ("ftrace_modify_call", FAR, ERANGE), ("ftrace_modify_call", FAR, ERANGE),
    ("ftrace_init_nop", NOP, EINVAL),
    ("ftrace_make_nop", NOP, EINVAL), ("ftrace_modify_call", NOP, EINVAL),
    ("ftrace_make_call", NOP, "ftrace_caller"), ("ftrace_make_call", CALL, EINVAL),
    ("ftrace_make_nop", f"{CALL}, to replace a call of _mcount", EINVAL),
    ("ftrace_modify_call", f"{CALL}, to replace a call of _mcount", EINVAL),
    ("ftrace_modify_call", CALL, "_mcount"), ("ftrace_make_nop", OTHER, ""),
    ("ftrace_update_ftrace_func", f"{NO_CALL}, with address 0, which is out of reach", ERANGE),
    ("ftrace_update_ftrace_func", NO_CALL, EINVAL),
)
# the bits of current->ctx that count calls of preempt_disable() (kern/base/current.h)
PREEMPTED = 0xFF << 24


def always_called(evidence: Evidence) -> Finding | None:
    """ftrace_caller calls the tracer always. kern/apps/registers.c makes a call with an op, and one
    while function_trace_op is 0."""
    missed = next((call for call in evidence.truth.calls if call.name == "registers_call"
                   and traced(evidence, call) and not call.callbacks), None)
    return Finding("the site of registers_call called ftrace_caller, and no callback ran. It must "
                   "run at every such call, also while function_trace_op is 0: ftrace_caller does "
                   "not test whether a tracer is registered", seq=missed.seq) if missed else None


def written_by_patcher(evidence: Evidence) -> Finding | None:
    """Each store into text is made by the tracer's own code, inside a batch, and writes one aligned
    word."""
    kernel = evidence.kernel
    lo, hi = kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end")
    inside = {id(r) for b in evidence.truth.batches for r in b.stores}
    for store in evidence.truth.stores:
        where = kernel.name_at(kernel.text[0] + store.v[0])
        if not lo <= store.addr < hi:
            return Finding(
                f"text was written at {where} by {kernel.name_at(store.addr)}, which is not the "
                f"tracer's code",
                seq=store.seq)
        if store.size != 4 or store.v[0] % 4:
            return Finding(
                f"{store.size} bytes of text were written at {where}: a store into text must be "
                f"one aligned word",
                seq=store.seq)
        if id(store) not in inside:
            return Finding(f"text was written at {where} outside of a batch", seq=store.seq)
    return None if evidence.truth.stores else Finding("text was never written")


def looked_before(evidence: Evidence) -> Finding | None:
    """Before each store the patcher has loaded the word that it overwrites."""
    lo, _ = evidence.kernel.text
    looks = iter(evidence.truth.looks)
    look = next(looks, None)
    for batch in evidence.truth.batches:
        looked: set[int] = set()
        for store in batch.stores:
            while look and look.seq < store.seq:
                if look.seq > batch.begin and look.vcpu == batch.vcpu:
                    looked.add(look.addr)
                look = next(looks, None)
            address = lo + store.v[0]
            if address not in looked:
                return Finding(
                    f"{evidence.kernel.name_at(address)} was written, and the word at that address "
                    f"had not been read earlier in this batch. (Read it where it "
                    "is executed, not at its alias)", mistake="wrote-without-looking",
                    seq=store.seq)
    return None


def alias_closed(evidence: Evidence) -> Finding | None:
    """Between batches no part of text is writable, by its alias or by another mapping."""
    for when, cpus in evidence.alias:
        if cpus:
            return Finding(
                f"{when}: text is writable in the page tables of CPU {cpus[0]}, perhaps through "
                f"its alias, which must be closed at the end of a batch",
                mistake="alias-left-open")
    return None if evidence.alias else Finding(
        "the harness never searched the page tables for a writable mapping of text")


def in_batches(evidence: Evidence) -> Finding | None:
    """A batch closes the alias before it synchronises the other CPUs."""
    for batch in evidence.truth.batches:
        when = {name: seq for name, seq in batch.steps}
        synchronised = when.get("arch_sync_all", batch.end or 0)
        if batch.stores and synchronised < when.get("text_alias_close", 0):
            return Finding(
                f"the batch of {len(batch.stores)} patches on CPU {batch.vcpu} called "
                f"arch_sync_all while the alias was "
                "still open: text_alias_close must be called first", seq=when["arch_sync_all"])
    return None


def _error(value: int) -> int:
    """The errno that a function returned as a negative int, or 0."""
    return -value % (1 << 32)


def answers(evidence: Evidence) -> Finding | None:
    """The patching functions return the right error and then write nothing, or write one word."""
    kernel = evidence.kernel
    site = next((s.address for s in kernel.sites if s.function.name == "registers_encoded"), 0)
    for (name, question, answer), (_, when, right) in zip(evidence.truth.asked(*PATCHERS), ASKED):
        stored = [(kernel.text[0] + r.v[0], r.v[1] & 0xFFFFFFFF)
                  for r in between(evidence.truth.stores, question.seq, answer.seq)
                  if r.vcpu == question.vcpu]
        said = f"{name} was called {when}, and returned {returned(answer.v[0])}"
        error = 0 if isinstance(right, str) else right
        if _error(answer.v[0]) != error:
            ends = when == AFTER_TEXT or when == FAR and _error(answer.v[0]) == EFAULT
            return Finding(f"{said}: it must return {returned(-error)}",
                           seq=question.seq, mistake="end-of-text-missed" if ends else
                           "wrote-without-looking" if stored else "")
        word = kernel.isa.nop if not right else kernel.isa.call(
            site, kernel.symbol(right), kernel.link_register) if isinstance(right, str) else None
        if stored != ([] if word is None else [(site, word)]):
            wrote = [f"{found:08x} at {kernel.name_at(at)}" for at, found in stored]
            must = "nothing" if word is None else (
                f"{word:08x}, {kernel.disassemble(site, word)}, at {kernel.name_at(site)}")
            return Finding(f"{said} and wrote {', '.join(wrote) or 'nothing'}: it must write "
                           f"{must}", seq=question.seq)
    return None


def encoded(evidence: Evidence) -> Finding | None:
    """insn_call() is right at both ends of the reach and just beyond them, for any link register;
    it refuses misaligned addresses, and stores nothing with an error."""
    asked = evidence.truth.asked(*ENCODER)
    for (_, question, answer), (_, word, _) in zip(asked[::2], asked[1::2]):
        ip, addr, link = question.v[:3]
        off = (addr - ip + (1 << 63)) % (1 << 64) - (1 << 63)
        right = EINVAL if (addr | ip) & 3 else 0
        if not -evidence.isa.reach <= off < evidence.isa.reach:
            right = ERANGE
        said = (f"insn_call({ip:#x}, {addr:#x}, {link}), {abs(off):#x} bytes "
                f"{'back' if off < 0 else 'ahead'}, ")
        found = word.v[0] & 0xFFFFFFFF
        if _error(answer.v[0]) != right:
            return Finding(f"{said}returned {returned(answer.v[0])}: it must return "
                           f"{returned(-right)}", seq=question.seq, mistake="wrong-reach")
        if right and found != word.v[1] & 0xFFFFFFFF:
            return Finding(f"{said}returned {returned(-right)} and stored {found:08x} in *insn: "
                           "with an error *insn must stay as it is", seq=question.seq)
        if not right and found != (want := evidence.isa.call(ip, addr, link)):
            return Finding(f"{said}made the instruction {found:08x}, "
                           f"{evidence.kernel.disassemble(ip, found)}: it must be {want:08x}, "
                           f"{evidence.kernel.disassemble(ip, want)}", seq=question.seq)
    return None


def once(evidence: Evidence) -> Finding | None:
    """A batch synchronises the other CPUs once, not for each word."""
    for batch in evidence.truth.batches:
        syncs = [seq for name, seq in batch.steps if name == "arch_sync_all"]
        if len(syncs) > 1:
            return Finding(
                f"the batch of {len(batch.stores)} patches on CPU {batch.vcpu} called "
                f"arch_sync_all {len(syncs)} times: "
                "one call is enough for the whole batch", seq=syncs[1])
    return None


def refused(evidence: Evidence) -> Finding | None:
    """A site that holds an unexpected word is reported and not written, and nothing is traced."""
    was, kernel = evidence.spoilt, evidence.kernel
    if not was or not was.text:
        return Finding(
            "the boot ended before the harness had changed the word at a call site, which the "
            "kernel must then refuse to write"
        )
    site, name = was.site, was.site.function.name
    found = word_in(kernel, was.text, site.address)
    if found != was.word:
        wanted, before = ("no longer traced", "call") if evidence.smp > 1 else ("traced", "nop")
        return Finding(
            f"{name} was to be {wanted}, and its call site held another word than the {before}. "
            f"That word was overwritten, and must be left as it was",
            site=[
                f"{name} at {site.address:#x}",
                f"was        {was.word:08x}  {kernel.disassemble(site.address, was.word)}",
                f"became     {found:08x}  {kernel.disassemble(site.address, found)}"
            ], mistake="wrote-without-looking")
    if f"refused to write the call site of {name} " not in was.printed:
        return Finding(
            f"the call site of {name} held another word than the "
            f"{'call' if evidence.smp > 1 else 'nop'}, and the kernel did not report it"
        )
    changed = foreign(kernel, kernel.differing(was.text, evidence.rest_text), {site.address})
    if changed:
        return Finding(
            f"a site was refused, and text was changed elsewhere: {kernel.name_at(changed[0])}")
    ran = [call for call in during(was, evidence.truth.calls) if traced(evidence, call)]
    if ran:
        return Finding(f"a site was refused, and {ran[0].name} called the tracer", seq=ran[0].seq)
    want = expected_run(was.seed, evidence.smp).line
    return None if want in was.output else Finding(
        f"a site was refused, and then the workload did not print '{want}'")


# ---- mistakes with a name -----------------------------------------------------------

def _words(evidence: Evidence) -> Iterator[tuple[int, int]]:
    """The words in call sites while a tracer was on, from memory and as executed, without the word
    that the harness wrote."""
    for phase in evidence.on():
        for site in evidence.kernel.sites if phase.text else []:
            yield site.address, word_in(evidence.kernel, phase.text, site.address)
    for call in evidence.truth.calls:
        if not evidence.spoilt or call.word != evidence.spoilt.word:
            yield call.site.address, call.word


def _wrong_call(evidence: Evidence) -> str:
    """The mistake's name, if a site held a call with a wrong link register or a wrong target."""
    known = stubs(evidence.kernel)
    for address, word in _words(evidence):
        jump = evidence.kernel.isa.jump(address, word)
        if not jump or not jump[1]:
            continue
        if jump[0] in known and jump[1] != evidence.kernel.link_register:
            return "wrong-link"
        if jump[1] == evidence.kernel.link_register and jump[0] not in known:
            far = jump[0] - address
            if evidence.isa.scattered:
                return "scattered-immediate"
            return "offset-in-bytes" if any(
                (far - 4 * (stub - address)) % (1 << 28) == 0 for stub in known) else ""
    return ""


def _call(evidence: Evidence, finding: Finding) -> str:
    return _wrong_call(evidence)


def _half_a_pair(evidence: Evidence, finding: Finding) -> str:
    stay = all(
        word_in(evidence.kernel, evidence.text_at_boot, s.address -
                4) == evidence.kernel.word(s.address - 4) for s in evidence.kernel.sites)
    return "pair-half-rewritten" if evidence.isa.pair and stay else ""


def _restored(evidence: Evidence, finding: Finding) -> str:
    """Call sites still hold calls although no tracer is on."""
    left = any(
        calls_tracer(evidence.kernel, s.address,
                     word_in(evidence.kernel, evidence.text_at_end, s.address))
        for s in evidence.kernel.sites)
    return "never-restored" if left else ""


def _unnamed(evidence: Evidence, finding: Finding) -> str:
    """ftrace_caller ran, and called ftrace_stub instead of the tracer."""
    caller = any(
        traced(evidence, call) for phase in evidence.on() for call in evidence.calls(phase)
    )
    return "tracer-not-named" if caller and evidence.truth.hits[
        "ftrace_stub"] and not evidence.truth.callbacks else ""


def _in_between(evidence: Evidence, finding: Finding) -> str:
    """The word at which this finding was made was overwritten later in its batch."""
    for batch in evidence.truth.batches:
        at = next((r.v[0] for r in batch.stores if r.seq == finding.seq), None)
        if at is not None and finding.seq is not None:
            later = any(r.v[0] == at and r.seq > finding.seq for r in batch.stores)
            return "word-in-between" if later else ""
    return ""


def ended(evidence: Evidence) -> str:
    fault, (lo, hi) = faults.last(evidence), evidence.kernel.text
    if (evidence.verdict == Verdict.PANIC and fault and fault.access == "write"
            and lo <= fault.address < hi):
        return "wrote-through-text"
    if (evidence.verdict == Verdict.PANIC and fault and fault.access == "write"
            and 0 <= fault.address - ALIAS_BASE < hi - lo):
        return "alias-not-open"
    caller, context = faults.panicked(evidence)
    if caller in ("set_alias", "text_alias_open", "text_alias_close"
                  ) or caller in ("schedule", "yield", "do_idle") and context & PREEMPTED:
        return "preemption-unpaired"
    if _wrong_call(evidence):
        return _wrong_call(evidence)
    if spoilt(evidence):
        return spoilt(evidence)
    if faults.back_into(evidence, "ftrace_caller"):
        return "return-address-lost"
    return "went-astray" if faults.astray(evidence) else ""


MISTAKES = {
    "no-synchronisation": "a batch returns before every CPU has synchronised",
    "no-line-maintenance": "a written line is not cleaned out of the data cache, or not "
                           "invalidated in the instruction cache",
    "wrote-without-looking": "a word of text is overwritten without being read first",
    "wrote-through-text": "the store goes to the address at which the code is executed, and not to "
                          "its alias",
    "scattered-immediate": "the parts of jal's immediate are in the wrong bits",
    "offset-in-bytes": "bl's offset is in bytes, and must be in words",
    "wrong-link": "a site's call leaves its return address in another register than the one that "
                  "ftrace_caller reads",
    "return-address-lost": "ftrace_caller returns to the address that its own call left in the "
                           "link register",
    "went-astray": "ftrace_caller jumps to an address without code, and not back to the call site",
    "argument-clobbered": "an argument register does not come back as it was",
    "frame-pointer-lost": "the frame pointer does not come back as it was",
    "stack-not-given-back": "the stack pointer does not come back as it was",
    "wrong-call-site-offset": "ip is not the address of the call",
    "parent-of-the-stub": "the parent is read from ftrace_caller's own frame",
    "address-taken-for-the-value": "op is the address of the variable, and not its value",
    "pair-half-rewritten": "the auipc before the site is not replaced",
    "tracer-not-named": "the call to the tracer in ftrace_caller is not patched",
    "alias-not-open": "text is written through its alias before the alias is open",
    "alias-left-open": "text is still writable after the batch",
    "word-in-between": "a word of text has another value for a moment before it is right",
    "never-restored": "the sites do not become nops again",
    "wrong-reach": "insn_call accepts an address that is out of reach or misaligned, or refuses "
                   "one that is not",
    "end-of-text-missed": "the end of text is not checked rightly: an address after it is "
                          "accepted, or the last word is refused",
    "preemption-unpaired": "a batch lacks its preempt_disable() or its preempt_enable()",
}
ADVICE = {"unsigned-offset"}

LOOKS = seen_once("load of a word of text by the tracer", lambda e: len(e.truth.looks), 100)
ALIAS = seen_once("search of the page tables for a writable mapping of text",
                  lambda e: len(e.alias), 4)
ANSWERED = seen_once("answer of a patching function", lambda e: len(e.truth.asked(*PATCHERS)),
                     len(ASKED))
ENCODED = seen_once("call of insn_call", lambda e: len(e.truth.asked(ENCODER[1])), 14)
REFUSED = Coverage(
    "call of the workload while a call site held an unexpected word",
    lambda e: [Amount("", len(during(e.spoilt, e.truth.calls)), half_of_run(e, e.spoilt.seed))]
    if e.spoilt else [])

RIGHT_WORDS = named(words_stored, _in_between, _call)

CHECKS = {
    "called": named(something_called, _call),
    "life": lives,
    "rest": named(rest_at_boot, _half_a_pair, _restored),
    "calls": named(all_of(calls_while_on, registers_kept, callback_arguments, always_called),
                   _call),
    "filter": all_of(only_selected, every_site),
    "silent": silent_trampolines,
    "restored": named(rest_at_end, _half_a_pair, _restored),
    "writer": all_of(written_by_patcher, RIGHT_WORDS, alias_closed, looked_before, in_batches,
                     answers, encoded),
    "refused": refused,
    "one CPU": named(all_of(three_agree, right_parents), _unnamed),
    "many CPUs": named(all_of(three_agree, right_parents), _unnamed),
    "synchronised": all_of(
        named(synchronised, of_kind(Defect.NO_LINE_MAINTENANCE, "no-line-maintenance"),
              of_kind(Defect.NOT_SYNCHRONISED, "no-synchronisation")), once),
    "schedules": all_of(as_linked, RIGHT_WORDS, right_under_schedules),
}

ON, OFF = "echo function > current_tracer", "echo nop > current_tracer"
SCHEDULES = (
    Change("on", ON, "register_ftrace_function", first=("echo calls_traced > set_ftrace_filter",),
           last=("echo > set_ftrace_filter",), after=(OFF,), comes=frozenset({TRACER})),
    Change("off", OFF, "unregister_ftrace_function",
           first=("echo calls_traced > set_ftrace_filter",), last=("echo > set_ftrace_filter",),
           before=(ON,), goes=frozenset({TRACER})),
)

CONSOLE = {"life": lives_and_traces, "rest": at_rest_after_boot, "restored": at_rest_at_end,
           "one CPU": parents_as_expected, "many CPUs": parents_as_expected}

SEEN = {
    "called": (ANYTHING_CALLED,),
    "life": (POWERED_OFF, ran(2, 2)),
    "rest": (TEXT_AT_BOOT, ran(0, 2)),
    "calls": (BETWEEN, called(2), called_back(2), registers(2), OVERWRITTEN),
    "filter": (called(2), text_of(2), text_traced()),
    "silent": (ran(0, 2),),
    "restored": (TEXT_AT_END,),
    "writer": (batches(4), LOOKS, ALIAS, ANSWERED, ENCODED),
    "refused": (REFUSED,),
    "one CPU": (ran(2, 2), printed(2)),
    "many CPUs": (ran(2, 2), printed(2)),
    "synchronised": (batches(4),),
    "schedules": (PLAYED,),
}

"""Lab 4: checks of the registers that ops and traced functions see, at every call in every boot,
and in kern/apps/entry.c."""

import errno
from itertools import pairwise

from grading.checks.checks import first_of
from grading.checks.registers import (PATTERN, kept, lone_callbacks, mistake_of, went_on, where,
                                      wrong_between)
from grading.evidence.evidence import Evidence, between, once
from grading.evidence.finding import Finding, returned
from grading.machine.observer import Record
from grading.truth.returns import HANDLERS
from grading.truth.truth import HANDS, HASH, MOST_FRAME, Call

MASK = (1 << 64) - 1
STUBS = 32  # FTRACE_OPS_MAX


def _regs(record: Record) -> tuple[int, ...]:
    """struct ftrace_regs as the callback found it. In the record it comes after four frame records.
    """
    return record.more[8:]


@once
def _calls(evidence: Evidence) -> list[Call]:
    return [call for call in evidence.truth.calls if call.callbacks]


@once
def entry_calls(evidence: Evidence) -> dict[str, Call]:
    """The three calls of entry_traced: "seen", with an op that changes nothing; "changed", with one
    that changes every argument and link; "skipped", with two ops of which the first makes it return
    at once."""
    by = {name: [call for call in _calls(evidence) if call.name == "entry_traced"
                 and call.callbacks[0].addr == evidence.kernel.symbol(name)]
          for name in ("entry_tracer", "entry_skipper")}
    looked = dict(zip(
        ("seen", "changed"), by["entry_tracer"])) if len(by["entry_tracer"]) == 2 else {}
    return {**looked, **dict(zip(("skipped",), by["entry_skipper"]))}


# ---- what the callback is given ----------------------------------------------------------------

def registers_seen(evidence: Evidence) -> Finding | None:
    """The callback sees the registers of the call."""
    for call in _calls(evidence):
        if wrong := _seen_wrong(evidence, call, call.callbacks[0]):
            return Finding(f"{call.name} was traced, and the callback's {wrong[0]}",
                           seq=call.callbacks[0].seq, mistake=wrong[1])
    return None if _calls(evidence) else Finding("no call site reached a callback")


def handler_arguments(evidence: Evidence) -> Finding | None:
    """Labs 5 and 6: an entry handler sees the registers of the call, a return handler sees the
    return value."""
    entries = {evidence.kernel.symbol(n) for n in (HANDS[0], HANDLERS[0])}
    for call in evidence.truth.calls:
        for r in call.callbacks:
            if r.addr not in entries:
                continue
            if not 0 < call.sp - r.v[2] <= MOST_FRAME:
                return Finding(f"{call.name} was traced, and its entry handler's third argument "
                               f"was {where(evidence, r.v[2])}, and not the address of the struct "
                               "ftrace_regs in ftrace_caller's frame", seq=r.seq,
                               mistake="regs-not-passed")
            if wrong := _seen_wrong(evidence, call, r):
                return Finding(f"{call.name} was traced, and its entry handler's {wrong[0]}",
                               seq=r.seq)
    for span in evidence.truth.returns.spans:
        for r in span.leaving.user_handlers if span.leaving else ():
            if span.leaving and _regs(r)[0] != span.leaving.left.v[1]:
                return Finding(f"{span.name} returned {span.leaving.left.v[1]:#x}, and its return "
                               f"handler's regs->arg[0] was {_regs(r)[0]:#x}", seq=r.seq)
    return None


def _seen_wrong(evidence: Evidence, call: Call, record: Record) -> tuple[str, str] | None:
    regs = _regs(record)
    sp, pc, fp, link = (regs[at] for at in evidence.isa.regs)
    if sp != call.sp:
        return (f"regs->sp was {sp:#x}, and not {call.sp:#x}, the sp at the call site: arguments "
                "on the stack are found from there", "sp-inside-the-frame")
    if pc != call.site.address + 4:
        return (f"regs->pc was {where(evidence, pc)}, and not "
                f"{where(evidence, call.site.address + 4)}, the address after the call site", "")
    if fp != call.fp:
        return (f"regs->fp was {fp:#x}, and not {call.fp:#x}, the caller's frame pointer",
                "sp-inside-the-frame" if fp == call.sp else "")
    if link != call.parent:
        return (f"regs->link was {where(evidence, link)}, and not {where(evidence, call.parent)}, "
                "the function's return address", "")
    return _argument_wrong(evidence, call, regs)


def _argument_wrong(evidence: Evidence, call: Call,
                    regs: tuple[int, ...]) -> tuple[str, str] | None:
    """A register that no callback changed has the same value in regs and in the function."""
    if not call.landed or regs[:len(call.arguments)] == call.arguments:
        return None
    for n, value in enumerate(call.arguments):
        unchanged = not call.landed.v[0] >> evidence.isa.arguments[n] & 1
        if unchanged and len(call.callbacks) == 1 and regs[n] != value:
            return f"regs->arg[{n}] was {regs[n]:#x}, and the caller had passed {value:#x}", ""
    return None


def callers_seen(evidence: Evidence) -> Finding | None:
    """The callback sees the right ip and parent_ip, and a stack that can be walked."""
    for call in _calls(evidence):
        for r in call.callbacks:
            if wrong := _caller_wrong(evidence, call, r):
                return Finding(f"{call.name} was traced, and the callback's {wrong[0]}", seq=r.seq,
                               mistake=wrong[1])
    return lone_callbacks(evidence) or (None if _calls(evidence)
                                        else Finding("no call site reached a callback"))


def ops_passed(evidence: Evidence) -> Finding | None:
    """A callback of kern/apps/entry.c gets an op that was registered there. One of them lies
    outside of the highest 2 GiB."""
    ops = {question.v[0] for question, _ in _registered(evidence, "entry_start")}
    for r in (r for call in entry_calls(evidence).values() for r in call.callbacks):
        if r.v[2] not in ops:
            return Finding(f"entry_traced was traced, and the callback's op was {r.v[2]:#x}. It "
                           f"must be one of {', '.join(map(hex, sorted(ops)))}, the ops that were "
                           "registered for it", seq=r.seq)
    return None


def _caller_wrong(evidence: Evidence, call: Call, record: Record) -> tuple[str, str] | None:
    ip, parent, _, _ = record.v
    if ip != call.site.address:
        return (f"ip was {where(evidence, ip)}, and not {where(evidence, call.site.address)}, the "
                "address of the word that is toggled", "ip-off-by-one-instruction")
    if parent != call.parent:
        return (f"parent_ip was {where(evidence, parent)}, and not {where(evidence, call.parent)}, "
                "the function's return address", "")
    if record is not call.callbacks[0]:
        # the records lie in struct ftrace_regs: an op before may have changed pc and link
        return None
    # the caller's frame pointer, the return address
    records = [(record.more[at], record.more[at + 1]) for at in range(0, 8, 2)]
    at = next((i for i, (_, home) in enumerate(records) if home == call.site.address + 4), None)
    if at is None:
        return ("frame records do not include the traced function's: a stack walk does not find "
                "the function", "one-frame-record")
    if at + 1 < len(records) and records[at + 1] != (call.fp, call.parent):
        seen = _regs(record)[evidence.isa.regs[0]]
        below_fp = evidence.isa.frame_record[0] < 0  # then a wrong sp makes a wrong frame record
        return ("frame records do not include that of the function's caller: a stack walk does not "
                "find the caller",
                "sp-inside-the-frame" if below_fp and seen != call.sp else "one-frame-record")
    return None


# ---- what the function finds --------------------------------------------------------------------

def registers_found(evidence: Evidence) -> Finding | None:
    """A traced function finds every register as its caller left it, and continues after its site.
    Other rungs judge what ops change."""
    if evidence.truth.between:
        return wrong_between(evidence)
    passed = sum(1 << n for n in evidence.isa.arguments)
    finding = first_of(kept(evidence, call) or went_on(evidence, call) for phase in evidence.on()
                       for call in evidence.calls(phase))
    finding = finding or first_of(
        kept(evidence, call, passed if trial.of(call.name, "add") else 0)
        for trial in evidence.trials for call in evidence.calls(trial))
    if finding:
        return finding
    if not any(call.landed for call in evidence.truth.calls if call.name == "entry_traced"):
        return Finding("entry_traced was traced and called with a pattern in every register, and "
                       "its body did not run")
    seen = entry_calls(evidence).get("seen")
    return kept(evidence, seen) if seen else None


def registers_changed(evidence: Evidence) -> Finding | None:
    """A traced function finds the registers that a callback changed with their new values."""
    call = entry_calls(evidence).get("changed")
    if not call or not call.landed:
        return Finding("entry_traced was called with a pattern in every register and with an op "
                       "that changes registers, and its body did not run")
    said = ("entry_traced was called with a pattern in every register; the callback changed every "
            "regs->arg and regs->link. The function ")
    regs = _regs(call.callbacks[0])
    for n, value in enumerate(call.arguments):
        if value != ~regs[n] & MASK:
            return Finding(f"{said}found {value:#x} as argument {n}, and not {~regs[n] & MASK:#x}",
                           seq=call.seq, mistake="change-not-loaded-back"
                           if value >> 32 == PATTERN else "argument-clobbered")
    if call.landed.v[2] != evidence.kernel.symbol("entry_elsewhere"):
        return Finding(f"{said}would return to {where(evidence, call.landed.v[2])}, and not to the "
                       "changed link", seq=call.seq, mistake="change-not-loaded-back"
                       if call.landed.v[2] == call.parent else "return-address-lost")
    wrong = evidence.lost(call,
                          1 << evidence.isa.link | sum(1 << n for n in evidence.isa.arguments[:8]))
    return Finding(f"{said}did not find {evidence.isa.names[wrong[0]]} as its caller had left it",
                   seq=call.seq, mistake=mistake_of(evidence.isa, wrong[0])) if wrong else None


# ---- what several ops do together --------------------------------------------------------------

def while_published(evidence: Evidence) -> list[Call]:
    """The traced calls of text_alias_close, which a batch calls at its end: by then the sites are
    written."""
    return [call for call in evidence.truth.calls
            if call.name == "text_alias_close" and call.word != call.site.rest]


def ready_before_sites(evidence: Evidence) -> Finding | None:
    """An op is published before a site that calls it is written."""
    for which, call, ops in zip(("alone", "after another one"), while_published(evidence), (1, 2)):
        if len(call.callbacks) < ops:
            return Finding(f"an op that traces text_alias_close, {which}, was registered. Its site "
                           "was written, ftrace_batch_end() called text_alias_close, and the op "
                           "was not called: it must be published before the sites are written",
                           seq=call.seq, mistake="published-too-late")
    return None


def switched_off(evidence: Evidence) -> list[tuple[str, Record, int]]:
    """The lines that unregistered an op whose sites were written, with the last store to the sites
    and the line's last record."""
    lines = [(line, between(evidence.truth.stores, first, last), last)
             for (first, line), (last, _) in pairwise(evidence.typed)
             if line.startswith("op ") and line.endswith(" off")]
    return [(line, stores[-1], last) for line, stores, last in lines if stores]


def return_taken(evidence: Evidence) -> Finding | None:
    """If one op makes the function return at once, and a later op replaces the link, the function
    returns through the replacement."""
    call = entry_calls(evidence).get("skipped")
    if not call or call.landed and call.landed.addr == evidence.kernel.symbol("entry_through"):
        return None
    return Finding("two ops traced entry_traced: the first set regs->pc to parent_ip, the other "
                   "then replaced regs->link. The function must return at once, to the replaced "
                   "link, and did not: the list must set regs->pc to regs->link", seq=call.seq)


def own_functions_kept(evidence: Evidence) -> Finding | None:
    """An op that may change pc does not clash with itself."""
    refused = [question for _, question, answer in evidence.truth.asked("ftrace_set_filter")
               if answer.v[0] & 0xFFFFFFFF]
    if not refused:
        return None
    return Finding(seq=refused[0].seq, why="an op that may change pc traced entry_traced alone. "
                   "Adding text_alias_close to its filter was refused, and must succeed: the "
                   "functions that the op has already (was) cannot clash with the op itself")


def _registered(evidence: Evidence, program: str) -> list[tuple[Record, Record]]:
    """Each op that this function of kern/apps/entry.c registered, and the result."""
    lo, hi = evidence.kernel.extent(program)
    return [(question, answer)
            for _, question, answer in evidence.truth.asked("register_ftrace_function")
            if lo <= question.addr < hi]


def clashes(evidence: Evidence) -> Finding | None:
    """Of two ops that may change pc and have the same function the second one is refused, whichever
    function it is."""
    for which, (question, answer) in zip(("first", "last"), _registered(evidence, "entry_clash")):
        got = answer.v[0] & 0xFFFFFFFF
        if got != -errno.EBUSY & 0xFFFFFFFF:
            return Finding(
                f"an op that may change pc had the {which} function of available_filter_functions; "
                f"another such op for the same function must be refused with "
                f"-EBUSY, and register_ftrace_function returned {returned(got)}", seq=question.seq)
    return None


def stubs_filled(evidence: Evidence) -> Finding | None:
    """An op can be registered for each stub, and no more."""
    for n, (question, answer) in enumerate(_registered(evidence, "entry_fill")):
        want = 0 if n < STUBS else -errno.ENOSPC
        if (got := returned(answer.v[0])) != returned(want):
            return Finding(f"{n} ops were registered, and there are {STUBS} stubs for ops. For "
                           f"one more register_ftrace_function must return {returned(want)}, and "
                           f"returned {got}", seq=question.seq)
    return None


def disabled_left_alone(evidence: Evidence) -> Finding | None:
    """An op that selects a function with a disabled record is registered, and the site is not
    written."""
    sites = {s.address - evidence.kernel.text[0] for s in evidence.kernel.sites
             if s.function.name == "entry_traced"}
    for question, answer in _registered(evidence, "entry_disabled"):
        said = "an op was registered for entry_traced, whose record had FTRACE_FL_DISABLED: "
        if any(r.v[0] in sites for r in between(evidence.truth.stores, question.seq, answer.seq)):
            return Finding(said + "the call site was written, and must never be written again",
                           seq=question.seq, mistake="disabled-site-written")
        if answer.v[0] & 0xFFFFFFFF:
            return Finding(
                said + f"register_ftrace_function returned {returned(answer.v[0])}, and must "
                "return 0: the op is registered without that function", seq=question.seq)
    return None


def hash_right(evidence: Evidence) -> Finding | None:
    """A hash has the functions that were put into it, and counts each once. kern/apps/entry.c puts
    each into it twice, and looks for others, too."""
    added, asked = set[int](), evidence.truth.asked(*HASH)
    said = "functions that belong into the last slot were put into a hash, each twice. "
    for name, question, answer in asked:
        offset = question.v[1] & 0xFFFFFFFF
        if name == HASH[0]:
            added.add(offset)
        elif name == HASH[2] and question.v[0] != len(added):
            return Finding(f"{said}Its count must be {len(added)}, and is {question.v[0]}",
                           seq=question.seq)
        elif name == HASH[1] and bool(answer.v[0] & 0xFF) != (offset in added):
            return Finding(f"{said}ftrace_hash_search for "
                           f"{'one of them' if offset in added else 'another function'} returned "
                           f"{str(offset not in added).lower()}", seq=question.seq)
    return None if asked else Finding("no function was put into a hash")

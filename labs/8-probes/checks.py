"""Lab 8: the check of each rung, and the mistakes that it names. Its own checks are about probed
instructions. Each must be executed once, out of line, between its handlers."""

from __future__ import annotations

import errno
from collections import Counter
from typing import NamedTuple

from grading.checks.checks import (Check, all_of, executed_as_expected, lives, rest_at_boot,
                                   right_result, within)
from grading.checks.console_checks import (at_rest_at_end, lives_and_traces, probes_printed,
                                           returns_printed)
from grading.checks.integrity import as_linked, words_stored
from grading.checks.probe_schedules import PATCH, patches_under_schedules, probes_under_schedules
from grading.checks.schedule_checks import PLAYED
from grading.checks.seen import (POWERED_OFF, TEXT_AT_BOOT, TEXT_AT_END, Amount, Coverage, once as
                                 seen_once, ran)
from grading.evidence.evidence import Evidence, between, once
from grading.evidence.finding import Finding, returned
from grading.machine.observer import Kind, Record
from grading.session.line_parts import ProbeLineSession
from grading.session.probe_session import STAYS, ProbeSession
from grading.stimulus.schedules import Change
from grading.truth import probes
from grading.truth.probes import AFTER, BEFORE, StepsCall
from grading.truth.returns import ends as ends_of

SESSION, ON_LINE = ProbeSession, ProbeLineSession
HIT, OUT, EMULATED, POST = "hit", "out of line", "emulated", "after"
ALL, GOING = "probes", "come and go"  # parts of the boot


def hits(evidence: Evidence, part: str) -> list[Record]:
    """The records about probes in this part of the boot, in order."""
    return (
        between(evidence.truth.hits["step"], *evidence.parts[part])
        if part in evidence.parts
        else []
    )


# ---- each instruction of probe_steps -------------------------------------------------------

class Deviation(NamedTuple):
    """What is wrong with a call of probe_steps, and the rung that judges it."""

    rung: str
    finding: Finding


@once
def _steps(evidence: Evidence) -> list[StepsCall]:
    last = evidence.parts.get("steps", (0, 1 << 62))
    return probes.calls_of_steps(evidence.kernel, between(evidence.truth.hits["step"], *last))


class _Compared:
    """Compares a call of probe_steps in which instructions were probed with one in which none was.
    """

    def __init__(self, evidence: Evidence, plain: StepsCall, call: StepsCall) -> None:
        self._e, self._call, self._left = evidence, call, call.hits
        self._plain = [(r.addr, r.v[:3]) for r in plain.hits]
        self._first, self._last = (
            probes.slots(evidence.kernel).start,
            probes.slots(evidence.kernel).stop,
        )
        self._result = plain.result
        # if the last instruction was probed: the rung that judges where the CPU continued after it
        self._done = ""

    def wrong(self) -> Deviation | None:
        for n, (at, regs) in enumerate(self._plain):
            self._done = self._way(self._plain[n - 1][0]) if n else ""
            after = self._plain[n + 1][1] if n + 1 < len(self._plain) else None
            if self._call.is_probed(at):
                found = self._probed(at, regs, after)
            else:
                found = self._unprobed(at, regs)
            if found:
                return found
        if self._left:
            return self._said(OUT, "another instruction was executed after its last one",
                              self._left[0])
        if self._call.result != self._result:
            said = (
                "it did not return" if self._call.result is None else
                f"its result and the word that it stored are {_hex(self._call.result)}, and must "
                f"be {_hex(self._result or ())}"
            )
            return self._said(OUT, said, None)
        return None

    def _way(self, at: int) -> str:
        if not self._call.is_probed(at):
            return ""
        return EMULATED if self._e.isa.depends_on_pc(self._e.kernel.word(at)) else OUT

    def _said(self, rung: str, why: str, at: Record | None, mistake: str = "") -> Deviation:
        kernel = self._e.kernel
        what = "all instructions of probe_steps were probed" if self._call.probed == 1 else (
            f"the instruction {kernel.disassemble(self._call.probed)} at "
            f"{kernel.name_at(self._call.probed)} was probed"
            + ("", ", with a post handler",
               " by two probes, the second with a post handler")[self._call.how])
        return Deviation(
            rung, Finding(f"{what}: {why}", seq=at.seq if at else self._call.seq, mistake=mistake))

    def _next(self) -> Record | None:
        if not self._left:
            return None
        found, self._left = self._left[0], self._left[1:]
        return found

    def _in_slot(self, record: Record | None) -> bool:
        return bool(record and self._first <= record.addr < self._last)

    def _describe(self, record: Record | None) -> str:
        return (
            f"{self._e.kernel.name_at(record.addr)} was executed, the word {record.word:08x} "
            f"({self._e.kernel.disassemble(record.addr, record.word)})"
            if record else "nothing more was executed")

    def _unprobed(self, at: int, regs: tuple[int, ...]) -> Deviation | None:
        r, name = self._next(), self._e.kernel.name_at(at)
        if not r or r.addr != at:
            return self._said(self._done or OUT,
                              f"next {name} must be executed; {self._describe(r)}", r)
        if r.v[:3] != regs:
            return self._said(
                self._done or OUT,
                f"{name} found the registers {_hex(r.v)}, and must find {_hex(regs)}", r)
        return None

    def _probed(self, at: int, regs: tuple[int, ...],
                after: tuple[int, ...] | None) -> Deviation | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not r or r.addr != at or r.word != e.isa.brk:
            return self._said(self._done if self._done and r and r.addr != at else HIT,
                              f"a breakpoint must be executed at {name}; {self._describe(r)}", r)
        if r.v[:3] != regs:
            return self._said(
                self._done or OUT,
                f"at {name} the registers were {_hex(r.v)}, and must be {_hex(regs)}", r)
        for _ in range(2 if self._call.how == probes.TWO else 1):
            r = self._next()
            if not r or r.addr != e.kernel.symbol(BEFORE):
                return self._said(
                    HIT,
                    f"the breakpoint at {name} was executed, and then the pre handler must run; "
                    f"{self._describe(r)}",
                    r)
            if r.v[1:3] != (at, regs[0]):
                return self._said(
                    HIT,
                    f"the pre handler must find {name} and the value {regs[0]:#x} in the first "
                    f"argument register, and found {e.kernel.name_at(r.v[1])} "
                    f"and {r.v[2]:#x}", r)
        post, word = self._call.has_post(e.kernel, at), e.kernel.word(at)
        if not e.isa.depends_on_pc(word):
            return self._out_of_line(at, regs, after, post)
        if self._in_slot(self._left[0] if self._left else None):
            return self._said(
                EMULATED,
                f"{name} depends on pc, so it must be emulated; {self._describe(self._left[0])}",
                self._left[0])
        return self._post(at, after) if post else None

    def _out_of_line(self, at: int, regs: tuple[int, ...], after: tuple[int, ...] | None,
                     post: bool) -> Deviation | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not self._in_slot(r):
            again = ("executed-twice"
                     if r and r.addr == at else "skipped" if r and r.addr == at + 4 else "")
            return self._said(
                OUT,
                f"after the handlers of {name} a copy of the instruction must be executed in a "
                f"slot; {self._describe(r)}",
                r, again)
        assert r
        if r.word != e.kernel.word(at):
            return self._said(
                OUT, f"the slot of {name} must hold a copy of the instruction; {self._describe(r)}",
                r, "slot-not-written" if r.word == e.isa.brk else "")
        if r.v[:3] != regs:
            return self._said(
                OUT,
                f"in its slot the instruction of {name} found the registers {_hex(r.v)}, and must "
                f"find {_hex(regs)}",
                r)
        slot, r = r.addr, self._next()
        if not r or r.addr != slot + 4:
            return self._said(
                OUT,
                f"after the copy in its slot, the slot's second word must be executed; "
                f"{self._describe(r)}",
                r)
        is_break = r.word == e.isa.brk
        if post and not is_break:
            return self._said(
                POST,
                f"the probe at {name} has a post handler, and its slot jumps back: there must be a "
                f"breakpoint after the copy",
                r, "jump-with-a-post-handler")
        found = self._post(at, after) if post else None
        nxt = self._left[0] if self._left else None
        if not found and nxt and nxt.addr == at:
            return self._said(
                OUT, f"the copy of {name} was executed in its slot, and then {name} again", nxt,
                "executed-twice")
        return found

    def _post(self, at: int, after: tuple[int, ...] | None) -> Deviation | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not r or r.addr != e.kernel.symbol(AFTER):
            return self._said(
                POST,
                f"after the instruction of {name} its post handler must run; {self._describe(r)}",
                r)
        if r.v[1] != at:
            return self._said(
                POST,
                f"the post handler of {name} must find that address in regs->ip, and found "
                f"{e.kernel.name_at(r.v[1])}",
                r, "pc-of-the-slot" if r.v[1] in probes.slots(e.kernel) else "")
        if after and r.v[2] != after[0]:
            return self._said(
                POST,
                f"after the instruction of {name} the first argument register is {after[0]:#x}, "
                f"and the post handler found {r.v[2]:#x}",
                r)
        return None


def _hex(values: tuple[int, ...]) -> str:
    return ", ".join(f"{v:#x}" for v in values[:3])


@once
def _wrong(evidence: Evidence) -> list[Deviation]:
    calls = _steps(evidence)
    if not calls or calls[0].probed:
        return []
    return [found for call in calls[1:] if (found := _Compared(evidence, calls[0], call).wrong())]


def _of_rung(rung: str) -> Check:
    return lambda e: next((w.finding for w in _wrong(e) if w.rung == rung), None)


# ---- probes on the workload ---------------------------------------------------------------

class Counted(NamedTuple):
    number: int
    at: int
    executed: int
    handled: int
    hits: int  # by the program's own count, and the kernel's
    missed: int


@once
def _counted(evidence: Evidence, part: str) -> list[Counted]:
    """The counts of each probe that stayed registered during the whole part."""
    log = hits(evidence, part)
    executed = Counter(r.addr for r in log if r.word == evidence.isa.brk)
    handled = Counter(r.v[0] for r in log if r.addr == evidence.kernel.symbol(BEFORE))
    stay = evidence.probed if part == ALL else evidence.probed[:STAYS]
    # they are unregistered last, the first one last of all
    said = [r.v for r in probes.said(evidence.kernel, log, probes.COUNTS)][:-len(stay) - 1:-1]
    return [
        Counted(n, at, executed[at], handled[n], v[1], v[2])
        for (n, at), v in zip(enumerate(stay), said)
    ]


def counted(evidence: Evidence, part: str) -> Finding | None:
    """Each probe on the workload is hit, handled and counted as often as the seed asks for."""
    phase = next((p for p in evidence.phases if p.name == part), None)
    if not phase:
        return Finding("no workload ran with probes on its instructions")
    wrong = executed_as_expected(evidence, phase)
    if wrong:
        return within(phase, wrong)
    expected = Counter(call.function for calls in evidence.expected(phase).contexts.values()
                       for call in calls)
    for c in _counted(evidence, part):
        function = evidence.kernel.name_at(c.at).partition("+")[0]
        rows = [str(n) for n in (expected[function], c.executed, c.handled, c.hits)]
        if len(set(rows)) > 1 or c.missed:
            return Finding(
                f"{phase.name}: probe {c.number} is at {evidence.kernel.name_at(c.at)}, "
                f"{evidence.kernel.disassemble(c.at)}. By the seed it is executed {rows[0]} times; "
                f"the "
                f"breakpoint was executed {rows[1]} times, the handler ran {rows[2]} times, and "
                f"{rows[3]} hits and {c.missed} missed hits were counted",
                began=phase.first)
    return None


@once
def _came(evidence: Evidence) -> list[Record]:
    """Stores into the workload's probed instructions while probes are registered and unregistered.
    """
    text, first, last = evidence.kernel.text[0], *evidence.parts.get(GOING, (0, 0))
    return [
        r
        for r in between(evidence.truth.stores, first, last)
        if text + r.v[0] & ~3 in evidence.probed
    ]


def came_and_went(evidence: Evidence) -> Finding | None:
    """Every word that is written to a probed instruction is the breakpoint or the instruction, and
    the kernel counts each hit whose handler ran."""
    for r in _came(evidence):
        at = evidence.kernel.text[0] + r.v[0]
        if r.size != 4 or r.v[1] not in (evidence.isa.brk, evidence.kernel.word(at)):
            return Finding(
                f"{r.size} bytes, {r.v[1]:#x}, were written to the probed instruction "
                f"{evidence.kernel.name_at(at)}: only the whole instruction or a whole breakpoint "
                f"may be written",
                seq=r.seq)
    log = hits(evidence, GOING)
    handled = Counter(r.v[0] for r in log if r.addr == evidence.kernel.symbol(BEFORE))
    told = sum(r.v[1] for r in probes.said(evidence.kernel, log, probes.COUNTS))
    if told != sum(handled.values()):
        return Finding(
            f"while probes were registered and unregistered, their handlers ran "
            f"{sum(handled.values())} times, and {told} hits were counted",
            began=evidence.parts[GOING][0])
    return None


def _no_point(did: str, seq: int | None) -> Finding:
    return Finding(
        "a CPU took a breakpoint, and before it could look for the point, the probe was "
        "unregistered and the instruction was written back. Then break_hook->hit must return true "
        f"and leave pc alone; {did}", seq=seq, mistake="found-nothing-dies")


def ended_there(evidence: Evidence) -> Finding | None:
    """A finding if the boot ended while break_hook->hit looked for a point that was removed."""
    began, line = evidence.typed[-1] if evidence.typed else (0, "")
    said = probes.said(evidence.kernel, between(evidence.truth.hits["step"], began, 1 << 62),
                       probes.STALE)
    if not evidence.why or line != "probe stale" or any(said):
        return None
    return _no_point(f"it did not return: {evidence.ending()}", None)


def stale(evidence: Evidence) -> Finding | None:
    """If a breakpoint has been removed when its exception is handled, the instruction is executed.
    A breakpoint that is no probe's is left to the kernel."""
    for r in probes.said(evidence.kernel, hits(evidence, "stale"), probes.STALE):
        if r.v[1:3] != (1, 0):
            return _no_point(f"it returned {'true' if r.v[1] else 'false'} and moved pc by "
                             f"{probes.signed(r.v[2])}", r.seq)
    for r in probes.said(evidence.kernel, hits(evidence, "stale"), probes.NOBODYS):
        if r.v[1]:
            return Finding(
                "break_hook->hit was called for a breakpoint that belongs to no probe, and "
                "returned true. It must return false: then the kernel panics; otherwise the CPU "
                "executes the breakpoint again and again",
                seq=r.seq, mistake="nobodys-breakpoint-taken")
    return None


# ---- order ----------------------------------------------------------------------------------

@once
def _freed_slots(evidence: Evidence) -> list[Record]:
    """The stores that release a slot."""
    owners = evidence.kernel.symbol("kprobe_slot_owner")
    return [w for w in evidence.truth.writes
            if owners <= w.v[0] < owners + 8 * probes.SLOTS and not w.v[1]]


def slot_first(evidence: Evidence) -> Finding | None:
    """When a breakpoint is written, a slot already holds a copy of the instruction, and a jump back
    or a breakpoint after it. While the breakpoint is there, only the second word changes."""
    kernel, lo, slots = evidence.kernel, evidence.kernel.text[0], probes.slots(evidence.kernel)
    held = dict.fromkeys(slots, evidence.isa.brk)  # as they are linked
    mine = {*probes.own(kernel), *evidence.probed}
    armed = dict[int, int]()  # the instructions under breakpoints, by their addresses
    owned = set[int]()  # the slots whose first word was written for the present owner
    same = 0  # the first word of a slot, if the last store has not changed it
    for r in sorted([*evidence.truth.stores, *_freed_slots(evidence)]):
        at = lo + r.v[0]
        if r.kind == Kind.WRITE:
            owned.discard(slots.start + r.v[0] - kernel.symbol("kprobe_slot_owner"))
        elif at in held:
            if at in owned and held[at] != r.v[1] and held[at] in armed.values():
                return Finding(
                    f"the copy of {kernel.disassemble(at, held[at])} in the slot "
                    f"{kernel.name_at(at)} was replaced while the breakpoint was in its place: "
                    "when a probe is added to an armed point, a CPU may be about to execute the "
                    "copy, so only the slot's second word may change",
                    seq=r.seq)
            if (at - slots.start) % 8 == 0:
                owned.add(at)
            if held[at] == r.v[1] and same == at - 4:
                return Finding(
                    f"both words of the slot {kernel.name_at(same)} were right already, and were "
                    f"written again: if they are right, write nothing",
                    seq=r.seq)
            same = at if held[at] == r.v[1] and (at - slots.start) % 8 == 0 else 0
            held[at] = r.v[1]
        elif at in mine and r.v[1] != evidence.isa.brk:
            armed.pop(at, None)
        elif at in mine and not evidence.isa.depends_on_pc(kernel.word(at)):
            armed[at] = kernel.word(at)
            if not _has_slot(evidence, held, at):
                return Finding(
                    f"the breakpoint was written to {kernel.name_at(at)} before a slot held "
                    f"{kernel.disassemble(at)} and the word after it: a CPU that executes "
                    "the breakpoint now finds another instruction", seq=r.seq,
                    mistake="armed-before-the-slot")
    return None


def written_once(evidence: Evidence) -> Finding | None:
    """A breakpoint that stays is not removed, even for a moment."""
    kernel, lo, slots = evidence.kernel, evidence.kernel.text[0], probes.slots(evidence.kernel)
    for begin, end in _windows(evidence, probes.UPDATES, evidence.truth.hits["step"]):
        words = dict[int, int]()
        for r in between(evidence.truth.stores, begin.seq, end.seq):
            at = lo + r.v[0]
            if at not in slots and words.setdefault(at, r.v[1]) != r.v[1]:
                return Finding(
                    f"one call of {probes.UPDATES} wrote {kernel.disassemble(at, words[at])} and "
                    f"then {kernel.disassemble(at, r.v[1])} to {kernel.name_at(at)}: a CPU that "
                    "executes it in between executes another instruction", seq=r.seq)
    return None


def far_slot(evidence: Evidence) -> Finding | None:
    """If the jump back does not reach, a breakpoint is after the copy."""
    kernel = evidence.kernel
    for r in probes.said(kernel, hits(evidence, "steps"), probes.FAR):
        want = kernel.word(probes.steps(kernel).start) | evidence.isa.brk << 32
        if r.v[1] or r.v[2] != want:
            return Finding(
                f"kprobe_update_point was called for a point whose slot is 1 GiB away. It must "
                f"return 0 and write {want & 0xFFFFFFFF:08x} and {want >> 32:08x} into the slot, "
                f"the copy and a breakpoint, as no jump reaches so far. It returned "
                f"{probes.signed(r.v[1])}, and the slot has {r.v[2] & 0xFFFFFFFF:08x} and "
                f"{r.v[2] >> 32:08x}", seq=r.seq)
    return None


def _has_slot(evidence: Evidence, held: dict[int, int], at: int) -> bool:
    slots = probes.slots(evidence.kernel)
    for copy in range(slots.start, slots.stop, 8):
        jump = evidence.kernel.isa.jump(copy + 4, held[copy + 4])
        if held[copy] == evidence.kernel.word(at) and (
            held[copy + 4] == evidence.isa.brk or jump == (at + 4, 0)
        ):
            return True
    return False


def slot_kept(evidence: Evidence) -> Finding | None:
    """A slot is freed only after a grace period that began when the breakpoint was removed and the
    point unlinked."""
    buckets = evidence.kernel.extent("kprobe_buckets")
    mine = {*probes.own(evidence.kernel), *evidence.probed}
    for r in _freed_slots(evidence):
        graces = [
            g.seq for g in evidence.truth.hits["synchronize_sched"]
            if g.thread == r.thread and g.seq < r.seq
        ]
        before = [
            s.seq for s in evidence.truth.stores
            if s.seq < r.seq and evidence.kernel.text[0] + s.v[0] in mine
        ] + [
            w.seq for w in evidence.truth.writes
            if w.seq < r.seq and w.thread == r.thread and buckets[0] <= w.v[0] < buckets[1]
        ]
        if not graces or graces[-1] < max(before, default=0):
            return Finding(
                "a slot was freed, and no grace period had passed since its breakpoint was removed "
                "and its point was unlinked: a CPU may still be in the slot, "
                "or on its way there", seq=r.seq, mistake="slot-freed-at-once")
    return None


@once
def _frees(evidence: Evidence) -> list[tuple[Record, Record]]:
    """Each call of kprobe_wait_and_free: its first instruction, with the point and `unused`, and
    its end."""
    return _windows(evidence, probes.FREES, evidence.truth.hits["step"])


def freed_in_time(evidence: Evidence) -> Finding | None:
    """After a probe was unlinked, a grace period passes before kprobe_wait_and_free returns. A
    point is unlinked before it, and freed after it."""
    frees, buckets = _frees(evidence), evidence.kernel.extent("kprobe_buckets")
    for n, (begin, end) in enumerate(frees):
        point, unused = begin.v[0], begin.v[1] & 0xFF
        # a tail call
        is_last = 0 != evidence.kernel.jumps_to(
            end.addr) == evidence.kernel.symbol("synchronize_sched")
        grace = max((g.seq
                     for g in between(evidence.truth.hits["synchronize_sched"], begin.seq, end.seq)
                     if g.thread == begin.thread), default=end.seq if is_last else 0)
        if not grace:
            return Finding(
                f"{probes.FREES} returned for a point that "
                f"{'has no probe left' if unused else 'has another probe'}, and no grace period "
                f"had passed: a CPU may still "
                "use the probe that was unregistered", seq=end.seq)
        unlinked = [
            w.seq for w in between(evidence.truth.writes, begin.seq, end.seq)
            if w.thread == begin.thread and buckets[0] <= w.v[0] < buckets[1]
        ]
        freed = next((f.seq for f in between(evidence.truth.hits["kfree"], begin.seq, 1 << 62)
                      if f.thread == begin.thread and f.v[0] == point), 0)
        following = next((later.seq for later, _ in frees[n + 1:] if later.v[0] == point), 1 << 62)
        if unused and not 0 < freed < following:
            return Finding("a point had no probe left, and its memory was not freed", seq=end.seq)
        if unused and (freed < grace or max(unlinked, default=0) > grace):
            return Finding(
                "a point had no probe left. It must be unlinked, then a grace period must pass, "
                "then it is freed: a CPU may still use it",
                seq=min(freed, end.seq))
    return None


def released(evidence: Evidence) -> Finding | None:
    """When a point on the workload is freed, its slot is released."""
    frees = _frees(evidence)
    ends = [*(begin.seq for begin, _ in frees[1:]), 1 << 62]
    for (begin, end), following in zip(frees, ends):
        there = any(first <= begin.seq < last
                    for part, (first, last) in evidence.parts.items() if part in (ALL, GOING))
        if there and begin.v[1] & 0xFF and not between(_freed_slots(evidence), begin.seq,
                                                       following):
            return Finding(
                "a point had no probe left and was freed, and its slot was not released "
                f"(kprobe_slot_owner): after {probes.SLOTS} such points no probe can be registered",
                seq=end.seq, mistake="slot-not-released")
    return None


def armed_after_errors(evidence: Evidence) -> Finding | None:
    """If kprobe_write refuses, its error is returned, and the point is as armed as it was before.
    """
    first, last = evidence.parts.get("overwritten", (0, 0))
    at, brk = probes.steps(evidence.kernel).start, evidence.isa.brk
    frees = [begin for begin, _ in _frees(evidence) if first <= begin.seq < last]
    if not frees:
        return None
    written = any(evidence.kernel.text[0] + r.v[0] == at and r.v[1] == brk
                  for r in between(evidence.truth.stores, first, frees[0].seq))
    enabled = [
        (r.seq, probes.signed(r.v[2]))
        for r in probes.said(evidence.kernel, hits(evidence, "overwritten"), probes.ENABLED)
    ]
    if enabled and enabled[0][1] != -errno.EINVAL:
        return Finding(
            "a disabled probe was enabled, and another word was in the place of its instruction. "
            "So kprobe_write returned -EINVAL, which kprobe_update_point must return; "
            f"enable_kprobe returned {returned(enabled[0][1])}", seq=enabled[0][0])
    if not written:
        return Finding(
            "a disabled probe was enabled twice. The first time another word was in the place of "
            "its instruction, so kprobe_write returned an error. The second time the instruction "
            "was there again, and no breakpoint was written: after an error pt->armed must stay as "
            "it was",
            seq=frees[0].seq, mistake="armed-after-an-error")
    if frees[0].v[1] & 0xFF:
        return Finding(
            "a probe was unregistered while another word was in the place of its breakpoint, so "
            "kprobe_write returned an error. Then the point counted as not armed, and was freed: "
            "after an error pt->armed must stay as it was",
            seq=frees[0].seq, mistake="armed-after-an-error")
    return None


# ---- traps ------------------------------------------------------------------------------------

TRAPS = {
    probes.SECOND_WORD: "the instruction enables interrupts while one is pending, which is then "
                        "taken before the slot's second word",
    probes.FIRST_WORD: "an interrupt is pending when the copy is about to be executed",
    probes.FAULT: "the copy faults, and the fault's handler repairs the address",
    probes.NO_TRAP: "it was called again after these traps",
    probes.PLAIN_FAULT: "the probe was then unregistered, and the load faults"
}
WORD = 0x5A5A1234  # what probe_trapped loads


@once
def _trapped(evidence: Evidence) -> list[tuple[Record, list[Record]]]:
    """Each call of probe_trapped, by the record of its result, with all that was logged before."""
    found, before = list[tuple[Record, list[Record]]](), list[Record]()
    for r in hits(evidence, "traps"):
        if r.addr == evidence.kernel.symbol(probes.SAID) and r.v[0] == probes.TRAPPED:
            found.append((r, before))
            before = []
        else:
            before.append(r)
    return found


def _in_slots(evidence: Evidence, log: list[Record]) -> list[Record]:
    """The traps that were taken in a slot."""
    return [
        r
        for r in probes.said(evidence.kernel, log, probes.TRAP)
        if r.v[1] in probes.slots(evidence.kernel)
    ]


def traps(evidence: Evidence) -> Finding | None:
    """The handler of a trap in a slot finds the original pc, that of another trap finds pc, and the
    instruction is executed afterwards."""
    first, slots = evidence.kernel.symbol("probe_trapped_first"), probes.slots(evidence.kernel)
    for n, (end, all_of_it) in enumerate(_trapped(evidence)):
        log = [
            r for r in all_of_it if r.addr not in (evidence.kernel.symbol(BEFORE),
                                                   evidence.kernel.symbol(AFTER)) or r.v[0] == 0
        ]
        trap, post = end.v[1], n >= len(TRAPS)
        at = first if trap == probes.SECOND_WORD else first + 4
        which = (
            f"{evidence.kernel.disassemble(at)} at {evidence.kernel.name_at(at)} was "
            f"probed{' with a post handler' if post else ''}; {TRAPS[trap]}"
        )
        for r in probes.said(evidence.kernel, log, probes.TRAP):
            original = at + (r.v[1] - slots.start) % 8 if r.v[1] in slots else r.v[1]
            if r.v[2] != original:
                return Finding(
                    f"{which}. The trap interrupted {evidence.kernel.name_at(r.v[1])}; its handler "
                    f"must find {evidence.kernel.name_at(original)}, and found "
                    f"{evidence.kernel.name_at(r.v[2])}",
                    seq=r.seq, mistake="pc-of-the-slot" if r.v[2] in slots else "")
        if end.v[2] != WORD:
            return Finding(
                f"{which}. Then the instructions after it must be executed, and probe_trapped must "
                f"return {WORD:#x}; it returned {end.v[2]:#x}",
                seq=end.seq, mistake="fault-taken-for-a-breakpoint" if trap == probes.FAULT else "")
        ran = [sum(r.addr == evidence.kernel.symbol(name) for r in log) for name in (BEFORE, AFTER)]
        want = [0, 0] if trap == probes.PLAIN_FAULT else [1, int(post)]
        if ran != want:
            return Finding(
                f"{which}. For this call the pre handler ran {ran[0]} times and the post handler "
                f"{ran[1]} times, and must run {want[0]} and {want[1]} times",
                seq=end.seq)
        for r in probes.said(evidence.kernel, all_of_it, probes.MASKED):
            masked = trap == probes.SECOND_WORD or r.v[1] == 1
            if r.v[2] != masked:
                return Finding(
                    f"{which}. In the code that hit probe {r.v[1]} interrupts were "
                    f"{'masked' if masked else 'enabled'}, and kprobe_irqs_off() said "
                    f"{bool(r.v[2])}",
                    seq=r.seq)
        inner = sum(r.addr == evidence.kernel.symbol(BEFORE) and r.v[0] == 1 for r in all_of_it)
        if trap in (probes.FAULT, probes.PLAIN_FAULT) and inner != 1:
            return Finding(
                f"{which}. The fault's handler calls probe_inner, which is probed, too. It is not "
                f"the handler of a probe, so this hit must be handled; its handler ran {inner} "
                f"times",
                seq=end.seq)
    return None


def next_pc(evidence: Evidence) -> Finding | None:
    """A post handler finds the next instruction in trap->pc."""
    ends = [end for end, _ in _trapped(evidence)]
    for r in probes.said(evidence.kernel, hits(evidence, "traps"), probes.NEXT):
        trap = next((end.v[1] for end in ends if end.seq > r.seq), probes.SECOND_WORD)
        want = evidence.kernel.symbol("probe_trapped_first") + (
            4 if trap == probes.SECOND_WORD else 8)
        if r.v[2] != want:
            return Finding(
                f"the post handler of {evidence.kernel.disassemble(want - 4)} must find the next "
                f"instruction, {evidence.kernel.name_at(want)}, in regs->trap->pc, and found "
                f"{evidence.kernel.name_at(r.v[2])}",
                seq=r.seq, mistake="pc-of-the-slot" if r.v[2] in probes.slots(evidence.kernel)
                else "")
    return None


def insns(evidence: Evidence) -> Finding | None:
    """break_hook->insn returns the instruction under a breakpoint; at a call site, the word that is
    there."""
    for r in probes.said(evidence.kernel, hits(evidence, "steps"), probes.INSN):
        at, got, there = r.v[1], r.v[2] & 0xFFFFFFFF, r.v[2] >> 32
        want = evidence.kernel.word(at) if there == evidence.isa.brk else there
        if got != want:
            return Finding(
                f"break_hook->insn was asked for the instruction at {evidence.kernel.name_at(at)}, "
                f"which is probed; it must be {evidence.kernel.disassemble(at, want)}, and was "
                f"{evidence.kernel.disassemble(at, got)}", seq=r.seq)
    return None


# ---- moves ------------------------------------------------------------------------------------

@once
def _moved(evidence: Evidence, emulated: bool) -> list[tuple[StepsCall, list[Record]]]:
    """Each call of probe_steps in which a pre handler changed pc, with what was logged from the
    breakpoint on."""
    found = []
    for call in probes.calls_of_steps(evidence.kernel, hits(evidence, "moves")):
        at = next((n for n, r in enumerate(call.hits)
                   if (r.addr, r.word) == (call.probed, evidence.isa.brk)), None)
        if (
            at is not None
            and evidence.isa.depends_on_pc(evidence.kernel.word(call.probed)) == emulated
        ):
            found.append((call, call.hits[at:]))
    return found


def moved(emulated: bool) -> Check:
    """If a pre handler changed pc, the CPU goes on there: neither the instruction nor a post
    handler runs."""
    def wrong(evidence: Evidence) -> Finding | None:
        kernel = evidence.kernel
        for call, log in _moved(evidence, emulated):
            r, target = log[2] if len(log) > 2 else None, call.probed + 8
            if not r or (r.addr, r.word, r.v[:3]) != (target, kernel.word(target), log[0].v[:3]):
                return Finding(
                    f"the pre handler of {kernel.disassemble(call.probed)} at "
                    f"{kernel.name_at(call.probed)} set pc to {kernel.name_at(target)} and "
                    f"returned true, in a probe "
                    "with KPROBE_FLAG_IPMODIFY. Then the CPU must go on there with the same "
                    "registers; "
                    + (f"next {kernel.name_at(r.addr)} was executed"
                       if r else "nothing more was executed"), seq=call.seq)
        return None
    return wrong


# ---- nested -----------------------------------------------------------------------------------

NESTING = (
    "the handler of another probe", "the handler of a probe at a function's entry",
    "a tracer's callback in a thread; another of the calls was made by an interrupt in the "
    "callback, which "
    "does not count as a hit within a hit", "the post handler of another probe")


def nested(evidence: Evidence) -> Finding | None:
    """probe_inner is called three times, once of them within another hit. There are several ways to
    such a hit. A hit leaves the bits of the interrupted contexts as they were."""
    for r in probes.said(evidence.kernel, hits(evidence, "nested"), probes.CONTEXT):
        if r.v[1] != r.v[2]:
            return Finding(
                f"a tracer's callback ran with cpu->recursion {r.v[1]:#x}, and an interrupt hit a "
                f"probe; afterwards recursion was {r.v[2]:#x}. After the handlers only "
                "EXCEPTION_BIT may be cleared: a probe that the callback hits later must still be "
                "missed",
                seq=r.seq, mistake="context-forgotten" if r.v[1] & ~r.v[2] else "")
    marks = list(probes.said(evidence.kernel, hits(evidence, "nested"), probes.NESTED))
    ends = [*(r.seq for r in marks[1:]), evidence.parts.get("nested", (0, 0))[1]]
    return next(
        (found for mark, end in zip(marks, ends) if (found := _nested_wrong(evidence, mark, end))),
        None)


def _nested_wrong(evidence: Evidence, mark: Record, end: int) -> Finding | None:
    log = between(hits(evidence, "nested"), mark.seq, end)
    at, slots = evidence.kernel.symbol("probe_inner_first"), probes.slots(evidence.kernel)
    probed = evidence.kernel.word(at)
    breaks = sum(r.word == evidence.isa.brk and r.addr == at for r in log)
    copies = sum(r.word == probed and r.addr in slots for r in log)
    ran = [
        sum(r.addr == evidence.kernel.symbol(name) and r.v[0] == 1 for r in log)
        for name in (BEFORE, AFTER)
    ]
    missed = [r.v[2] for r in probes.said(evidence.kernel, log, probes.COUNTS)]
    if breaks < 3 or not missed:
        return Finding(
            f"probe_inner was to be called three times with a probe; its breakpoint was executed "
            f"{breaks} times",
            seq=mark.seq)
    which = (
        f"probe_inner was called three times, once by {NESTING[mark.v[1]]}. For the call within "
        f"another hit its handlers must not run, and nmissed must count it"
    )
    if ran != [2, 0 if mark.v[1] == 3 else 2]:
        return Finding(
            f"{which}; its pre handler ran {ran[0]} times and its post handler {ran[1]} times; "
            f"each handler that it has must run twice",
            seq=mark.seq, mistake="handlers-nest" if max(ran) > 2 else "")
    if copies != 3:
        return Finding(
            f"{which}; its instruction was executed {copies} times, and must be three times",
            seq=mark.seq)
    if missed[-1] != 1 or any(missed[:-1]):
        return Finding(
            f"{which}; nmissed is {missed[-1]}, and must be 1" +
            "".join(f"; of the other probe it is {m}, and must be 0" for m in missed[:-1]),
            seq=mark.seq, mistake="missed-not-counted" if not missed[-1] else "")
    return None


# ---- returns ----------------------------------------------------------------------------------

class Part(NamedTuple):
    """What `probe returns` does with one kretprobe, or two: what their handlers must find, and
    nmissed of each."""

    what: str
    function: str  # the caller of its first call is where all returns go, if `home`
    values: list[int]
    missed: list[int]
    data: list[int] = []  # the last word of each instance's data


def _parts(seed: int, cpus: int) -> list[Part]:
    chosen = max(10, 2 * cpus)
    deep = [n * (n + 1) // 2 for n in (2, 3, 4)]
    tail = ((seed & 0xFF) ^ 1) + 2
    return [
        Part("probe_value was called 6 times", "probe_value",
             [3 * (seed + i) + 1 for i in range(6)], [0]),
        Part("probe_deep(4), which calls itself, was called twice with maxactive 3", "probe_deep",
             deep + deep, [4]),
        Part(
            "probe_value was called with 0 to 9, and the entry handler said no to the odd ones; "
            "maxactive is 2",
            "probe_value", [3 * x + 1 for x in range(0, 10, 2)], [0]),
        Part("probe_outer was called, which ends in a tail call of probe_tail; both are probed",
             "probe_outer", [tail, tail], [0, 0]),
        Part("two threads exited inside probe_exits; maxactive is 1", "probe_exits", [], [0]),
        Part(
            "schedule() was probed by its name, and a thread exited: its last call of schedule() "
            "does not count",
            "schedule", [], [0]),
        *(Part(f"probe_deep(30), which calls itself, was called with maxactive {given}",
               "probe_deep", [n * (n + 1) // 2 for n in range(31 - most, 31)], [31 - most])
          for given, most in ((f"-1, which becomes {chosen}", chosen),
                               (f"0, which becomes {chosen}", chosen), (1, 1), (24, 24))),
        Part(
            "probe_deep(3), which calls itself, was called, and the entry handler stored its "
            "argument in 64 bytes of data",
            "probe_deep", [0, 1, 3, 6], [0], [0, 1, 2, 3]),
        Part(
            "three calls of probe_left, with maxactive 1: the first is left by a jump, the second "
            "is missed, and then the first must not count any more (fprobe_lose_soon())",
            "probe_left", [0], [1])
    ]


def returns(evidence: Evidence) -> Finding | None:
    log = hits(evidence, "returns")
    at = evidence.kernel.symbol(probes.SAID)
    said = [
        r for r in log
        if r.addr == at and r.v[0] in (probes.RETURN, probes.KRETPROBE, probes.INSTANCE,
                                       probes.ENTERED)
    ]
    line = next((line for _, line in evidence.typed if line.startswith("probe returns")),
                "probe returns 0")
    for part in _parts(int(line.split()[2], 16), evidence.smp):
        mine, ends, instances, entered = [list[Record]() for _ in range(4)]
        while said and len(ends) < len(part.missed):
            {probes.RETURN: mine, probes.KRETPROBE: ends,
             probes.INSTANCE: instances,
             probes.ENTERED: entered}[said[0].v[0]].append(said.pop(0))
        found = (_part_wrong(evidence, part, mine, ends) or _instances_wrong(part, instances)
                 or _entered_wrong(evidence, part, entered, instances))
        if found:
            return found
    return None


def _part_wrong(
    evidence: Evidence, part: Part, mine: list[Record], ends: list[Record]
) -> Finding | None:
    first = mine[0].seq if mine else ends[0].seq if ends else None
    if len(ends) < len(part.missed):
        return Finding(f"{part.what}: the program did not end")
    active = [probes.signed(r.v[2] << 32 & (1 << 64) - 1) >> 32 for r in ends]
    missed = [r.v[1] for r in ends]
    held = "active-not-given-back" if any(a > 0 for a in active) else ""
    for r in mine:
        returned = _last_return(evidence, r.seq)
        if not returned or returned.v[0] != r.v[2]:
            return Finding(
                f"{part.what}: the handler found the value {r.v[2]:#x}, and the last function that "
                f"had returned then is "
                + (evidence.kernel.name_at(returned.addr).partition("+")[0] +
                   f", with {returned.v[0]:#x}" if returned else "none"), seq=r.seq)
    values = [r.v[2] for r in mine]
    if values != part.values:
        return Finding(
            f"{part.what}: the handler must find the values "
            f"{', '.join(map(hex, part.values)) or '(none)'}, and found "
            f"{', '.join(map(hex, values)) or 'none'}",
            seq=first, mistake=held)
    if missed != part.missed:
        return Finding(
            f"{part.what}: nmissed must be {', '.join(map(str, part.missed))}, and is "
            f"{', '.join(map(str, missed))}",
            seq=first, mistake=held)
    if any(active):
        return Finding(
            f"{part.what}, and then the kretprobe was unregistered: {', '.join(map(str, active))} "
            f"calls were in flight, and must be none",
            seq=first, mistake=held)
    return _callers(evidence, part, mine)


@once
def _returned(evidence: Evidence) -> list[Record]:
    exits = {a for name in probes.RETURNING for a in evidence.kernel.exits(name)}
    return [r for r in hits(evidence, "returns") if r.addr in exits]


def _last_return(evidence: Evidence, seq: int) -> Record | None:
    return next((r for r in reversed(between(_returned(evidence), 0, seq))), None)


def _instances_wrong(part: Part, said: list[Record]) -> Finding | None:
    """Each instance has its kretprobe, and the data that the entry handler stored. The last records
    in `said` name the kretprobes."""
    mine, probed = said[:-len(part.missed)], {r.v[1] for r in said[-len(part.missed):]}
    for r in mine:
        if r.v[1] not in probed:
            return Finding(
                f"{part.what}: the handler found {r.v[1]:#x} in ri->rp, and must find the "
                f"kretprobe, {' or '.join(map(hex, sorted(probed)))}",
                seq=r.seq)
    found = [r.v[2] for r in mine]
    if part.data and found != part.data:
        return Finding(
            f"{part.what}: the handlers must find {', '.join(map(str, part.data))} there, and "
            f"found {', '.join(map(str, found))}",
            seq=mine[0].seq if mine else None)
    return None


def _homes(evidence: Evidence, part: Part) -> set[int]:
    """Where the calls of this part return."""
    return {
        c.parent for c in between(evidence.truth.calls, *evidence.parts["returns"])
        if c.name == part.function and c.parent != evidence.kernel.symbol("return_to_handler")
    }


def _entered_wrong(evidence: Evidence, part: Part, entered: list[Record], instances: list[Record]
                   ) -> Finding | None:
    """The instance has its kretprobe and its return address when the entry handler is called."""
    for r in entered:
        if r.v[1] != instances[-1].v[1] or r.v[2] not in _homes(evidence, part):
            return Finding(
                f"{part.what}: the entry handler found {r.v[1]:#x} in ri->rp and "
                f"{evidence.kernel.name_at(r.v[2])} in ri->ret_addr. Both must be set before it is "
                "called",
                seq=r.seq)
    return None


def _callers(evidence: Evidence, part: Part, mine: list[Record]) -> Finding | None:
    """ret_addr is the address to which the function returns, also in a chain of tail calls."""
    homes = _homes(evidence, part)
    for r in mine:
        if r.v[1] not in homes:
            return Finding(
                f"{part.what}: the handler found {evidence.kernel.name_at(r.v[1])} in "
                f"ri->ret_addr, and must find "
                f"{' or '.join(sorted(map(evidence.kernel.name_at, homes)))}",
                seq=r.seq, mistake="parent-of-the-handler"
                if r.v[1] == evidence.kernel.symbol("return_to_handler") else "")
    return None


@once
def _changes(evidence: Evidence) -> list[tuple[Record, str]]:
    """The stores into counts of kretprobes that are registered, with the count's name. Of two
    kretprobes, the one that was registered last is unregistered first."""
    log, counts = hits(evidence, "returns"), list[tuple[int, int]]()
    marks = [r for what in (probes.COUNTERS, probes.KRETPROBE)
             for r in probes.said(evidence.kernel, log, what)]
    found = list[tuple[Record, str]]()
    stores = [r for r in between(evidence.truth.writes, *evidence.parts["returns"])
              if r.kind == Kind.WRITE]
    for r in sorted([*marks, *stores]):
        if r.kind == Kind.WRITE:
            found += [(r, name) for pair in counts
                      for at, name in zip(pair, ("active", "nmissed"))
                      if r.v[0] <= at < r.v[0] + r.size]
        elif r.v[0] == probes.COUNTERS:
            counts.append(r.v[1:3])
        else:
            del counts[-1:]
    return found


def counts_atomically(evidence: Evidence) -> Finding | None:
    """Calls on all CPUs change the counts of a kretprobe, so each change is one atomic instruction,
    or an exclusive pair."""
    for r, name in _changes(evidence):
        word = evidence.kernel.word(r.addr)
        if not evidence.isa.is_atomic(word):
            return Finding(
                f"{evidence.kernel.name_at(r.addr)} ({evidence.kernel.disassemble(r.addr)}) "
                f"stored into {name} of a kretprobe. If two CPUs do so at the same time, one of "
                "the two changes is lost: each change must be atomic",
                seq=r.seq, mistake="count-not-atomic")
    return None


def out_of_flight(evidence: Evidence) -> Finding | None:
    """Between the return of a call and its handler the count of calls in flight is changed."""
    stores = [r for r, name in _changes(evidence) if name == "active"]
    for said in probes.said(evidence.kernel, hits(evidence, "returns"), probes.RETURN):
        returned = _last_return(evidence, said.seq)
        if returned and all(r.vcpu != said.vcpu for r in between(stores, returned.seq, said.seq)):
            return Finding("the handler of a kretprobe was called while its call still counted as "
                           "in flight: the call has returned, so change `active` before",
                           seq=said.seq)
    return None


# What is not allowed, in the order of enum refused; the error.
REFUSED = (("a kretprobe without a handler",
            errno.EINVAL), ("a kretprobe without a function",
                            errno.EINVAL), ("a kretprobe with a name and an address", errno.EINVAL),
           ("a kretprobe with too much data",
            errno.E2BIG), ("a kretprobe with less than no data",
                           errno.E2BIG), ("a kretprobe that is registered already", errno.EEXIST),
           ("a live patch of a function that does not exist",
            errno.ENOENT), ("a live patch of no function",
                            errno.EINVAL), ("a live patch without a list", errno.EINVAL),
           ("a live patch that is enabled already",
            errno.EBUSY), ("a live patch that is disabled, and is not enabled",
                           errno.EINVAL), ("a live patch of a function whose pc a probe may change",
                                           errno.EBUSY), ("a kretprobe with the most data", 0),
           ("a kretprobe without a handler, and with less than no data", errno.EINVAL),
           ("a kretprobe that is registered already, and now has less than no data", errno.E2BIG))


def refused_in(part: str) -> Check:
    """Each registration that is not allowed returns its error."""
    def check(evidence: Evidence) -> Finding | None:
        for r in probes.said(evidence.kernel, hits(evidence, part), probes.REFUSED):
            what, error = REFUSED[r.v[1]]
            got = probes.signed(r.v[2])
            if got != -error:
                want = f"refused with {returned(-error)}" if error else "registered"
                return Finding(f"{what} must be {want}; the result was {returned(got)}", seq=r.seq)
        return None
    return check


# ---- patched ------------------------------------------------------------------------------------

OLD, NEW = (("probe_one", "probe_two", "probe_three"),
            ("probe_new_one", "probe_new_two", "probe_new_three"))
NEWEST = ("probe_newest_one", *NEW[1:])
ENABLE, DISABLE = "klp_enable_patch", "klp_disable_patch"
# After each step: what was done, and the functions that three calls then run.
PATCHED = (("no patch is enabled", OLD), ("a patch of all three functions was enabled", NEW),
           ("a newer patch of the first function was enabled",
            NEWEST), ("the older of two patches was disabled",
                      (NEWEST[0], *OLD[1:])), ("the last patch was disabled", OLD),
           ("a patch of all three functions was enabled again",
            NEW), ("a newer patch of the first function was enabled again",
                   NEWEST), ("the newer of two patches was disabled",
                             NEW), ("the last patch was disabled again", OLD))


@once
def _bodies(evidence: Evidence) -> list[tuple[Record, str]]:
    """The functions of `probe patches`, as they were executed, with their records."""
    names = {
        s.address + 4: s.function.name
        for s in evidence.kernel.sites if s.function.name in {*OLD, *NEW, *NEWEST}
    }
    return [(r, names[r.addr]) for r in hits(evidence, "patches") if r.addr in names]


def patched(evidence: Evidence) -> Finding | None:
    """After each step, the newest enabled patch of a function is used."""
    marks = list(probes.said(evidence.kernel, hits(evidence, "patches"), probes.PATCH))
    for (what, want), mark, end in zip(PATCHED, marks, marks[1:]):
        if mark.v[2]:
            return Finding(f"{what}: it returned {returned(mark.v[2])}", seq=mark.seq)
        ran = tuple(name for r, name in _bodies(evidence) if mark.seq < r.seq < end.seq)
        if ran != want:
            oldest = want == NEWEST and ran == NEW
            return Finding(
                f"{what}; then {', '.join(OLD)} were called. {', '.join(want)} must run, "
                f"and {', '.join(ran) or 'nothing'} ran",
                seq=mark.seq, mistake="oldest-patch-wins" if oldest else "")
    return None if len(marks) == len(PATCHED) + 2 else Finding(
        f"'probe patches' made {len(marks)} of {len(PATCHED) + 2} steps")


def _windows(evidence: Evidence, name: str, log: list[Record]) -> list[tuple[Record, Record]]:
    """Each call of this function: its first instruction, and its return."""
    start, ends = evidence.kernel.symbol(name), set(ends_of(evidence.kernel, name))
    found, begun = list[tuple[Record, Record]](), dict[int, Record]()
    for r in log:
        if r.addr == start:
            begun[r.thread] = r
        elif r.addr in ends and r.thread in begun:
            found.append((begun.pop(r.thread), r))
    return found


def all_at_once(evidence: Evidence) -> Finding | None:
    """While a patch is being enabled, a thread that has called one of its new functions calls no
    function that it replaces."""
    for begin, end in _windows(evidence, ENABLE, hits(evidence, "patches")):
        new = dict[int, str]()
        for r, name in _bodies(evidence):
            if begin.seq < r.seq < end.seq and r.thread != begin.thread:
                if name in NEW:
                    new[r.thread] = name
                elif name in OLD and r.thread in new:
                    return Finding(
                        f"while {ENABLE} ran, a thread called {new[r.thread]}, and after it "
                        f"{name}: all functions of a patch change at once",
                        seq=r.seq, mistake="patch-switched-piecewise")
    return None


def entries_whole(evidence: Evidence) -> Finding | None:
    """An entry's patch is stored before another CPU can find the entry."""
    for begin, end in _windows(evidence, ENABLE, hits(evidence, "patches")):
        for added in between(evidence.truth.hits["probe_site_add"], begin.seq, end.seq):
            # struct klp_func has the patch before the entry
            if all(w.v[0] != added.v[1] - 8 for w in between(evidence.truth.writes, 0, added.seq)):
                return Finding("probe_site_add was called with an entry whose f->patch was not "
                               "stored yet: klp_call may find the entry on another CPU, and reads "
                               "f->patch->enabled", seq=added.seq)
    return None


def waited_for(evidence: Evidence) -> Finding | None:
    """Each change of a patch is followed by a grace period before the function returns."""
    for name in (ENABLE, DISABLE):
        for begin, end in _windows(evidence, name, hits(evidence, "patches")):
            inside = [
                w.seq for w in evidence.truth.writes
                if w.thread == begin.thread and begin.seq < w.seq < end.seq and w.size == 1
            ]
            graces = [
                g.seq for g in evidence.truth.hits["synchronize_sched"]
                if g.thread == begin.thread and begin.seq < g.seq < end.seq
            ]
            if inside and (not graces or graces[-1] < inside[-1]):
                return Finding(
                    f"{name} changed patch->enabled and returned, and no grace period began after "
                    f"the change: another CPU may still "
                    f"{'enter the new function' if name == DISABLE else 'enter the old function'}",
                    seq=end.seq, mistake="disabled-at-once" if name == DISABLE else "")
    return None


# a call in progress while a patch was ...: the result, and the function in which it ends
LONG = (("enabled", 11, "old"), ("disabled", 12, "new"))


def in_progress(evidence: Evidence) -> Finding | None:
    """A call that is in progress while a patch changes ends in the function in which it began."""
    for r in probes.said(evidence.kernel, hits(evidence, "patches"), probes.LONG):
        change, want, function = LONG[r.v[1]]
        if r.v[2] != want:
            return Finding(
                f"a call was in the {function} function while its patch was {change}. It must end "
                f"there and return {want}; it returned {r.v[2]}",
                seq=r.seq)
    return None


def nothing_left(evidence: Evidence) -> Finding | None:
    """A live patch that is refused leaves no entry in the table."""
    for r in probes.said(evidence.kernel, hits(evidence, "patches"), probes.LEFT):
        if r.v[2]:
            what, error = REFUSED[r.v[1]]
            return Finding(
                f"{what} was refused with {returned(-error)}, and its entries are still in "
                "the table: an error must change nothing",
                seq=r.seq, mistake="entries-left")
    return None


# ---- off ---------------------------------------------------------------------------------

def as_before(evidence: Evidence) -> Finding | None:
    """After the last probe is unregistered, text is as it was before the first; only the slots may
    hold old copies."""
    if not evidence.text_at_end:
        return Finding("text was not read after the last probe was unregistered")
    want = evidence.rest_text
    wrong = [
        a for a in evidence.kernel.differing(evidence.text_at_end, want)
        if a != evidence.kernel.symbol("ftrace_call") and a not in probes.slots(evidence.kernel)
    ]
    if not wrong:
        return None
    return Finding(
        f"{len(wrong)} words of text are wrong after the last probe was unregistered, first at "
        f"{evidence.kernel.name_at(wrong[0])}",
        address=wrong[0])


def refused(evidence: Evidence) -> Finding | None:
    """A finding if no probe could be registered at all."""
    return Finding(str(evidence.complaint)) if evidence.complaint and not any(
        r.addr == evidence.kernel.symbol(BEFORE) for r in evidence.truth.hits["step"]) else None


MISTAKES = {
    "armed-before-the-slot": "the breakpoint is written before the slot",
    "slot-not-written": "the slot holds no copy of the instruction",
    "executed-twice": "the instruction is executed in the slot and again in place",
    "skipped": "the instruction is not executed at all",
    "pc-of-the-slot": "the post handler sees the slot's address",
    "jump-with-a-post-handler": "the slot jumps back although a probe has a post handler",
    "armed-after-an-error": "a point's state changes although its breakpoint was not written",
    "entries-left": "a live patch that is refused leaves entries in the table",
    "slot-not-released": "a point is freed, and its slot still belongs to it",
    "slot-freed-at-once": "a slot is freed while a CPU may be in it",
    "found-nothing-dies": "a hit of a breakpoint that was removed meanwhile ends in a panic",
    "nobodys-breakpoint-taken": "a breakpoint that belongs to no probe is taken for a probe's",
    "fault-taken-for-a-breakpoint": "a fault in a slot is taken for the breakpoint after the copy",
    "context-forgotten": "after the handlers the bits of other contexts are cleared, too",
    "handlers-nest": "a probe that is hit in a handler calls handlers again",
    "missed-not-counted": "a probe that is hit in a handler is not counted in nmissed",
    "active-not-given-back": "maxactive is used up by calls whose entry handler said no, whose "
                             "thread has exited, or that were left by a jump",
    "count-not-atomic": "a change of active or nmissed can be lost, because it is not atomic",
    "parent-of-the-handler": "a kretprobe's ret_addr is return_to_handler",
    "patch-switched-piecewise": "the functions of a patch change one after the other, and not at "
                                "once",
    "oldest-patch-wins": "of two enabled patches the older one is used",
    "disabled-at-once": "klp_disable_patch returns while a CPU may still enter the new function",
}

HITS = seen_once("hit of a probe",
                 lambda e: sum(r.addr == e.kernel.symbol(BEFORE) for r in e.truth.hits["step"]), 20)
STEPPED = seen_once("call of probe_steps with probes", lambda e: len(_steps(e)) - 1, 10)
POSTED = seen_once("run of a post handler", lambda e: sum(r.addr == e.kernel.symbol(AFTER)
                                                          for r in e.truth.hits["step"]), 10)
CAME = seen_once("store of a breakpoint while probes were registered and unregistered",
                 lambda e: len(_came(e)), 20)
STALE = seen_once("hit of a breakpoint that was removed meanwhile",
                  lambda e: len(list(probes.said(e.kernel, hits(e, "stale"), probes.STALE))))
NOBODYS = seen_once(
    "breakpoint that is no probe's",
    lambda e: len(list(probes.said(e.kernel, hits(e, "stale"), probes.NOBODYS))))
OVERWRITTEN = seen_once(
    "probe whose breakpoint was overwritten", lambda e: sum(
        begin.seq in range(*e.parts.get("overwritten", (0, 0))) for begin, _ in _frees(e)))
GIVEN_BACK = seen_once("slot that was freed", lambda e: len(_freed_slots(e)), 10)
STAYED = seen_once("unregistered probe whose point has another probe",
                   lambda e: sum(not begin.v[1] & 0xFF for begin, _ in _frees(e)), 10)
FREED = seen_once("unregistered probe whose point has no other",
                  lambda e: sum(bool(begin.v[1] & 0xFF) for begin, _ in _frees(e)), 10)
MOVED = seen_once(
    "hit of a probe whose pre handler changed pc, before an instruction that a slot can execute",
    lambda e: len(_moved(e, False)), 3)
MOVED_EMULATED = seen_once(
    "hit of a probe whose pre handler changed pc, before an instruction that is emulated",
    lambda e: len(_moved(e, True)), 3)
TRAPPED = seen_once("trap in a slot", lambda e: len(_in_slots(e, hits(e, "traps"))), 6)
INSNS = seen_once("call of break_hook->insn",
                  lambda e: len(list(probes.said(e.kernel, hits(e, "steps"), probes.INSN))), 10)
FAR = seen_once("slot of a point out of reach",
                lambda e: len(list(probes.said(e.kernel, hits(e, "steps"), probes.FAR))))
ENABLED = seen_once(
    "attempt to enable a probe",
    lambda e: len(list(probes.said(e.kernel, hits(e, "overwritten"), probes.ENABLED))))
NEXT = seen_once("run of a post handler that told pc",
                 lambda e: len(list(probes.said(e.kernel, hits(e, "traps"), probes.NEXT))), 4)
NESTED = seen_once("attempt of a hit within a hit",
                   lambda e: len(list(probes.said(e.kernel, hits(e, "nested"), probes.NESTED))),
                   len(NESTING))
KEPT = seen_once("interrupt of a tracer's callback that hit a probe",
                 lambda e: len(list(probes.said(e.kernel, hits(e, "nested"), probes.CONTEXT))))
IN_PROGRESS = seen_once("call in progress while a live patch changed",
                        lambda e: len(list(probes.said(e.kernel, hits(e, "patches"), probes.LONG))),
                        len(LONG))
RETURNED = seen_once("return with a kretprobe",
                     lambda e: len(list(probes.said(e.kernel, hits(e, "returns"), probes.RETURN))),
                     15)
CHANGED = seen_once("change of a kretprobe's counts", lambda e: len(_changes(e)), 40)
ENTERED = seen_once("run of a kretprobe's entry handler",
                    lambda e: len(list(probes.said(e.kernel, hits(e, "returns"), probes.ENTERED))),
                    10)
RETURNS_REFUSED = seen_once(
    "kretprobe that must be refused",
    lambda e: len(list(probes.said(e.kernel, hits(e, "returns"), probes.REFUSED))), 6)
PATCHES_REFUSED = seen_once(
    "live patch that must be refused",
    lambda e: len(list(probes.said(e.kernel, hits(e, "patches"), probes.REFUSED))), 6)
PATCHES_LEFT = seen_once(
    "live patch that was refused, and the table after it",
    lambda e: len(list(probes.said(e.kernel, hits(e, "patches"), probes.LEFT))), 4)
PATCHES = seen_once("call of a patched function", lambda e: len(_bodies(e)), 18)
SWITCHED = seen_once(
    "call of a live patch's function by another thread while it was enabled",
    lambda e: sum(begin.seq < r.seq < end.seq and r.thread != begin.thread
                  for begin, end in _windows(e, ENABLE, hits(e, "patches")) for r, _ in _bodies(e)))


def _probed_calls(part: str) -> Coverage:
    return Coverage("hit of a probe on the workload",
                    lambda e: [Amount(part, sum(c.executed for c in _counted(e, part)), 5)])


# Probe 0 is on an instruction of calls_traced. B is held before the copy in its slot, before the
# slot's second word, and in the exception. Its slot held another instruction before that.
OTHER = ("probe at 0 calls_traced+0x10", "probe off 0")
ON, POST_ON, GONE = "probe at 0 calls_traced+0x8", "probe at 0 calls_traced+0x8 post", "probe off 0"
INSIDE = ("kprobe_slots", "kprobe_slots+0x4", "trap_exception", "calls_traced+0xc")
SCHEDULES = (
    Change("register", POST_ON, "register_kprobe", before=OTHER, after=(GONE,),
           comes=frozenset({0}), inside=INSIDE),
    Change("unregister", GONE, "unregister_kprobe", before=(ON,), goes=frozenset({0}),
           inside=INSIDE),
    Change("post", "probe at 1 calls_traced+0x8 post", "register_kprobe", before=(ON,),
           after=("probe off 1", GONE), stays=frozenset({0}), comes=frozenset({1}), inside=INSIDE),
    Change("patch", "probe patch on", "klp_enable_patch", after=("probe patch off",),
           comes=frozenset({PATCH}), inside=("calls_traced+0xc",)),
    Change("unpatch", "probe patch off", "klp_disable_patch", before=("probe patch on",),
           goes=frozenset({PATCH}), inside=("probe_new_traced+0xc",)),
)

CHECKS = {
    "hit": all_of(_of_rung(HIT), refused, ended_there),
    "life": all_of(lives, right_result),
    "off": all_of(rest_at_boot, nothing_left, armed_after_errors, as_before, words_stored, stale,
                  slot_kept, freed_in_time, released),
    "out of line": all_of(_of_rung(OUT), slot_first, written_once, far_slot, traps, insns,
                          moved(False)),
    "emulated": all_of(_of_rung(EMULATED), moved(True)),
    "after": all_of(_of_rung(POST), next_pc),
    "one CPU": lambda e: counted(e, ALL) or counted(e, GOING),
    "many CPUs": lambda e: counted(e, ALL) or counted(e, GOING) or came_and_went(e),
    "nested": nested,
    "returns": all_of(returns, counts_atomically, out_of_flight, refused_in("returns")),
    "patched": all_of(nothing_left, patched, all_at_once, refused_in("patches"), entries_whole,
                      waited_for, in_progress),
    "schedules": all_of(as_linked, words_stored, probes_under_schedules, patches_under_schedules),
}

CONSOLE = {
    "life": lives_and_traces, "off": at_rest_at_end, "one CPU": probes_printed,
    "many CPUs": probes_printed, "returns": returns_printed
}

SEEN = {
    "hit": (HITS,),
    "life": (POWERED_OFF, ran(0, 4)),
    "off": (TEXT_AT_BOOT, TEXT_AT_END, STALE, NOBODYS, OVERWRITTEN, ENABLED, GIVEN_BACK,
            STAYED, FREED),
    "out of line": (STEPPED, FAR, TRAPPED, INSNS, MOVED),
    "emulated": (STEPPED, MOVED_EMULATED),
    "after": (STEPPED, POSTED, NEXT),
    "one CPU": (_probed_calls(ALL), _probed_calls(GOING)),
    "many CPUs": (_probed_calls(ALL), _probed_calls(GOING), CAME),
    "nested": (NESTED, KEPT),
    "returns": (RETURNED, ENTERED, CHANGED, RETURNS_REFUSED),
    "patched": (PATCHES, SWITCHED, IN_PROGRESS, PATCHES_REFUSED, PATCHES_LEFT),
    "schedules": (PLAYED,),
}

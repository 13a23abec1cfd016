"""Lab 8: the check of each rung, and the mistakes that it names. Its own checks are about probed instructions: each must be executed once,
out of line, between its handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from grading.checks.checks import Check, all_of, differing, executed_as_expected, first_of, lives, rest_at_boot, rest_text, right_result, within
from grading.checks.seen import POWERED_OFF, TEXT_AT_BOOT, TEXT_AT_END, Amount, Coverage, once as seen_once, ran
from grading.evidence.evidence import Evidence, between, once
from grading.evidence.finding import Finding
from grading.machine.observer import Record
from grading.session.probe_session import ProbeSession
from grading.truth import probes
from grading.truth.probes import AFTER, BEFORE, BREAK, StepsCall

SESSION = ProbeSession
HIT, OUT, EMULATED, POST = "hit", "out of line", "emulated", "after"


def hits(e: Evidence, part: str) -> list[Record]:
    """What was logged of probes in this part of the boot, in order."""
    return between(e.truth.hits["step"], *e.parts[part]) if part in e.parts else []


# ---- each instruction of probe_steps -------------------------------------------------------

class Wrong(NamedTuple):
    """A call of probe_steps that went wrong: by which rung it is judged."""

    rung: str
    finding: Finding


@once
def _steps(e: Evidence) -> list[StepsCall]:
    last = e.parts.get("steps", (0, 1 << 62))
    return probes.calls_of_steps(e.kernel, between(e.truth.hits["step"], *last))


class _Call:
    """Compares a call of probe_steps in which instructions were probed with one in which none was."""

    def __init__(self, e: Evidence, plain: StepsCall, call: StepsCall) -> None:
        self._e, self._call, self._left = e, call, call.hits
        self._plain = [(r.addr, r.v[:3]) for r in plain.hits]
        self._first, self._last = probes.slots(e.kernel).start, probes.slots(e.kernel).stop
        self._result = plain.result

    def wrong(self) -> Wrong | None:
        for n, (at, regs) in enumerate(self._plain):
            after = self._plain[n + 1][1] if n + 1 < len(self._plain) else None
            found = self._probed(at, regs, after) if self._call.is_probed(at) else self._unprobed(at, regs)
            if found:
                return found
        if self._left:
            return self._said(OUT, "after its last instruction more was executed", self._left[0])
        if self._call.result is None:
            return self._said(OUT, "it did not return", None)
        return None

    def _said(self, rung: str, why: str, at: Record | None, mistake: str = "") -> Wrong:
        kernel = self._e.kernel
        what = "all instructions of probe_steps were probed" if self._call.probed == 1 else (
            f"the instruction {kernel.disassemble(self._call.probed)} at {kernel.name_at(self._call.probed)} was probed"
            + (", with a post handler" if self._call.post else ""))
        return Wrong(rung, Finding(f"{what}: {why}", seq=at.seq if at else self._call.seq, mistake=mistake))

    def _next(self) -> Record | None:
        if not self._left:
            return None
        found, self._left = self._left[0], self._left[1:]
        return found

    def _in_slot(self, r: Record | None) -> bool:
        return bool(r and self._first <= r.addr < self._last)

    def _describe(self, r: Record | None) -> str:
        return f"{self._e.kernel.name_at(r.addr)} was executed, the word {r.word:08x} ({self._e.kernel.disassemble(r.addr, r.word)})" if r else "nothing more was executed"

    def _unprobed(self, at: int, regs: tuple[int, ...]) -> Wrong | None:
        r, name = self._next(), self._e.kernel.name_at(at)
        if not r or r.addr != at:
            return self._said(OUT, f"next {name} must be executed; {self._describe(r)}", r)
        if r.v[:3] != regs:
            return self._said(OUT, f"{name} found the registers {_hex(r.v)}, and must find {_hex(regs)}", r)
        return None

    def _probed(self, at: int, regs: tuple[int, ...], after: tuple[int, ...] | None) -> Wrong | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not r or r.addr != at or r.word != BREAK[e.arch]:
            return self._said(HIT, f"a breakpoint must be executed at {name}; {self._describe(r)}", r)
        if r.v[:3] != regs:
            return self._said(OUT, f"at {name} the registers were {_hex(r.v)}, and must be {_hex(regs)}", r)
        r = self._next()
        if not r or r.addr != e.kernel.symbol(BEFORE):
            return self._said(HIT, f"the breakpoint at {name} was executed, and then the pre handler must run; {self._describe(r)}", r)
        if r.v[1:3] != (at, regs[0]):
            return self._said(HIT, f"the pre handler must find {name} and the value {regs[0]:#x} in the first argument register, and found {e.kernel.name_at(r.v[1])} "
                              f"and {r.v[2]:#x}", r)
        post, word = self._call.has_post(e.kernel, at), e.kernel.word(at)
        if not probes.depends_on_pc(e.arch, word):
            return self._out_of_line(at, regs, after, post)
        if self._in_slot(self._left[0] if self._left else None):
            return self._said(EMULATED, f"{name} depends on pc, so it must be emulated; {self._describe(self._left[0])}", self._left[0])
        return self._post(at, after) if post else None

    def _out_of_line(self, at: int, regs: tuple[int, ...], after: tuple[int, ...] | None, post: bool) -> Wrong | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not self._in_slot(r):
            again = "executed-twice" if r and r.addr == at else "skipped" if r and r.addr == at + 4 else ""
            return self._said(OUT, f"after the handlers of {name} a copy of the instruction must be executed in a slot; {self._describe(r)}", r, again)
        assert r
        if r.word != e.kernel.word(at):
            return self._said(OUT, f"the slot of {name} must hold a copy of the instruction; {self._describe(r)}", r, "slot-not-written" if r.word == BREAK[e.arch] else "")
        if r.v[:3] != regs:
            return self._said(OUT, f"in its slot the instruction of {name} found the registers {_hex(r.v)}, and must find {_hex(regs)}", r)
        slot, r = r.addr, self._next()
        if not r or r.addr != slot + 4:
            return self._said(OUT, f"after the copy in its slot, the slot's second word must be executed; {self._describe(r)}", r)
        is_break = r.word == BREAK[e.arch]
        if post and not is_break:
            return self._said(POST, f"the probe at {name} has a post handler, and its slot jumps back: no breakpoint follows the copy", r, "jump-with-a-post-handler")
        found = self._post(at, after) if post else None
        nxt = self._left[0] if self._left else None
        if not found and nxt and nxt.addr == at:
            return self._said(OUT, f"the copy of {name} was executed in its slot, and then {name} again", nxt, "executed-twice")
        return found

    def _post(self, at: int, after: tuple[int, ...] | None) -> Wrong | None:
        e, name, r = self._e, self._e.kernel.name_at(at), self._next()
        if not r or r.addr != e.kernel.symbol(AFTER):
            return self._said(POST, f"after the instruction of {name} its post handler must run; {self._describe(r)}", r)
        if r.v[1] != at:
            return self._said(POST, f"the post handler of {name} must find that address in regs->ip, and found {e.kernel.name_at(r.v[1])}", r,
                              "pc-of-the-slot" if r.v[1] in probes.slots(e.kernel) else "")
        if after and r.v[2] != after[0]:
            return self._said(POST, f"after the instruction of {name} the first argument register is {after[0]:#x}, and the post handler found {r.v[2]:#x}", r)
        return None


def _hex(values: tuple[int, ...]) -> str:
    return ", ".join(f"{v:#x}" for v in values[:3])


@once
def _wrong(e: Evidence) -> list[Wrong]:
    calls = _steps(e)
    if not calls or calls[0].probed:
        return []
    return [found for call in calls[1:] if (found := _Call(e, calls[0], call).wrong())]


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
def _counted(e: Evidence) -> list[Counted]:
    log = hits(e, "probes")
    executed = Counter(r.addr for r in log if r.word == BREAK[e.arch])
    handled = Counter(r.v[0] for r in log if r.addr == e.kernel.symbol(BEFORE))
    said = [r.v for r in probes.said(e.kernel, log, probes.COUNTS)]
    return [Counted(n, at, executed[at], handled[n], v[1], v[2]) for (n, at), v in zip(enumerate(e.probed), said)]


def counted(e: Evidence) -> Finding | None:
    """Each hit of a probe on the workload: as often as the seed asks for, as executed, as counted."""
    phase = next((p for p in e.phases if p.name == "probes"), None)
    if not phase:
        return Finding("no workload ran with probes on its instructions")
    wrong = executed_as_expected(e, phase)
    if wrong:
        return within(phase, wrong)
    expected = Counter(call.function for calls in e.expected(phase).contexts.values() for call in calls)
    for c in _counted(e):
        function = e.kernel.name_at(c.at).partition("+")[0]
        rows = [str(n) for n in (expected[function], c.executed, c.handled, c.hits)]
        if len(set(rows)) > 1 or c.missed:
            return Finding(f"{phase.name}: probe {c.number} is at {e.kernel.name_at(c.at)}, {e.kernel.disassemble(c.at)}. By the seed it is executed {rows[0]} times; the "
                           f"breakpoint was executed {rows[1]} times, the handler ran {rows[2]} times, and {rows[3]} hits and {c.missed} missed hits were counted", began=phase.first)
    return None


# ---- off ---------------------------------------------------------------------------------

def as_before(e: Evidence) -> Finding | None:
    """After the last probe has gone, text is as it was; only the slots may hold old copies."""
    if not e.text_at_end:
        return Finding("text was not read after the last probe had gone")
    want = rest_text(e.kernel, e.lab)
    wrong = [a for a in differing(e.kernel, e.text_at_end, want) if a != e.kernel.symbol("ftrace_call") and a not in probes.slots(e.kernel)]
    if not wrong:
        return None
    return Finding(f"{len(wrong)} words of text are wrong after the last probe had gone, first at {e.kernel.name_at(wrong[0])}", address=wrong[0])


MISTAKES = {
    "slot-not-written": "the slot holds no copy of the instruction",
    "executed-twice": "the instruction is executed in the slot and again in place",
    "skipped": "the instruction is not executed at all",
    "pc-of-the-slot": "the post handler sees the slot's address",
    "jump-with-a-post-handler": "the slot jumps back although a handler is due after the instruction",
}

HITS = seen_once("hit of a probe", lambda e: sum(r.addr == e.kernel.symbol(BEFORE) for r in e.truth.hits["step"]), 20)
STEPPED = seen_once("call of probe_steps with probes", lambda e: len(_steps(e)) - 1, 10)


def _probed_calls(e: Evidence) -> Iterator[Amount]:
    yield Amount("probes", sum(c.executed for c in _counted(e)), 20)


ON_WORKLOAD = Coverage("hit of a probe on the workload", _probed_calls)

CHECKS = {
    "hit": _of_rung(HIT),
    "life": all_of(lives, right_result),
    "off": all_of(rest_at_boot, as_before),
    "out of line": _of_rung(OUT),
    "one CPU": counted,
}

SEEN = {
    "hit": (HITS,),
    "life": (POWERED_OFF, ran(0, 3)),
    "off": (TEXT_AT_BOOT, TEXT_AT_END),
    "out of line": (STEPPED,),
    "one CPU": (ON_WORKLOAD,),
}

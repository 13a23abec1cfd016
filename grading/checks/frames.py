"""Checks of a traced function whose tracer is interrupted at each instruction in turn:
kern/apps/frames.c, labs 5 and 6.

The program calls frames_traced many times, and each time an interrupt comes at another instruction.
The checks use only the registers and the memory that the observer read.
"""

from bisect import bisect_left
from dataclasses import dataclass

from grading.checks.checks import first_of
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.observer import Record
from grading.truth.returns import HANDLER, Span
from grading.verdict import Verdict

WANTED, REFUSED, FULL, NO_STACK = range(4)  # enum answer of kern/apps/frames.c
# words of struct shadow_frame; frames.c asserts these offsets
RET, FUNC, SP, FP, BELOW, DATA_END, WORDS = 0, 1, 2, 3, 5, 7, 8
# interrupts must have come at more than this many instructions between the call site and the return
FEW = 8
ORDER, NOT_FILLED, READ, LEFT, BARE, NOBODY, KEPT, NOT_ASKED = (
    "stores-out-of-order", "frame-not-filled", "shadow-frame-read-after-release",
    "frame-not-popped", "patched-without-a-frame", "patched-for-nobody", "data-not-given-back",
    "no-stack-not-asked")
STACK_DIFFERS = {
    WANTED: "frames_traced was interrupted and has returned, and the shadow stack is not as it was "
            "before the call",
    REFUSED: "the user said no at the entry of frames_traced, and after its return the shadow "
             "stack is not as it was before the call",
    FULL: "frames_traced was called while the shadow stack was full, and after its return the "
          "shadow stack is not as it was before the call",
}
PATCHED = {
    WANTED: "the user said yes, and the return address was not replaced by return_to_handler",
    REFUSED: "the user said no, and the return address was replaced",
    FULL: "the shadow stack was full, and the return address was replaced although no frame keeps "
          "it",
    NO_STACK: "the thread had no shadow stack, and the return address was replaced",
}
# A stack walk may fail in these functions: they save and load registers in any order.
ASSEMBLY = ("ftrace_stub_", "ftrace_island_", "ftrace_caller", HANDLER, "ftrace_graph_stub",
            "ftrace_graph_caller")


@dataclass
class Try:
    """One call of frames_traced."""

    # the call of frames_call(): the shadow stack (top, free, depth), the answer of the user's entry
    # handler
    before: Record
    # frames_stack() after the call: the shadow stack; is graph tracing off permanently? In the
    # next bits: which result registers regs->arg of the return handler did not show
    after: Record
    span: Span
    # the interrupt's cause, and the address of the next instruction
    interrupt: Record | None = None
    # frames_stack() in the interrupt: the shadow stack, the result of a stack walk; the frame at
    # `top`
    within: Record | None = None

    @property
    def answer(self) -> int:
        return self.before.v[3]

    @property
    def stage(self) -> str:
        """The part of the call in which the interrupt came."""
        at, body, leaving = self.interrupt, self.span.body, self.span.leaving
        if not at or at.seq < self.span.call.seq:
            return "before"
        if not body or at.seq < body.seq:
            return "entry"
        if not leaving or at.seq < leaving.left.seq:
            return "body"
        return "after" if at.v[
            1] == self.span.home or leaving.back and at.seq > leaving.back.seq else "return"


def tries(evidence: Evidence) -> list[Try]:
    """The calls that returned, each with the interrupt that came during it, if there was one."""
    spans = [s for s in evidence.truth.returns.spans if s.name == "frames_traced"]
    starts, traps = [s.call.seq for s in spans], [r.seq for r in evidence.truth.traps]
    found: list[Try] = []
    before = within = None
    for r in evidence.truth.frames:
        if r.addr == evidence.kernel.symbol("frames_call"):
            before, within = r, None
        elif r.level:
            within = r
        elif before:
            at = bisect_left(starts, before.seq)
            if at < len(spans) and starts[at] < r.seq:
                trap = evidence.truth.traps[bisect_left(traps, within.seq) - 1] if within else None
                found.append(Try(before, r, spans[at], trap, within))
            before = None
    return found


def ended_without_stack(evidence: Evidence) -> str:
    """The mistake's name, if the kernel panicked when a thread without a shadow stack made a traced
    call."""
    last = evidence.truth.frames[-1] if evidence.truth.frames else None
    return NOT_ASKED if (evidence.verdict == Verdict.PANIC and last
                         and last.addr == evidence.kernel.symbol("frames_call")
                         and last.v[3] == NO_STACK) else ""


# ---- what each call must show -----------------------------------------------------------------

def _patched(evidence: Evidence, attempt: Try) -> Finding | None:
    """The return address is replaced only if there is a frame and a user wants the return."""
    link, wanted = attempt.span.body.v[2] if attempt.span.body else 0, attempt.answer == WANTED
    if link == (evidence.kernel.symbol(HANDLER) if wanted else attempt.span.call.parent):
        return None
    mistake = ("" if wanted else BARE if evidence.lab == 5 else NOBODY
               if attempt.answer == REFUSED else "")
    return Finding(f"frames_traced was entered, {PATCHED[attempt.answer]}", mistake=mistake,
                   seq=attempt.span.call.seq)


def _returns(evidence: Evidence, attempt: Try) -> Finding | None:
    """The call returns to its caller, whatever the interrupt wrote above `free`."""
    leaving = attempt.span.leaving
    if leaving and leaving.back and leaving.back.addr == attempt.span.home:
        return None
    entered = attempt.stage in ("before", "entry")
    released = "" if entered else ": the frame was read after it was released"
    return Finding(
        f"an interrupt came while frames_traced {'was entered' if entered else 'returned'} and "
        "overwrote the memory above `free`, as it may; the function then returned to an address "
        f"that the interrupt had written{released}", mistake=(ORDER if evidence.lab == 5 else "")
        if entered else READ, seq=attempt.span.call.seq)


def _filled(attempt: Try) -> bool:
    """Does `top` point to the complete frame of this call, without entry data, while the call is in
    flight?"""
    if not attempt.within or attempt.stage == "before":
        return False
    frame, call = attempt.within.more[8:], attempt.span.call
    return (frame[RET], frame[FUNC], frame[SP], frame[FP], frame[BELOW], frame[DATA_END]) == (
        attempt.span.home, call.site.address, call.sp, call.fp, attempt.before.v[0],
        attempt.within.v[0] + 8 * WORDS)


def _whole(evidence: Evidence, attempt: Try) -> Finding | None:
    """While the function's body runs, `top` points to its complete frame. During the entry and the
    return it may also have its old value."""
    if not attempt.within or not attempt.interrupt:
        return None
    mistake = ORDER if evidence.lab == 5 else ""
    if attempt.within.v[0] == attempt.before.v[0]:
        lost = (attempt.stage == "body" and attempt.answer == WANTED
                and not _patched(evidence, attempt))
        return Finding("an interrupt came while frames_traced ran, and `top` did not point to its "
                       "shadow frame", mistake=mistake, seq=attempt.within.seq) if lost else None
    if _filled(attempt):
        return Finding("frames_traced was called, and its shadow frame was pushed at "
                       f"{attempt.within.v[0]:#x}; `free` was {attempt.before.v[1]:#x} before the "
                       "call, and a frame begins there", seq=attempt.within.seq) if (
                           attempt.within.v[0] != attempt.before.v[1]) else None
    never = any(u.stage == "body" and u.within and u.within.v[0] != u.before.v[0] and not _filled(u)
                for u in tries(evidence))
    return Finding(
        "an interrupt came, and the shadow frame to which `top` pointed was not complete",
        mistake=NOT_FILLED if mistake and never else mistake, seq=attempt.within.seq)


def _walked(evidence: Evidence, attempt: Try) -> Finding | None:
    """A stack walk in the interrupt finds the return address of frames_traced, in regs->link or in
    a shadow frame."""
    if not attempt.within or not attempt.interrupt or attempt.stage in (
            "before", "after") or attempt.within.v[3] == attempt.span.home:
        return None
    if evidence.kernel.name_at(attempt.interrupt.v[1]).startswith(ASSEMBLY):
        return None
    return Finding("an interrupt came while frames_traced was entered or returned, and a stack "
                   "walk did not find its return address, neither in regs->link nor in a shadow "
                   "frame", seq=attempt.within.seq)


def _restored(evidence: Evidence, found: list[Try], answer: int) -> Finding | None:
    """After the call the shadow stack is the same as before it."""
    asked = [t for t in found if t.answer == answer]
    wrong = [t for t in asked if t.after.v[:3] != t.before.v[:3]]
    if not wrong:
        return None
    always = len(wrong) == len(asked)
    mistake = "" if evidence.lab != 5 or always and answer != REFUSED else (LEFT if always else
                                                                           ORDER)
    was, now = wrong[0].before.v, wrong[0].after.v
    at = next(n for n in range(3) if now[n] != was[n])
    return Finding(f"{STACK_DIFFERS[answer]}: {('top', 'free', 'depth')[at]} was {was[at]:#x}, and "
                   f"is {now[at]:#x}", mistake=mistake, seq=wrong[0].after.seq)


def position(attempt: Try) -> tuple[str, int]:
    """The place of the interrupt: the part of the call, and the number of instructions after the
    call site or the function's return."""
    left = attempt.span.leaving.left if attempt.stage == "return" and attempt.span.leaving else None
    return attempt.stage, (attempt.interrupt.insns if attempt.interrupt else
                           0) - (left.insns if left else attempt.span.call.insns)


def _covered(found: list[Try]) -> Finding | None:
    """A finding if the interrupts did not come before the call, in the tracer and after the call.
    """
    if any(t.after.v[3] & 1 for t in found):
        return Finding("frames_traced was interrupted, and at a return no shadow frame was right: "
                       "the kernel has ended graph tracing permanently")
    for answer in (WANTED, REFUSED):
        at = {position(t) for t in found if t.answer == answer and t.interrupt}
        inside = sum(stage not in ("before", "after") for stage, _ in at)
        if inside <= FEW or not {"before", "after"} <= {stage for stage, _ in at}:
            return Finding("frames_traced must be interrupted at each of its instructions in turn, "
                           "and the interrupts came at other ones")
    return None


# ---- the checks of the rungs ---------------------------------------------------------------------

def patched_if_wanted(evidence: Evidence) -> Finding | None:
    """In every call the return address is replaced only if there is a frame and a user wants the
    return."""
    if evidence.smp > 1:
        return None
    found = tries(evidence)
    if NO_STACK not in {t.answer for t in found} and not any(t.after.v[3] & 1 for t in found):
        return Finding("frames_traced must be called with an interrupt at each of its instructions "
                       "in turn, and these calls ended too early")
    return first_of(_patched(evidence, t) for t in found)


def frames_kept(evidence: Evidence) -> Finding | None:
    """At whichever instruction an interrupt comes, frames are complete, the return address is
    found, and the shadow stack is restored afterwards."""
    found = tries(evidence)
    if not found:
        return None
    restored = (_restored(evidence, found, answer) for answer in (WANTED, REFUSED, FULL))
    return (first_of(_returns(evidence, t) for t in found)
            or first_of(_whole(evidence, t) for t in found) or first_of(restored)
            or first_of(_walked(evidence, t) for t in found) or _covered(found))


def results_shown(evidence: Evidence) -> Finding | None:
    """Lab 5: a return handler finds every register of the result in regs->arg."""
    for t in tries(evidence):
        for n, number in enumerate(evidence.isa.results):
            if t.after.v[3] >> n + 1 & 1:
                return Finding(f"frames_traced returned, and its return handler's regs->arg[{n}] "
                               f"was not the value of {evidence.isa.names[number]}, a register of "
                               "the result", seq=t.after.seq)
    return None


def room_given_back(evidence: Evidence) -> Finding | None:
    """If a user reserves entry data and then says no, the data are dropped: the frame ends after
    its fixed words, and the memory above is free."""
    call, seen = evidence.kernel.symbol("frames_call"), [r for r in evidence.truth.frames
                                                         if not r.level]
    for last, r in zip(seen, seen[1:]):
        end = r.v[0] + 8 * WORDS
        if call not in (last.addr, r.addr) and (r.v[1], r.more[8 + DATA_END]) != (end, end):
            return Finding("a user reserved entry data and then said no: the memory of the data on "
                           "the shadow stack was not freed", mistake=KEPT, seq=r.seq)
    return None

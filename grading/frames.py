"""What a traced function meets whose tracer is interrupted at each instruction: kern/apps/frames.c, labs 5 and 6.

It is trusted, and says what it saw by addresses that the observer sees.
"""

from __future__ import annotations

from grading.evidence import Evidence
from grading.finding import Finding

# What frames.c looks at, in its order.
(HOME_ENTERED, HOME_RETURNING, WHOLE, WALK, PATCHED, NOT_ASKED_FOR, NO_ROOM, POPPED, POPPED_REFUSED, POPPED_FULL, ALIVE, SWEPT,
 GIVEN_BACK, RESULTS, CALLERS) = range(15)
ORDER, READ, LEFT, BARE, NOBODY, KEPT = ("stores-out-of-order", "shadow-frame-read-after-release", "frame-not-popped",
                                         "patched-without-a-frame", "patched-for-nobody", "data-not-given-back")
WRONG = {
    HOME_ENTERED: "an interrupt came while frames_traced was entered, and wrote what it liked above `free`; the function then returned "
                  "to what the interrupt had written",
    HOME_RETURNING: "an interrupt came while frames_traced returned, and wrote what it liked above `free`; the function then returned "
                    "to what the interrupt had written: its frame was read after it had been given back",
    WHOLE: "an interrupt came, and the frame that `top` led to was not filled",
    WALK: "an interrupt came while frames_traced was entered or returned, and a stack walk did not find where it returns to: neither in "
          "regs->link nor in a frame",
    PATCHED: "frames_traced was entered, the user wanted to hear of its return, and its return address was not return_to_handler",
    NOT_ASKED_FOR: "frames_traced was entered, the user did not want to hear of its return, and its return address was replaced",
    NO_ROOM: "frames_traced was entered, the shadow stack was full, and its return address was replaced",
    POPPED: "frames_traced has returned, an interrupt came on the way, and the shadow stack is not as it was before the call",
    POPPED_REFUSED: "the user did not want to hear of a return, and the shadow stack is not as it was before the call",
    POPPED_FULL: "the shadow stack was full, a traced function was called, and the shadow stack is not as it was before the call",
    RESULTS: "frames_traced returned a value in every register that can carry one, and one of them did not come back",
    CALLERS: "frames_traced returned, and sp or the frame pointer is not its caller's",
    GIVEN_BACK: "a user kept something and then did not want to hear of the return: its room is not given back",
}
NAMES = {
    5: {HOME_ENTERED: ORDER, HOME_RETURNING: READ, WHOLE: ORDER, POPPED: ORDER, POPPED_REFUSED: ORDER, NOT_ASKED_FOR: BARE, NO_ROOM: BARE,
        RESULTS: "result-clobbered"},
    6: {HOME_RETURNING: READ, NOT_ASKED_FOR: NOBODY, GIVEN_BACK: KEPT},
}


def _first(e: Evidence, items: tuple[int, ...]) -> Finding | None:
    for item in items:
        seen = e.truth.frames.get(item, set())
        if False in seen:
            always = item == POPPED_REFUSED and True not in seen
            return Finding(WRONG[item], mistake=LEFT if always and e.lab == 5 else NAMES[e.lab].get(item, ""))
    return None


def patched_if_wanted(e: Evidence) -> Finding | None:
    """A return address is replaced if there is a frame, and a user who wants to hear of the return; only then."""
    if e.smp > 1:
        return None
    if SWEPT not in e.truth.frames:
        return Finding("frames_traced was not called to the end with an interrupt at each instruction")
    return _first(e, (PATCHED, NOT_ASKED_FOR, NO_ROOM))


def frames_kept(e: Evidence) -> Finding | None:
    """Wherever an interrupt comes, frames are whole, the way home is known, and the stack is in the end as it was."""
    finding = _first(e, (HOME_RETURNING, HOME_ENTERED, WHOLE, POPPED, POPPED_REFUSED, POPPED_FULL, WALK))
    if finding or False not in e.truth.frames.get(SWEPT, set()) or False in e.truth.frames.get(ALIVE, set()):
        return finding
    return Finding("frames_traced was to be interrupted at each instruction, and the interrupts came elsewhere")


def registers_given_back(e: Evidence) -> Finding | None:
    """Behind the call all is as the function left it, not the first result alone."""
    return _first(e, (RESULTS, CALLERS))


def room_given_back(e: Evidence) -> Finding | None:
    """What a user keeps that says no is gone."""
    return _first(e, (GIVEN_BACK,))

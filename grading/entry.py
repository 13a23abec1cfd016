"""What a traced function and its callback see, with a pattern in every register: kern/apps/entry.c, lab 4.

It is trusted, and says what it saw by addresses that the observer sees.
"""

from __future__ import annotations

from grading.evidence import Evidence
from grading.finding import Finding
from grading.registers import ARGUMENTS, KEPT, REGISTERS

# What entry.c looks at, in its order.
(LINKED, STACK, IP, PARENT, OP, SEES_ARGUMENTS, SEES_SP, SEES_PC, SEES_FP, SEES_LINK,
 RECORD_OF_FUNCTION, RECORD_OF_CALLER, READY_ALONE, READY_IN_LIST, RETURN_TAKEN, OWN_FILTER) = range(KEPT, KEPT + 16)
CALLBACK = {
    IP: ("ip is not the address of the word that is toggled", "ip-off-by-one-instruction"),
    PARENT: ("parent_ip is not where the function returns to", ""),
    OP: ("op is not the op that was registered", ""),
    SEES_ARGUMENTS: ("regs->arg is not what the caller passed", ""),
    SEES_SP: ("regs->sp is not what sp was at the call site: arguments that lie on the stack are not found there",
              "sp-inside-the-frame"),
    SEES_PC: ("regs->pc is not the address behind the call site", ""),
    SEES_FP: ("regs->fp is not the caller's frame pointer", ""),
    SEES_LINK: ("regs->link is not where the function returns to", ""),
    RECORD_OF_FUNCTION: ("there is no frame record of the traced function: a stack walk from the callback does not find it",
                         "one-frame-record"),
    RECORD_OF_CALLER: ("there is no frame record of the function's caller: a stack walk from the callback does not find it",
                       "one-frame-record"),
}


def _name(e: Evidence, item: int) -> str:
    link = "ra" if e.arch == "riscv64" else "x30"
    return {LINKED: link, STACK: "sp"}.get(item) or REGISTERS[e.arch][item]


def _mistake(e: Evidence, item: int) -> str:
    return "return-address-lost" if item == LINKED else "argument-clobbered" if item < ARGUMENTS[e.arch] else ""


def registers_found(e: Evidence) -> Finding | None:
    """A traced function finds every register as its caller left it."""
    if e.smp > 1:
        return None
    for (changed, item), right in e.truth.entered.items():
        if item <= STACK and not right and not changed:
            return Finding(f"entry_traced was called with a pattern in every register, and traced: it found another {_name(e, item)} "
                           "than its caller had", mistake=_mistake(e, item))
    return None if (False, STACK) in e.truth.entered else Finding("entry_traced, traced, was called and did not run")


def registers_changed(e: Evidence) -> Finding | None:
    """And what the callback changed as the callback left it."""
    if e.smp > 1:
        return None
    for (changed, item), right in e.truth.entered.items():
        if item <= STACK and not right and changed:
            changes = item < 8 or item == LINKED
            who = "the callback changed" if changes else "its caller had"
            return Finding(f"entry_traced was called with a pattern in every register; the callback changed every regs->arg and "
                           f"regs->link. The function did not find the {_name(e, item)} that {who}",
                           mistake="change-not-loaded-back" if changes and e.truth.entered[False, item] else _mistake(e, item))
    return None if (True, STACK) in e.truth.entered else Finding("entry_traced, traced and changed, was called and did not run")


def _told(e: Evidence, first: int, last: int) -> Finding | None:
    told = [right for (_, item), right in e.truth.entered.items() if item in CALLBACK]
    if told and not any(told):
        return Finding("entry_traced was traced and called, and its op was not: ftrace_caller came to no callback")
    for (_, item), right in e.truth.entered.items():
        if first <= item <= last and not right:
            why, mistake = CALLBACK[item]
            if e.arch == "riscv64" and item == RECORD_OF_CALLER and not e.truth.entered[False, SEES_SP]:
                mistake = "sp-inside-the-frame"  # one word serves for both
            return Finding(f"the callback of entry_traced: {why}", mistake=mistake)
    return None


def registers_seen(e: Evidence) -> Finding | None:
    """The callback sees the registers of the call."""
    return _told(e, SEES_ARGUMENTS, SEES_LINK)


def callers_seen(e: Evidence) -> Finding | None:
    """And where it was called, from whom, and a stack that can be walked."""
    return _told(e, IP, OP) or _told(e, RECORD_OF_FUNCTION, RECORD_OF_CALLER)


def ready_before_sites(e: Evidence) -> Finding | None:
    """Whoever a site calls is there when the site is written."""
    which = {READY_ALONE: "alone", READY_IN_LIST: "after another one"}
    late = next((item for (_, item), right in e.truth.entered.items() if item in which and not right), None)
    return Finding(f"an op that traces text_alias_close, {which[late]}, was registered. Its site was written, ftrace_batch_end() called "
                   "text_alias_close, and the op was not called: it must be published before the sites are written",
                   mistake="published-too-late") if late else None


def return_taken(e: Evidence) -> Finding | None:
    """An op returns at once, and one after it replaced the return: through the replacement."""
    if e.smp > 1 or (True, RETURN_TAKEN) not in e.truth.entered or e.truth.entered[True, RETURN_TAKEN]:
        return None
    return Finding("two ops traced entry_traced: the first set regs->pc to parent_ip, the other then replaced regs->link. The function must "
                   "return at once, through the replacement, and did not: the list has to set pc to link")


def own_functions_kept(e: Evidence) -> Finding | None:
    """An op that may change pc does not clash with itself."""
    if e.smp > 1 or (True, OWN_FILTER) not in e.truth.entered or e.truth.entered[True, OWN_FILTER]:
        return None
    return Finding("an op that may change pc traced entry_traced, alone, and its filter got text_alias_close too. It was refused: what an op "
                   "had before (was) is not won")

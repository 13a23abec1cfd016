"""What a caller sees that has a pattern in every register: kern/apps/registers.c, labs 1 and 3.

It is trusted, and says what it saw by addresses that the observer sees.
"""

from __future__ import annotations

from grading.evidence import Evidence
from grading.finding import Finding
from grading.truth import PATTERN_CALL

# What registers.c looks at, in its order.
ARGUMENTS = {"riscv64": 8, "arm64": 9}
REGISTERS = {"riscv64": [*(f"a{n}" for n in range(8)), *(f"s{n}" for n in range(1, 12)), "s0"],
             "arm64": [*(f"x{n}" for n in range(9)), *(f"x{n}" for n in range(19, 30))]}
KEPT = 20
STACK, IP, PARENT, OP, REGS, RECORD, NOT_FIRST_ARGUMENT, NOT_SITE, NO_BATCH, NOT_ADDRESS = range(KEPT, KEPT + 10)


# ---- the caller with the pattern -----------------------------------------------

def wrong_items(e: Evidence) -> list[tuple[bool, int]]:
    return [item for item, right in e.truth.kept.items() if not right]


def registers_kept(e: Evidence) -> Finding | None:
    """Every register that the contract names comes back, traced or not."""
    if e.smp > 1:
        return None
    for traced, item in wrong_items(e):
        if item <= STACK:
            name = "sp" if item == STACK else REGISTERS[e.arch][item]
            when = " while somebody traces," if traced else " while nobody traces,"
            who = f"_mcount was called{when}" if e.lab == 1 else "ftrace_caller was called" if traced else f"A site was passed{when}"
            return Finding(f"{who} with a pattern in every register, and {name} came back changed",
                           seq=when_called(e, traced), mistake=mistake_of(e, item))
    return None if (True, STACK) in e.truth.kept else Finding("the caller with a pattern in every register did not come back")


def mistake_of(e: Evidence, item: int) -> str:
    if item == STACK:
        return "stack-not-given-back"
    if item == KEPT - 1:
        return "frame-pointer-lost"
    return "argument-clobbered" if item < ARGUMENTS[e.arch] else "saved-register-lost" if e.lab == 1 else ""


def when_called(e: Evidence, traced: bool, what: str = PATTERN_CALL) -> int | None:
    """The observer's record of the call with the pattern."""
    calls = [seq for name, seq in zip(e.truth.pattern, e.truth.pattern_at) if name == what]
    return calls[-1 if traced else 0] if calls else None

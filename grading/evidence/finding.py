"""A finding: what a check found wrong, with everything that the report shows about it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from errno import errorcode
from typing import Protocol


class Defect(Enum):
    """The kind of a finding, for code that must tell findings apart. Text in `why` is for people
    only."""

    OTHER = auto()
    TOO_LITTLE = auto()  # nothing wrong was observed, but too little was observed to judge
    NOT_SYNCHRONISED = auto()
    NO_LINE_MAINTENANCE = auto()
    COSTS_MORE = auto()  # the cost of an op depends on the number of other ops
    NOT_LOADED_BACK = auto()  # a changed register has the value that the caller passed
    PC_NOT_TAKEN = auto()  # the call did not continue at regs->pc
    NOT_REFUSED = auto()
    WENT_ELSEWHERE = auto()  # the call returned to a watched address that is not its own
    WENT_NOWHERE = auto()  # the call did not return to any watched address
    WRONG_DURATION = auto()
    ONE_DEEPER = auto()  # the printed depth is one too large
    BEYOND_FILTER = auto()  # a site was changed that the filter does not select


@dataclass
class Finding:
    """The reason why a rung was not reached."""

    why: str
    # (left, right, do they differ?)
    rows: list[tuple[str, str, bool]] = field(default_factory=list)
    columns: tuple[str, str] = ("executed", "printed")
    site: list[str] = field(default_factory=list)  # the call site, as it was and as it should be
    seq: int | None = None  # the observer's record that shows it
    address: int = 0  # or the address of the wrong word of text
    schedule: str = ""  # the schedule that shows it
    began: int | None = None  # or the first record of the workload during which it happened
    by_hand: str = ""  # if it happens on the host and not in a kernel: the command that repeats it
    need: str = ""  # the lost rung because of which this one was not judged
    mistake: str = ""  # the likely cause: a slug of the lab's MISTAKES
    kind: Defect = Defect.OTHER


class Logged(Protocol):
    """Anything that has a place in the observer's log."""

    @property
    def seq(self) -> int: ...


def seq_at(seen: Sequence[Logged], at: int) -> int | None:
    """The record number of item `at`, or of the last item if the list is shorter."""
    return seen[min(at, len(seen) - 1)].seq if seen else None


def returned(value: int) -> str:
    """What a function of C returned that returns 0 or a negative errno, an int."""
    value %= 1 << 32
    return f"-{errorcode[error]}" if (error := -value % (1 << 32)) in errorcode else (
        f"{value:#x}" if value else "0")


def side_by_side(left: Sequence[str], right: Sequence[str], at: int,
                 around: int = 3) -> list[tuple[str, str, bool]]:
    """A finding's rows: the lines around a difference."""
    return [(left[i] if i < len(left) else "-", right[i] if i < len(right) else "-", i == at)
            for i in range(max(0, at - around), at + around + 1) if i < max(len(left), len(right))]

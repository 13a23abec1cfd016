"""What a check found wrong, in the form in which the report shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol


class Defect(Enum):
    """What a finding says, for those that ask further."""

    OTHER = auto()
    TOO_LITTLE = auto()  # nothing was wrong in what was seen, and that is not enough
    NOT_SYNCHRONISED = auto()
    NO_LINE_MAINTENANCE = auto()
    COSTS_MORE = auto()  # an op's price follows from how many others there are
    NOT_LOADED_BACK = auto()  # what was changed is as the caller had passed it
    PC_NOT_TAKEN = auto()  # it went on elsewhere than at regs->pc
    NOT_REFUSED = auto()
    WENT_ELSEWHERE = auto()  # it came to a place that is watched, and not to its own
    WENT_NOWHERE = auto()
    WRONG_DURATION = auto()
    ONE_DEEPER = auto()  # printed one deeper than it was
    BEYOND_FILTER = auto()  # text was changed that the filter does not select


@dataclass
class Finding:
    """Why a rung was not reached."""

    why: str
    rows: list[tuple[str, str, bool]] = field(default_factory=list)  # (left, right, here)
    columns: tuple[str, str] = ("executed", "printed")
    site: list[str] = field(default_factory=list)  # the call site, as it was and as it should be
    seq: int | None = None  # the observer's record at which it can be seen to happen
    address: int = 0  # or the word of text that is wrong
    schedule: str = ""  # in which it is seen
    began: int | None = None  # or the first record of the workload in which it was
    by_hand: str = ""  # on the host, not in a kernel: the command that does it again
    need: str = ""  # the rung was not judged, for it stands on this one, which was lost
    mistake: str = ""  # its likely cause, where that has a name: a slug of the lab's MISTAKES
    kind: Defect = Defect.OTHER


class Logged(Protocol):
    """What has a place in the observer's log."""

    @property
    def seq(self) -> int: ...


def seq_at(seen: Sequence[Logged], at: int) -> int | None:
    """Of the one at that place, or of the last where one is missing."""
    return seen[min(at, len(seen) - 1)].seq if seen else None


def side_by_side(left: Sequence[str], right: Sequence[str], at: int, around: int = 3) -> list[tuple[str, str, bool]]:
    """A finding's rows: the neighbours of a difference."""
    return [(left[i] if i < len(left) else "-", right[i] if i < len(right) else "-", i == at)
            for i in range(max(0, at - around), at + around + 1) if i < max(len(left), len(right))]

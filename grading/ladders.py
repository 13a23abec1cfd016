"""Every lab's ladder, and what its boots are."""

from __future__ import annotations

from grading import checks, graph_checks
from grading.checks import Check, Rung
from grading.graph_session import GraphSession
from grading.session import Session

LADDERS: dict[int, list[Rung]] = checks.LADDERS | graph_checks.LADDERS
MECHANISM: dict[int, Check] = checks.MECHANISM | graph_checks.MECHANISM


def session_of(lab: int) -> type[Session]:
    """How a boot of this lab is driven."""
    return GraphSession if lab >= 5 else Session

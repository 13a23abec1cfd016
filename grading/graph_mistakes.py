"""Mistakes that labs 5 and 6 both know by name, by what was executed and printed."""

from __future__ import annotations

import re

from grading.evidence import Evidence
from grading.finding import Finding

RECURSION, DEPTH = "recursion-not-put-back", "depth-counted-twice"
MISTAKES = {RECURSION: "after the first entry no other is seen", DEPTH: "entry and return disagree on the depth"}


def frames_fit(e: Evidence) -> Finding | None:
    """If the frame check spoke, in its words."""
    said = next((line for p in e.phases for line in p.output.splitlines() if "and returned with" in line), "")
    return Finding(f"the kernel said: {said}", mistake="sp-does-not-fit") if said else None


def entries_end(e: Evidence, finding: Finding) -> str:
    """The first calls return through the handler, and then no others."""
    if frames_fit(e):
        return ""
    for phase in e.on():
        hits = sum(phase.first <= r.seq < phase.last for r in e.truth.handlers)
        if 0 < 10 * hits < sum(span.name in phase.returning for span in e.spans(phase)):
            return RECURSION
    return ""


def depth(e: Evidence, finding: Finding) -> str:
    """Entries or returns are printed one deeper than they are."""
    said = re.search(r"(entry|return) of .*: (\d+) traced calls are around it, (\d+) are printed", finding.why)
    return DEPTH if said and int(said[3]) == int(said[2]) + 1 else ""

"""Lab 3: what each rung is held against."""

from __future__ import annotations

from grading.checks import (calls_while_on, lives, only_selected, rest_at_boot, rest_at_end, silent_trampolines, something_called,
                            synchronised, three_agree)
from grading.evidence import Evidence
from grading.finding import Finding


def written_by_patcher(e: Evidence) -> Finding | None:
    """Every store into text is one aligned word, inside a batch, by the tracer's own code."""
    kernel = e.kernel
    lo, hi = kernel.symbol("__ftrace_text_start"), kernel.symbol("__ftrace_text_end")
    inside = {id(r) for b in e.truth.batches for r in b.stores}
    for store in e.truth.stores:
        where = kernel.name_at(kernel.text[0] + store.value)
        if not lo <= store.addr < hi:
            return Finding(f"text was written at {where} by {kernel.name_at(store.addr)}, which is not the tracer", seq=store.seq)
        if store.size != 4 or store.value % 4:
            return Finding(f"{store.size} bytes of text were written at {where}: a site changes as one aligned word", seq=store.seq)
        if id(store) not in inside:
            return Finding(f"text was written at {where} outside of a batch", seq=store.seq)
    return None if e.truth.stores else Finding("text was never written")


ADVICE = {"no-synchronisation", "no-line-maintenance", "wrote-without-looking", "wrote-through-text", "alias-left-open",
          "scattered-immediate", "offset-in-bytes", "unsigned-offset", "wrong-link", "return-address-lost",
          "pair-half-rewritten", "tracer-not-named", "never-restored"}

CHECKS = {
    "called": something_called,
    "life": lives,
    "rest": rest_at_boot,
    "calls": calls_while_on,
    "filter": only_selected,
    "silent": silent_trampolines,
    "restored": rest_at_end,
    "writer": written_by_patcher,
    "one CPU": three_agree,
    "four CPUs": three_agree,
    "synchronised": synchronised,
}

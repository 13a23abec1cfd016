"""Words that were executed and that memory did not hold: QEMU's mistake, and no evidence of anything.

QEMU 7.2 can keep the translation of a function that another CPU patches while
it is translated; that CPU then runs the old word until the page is written
again. (Later versions lock the page before they read it.) No kernel can bring
that about or prevent it, so a boot in which it is seen is repeated.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict

from grading.evidence import Evidence


def word(e: Evidence) -> str:
    """The first such word, told; or ''."""
    stores: dict[int, list[int]] = defaultdict(list)
    for store in e.truth.stores:
        first = e.kernel.text[0] + store.value
        for address in range(first & ~3, first + store.size, 4):
            stores[address].append(store.seq)
    until = {store.seq: batch.end or sys.maxsize for batch in e.truth.batches for store in batch.stores}  # the old word is right till then

    words: dict[tuple[int, int], tuple[int, int]] = {}  # site, stores into it before -> what it held, and when that was read first
    for seq, text in e.texts:
        for site in e.kernel.sites:
            at = site.address - e.kernel.text[0]
            key = site.address, bisect_left(stores.get(site.address, ()), seq)
            words.setdefault(key, (int.from_bytes(text[at:at + 4], "little"), seq))

    newest: dict[int, int] = {}  # by CPU: its newest call
    calls = e.truth.calls[:bisect_left(e.truth.calls, e.spoilt.first, key=lambda c: c.seq)] if e.spoilt else e.truth.calls
    for call in calls:  # up to where a debugger writes
        before = newest.get(call.vcpu, 0)
        newest[call.vcpu] = call.seq
        into = stores.get(call.site.address, [])
        nth = bisect_left(into, call.seq)
        held, seen = words.get((call.site.address, nth), (call.word, 0))
        since = until.get(into[nth - 1], into[nth - 1]) if nth else 0
        # Who was in the function already may run it once as it was; not whoever has stood still or called something since.
        if call.word != held and (since <= before or seen <= call.seq):
            return (f"QEMU executed {call.word:08x} at the call site of {call.name} on CPU {call.vcpu}, where memory had held {held:08x} "
                    f"for {call.seq - since} records")
    return ""

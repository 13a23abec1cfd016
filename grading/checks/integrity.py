"""Checks that the CPUs executed only the text as linked, or, at addresses that the kernel may
change, permitted words.

No handed-in file may contain an instruction that sets the exception vector or the page tables. If
it jumps to such an instruction of the kernel, that instruction sets a value that it never sets
otherwise; _set_once() finds this.
"""

from grading.checks.checks import first_difference
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.observer import Record
from grading.truth import probes
from grading.truth.truth import changing, stubs, tracers


def as_linked(evidence: Evidence) -> Finding | None:
    for r in evidence.truth.foreign:
        return _foreign(evidence, r)
    for r in evidence.truth.words:
        if not permitted(evidence, r.addr, r.word):
            return Finding(f"{evidence.kernel.name_at(r.addr)} held {r.word:08x} "
                           f"({evidence.kernel.disassemble(r.addr, r.word)}), which is neither the "
                           "word that was linked there nor one that a tracer writes", seq=r.seq)
    for r in evidence.truth.middle:
        return Finding(f"CPU {r.vcpu} left the tracer's callback at "
                       f"{evidence.kernel.name_at(r.addr)} without having entered it at its first "
                       "instruction: a jump into its middle is not a call", seq=r.seq)
    return _set_once(evidence) or _stored(evidence)


def _stored(evidence: Evidence) -> Finding | None:
    """Each copy of text equals the linked text with the CPUs' stores applied, so no device wrote
    text."""
    text, stores = bytearray(evidence.kernel.text_bytes()), iter(evidence.truth.stores)
    store = next(stores, None)
    for seq, found in (
        evidence.texts if not evidence.why else ()
    ):  # a boot that ended early may lack stores
        while store and store.seq < seq:
            at, low, high, _ = store.v
            if at + store.size <= len(text):
                text[at:at + store.size] = (high << 64 | low).to_bytes(16, "little")[:store.size]
            store = next(stores, None)
        if found != text:
            at = evidence.kernel.text[0] + first_difference(text, found)
            return Finding(
                f"text at {evidence.kernel.name_at(at)} was changed, and no CPU stored there",
                address=at & ~3)
    return None


def _set_once(evidence: Evidence) -> Finding | None:
    """Each instruction that sets a system register always sets the same value, on every CPU."""
    values: dict[int, int] = {}
    for r in evidence.truth.settings:
        if values.setdefault(r.addr, r.v[0]) != r.v[0]:
            return Finding(
                f"{evidence.kernel.name_at(r.addr)} ({evidence.kernel.disassemble(r.addr)}) was "
                f"executed with {r.v[0]:#x}, and before with {values[r.addr]:#x}: the kernel alone "
                "sets the exception vector and the page tables, once", seq=r.seq)
    return None


def _foreign(evidence: Evidence, record: Record) -> Finding:
    (lo, hi), module = evidence.kernel.text, evidence.kernel.module_at(record.addr)
    if lo <= record.addr < hi or module:
        linked = (module or evidence.kernel).word(record.addr)
        instruction = evidence.kernel.disassemble(record.addr, record.word)
        place = evidence.kernel.name_at(record.addr)
        if record.addr % 4 or record.word == linked & 0xFFFF:
            return Finding(f"CPU {record.vcpu} executed an instruction at {place} ({instruction}) "
                           "that is not a whole word: each instruction of the kernel has 4 bytes, "
                           "at a multiple of 4", seq=record.seq)
        return Finding(f"CPU {record.vcpu} executed {record.word:08x} ({instruction}) at {place}, "
                       f"where {linked:08x} was linked: this is not a call site, and must not "
                       "change", seq=record.seq)
    return Finding(f"CPU {record.vcpu} executed an instruction at {record.addr:#x}, which is "
                   "outside of the kernel's text", seq=record.seq)


def permitted(evidence: Evidence, address: int, word: int) -> bool:
    """May this address hold this word? A call site may hold a nop, a call, or the word as linked;
    ftrace_call and ftrace_graph_call a nop or a call; the word before a site its boot value. Words
    of probes and trampolines, and those that the harness wrote, are permitted too."""
    kernel = evidence.kernel
    if any(was and (address, word) == (was.site.address, was.word)
           for was in (evidence.spoilt, *evidence.overwritten_sites)):
        return True
    if probes.permitted(kernel, evidence.probed, address, word):
        return True
    if any(module.has_trampoline(address) for module in kernel.modules):
        return True  # trampolines_lead() judges trampolines
    if address in kernel.site_at:
        return (word in (kernel.isa.nop, kernel.site_at[address].linked)
                or _is_call(evidence, address, word))
    if address in (kernel.symbol("ftrace_call"), kernel.symbol("ftrace_graph_call")):
        return word == kernel.isa.nop or _is_call(evidence, address, word)
    return address in changing(kernel) and word == kernel.isa.word_before.get(kernel.hook)


def _is_call(evidence: Evidence, address: int, word: int) -> bool:
    jump = evidence.kernel.isa.jump(address, word)
    return bool(jump and jump[1])


def words_stored(evidence: Evidence) -> Finding | None:
    """Each word that a CPU stores into text is one that this address may hold, at every moment: a
    store of another word shows even if no CPU executes it."""
    lo, known = evidence.kernel.text[0], set[tuple[int, int]]()
    for r in evidence.truth.stores:
        address, word = lo + r.v[0], r.v[1] & 0xFFFFFFFF
        if (address, word) in known:
            continue
        known.add((address, word))
        if not _may_be_stored(evidence, address, word):
            return Finding(f"{word:08x} ({evidence.kernel.disassemble(address, word)}) was stored "
                           f"at {evidence.kernel.name_at(address)}: this is neither the word that "
                           "was linked there nor one that a tracer writes there", seq=r.seq)
    return _written_twice(evidence) if evidence.lab > 3 else None


def _written_twice(evidence: Evidence) -> Finding | None:
    """A site that holds the nop between two calls, even for a moment. (In lab 3
    kern/apps/registers.c writes sites several times in a batch.)"""
    for batch in evidence.truth.batches:
        words: dict[int, int] = {}
        for r in batch.stores:
            word = r.v[1] & 0xFFFFFFFF
            if words.setdefault(r.v[0], word) != word:
                at = evidence.kernel.text[0] + r.v[0]
                first, then = (evidence.kernel.disassemble(at, w) for w in (words[r.v[0]], word))
                return Finding(f"{evidence.kernel.name_at(at)} was written twice in one batch, "
                               f"{first}, then {then}: a CPU may execute the word in between",
                               seq=r.seq)
    return None


def _may_be_stored(evidence: Evidence, address: int, word: int) -> bool:
    """As permitted(), but a call must be one of a stub, or at ftrace_call of a tracer. In lab 3
    kern/apps/registers.c stores a breakpoint at ftrace_call, which must be refused there."""
    kernel, isa = evidence.kernel, evidence.isa
    jump = isa.jump(address, word)
    if not permitted(evidence, address, word):
        return word == isa.brk and address == kernel.symbol("ftrace_call") and evidence.lab == 3
    if not jump or not jump[1]:
        return True
    if address == kernel.symbol("ftrace_call"):
        return jump[1] == isa.link and jump[0] in tracers(kernel)
    if address == kernel.symbol("ftrace_graph_call"):
        return jump == (kernel.symbol("ftrace_graph_caller"), kernel.link_register)
    return (word == kernel.word(address)
            or jump[1] == kernel.link_register and jump[0] in stubs(kernel))

"""Lab 2: the check of each rung, and the mistakes that it names."""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from grading.checks import recordmcount
from grading.checks.checks import Check, all_of, first_difference, lives, named, three_agree
from grading.checks.console_checks import lives_and_traces, printed_as_expected
from grading.checks.faults import last
from grading.checks.seen import POWERED_OFF, SITES, answers, once, printed, ran
from grading.elf.elf import KERNEL_BASE
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding, side_by_side
from grading.machine.observer import Record
from grading.stimulus.workload import FUNCTIONS
from grading.verdict import Verdict

PAGE = "labs/2-call-site-records/handout.md"


def something_recorded(evidence: Evidence) -> Finding | None:
    return _no_sites(evidence) or (None if evidence.kernel.records() else _empty(evidence))


def _no_sites(evidence: Evidence) -> Finding | None:
    extra = sorted({a for a, _ in evidence.kernel.records()} - set(evidence.kernel.site_at))
    return Finding(
        f"{len(extra)} entries of the table are not call sites, first "
        f"{evidence.kernel.name_at(extra[0])}"
    ) if extra else None


def of_the_build(check: Check) -> Check:
    """The check; its findings get the command that runs recordmcount by hand, as the table is built
    on the host."""
    def by_hand(evidence: Evidence) -> Finding | None:
        finding, tool = check(evidence), _tool(evidence)
        if finding and tool and not finding.by_hand:
            finding.by_hand = recordmcount.by_hand(tool, evidence.kernel.path)
        return finding
    return by_hand


def _empty(evidence: Evidence) -> Finding:
    """A finding that shows the first call, so that the student can work out by hand what
    call_target should return."""
    if not evidence.kernel.sites:
        return Finding("the table is empty")
    first, mcount = evidence.kernel.sites[0], evidence.kernel.symbol("_mcount")
    words = [first.address - 4, first.address] if evidence.isa.pair else [first.address]
    known = [f"if both are written, see {PAGE}#stale-previous-word"] if evidence.isa.pair else []
    return Finding(
        f"the table is empty: call_target and find_calls found no call whose target is _mcount "
        f"({mcount:#x}), and the kernel has "
        f"{len(evidence.kernel.sites)}", site=[
            f"the first, in {first.function.name}:",
            *(f"{a:#x}: {evidence.kernel.word(a):08x}  {evidence.kernel.disassemble(a)}"
              for a in words), *known
        ])


def table_complete(evidence: Evidence) -> Finding | None:
    """The table has exactly the call sites that the compiler made."""
    table, sites = {a for a, _ in evidence.kernel.records()}, set(evidence.kernel.site_at)
    missing = sorted(sites - table)
    if missing:
        return Finding(
            f"{len(missing)} of {len(sites)} call sites are not in the table, first "
            f"{evidence.kernel.name_at(missing[0])}",
            site=[f"{missing[0]:#x}: {evidence.kernel.disassemble(missing[0])}"])
    return _no_sites(evidence)


def _tool(evidence: Evidence) -> Path | None:
    """The student's recordmcount; None: the kernel was not built in this tree."""
    tool = evidence.kernel.path.with_name("recordmcount")
    return tool if tool.exists() else None


def _given(evidence: Evidence, name: str) -> Path:
    """The path of an input file for the tool; it is kept after the grade."""
    return evidence.log.with_name(f"{evidence.arch}-lab{evidence.lab}-{name}.elf")


def tool_finds(evidence: Evidence) -> Finding | None:
    """The student's recordmcount finds exactly the calls in a file that also has words which are
    almost calls, in text that is like a kernel's, and in text that is not."""
    tool = _tool(evidence)
    return (_finds(evidence, tool, "calls", KERNEL_BASE, b"", "")
            or _finds(evidence, tool, "odd", recordmcount.ACROSS, bytes(3),
                      ", in text on both sides of a multiple of 4 GiB that ends with three bytes"
                      )) if tool else None


def _finds(evidence: Evidence, tool: Path, name: str, base: int, rest: bytes,
           where: str) -> Finding | None:
    made, file = recordmcount.calls(evidence.arch, evidence.seed), _given(evidence, name)
    got, complaint = recordmcount.table(
        tool, made.elf(evidence.arch, base=base, rest=rest), file)
    said = (
        f"recordmcount was given a file with {len(made.sites)} calls of _mcount and "
        f"{len(made.decoys)} words that are almost such a call{where}"
    )
    extra, missing = sorted(set(got) - set(made.sites)), sorted(set(made.sites) - set(got))
    if extra:
        what = made.decoys.get(extra[0], "not a call")
        nearly = all(a in made.decoys and a not in made.beside for a in extra) and not missing
        return Finding(
            f"{said}. Its table has {len(extra)} entries that are not a call of _mcount, first",
            site=[
                what, *(f"{base + a:#x}: {made.words[a // 4]:08x}"
                        for a in (extra[0] - 4, extra[0]) if a >= 0)
            ], by_hand=recordmcount.by_hand(tool, file),
            mistake=("pair-not-checked" if evidence.isa.pair else "opcode-not-checked")
            if nearly else "")
    if missing:
        return Finding(
            f"{said}. Its table lacks {len(missing)} of the calls, first at "
            f"{base + missing[0]:#x}"
            + (f" ({complaint})" if complaint else ""), by_hand=recordmcount.by_hand(tool, file))
    return None


def tool_survives(evidence: Evidence) -> Finding | None:
    """The student's recordmcount does not crash on a file that ends before its text does."""
    tool = _tool(evidence)
    if not tool:
        return None
    made, file = recordmcount.calls(evidence.arch, evidence.seed), _given(evidence, "cut")
    done = recordmcount.run(tool, made.elf(evidence.arch, more=1 << 30), file)
    if done.returncode != recordmcount.CRASHED:
        return None
    return Finding("recordmcount was given a file that ends before its text does, and it crashed: "
                   f"read from text only through word_at ({done.stderr.strip()})",
                   by_hand=recordmcount.by_hand(tool, file))


def table_sorted(evidence: Evidence) -> Finding | None:
    addresses = [a for a, _ in evidence.kernel.records()]
    for before, after in zip(addresses, addresses[1:]):
        if after <= before:
            return Finding(
                f"{evidence.kernel.name_at(after)} comes after {evidence.kernel.name_at(before)}"
            )
    return None if addresses else Finding("the table is empty")


def tool_sorts(evidence: Evidence) -> Finding | None:
    """The student's recordmcount sorts the sites of a file that has them in random order."""
    tool = _tool(evidence)
    if not tool:
        return None
    given, file = recordmcount.entries(evidence.seed), _given(evidence, "entries")
    want = sorted(at + evidence.isa.entry_skip for at in given)
    made = recordmcount.entry_elf(evidence.arch, given, recordmcount.ACROSS)
    got, complaint = recordmcount.table(tool, made, file)
    if got == want:
        return None
    at = first_difference(want, got)
    rows = side_by_side([f"{o:#x}" for o in got], [f"{o:#x}" for o in want], at)
    return Finding(
        f"recordmcount was given a file with {len(want)} call sites in random order, on both "
        f"sides of a multiple of 4 GiB. Its table must have them sorted: record {at} differs"
        + (f" ({complaint})" if complaint else ""), rows,
        ("written", "must be"), by_hand=recordmcount.by_hand(tool, file))


def list_complete(evidence: Evidence) -> Finding | None:
    """available_filter_functions and available_filter_functions_addrs list the functions with call
    sites, by address. They are not read if the boot ended early."""
    if evidence.why:
        return None
    names = [s.function.name for s in evidence.kernel.sites]
    addresses = [f"{s.address:x} {s.function.name}" for s in evidence.kernel.sites]
    for file, want in (("available_filter_functions", names), ("available_filter_functions_addrs",
                                                               addresses)):
        got = evidence.files.get(file, "").split("\n")[:-1]
        if want != got:
            at = first_difference(want, got)
            return Finding(
                f"{file} has {len(got)} lines, and the kernel has {len(want)} call sites; line "
                f"{at + 1} differs",
                side_by_side(got, want, at), ("printed", "in the kernel"))
    return None


# instructions for each bit of the table's size, in nine of ten lookups: several times what a binary
# search needs
STEP = 40
RECORD_BYTES = 8
LATER = 3  # records of the last table that kern/apps/lookup.c adds


def _tables(evidence: Evidence) -> list[tuple[int, int]]:
    """The records of all tables: the address of each one's site, and its own."""
    first, later = map(evidence.kernel.symbol, ("ftrace_records", "lookup_later"))
    added = [later + RECORD_BYTES * n for n in range(LATER if later else 0)]
    return [*((site, first + RECORD_BYTES * n)
              for n, (site, _) in enumerate(evidence.kernel.records())),
            *((KERNEL_BASE + evidence.kernel.word(at), at) for at in added)]


def lookups(evidence: Evidence) -> Finding | None:
    """lookup_rec and lookup_rec_range return the right records to kern/apps/lookup.c, which calls
    them in a random order."""
    asked = sorted((r.seq, name, r) for name in ("lookup_rec", "lookup_rec_range")
                   for r in evidence.truth.hits[name])
    pairs = [(name, question, answer)
             for (_, name, question), answer in zip(asked, evidence.truth.hits["answer"])]
    table = _tables(evidence)
    if not evidence.why and pairs and all(not answer.v[0] for _, _, answer in pairs):
        return Finding("lookup_rec finds nothing: is first_at_or_after written?",
                       seq=pairs[0][1].seq)
    wrong = [pair for pair in pairs if pair[2].v[0] != _right_answer(table, *pair[:2])]
    if wrong:
        by_one = any(
            all(answer.v[0] == _right_answer(table, name, asked, off)
                for name, asked, answer in wrong) for off in (1, -1))
        return _wrong_answer(table, *wrong[0], "search-off-by-one" if by_one else "")
    if evidence.why:
        return _unanswered(evidence, *asked[-1][1:]) if len(asked) > len(pairs) else None
    if len(asked) != 3 * len(table) + 6 or len(pairs) != len(asked) or not asked:
        return Finding(
            "not every lookup was made and returned: is the table empty, or did a search not end?")
    return _steps(evidence, pairs)


def _bounds(name: str, question: Record) -> tuple[int, int]:
    return question.v[0], question.v[1] if name == "lookup_rec_range" else question.v[0] + 1


def _right_answer(table: list[tuple[int, int]], name: str, question: Record, off: int = 0) -> int:
    """The address of the right record, or 0. `off`: the answer of a search that is wrong by this
    many records."""
    start, end = _bounds(name, question)
    at = bisect_left(table, (start, 0)) + off
    return table[at][1] if 0 <= at < len(table) and table[at][0] < end else 0


def _asked(name: str, question: Record) -> str:
    return f"{name}({', '.join(f'{v:#x}' for v in question.v[:1 + (name == 'lookup_rec_range')])})"


def _unanswered(evidence: Evidence, name: str, question: Record) -> Finding | None:
    """A finding about the lookup during which the boot ended: it did not return, or it read outside
    of the table."""
    fault = last(evidence) if evidence.verdict == Verdict.PANIC else None
    if evidence.verdict == Verdict.TIMEOUT:
        executed, at = evidence.insns[question.vcpu] - question.insns, evidence.kernel.address_of(
            evidence.stuck().get(question.vcpu, ""))
        searching = any(
            lo <= at < hi for lo, hi in evidence.kernel.code_of("kern/ftrace/core/records.c")
        )
        return Finding(
            f"{_asked(name, question)} did not return: the boot timed out {executed:,} "
            f"instructions later",
            seq=question.seq, mistake="search-without-end" if searching else "")
    if fault and fault.access == "read":
        return Finding(
            f"{_asked(name, question)} read {fault.address:#x}, which is outside of the table",
            seq=question.seq, mistake="search-outside-the-table")
    return None


def _record(table: list[tuple[int, int]], address: int) -> str:
    """What is at this address, the result of a lookup."""
    known = [record for _, record in table]
    if address not in known:
        return f"{address:#x}, where no record is" if address else "NULL"
    at, kernels = known.index(address), len(table) - LATER
    named = f"record {at}" if at < kernels else f"record {at - kernels} of the last table"
    return f"{named}, whose site is at {table[at][0]:#x}"


def _wrong_answer(table: list[tuple[int, int]], name: str, question: Record, answer: Record,
                  mistake: str) -> Finding:
    found = _right_answer(table, name, question)
    return Finding(
        f"{_asked(name, question)} returned {_record(table, answer.v[0])}, and must return " +
        (_record(table, found) if found else "NULL: there is no such record"), seq=question.seq,
        mistake=mistake)


def _steps(evidence: Evidence, pairs: list[tuple[str, Record, Record]]) -> Finding | None:
    """Nine of ten lookups take few enough instructions; an interrupt may come during the tenth."""
    bits = len(evidence.kernel.records()).bit_length()
    for name in ("lookup_rec", "lookup_rec_range"):
        taken = sorted(answer.insns - question.insns for asked, question, answer in pairs
                       if asked == name)
        used = taken[9 * len(taken) // 10]
        if used > STEP * bits:
            return Finding(
                f"a call of {name} took {used} instructions (nine of ten took no more), with "
                f"{len(evidence.kernel.records())} "
                f"records: {bits} steps are enough for a binary search", mistake="search-linear")
    return None


# ---- mistakes with a name: which sites are missing in the table -------------------

def _missing(evidence: Evidence, finding: Finding) -> str:
    table = {a for a, _ in evidence.kernel.records()}
    lost = [s for s in evidence.kernel.sites if s.address not in table]
    if lost and all(
            bool(s.linked >> evidence.isa.distance_sign & 1) == (s in lost)
            for s in evidence.kernel.sites):
        return "carry-forgotten" if evidence.isa.pair else "sign-forgotten"
    return ""


def _first_word(evidence: Evidence, finding: Finding) -> str:
    table = [a for a, _ in evidence.kernel.records()]
    return "auipc-recorded" if evidence.isa.pair and table and all(a + 4 in evidence.kernel.site_at
                                                                   for a in table) else ""


def _counted_from_jalr(evidence: Evidence, finding: Finding) -> str:
    """The tool accepts only calls to the address 4 bytes before _mcount."""
    tool = _tool(evidence)
    if not evidence.isa.pair or evidence.kernel.records() or not tool:
        return ""
    made = recordmcount.calls(evidence.arch, evidence.seed)
    got, _ = recordmcount.table(tool, made.elf(evidence.arch), _given(evidence, "calls"))
    return "pc-of-the-wrong-word" if got and all(made.beside.get(a) == -4 for a in got) else ""


def _unsorted(evidence: Evidence, finding: Finding) -> str:
    return (
        "table-unsorted"
        if {a for a, _ in evidence.kernel.records()} == set(evidence.kernel.site_at)
        else ""
    )


MISTAKES = {
    "carry-forgotten": "the lower part of the offset is not sign-extended, so half of the sites "
                       "are missing",
    "sign-forgotten": "bl's offset is not sign-extended, so the calls of lower addresses are "
                      "missing",
    "pc-of-the-wrong-word": "the offset is counted from the jalr, so no call's target is _mcount",
    "auipc-recorded": "the records hold the address of the first word of the pair, and not of the "
                      "second",
    "pair-not-checked": "a jalr is taken for a call although not all bits of it and of the word "
                        "before it were compared",
    "opcode-not-checked": "a word is taken for a bl although not all six bits of the opcode were "
                          "compared",
    "table-unsorted": "the table has the right sites, but they are not sorted",
    "search-off-by-one": "the search finds another record than the one at the address",
    "search-without-end": "the search does not end",
    "search-outside-the-table": "the search reads outside of the table",
    "search-linear": "the search looks at all records, one after the other",
}
ADVICE = {"every-call-recorded", "stale-previous-word"}

TOOL = once("recordmcount, beside the kernel that was built with it,", lambda e: bool(_tool(e)))
LISTED = once("line of available_filter_functions",
              lambda e: e.files.get("available_filter_functions", "").count("\n"), len(FUNCTIONS))

CHECKS = {
    "found": named(of_the_build(something_recorded), _first_word, _counted_from_jalr),
    "life": lives,
    "table": named(of_the_build(all_of(table_complete, tool_finds, tool_survives)), _missing),
    "sorted": named(of_the_build(all_of(table_sorted, tool_sorts)), _unsorted),
    "list": all_of(lookups, list_complete),
    "one CPU": three_agree,
    "many CPUs": three_agree,
}

CONSOLE = {
    "life": lives_and_traces, "one CPU": printed_as_expected, "many CPUs": printed_as_expected
}

SEEN = {
    "found": (SITES,),
    "life": (POWERED_OFF, ran(1, 2)),
    "table": (SITES, TOOL),
    "sorted": (SITES, TOOL),
    "list": (SITES, LISTED, answers("answer of lookup_rec", 3 * len(FUNCTIONS))),
    "one CPU": (ran(1, 2), printed(1)),
    "many CPUs": (ran(1, 2), printed(1)),
}

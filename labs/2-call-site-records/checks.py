"""Lab 2: what each rung is held against."""

from __future__ import annotations

from grading import recordmcount
from grading.checks import all_of, first_difference, lives, named, three_agree
from grading.evidence import Evidence
from grading.finding import Finding, side_by_side


def something_recorded(e: Evidence) -> Finding | None:
    table = [a for a, _ in e.kernel.records()]
    wrong = [a for a in table if a not in e.kernel.site_at]
    if wrong:
        return Finding(f"{len(wrong)} entries of the table are no call sites, first {e.kernel.name_at(wrong[0])}")
    return None if table else Finding("the table is empty")


def table_complete(e: Evidence) -> Finding | None:
    """The table has exactly the call sites that the compiler left."""
    table, sites = {a for a, _ in e.kernel.records()}, set(e.kernel.site_at)
    missing, extra = sorted(sites - table), sorted(table - sites)
    if missing:
        return Finding(f"{len(missing)} of {len(sites)} call sites are not in the table, first {e.kernel.name_at(missing[0])}",
                       site=[f"{missing[0]:#x}: {e.kernel.disassemble(missing[0])}"])
    if extra:
        return Finding(f"{len(extra)} entries of the table are no call sites, first {e.kernel.name_at(extra[0])}")
    return None


def table_sorted(e: Evidence) -> Finding | None:
    addresses = [a for a, _ in e.kernel.records()]
    for before, after in zip(addresses, addresses[1:]):
        if after <= before:
            return Finding(f"{e.kernel.name_at(after)} comes after {e.kernel.name_at(before)}")
    return None if addresses else Finding("the table is empty")


def tool_sorts(e: Evidence) -> Finding | None:
    """The student's recordmcount, with a file whose sites come in no order: -pg's are found in theirs."""
    tool = e.kernel.path.with_name("recordmcount")
    if not tool.exists():  # a kernel that was not built here
        return None
    given = recordmcount.entries(e.seed)
    want = sorted(at + recordmcount.TOGGLED[e.arch] for at in given)
    got, complaint = recordmcount.table(tool, e.arch, given)
    if got == want:
        return None
    at = first_difference(want, got)
    rows = side_by_side([f"{o:#x}" for o in got], [f"{o:#x}" for o in want], at)
    return Finding(f"recordmcount was given a file with {len(want)} call sites in no order. Its table is not theirs, sorted: "
                   f"record {at} differs" + (f" ({complaint})" if complaint else ""), rows, ("written", "must be"))


def list_complete(e: Evidence) -> Finding | None:
    """available_filter_functions and its addresses are the functions with call sites, by address."""
    want = [s.function.name for s in e.kernel.sites]
    got = e.files.get("available_filter_functions", "").split("\n")[:-1]
    if want != got:
        at = first_difference(want, got)
        rows = side_by_side(got, want, at)
        return Finding(f"available_filter_functions has {len(got)} lines, the kernel {len(want)} call sites; "
                       f"line {at + 1} differs", rows, ("printed", "in the kernel"))
    want = [f"{s.address:x} {s.function.name}" for s in e.kernel.sites]
    got = e.files.get("available_filter_functions_addrs", "").split("\n")[:-1]
    if want != got:
        at = first_difference(want, got)
        return Finding(f"available_filter_functions_addrs, line {at + 1}: printed '{(got + [''] * (at + 1))[at]}', "
                       f"the site is '{(want + [''] * (at + 1))[at]}'")
    return None


LOOKUPS = ["each site's record", "no record behind a site", "a range's first record", "none before the first", "none behind the last"]


def lookups(e: Evidence) -> Finding | None:
    """What lookup_rec answers, asked by kern/apps/lookup.c for every record."""
    wrong = [LOOKUPS[item] for item, right in sorted(e.truth.found.items()) if not right]
    if wrong:
        return Finding(f"lookup_rec and lookup_rec_range must find {', '.join(wrong)}, and do not", mistake="search-off-by-one")
    return None if len(e.truth.found) == len(LOOKUPS) else Finding("not every record was looked up: is the table empty?")


# ---- mistakes by name: which sites are not in the table ---------------------------

def _negative(word: int, arch: str) -> bool:
    """jalr's lo, bl's imm26."""
    return bool(word >> (31 if arch == "riscv64" else 25) & 1)


def _missing(e: Evidence, finding: Finding) -> str:
    table = {a for a, _ in e.kernel.records()}
    lost = [s for s in e.kernel.sites if s.address not in table]
    if lost and all(_negative(s.linked, e.arch) == (s in lost) for s in e.kernel.sites):
        return "carry-forgotten" if e.arch == "riscv64" else "sign-forgotten"
    return ""


def _first_word(e: Evidence, finding: Finding) -> str:
    table = [a for a, _ in e.kernel.records()]
    return "auipc-recorded" if e.arch == "riscv64" and table and all(a + 4 in e.kernel.site_at for a in table) else ""


def _unsorted(e: Evidence, finding: Finding) -> str:
    return "table-unsorted" if {a for a, _ in e.kernel.records()} == set(e.kernel.site_at) else ""


MISTAKES = {
    "carry-forgotten": "the lower part of the offset was taken without its sign, and half of the sites are missing",
    "sign-forgotten": "bl's offset was taken without its sign, and the calls backwards are missing",
    "auipc-recorded": "the records name the first word of the pair",
    "table-unsorted": "the right sites, not in order",
    "search-off-by-one": "the search finds another record than the one at the address",
}
ADVICE = {"pc-of-the-wrong-word", "every-call-recorded", "stale-previous-word", "pair-not-checked"}

CHECKS = {
    "found": named(something_recorded, _first_word),
    "life": lives,
    "table": named(table_complete, _missing),
    "sorted": named(all_of(table_sorted, tool_sorts), _unsorted),
    "list": all_of(lookups, list_complete),
    "one CPU": three_agree,
    "four CPUs": three_agree,
}

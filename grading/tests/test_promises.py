"""The table of promises of each lab, labs/<n>-<name>/promises.toml: every sentence of the handout's
contract has its entries, and each promise has been seen broken.

    [[promise]]
    says = "Returns 0; … -EINVAL when `ip` or `addr` is not a multiple of 4."
    seen = ["synchronised", "patch_test/Encoder.Reach"]
    wrong = ["misaligned-accepted"]

    [[told]]
    says = "`insn_call_target`, the inverse, is there to compare with."
    why = "given"

`says` is copied from one sentence of the contract, without links. Where words are left out, it has
" … ", and " | " between two cells of a table. The entries of a sentence quote all
of its words but those in CONNECTING. `seen` names rungs of the lab, host tests, or BUILD; `wrong`
names the wrong solutions that break this promise. [[told]] is for words that no code of a student
can break; `why` is one of WHYS.
"""

from __future__ import annotations

import itertools
import re
import tomllib
import unittest
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from grading.checks import rubric
from grading.selftest import wrong
from grading.verdict import Verdict
from qemu.machine import ROOT

BUILD = "build"  # make refuses it
WHYS = ("given",  # what is there already, or what others do
        "explained",  # why it is so, or what follows from a promise
        "hint",  # a way to do it; another way is as good
        "again")  # what another entry promises, in other words
LEFT_OUT = " … "
CONNECTING = {"a", "and", "but", "if", "it", "or", "otherwise", "so", "that", "the", "then"}
END = re.compile(r"([.?!]\)?) ")  # of a sentence
KEYS = {"promise": {"says", "seen", "wrong"}, "told": {"says", "why"}}


# ---- the contract ----------------------------------------------------------------

def is_text(token: Token) -> bool:
    return token.type in ("text", "softbreak")


def words(inline: Token) -> str:
    """A paragraph or a cell as it is written, without links; each sentence on a line of its own."""
    said = ""
    for text, run in itertools.groupby(inline.children or [], is_text):
        if text:
            said += END.sub(r"\1\n", "".join(token.content or " " for token in run))
        else:
            said += "".join(f"`{token.content}`" if token.type == "code_inline" else token.markup
                            for token in run)
    return said


def contract(page: str) -> Iterator[str]:
    """The paragraphs, list items and rows below each heading that begins with "The contract"."""
    level, row, before, depth = 0, [], "", 0
    for token in MarkdownIt("commonmark").enable("table").parse(page):
        if before == "heading_open" and (not level or depth <= level):
            level = depth if token.content.startswith("The contract") else 0
        elif level and before == "td_open":
            row.append(words(token))
        elif level and before == "paragraph_open" and not token.content.startswith("@picture "):
            yield words(token)
        elif row and token.type == "tr_close":
            yield " | ".join(row)
            row = []
        before, depth = token.type, int(token.tag[1:]) if token.type == "heading_open" else 0


def sentences(page: str) -> list[str]:
    return [line.strip(" |") for block in contract(page) for line in block.split("\n")
            if line.strip(" |")]


# ---- the table -------------------------------------------------------------------

@dataclass
class Known:
    """What a table may name."""

    rungs: list[str]
    tests: list[str]  # host tests
    wrong: dict[str, set[str]]  # each wrong solution: what it may lose, rungs or BUILD

    @property
    def seen(self) -> set[str]:
        return {*self.rungs, *self.tests, BUILD}


def places(says: str, sentence: str) -> list[slice]:
    """Where the parts of `says` are in this sentence, in their order; none, if one is not there."""
    found, at = [], 0
    for part in says.split(LEFT_OUT):
        start = sentence.find(part, at)
        if start < 0:
            return []
        at = start + len(part)
        found.append(slice(start, at))
    return found


def unquoted(sentence: str, quotes: list[str]) -> list[str]:
    """The words of this sentence that no quote has."""
    left = list(sentence)
    for part in (part for says in quotes for part in places(says, sentence)):
        left[part] = " " * (part.stop - part.start)
    found = re.findall(r"[^\s|.,;:()]+", "".join(left))
    return [word for word in found if word.lower() not in CONNECTING]


def without_entry(said: list[str], table: dict[str, Any]) -> Iterator[str]:
    quotes = [entry.get("says", "") for kind in KEYS for entry in table.get(kind, [])]
    for sentence in said:
        if not any(places(says, sentence) for says in quotes):
            yield (f"no entry quotes from this sentence of the contract: add a [[promise]] whose "
                   f"`says` is copied from it, or [[told]]: {sentence}")
        elif left := unquoted(sentence, quotes):
            yield (f"no entry quotes '{' '.join(left)}': add one, as a sentence may promise more "
                   f"than one thing: {sentence}")


def of_entry(kind: str, entry: dict[str, Any], said: list[str]) -> Iterator[str]:
    if set(entry) != KEYS[kind]:
        yield f"[[{kind}]] must have {', '.join(sorted(KEYS[kind]))}: {entry}"
    if not any(places(entry.get("says", ""), sentence) for sentence in said):
        yield (f"no sentence of the contract says this: copy it again, without links, from one "
               f"sentence: {entry.get('says')}")
    if kind == "told" and entry.get("why") not in WHYS:
        yield f"`why` must be one of {', '.join(WHYS)}: {entry}"


def of_promise(entry: dict[str, Any], known: Known) -> Iterator[str]:
    seen, broken = set(entry.get("seen", [])), entry.get("wrong", [])
    if not seen:
        yield f"`seen` must name a rung or a host test; without one, write the check: {entry}"
    if not broken:
        yield (f"`wrong` must name a wrong solution that breaks this promise; write one, and grade "
               f"it: {entry}")
    for name in sorted(seen - known.seen):
        yield (f"'{name}' is no rung of this lab, no host test (binary/suite.case) and not "
               f"'{BUILD}': {entry}")
    for name in broken:
        lost = known.wrong.get(name)
        if lost is None:
            yield f"there is no wrong/{name}.edit: write it, or correct the name: {entry}"
        elif not lost:
            yield f"wrong/{name}.edit loses no points, so it breaks no promise: {entry}"
        elif not seen & lost and not (seen & {*known.tests} and wrong.HOST_TESTS in lost):
            yield (f"the head of wrong/{name}.edit names none of {', '.join(sorted(seen))}: "
                   f"correct `seen`, or write a wrong solution that loses it: {entry}")


def missing(page: str, table: dict[str, Any], known: Known) -> list[str]:
    """What the table lacks, a sentence each, with what to do."""
    named = {name for entry in table.get("promise", []) for name in entry.get("wrong", [])}
    return [
        *without_entry(sentences(page), table),
        *(f"wrong/{name}.edit breaks no promise of the table: name it in the `wrong` of each "
          "promise that it breaks" for name, lost in known.wrong.items()
          if lost and name not in named and not re.match(r"lab\d-", name)),
    ]


def faults(page: str, table: dict[str, Any], known: Known) -> list[str]:
    """What is wrong with the entries of a table, a sentence each, with what to do."""
    said = sentences(page)
    return [
        *(f"[[{kind}]] must be [[promise]] or [[told]]" for kind in set(table) - set(KEYS)),
        *(fault for kind in KEYS for entry in table.get(kind, [])
          for fault in of_entry(kind, entry, said)),
        *(fault for entry in table.get("promise", []) for fault in of_promise(entry, known)),
    ]


# ---- what is there ---------------------------------------------------------------

def may_lose(one: wrong.Wrong, rungs: list[str]) -> set[str]:
    """The rungs that its head names, BUILD, or all rungs if the boot may end early."""
    ended = set(one.verdicts) - {Verdict.PASS, Verdict.FAIL, Verdict.BUILD}
    built = {BUILD} if Verdict.BUILD in one.verdicts else set()
    return {*one.listed("Rung"), *one.listed("Also"), *built, *(rungs if ended else [])}


def host_tests() -> list[str]:
    return [f"{file.stem}/{suite}.{case}" for file in sorted(ROOT.glob("kern/**/*_test.*"))
            for suite, case in re.findall(r"^TEST(?:_[FP])?\((\w+),\s+(\w+)\)", file.read_text(),
                                          re.M)]


def known_of(lab: int) -> Known:
    rungs = [rung.name for rung in rubric.lab(lab).rungs]
    return Known(rungs, host_tests(), {one.name: may_lose(one, rungs) for one in wrong.shelf(lab)})


class Tables(unittest.TestCase):
    maxDiff = None

    def test_each_sentence_of_a_contract_has_an_entry_and_each_promise_is_seen_broken(self) -> None:
        for lab, folder in rubric.LABS.items():
            with self.subTest(lab=lab):
                table = tomllib.loads((folder / "promises.toml").read_text())
                read = (folder / "handout.md").read_text(), table, known_of(lab)
                found = faults(*read) + missing(*read)
                self.assertFalse(found, "\n".join([f"{folder.name}/promises.toml:", *found]))


# ---- the test of the test --------------------------------------------------------

PAGE = """# A lab

Before it.

## The contract

`add(a, b)` returns [the
sum](sum.md). It panics, and never
returns, when `a.b. c` overflows.

| function | what it does |
|---|---|
| `sub(a, b)` | the inverse. `a` is *larger* |

```text
Code.
```

1. First it reads.

    @picture add How it adds

### A part

Last.

## After it

Hidden.
"""
SAID = ["`add(a, b)` returns the sum.", "It panics, and never returns, when `a.b. c` overflows.",
        "`sub(a, b)` | the inverse.", "`a` is *larger*", "First it reads.", "Last."]


def promise(says: str, seen: list[str] | None = None, broken: list[str] | None = None
            ) -> dict[str, Any]:
    return {"says": says, "seen": ["sum"] if seen is None else seen,
            "wrong": ["off-by-one"] if broken is None else broken}


@dataclass
class Table:
    promise: list[dict[str, Any]] = field(default_factory=lambda: [
        promise("It panics … when `a.b. c` overflows", ["life"], ["hangs"]),
        promise("never returns", ["add_test/Add.Returns"]),
        promise(SAID[0])])
    told: list[dict[str, Any]] = field(default_factory=lambda: [
        {"says": says, "why": "given"} for says in SAID[2:]])


class FaultsOfTables(unittest.TestCase):
    def setUp(self) -> None:
        self.known = Known(["life", "sum"], ["add_test/Add.Returns"], {
            "off-by-one": {"sum", wrong.HOST_TESTS}, "hangs": {"life", "sum"}, "right-too": set(),
            "lab3-prints": {"life"}, "not-built": {BUILD}})
        self.table = Table()
        self.table.promise.append(promise(SAID[0], [BUILD], ["not-built"]))

    def found(self, page: str = PAGE) -> list[str]:
        read = page, vars(self.table), self.known
        return faults(*read) + missing(*read)

    def one(self, *expected: str) -> None:
        found = self.found()
        self.assertEqual(len(found), 1, found)
        for text in expected:
            self.assertIn(text, found[0])

    def test_a_contract_is_its_paragraphs_items_and_rows(self) -> None:
        self.assertEqual(sentences(PAGE), SAID)

    def test_each_section_that_begins_so_is_contract(self) -> None:
        self.assertEqual(sentences("## A half\n\nNo.\n\n### The contract of a.c\n\nYes.\n\n"
                                   "### The ladder\n\nNo.\n"), ["Yes."])

    def test_a_whole_table_has_no_fault(self) -> None:
        self.assertEqual(self.found(), [])

    def test_a_sentence_without_an_entry(self) -> None:
        self.table.told.pop()
        self.one("no entry quotes from this sentence", "Last.")

    def test_a_promise_of_a_sentence_without_an_entry(self) -> None:
        del self.table.promise[1]
        self.one("no entry quotes 'never returns'")

    def test_what_the_contract_does_not_say(self) -> None:
        self.table.promise.append(promise("`add(a, b)` returns the product"))
        self.one("no sentence of the contract says this", "product")

    def test_what_two_sentences_say(self) -> None:
        self.table.promise.append(promise("returns the sum. It panics"))
        self.one("no sentence of the contract says this")

    def test_a_name_that_sees_nothing(self) -> None:
        for name in ("some", "add_test/Add.Gone", "Add.Returns"):
            self.table = Table()
            self.table.promise.append(promise("the sum", ["sum", name], ["off-by-one"]))
            self.known.wrong.pop("not-built", None)
            self.one(f"'{name}' is no rung of this lab")

    def test_a_promise_that_nothing_sees(self) -> None:
        self.table.promise.append(promise("the sum", [], []))
        found = self.found()
        self.assertIn("`seen` must name", found[0])
        self.assertIn("`wrong` must name", found[1])
        self.assertEqual(len(found), 2)

    def test_a_wrong_solution_that_is_not_there(self) -> None:
        self.table.promise.append(promise("the sum", broken=["off-by-two"]))
        self.one("there is no wrong/off-by-two.edit")

    def test_a_right_solution(self) -> None:
        self.table.promise.append(promise("the sum", broken=["right-too"]))
        self.one("wrong/right-too.edit loses no points")

    def test_a_wrong_solution_that_loses_another_rung(self) -> None:
        self.table.promise.append(promise("the sum", ["life"], ["hangs", "off-by-one"]))
        self.one("the head of wrong/off-by-one.edit names none of life")

    def test_a_host_test_sees_only_what_its_rung_loses(self) -> None:
        self.known.wrong["off-by-one"].remove(wrong.HOST_TESTS)
        self.one("the head of wrong/off-by-one.edit names none of add_test/Add.Returns")

    def test_a_wrong_solution_that_breaks_no_promise(self) -> None:
        self.table.promise.pop()
        self.one("wrong/not-built.edit breaks no promise")

    def test_an_entry_of_another_form(self) -> None:
        self.table.told[0]["why"] = "so"
        self.one("`why` must be one of given")
        self.table.told[0] = {"says": SAID[2]}
        self.assertIn("[[told]] must have says, why", self.found()[0])
        self.assertIn("[[tell]] must be [[promise]] or [[told]]",
                      faults(PAGE, {**vars(Table()), "tell": []}, self.known)[0])


class Heads(unittest.TestCase):
    def test_what_a_head_says_may_be_lost(self) -> None:
        def lost(**head: str) -> set[str]:
            one = wrong.Wrong(1, ROOT)
            one.__dict__["head"] = head
            return may_lose(one, ["first", "second"])

        self.assertEqual(lost(Verdict="pass"), set())
        self.assertEqual(lost(Verdict="fail", Rung="first", Also="second"), {"first", "second"})
        self.assertEqual(lost(Verdict="fail", Rung="second"), {"second"})
        self.assertEqual(lost(Verdict="panic, time-out"), {"first", "second"})
        self.assertEqual(lost(Verdict="build failure"), {BUILD})

    def test_the_host_tests_are_found(self) -> None:
        self.assertIn("records_test/records.an_empty_table_has_nothing", host_tests())


if __name__ == "__main__":
    unittest.main()

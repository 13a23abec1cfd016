"""Reads and applies edits: how a wrong solution of a lab differs from the solution.

labs/<n>-<name>/wrong/NAME.edit has a head, a sentence (grading/selftest/wrong.py), and one or more
of these:

    In kern/ftrace/graph/fgraph.c, add_user:
    	err = update_graph_ops();
    becomes:
    	err = 0;

    In kern/ftrace/riscv64/mcount.S, mcount_call:
    	ld ra, MCOUNT_LINK(sp)
    is removed.

    In kern/ftrace/graph/fgraph.c, at the top level:
    #include "hash.h"
    becomes:
    #include "hash.h"
    #include "job.h"

    Whole file kern/ftrace/core/hash.c:
    #error not yet

Texts are whole lines. Empty lines around a text do not count. The first text must be exactly
once in that function, as the tree has it: from its first line to its `}`. In assembly it must be
between that label and the next; local labels and those that only the start has do not count. At
the top level is what no function's body contains. A whole file takes the place of the one that is
there, if any.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import unified_diff
from itertools import pairwise
from pathlib import Path

from qemu.machine import ROOT

TOP = "at the top level"
EDIT = re.compile(r"^(?=(?:In|Whole file) \S+/)", re.M)
PLACE = re.compile(rf"In (\S+), (\S+|{TOP}):\n(.*?)^(?:becomes:\n(.*)|is removed\.\n*)",
                   re.M | re.S)
WHOLE = re.compile(r"Whole file (\S+):\n(.*)", re.S)
MARK = re.compile(r"^(?:becomes:|is removed\.)$", re.M)
# A definition: a line in column 0, its continuation, and a body whose braces are in column 0.
FUNCTION = re.compile(r"^\w[^\n;{}]*\n(?:[ \t][^\n;{}]*\n)*(?=\{\n)", re.M)
END = re.compile(r"^\}.*\n", re.M)
LABEL = re.compile(r"^([A-Za-z_][\w\\]*):", re.M)
START = re.compile(r"^#if LAB_START == .*?^#(?:else|endif)", re.M | re.S)


class Unusable(Exception):
    """A wrong solution, or a list of mutants, cannot be used; the message says why."""


def refused(path: Path, why: str) -> Unusable:
    return Unusable(f"{path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}: {why}")


@dataclass(frozen=True)
class SourceEdit:
    path: Path  # where it is written
    file: str
    part: str  # the function, the label or TOP; "" for a whole file
    old: str
    new: str

    def refused(self, why: str) -> Unusable:
        return refused(self.path, f"{', '.join(filter(None, (self.file, self.part)))}: {why}")


@dataclass(frozen=True)
class SourcePart:
    """A function, or a label and its code. The body of a function begins with its brace."""

    name: str
    start: int
    body: int
    end: int


# ---- read --------------------------------------------------------------------

def split(path: Path) -> tuple[str, list[SourceEdit]]:
    """The text before the edits, and the edits."""
    text, *chunks = EDIT.split(path.read_text())
    if MARK.search(text):
        raise refused(path, "'becomes:' or 'is removed.' is there before 'In FILE, FUNCTION:', "
                            "where FILE has a folder")
    if not chunks:
        raise refused(path, "it has no edit")
    return text, [_read(path, chunk) for chunk in chunks]


def _lines(text: str) -> str:
    """The text without the empty lines around it."""
    inner = text.strip("\n")
    return f"{inner}\n" if inner else ""


def _read(path: Path, chunk: str) -> SourceEdit:
    if place := PLACE.fullmatch(chunk):
        edit = SourceEdit(path, place[1], place[2], _lines(place[3]), _lines(place[4] or ""))
    elif whole := WHOLE.fullmatch(chunk):
        edit = SourceEdit(path, whole[1], "", "", _lines(whole[2]))
    else:
        first = chunk.split("\n", 1)[0]
        raise refused(path, f"'{first}' must be 'In FILE, FUNCTION:'; then come lines, and "
                            "'becomes:' with other lines, or 'is removed.'")
    if MARK.search(edit.new):
        raise edit.refused("'becomes:' or 'is removed.' is there twice")
    if edit.part and not edit.old:
        raise edit.refused("there is no text that becomes another")
    if not edit.new and not chunk.rstrip("\n").endswith("\nis removed."):
        raise edit.refused("there is no new text; write 'is removed.' if there must be none")
    if edit.old == edit.new:
        raise edit.refused("it changes nothing")
    return edit


# ---- applied -------------------------------------------------------------------

def parts(file: str, text: str) -> list[SourcePart]:
    """The functions of a C file, the labels of an assembly file but for those of the start only."""
    if file.endswith(".S"):
        starts = [range(*m.span()) for m in START.finditer(text)]
        labels = [m for m in LABEL.finditer(text) if not any(m.start() in only for only in starts)]
        ends = [*(m.start() for m in labels[1:]), len(text)]
        return [SourcePart(m[1], m.start(), m.start(), end) for m, end in zip(labels, ends)]
    found = []
    for head in FUNCTION.finditer(text):
        names, end = re.findall(r"(\w+)\(", head[0]), END.search(text, head.end())
        if names and end:
            found.append(SourcePart(names[-1], head.start(), head.end(), end.end()))
    return found


def _found(edit: SourceEdit, text: str) -> int:
    """Where the edit's old text is."""
    of_file = parts(edit.file, text)
    mine = [p for p in of_file if p.name == edit.part]
    if not mine and edit.part != TOP:
        raise edit.refused("the file has no such function or label")

    def inside(start: int) -> bool:
        end = start + len(edit.old)
        if edit.part == TOP:
            return not any(p.body <= start and end <= p.end for p in of_file)
        return any(p.start <= start and end <= p.end for p in mine)

    every = re.finditer(f"^(?={re.escape(edit.old)})", text, re.M)
    found = [m.start() for m in every if inside(m.start())]
    if len(found) != 1:
        said = f"is there {len(found)} times" if found else "is not there"
        raise edit.refused(f"the text must be there once, and {said}:\n{edit.old}")
    return found[0]


def _applied(edits: list[SourceEdit], text: str) -> str:
    """The file's text with its edits. Each is looked for in the text as it was."""
    placed = sorted(((_found(edit, text), edit) for edit in edits), key=lambda one: one[0])
    for (start, edit), (after, other) in pairwise(placed):
        if start + len(edit.old) > after:
            raise other.refused(f"it changes lines that another edit changes, {edit.part}")
    for start, edit in reversed(placed):
        text = text[:start] + edit.new + text[start + len(edit.old):]
    return text


def apply(edits: Iterable[SourceEdit], tree: Path) -> dict[str, str]:
    """The files that the edits change in the tree, as they become. Nothing is written."""
    of_file: dict[str, list[SourceEdit]] = {}
    for edit in edits:
        of_file.setdefault(edit.file, []).append(edit)
    return {file: _of_tree(mine, tree / file) for file, mine in of_file.items()}


def _text(path: Path) -> str:
    return path.read_text() if path.is_file() else ""


def _of_tree(edits: list[SourceEdit], path: Path) -> str:
    whole = next((edit for edit in edits if not edit.part), None)
    if whole and len(edits) > 1:
        raise whole.refused("a whole file has no other edit")
    if whole and whole.new == _text(path):
        raise whole.refused("it changes nothing")
    if not whole and not path.is_file():
        raise edits[0].refused("there is no such file")
    return whole.new if whole else _applied(edits, _text(path))


def diff(edits: Iterable[SourceEdit], tree: Path) -> str:
    """The edits as a unified diff."""
    def lines(text: str) -> list[str]:
        return text.splitlines(keepends=True)

    diffs = (unified_diff(lines(_text(tree / file)), lines(text), f"a/{file}", f"b/{file}")
             for file, text in apply(edits, tree).items())
    return "".join(line for of_file in diffs for line in of_file)

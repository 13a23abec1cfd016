"""Code out of the tree, by name: a function, a type, a macro, a label, with the comment above it.

A name that is not there is an error, so that a page cannot show what the
sources no longer say.
"""
from __future__ import annotations

import re
from pathlib import Path
from typing import Callable

LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".mk": "make"}


class NotThere(Exception):
    """What a page asks for is not in the tree; the message says what and where."""


def solution(text: str) -> str:
    """Without what only a lab's start has: the other side of each condition on LAB_START."""
    out: list[str] = []
    keeps: list[bool | None] = []  # None: a condition on something else
    for line in text.splitlines():
        start = re.match(r"#if LAB_START (==|!=) \d", line)
        if start:
            keeps.append(start[1] == "!=")
        elif keeps and keeps[-1] is not None and re.match(r"#else\b", line):
            keeps[-1] = not keeps[-1]
        elif re.match(r"#\s*if", line):
            keeps.append(None)
            out.append(line)
        elif re.match(r"#\s*endif", line) and keeps:
            if keeps.pop() is None:
                out.append(line)
        elif False not in keeps:
            out.append(line)
    return "\n".join(out) + "\n"


def above(lines: list[str], first: int) -> int:
    """Where the comment directly above line @first begins."""
    if first and lines[first - 1].rstrip().endswith("*/"):
        at = first - 1
        while at and not lines[at].lstrip().startswith("/*"):
            at -= 1
        return at
    at = first
    while at and lines[at - 1].startswith(("#", "@")) and not lines[at - 1].startswith(
        ("#!", "#include", "#if", "#end", "#define", "#el")):
        at -= 1
    return at


def body_end(lines: list[str], first: int) -> tuple[int, str]:
    """The last line of the C declaration that begins at @first, and which character told: `{` or
    `;`."""
    depth = 0
    for at in range(first, len(lines)):
        for char in lines[at]:
            depth += {"(": 1, ")": -1}.get(char, 0)
            if depth == 0 and char == ";":
                return at, ";"
            if depth == 0 and char == "{":
                if lines[at].rstrip().endswith(("}", "};")):
                    return at, "{"
                while not lines[at].startswith("}"):
                    at += 1
                return at, "{"
    return len(lines) - 1, ""


def in_c(lines: list[str], name: str) -> tuple[int, int] | None:
    word = re.escape(name)
    function = re.compile(rf"(?:[A-Za-z][^=;]*)?\b{word}\(")
    for wanted in ("{", ";"):
        for at, line in enumerate(lines):
            if function.match(line):
                end, told = body_end(lines, at)
                if told == wanted:  # the type may stand on the line before
                    return at - (line.startswith(name) and lines[at - 1][:1].isalpha()), end
    for at, line in enumerate(lines):
        if re.match(rf"(static |const |typedef )*(struct|union|enum) {word}\b.*\{{", line):
            return at, body_end(lines, at)[0]
        if re.match(rf"#define {word}\b", line):
            end = at
            while lines[end].endswith("\\"):
                end += 1
            return at, end
    for at, line in enumerate(lines):
        if re.match(rf"[A-Za-z][^()]*\b{word}\b(\[[^=]*\])?( __\w+(\(.*\))?)*( =.*|;.*)$", line):
            return at, body_end(lines, at)[0]
    return None


def in_assembly(lines: list[str], name: str) -> tuple[int, int] | None:
    word = re.escape(name)
    for at, line in enumerate(lines):
        if re.match(rf"\s*\.macro {word}\b", line):
            return at, next(i for i in range(at, len(lines)) if ".endm" in lines[i])
        if re.match(rf"{word}:", line):
            end = next(
                (i for i in range(at, len(lines)) if re.match(rf"\s*\.size {word},", lines[i])),
                None)
            if end is None:  # a label inside a function: up to the next empty line
                end = next(
                    (i for i in range(at, len(lines)) if not lines[i].strip()), len(lines)) - 1
            while at and re.match(rf"\s*\.(type|globl|balign).*|{word}:",
                                  lines[at - 1]) and lines[at - 1].strip():
                at -= 1
            return at, end
    return None


def in_python(lines: list[str], name: str) -> tuple[int, int] | None:
    word = re.escape(name)
    for at, line in enumerate(lines):
        if re.match(rf"(def|class) {word}\b|{word}(: .*)? = ", line):
            end = at + 1
            while end < len(lines) and (not lines[end].strip() or lines[end][0] in " )]}"):
                end += 1
            while not lines[end - 1].strip():
                end -= 1
            return at, end - 1
    return None


def in_make(lines: list[str], name: str) -> tuple[int, int] | None:
    for at, line in enumerate(lines):
        if re.match(rf"{re.escape(name)}\s*(:=|\?=|=|:)", line):
            end = at
            while lines[end].endswith("\\") or (end + 1 < len(lines)
                                                and lines[end + 1].startswith("\t")):
                end += 1
            return at, end
    return None


def finder(path: Path) -> Callable[[list[str], str], tuple[int, int] | None]:
    if path.suffix == ".S":
        return in_assembly
    if path.suffix == ".py":
        return in_python
    return in_make if path.suffix == ".mk" or path.name == "Makefile" else in_c


def without_tabs(lines: list[str]) -> list[str]:
    return [line.expandtabs(8).rstrip() for line in lines]


def named(root: Path, file: str, name: str) -> str:
    """The text of what is called @name in @file, without a lab's start."""
    path = root / file
    if not path.is_file():
        raise NotThere(f"{file}: no such file")
    lines = solution(path.read_text()).splitlines()
    found = finder(path)(lines, name)
    if found is None:
        raise NotThere(f"{file}: there is no {name}")
    first, last = found
    return "\n".join(without_tabs(lines[above(lines, first):last + 1]))


def opening(root: Path, file: str) -> str:
    """A file's opening comment."""
    path = root / file
    if not path.is_file():
        raise NotThere(f"{file}: no such file")
    found = re.match(r"\s*(/\*.*?\*/|(?:#[^\n]*\n)+|\"\"\".*?\"\"\")", path.read_text(), re.S)
    if not found:
        raise NotThere(f"{file}: it opens without a comment")
    return "\n".join(without_tabs(found[1].splitlines()))

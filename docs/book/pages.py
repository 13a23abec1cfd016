"""The pages as mkdocs takes them: the book's own and the labs' handouts, out of the tree into one
folder.

A page may have, each on a line of its own:

    @code FILE NAME...      what is called so in FILE; <arch> in FILE: both architectures
    @opening FILE           FILE's opening comment
    @picture NAME WORDS     docs/pictures/NAME.dot, drawn; the words say what it shows
    @mistakes               the index of named mistakes, out of the handouts
    @labs                   the labs, each with its page

A page's links are paths in the tree, so that they are right there as well. In
the book a link to a page leads to the page; a link to any other file becomes
the file's name.

What a page names must exist. A tree that was handed out has no later labs, and
a student may have renamed things: there the page says what is missing.
"""
from __future__ import annotations

import functools
import itertools
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Callable, Iterator

from docs.book import source
from docs.book.source import NotThere
from qemu.isa import ARCHES

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
HEADING = re.compile(r"(#{1,6}) (.*?)\s*#*\s*$")
FENCE = re.compile(r"\s*(```|~~~)")


@dataclass
class Mistake:
    slug: str
    title: str
    text: str
    page: str  # the handout, as a tree path


@dataclass
class Book:
    root: Path
    out: Path
    errors: list[str] = field(default_factory=list)

    @property
    def handed_out(self) -> bool:
        return not (self.root / "labs/instructor.mk").exists()

    def handouts(self) -> list[str]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.glob("labs/*/handout.md"))

    def sources(self) -> dict[str, str]:
        """Each page in the tree, and where it goes."""
        pages = {str(p.relative_to(self.root)): p.name for p in sorted(self.root.glob("docs/*.md"))}
        return pages | {h: f"lab-{Path(h).parent.name}.md" for h in self.handouts()}


def slug(heading: str) -> str:
    """A heading's anchor, as Python-Markdown's toc makes it."""
    own = re.search(r"\{[^}]*#([\w-]+)[^}]*\}\s*$", heading)
    if own:
        return own[1]
    plain = re.sub(r"[`*_]", lambda m: m[0] if m[0] == "_" else "", heading)
    plain = re.sub(r"[^\w\s-]", "", plain.encode("ascii", "ignore").decode()).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)


def prose(text: str) -> Iterator[tuple[int, str, bool]]:
    """Number, line, and whether it is prose: not code, fenced or by its indentation after an empty
    line."""
    fence = ""
    blank, indented = True, False
    for number, line in enumerate(text.splitlines(), 1):
        mark = FENCE.match(line)
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
            yield number, line, False
            continue
        indented = line.startswith(("    ", "\t")) and (blank or indented)
        yield number, line, not fence and not indented
        blank = not line.strip()


def anchors(text: str) -> set[str]:
    found: dict[str, int] = {}
    for _, line, is_prose in prose(text):
        heading = HEADING.match(line) if is_prose else None
        for name in ([slug(heading[2])] if heading else []) + re.findall(
                r'<a (?:id|name)="([^"]+)"', line):
            found[name if name not in found else f"{name}_{found[name]}"] = 1
            found[name] += name in found
    return set(found)


def title(text: str) -> str:
    return next(
        (m[2] for _, line, is_prose in prose(text) if is_prose and (m := HEADING.match(line))), "?")


def mistakes(book: Book) -> list[Mistake]:
    """The sections below a handout's heading about mistakes: title, anchor, first paragraph."""
    found = []
    for page in book.handouts():
        level = 0
        for _, line, is_prose in prose((book.root / page).read_text()):
            heading = HEADING.match(line) if is_prose else None
            if heading and len(heading[1]) <= (level or 6):
                level = len(heading[1]) if "mistake" in heading[2].lower() else 0
            elif heading and level and len(heading[1]) == level + 1:
                found.append(
                    Mistake(slug(heading[2]), re.sub(r"\s*\{[^}]*\}\s*$", "", heading[2]), "",
                            page))
            elif level and found and found[-1].page == page and not heading:
                found[-1].text += line + "\n"
    for mistake in found:
        mistake.text = mistake.text.strip().split("\n\n")[0]
    return found


def block(language: str, name: str, text: str, indent: str = "") -> list[str]:
    lines = text.splitlines()
    whole = " .whole" if len(lines) <= 40 else ""  # on one page of paper
    return [
        indent + line
        for line in (f'```{{.{language or "text"}{whole} title="{name}"}}', *lines, "```")
    ]


def for_each_arch(file: str, text: Callable[[str], str]) -> list[str]:
    """A block with the text of a file, or with <arch> in its name one under a tab for each
    architecture."""
    language = source.LANGUAGES.get(Path(file).suffix, "")
    if "<arch>" not in file:
        return block(language, file, text(file))
    out = []
    for arch in ARCHES:
        path = file.replace("<arch>", arch)
        # tabs of their own, even directly after other tabs
        first = "!" if arch == ARCHES[0] else ""
        out += [f'==={first} "{arch}"', "", *block(language, path, text(path), "    "), ""]
    return out


def code(book: Book, file: str, names: list[str]) -> list[str]:
    if not names:
        raise NotThere(f"{file}: @code names nothing in it")
    return for_each_arch(
        file, lambda path: "\n\n".join(source.named(book.root, path, name) for name in names))


def picture(book: Book, words: list[str]) -> list[str]:
    name, alt = words[0], " ".join(words[1:])
    if not (book.root / f"docs/pictures/{name}.dot").is_file():
        raise NotThere(f"docs/pictures/{name}.dot: no such file")
    if not alt:
        raise NotThere(f"@picture {name}: it needs words that say what it shows")
    return [
        '<div class="picture" markdown="1">', "", f"![{alt}](pictures/{name}.svg)", "", "</div>"
    ]


def moved(page: str, match: re.Match[str]) -> str:
    """A link of @page, as it is written in a page of docs/."""
    target = match[2]
    if re.match(r"[a-z]+:", target):
        return match[0]
    path = page + target if target.startswith("#") else os.path.normpath(Path(page).parent / target)
    return f"[{match[1]}](../{path})"


def index_of_mistakes(book: Book) -> list[str]:
    out = []
    for page in book.handouts():
        mine = [m for m in mistakes(book) if m.page == page]
        if mine:
            out += ["", f"## {title((book.root / page).read_text())}", ""]
        for m in mine:
            also = "" if m.title == m.slug else f" (`{m.slug}`)"
            text = re.sub(":$", ".", m.text)  # what it announces is in the handout
            out += [
                f"**[{m.title}](../{m.page}#{m.slug})**{also}<br>",
                LINK.sub(functools.partial(moved, m.page), text), ""
            ]
    return out


def list_of_labs(book: Book) -> list[str]:
    """Each handout's title, and its first paragraph."""
    out = []
    for page in book.handouts():
        text = (book.root / page).read_text()
        paragraph = next(
            (part for part in text.split("\n\n") if part.strip() and not part.startswith("#")), "")
        out += [
            f"**[{title(text)}](../{page})**<br>",
            LINK.sub(functools.partial(moved, page), paragraph).strip(), ""
        ]
    return out


def directive(book: Book, line: str) -> list[str]:
    word, *words = line.split()
    if word == "@code" and words:
        return code(book, words[0], words[1:])
    if word == "@opening" and len(words) == 1:
        return for_each_arch(words[0], lambda path: source.opening(book.root, path))
    if word == "@picture" and words:
        return picture(book, words)
    if word == "@mistakes" and not words:
        return index_of_mistakes(book)
    if word == "@labs" and not words:
        return list_of_labs(book)
    raise NotThere(f"{line}: not a directive")


class Links:
    """What the links of one page become."""

    def __init__(self, book: Book, page: str) -> None:
        self.book, self.page, self.pages = book, page, book.sources()
        self.dead: list[str] = []

    def rewrite(self, match: re.Match[str]) -> str:
        try:
            return self.there(match)
        except NotThere as why:
            self.dead.append(str(why))
            return match[1]

    def there(self, match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        if re.match(r"[a-z]+:", target):
            return match[0]
        path, _, anchor = target.partition("#")
        here = Path(self.page).parent
        file = os.path.normpath(here / path) if path else self.page
        if file in self.pages:
            if anchor and anchor not in anchors(staged_text(self.book, file)):
                raise NotThere(f"{target}: no such section in {file}")
            return f"[{text}]({self.pages[file]}{'#' + anchor if anchor else ''})"
        if not (self.book.root / file).exists():
            raise NotThere(f"{target}: dead link, no such file in the tree")
        return text if text.startswith(
            "`") else f"`{text}`" if text == file else f"{text} (`{file}`)"


def staged_text(book: Book, page: str) -> str:
    """A page with what its directives stand for; links still the tree's. Errors are told by
    stage()."""
    out: list[str] = []
    for _, line, is_prose in prose((book.root / page).read_text()):
        if is_prose and re.match(r"@[a-z]+\b", line):
            try:
                out += directive(book, line)
            except NotThere as why:
                out += block("", "not in this tree", str(why))
        else:
            out.append(line.expandtabs(8))
    return "\n".join(out) + "\n"


def page_errors(book: Book, page: str) -> Iterator[str]:
    for number, line, is_prose in prose((book.root / page).read_text()):
        if is_prose and re.match(r"@[a-z]+\b", line):
            try:
                directive(book, line)
            except NotThere as why:
                yield f"{page}:{number}: {why}"


def with_links(book: Book, page: str) -> str:
    """The page with its links rewritten; a link may begin on one line and end on the next."""
    links, out = Links(book, page), ""
    lines = [(is_prose, line) for _, line, is_prose in prose(staged_text(book, page))]
    for is_prose, run in itertools.groupby(lines, key=lambda pair: pair[0]):
        text = "".join(line + "\n" for _, line in run)
        out += LINK.sub(links.rewrite, text) if is_prose else text
    book.errors += [f"{page}: {why}" for why in links.dead]
    return out


def stage(book: Book) -> None:
    """Write every page; what is wrong with them is in book.errors."""
    book.out.mkdir(parents=True, exist_ok=True)
    for page, target in book.sources().items():
        book.errors += page_errors(book, page)
        text = with_links(book, page)
        place = book.out / target
        if not place.is_file() or place.read_text() != text:
            place.write_text(text)
    if book.handed_out:
        book.errors.clear()
    for old in book.out.glob("*.md"):
        if old.name not in book.sources().values():
            old.unlink()

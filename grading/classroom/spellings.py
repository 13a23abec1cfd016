"""Changes that systems and learning platforms make to a file's name on the way from the student to
the instructor. Only intake.py and layouts.py use this module.

An archive may give a file any name. Names are only compared: no file is written under them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path

# Changes of one part of a path. Each has the program that makes it, the pattern, the text that
# replaces the match, and an example.
CHANGES: tuple[tuple[str, re.Pattern[str], str, str], ...] = tuple(
    (who, re.compile(pattern, re.IGNORECASE), instead, example)
    for who, pattern, instead, example in (
        ("Windows drops these at a name's end", r"[ .]+$", "", "mcount.S. "),
        ("an editor, or a browser that shows text", r"(?<=\.[a-z])\.txt$", "", "mcount.S.txt"),
        ("Chrome, Firefox, Windows: a second download", r" ?\(\d+\)(?=(\.\w+)?$)", "",
         "mcount (1).S"),
        ("Internet Explorer: a second download", r"\[\d+\](?=(\.\w+)?$)", "", "mcount[1].S"),
        ("Safari, Canvas: a second download", r"(?<=.)-\d{1,2}(?=(\.\w+)?$)", "", "mcount-1.S"),
        ("Windows: a copy",
         r" - (copy|kopie|copie|copia|cópia|co\u0301pia)(?=( ?\(\d+\))?(\.\w+)?$)", "",
         "mcount - Copy (2).S"),
        ("macOS: a copy", r" copy( \d+)?(?=(\.\w+)?$)", "", "mcount copy 2.S"),
        ("macOS, iCloud: a second one", r"(?<=.) \d{1,2}(?=(\.\w+)?$)", "", "mcount 2.S"),
        ("GNOME: a copy", r" \((another |\d+\w\w )?copy\)(?=(\.\w+)?$)", "",
         "mcount (another copy).S"),
        ("Google Drive: a copy", r"^copy of (?=.)", "", "Copy of mcount.S")))
# Files that macOS and Windows add.
ADDED = re.compile(r"__MACOSX|\._.*|\.DS_Store|Thumbs\.db|desktop\.ini|\.Spotlight-V100|\.Trashes",
                   re.IGNORECASE | re.DOTALL)
# Archives and documents that are not read, by the end of their names or by their first bytes. A
# document is a zip file, and a zip file may have the name of a .rar.
DOCUMENT = re.compile(r"\.(docx?|odt|pages|pptx?|odp|xlsx?|ods|rtf|pdf)$", re.IGNORECASE)
UNREAD = re.compile(r"\.(7z|rar|zst|tzst|lz|lz4|lzma|z|cab|arj|iso|dmg)$", re.IGNORECASE)
BEGINNINGS = (b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07", b"\x28\xb5\x2f\xfd", b"%PDF-",
              b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", b"{\\rtf")
ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|zip)$", re.IGNORECASE)
# What a student may have written, or one packed file: alone it is no submission that can be taken.
LONE = re.compile(r"\.([cs]|gz|bz2|xz)$", re.IGNORECASE)
LOOKED_AT = 1000  # names among which the nearest is looked for
ALIKE = 0.6  # from 0 to 1, of two files' names
LONGEST = 255  # characters of a name


def printable(text: str) -> str:
    """A name that may be printed: one line, of limited length."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}"
                   for c in text[:200]) + ("..." if len(text) > 200 else "")


def parts(path: str) -> list[str]:
    """A path's parts, whichever system it is of. Its beginning, / or C:\\, is not one of them."""
    path = re.sub(r"^[A-Za-z]:(?=[/\\])", "", path)
    return [part for part in re.split(r"[/\\]", path) if part not in ("", ".")]


def is_folder(path: str) -> bool:
    """Is it the name of a folder? Windows' programs end it with a back-slash."""
    return path.endswith(("/", "\\"))


def is_added(path: list[str]) -> bool:
    """Did a system put it there?"""
    return any(ADDED.fullmatch(part) for part in path)


def plain(part: str) -> str:
    """The name that was changed into this one."""
    before = ""
    while part != before and len(part) <= LONGEST:
        before = part
        for _, pattern, instead, _ in CHANGES:
            part = pattern.sub(instead, part) or part
    return part


def means(path: list[str], wanted: list[str]) -> tuple[bool, bool]:
    """Do a path's last parts mean this wanted file? And in the same case?"""
    last = path[-len(wanted):]
    if len(last) < len(wanted) or ".." in path:
        return False, False
    if last == wanted:
        return True, True
    changed = [have if have == want else plain(have) for have, want in zip(last, wanted)]
    if not all(part.isascii() for part in changed):  # letters that only look the same
        return False, False
    return ([of.casefold() for of in changed] == [of.casefold() for of in wanted],
            changed == wanted)


def is_unread(path: Path) -> bool:
    """Is it a file of a kind that is not read, by its name or by its content?"""
    if path.is_symlink() or not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            begins = file.read(8)
    except OSError:  # said when it is taken in
        begins = b""
    return (begins.startswith(BEGINNINGS) or DOCUMENT.search(path.name) is not None
            or UNREAD.search(path.name) is not None and not begins.startswith(b"PK"))


def unread(name: str) -> str:
    return f"{printable(name)}: an archive of this kind is not read; hand in a .zip or .tar.gz"


def stem(name: str) -> str:
    """The name of a submission, without what says of which kind of file it is."""
    name = unicodedata.normalize("NFC", name)
    without = ARCHIVE.sub("", name)
    return without if without != name else LONE.sub("", UNREAD.sub("", DOCUMENT.sub("", name)))


def nearest(seen: Iterable[str], missing: list[str]) -> list[str]:
    """Sentences about the files that are most like the missing ones."""
    known = [(plain(path[-1])[-LONGEST:].casefold(), "/".join(path)[-LONGEST:].casefold(), name)
             for name in islice(seen, LOOKED_AT) if (path := parts(name))]
    near: dict[str, list[str]] = {}
    for want in missing:
        last, whole = want.rpartition("/")[2].casefold(), want.casefold()
        files, paths = SequenceMatcher(b=last), SequenceMatcher(b=whole)
        best, found = (ALIKE, -1.0), ""
        for file, whole_path, name in known:
            files.set_seq1(file)
            alike = 1.0 if file.endswith(last) else files.ratio()
            if alike >= best[0]:
                paths.set_seq1(whole_path)
                if (alike, paths.ratio()) > best:
                    best, found = (alike, paths.ratio()), name
        if found:
            near.setdefault(found, []).append(want)
    return [f"{printable(name)}: did you mean {' or '.join(of)}?"
            f"{' A path with .. is not taken' if '..' in parts(name) else ''}"
            for name, of in near.items()]

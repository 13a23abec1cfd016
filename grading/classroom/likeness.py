"""How much the submissions of a class are alike: pairs, ranked, without a verdict. Two students may be alike because there is one way to write it.

Of each submission the lines that were not handed out are compared with those of all others, and with the lab's solution. A text becomes the set
of its runs of RUN tokens in a row, in which every name is the same token. So neither other names nor another order of the functions hide a copy.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from html import escape
from itertools import combinations
from pathlib import Path

from grading.classroom import one, pages, results
from grading.classroom.results import Row

LEAST = 50  # per cent
SHOWN = 100  # pairs on the page
SOLUTION = "the solution"
RUN = 12  # tokens: with 8, files of the kernel that have nothing in common are alike by 7 per cent, with 12 by 2
FEWEST = 20  # runs: less is written in one way only
TOKEN = re.compile(r"""(?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)|(?P<name>[A-Za-z_]\w*)|\d\w*|"(?:\\[^\n]|[^"\\\n])*"?|[-+&|<>=!]{1,2}|\S""", re.S)
KEYWORDS = frozenset("break case continue default do else for goto if return sizeof static struct switch volatile while".split())


@dataclass(frozen=True)
class Pair:
    percent: int  # of the runs of that one of the two which has fewer
    first: str
    second: str


def own_lines(files: dict[str, bytes], handed_out: dict[str, bytes]) -> str:
    """The lines that are not handed out, with the name of their file above them."""
    said = []
    for name, data in sorted(files.items()):
        given = {line.strip() for line in handed_out.get(name, b"").decode(errors="replace").splitlines()}
        own = [line.rstrip() for line in data.decode(errors="replace").splitlines() if line.strip() and line.strip() not in given]
        said += [f"/* {name} */", *own] if own else []
    return one.clean("\n".join(said) + "\n") if said else ""


def runs(text: str) -> frozenset[int]:
    tokens = [token[0] if not token["name"] or token[0] in KEYWORDS else "a name" for token in TOKEN.finditer(text) if not token["comment"]]
    return frozenset(hash(tuple(tokens[start:start + RUN])) for start in range(len(tokens) - RUN + 1))


def pairs(texts: dict[str, str]) -> list[Pair]:
    """The pairs that are at least LEAST per cent alike, the most alike first."""
    known = {name: of for name, text in sorted(texts.items()) if len(of := runs(text)) >= FEWEST}
    alike = (Pair(100 * len(known[a] & known[b]) // min(len(known[a]), len(known[b])), a, b) for a, b in combinations(known, 2))
    return sorted((pair for pair in alike if pair.percent >= LEAST), key=lambda pair: (-pair.percent, pair.first, pair.second))


def write(out: Path, lab: int, rows: list[Row], handed_out: dict[str, bytes], solution: dict[str, bytes]) -> None:
    texts = {row.submission.student: own_lines(row.taken.files, handed_out) for row in rows}
    compared = {**texts, SOLUTION: own_lines(solution, handed_out)}
    about, before = hashlib.sha256(repr(sorted(compared.items())).encode()).hexdigest(), out / "likeness.sha256"
    if before.exists() and before.read_text() == about:
        return  # the report is there, and the same
    found = pairs(compared)
    texts[SOLUTION] = "(the lab's solution, in this tree)"
    results.table(out / "likeness.csv", [("per cent", "student", "student"), *((pair.percent, pair.first, pair.second) for pair in found)])
    lines = "".join(f"<details><summary>{pair.percent} %: {escape(pair.first)}, {escape(pair.second)}</summary><div class='columns'>{pages.pre(texts[pair.first])}{pages.pre(texts[pair.second])}</div></details>"
                    for pair in found[:SHOWN])
    (out / "likeness.html").write_text(pages.page(f"Lab {lab}: likeness", f"<h1>Lab {lab}: submissions that are alike</h1>\n<p>{len(found)} pairs have at least {LEAST} % of their "
                                                  f"runs of {RUN} tokens in common; the first {min(SHOWN, len(found))} are shown. Names do not count, nor do the lines that were handed out. "
                                                  f"This is no verdict: there may be one way to write it.</p>\n{lines}"))
    before.write_text(about)

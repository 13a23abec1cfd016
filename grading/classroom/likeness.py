"""How much the submissions of a class are alike: pairs, ranked, without a verdict. Two students may
be alike because there is one way to write it.

Of each submission the lines that were not handed out are compared with those of all others, and
with the lab's solution. A text becomes the set of its runs of RUN tokens in a row, in which every
name is the same token. So neither other names nor another order of the functions hide a copy. What
the compiler made of a submission is compared in the same way: the operations of its instructions,
without registers, numbers and addresses. By its instructions a copy is still alike if it was
rewritten with other loops and other words for the same conditions.

Debian's similarity-tester compares texts in the same way, and was measured (3.0.2). sim_text counts
instructions that were handed out, so that two starts are alike by 100 per cent. sim_c needs more
than a minute for a file of 256 KiB of '-' or of '"', which a student may hand in.
"""

import hashlib
import re
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from grading.classroom import one, pages, results, tree
from grading.classroom.results import Row
from qemu.disk import write_whole

LEAST = 50  # per cent
LONGEST = 64 << 10  # characters of a text that the page has
SHOWN = 100  # pairs on the page
SOLUTION = "the solution"
# tokens: with 8, files of the kernel that have nothing in common are alike by 7 per cent, with 12
# by 2
RUN = 12
# two objects of the kernel that have nothing in common are alike by 21 per cent at most, 99 pairs
# of 100 by 13
RUN_OF_INSTRUCTIONS = 10
FEWEST = 20  # runs: less is written in one way only
Runs = frozenset[int]
TOKEN = re.compile(
    r"""(?P<comment>/\*.*?(?:\*/|\Z)|//[^\n]*)|(?P<name>[A-Za-z_]\w*)|\d\w*|"""
    r""""(?:\\[^\n]|[^"\\\n])*"?|[-+&|<>=!]{1,2}|\S""",
    re.S)
KEYWORDS = frozenset(
    "break case continue default do else for goto if return sizeof static struct switch volatile "
    "while"
    .split())


@dataclass(frozen=True)
class Pair:
    first: str
    second: str
    text: int  # per cent: of the runs of that one of the two which has fewer
    instructions: int

    @property
    def most(self) -> int:
        return max(self.text, self.instructions)


def own_lines(files: dict[str, bytes], handed_out: dict[str, bytes]) -> str:
    """The lines that are not handed out, with the name of their file above them."""
    said = []
    for name, data in sorted(files.items()):
        given = {line.strip()
                 for line in handed_out.get(name, b"").decode(errors="replace").splitlines()}
        own = [line.rstrip() for line in data.decode(errors="replace").splitlines()
               if line.strip() and line.strip() not in given]
        said += [f"/* {name} */", *own] if own else []
    return one.clean("\n".join(said) + "\n") if said else ""


def runs(text: str) -> Runs:
    tokens = [token[0] if not token["name"] or token[0] in KEYWORDS else "a name"
              for token in TOKEN.finditer(text) if not token["comment"]]
    return in_a_row(tokens, RUN)


def in_a_row(tokens: list[str], length: int) -> Runs:
    return frozenset(
        hash(tuple(tokens[start:start + length])) for start in range(len(tokens) - length + 1))


def alike(known: dict[str, Runs]) -> dict[tuple[str, str], int]:
    """Of each two of those that have enough runs: how many per cent they have in common."""
    enough = {name: of for name, of in sorted(known.items()) if len(of) >= FEWEST}
    return {(a, b): 100 * len(enough[a] & enough[b]) // min(len(enough[a]), len(enough[b]))
            for a, b in combinations(enough, 2)}


def pairs(texts: dict[str, str], operations: dict[str, str], handed_out: str = "") -> list[Pair]:
    """The pairs that are at least LEAST per cent alike, the most alike first. `operations`: of the
    instructions, a line for each, as tree.py keeps them."""
    given = in_a_row(handed_out.splitlines(), RUN_OF_INSTRUCTIONS)
    text = alike({name: runs(of) for name, of in texts.items()})
    machine = alike({name: in_a_row(of.splitlines(), RUN_OF_INSTRUCTIONS) - given
                     for name, of in operations.items()})
    found = (Pair(a, b, text.get((a, b), 0), machine.get((a, b), 0))
             for a, b in text.keys() | machine.keys())
    return sorted((pair for pair in found if pair.most >= LEAST), key=lambda pair:
                  (-pair.most, -pair.text - pair.instructions, pair.first, pair.second))


def write(out: Path, lab: int, rows: list[Row], handed_out: dict[str, bytes],
          solution: dict[str, bytes], at: Path) -> None:
    """Write OUT/likeness.html and likeness.csv. `at`: the class's tree (tree.py)."""
    texts = {row.submission.student: own_lines(row.taken.files, handed_out) for row in rows}
    compared = {**texts, SOLUTION: own_lines(solution, handed_out)}
    operations = {row.submission.student: kept(out / "graded" / row.result["key"] / tree.OPERATIONS)
                  for row in rows} | {SOLUTION: kept(at / "build" / tree.OF_SOLUTION)}
    made_of = repr((sorted(compared.items()), sorted(operations.items()))).encode()
    about, before = hashlib.sha256(made_of).hexdigest(), out / "likeness.sha256"
    if before.exists() and before.read_text() == about and all(
        (out / name).exists() for name in ("likeness.html", "likeness.csv")):
        return  # the report is there, and the same
    found = pairs(compared, operations, kept(at / "build" / tree.OPERATIONS))
    texts[SOLUTION] = "(the lab's solution, in this tree)"
    results.table(out / "likeness.csv",
                  [("per cent of the text", "of the instructions", "student", "student"),
                   *((pair.text, pair.instructions, pair.first, pair.second) for pair in found)])
    page = pages.page("likeness.html", lab=lab, pairs=found, texts=texts, least=LEAST, tokens=RUN,
                      instructions=RUN_OF_INSTRUCTIONS, shown=SHOWN, longest=LONGEST)
    write_whole(out / "likeness.html", page)
    write_whole(before, about)


def kept(path: Path) -> str:
    """The operations of a submission; none if it was not built."""
    return path.read_text() if path.exists() else ""

"""The pages of a class: index.html for the instructor, and feedback for each student in Markdown
and HTML.

Whatever a student wrote or printed is text in them: jinja2 escapes it, and no script but the page's
own can run, whose digest is in the page's policy (templates/page.html).
"""

import base64
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from grading.classroom.one import text
from grading.classroom.results import Row, for_student, lateness, states, tests
from qemu.disk import write_whole
from qemu.machine import ARCHES

LOG = 12 << 10  # bytes of a console's log that a page shows
BINS = 10
TEMPLATES = Path(__file__).parent / "templates"
PAGES = Environment(loader=FileSystemLoader(TEMPLATES), autoescape=select_autoescape(),
                    undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def page(name: str, **about: Any) -> str:
    """The page templates/NAME, with its script, if it has one, in templates/."""
    style, file = (TEMPLATES / "page.css").read_text(), TEMPLATES / Path(name).with_suffix(".js")
    script = file.read_text() if file.exists() else ""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    made = PAGES.get_template(name).render(about, style=Markup(style), digest=Markup(digest),
                                           script=Markup(script))
    return made.rstrip("\n") + "\n"


def write(out: Path, lab: int, rows: list[Row]) -> None:
    write_whole(out / "index.html", instructor(out, lab, rows))
    for row in rows:
        folder = out / "students" / row.submission.student
        for name in ("feedback.md", "feedback.html"):
            write_whole(folder / name, student(name, lab, row))


# ---- the instructor's ---------------------------------------------------------------

def instructor(out: Path, lab: int, rows: list[Row]) -> str:
    lost = Counter(rung["name"] for row in rows for rung in {
        r["name"]: r for a in row.result["arches"] for r in a["rungs"] if r["cause"]}.values())
    lost += Counter(f"all on {arch}: {happened}" for row in rows
                    for arch, happened in row.ungraded.items())
    named = Counter(page.partition("#")[2] for row in rows for page in {
        p for a in row.result["arches"] for r in a["rungs"] for p in r["mistakes"]})
    bins = histogram(rows)
    said = ", ".join(f"{count} from {n * 10} %" for n, count in enumerate(bins) if count)
    return page("index.html", lab=lab, rows=rows, states=states(rows), bins=bins, said=said,
                lost=lost, named=named, ARCHES=list(ARCHES), attempts=attempts,
                log_of=lambda log: text(out / log, LOG))


def attempts(row: Row) -> list[dict[str, Any]]:
    """Those that the instructor is shown."""
    made: list[dict[str, Any]] = row.result["attempts"]
    return made if row.state in ("flaky", "harness error") else made[:1]


def histogram(rows: list[Row]) -> list[int]:
    """How many students have how many points, in tenths of what is possible."""
    scores = [(row.points, row.result["possible"]) for row in rows if row.points is not None]
    bins = Counter(min(BINS - 1, points * BINS // possible) for points, possible in scores)
    return [bins[n] for n in range(BINS)]


# ---- the student's -------------------------------------------------------------------

def student(name: str, lab: int, row: Row) -> str:
    return page(name, lab=lab, row=row, total=total(row), lateness=lateness(row), tests=tests,
                ungraded=ungraded(row), for_student=for_student, fenced=fenced, reason=reason)


def total(row: Row) -> str:
    late = f", and {row.final} after the late policy" if row.final != row.points else ""
    return ("no score: the harness failed"
            if row.points is None else f"{row.points} of {row.result['possible']} points{late}")


def ungraded(row: Row) -> list[str]:
    return [f"{arch}: 0 of {row.possible_of_arch}, {happened}"
            for arch, happened in row.ungraded.items()]


def reason(rung: dict[str, Any]) -> str:
    why = next((why for why in rung["why"] if why), "")
    once = " (with one of the seeds)" if len(set(rung["reached"])) > 1 else ""
    return (why[:400] + once +
            (f" See {', '.join(rung['mistakes'])}" if rung["mistakes"] else "")) if why else ""


def fenced(said: str) -> str:
    """A block of code. Its fence is longer than each fence in the text, which so cannot end the
    block."""
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in said).split()),
                  default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{said.rstrip()}\n{fence}"

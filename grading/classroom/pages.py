"""The pages of a class: index.html for the instructor, and feedback for each student in Markdown and HTML.

Each is one file that needs no other and no network. Whatever a student wrote or printed is text in them: it is escaped, and no script but
the page's own can run, whose digest is in the page's policy.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from html import escape
from pathlib import Path
from typing import Any

from grading.classroom.one import text
from grading.classroom.results import Row, for_student, lateness, states, tests
from qemu.disk import write_whole
from qemu.machine import ARCHES

LOG = 12 << 10  # bytes of a console's log that a page shows
BINS = 10
STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --soft: #f1f3f5; --line: #c9ced4; --bar: #3557a8; --good: #17652d; --bad: #a3201b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e8ea; --paper: #16181b; --soft: #22262a; --line: #454b52; --bar: #8fa9ea; --good: #7ed195; --bad: #ff9d95; } }
* { box-sizing: border-box } body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; padding: 1rem; max-width: 76rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2rem } table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
.wide { overflow-x: auto } pre { overflow-x: auto; background: var(--soft); padding: .6rem; font: 13px/1.4 ui-monospace, monospace; white-space: pre; max-height: 30rem }
button, input { font: inherit; color: inherit; background: var(--soft); border: 1px solid var(--line); border-radius: 4px; padding: .2rem .5rem }
th button { font-weight: 600; border: 0; background: none; padding: 0; cursor: pointer; white-space: nowrap } th[aria-sort] button::after { content: " \\2195" }
th[aria-sort=ascending] button::after { content: " \\2191" } th[aria-sort=descending] button::after { content: " \\2193" }
.good { color: var(--good) } .bad { color: var(--bad) } .columns { display: grid; gap: 0 2rem; grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)) }
svg { width: 100%; max-width: 40rem; height: auto } svg text { fill: var(--ink); font: 13px system-ui, sans-serif } svg rect { fill: var(--bar) }
.name { border: 0; background: none; padding: 0; text-decoration: underline; cursor: pointer; text-align: left; overflow-wrap: anywhere; min-width: 8rem }
td.detail { max-width: 0; width: 100% }
"""
SCRIPT = """
const table = document.getElementById("class"), search = document.getElementById("search"), count = document.getElementById("count");
const rows = () => [...table.tBodies];
search.addEventListener("input", () => {
  const wanted = search.value.toLowerCase();
  for (const row of rows()) row.hidden = !row.rows[0].textContent.toLowerCase().includes(wanted);
  count.textContent = rows().filter(row => !row.hidden).length + " shown";
});
for (const [at, head] of [...table.tHead.rows[0].cells].entries()) head.querySelector("button").addEventListener("click", () => {
  const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1, value = row => row.rows[0].cells[at].dataset.value ?? row.rows[0].cells[at].textContent;
  for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
  table.append(...rows().sort((a, b) => way * value(a).localeCompare(value(b), undefined, {numeric: true})));
});
table.addEventListener("click", event => {
  const name = event.target.closest("button.name");
  if (!name) return;
  const detail = name.closest("tbody").rows[1];
  detail.hidden = !detail.hidden;
  name.setAttribute("aria-expanded", String(!detail.hidden));
});
"""


def page(title: str, body: str, script: str = "") -> str:
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
    return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n'
            f"<body>\n<main>\n{body}\n</main>\n" + (f"<script>{script}</script>\n" if script else "") + "</body>\n</html>\n")


def write(out: Path, lab: int, rows: list[Row]) -> None:
    write_whole(out / "index.html", page(f"Lab {lab}: {len(rows)} submissions", instructor(out, lab, rows), SCRIPT))
    for row in rows:
        folder = out / "students" / row.submission.student
        write_whole(folder / "feedback.md", markdown(lab, row))
        write_whole(folder / "feedback.html", page(f"Lab {lab}: {row.submission.name}", student(lab, row)))


def pre(said: str) -> str:
    """A block that scrolls, by keys too."""
    return f'<pre tabindex="0">{escape(said)}</pre>'


# ---- the instructor's ---------------------------------------------------------------

def instructor(out: Path, lab: int, rows: list[Row]) -> str:
    lost = Counter(rung["name"] for row in rows for rung in {r["name"]: r for a in row.result["arches"] for r in a["rungs"] if own_loss(r)}.values())
    lost += Counter(f"all on {arch}: {happened}" for row in rows for arch, happened in row.ungraded.items())
    named = Counter(page.partition("#")[2] for row in rows for page in {p for a in row.result["arches"] for r in a["rungs"] for p in r["mistakes"]})
    columns = ("student", "state", "points", *ARCHES, "first error")
    heads = "".join(f'<th scope="col" aria-sort="none"{" class=n" if c in ("points", *ARCHES) else ""}><button type="button">{c}</button></th>' for c in columns)
    return (f"<h1>Lab {lab}: {len(rows)} submissions</h1>\n<p>{escape(states(rows))}</p>\n<h2>Students by per cent of the points</h2>\n{histogram(rows)}\n"
            f'<div class="columns"><section><h2>Lost rungs</h2>{counted("rung", lost)}</section>\n<section><h2>Named mistakes</h2>{counted("mistake", named)}</section></div>\n'
            f'<h2>Students</h2>\n<p><label>Search <input id="search" type="search" autocomplete="off"></label> <span id="count" aria-live="polite">{len(rows)} shown</span></p>\n'
            f'<div class="wide" role="region" aria-label="Students" tabindex="0"><table id="class"><thead><tr>{heads}</tr></thead>\n'
            + "\n".join(line(out, row) for row in rows) + "</table></div>")


def own_loss(rung: dict[str, Any]) -> bool:
    """Was the rung lost by itself, and not only because a rung that it needs was lost?"""
    return any(why and not why.startswith("needs: ") for why in rung["why"])


def histogram(rows: list[Row]) -> str:
    """How many students have how many points, in tenths of what is possible."""
    scores = [(row.points, row.result["possible"]) for row in rows if row.points is not None]
    bins = Counter(min(BINS - 1, points * BINS // possible) for points, possible in scores)
    most = max(bins.values(), default=1)
    bars = "".join(f'<rect x="{n * 60 + 6}" y="{130 - 110 * bins[n] / most:.1f}" width="48" height="{110 * bins[n] / most:.1f}"></rect>'
                   f'<text x="{n * 60 + 30}" y="{124 - 110 * bins[n] / most:.1f}" text-anchor="middle">{bins[n] or ""}</text>'
                   f'<text x="{n * 60 + 30}" y="148" text-anchor="middle">{n * 10}{"-100" if n == BINS - 1 else ""}</text>' for n in range(BINS))
    said = ", ".join(f"{bins[n]} from {n * 10} %" for n in range(BINS) if bins[n])
    return f'<svg viewBox="0 0 600 160" role="img" aria-label="Students by per cent of the points: {said or "none"}">{bars}</svg>'


def counted(what: str, counts: Counter[str]) -> str:
    if not counts:
        return "<p>None.</p>"
    return f'<table><thead><tr><th scope="col">{what}</th><th scope="col" class="n">students</th></tr></thead><tbody>' + "".join(
        f'<tr><td>{escape(name)}</td><td class="n">{count}</td></tr>' for name, count in counts.most_common()) + "</tbody></table>"


def line(out: Path, row: Row) -> str:
    points = "" if row.points is None else row.points
    cells = [f'<button type="button" class="name" aria-expanded="false">{escape(row.submission.student)}</button>'
             + (f"<br>{escape(row.submission.name)}" if row.submission.name != row.submission.student else ""), escape(row.state) + (", late" if row.submission.late else "")]
    cells += [f"{points}/{row.result['possible']}" + (f"<br>{row.final} after the late policy" if row.final != row.points else ""), *(str(row.of(arch)) for arch in ARCHES), escape(row.why[:200])]
    tds = "".join(f'<td{" class=n" if n in (2, 3, 4) else ""}{f" data-value={points if points != str() else -1}" if n == 2 else ""}>{c}</td>' for n, c in enumerate(cells))
    return f'<tbody><tr>{tds}</tr>\n<tr hidden><td class="detail" colspan="{len(cells)}">{detail(out, row)}</td></tr></tbody>'


def detail(out: Path, row: Row) -> str:
    said = [f'<p>Result: <a href="graded/{row.result["key"]}/result.json">graded/{row.result["key"][:16]}...</a>. '
            + "; ".join(f"{h['when']} {h['state']}, {'no score' if h['points'] is None else h['points']}" for h in row.history) + "</p>", taken(row)]
    if row.result["said"]:
        said.append(pre(row.result["said"]))
    attempts = row.result["attempts"] if row.state in ("flaky", "harness error") else row.result["attempts"][:1]
    for n, attempt in enumerate(attempts, 1):
        printed = attempt["printed"].replace("\nlog: attempt-", f"\nlog: graded/{row.result['key']}/attempt-")
        said.append(f"<h3>Seed {attempt['seed']}</h3>{pre(printed)}")
        for boot in (boot for grade in attempt["grades"] for boot in grade["boots"]):
            log = f"graded/{row.result['key']}/{boot['log']}"
            shown = pre(text(out / log, LOG)) if row.points != row.result["possible"] else ""
            said.append(f'<details><summary>console: {escape(Path(boot["log"]).name)}, {escape(boot["verdict"])}</summary><p><a href="{escape(log)}">the whole log</a></p>{shown}</details>')
    return "".join(said)


def taken(row: Row) -> str:
    missing = f"<p>Not handed in, and graded as handed out: {escape(', '.join(row.taken.missing))}.</p>" if row.taken.missing and row.taken.files else ""
    names = ", ".join(map(escape, row.taken.ignored)) + (", ..." if row.taken.ignored_count > len(row.taken.ignored) else "")
    return missing + (f"<p>{row.taken.ignored_count} files ignored: {names}.</p>" if row.taken.ignored_count else "")


# ---- the student's -------------------------------------------------------------------

def total(row: Row) -> str:
    late = f", and {row.final} after the late policy" if row.final != row.points else ""
    return "no score: the harness failed" if row.points is None else f"{row.points} of {row.result['possible']} points{late}"


def student(lab: int, row: Row) -> str:
    body = [f"<h1>Lab {lab}: {total(row)}</h1>", f"<p>{escape(row.submission.name)}: {escape(row.state)}</p>", f"<p>{lateness(row)}</p>" if lateness(row) else "", taken(row)]
    body += [f"<h2>{title}</h2>" for title in ungraded(row)]
    if row.result["said"]:
        body.append(pre(for_student(row.result["said"])))
    for arch in row.result["arches"]:
        lines = "".join(f'<tr><td>{escape(rung["name"])}</td><td>{escape(rung["promise"])}</td><td class="n {"good" if rung["points"] else "bad"}">{rung["points"]}/{rung["possible"]}</td>'
                        f"<td>{escape(reason(rung))}</td></tr>" for rung in arch["rungs"])
        body.append(f'<h2>{arch["arch"]}: {arch["points"]} of {arch["possible"]}</h2><div class="wide" role="region" aria-label="{arch["arch"]}" tabindex="0"><table><thead><tr><th scope="col">rung</th>'
                    f'<th scope="col">what must hold</th><th scope="col" class="n">points</th><th scope="col">what was wrong</th></tr></thead><tbody>{lines}</tbody></table></div>')
    for attempt in row.result["attempts"]:
        body.append(f"<details><summary>What the grade printed, seed {attempt['seed']}</summary>{pre(for_student(attempt['printed']))}</details>")
    return "\n".join(body)


def ungraded(row: Row) -> list[str]:
    return [f"{arch}: 0 of {row.possible_of_arch}, {happened}" for arch, happened in row.ungraded.items()]


def reason(rung: dict[str, Any]) -> str:
    why = next((why for why in rung["why"] if why), "")
    once = " (with one of the seeds)" if len(set(rung["reached"])) > 1 else ""
    return (why[:400] + once + (f" See {', '.join(rung['mistakes'])}" if rung["mistakes"] else "")) if why else ""


def markdown(lab: int, row: Row) -> str:
    """A student's text, as a block of code. Its fence is longer than each fence in the text, so that the text cannot end the block."""
    said = [f"# Lab {lab}: {total(row)}", row.state, *filter(None, [lateness(row)])]
    if row.taken.missing and row.taken.files:
        said.append("Not handed in, and graded as handed out: " + ", ".join(row.taken.missing))
    said += [f"## {title}" for title in ungraded(row)]
    if row.result["said"]:
        said.append(fenced(for_student(row.result["said"])))
    if row.result["arches"]:
        said.append("| rung | points |\n|---|---|\n" + "\n".join(f"| {t['name']} | {t['score']}/{t['max_score']} |" for t in tests(row)))
    for attempt in row.result["attempts"]:
        said += [f"## Seed {attempt['seed']}", fenced(for_student(attempt["printed"]))]
    return "\n\n".join(said) + "\n"


def fenced(said: str) -> str:
    longest = max((len(run) for run in "".join(c if c == "`" else " " for c in said).split()), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{said.rstrip()}\n{fence}"

"""Keeps the best score of each lab in build/best.json, and prints the next rung to work on."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from grading.report import report
from qemu.disk import write_whole


def read(path: Path) -> dict[str, Any]:
    try:
        best = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return best if isinstance(best, dict) else {}


def remember(grades: list[report.Grade], path: Path) -> dict[str, int]:
    """Store these grades if they are the best so far. Returns the best points by architecture."""
    best = read(path)
    for g in grades:
        mine = best.setdefault(f"lab{g.lab}", {})
        if g.points >= mine.get(g.arch, {}).get("points", 0):
            mine[g.arch] = {"points": g.points, "possible": g.possible, "seed": f"{g.seed:016x}",
                            "reached": [r.rung.name for r in g.results if r.reached]}
    write_whole(path, json.dumps(best, indent=1) + "\n")
    return {g.arch: best[f"lab{g.lab}"][g.arch]["points"] for g in grades}


def next_rung(grades: list[report.Grade]) -> tuple[report.Grade, report.Result] | None:
    """The lowest lost rung that is no consequence of others, with the grade of its architecture."""
    lost = [(report.number_of(g.lab, r.rung), g, r) for g in grades for r in g.causes]
    return min(lost, key=lambda found: found[0])[1:] if lost else None


def show(grades: list[report.Grade], best: dict[str, int], console: Console) -> None:
    if any(best[g.arch] > g.points for g in grades):
        console.print("best so far: " + ", ".join(f"{best[g.arch]}/{g.possible} on {g.arch}"
                                                  for g in grades), highlight=False)
    if found := next_rung(grades):
        grade, result = found
        rung = result.rung
        console.print(f"[bold]Next: {escape(rung.name)}[/bold] on {grade.arch} ({rung.points} "
                      f"points): {escape(rung.promise)}\n      {report.closer(grade, result)}",
                      highlight=False, soft_wrap=True)
    elif waiting := next((half for half, results in grades[0].halves if not results[0].findings),
                         None):
        console.print(f"[bold]Next: {waiting.name}[/bold] ({waiting.points} points): "
                      f"{', '.join(waiting.files)}", highlight=False, soft_wrap=True)

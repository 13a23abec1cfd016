"""Runs the checks of all rungs, and reports the grade: on the terminal and in build/grade.json."""

import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from grading.checks import rubric
from grading.checks.faults import earlier_defect, fault_in
from grading.checks.rubric import Half, Rung
from grading.checks.seen import too_little
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Defect, Finding
from grading.report.typed import make_grade
from grading.stimulus.schedules import SCHEDULES
from grading.verdict import Stopped, Verdict
from qemu.disk import write_whole


@dataclass
class Result:
    """The findings of one rung on one architecture."""

    rung: Rung
    # by boot (its number of CPUs, or SCHEDULES); none if its half is not graded
    findings: dict[int, Finding | None]
    own: bool = True  # False: the staff's objects are linked for its half
    unseen: bool = False  # it cannot be judged by the console alone

    @property
    def reached(self) -> bool:
        return bool(self.findings) and all(f is None for f in self.findings.values())

    @property
    def points(self) -> int:
        return self.rung.points if self.own and self.reached else 0

    @property
    def possible(self) -> int:
        return 0 if self.unseen else self.rung.points

    @property
    def lost(self) -> bool:
        """Was the rung lost by itself, and not only because a rung that it needs was lost?"""
        return bool(self.lost_in)

    @property
    def lost_in(self) -> list[tuple[int, Finding]]:
        """The boots in which it was lost by itself, and the findings. Those that may be a
        consequence of another rung's finding come last."""
        return sorted(((boot, f) for boot, f in self.findings.items() if f and not f.need),
                      key=lambda found: follows(found[1]))


def follows(finding: Finding) -> bool:
    """May it be a consequence of another rung's finding?"""
    return finding.kind == Defect.TOO_LITTLE


@dataclass
class Grade:
    arch: str
    lab: int
    seed: int
    results: list[Result]
    evidence: list[Evidence]

    @property
    def points(self) -> int:
        return sum(r.points for r in self.results)

    @property
    def possible(self) -> int:
        return sum(r.possible for r in self.results)

    @property
    def right(self) -> bool:
        """Was every rung reached that was judged? Those of a half that is not graded were not."""
        judged = [r for r in self.results if r.findings]
        ended = any(e.verdict != Verdict.PASS for e in self.evidence)
        return bool(judged) and all(r.reached for r in judged) and not ended

    @property
    def causes(self) -> list[Result]:
        """The rungs that were lost by themselves, without those that may be a consequence of
        others."""
        lost = [r for r in self.results if r.lost]
        return [r for r in lost if not follows(r.lost_in[0][1])] or lost

    @property
    def line(self) -> str:
        """The serial line to the machine, if it is at one."""
        return next((e.line for e in self.evidence), "")

    @property
    def halves(self) -> list[tuple[Half, list[Result]]]:
        """The lab's halves, each with its results."""
        by_half = [(half, [r for r in self.results if r.rung in half.rungs])
                   for half in rubric.lab(self.lab).halves]
        return [(half, results) for half, results in by_half if results]

    @property
    def harness_error(self) -> Evidence | None:
        return next((e for e in self.evidence if e.verdict == Verdict.HARNESS), None)

    @property
    def verdict(self) -> Verdict:
        if worst := [e.verdict for e in self.evidence if e.verdict != Verdict.PASS]:
            return Verdict.HARNESS if self.harness_error else worst[0]
        return Verdict.PASS if self.points == self.possible else Verdict.FAIL


def cpus(boot: int) -> str:
    return {SCHEDULES: "schedules", 1: "1 CPU"}.get(boot, f"{boot} CPUs")


LINES, WIDTH = 20, 1000  # the greatest size of a text from the guest that is shown
LONGEST_KEPT = 2000  # characters


def whole_words(text: str) -> str:
    """The text without its last word, which may be incomplete; a single word loses its last
    character."""
    return text.rpartition(" ")[0].rstrip() or text[:-1]


def printable(text: str) -> str:
    """Text from the guest in a form that is safe to print: control characters as codes, long text
    cut."""
    rows = ["".join(c if c.isprintable() else c.expandtabs() if c == "\t" else f"\\x{ord(c):02x}"
                    for c in row) for row in text.split("\n")]
    rows = [row if len(row) <= WIDTH else f"{whole_words(row[:WIDTH + 1])} ..." for row in rows]
    return "\n".join(
        rows if len(rows) <= LINES else [*rows[:LINES], "... (the rest is in the log)"])


Findings = list[dict[int, Finding | None]]  # for each rung, by boot


def findings_of(lab: int, evidence: list[Evidence], staff: Collection[str] = ()) -> Findings:
    """Judge every rung by every boot that it names. In a boot that ended early all rungs are lost,
    except those that are judged by the built files. `staff`: the halves for which the staff's
    objects are linked."""
    results: list[Result] = []
    for rung in (rung for half in rubric.lab(lab).judged(staff) for rung in half.rungs):
        results.append(Result(rung, {e.boot: _judge(rung, e, results) for e in evidence
                                     if rung.judges(e.boot) and rung.check_of(e)}))
    return [r.findings for r in results]


def grade_of(arch: str, lab: int, seed: int, evidence: list[Evidence], findings: Findings,
             staff: Collection[str] = ()) -> Grade:
    rungs = [(rung, half.number not in staff) for half in rubric.lab(lab).halves
             for rung in half.rungs]
    waiting = [Result(rung, {}, own) for rung, own in rungs[len(findings):]]
    line = any(e.line for e in evidence)
    judged = [Result(rung, found, own, line and not found)
              for (rung, own), found in zip(rungs, findings) if found or line]
    return Grade(arch, lab, seed, judged + waiting, evidence)


def judge(arch: str, lab: int, seed: int, evidence: list[Evidence]) -> Grade:
    return grade_of(arch, lab, seed, evidence, findings_of(lab, evidence))


def _judge(rung: Rung, evidence: Evidence, above: list[Result]) -> Finding | None:
    try:
        with evidence.judged():
            found = _judged(rung, evidence, above)
            if found and found.mistake not in rubric.lab(evidence.lab).mistakes:
                # a check that labs share may name a mistake that this lab's handout does not
                # explain
                found.mistake = ""
            return found
    except Stopped as stopped:
        if stopped.verdict == Verdict.HARNESS:
            evidence.verdict, evidence.why = stopped.verdict, stopped.why
        return Finding(stopped.why)


def _judged(rung: Rung, evidence: Evidence, above: list[Result]) -> Finding | None:
    if evidence.line:
        return (Finding(evidence.ending())
                if evidence.why or not rung.console else rung.console(evidence))
    if not evidence.why or rung.built:
        return _unmet(above, evidence, (above[0].rung.name, *rung.needs) if above else
                      ()) or ((found := rung.check(evidence) or too_little(evidence, rung.seen)) and
                              (_unmet(above, evidence, rung.follows) or found))
    return (rung.stopped and rung.check(evidence)
            or Finding(_ending(evidence), mistake=rubric.lab(evidence.lab).ended(evidence)))


def _ending(evidence: Evidence) -> str:
    """A finding that says how the boot ended, and what was wrong before that, as the code where it
    ended may be right; otherwise, which instruction of the student's it was."""
    if evidence.verdict == Verdict.HARNESS:
        return evidence.ending()
    more = earlier_defect(evidence) or fault_in(evidence, rubric.lab(evidence.lab).files)
    return f"{evidence.ending()}. {more}" if more else evidence.ending()


def _unmet(above: list[Result], evidence: Evidence, names: tuple[str, ...]) -> Finding | None:
    """A finding if one of these rungs was not reached in the same boot. The boot of the schedules
    needs them in all boots."""
    name = next((r.rung.name for r in above if r.rung.name in names
                 and (r.findings.get(evidence.boot)
                      or evidence.boot == SCHEDULES and any(r.findings.values()))), "")
    return Finding(f"needs: {name}", need=name) if name else None


def number_of(lab: int, rung: Rung) -> int:
    """The number for RUNG=, counted from 1."""
    return rubric.lab(lab).rungs.index(rung) + 1


def replay(grade: Grade, under_gdb: Rung | None = None, schedule: str = "") -> str:
    rung = {"RUNG": str(number_of(grade.lab, under_gdb)), "GDB": "1"} if under_gdb else {}
    return make_grade(grade.lab, {"ARCH": grade.arch, "REPLAY": f"{grade.seed:016x}"},
                      {**rung, "SCHEDULE": schedule})


def closer(grade: Grade, result: Result) -> str:
    """The command that shows why a rung was lost: under gdb, or by hand if it happened on the host.
    """
    _, finding = result.lost_in[0]
    return finding.by_hand or replay(grade, None if grade.line else result.rung)


def _longest_word(texts: Iterable[str]) -> int:
    """The length of the longest word, which is the least width of a column without broken words."""
    return max((len(word) for text in texts for word in text.split()), default=1)


def show(grade: Grade, console: Console) -> None:
    table = Table(title=f"Lab {grade.lab} on {grade.arch}, seed {grade.seed:016x}",
                  title_justify="left")
    rungs = [result.rung for result in grade.results]
    table.add_column("rung", min_width=_longest_word(rung.name for rung in rungs))
    table.add_column("what must hold", min_width=_longest_word(rung.promise for rung in rungs),
                     max_width=58)
    for e in grade.evidence:
        table.add_column(cpus(e.boot), justify="center")
    table.add_column("points", justify="right")
    for half, results in grade.halves:
        if half.name:
            table.add_row(f"[u]{half.name}[/u]", _files(half, results[0].own),
                          *("" for _ in grade.evidence), _out_of(results))
        for result in results:
            marks = [_mark(result, e.boot) for e in grade.evidence]
            table.add_row(result.rung.name, result.rung.promise, *marks, _out_of([result]),
                          style="" if result.reached else "bold")
        table.add_section()
    table.add_row("", _totals(grade), *("" for _ in grade.evidence),
                  f"{grade.points}/{grade.possible}")
    console.print(table)
    if failed := [r for r in grade.results if r.findings and not r.reached]:
        _show_failures(grade, failed, console)


def _out_of(results: list[Result]) -> str:
    return f"{sum(r.points for r in results)}/{sum(r.possible for r in results)}"


def _files(half: Half, own: bool) -> str:
    return ", ".join(dict.fromkeys(Path(name).name
                                   for name in half.files)) + ("" if own else ": the staff's")


def _mark(result: Result, smp: int) -> str:
    if result.unseen:
        return "[dim]not judged[/dim]"
    if smp not in result.findings:
        return "[dim]-[/dim]"
    finding = result.findings[smp]
    if finding and finding.need:
        return f"[dim]needs: {escape(finding.need)}[/dim]"
    return "[red]no[/red]" if finding else "[green]yes[/green]"


def _totals(grade: Grade) -> str:
    if grade.line:
        again, points = sum(e.again for e in grade.evidence), sum(
            r.rung.points for r in grade.results if r.unseen)
        return (f"{sum(e.seconds for e in grade.evidence):.1f} s, {again} lines and frames "
                f"repeated, judged by the console alone: rungs of {points} points need QEMU's "
                "observer")
    insns = sum(sum(e.insns) for e in grade.evidence)
    seconds = sum(e.seconds for e in grade.evidence)
    calls = sum(e.observed for e in grade.evidence)
    played = [f"{len(p.runs)} of {len(p.todo)} ({p.change.name})" for e in grade.evidence
              for p in e.played]
    schedules = f"; schedules played: {', '.join(played)}" if played else ""
    return (f"{calls:,} calls observed, {insns / 1e6:,.0f} M instructions, {seconds:.1f} s, judged "
            f"by QEMU's observer{schedules}")


def _show_failures(grade: Grade, failed: list[Result], console: Console) -> None:
    said: set[str] = set()
    found = [(r.rung.name, smp, f) for r in failed for smp, f in r.lost_in]
    for name, smp, finding in sorted(found, key=lambda lost: follows(lost[2])):
        if finding.why not in said:
            said.add(finding.why)
            console.print(f"[bold red]{escape(name)}[/bold red] ({cpus(smp)}): "
                          f"{escape(printable(finding.why))}")
            _show_finding(finding, console)
            if finding.schedule:
                console.print(f"    again: {replay(grade, schedule=finding.schedule)}",
                              highlight=False, soft_wrap=True)
            _show_mistake(rubric.lab(grade.lab), finding, console)
    for e in grade.evidence:
        if e.panic and e.panic not in said:
            said.add(e.panic)
            console.print(escape(printable(e.panic)), style="dim")
        console.print(f"log: {e.log}", style="dim", highlight=False, soft_wrap=True)
    console.print(f"replay:    {replay(grade)}", highlight=False, soft_wrap=True)
    if grade.causes and not grade.line:
        command = closer(grade, grade.causes[0])
        console.print(("under gdb: " if "GDB=1" in command else "by hand:   ") + command,
                      highlight=False, soft_wrap=True)


def _show_finding(finding: Finding, console: Console) -> None:
    if finding.rows:
        table = Table(box=None, padding=(0, 2), show_edge=False)
        table.add_column("")
        table.add_column(finding.columns[0])
        table.add_column(finding.columns[1])
        for left, right, here in finding.rows:
            table.add_row("->" if here else "", escape(printable(left)), escape(printable(right)),
                          style="bold" if here else "dim")
        console.print(table)
    for line in finding.site:
        console.print("    " + escape(printable(line)), highlight=False)


def _show_mistake(lab: rubric.Lab, finding: Finding, console: Console) -> None:
    if finding.mistake:
        console.print(
            f"    [bold]{finding.mistake}[/bold]: {escape(lab.mistakes[finding.mistake])}: "
            f"{lab.page(finding.mistake)}", highlight=False, soft_wrap=True)


def kept(why: str) -> str:
    """A reason as grade.json has it. It may quote the guest, whose line may be a MiB long, and each
    rung of a boot that ended early repeats it."""
    if len(why) <= LONGEST_KEPT:
        return why
    return f"{whole_words(why[:LONGEST_KEPT + 1])} ... (the rest is in the log)"


def write_json(grades: list[Grade], path: Path) -> None:
    document = {"grades": [{
        "arch": g.arch, "lab": g.lab, "seed": f"{g.seed:016x}", "verdict": g.verdict.value,
        "points": None if g.harness_error else g.points, "possible": g.possible,
        "judged_by": "console" if g.line else "observer", "replay": replay(g),
        "halves": [{
            "name": half.name, "points": sum(r.points for r in results),
            "possible": sum(r.possible for r in results), "own": results[0].own
        } for half, results in g.halves if half.name],
        "rungs": [{
            "name": r.rung.name, "promise": r.rung.promise, "points": r.points,
            "possible": r.possible, "judged": not r.unseen, "cause": r in g.causes,
            "boots": {str(smp): None if f is None else kept(f.why)
                      for smp, f in r.findings.items()},
            "mistakes": {f.mistake: rubric.lab(g.lab).page(f.mistake)
                         for f in r.findings.values() if f and f.mistake}
        } for r in g.results],
        "boots": [{
            "smp": e.smp, "schedules": {p.change.name: [len(p.runs), len(p.todo)]
                                        for p in e.played},
            "verdict": e.verdict.value, "why": kept(e.why), "log": str(e.log),
            "seconds": round(e.seconds, 2), "instructions": e.insns, "calls": e.observed
        } for e in g.evidence]
    } for g in grades]}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, indent=1) + "\n")

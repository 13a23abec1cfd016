"""Loads how a lab is graded, from labs/<n>-<name>/rubric.toml and checks.py.

The rubric has each rung's promise and points; CHECKS in checks.py has the check
of each rung, by its name. A rung that has `tests` is judged by these host tests
(grading/checks/host_tests.py) and has no entry there. checks.py also has

    SESSION     the class that drives the boots, if not grading.session.session.Session
    MISTAKES    {slug: title}: the mistakes that findings may name
    SEEN        {rung's name: what must have been observed before the rung is reached}
                (grading/checks/seen.py)
    CONSOLE     {rung's name: the check by which it is judged if the console is all of the
                evidence}; other rungs are then not judged
    ON_LINE     the class that drives that boot, if not grading.session.line_session.LineSession
    ADVICE      slugs of the handout that no check recognises
    ended(e)    the slug of the mistake that made a boot end early, or ""
    SCHEDULES   the changes that one CPU makes while another CPU calls (grading.stimulus.schedules)

Each slug is a section of the lab's handout. A rubric with halves ([[half]]) has files and rungs in
each of them (grading/elf/halves.py).
"""

import functools
import importlib.util
import random
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from grading.checks import host_tests
from grading.checks.checks import Check, all_of
from grading.checks.integrity import as_linked
from grading.checks.seen import TEXTS, Coverage
from grading.elf import halves
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.session.line_session import LineSession, Place
from grading.session.schedule_session import ScheduleSession
from grading.session.session import BUDGET, Session
from grading.stimulus.schedules import SCHEDULES, Change, WhenHeld
from qemu.machine import ARCHES, ROOT

ONE, MANY, PLAYED = "one CPU", "many CPUs", "schedules"  # kinds of boots
MANY_CPUS = range(3, 7)  # from which the seed takes the number of CPUs of the boot with many
LABS = {
    int(p.parent.name.split("-")[0]): p.parent
    for p in sorted(ROOT.glob("labs/[0-9]-*/rubric.toml"))
}


@dataclass(frozen=True)
class Rung:
    name: str
    points: int
    promise: str
    check: Check
    seen: tuple[Coverage, ...] = ()  # what must have been observed before it is reached
    boots: tuple[str, ...] = (ONE, MANY)  # the kinds of boots that judge it
    # rungs, besides the first; if one of them is lost, this one is lost too, and not judged
    needs: tuple[str, ...] = ()
    # rungs whose loss explains the loss of this one, which is judged all the same
    follows: tuple[str, ...] = ()
    built: bool = False  # it is judged by the built files, even if the boot ends early
    stopped: bool = False  # its check also works for a boot that ended early
    # if the console is all of the evidence; None: it cannot be judged then
    console: Check | None = None
    tests: tuple[str, ...] = ()  # the host tests that judge it; <arch> is the architecture

    def check_of(self, evidence: Evidence) -> Check | None:
        return self.console if evidence.line else self.check

    def judges(self, boot: int) -> bool:
        return {SCHEDULES: PLAYED, 1: ONE}.get(boot, MANY) in self.boots


@dataclass(frozen=True)
class Half:
    """A part of a lab that can be graded without the parts after it. A lab without halves has one
    part, without a name."""

    number: str  # 4.1
    name: str
    files: tuple[str, ...]  # the student's, for each architecture
    rungs: tuple[Rung, ...]

    @property
    def points(self) -> int:
        return sum(rung.points for rung in self.rungs)


@dataclass(frozen=True)
class Lab:
    number: int
    folder: Path
    halves: tuple[Half, ...]
    session: type[Session]
    on_line: type[LineSession]
    mistakes: dict[str, str]
    ended: Callable[[Evidence], str]
    schedules: tuple[Change, ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(name for half in self.halves for name in half.files)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        return tuple(rung for half in self.halves for rung in half.rungs)

    def judged(self, staff: Collection[str]) -> tuple[Half, ...]:
        """The halves that are judged if the staff's objects are linked for `staff`: all up to the
        last half that is the student's own."""
        own = [n for n, half in enumerate(self.halves, 1) if half.number not in staff]
        return self.halves[:max(own, default=0)]

    def tests(self, *arches: str, staff: Collection[str] = ()) -> list[str]:
        """The host tests that judge it on these architectures."""
        return list(dict.fromkeys(
            name.replace("<arch>", arch) for arch in arches for half in self.judged(staff)
            for rung in half.rungs for name in rung.tests))

    def page(self, slug: str) -> str:
        """The section of the handout about this mistake."""
        return f"labs/{self.folder.name}/handout.md#{slug}"


@functools.cache
def checks_of(number: int) -> ModuleType:
    path = LABS[number] / "checks.py"
    spec = importlib.util.spec_from_file_location(f"lab{number}_checks", path)
    assert spec and spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def lab(number: int) -> Lab:
    rubric, checks = LABS[number] / "rubric.toml", checks_of(number)
    files = halves.files(rubric, ARCHES)
    parts = [Half(half, entry.get("name", ""), tuple(files[half]),
                  tuple(_rung(r, checks.CHECKS, checks.SEEN, getattr(checks, "CONSOLE", {}))
                        for r in entry["rung"])) for half, entry in halves.halves(rubric).items()]
    first = parts[0].rungs[0]
    first = replace(first, check=all_of(as_linked, first.check), seen=(*first.seen, TEXTS))
    parts[0] = replace(parts[0], rungs=(first, *parts[0].rungs[1:]))
    return Lab(number, LABS[number], tuple(parts), getattr(checks, "SESSION", Session),
               getattr(checks, "ON_LINE", LineSession), getattr(checks, "MISTAKES", {}),
               getattr(checks, "ended", lambda e: ""), getattr(checks, "SCHEDULES", ()))


def _rung(entry: dict[str, Any], checks: dict[str, Check], seen: dict[str, tuple[Coverage, ...]],
          console: dict[str, Check] | None = None) -> Rung:
    name, points, promise = (entry.pop(key) for key in ("name", "points", "promise"))
    if "tests" in entry:
        checks, seen = {name: host_tests.passed(*entry["tests"])}, {name: ()}
    missing = "CHECKS" if name not in checks else "SEEN" if name not in seen else ""
    if missing:
        raise ValueError(
            f"rubric.toml has a rung '{name}', for which {missing} of checks.py has no entry")
    options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value
                               for key, value in entry.items()}
    return Rung(name, points, promise, checks[name], seen[name], console=(console or {}).get(name),
                **options)


def boots(number: int, seed: int) -> tuple[int, ...]:
    """The boots of a grade: numbers of CPUs, and SCHEDULES if the lab has schedules."""
    many = random.Random(f"boots {seed}").choice(MANY_CPUS)
    return (1, many, *([SCHEDULES] if lab(number).schedules else []))


def boot(kernel: Kernel, number: int, which: int, seed: int, out: Path,
         say: Callable[[str], None] = lambda text: None, budget: int = BUDGET, schedule: str = "",
         again: bool = False, when_held: WhenHeld | None = None) -> Evidence:
    """Run one boot with the lab's session; its log is written to the folder `out`. `schedule`: play
    only this schedule; `again`: only those that the seed chooses; `when_held`: called when the CPUs
    of a schedule are held."""
    graded, name = lab(number), f"{which}cpu" if which else "schedules"
    log = out / f"{kernel.arch}-lab{number}-{name}.log"
    session = graded.session(kernel, number, which, seed, log, say, budget) if which else (
        ScheduleSession(kernel, number, seed, log, say, budget, graded.schedules,
                        [f for f in graded.files
                         if f.endswith((".c", ".S"))], schedule, again, when_held))
    return session.run()


def boot_on_line(kernel: Kernel, number: int, seed: int, out: Path, place: Place,
                 say: Callable[[str], None] = lambda text: None) -> Evidence:
    """Run one boot on the machine at a serial line."""
    return lab(number).on_line(kernel, number, seed, out / f"{kernel.arch}-lab{number}-line.log",
                               place, say).run()

"""A lab as it is graded: labs/<n>-<name>/rubric.toml and checks.py.

The rubric says what each rung promises and what it is worth; CHECKS in checks.py
says, under the rung's name, what the promise is held against. checks.py also has

    SESSION     how its boots are driven, if not by grading.session
    MISTAKES    {slug: title}: the mistakes that its findings know by name
    SEEN        {rung's name: what must have been observed before it is reached} (grading/seen.py)
    ADVICE      slugs that no check recognises
    ended(e)    the slug of what made a boot end early, or ""
    SCHEDULES   the changes that are made while another CPU calls (grading.schedules)

Each slug is a section of the lab's handout.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from grading.checks import Check, all_of
from grading.elf import Kernel
from grading.evidence import Evidence
from grading.integrity import as_linked
from grading.schedule_session import ScheduleSession
from grading.schedules import SCHEDULES, Change, WhenHeld
from grading.seen import TEXTS, Coverage
from grading.session import BUDGET, Session
from qemu.machine import ARCHES, ROOT

CPUS = (1, 4)
LABS = {int(p.parent.name.split("-")[0]): p.parent for p in sorted(ROOT.glob("labs/[0-9]-*/rubric.toml"))}


@dataclass(frozen=True)
class Rung:
    name: str
    points: int
    promise: str
    check: Check
    seen: tuple[Coverage, ...] = ()  # and what must have been observed besides
    cpus: tuple[int, ...] = (1, 4)  # which boots it speaks of: those with one CPU, with more; or SCHEDULES, that of the schedules
    needs: tuple[str, ...] = ()  # rungs above that it stands on, besides the first
    follows: tuple[str, ...] = ()  # rungs above whose loss explains its own: it may hold without them, and is said to need them if not
    built: bool = False  # it is held against what was built, however the boot ends
    stopped: bool = False  # of a boot that ended early, too, it can say what was wrong

    def judges(self, boot: int) -> bool:
        if SCHEDULES in (boot, *self.cpus):
            return boot in self.cpus
        return (boot > 1) in {cpus > 1 for cpus in self.cpus}


@dataclass(frozen=True)
class Lab:
    number: int
    folder: Path
    files: tuple[str, ...]  # the student's, for each architecture
    rungs: tuple[Rung, ...]
    session: type[Session]
    mistakes: dict[str, str]
    ended: Callable[[Evidence], str]
    schedules: tuple[Change, ...]

    def page(self, slug: str) -> str:
        """Where the mistake is written about."""
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
    rubric = tomllib.loads((LABS[number] / "rubric.toml").read_text())
    checks = checks_of(number)
    first, *rungs = (_rung(r, checks.CHECKS, checks.SEEN) for r in rubric["rung"])
    first = replace(first, check=all_of(as_linked, first.check), seen=(*first.seen, TEXTS))
    files = tuple(name.replace("<arch>", arch) for name in rubric["files"] for arch in (ARCHES if "<arch>" in name else ARCHES[:1]))
    return Lab(number, LABS[number], files, (first, *rungs),
                getattr(checks, "SESSION", Session), getattr(checks, "MISTAKES", {}), getattr(checks, "ended", lambda e: ""),
                getattr(checks, "SCHEDULES", ()))


def _rung(entry: dict[str, Any], checks: dict[str, Check], seen: dict[str, tuple[Coverage, ...]]) -> Rung:
    name, points, promise = (entry.pop(key) for key in ("name", "points", "promise"))
    options: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
    return Rung(name, points, promise, checks[name], seen[name], **options)


def boots(number: int) -> tuple[int, ...]:
    """The boots of a grade, by how many CPUs they have; and that of the schedules."""
    return (*CPUS, *([SCHEDULES] if lab(number).schedules else []))


def boot(kernel: Kernel, number: int, which: int, seed: int, out: Path, say: Callable[[str], None] = lambda text: None,
         budget: int = BUDGET, schedule: str = "", when_held: WhenHeld | None = None) -> Evidence:
    """One boot as the lab's session drives it; its log is in the folder `out`. `schedule`: of the schedules, this one alone; `when_held`:
    what is done with the machine where its CPUs are held."""
    graded, name = lab(number), f"{which}cpu" if which else "schedules"
    log = out / f"{kernel.arch}-lab{number}-{name}.log"
    session = graded.session(kernel, number, which, seed, log, say, budget) if which else (
        ScheduleSession(kernel, number, seed, log, say, budget, graded.schedules, [f for f in graded.files if f.endswith((".c", ".S"))], schedule, when_held))
    return session.run()

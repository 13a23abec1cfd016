"""The boot of the schedules: plays a lab's schedules one after the other (see
grading/stimulus/schedules.py)."""

import random
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from grading.elf.elf import Kernel
from grading.machine.machine import Run
from grading.machine.observer import Config, Record
from grading.session.module_session import scheduled
from grading.session.session import Session
from grading.stimulus.schedules import SCHEDULES, Change, Player, WhenHeld
from grading.truth import probes, truth
from grading.verdict import Stopped, Verdict

FOLLOWED = ("calls_",)
SEVERAL = range(2, 5)  # from which the seed takes the number of CPUs
CAPACITY = 4_000_000  # slots of the observer's log: many calls are logged with each step
CHOSEN = 4  # schedules of each change that the seed chooses, besides those that are always played
PATCHER = "kern/ftrace/core/patch.c"  # its stores, which other CPUs see, are steps in every lab
PROBES = "kern/ftrace/probes/kprobes.c"  # and so are these, in lab 8


class ScheduleSession(Session):
    """A boot with several CPUs: one makes changes, another makes traced calls."""

    def __init__(self, kernel: Kernel, lab: int, seed: int, log: Path, say: Callable[[str], None],
                 budget: int, changes: tuple[Change, ...], files: Sequence[str], only: str = "",
                 again: bool = False, when_held: WhenHeld | None = None) -> None:
        cpus = random.Random(f"schedules {seed}").choice(SEVERAL)
        super().__init__(kernel, lab, cpus, seed, log, say, budget)
        self._evidence.boot = SCHEDULES
        self._changes = changes
        self._only = only
        self._again = again
        self._when_held = when_held
        self._files = (*files, PATCHER, PROBES)

    def _config(self) -> Config:
        self._player = Player(self._kernel, self._files, self._when_held)
        modules = scheduled(self._kernel)
        self._kernel.place(modules)
        config = truth.config(self._kernel, self._machine, FOLLOWED, "calls_", modules)
        config.capacity = CAPACITY
        if self._evidence.lab == 8:
            probes.add(self._kernel, config, ())
        return self._player.config(config, self._changes)

    def _truth(self, records: Iterable[Record]) -> truth.Truth:
        return truth.read(self._kernel, records, FOLLOWED)

    def _talk(self, machine: Run, rng: random.Random) -> None:
        e, player = self._evidence, self._player
        e.played = player.played
        player.begin(machine)
        for change in self._changes:
            if fnmatchcase(change.name, self._only.partition(":")[0] or "*"):
                self._say(f"schedules: {change.name}")
                player.play(change, CHOSEN, random.Random(rng.getrandbits(64)), self._only,
                            self._again)
        player.end()
        if self._only and not any(p.runs for p in e.played):
            names = [str(s) for p in e.played for s in p.todo]
            raise Stopped(Verdict.HARNESS, f"SCHEDULE={self._only} is not a schedule of this "
                          f"kernel. Its changes are {', '.join(c.name for c in self._changes)}; a "
                          f"schedule has the form {names[-1] if names else 'change:step:place'}")

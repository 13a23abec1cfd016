"""Lab 4's trials: the workload while several ops watch it, change its arguments and patch it.

Which ops, with which filters and values, follows from the seed; the kernel is
told by `op` commands (kern/ftrace/op.c) when it is ready. What must happen is
worked out by workload.expect() with the ops' changes.
"""

from __future__ import annotations

import fnmatch
import random
from dataclasses import dataclass
from functools import cached_property

from grading import workload
from grading.workload import LEAVES, TREE, WIDE, OpChanges

FUNCTIONS = [*TREE, WIDE]  # those with a value as their second argument
MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Op:
    """One of the eight ops of the shell."""

    number: int
    does: str  # see, add, patch
    words: tuple[str, ...]  # its filter
    value: int = 0  # add: D
    target: str = ""  # patch

    @cached_property
    def names(self) -> frozenset[str]:
        return frozenset(f for f in FUNCTIONS if any(fnmatch.fnmatchcase(f, w) for w in self.words))

    @property
    def command(self) -> str:
        what = {"see": "", "add": f"{self.value:#x} ", "patch": f"{self.target} "}[self.does]
        return f"op {self.number} {self.does} {what}{' '.join(self.words)}"

    def __str__(self) -> str:
        return f"op {self.number}"


@dataclass(eq=False)
class Trial:
    """One workload with some ops on it."""

    name: str
    seed: int
    ops: list[Op]  # registered while it runs
    refused: Op | None = None  # one that must not be registered beside them
    first: int = 0  # of the observer's records, from the command that starts the workload
    last: int = 0
    output: str = ""
    said: str = ""  # when the refused one was tried
    lacks: Op | None = None  # the first of `ops` that could not be made
    unmade: str = ""  # and why

    @property
    def changes(self) -> OpChanges:
        adds: dict[str, int] = {}
        patches: dict[str, str] = {}
        for op in self.ops:
            for name in op.names:
                if op.does == "add":
                    adds[name] = (adds.get(name, 0) + op.value) & MASK
                elif op.does == "patch":
                    patches[name] = op.target
        return OpChanges(adds, patches)

    def expected(self, cpus: int) -> workload.ExpectedRun:
        return workload.expect(self.seed, cpus, self.changes)

    def of(self, function: str, does: str = "") -> list[Op]:
        """The ops whose filter has the function."""
        return [op for op in self.ops if function in op.names and does in (op.does, "")]


def _some(rng: random.Random, least: int, most: int, but: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return tuple(rng.sample([f for f in FUNCTIONS if f not in but], rng.randint(least, most)))


def _family(rng: random.Random, but: frozenset[str]) -> tuple[str, ...]:
    """A glob that selects functions of one shape, none of `but`."""
    shapes = sorted({f.split("_")[1] for f in FUNCTIONS} - {f.split("_")[1] for f in but})
    return (f"wl_{rng.choice(shapes)}_*",)


def _arguments(rng: random.Random) -> Trial:
    """Two ops that overlap change arguments, of wl_wide_oak all that there are; a third looks on."""
    def odd() -> int:
        return rng.getrandbits(64) | 1

    return Trial("changed arguments", rng.getrandbits(64), [
        Op(0, "see", (WIDE, "wl_leaf_*", *_some(rng, 2, 5, frozenset([WIDE, *LEAVES])))),
        Op(1, "add", (WIDE, *_some(rng, 3, 7, frozenset([WIDE]))), odd()),
        Op(2, "add", ("wl_[lw]*_*",), odd())])


def _patches(rng: random.Random) -> Trial:
    """Two ops put leaves in the place of other functions; a third wants one that is taken."""
    *targets, first = rng.sample(LEAVES, 3)
    one = (first, *_some(rng, 1, 3, frozenset([*LEAVES, WIDE])))
    two = _some(rng, 1, 3, frozenset([*one, *LEAVES, WIDE]))
    refused = (*_some(rng, 1, 2, frozenset([*one, *two, *targets, WIDE])), rng.choice(one))
    return Trial("live patch", rng.getrandbits(64), [
        Op(0, "see", ("wl_*_*",)), Op(3, "patch", one, target=targets[0]), Op(4, "patch", two, target=targets[1]),
        Op(6, "see", one)],
        refused=Op(5, "patch", refused, target=targets[1]))


def _many(rng: random.Random) -> tuple[Trial, Trial]:
    """Seven ops, then what is left of them when some are gone. One function is op 0's alone, one nobody's."""
    alone, nobodys = rng.sample(LEAVES, 2)
    but = frozenset([alone, nobodys])
    ops = [Op(0, "see", (alone, *_some(rng, 3, 6, but))), Op(1, "see", _family(rng, but))]
    ops += [Op(n, "see", _some(rng, 3, 9, but)) for n in range(2, 7)]
    stay = {0, *rng.sample(range(1, 7), rng.randint(2, 3))}
    return (Trial("many ops", rng.getrandbits(64), ops),
            Trial("fewer ops", rng.getrandbits(64), [op for op in ops if op.number in stay]))


def choose(seed: int) -> list[Trial]:
    rng = random.Random(seed)
    return [_arguments(rng), _patches(rng), *_many(rng)]

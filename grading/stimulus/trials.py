"""Lab 4's trials: workloads with several ops that look at calls, change their arguments or replace
functions.

The ops, their filters and their values follow from the seed. They are registered
by `op` commands (kern/apps/op.c) at the kernel's prompt. workload.expect()
computes the expected calls with the ops' changes.
"""

import fnmatch
import random
from dataclasses import dataclass
from functools import cached_property

from grading.stimulus import workload
from grading.stimulus.workload import LEAVES, TREE, WIDE, OpChanges

FUNCTIONS = [*TREE, WIDE]  # the functions whose second argument is a value
MASK = (1 << 64) - 1


@dataclass(frozen=True)
class Op:
    """One of the shell's eight ops."""

    number: int
    does: str  # see, add, patch
    words: tuple[str, ...]  # its filter
    value: int = 0  # for add: D
    target: str = ""  # for patch: the function that runs instead

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
    """One workload with some ops registered."""

    name: str
    seed: int
    ops: list[Op]  # registered while it runs
    refused: Op | None = None  # an op that the kernel must refuse while `ops` are registered
    first: int = 0  # the number of observer records before the command that starts the workload
    last: int = 0
    output: str = ""
    printed: str = ""  # what the shell printed when `refused` was tried
    lacks: Op | None = None  # the first of `ops` that could not be registered
    unmade: str = ""  # why that one could not be registered

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


def _some(rng: random.Random, least: int, most: int,
          but: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return tuple(rng.sample([f for f in FUNCTIONS if f not in but], rng.randint(least, most)))


def _family(rng: random.Random, but: frozenset[str]) -> tuple[str, ...]:
    """A glob that selects functions of one shape, none of `but`."""
    shapes = sorted({f.split("_")[1] for f in FUNCTIONS} - {f.split("_")[1] for f in but})
    return (f"wl_{rng.choice(shapes)}_*",)


def _arguments(rng: random.Random) -> Trial:
    """Two ops with overlapping filters change arguments, all arguments of wl_wide_oak; a third op
    only looks."""
    def odd() -> int:
        return rng.getrandbits(64) | 1

    return Trial("changed arguments", rng.getrandbits(64), [
        Op(0, "see", (WIDE, "wl_leaf_*", *_some(rng, 2, 5, frozenset([WIDE, *LEAVES])))),
        Op(1, "add", (WIDE, *_some(rng, 3, 7, frozenset([WIDE]))), odd()),
        Op(2, "add", ("wl_[lw]*_*",), odd())])


def _patches(rng: random.Random) -> Trial:
    """Two ops replace functions by leaves. A third op selects a function that is already replaced,
    and must be refused."""
    *targets, first = rng.sample(LEAVES, 3)
    one = (first, *_some(rng, 1, 3, frozenset([*LEAVES, WIDE])))
    two = _some(rng, 1, 3, frozenset([*one, *LEAVES, WIDE]))
    refused = (*_some(rng, 1, 2, frozenset([*one, *two, *targets, WIDE])), rng.choice(one))
    return Trial("live patch", rng.getrandbits(64),
                 [Op(0, "see", ("wl_*_*",)), Op(3, "patch", one, target=targets[0]),
                  Op(4, "patch", two, target=targets[1]), Op(6, "see", one)],
                 refused=Op(5, "patch", refused, target=targets[1]))


def _many(rng: random.Random) -> tuple[Trial, Trial]:
    """A trial with seven ops, then one with some of them. One function is traced by op 0 only, one
    by no op."""
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

"""Computes on the host what `workload SEED` does, from docs/workload.md.

expect(seed, cpus) gives the calls of every context, in order, and the line that
the program prints. This module reads neither the kernel's sources nor its trace.
"""

from collections.abc import Mapping
from typing import NamedTuple

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
MAX_CPUS = 8


class ExpectedCall(NamedTuple):
    """One call of the workload, as a tracer must report it."""

    function: str
    # the function that contains its return address; for a tail call, its maker's caller
    caller: str
    x: int
    room: int
    depth: int  # wl_first and wl_rest: 1
    maker: str  # the function that makes the call; not the caller if `tail`
    tail: bool
    received: tuple[int, ...]  # the known arguments (see PASSED), as the function finds them


class OpChanges(NamedTuple):
    """What ops do to the workload's functions."""

    adds: Mapping[str, int] = {}  # by function: the sum of D of all ops
    patches: Mapping[str, str] = {}  # by function: the function that runs instead


class ExpectedRun(NamedTuple):
    """Contexts are named "main", "thread 0" (on CPU 0), "interrupt 0" (on CPU 0), ..."""

    seed: int
    cpus: int
    contexts: dict[str, list[ExpectedCall]]
    calls: int
    result: int

    @property
    def line(self) -> str:
        return f"workload {self.seed:016x}: {self.calls} calls, result {self.result:016x}"


LEAVES = [
    "wl_leaf_ash", "wl_leaf_birch", "wl_leaf_cedar", "wl_leaf_elm", "wl_leaf_fir", "wl_leaf_holly"
]

# Child 0 always, child 1 on an odd byte.
CHAINS = {
    "wl_self_drum": ("wl_self_drum", "wl_leaf_ash"),
    "wl_self_flute": ("wl_self_flute", "wl_leaf_birch"),
    "wl_pair_salt": ("wl_pair_pepper", "wl_leaf_cedar"),
    "wl_pair_pepper": ("wl_pair_salt", "wl_leaf_elm"),
    "wl_ring_sun": ("wl_ring_moon", "wl_leaf_fir"),
    "wl_ring_moon": ("wl_ring_star", "wl_pick_north"),
    "wl_ring_star": ("wl_ring_sun", "wl_leaf_holly"),
}

# Child 0: the first on an odd byte, else the second.
STEPS = {
    "wl_step_brook": ("wl_pick_south", "wl_leaf_ash"),
    "wl_step_creek": ("wl_fan_amber", "wl_step_brook"),
    "wl_step_delta": ("wl_pick_east", "wl_step_creek"),
    "wl_step_river": ("wl_ring_sun", "wl_step_delta"),
}

# Child 0 on an odd byte 0 (or none), then a tail call: first on an odd byte 1, else second.
TAILS: dict[str, tuple[str | None, str, str]] = {
    "wl_tail_hawk": (None, "wl_fan_coral", "wl_leaf_birch"),
    "wl_tail_kite": ("wl_leaf_cedar", "wl_leaf_fir", "wl_tail_hawk"),
    "wl_tail_lark": ("wl_leaf_elm", "wl_step_brook", "wl_leaf_holly"),
    "wl_tail_swan": ("wl_leaf_ash", "wl_tail_kite", "wl_tail_lark"),
}


def _names(text: str) -> list[str]:
    return ["wl_" + word for word in text.split()]


# The functions among which each fan and pick chooses.
FANS = {
    "wl_fan_amber": _names("leaf_ash leaf_birch tail_swan pair_salt"),
    "wl_fan_coral": _names("leaf_cedar leaf_elm tail_lark step_delta"),
    "wl_fan_ivory": _names("leaf_fir leaf_holly fan_coral self_drum"),
    "wl_fan_pearl": _names("leaf_ash tail_hawk step_river fan_ivory"),
    "wl_fan_topaz": _names("leaf_elm tail_kite pick_west fan_pearl"),
}
PICKS = {
    "wl_pick_north": _names(
        "leaf_ash leaf_fir step_brook step_delta tail_swan pair_salt fan_amber pick_south"),
    "wl_pick_east": _names(
        "leaf_birch leaf_holly self_flute ring_star tail_kite pair_pepper fan_coral pick_west"),
    "wl_pick_south": _names(
        "leaf_cedar step_creek step_river self_drum tail_lark ring_moon fan_ivory pick_east"),
    "wl_pick_west": _names(
        "leaf_elm step_delta self_flute ring_sun tail_hawk tail_swan fan_topaz pick_north"),
}
ROOTS = _names(
    "leaf_holly self_drum self_flute pair_pepper ring_sun ring_star step_river tail_swan"
    " fan_coral fan_ivory fan_pearl fan_topaz pick_north pick_east pick_south pick_west"
)

WIDE = "wl_wide_oak"
TREE = [*LEAVES, *CHAINS, *STEPS, *TAILS, *FANS, *PICKS]
NUMBER = {name: number for number, name in enumerate([*TREE, "wl_first", "wl_rest", WIDE], 1)}
FUNCTIONS = [*NUMBER, "wl_begin", "wl_end"]
# the numbers of the known arguments; of all other functions the second
PASSED = {WIDE: (1, 3, 4, 5, 6, 7)}


def mix(value: int) -> int:
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & MASK
    return value ^ value >> 31


def byte(value: int, index: int) -> int:
    return value >> (8 * index) & 0xFF


class Generator:
    """splitmix64."""

    def __init__(self, state: int) -> None:
        self.state = state

    def next(self) -> int:
        self.state = (self.state + GOLDEN) & MASK
        return mix(self.state)


def returned(leaf: ExpectedCall) -> int:
    """What this call of a leaf returns."""
    return (mix((leaf.received[0] + NUMBER[leaf.function] * GOLDEN) & MASK) + leaf.room) & MASK


class Context:
    """One thread or interrupt: its budget, its sum, and the calls that it makes."""

    def __init__(self, budget: int, random: Generator, changes: OpChanges) -> None:
        self.budget, self.random, self.sum = budget, random, 0
        self.changes = changes
        self.calls: list[ExpectedCall] = []

    def run(self, body: str) -> None:
        first, rest = self._first(body), self._rest(body)
        self.sum = mix((self.sum + first * 31 + rest) & MASK)

    def _enter(self, call: ExpectedCall, x: int) -> int:
        """The function begins with the value x, which its caller passed or an op changed."""
        self.calls.append(call)
        self.budget -= 1
        v = mix((x + NUMBER[call.function] * GOLDEN) & MASK)
        self.sum = mix((self.sum + v) & MASK)
        return v

    def _first(self, body: str) -> int:
        me = ExpectedCall("wl_first", body, self.random.next(), 0, 1, body, False, ())
        v = r = self._enter(me, me.x)
        children = [(8 + byte(v, 1) % 4, 0, "wl_self_drum", "wl_self_flute"),
                    (3, 2, "wl_pair_salt", "wl_pair_pepper"),
                    (1, 3, "wl_fan_amber", "wl_fan_topaz"), (2, 4, "wl_tail_hawk", "wl_tail_swan")]
        for i, (room, bit, odd, even) in enumerate(children, 1):
            r = self._join(r, me, odd if byte(v, bit) % 2 else even, v + i, room)
        wide = self._wide(me, v + 5, byte(v, 5), (v >> 12, v >> 24, v >> 36, v >> 48, r))
        return (r * 31 + wide) & MASK

    def _rest(self, body: str) -> int:
        me = ExpectedCall("wl_rest", body, self.random.state, 0, 1, body, False, ())
        r = self._enter(me, me.x)
        while self.budget > 0:
            u = self.random.next()
            r = self._join(r, me, ROOTS[byte(u, 0) % 16], u, 2 + byte(u, 1) % 7)
        return r

    def _join(self, r: int, me: ExpectedCall, child: str, x: int, room: int) -> int:
        return (r * 31 + self._call(me, child, x, room, False)) & MASK

    def _call(self, me: ExpectedCall, child: str, x: int, room: int, tail: bool) -> int:
        x &= MASK
        arrived = (x + self.changes.adds.get(child, 0)) & MASK
        patched = child in self.changes.patches
        call = ExpectedCall(child, me.caller if tail else me.function, x, room, me.depth + 1,
                            me.function, tail, () if patched else (arrived,))
        if patched:
            self.calls.append(call)
            return self._call(call, self.changes.patches[child], arrived, room, True)
        v = self._enter(call, arrived)
        if child in LEAVES:
            return returned(call)
        if child in TAILS:
            return self._tail(call, v)
        r = v
        for i, grandchild in self._children(child, v):
            if not (room > 0 and self.budget > 0):
                break
            r = self._join(r, call, grandchild, v + i, room - 1)
        return r

    def _wide(self, me: ExpectedCall, x: int, room: int, more: tuple[int, ...]) -> int:
        x &= MASK
        add = self.changes.adds.get(WIDE, 0)
        values = [(value + n * add) & MASK for n, value in zip((1, 3, 4, 5, 6, 7), (x, *more))]
        call = ExpectedCall(WIDE, me.function, x, room, me.depth + 1, me.function, False,
                            tuple(values))
        v = self._enter(call, values[0])
        return (v + room + sum(n * value for n, value in enumerate(values))) & MASK

    @staticmethod
    def _children(name: str, v: int) -> list[tuple[int, str]]:
        """The calls that an ordinary function makes if there is room and budget: (child number,
        function)."""
        odd = byte(v, 0) % 2
        if name in CHAINS:
            return list(enumerate(CHAINS[name][: 1 + odd]))
        if name in STEPS:
            return [(0, STEPS[name][0 if odd else 1])]
        if name in FANS:
            return [(i, FANS[name][byte(v, i) % 4]) for i in range(1, 4 + odd)]
        return [(i, PICKS[name][byte(v, i) % 8]) for i in range(1, 2 + odd)]

    def _tail(self, me: ExpectedCall, v: int) -> int:
        r = v
        child, odd, even = TAILS[me.function]
        if child and me.room > 0 and self.budget > 0 and byte(v, 0) % 2:
            r = self._join(r, me, child, v, me.room - 1)
        if not (me.room > 0 and self.budget > 0):
            return r
        return self._call(me, odd if byte(v, 1) % 2 else even, r + 1, me.room - 1, True)


def expect(seed: int, cpus: int, changes: OpChanges = OpChanges()) -> ExpectedRun:
    """Every call of `workload SEED` on a machine with that many CPUs."""
    cpus = min(cpus, MAX_CPUS)
    random = Generator(seed)
    total = 600 + random.next() % 601 + 150 * max(0, cpus - 4)
    interrupt_budgets = [48 + random.next() % 17 for _ in range(cpus)]
    rest = total - sum(interrupt_budgets)
    weights = [2 + random.next() % 3 for _ in range(cpus)]
    threads, interrupts = dict[str, Context](), dict[str, Context]()
    for k in range(cpus):
        threads[f"thread {k}"] = Context(rest * weights[k] // sum(weights),
                                         Generator(random.next()), changes)
        interrupts[f"interrupt {k}"] = Context(interrupt_budgets[k], Generator(random.next()),
                                               changes)
    both = threads | interrupts
    calls, result = 2 + sum(context.budget for context in both.values()), 0
    for name, context in both.items():
        context.run("workload_thread" if name in threads else "workload_interrupt")
        result = mix((result + context.sum) & MASK)
    main = "app_main_workload"
    contexts = {"main": [ExpectedCall(name, main, x, 0, 1, main, False, ())
                         for name, x in (("wl_begin", seed), ("wl_end", result))]}
    return ExpectedRun(seed, cpus, contexts
                       | {name: context.calls for name, context in both.items()}, calls, result)

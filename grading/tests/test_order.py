"""The order of stores: which instructions are barriers, and shadow stacks after each store."""

from __future__ import annotations

import collections
import copy
import dataclasses
import unittest
from typing import Any

from grading.checks import rubric
from grading.checks import order
from grading.checks.checks import Check
from grading.checks.shadow import Stack, whole
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.tests import mutants
from grading.truth import truth
from qemu.isa import ARCHES, ARM64, ISAS
from qemu.isa.common import LOADS, STORES
from qemu.machine import ROOT

BOTH = STORES | LOADS
BARRIERS = {
    "riscv64": {
        0x0110000F: {STORES}, 0x0220000F: {LOADS}, 0x0330000F: {STORES, LOADS, BOTH},
        0x8330000F: {STORES, LOADS, BOTH}, 0x0FF0000F: {STORES, LOADS, BOTH}, 0x0120000F: set(),
        0x0100000F: set(), 0x0000100F: set(), 0x00000013: set()
    }, "arm64": {
        0xD5033ABF: {STORES}, 0xD50339BF: {LOADS}, 0xD5033BBF: {STORES, LOADS, BOTH},
        0xD5033F9F: {STORES, LOADS, BOTH}, 0xD5033EBF: {STORES}, 0xD50337BF: set(),
        0xD5033FDF: set(), 0xD503201F: set()
    }
}
# amoswap.d .aq, .rl; sc.d.rl; sd
RELEASES = {
    "riscv64": {0x0CB5B52F: False, 0x0AB5B52F: True, 0x1AB5B52F: True, 0x00B53023: False},
    "arm64": {
        0xC89FFC41: True, 0x889FFC41: True, 0xC803FC41: True, 0xF8228041: False, 0xF8628041: True,
        0xF9000041: False, 0xC8DFFC41: False, 0xC85FFC41: False
    }
}
ACQUIRES = {
    "riscv64": {0x0CB5B52F: True, 0x0AB5B52F: False, 0x0005B503: False}, "arm64": {
        0xC8DFFC41: True, 0xC85FFC41: True, 0xF8BFC041: True, 0xC89FFC41: False, 0xF9400041: False,
        0xC85F7C41: False
    }
}
PAGE, FRAME = 0x10000, {"": 32, "ret": 0, "below": 8, "users": 16, "data_end": 24}
STACK = {"": 4096, "top": 0, "free": 8, "depth": 16, "words": 24}
TOP, FREE, ROOM = PAGE, PAGE + 8, PAGE + 24
FIRST, SECOND = ROOM, ROOM + 32


class BarrierWords(unittest.TestCase):
    def test_what_a_barrier_orders(self) -> None:
        for arch, words in BARRIERS.items():
            for word, kinds in words.items():
                with self.subTest(arch=arch, word=f"{word:08x}"):
                    self.assertEqual(
                        {k
                         for k in (STORES, LOADS, BOTH) if ISAS[arch].orders(word, k)}, kinds)

    def test_which_stores_release_and_which_loads_acquire(self) -> None:
        for is_one, table in (("releases", RELEASES), ("acquires", ACQUIRES)):
            for arch, words in table.items():
                for word, does in words.items():
                    with self.subTest(arch=arch, word=f"{word:08x}"):
                        self.assertEqual(getattr(ISAS[arch], is_one)(word), does)


    def test_which_barriers_wait_for_cache_maintenance(self) -> None:
        """dsb sy and ish; not dsb nsh, ishld, ishst, not dmb ish, not isb."""
        found = [
            word for word in (0xD5033F9F, 0xD5033B9F, 0xD503379F, 0xD503399F, 0xD5033A9F,
                              0xD5033BBF, 0xD5033FDF) if ARM64.completes(word)
        ]
        self.assertEqual(found, [0xD5033F9F, 0xD5033B9F])


class Stores(unittest.TestCase):
    def stack(self, *stores: tuple[int, int], signed: bool = True) -> str:
        stack = Stack(PAGE, 1, STACK, FRAME, signed=signed)
        return next(filter(None, (stack.store(at, value) for at, value in stores)), "")

    @staticmethod
    def filled(frame: int, below: int = 0) -> list[tuple[int, int]]:
        return [(frame, 1), (frame + 8, below), (frame + 16, 3), (frame + 24, frame + 32)]

    def push(self, frame: int, below: int = 0) -> list[tuple[int, int]]:
        return [(FREE, frame + 32), *self.filled(frame, below), (TOP, frame)]

    def test_pushed_and_popped_in_order(self) -> None:
        data = [(FREE, SECOND + 48), (SECOND + 32, 7), (SECOND + 24, SECOND + 48),
                (SECOND + 24, SECOND + 32), (FREE, SECOND + 32)]
        self.assertEqual(
            self.stack(*self.push(FIRST), *self.push(SECOND, FIRST), *data, (TOP, FIRST),
                       (FREE, SECOND), (TOP, 0), (FREE, FIRST)), "")

    def test_an_interrupt_between_any_two_stores(self) -> None:
        whole = [*self.push(FIRST), (TOP, 0), (FREE, FIRST)]
        for n in range(len(whole)):
            top = next((v for at, v in reversed(whole[:n]) if at == TOP), 0)
            free = next((v for at, v in reversed(whole[:n]) if at == FREE), FIRST)
            inner = [*self.push(free, top), (TOP, top), (FREE, free)]
            self.assertEqual(self.stack(*whole[:n], *inner, *whole[n:]), "", n)

    def test_each_wrong_order(self) -> None:
        shown = [*self.push(FIRST), (FREE, FIRST + 48), (FIRST + 32, 7), (FIRST + 24, FIRST + 48)]
        for words, stores in (("above free",
                               [*self.filled(FIRST), (FREE, FIRST + 32),
                                (TOP, FIRST)]), ("a frame that ends above free", [
                                    (TOP, FIRST), (FREE, FIRST + 32), *self.filled(FIRST)
                                ]), ("whose users had not", [
                                    (FREE, FIRST + 32), *self.filled(FIRST)[:2], (TOP, FIRST)
                                ]), ("was lowered below the end",
                                     [*self.push(FIRST), (FREE, FIRST), (TOP, 0)
                                      ]), ("was lowered below the end",
                                           [*shown, (FREE, FIRST + 32), (FIRST + 24, FIRST + 32)]),
                              ("data_end was raised above free",
                               [*self.push(FIRST), (FIRST + 24, FIRST + 48),
                                (FREE, FIRST + 48)]), ("first word", [
                                    *self.push(FIRST), (FREE, FIRST + 48), (FIRST + 24, FIRST + 48),
                                    (FIRST + 32, 7)
                                ])):
            with self.subTest(words=words):
                self.assertIn(words, self.stack(*stores))

    def test_lab_5_has_no_first_word(self) -> None:
        self.assertEqual(
            self.stack(*self.push(FIRST), (FREE, FIRST + 48), (FIRST + 24, FIRST + 48),
                       signed=False), "")


CHECKS: dict[int, tuple[Check, ...]] = {
    4: (order.ops_published, order.ops_withdrawn, order.filter_replaced),
    6: (order.users_in_time, order.stamp_first, order.shortcut_in_time, order.dead_or_unused,
        order.stacks_in_time, whole)
}
# a copy of its barrier is for an op that is not registered: publish_op orders that
COPIED = ("swap_hash",)


class Barriers(unittest.TestCase):
    """Each barrier of a solution is removed from its evidence in turn, and a check must notice it.
    """

    def barriers(self, kernel: Kernel) -> list[list[int]]:
        found = [a for lo, hi in truth.ordered_code(kernel) for a in range(lo, hi, 4)
                 if any(kernel.isa.orders(kernel.word(a), kind) for kind in (STORES, LOADS))]
        copies = [a for a in found if kernel.name_at(a).startswith(COPIED)]
        return [[a] for a in found if not kernel.name_at(a).startswith(COPIED)
                ] + [copies] * bool(copies)

    def without(self, e: Evidence, **left: Any) -> Evidence:
        forged = copy.copy(e)
        forged.truth = dataclasses.replace(e.truth, known={}, **left)
        return forged

    def finds(self, e: Evidence) -> list[str]:
        return [f.why for f in (check(e) for check in CHECKS[e.lab]) if f]

    def test_none_can_be_left_out(self) -> None:
        for lab in CHECKS:
            mutants.build(lab)
            for arch in ARCHES:
                kernel = Kernel(ROOT / f"build/{arch}/lab{lab}/callsite.elf", arch)
                e = rubric.lab(lab).session(kernel, lab, 1, mutants.SEED,
                                            ROOT / f"build/tests/order-{arch}.log").run()
                self.assertEqual(self.finds(e), [], f"lab {lab}, {arch}")
                for at in self.barriers(kernel):
                    with self.subTest(lab=lab, arch=arch, at=kernel.name_at(at[0])):
                        self.assertTrue(
                            self.finds(
                                self.without(e,
                                             fences=[f for f in e.truth.fences
                                                     if f.addr not in at])))
                self._others(e)

    def _others(self, e: Evidence) -> None:
        hits = {name: r for name, r in e.truth.hits.items() if name != truth.GRACE}
        self.assertTrue(self.finds(self.without(e, hits=collections.defaultdict(list, hits))),
                        "nobody waited, and nothing was found")
        self.assertTrue(self.finds(self.without(e, writes=[])),
                        "nothing was looked at, and nothing was found")


if __name__ == "__main__":
    unittest.main()

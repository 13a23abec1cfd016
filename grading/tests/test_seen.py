"""Coverage: rungs are lost if there is no evidence, or if any part of a right boot's evidence is
missing."""

from __future__ import annotations

import copy
import unittest
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from unittest import mock

from grading.checks import checks, integrity, seen
from grading.checks.seen import Amount, Coverage
from grading.elf.elf import Kernel
from qemu.isa import ISAS
from grading.checks import rubric
from grading.evidence.evidence import Evidence, Phase
from grading.evidence.finding import Defect, Finding
from grading.report import report
from grading.tests.mutants import SEED, build
from qemu.machine import ARCHES, ROOT

TEXT = 0x10000
EVERY = ("phases", "typed", "texts", "calls")


class Nothing(Kernel):
    """A kernel without functions."""

    def __init__(self, arch: str, lab: int) -> None:  # pylint: disable=super-init-not-called
        self.arch, self.path, self.isa = arch, Path("/nothing-is-here/callsite.elf"), ISAS[arch]
        self.functions, self._starts, self.sites, self.loaded = [], [], [], [(TEXT, bytes(64))]
        self.symbols = {"_text": TEXT, "_etext": TEXT + 64}
        self._several, self.entries, self._sizes = set(), [1] * (lab > 3), {}

    def members(self, structure: str) -> dict[str, int]:
        return defaultdict(int)


def judged(rung: rubric.Rung, e: Evidence) -> Finding | None:
    return rung.check(e) or seen.too_little(e, rung.seen)


class OfNothing(unittest.TestCase):
    def test_no_rung_is_reached(self) -> None:
        for lab in rubric.LABS:
            for arch in ARCHES:
                for smp in (1, 4):
                    e = Evidence(arch, lab, smp, SEED, Nothing(arch, lab),
                                 Path("/nothing-is-here/log"))
                    for rung in (r for r in rubric.lab(lab).rungs
                                 if r.judges(smp) and not r.tests):
                        with self.subTest(lab=lab, arch=arch, smp=smp, rung=rung.name):
                            found = seen.too_little(e, rung.seen)
                            self.assertIsNotNone(found,
                                                 "it does not say what it needs to have seen")
                            self.assertIsNotNone(report._judged(rung, e, []))
                            assert found
                            self.assertEqual(found.kind, Defect.TOO_LITTLE)
                            self.assertIn("was observed", found.why)

    def test_no_phase_is_no_phase_in_which_all_was_well(self) -> None:
        e = Evidence("arm64", 4, 1, SEED, Nothing("arm64", 4), Path())
        e.phases = [Phase("before", 1, None)]
        found = seen.too_little(e, (seen.ran(0, 2),))
        assert found
        self.assertEqual(
            found.why,
            "before, main: no call of the workload was observed, so the rung cannot be judged")


class Amounts(unittest.TestCase):
    def setUp(self) -> None:
        self.e = Evidence("arm64", 4, 1, SEED, Nothing("arm64", 4), Path())

    def test_less_than_is_needed(self) -> None:
        for amount, words in (
            (Amount("", 0, 1), "no call was observed"),
            (Amount("trace 1", 3, 9), "trace 1: too little was observed to judge the rung: call, 3 "
             "times, and at least 9 times")):
            covered = Coverage("call", lambda e, a=amount: [a])  # type: ignore[misc]
            found = seen.too_little(self.e, (covered,))
            assert found
            self.assertIn(words, found.why)
        self.assertIsNone(seen.too_little(self.e,
                                          (Coverage("call", lambda e: [Amount("", 9, 9)]),)))

    def test_a_place_of_which_nothing_is_known(self) -> None:
        self.assertIsNotNone(seen.too_little(self.e, (Coverage("call", lambda e: []),)))

    def test_what_another_rung_keeps_from_being_tried(self) -> None:
        found = seen.too_little(self.e, (Coverage("call", lambda e: [], lambda e: "off"),))
        assert found
        self.assertEqual((found.why, found.need), ("needs: off", "off"))

    def test_what_was_seen_to_be_wrong_is_said_first(self) -> None:
        rung = rubric.Rung("so", 1, "so", lambda e: Finding("wrong"),
                           (Coverage("call", lambda e: []),))
        found = report._judged(rung, self.e, [])
        assert found
        self.assertEqual(found.why, "wrong")

    def test_a_difference_in_length_is_a_difference(self) -> None:
        kernel, text = self.e.kernel, bytes(64)
        self.assertEqual(kernel.differing(text, text), [])
        self.assertEqual(kernel.differing(text, text[:-8]), [TEXT + 56, TEXT + 60])
        self.assertEqual(kernel.differing(text[:-8], text), [TEXT + 56, TEXT + 60])
        self.e.texts = [(0, bytes(60))]
        self.assertIsNotNone(integrity.as_linked(self.e))


class Contexts(unittest.TestCase):
    def test_one_that_the_seed_does_not_ask_for(self) -> None:
        e, phase = Evidence("arm64", 4, 1, SEED, Nothing("arm64", 4),
                            Path()), Phase("trace", 1, None)
        asked = {
            name: [mock.Mock(seq=1) for _ in calls]
            for name, calls in e.expected(phase).contexts.items()
        }
        for name, calls in e.expected(phase).contexts.items():
            for call, want in zip(asked[name], calls):
                call.name = want.function
        more = {**asked, "thread 7": asked["main"]}
        for executed, words in ((asked, ""), (
                more, "trace, thread 7: call 0 is not the one that follows from the seed")):
            with mock.patch.object(Evidence, "executed_contexts", return_value=executed):
                found = checks.executed_as_expected(e, phase)
            self.assertEqual(found.why if found else "", words)


class OfARightBoot(unittest.TestCase):
    """Each list of the observer's records is needed by some rung."""

    def boot(self, lab: int, arch: str) -> Evidence:
        build(lab)
        kernel = Kernel(ROOT / f"build/{arch}/lab{lab}/callsite.elf", arch)
        e = rubric.boot(kernel, lab, 1, SEED, ROOT / "build/tests/seen")
        self.assertEqual(e.why, "")
        self.assertEqual(self.lost(e), [])
        return e

    def lost(self, e: Evidence) -> list[str]:
        return [
            rung.name
            for rung, found in zip(rubric.lab(e.lab).rungs, report.findings_of(e.lab, [e]))
            if any(found.values())
        ]

    def without(self, lab: int, arch: str, *parts: str) -> None:
        """If any of these parts of the evidence is empty, some rung is lost."""
        e = self.boot(lab, arch)
        for part in parts:
            with self.subTest(lab=lab, arch=arch, without=part):
                cut = copy.copy(e)
                cut.truth = replace(e.truth, hits=copy.copy(e.truth.hits), known={})
                of = next((of for of in (cut.truth, cut) if part in vars(of)), None)
                gone = getattr(of, part) if of else cut.truth.hits.pop(part)
                self.assertTrue(gone, "the right boot has none either")
                if of:
                    setattr(of, part, type(gone)())
                self.assertNotEqual(self.lost(cut), [])

    def test_lab_1(self) -> None:
        self.without(1, "riscv64", *EVERY, "callbacks", "trampoline")

    def test_lab_2(self) -> None:
        self.without(2, "arm64", *EVERY, "callbacks", "files", "lookup_rec", "lookup_rec_range",
                     "answer")

    def test_lab_3(self) -> None:
        self.without(3, "riscv64", *EVERY, "callbacks", "alias", "text_at_boot", "text_at_end",
                     "text_traced", "stores", "looks", "fences", "batches", "answer")

    def test_lab_4(self) -> None:
        self.without(4, "arm64", *EVERY, "callbacks", "trials", "text_at_boot", "text_at_end",
                     "text_traced", "stores", "fences", "batches", "answer", "synchronize_sched")

    def test_lab_5(self) -> None:
        self.without(5, "riscv64", *EVERY, "users", "frames", "returns", "return_to_handler",
                     "text_at_boot", "text_at_end", "stores", "fences", "batches")

    def test_lab_6(self) -> None:
        self.without(6, "arm64", *EVERY, "users", "frames", "returns", "return_to_handler",
                     "text_at_boot", "text_at_end", "user_events", "walk",
                     "end of unregister_ftrace_graph")


if __name__ == "__main__":
    unittest.main()

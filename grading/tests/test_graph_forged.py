"""Tests of function_graph's checks: the evidence of a right boot is changed in one place, and the
right check must find it."""

from __future__ import annotations

import copy
import dataclasses
import unittest

from grading.checks import rubric
from grading.checks import checks, graph_checks
from grading.checks.checks import Check
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.machine.observer import Record
from grading.tests.mutants import SEED, build
from grading.text.graph_text import RETURN, GraphEvent
from grading.truth.returns import HANDLER
from grading.truth.truth import AT_RETURN
from qemu.machine import ROOT


class ForgedGraph(unittest.TestCase):
    evidence: Evidence

    @classmethod
    def setUpClass(cls) -> None:
        build(6)
        kernel = Kernel(ROOT / "build/arm64/lab6/callsite.elf", "arm64")
        cls.evidence = rubric.lab(6).session(kernel, 6, 4, SEED,
                                             ROOT / "build/tests/graph-forged.log").run()

    def forged(self) -> Evidence:
        e = copy.copy(self.evidence)
        e.truth = copy.copy(e.truth)
        e.truth.known = {}
        e.phases = [copy.copy(p) for p in e.phases]
        for phase in e.phases:
            phase.users = [copy.copy(u) for u in phase.users]
            for user in phase.users:
                user.trace = copy.copy(user.trace)
                user.trace.events = list(user.trace.events)
        return e

    def events(self, e: Evidence) -> list[GraphEvent]:
        return e.on()[0].users[0].trace.events

    def sees(self, check: Check, e: Evidence, words: str) -> None:
        finding = check(e)
        self.assertIsNotNone(finding, "nothing was found")
        assert finding
        self.assertIn(words, finding.why)

    def test_nothing_is_found_in_the_right_one(self) -> None:
        for rung in rubric.lab(6).rungs:
            found = rung.check(self.forged())
            self.assertIsNone(found, f"{rung.name}: {found}")

    def test_a_printed_trace_without_a_patched_return(self) -> None:
        e = self.forged()
        for span in e.truth.returns.spans:
            self.addCleanup(setattr, span, "leaving", span.leaving)
            span.leaving = span.leaving and dataclasses.replace(span.leaving, hits=[])
        self.sees(graph_checks.through_handler, e, "returned without the tracer")

    def test_a_printed_trace_without_a_call(self) -> None:
        e = self.forged()
        for span in e.truth.returns.spans:
            self.addCleanup(setattr, span, "call", span.call)
            span.call = dataclasses.replace(span.call, word=span.call.site.rest)
        self.sees(graph_checks.three_agree, e, "held no call")

    def test_a_trace_out_of_the_seed(self) -> None:
        """The expected calls are printed, but other calls were executed."""
        e = self.forged()
        e.phases[1].seed ^= 1
        self.sees(graph_checks.three_agree, e, "not the one that follows from the seed")

    def test_an_event_less(self) -> None:
        """The next event must have another name. Of two equal events either may be the missing one.
        """
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if i >= 100
                  and v.func != next(n.func for n in events[i + 1:] if n.cpu == v.cpu))
        gone = events.pop(at)
        self.sees(graph_checks.three_agree, e, "stats counts")
        e.on()[0].users[0].stats = {}
        self.sees(graph_checks.three_agree, e, "executed")
        self.assertTrue(gone.func)

    def test_a_return_at_a_wrong_depth(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        events[at] = events[at]._replace(depth=events[at].depth + 1)
        self.sees(graph_checks.three_agree, e, "traced calls are around it")

    def test_a_duration_longer_than_its_makers(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        events[at] = events[at]._replace(duration=10 ** 12)
        self.sees(graph_checks.durations, e, "and the calls that it made")

    def test_a_value_that_was_not_returned(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        for value in ("0x1", "", "-12"):
            e.truth.known = {}
            events[at] = events[at]._replace(value=value)
            self.sees(graph_checks.values, e, "and is printed as")

    def test_text_that_is_changed_elsewhere(self) -> None:
        e = self.forged()
        phase, at = e.on()[0], e.kernel.symbol("schedule") + 8 - e.kernel.text[0]
        phase.text = phase.text[:at] + bytes(4) + phase.text[at + 4:]
        self.sees(checks.only_selected, e, "does not select were changed")

    def test_time_that_goes_back(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events)
                  if i >= 50 and v.cpu in {before.cpu
                                           for before in events[:i]})
        events[at] = events[at]._replace(usec=0)
        self.sees(graph_checks.three_agree, e, "an earlier time than the one before it")

    def test_data_that_a_user_loses_while_it_is_unregistered(self) -> None:
        e = self.forged()
        [leaving] = [rung.check for rung in rubric.lab(6).rungs if rung.name == "leaving"]
        events, (first, last) = e.truth.user_events, e.changed_inside
        e.truth.user_events = [
            t._replace(value=0) if t.what == AT_RETURN and first <= t.seq < last else t
            for t in events]
        self.sees(leaving, e, "user 0 was unregistered while its return handler ran")
        e.truth.user_events = [t._replace(user=1) if first <= t.seq < last else t for t in events]
        self.sees(leaving, e, "user 1 was registered while the entry handlers of a call ran")

    def handlers(self, e: Evidence) -> list[Record]:
        """A copy of the evidence that may be changed."""
        e.truth.hits = e.truth.hits | {HANDLER: list(e.truth.handlers)}
        return e.truth.handlers

    def test_a_handler_while_off(self) -> None:
        e = self.forged()
        hits = self.handlers(e)
        hits.insert(0, hits[0]._replace(seq=e.off()[0].first))
        self.sees(graph_checks.silent_handler, e, "while no tracer was on")

    def test_more_returns_than_calls(self) -> None:
        e = self.forged()
        hits = self.handlers(e)
        hits += [hits[-1]._replace(seq=e.frames_out[1] + 1)] * 100_000
        self.sees(graph_checks.frames_out, e, "return_to_handler ran")

    def test_a_seventeenth_user(self) -> None:
        e = self.forged()
        next(p for p in e.phases if p.hands).refused = ""
        self.sees(rubric.checks_of(6).sixteen, e, "must be refused with ENOSPC")


if __name__ == "__main__":
    unittest.main()

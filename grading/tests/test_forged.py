"""Tests of the grader: the evidence of a right boot is changed in one place, and the right check
must find it.

labs/*/wrong tests the grader with wrong kernels.
"""

from __future__ import annotations

import copy
import dataclasses
import unittest
from typing import Any

from grading.checks import rubric
from grading.checks import checks
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.tests.mutants import SEED, build
from grading.session.session import Session
from grading.stimulus.trials import Trial
from grading.text.trace_text import FunctionEvent
from grading.truth.truth import Call
from qemu.machine import ROOT


class Forged(unittest.TestCase):
    evidence: Evidence

    @classmethod
    def setUpClass(cls) -> None:
        build()
        kernel = Kernel(ROOT / "build/riscv64/lab4/callsite.elf", "riscv64")
        cls.evidence = Session(kernel, 4, 4, SEED, ROOT / "build/tests/forged.log").run()

    def forged(self) -> Evidence:
        """A copy of the evidence whose lists may be changed."""
        e = copy.copy(self.evidence)
        e.truth = copy.copy(e.truth)
        e.truth.known = {}
        e.phases = [copy.copy(p) for p in e.phases]
        e.trials = [copy.copy(t) for t in e.trials]
        for phase in e.phases:
            if phase.trace:
                phase.trace = copy.copy(phase.trace)
                phase.trace.events = list(phase.trace.events)
        return e

    def events(self, e: Evidence) -> list[FunctionEvent]:
        trace = e.on()[0].trace
        assert trace
        return trace.events

    def sees(self, check: checks.Check, e: Evidence, words: str) -> None:
        finding = check(e)
        self.assertIsNotNone(finding, "nothing was found")
        assert finding
        self.assertIn(words, finding.why)

    def test_nothing_is_found_in_the_right_one(self) -> None:
        for rung in rubric.lab(4).rungs:
            self.assertIsNone(rung.check(self.forged()), rung.name)

    def test_a_printed_trace_without_patching(self) -> None:
        e = self.forged()
        e.truth.calls = [dataclasses.replace(c, word=c.site.rest) for c in e.truth.calls]
        self.sees(checks.three_agree, e, "held no call")
        self.sees(checks.calls_while_on, e, "held no call")

    def test_a_printed_trace_without_a_callback(self) -> None:
        e = self.forged()
        e.truth.callbacks = []
        self.sees(checks.three_agree, e, "callback ran only 0 times")

    def test_an_event_less(self) -> None:
        e = self.forged()
        del self.events(e)[100]
        trace = e.on()[0].trace
        assert trace
        trace.in_buffer, trace.written = trace.in_buffer - 1, trace.written - 1
        self.sees(checks.three_agree, e, "executed")

    def test_an_event_less_than_the_header_says(self) -> None:
        e = self.forged()
        del self.events(e)[-1]
        self.sees(checks.three_agree, e, "the header of the trace counts")

    def test_two_events_swapped(self) -> None:
        e = self.forged()
        events = self.events(e)
        mine = [i for i, v in enumerate(events) if v.cpu == events[0].cpu]
        # in one context, where no other order is allowed
        a, b = next(
            (a, b) for a, b in zip(mine[100:], mine[101:])
            if events[a].func != events[b].func and events[a].interrupt == events[b].interrupt)
        events[a], events[b] = (events[b]._replace(usec=events[a].usec),
                                events[a]._replace(usec=events[b].usec))
        self.sees(checks.three_agree, e, "executed")

    def test_a_wrong_parent(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.func.startswith("wl_"))
        events[at] = events[at]._replace(parent="nobody")
        self.sees(checks.right_parents, e, "was called from")

    @staticmethod
    def next_of_thread(events: list[FunctionEvent], at: int) -> str:
        """The next event of the interrupted thread; if it had the same name, it could be taken for
        the moved event."""
        return next((v.func for v in events[at:] if not v.interrupt and v.cpu == events[at].cpu),
                    "")

    def test_an_interrupt_printed_as_a_thread(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events)
                  if v.interrupt and self.next_of_thread(events, i) not in (v.func, ""))
        events[at] = events[at]._replace(flags="d....")
        self.sees(checks.three_agree, e, "ran in an interrupt")

    def test_a_store_by_somebody_else(self) -> None:
        e = self.forged()
        e.truth.stores = [
            *e.truth.stores, e.truth.stores[0]._replace(addr=e.kernel.symbol("wl_first"))
        ]
        self.sees(rubric.checks_of(3).written_by_patcher, e, "which is not the tracer")

    def test_a_cpu_that_did_not_synchronise(self) -> None:
        e = self.forged()
        e.truth.fences = [f for f in e.truth.fences if f.vcpu != 3]
        self.sees(checks.synchronised, e, "before CPU 3 had executed fence.i")

    def test_a_site_that_stays_patched(self) -> None:
        e = self.forged()
        e.text_at_end = e.on()[0].text
        self.sees(checks.rest_at_end, e, "words of text are wrong")

    def test_a_word_changed_elsewhere(self) -> None:
        e = self.forged()
        phase, at = e.on()[0], e.kernel.symbol("schedule") + 8 - e.kernel.text[0]
        phase.text = phase.text[:at] + bytes(4) + phase.text[at + 4:]
        self.sees(checks.only_selected, e, "does not select were changed")

    def trial(self, e: Evidence, name: str) -> Trial:
        return next(t for t in e.trials if t.name == name)

    def in_trial(self, e: Evidence, name: str) -> Call:
        """The first call of this trial that ran an op and then its function."""
        return next(c for c in e.calls(self.trial(e, name)) if c.callbacks and c.arguments)

    def replaced(self, e: Evidence, call: Call, **changes: Any) -> None:
        e.truth.calls = [
            dataclasses.replace(c, **changes) if c is call else c for c in e.truth.calls
        ]

    def test_a_changed_argument_that_does_not_arrive(self) -> None:
        e = self.forged()
        call = self.in_trial(e, "changed arguments")
        self.replaced(e, call,
                      arguments=(call.arguments[0], call.arguments[1] ^ 1, *call.arguments[2:]))
        self.sees(rubric.checks_of(4).changed_arguments, e, "and must receive")

    def test_an_op_that_was_not_called(self) -> None:
        e = self.forged()
        call = self.in_trial(e, "many ops")
        self.replaced(e, call, callbacks=call.callbacks[1:])
        self.sees(rubric.checks_of(4).many_ops, e, "was not called")

    def test_an_op_that_is_called_after_it_was_unregistered(self) -> None:
        e = self.forged()
        many, fewer = e.trials[2:]
        fewer.ops, gone = fewer.ops[1:], fewer.ops[0]
        self.sees(
            rubric.checks_of(4).many_ops, e, f"op {gone.number} was called, and is not registered")

    def test_an_op_that_sees_another_value(self) -> None:
        e = self.forged()
        call = self.in_trial(e, "many ops")
        first, *others = call.callbacks
        first = first._replace(more=(*first.more[:9], first.more[9] ^ 1, *first.more[10:]))
        self.replaced(e, call, callbacks=[first, *others])
        self.sees(rubric.checks_of(4).many_ops, e, "in regs->arg[1]")

    def test_an_op_that_costs_more_beside_others(self) -> None:
        e = self.forged()
        many = self.trial(e, "many ops")
        e.truth.calls = [
            dataclasses.replace(c, callbacks=[r._replace(
                insns=r.insns + 1) for r in c.callbacks]) if many.first <= c.seq < many.last else c
            for c in e.truth.calls
        ]
        self.sees(
            rubric.checks_of(4).many_ops, e, "an op must cost nothing where it does not trace")

    def test_a_second_op_that_may_change_pc(self) -> None:
        e = self.forged()
        e.trials[1].printed = ""
        self.sees(rubric.checks_of(4).one_patches, e, "must be refused with EBUSY")

    def test_a_trampoline_while_off(self) -> None:
        e = self.forged()
        e.truth.hits = e.truth.hits | {
            "trampoline": [e.truth.callbacks[0]._replace(seq=e.off()[0].first)]
        }
        self.sees(checks.silent_trampolines, e, "ran 1 times")


if __name__ == "__main__":
    unittest.main()

"""Labs 5 and 6 with one deliberate mistake in a student's file: each loses the rung that speaks of it.

The tree is copied, one line of it is changed, and make builds what a student
would have built.
"""

from __future__ import annotations

import copy
import dataclasses
import shutil
import subprocess
import unittest

from grading import checks, graph_checks, report, rubric
from grading.checks import Check
from grading.elf import Kernel
from grading.evidence import Evidence
from grading.graph_text import RETURN, GraphEvent
from grading.tests.test_wrong import SEED, build
from qemu.machine import ROOT

TREE = ROOT / "build/tests/tree"
GRAPH, FGRAPH = "kern/ftrace/graph.c", "kern/ftrace/fgraph.c"


def tree(arch: str, lab: int) -> None:
    """A copy of all that a kernel is built from, and of what is built already."""
    build(lab)
    for name in ("boot", "kern", ".ci", f"build/{arch}/include", f"build/{arch}/lab{lab}"):
        shutil.rmtree(TREE / name, ignore_errors=True)
        shutil.copytree(ROOT / name, TREE / name, symlinks=True)
    for file in ("Makefile", "build/.setup", "build/recordmcount"):
        shutil.copy2(ROOT / file, TREE / file)


def wrong_kernel(arch: str, lab: int, file: str, right: str, wrong: str) -> Kernel:
    tree(arch, lab)
    source = TREE / file
    text = source.read_text()
    if text.count(right) != 1:
        raise ValueError(f"{file} has {text.count(right)} times '{right}'")
    source.write_text(text.replace(right, wrong))
    subprocess.run(["make", "-s", "-C", str(TREE), f"LAB={lab}", f"build/{arch}/lab{lab}/Image"], check=True)
    return Kernel(TREE / f"build/{arch}/lab{lab}/callsite.elf", arch)


def grade(kernel: Kernel, lab: int, smp: int) -> report.Grade:
    log = ROOT / f"build/tests/wrong/graph-{kernel.arch}.log"
    return report.judge(kernel.arch, lab, SEED, [rubric.lab(lab).session(kernel, lab, smp, SEED, log).run()])


class Wrong(unittest.TestCase):
    def loses(self, arch: str, lab: int, rungs: set[str], words: str, file: str, right: str, wrong: str, smp: int = 1) -> None:
        """These rungs are lost, one of them for a reason that is said in these words."""
        graded = grade(wrong_kernel(arch, lab, file, right, wrong), lab, smp)
        self.assertIsNone(graded.harness_error)
        lost = {r.rung.name for r in graded.results if r.lost}
        self.assertTrue(rungs <= lost, f"lost {lost}, must lose {rungs}")
        why = [f.why for r in graded.results for f in r.findings.values() if f]
        self.assertTrue(any(words in w for w in why), "\n".join(why))
        self.assertLess(graded.points, graded.possible)

    def test_5_a_return_to_a_wrong_place(self) -> None:
        self.loses("riscv64", 5, {"home"}, "must return to", GRAPH, "regs->link = f->ret;", "regs->link = f->ret + 4;")

    def test_5_a_return_that_is_not_taken(self) -> None:
        self.loses("arm64", 5, {"handler", "one CPU"}, "returned past the tracer", GRAPH,
                   "if (user->entryfunc(&trace, user, regs))", "if (user->entryfunc(&trace, user, regs) && s->depth < 4)")

    def test_5_a_duration_that_was_not_measured(self) -> None:
        self.loses("riscv64", 5, {"values"}, "of 1 ns each", GRAPH, "f->calltime,  clock_ns()}",
                   "f->calltime,  f->calltime + 5000}")

    def test_5_events_that_are_dropped(self) -> None:
        self.loses("arm64", 5, {"one CPU"}, "trace 1, trace, CPU 0, event", GRAPH,
                   "if (user && user->birth == f->users && !ftrace_graph_dead)",
                   "if (user && user->birth == f->users && !ftrace_graph_dead && s->depth != 3)")

    def test_5_a_call_that_is_left_behind(self) -> None:
        self.loses("riscv64", 5, {"off"}, "wrong after the last tracer went", GRAPH,
                   "	ftrace_disable_ftrace_graph_caller();\n	shadow_users_end", "	shadow_users_end")

    def test_6_handlers_in_the_order_of_the_entry(self) -> None:
        self.loses("riscv64", 6, {"reverse"}, "told in a wrong order", FGRAPH, "for (long i = READ_ONCE(fgraph_slots); i-- > 0;)",
                   "for (long i = 0; i < READ_ONCE(fgraph_slots); i++)")

    def test_6_a_stale_frame_calls_the_slots_new_owner(self) -> None:
        self.loses("arm64", 6, {"leaving"}, "belonged to one that had left", FGRAPH, "if (gops->birth <= f->users)",
                   "if (gops->birth != ~0ull)")

    def test_6_a_walk_that_ends_at_the_handler(self) -> None:
        self.loses("riscv64", 6, {"home"}, "ps -s shows that it returns to return_to_handler", "kern/ftrace/shadow_walk.c",
                   "if (f->fp == fp && f->ret != ret)", "if (f->fp == fp && f->ret == ret)")

    def test_6_data_of_another_user(self) -> None:
        self.loses("riscv64", 6, {"data"}, "and found", FGRAPH, "if (DATUM_USER(*datum) != idx)", "if (idx < 0)")

    def test_6_filters_that_are_not_asked(self) -> None:
        self.loses("arm64", 6, {"sixteen"}, "users", FGRAPH, " || !ftrace_ops_test(gops->filter, f->func)", "", smp=2)


class Forged(unittest.TestCase):
    """The evidence of a right boot with one thing changed: the check that must see it does."""

    evidence: Evidence

    @classmethod
    def setUpClass(cls) -> None:
        build(6)
        kernel = Kernel(ROOT / "build/arm64/lab6/callsite.elf", "arm64")
        cls.evidence = rubric.lab(6).session(kernel, 6, 4, SEED, ROOT / "build/tests/wrong/graph-forged.log").run()

    def forged(self) -> Evidence:
        e = copy.copy(self.evidence)
        e.truth = copy.copy(e.truth)
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
        self.sees(graph_checks.through_handler, e, "returned past the tracer")

    def test_a_printed_trace_without_a_call(self) -> None:
        e = self.forged()
        for span in e.truth.returns.spans:
            self.addCleanup(setattr, span, "call", span.call)
            span.call = dataclasses.replace(span.call, word=span.call.site.rest)
        self.sees(graph_checks.three_agree, e, "held no call")

    def test_a_trace_out_of_the_seed(self) -> None:
        """What is expected is printed, and something else was executed."""
        e = self.forged()
        e.phases[1].seed ^= 1
        self.sees(graph_checks.three_agree, e, "not the one that the seed asks for")

    def test_an_event_less(self) -> None:
        e = self.forged()
        gone = self.events(e).pop(100)
        self.sees(graph_checks.three_agree, e, "stats says")
        e.on()[0].users[0].stats = {}
        self.sees(graph_checks.three_agree, e, "executed")
        self.assertTrue(gone.func)

    def test_a_return_at_a_wrong_depth(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        events[at] = dataclasses.replace(events[at], depth=events[at].depth + 1)
        self.sees(graph_checks.three_agree, e, "traced calls are around it")

    def test_a_duration_longer_than_its_makers(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        events[at] = dataclasses.replace(events[at], duration=10 ** 12)
        self.sees(graph_checks.durations, e, "and the calls that it made")

    def test_a_value_that_was_not_returned(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.kind == RETURN and v.depth > 2)
        for value in ("0x1", "", "-12"):
            events[at] = dataclasses.replace(events[at], value=value)
            self.sees(graph_checks.values, e, "and is printed as")

    def test_text_that_is_changed_elsewhere(self) -> None:
        e = self.forged()
        phase, at = e.on()[0], e.kernel.symbol("schedule") + 8 - e.kernel.text[0]
        phase.text = phase.text[:at] + bytes(4) + phase.text[at + 4:]
        self.sees(checks.only_selected, e, "outside of the filter")

    def test_time_that_goes_back(self) -> None:
        e = self.forged()
        events = self.events(e)
        events[50] = dataclasses.replace(events[50], usec=0)
        self.sees(graph_checks.three_agree, e, "time goes back")

    def test_a_handler_while_off(self) -> None:
        e = self.forged()
        hit = e.truth.handlers[0]
        e.truth.handlers = [hit._replace(seq=e.off()[0].first), *e.truth.handlers]
        self.sees(graph_checks.silent_handler, e, "while nobody traces")

    def test_more_returns_than_calls(self) -> None:
        e = self.forged()
        hit = e.truth.handlers[-1]
        e.truth.handlers = [*e.truth.handlers, *[hit._replace(seq=e.frames_out[1] + 1)] * 100_000]
        self.sees(graph_checks.frames_out, e, "return_to_handler ran")

    def test_a_seventeenth_user(self) -> None:
        e = self.forged()
        next(p for p in e.phases if p.hands).refused = ""
        self.sees(rubric.checks_of(6).sixteen, e, "must be refused with ENOSPC")


if __name__ == "__main__":
    unittest.main()

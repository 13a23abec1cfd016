"""Findings: code distinguishes them by their kind and never by their text, and no text is cut
inside a word."""

from __future__ import annotations

import io
import json
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rich.console import Console

from grading.checks import rubric
from grading.checks import checks, entry, faults, graph_checks
from grading.checks.align import Divergence
from grading.checks.graph_align import GraphStep
from grading.evidence.evidence import Complaint, Evidence, Phase
from grading.evidence.finding import Defect, Finding
from grading.machine.console import last_line
from grading.machine.observer import Kind, Record
from grading.report import replay, report
from grading.report.replay import Moment
from grading.selftest.soak import harness
from grading.tests.test_registers import CALLER, FUNCTIONS, TEXT, RecordedCalls, record
from grading.text.graph_text import ENTRY, GraphEvent
from grading.truth.returns import Leaving, Span
from grading.truth.truth import Call
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

CAUSES = {
    "riscv64": {13: "read", 15: "write", 12: "execution", 2: "none"}, "arm64": {
        0x25 << 26: "read", 0x25 << 26 | 1 << 6: "write", 0x21 << 26: "execution",
        0x3C << 26: "none"
    }
}
VECTOR = TEXT + 0x800


def trap(cause: int, pc: int, address: int = 0, link: int = 0, seq: int = 1,
         at: int = VECTOR) -> Record:
    return record(Kind.VECTOR, at, cause, pc, address, link, seq=seq)


class NoProse(unittest.TestCase):
    def test_no_code_reads_a_sentence(self) -> None:
        reads = re.compile(
            r"""["'] (not )?in \w+(\.\w+)*\.(why|panic|complaint)\b|"""
            r"""\.(why|panic|complaint)\.(startswith|endswith|find|index|count|partition)|"""
            r"""re\.\w+\(.*\.(why|panic|complaint)\b""")
        for seen in ('if "so" in finding.why:', 'e.why.startswith("so")',
                     're.search("so (\\d)", finding.why)', '"so" not in e.why'):
            self.assertRegex(seen, reads)
        for file in (*harness(), *ROOT.glob("labs/*/checks.py")):
            self.assertNotRegex(file.read_text(), reads, str(file))

    def test_a_kind_has_its_name_and_no_other(self) -> None:
        recognised = checks.of_kind(Defect.NOT_REFUSED, "two-change-pc")
        e = Evidence("arm64", 4, 1, 0, None, Path())  # type: ignore[arg-type]
        self.assertEqual([
            recognised(e, Finding("must be refused, and was taken", kind=kind))
            for kind in (Defect.NOT_REFUSED, Defect.OTHER)
        ], ["two-change-pc", ""])

    def test_the_shells_refusal(self) -> None:
        e = Evidence("arm64", 4, 1, 0, None, Path())  # type: ignore[arg-type]
        for line, refused in (("echo function > current_tracer", True), ("registers", True),
                              ("op 1 see wl_*", False)):
            e.complaint = Complaint(line, ["so: ENOSYS"], "ENOSYS")
            self.assertEqual(bool(checks.not_started(e)), refused)
            self.assertEqual(str(e.complaint), f"'{line}' printed: so: ENOSYS")


class Faults(RecordedCalls):
    hook = "entry"

    def ended(self, arch: str, *traps: Record) -> Evidence:
        e = self.evidence(arch)
        e.kernel.symbols["exception_vector"] = VECTOR
        e.truth.traps = list(traps)
        return e

    def test_what_was_accessed(self) -> None:
        for arch in ARCHES:
            for cause, access in CAUSES[arch].items():
                self.assertEqual(faults.last(self.ended(arch, trap(cause, 8, 16, 24))),
                                 faults.Fault(access, 8, 16, 24))

    def test_an_instruction_of_the_students(self) -> None:
        file = rubric.lab(4).files[0]
        for arch in ARCHES:
            own, cause = FUNCTIONS[0], next(iter(CAUSES[arch]))
            for pc, link, code, said in ((own.start, 8, file, "The last fault was"),
                                         (8, own.start + 4, file, "The last fault was at 0x8, and"),
                                         (own.start, own.end, "kern/main.c", "")):
                e = self.ended(arch, trap(cause, pc, link=link, seq=5))
                e.verdict, e.why = Verdict.PANIC, "so"
                with mock.patch.object(e.kernel, "code_of", lambda name, code=code:
                                       [(own.start, own.end)] if name == code else []):
                    found = report._ending(e)
                self.assertEqual(found.startswith(f"panic: so. {said}") and f"in {file}, at "
                                 f"{own.name}" in found, bool(said), found)

    def test_an_interrupt_is_none(self) -> None:
        for arch, later in (("riscv64", trap(1 << 63 | 5, 99, seq=2)),
                            ("arm64", trap(0x25 << 26, 99, seq=2, at=VECTOR + 0x280))):
            found = faults.last(self.ended(arch, trap(next(iter(CAUSES[arch])), 8), later))
            assert found
            self.assertEqual(found.pc, 8)
            self.assertIsNone(faults.last(self.ended(arch, later)))

    def test_back_into_the_stub(self) -> None:
        stub = next(f for f in FUNCTIONS if f.name == "ftrace_caller")
        inside, outside = stub.start + 8, stub.end + 8
        for pc, link, so in ((inside, inside, True), (outside, inside, False), (inside, outside,
                                                                                False)):
            e = self.ended("arm64", trap(0, pc, link=link, seq=5))
            e.truth.calls = [self.call(mask=None, callbacks=[record(Kind.CALLBACK, 1)])]
            with mock.patch.object(e.kernel, "extent", return_value=(stub.start, stub.end)):
                self.assertEqual(faults.back_into(e, "ftrace_caller"), so)
                e.truth.calls[0].landed = record(Kind.BODY, 1)
                self.assertFalse(faults.back_into(e, "ftrace_caller"), "it came back")


    def test_who_panicked_is_known_by_where_the_call_returns_to(self) -> None:
        """If a call is the last instruction of a function, the link register points to the next
        function."""
        e = self.evidence("arm64")
        self.assertEqual(faults.panicked(e), ("", 0))
        stub = next(f for f in FUNCTIONS if f.name == "ftrace_caller")
        e.truth.hits["panic"] = [record(Kind.POINT, 1, 8, 77, 0, stub.end)]
        self.assertEqual(faults.panicked(e), ("ftrace_caller", 77))

    def test_where_it_went_instead_of_back(self) -> None:
        for arch in ARCHES:
            execution = next(cause for cause, access in CAUSES[arch].items()
                             if access == "execution")
            read = next(cause for cause, access in CAUSES[arch].items() if access == "read")
            e = self.ended(arch, trap(execution, 0x5000, 0x5000, seq=5))
            e.truth.calls = [call := self.call(mask=None, callbacks=[record(Kind.CALLBACK, 1)])]
            self.assertIn("0x5000, where there is no code", faults.astray(e))
            call.fp = 0x5000
            self.assertIn("0x5000, the value of the frame pointer at the call site",
                          faults.astray(e))
            e.truth.traps = [trap(read, 0x5000, 0x5000, seq=5)]
            self.assertEqual(faults.astray(e), "", "that is no jump")
            e.truth.traps, call.landed = [trap(execution, 0x5000, 0x5000,
                                               seq=5)], record(Kind.BODY, 1)
            self.assertEqual(faults.astray(e), "", "it came back")

    def test_a_cpu_is_where_it_was_most_of_the_times(self) -> None:
        e = self.evidence("arm64")
        stub, other = (next(f for f in FUNCTIONS if (f.name == "ftrace_caller") == so)
                       for so in (True, False))
        e.verdict, e.why = Verdict.TIMEOUT, "so"
        e.whereabouts = [[stub.start, stub.start], [stub.start + 4, other.start]]
        self.assertEqual(e.ending(), "time-out: so. CPU 0 was in ftrace_caller")
        e.whereabouts += [[other.start, stub.start]]  # each CPU was in an interrupt once
        self.assertEqual(e.ending(),
                         "time-out: so. CPU 0 was in ftrace_caller. CPU 1 was in ftrace_caller")
        vector = next(f for f in FUNCTIONS if f.name not in ("ftrace_caller", other.name))
        e.whereabouts, e.came_from = [[vector.start, stub.start],
                                      [other.start,
                                       stub.start]], [[stub.start + 8, other.start]] * 2
        self.assertEqual(e.ending(),
                         "time-out: so. CPU 0 was in ftrace_caller. CPU 1 was in ftrace_caller")
        e.whereabouts, e.came_from = [[], []], []
        self.assertEqual(e.ending(), "time-out: so")


class RegisterLost(RecordedCalls):
    hook = "entry"

    def test_the_newest_call_at_which_one_differed(self) -> None:
        for arch, saved in (("riscv64", "s11"), ("arm64", "x28")):
            bit = 1 << (27 if arch == "riscv64" else 28)
            calls = [self.call(mask=bit), self.call("entry_traced", bit), self.call()]
            for n, call in enumerate(calls):
                assert call.landed
                call.landed = call.landed._replace(seq=10 + n)
            e = self.evidence(arch, *calls)
            e.verdict, e.why = Verdict.PANIC, "read from a NULL pointer"
            self.assertEqual(
                report._ending(e),
                f"panic: read from a NULL pointer. Before that, after the call site of "
                f"entry_traced, on CPU 0, {saved} "
                "was not what it was before the tracer ran")

    def test_or_return(self) -> None:
        e = self.evidence("riscv64", call := self.call())
        e.kernel.symbols["return_to_handler"] = CALLER
        span = Span(call, 0, None, False, 2, None, ())
        span.leaving = Leaving([span], record(Kind.EXIT, 1), [],
                               record(Kind.HOME, 2, 1 << 27, seq=5))
        e.truth.returns.spans = [span]
        self.assertEqual(
            faults.register_lost(e),
            "Before that, when wl_a had returned, on CPU 0, s11 was not what it was before the "
            "tracer ran"
        )

    def test_nothing_where_none_did(self) -> None:
        e = self.evidence("arm64", self.call(), self.call(mask=None))
        e.verdict, e.why = Verdict.PANIC, "so"
        self.assertEqual(report._ending(e), "panic: so")

    def test_the_rung_says_it(self) -> None:
        e = self.evidence("riscv64", self.call(mask=1 << 27))
        e.verdict, e.why = Verdict.PANIC, "so"
        found = report._judged(rubric.lab(4).rungs[0], e, [])
        assert found
        self.assertIn("s11 was not what it was before", found.why)


class Deeper(unittest.TestCase):
    def test_one_more_is_printed_than_there_are(self) -> None:
        site = RecordedCalls().call("wl_a").site
        call = Call(1, 0, 7, 0, site, 1)
        span = Span(call, 0, None, False, 2, None, ())
        for depth, name, so in ((2, "wl_a", True), (1, "wl_a", False), (3, "wl_a", False),
                                (2, "wl_b", False)):
            step = GraphStep(call, 1, 0, kind=ENTRY, span=span, depths=frozenset({1}))
            event = GraphEvent(ENTRY, 0, "so", 7, depth, name, 0, "")
            self.assertEqual(graph_checks.one_deeper(Divergence(0, "so", 0, 0, [step], [event])),
                             so)
            self.assertFalse(graph_checks.one_deeper(Divergence(0, "so", 1, 0, [step], [event])))


class WholeWords(unittest.TestCase):
    def test_no_sentence_is_cut_in_a_word(self) -> None:
        text = " ".join(f"word{n}" for n in range(400))
        shown = report.printable(text)
        self.assertLessEqual(len(shown), report.WIDTH + 4)
        self.assertEqual(text.split()[:len(shown.split()) - 1], shown.removesuffix(" ...").split())
        exact = "x" * (report.WIDTH - 4) + " word more"
        self.assertEqual(report.printable(exact), "x" * (report.WIDTH - 4) + " ...")
        self.assertEqual(report.printable("y" * (report.WIDTH + 9)), "y" * report.WIDTH + " ...")

    def test_a_long_line_of_the_guest_s_makes_no_long_grade(self) -> None:
        """Each rung of a boot that panicked repeats the panic."""
        e = Evidence(
            "arm64", 3, 1, 0, None, Path(), Verdict.PANIC,  # type: ignore[arg-type]
            "at f " + "x" * (1 << 20))
        rungs = rubric.lab(3).rungs
        with tempfile.TemporaryDirectory() as scratch:
            path = Path(scratch, "grade.json")
            report.write_json(
                [report.grade_of("arm64", 3, 0, [e], [{1: Finding(e.ending())} for _ in rungs])],
                path)
            self.assertLess(path.stat().st_size, (len(rungs) + 1) * 3 * report.LONGEST_KEPT)
            [grade] = json.loads(path.read_text())["grades"]
        for why in (grade["boots"][0]["why"], *(rung["boots"]["1"] for rung in grade["rungs"])):
            self.assertRegex(why, r"^(panic: )?at f.* \.\.\. \(the rest is in the log\)$")

    def test_the_last_line_begins_with_a_whole_word(self) -> None:
        self.assertEqual(last_line("alf a line\n", True), "... a line")
        self.assertEqual(last_line("alf a line\nthe last\n", True), "the last")
        self.assertEqual(last_line("", False), "")

    def test_no_column_is_narrower_than_a_word(self) -> None:
        for lab in rubric.LABS:
            results = [
                report.Result(rung, {n: Finding("so")
                                     for n in (1, 4) if rung.judges(n)})
                for rung in rubric.lab(lab).rungs
            ]
            evidence = [
                Evidence("arm64", lab, cpus, 1, None, Path())  # type: ignore[arg-type]
                for cpus in (1, 4)
            ]
            report.show(report.Grade("arm64", lab, 1, results, evidence),
                        Console(width=80, file=(said := io.StringIO())))
            self.assertNotIn("…", said.getvalue(), f"lab {lab}")


class Moments(unittest.TestCase):
    def evidence(self) -> Evidence:
        e = Evidence(
            "arm64", 4, 1, 0, None, Path(),  # type: ignore[arg-type]
            typed=[(0, "a"), (5, "b"), (9, "c")])
        e.phases = [Phase("trace", 1, None, 5, 8)]
        return e

    def test_what_was_seen_of_a_workload_is_looked_at_as_it_begins(self) -> None:
        e = self.evidence()
        found = checks.within(e.phases[0], Finding("another name than the workload's"))
        assert found
        with mock.patch.object(replay, "_written", return_value=None):
            self.assertEqual([replay.moment(e, f).line for f in (found, Finding("trace: so"))],
                             ["b", None])

    def test_what_did_not_happen_has_no_moment(self) -> None:
        e, said = self.evidence(), io.StringIO()
        self.assertEqual(
            replay.under_gdb(e,
                             rubric.lab(4).rungs[0], Finding("so", kind=Defect.TOO_LITTLE),
                             Moment(), Console(width=200, file=said)), 1)
        self.assertEqual(
            said.getvalue(),
            "\ncalled was lost because something did not happen: there is no moment at which to "
            "stop under gdb.\n"
        )

    def test_an_answer_that_nobody_gave_is_not_a_wrong_one(self) -> None:
        self.assertIsNone(entry.own_functions_kept(self.evidence()))


if __name__ == "__main__":
    unittest.main()

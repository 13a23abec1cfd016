"""The grader is graded: kernels with one deliberate mistake lose the rung that speaks of it.

Each is the real kernel of a lab with a few words of its text overwritten, in
the ELF file and in the image alike: what the harness reads is what runs.
"""

from __future__ import annotations

import copy
import dataclasses
import re
import subprocess
import tempfile
import unittest
from collections.abc import Callable

from grading import checks, report, rubric, truth
from grading.elf import Kernel
from grading.evidence import Evidence
from grading.session import Session
from grading.trace_text import Event
from qemu.machine import ARCHES, ROOT

SEED = 0x0123456789ABCDEF
RETURN_0 = {"riscv64": [0x00000513, 0x00008067], "arm64": [0x52800000, 0xD65F03C0]}
NOP = {"riscv64": [0x00000013], "arm64": [0xD503201F]}
# In ftrace_caller: the load that gives the second argument back.
LOADS_ARGUMENT = {"riscv64": 0x00813583, "arm64": 0xA94007E0}

# Which boots a mistake is tried in: all, or one of each where they do not differ.
EVERY = {(arch, smp) for arch in ARCHES for smp in (1, 4)}
SOME = {("riscv64", 4), ("arm64", 1)}

Mistake = Callable[[Kernel], tuple[int, list[int]]]  # where, and what is written there


def returns_at_once(name: str) -> Mistake:
    """GCC calls its copies of a function name.isra.0 and the like."""
    return lambda kernel: (next(a for n, a in kernel.symbols.items() if n.split(".")[0] == name), RETURN_0[kernel.arch])


def forgets_an_argument(kernel: Kernel) -> tuple[int, list[int]]:
    lo, hi = kernel.extent("ftrace_caller")
    at = next(a for a in range(lo, hi, 4) if kernel.word(a) == LOADS_ARGUMENT[kernel.arch])
    return at, NOP[kernel.arch]


def swaps_two_records(kernel: Kernel) -> tuple[int, list[int]]:
    """The third and the fourth entry of the table change places."""
    at = kernel.symbol("ftrace_records") + 16
    return at, [kernel.word(at + i) for i in (8, 12, 0, 4)]


def loses_a_record(kernel: Kernel) -> tuple[int, list[int]]:
    """The third entry of the table becomes the fourth's double."""
    at = kernel.symbol("ftrace_records") + 16
    return at, [kernel.word(at + i) for i in (8, 12)]


CROSS = {"riscv64": "riscv64-linux-gnu-", "arm64": "aarch64-linux-gnu-"}


def assemble(arch: str, lines: list[str]) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        tool, object_file, out = CROSS[arch], f"{folder}/a.o", f"{folder}/a.bin"
        source = (".option norelax\n.option norvc\n" if arch == "riscv64" else "") + "\n".join(lines) + "\n"
        subprocess.run([tool + "as", "-o", object_file, "-"], input=source, text=True, check=True)
        subprocess.run([tool + "objcopy", "-O", "binary", "-j", ".text", object_file, out], check=True)
        with open(out, "rb") as file:
            data = file.read()
    return [int.from_bytes(data[i:i + 4], "little") for i in range(0, len(data), 4)]


def caller_with(changes: dict[str, dict[str, str]]) -> Mistake:
    """ftrace_caller with some of its instructions replaced: by architecture, what stands there and what will."""
    def mistake(kernel: Kernel) -> tuple[int, list[int]]:
        lo, hi = kernel.extent("ftrace_caller")
        was, new = (assemble(kernel.arch, list(part)) for part in zip(*changes[kernel.arch].items()))
        words = [kernel.word(a) for a in range(lo, hi, 4)]
        assert all(words.count(word) == 1 for word in was)
        return lo, [dict(zip(was, new)).get(word, word) for word in words]
    return mistake


# The last argument register gets back what it held, from a copy above the frame, and not what the callback left.
FORGETS_THE_CHANGE = caller_with({
    "riscv64": {"addi sp, sp, -96": "addi sp, sp, -112", "addi s0, sp, 96": "sd a7, 96(sp)",
                "ld a7, 56(sp)": "ld a7, 96(sp)", "addi sp, sp, 96": "addi sp, sp, 112"},
    "arm64": {"sub sp, sp, #112": "sub sp, sp, #128", "add x11, sp, #112": "stp x6, x7, [sp, #112]",
              "ldp x6, x7, [sp, #48]": "ldp x6, x7, [sp, #112]", "add sp, sp, #112": "add sp, sp, #128"}})
# Back to behind the call site (kept where sp is seen), whatever the callback left in regs->pc.
IGNORES_PC = caller_with({
    "riscv64": {"sd s0, 64(sp)": "sd t0, 64(sp)", "ld t0, 72(sp)": "ld t0, 64(sp)"},
    "arm64": {"stp x8, x11, [sp, #64]": "stp x8, x30, [sp, #64]", "ldr x9, [sp, #88]": "ldr x9, [sp, #72]"}})
STUBS, STUB_SIZE = 33, 12


def stubs_all_go_to_the_list(kernel: Kernel) -> tuple[int, list[int]]:
    at = kernel.symbol("ftrace_stubs") + STUB_SIZE
    words = [kernel.word(at + i) for i in range(0, (STUBS - 1) * STUB_SIZE, 4)]
    jump = "j" if kernel.arch == "riscv64" else "b"
    words[::3] = assemble(kernel.arch, [f"start: {jump} start - {STUB_SIZE}"] +
                          [f".org start + {4 * n}\n{jump} start - {STUB_SIZE * (n + 1) - 4 * n}" for n in range(1, STUBS - 1)])
    return at, words


def a_stub_goes_to_its_neighbour(kernel: Kernel) -> tuple[int, list[int]]:
    """The sixth op's stub is the fifth's: that one sees what is not its own."""
    jump = "j" if kernel.arch == "riscv64" else "b"
    return kernel.symbol("ftrace_stub_6"), assemble(kernel.arch, [f"start: {jump} start - {STUB_SIZE}"])


def list_asks_no_filter(kernel: Kernel) -> tuple[int, list[int]]:
    """In ftrace_list_func the branch for ops without a filter is taken for every op."""
    lo, hi = kernel.extent("ftrace_list_func")
    text = subprocess.run([CROSS[kernel.arch] + "objdump", "-d", f"--start-address={lo}", f"--stop-address={hi}",
                           str(kernel.path)], capture_output=True, text=True, check=True).stdout
    filter_in = re.search(r"\tldr?\t(\w+),(?:16\(\w+\)| \[\w+, #16\])", text)
    assert filter_in
    branch = re.search(rf"(\w+):\t[0-9a-f]+ *\t(?:beqz|cbz)\t{filter_in[1]}, ?([0-9a-f]+) <", text)
    assert branch
    at, to = int(branch[1], 16), int(branch[2], 16)
    jump = "j" if kernel.arch == "riscv64" else "b"
    return at, assemble(kernel.arch, [f"start: {jump} start + {to - at}"])


def build(lab: int = 4) -> None:
    images = [f"build/{a}/lab{lab}/Image" for a in ARCHES]
    subprocess.run(["make", "-s", "-C", str(ROOT), f"LAB={lab}", *images], check=True)


def wrong_kernel(arch: str, name: str, mistake: Mistake, lab: int) -> Kernel:
    """The kernel of a lab with the mistake written into it."""
    right = ROOT / f"build/{arch}/lab{lab}"
    out = ROOT / f"build/tests/wrong/{arch}-{name}"
    out.mkdir(parents=True, exist_ok=True)
    kernel = Kernel(right / "callsite.elf", arch)
    address, words = mistake(kernel)
    data = b"".join(w.to_bytes(4, "little") for w in words)
    around = kernel.read(address, 512)  # long enough to be there once
    for file in ("callsite.elf", "Image"):
        content = bytearray((right / file).read_bytes())
        at = content.index(around)
        content[at:at + len(data)] = data
        (out / file).write_bytes(content)
    return Kernel(out / "callsite.elf", arch)


def grade(arch: str, name: str, mistake: Mistake, smp: int, lab: int = 4) -> report.Grade:
    kernel = wrong_kernel(arch, name, mistake, lab)
    log = ROOT / f"build/tests/wrong/{arch}-{name}.log"
    return report.judge(arch, lab, SEED, [Session(kernel, lab, smp, SEED, log).run()])


class Wrong(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        build()

    def loses(self, name: str, mistake: Mistake, rungs: set[str], smp: int = 1, lab: int = 4) -> None:
        """These rungs are lost, by a finding and not by an accident of the harness."""
        build(lab)
        for arch in ARCHES:
            with self.subTest(arch=arch):
                graded = grade(arch, name, mistake, smp, lab)
                self.assertIsNone(graded.harness_error)
                lost = {r.rung.name for r in graded.results if r.lost}
                self.assertTrue(rungs <= lost, f"lost {lost}, must lose {rungs}")
                self.assertLess(graded.points, graded.possible)
                if rubric.lab(lab).rungs[0].name in rungs:
                    self.assertEqual(graded.points, 0)

    def test_the_right_kernel_loses_nothing(self) -> None:
        for arch in ARCHES:
            graded = grade(arch, "right", lambda kernel: (kernel.text[0], []), 1)
            self.assertEqual([f.why for r in graded.results for f in r.findings.values() if f], [])

    def test_no_synchronisation(self) -> None:
        self.loses("no-sync", returns_at_once("arch_sync_all"), {"synchronised"}, smp=2)

    def test_sites_that_are_not_written_score_nothing(self) -> None:
        self.loses("no-call", returns_at_once("ftrace_make_call"), {"called"})

    def test_sites_that_are_not_restored(self) -> None:
        self.loses("no-nop", returns_at_once("ftrace_make_nop"), {"off"})

    def test_events_that_are_not_recorded(self) -> None:
        self.loses("no-event", returns_at_once("function_trace_call"), {"one CPU"})

    def test_an_argument_that_is_not_given_back(self) -> None:
        self.loses("argument", forgets_an_argument, {"arguments"})

    def loses_exactly(self, name: str, mistake: Mistake, rungs: set[str], boots: set[tuple[str, int]] = EVERY) -> None:
        for arch, smp in sorted(boots):
            with self.subTest(arch=arch, smp=smp):
                graded = grade(arch, f"{name}-{smp}", mistake, smp)
                self.assertIsNone(graded.harness_error)
                self.assertEqual({r.rung.name for r in graded.results if r.lost}, rungs)

    def test_a_changed_argument_that_is_not_loaded_back(self) -> None:
        self.loses_exactly("change", FORGETS_THE_CHANGE, {"changed arguments"})

    def test_a_caller_that_ignores_pc(self) -> None:
        self.loses_exactly("pc", IGNORES_PC, {"live patch"})

    def test_stubs_that_all_go_to_the_list(self) -> None:
        self.loses_exactly("list", stubs_all_go_to_the_list, {"many ops"})

    def test_an_op_that_sees_anothers_functions(self) -> None:
        self.loses_exactly("neighbour", a_stub_goes_to_its_neighbour, {"many ops"}, SOME)

    def test_a_list_that_asks_no_filter(self) -> None:
        self.loses_exactly("nofilter", list_asks_no_filter, {"many ops", "changed arguments", "live patch"}, SOME)

    def test_two_ops_may_change_pc_of_one_function(self) -> None:
        self.loses_exactly("ipmodify", returns_at_once("ipmodify_clash"), {"live patch"}, SOME)

    def test_lab_2_a_table_out_of_order(self) -> None:
        self.loses("lab2-order", swaps_two_records, {"sorted"}, lab=2)

    def test_lab_2_a_record_that_is_missing(self) -> None:
        self.loses("lab2-missing", loses_a_record, {"table"}, lab=2)

    def test_lab_3_no_synchronisation(self) -> None:
        self.loses("lab3-no-sync", returns_at_once("arch_sync_all"), {"synchronised"}, smp=2, lab=3)


class Forged(unittest.TestCase):
    """The evidence of a right boot with one thing changed: the check that must see it does."""

    evidence: Evidence

    @classmethod
    def setUpClass(cls) -> None:
        build()
        kernel = Kernel(ROOT / "build/riscv64/lab4/callsite.elf", "riscv64")
        cls.evidence = Session(kernel, 4, 4, SEED, ROOT / "build/tests/wrong/forged.log").run()

    def forged(self) -> Evidence:
        """A copy whose lists may be changed."""
        e = copy.copy(self.evidence)
        e.truth = copy.copy(e.truth)
        e.phases = [copy.copy(p) for p in e.phases]
        e.trials = [copy.copy(t) for t in e.trials]
        for phase in e.phases:
            if phase.trace:
                phase.trace = copy.copy(phase.trace)
                phase.trace.events = list(phase.trace.events)
        return e

    def events(self, e: Evidence) -> list[Event]:
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
        self.sees(checks.calls_while_on, e, "found no call")

    def test_a_printed_trace_without_a_callback(self) -> None:
        e = self.forged()
        e.truth.callbacks = []
        self.sees(checks.three_agree, e, "callback ran 0 times")

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
        self.sees(checks.three_agree, e, "the header says")

    def test_two_events_swapped(self) -> None:
        e = self.forged()
        events = self.events(e)
        mine = [i for i, v in enumerate(events) if v.cpu == events[0].cpu]
        a, b = next((a, b) for a, b in zip(mine[100:], mine[101:])  # one context's, so that no inversion excuses it
                    if events[a].func != events[b].func and events[a].interrupt == events[b].interrupt)
        events[a], events[b] = (dataclasses.replace(events[b], usec=events[a].usec),
                                dataclasses.replace(events[a], usec=events[b].usec))
        self.sees(checks.three_agree, e, "executed")

    def test_a_wrong_parent(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.func.startswith("wl_"))
        events[at] = dataclasses.replace(events[at], parent="nobody")
        self.sees(checks.right_parents, e, "was called from")

    def test_an_interrupt_printed_as_a_thread(self) -> None:
        e = self.forged()
        events = self.events(e)
        at = next(i for i, v in enumerate(events) if v.interrupt)
        events[at] = dataclasses.replace(events[at], flags="d....")
        self.sees(checks.three_agree, e, "ran in an interrupt")

    def test_a_store_by_somebody_else(self) -> None:
        e = self.forged()
        e.truth.stores = [*e.truth.stores, e.truth.stores[0]._replace(addr=e.kernel.symbol("wl_first"))]
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
        self.sees(checks.only_selected, e, "outside of the filter")

    def in_trial(self, e: Evidence, name: str, touches: list[truth.Touch]) -> int:
        """The first of the touches that came in this trial."""
        trial = next(t for t in e.trials if t.name == name)
        return next(i for i, t in enumerate(touches) if trial.first <= t.seq < trial.last)

    def test_a_changed_argument_that_does_not_arrive(self) -> None:
        e = self.forged()
        e.truth.touches = list(e.truth.touches)
        at = self.in_trial(e, "changed arguments", e.truth.touches)
        touch = e.truth.touches[at]
        e.truth.touches[at] = dataclasses.replace(touch, addr=touch.addr ^ 1)
        self.sees(rubric.checks_of(4).changed_arguments, e, "and must receive")

    def test_an_op_that_was_not_called(self) -> None:
        e = self.forged()
        e.truth.op_touches = list(e.truth.op_touches)
        del e.truth.op_touches[self.in_trial(e, "many ops", e.truth.op_touches)]
        self.sees(rubric.checks_of(4).many_ops, e, "was not called")

    def test_an_op_that_is_called_after_it_was_unregistered(self) -> None:
        e = self.forged()
        many, fewer = e.trials[2:]
        fewer.ops, gone = fewer.ops[1:], fewer.ops[0]
        self.sees(rubric.checks_of(4).many_ops, e, f"op {gone.number} was called, and is not registered")

    def test_an_op_that_sees_another_value(self) -> None:
        e = self.forged()
        e.truth.op_touches = list(e.truth.op_touches)
        at = self.in_trial(e, "many ops", e.truth.op_touches)
        touch = e.truth.op_touches[at]
        e.truth.op_touches[at] = dataclasses.replace(touch, addr=touch.addr ^ 1)
        self.sees(rubric.checks_of(4).many_ops, e, "in regs->arg[1]")

    def test_an_op_that_costs_more_beside_others(self) -> None:
        e = self.forged()
        many = e.trials[2]
        e.truth.op_touches = [dataclasses.replace(t, insns=t.insns + 1) if many.first <= t.seq < many.last else t
                              for t in e.truth.op_touches]
        self.sees(rubric.checks_of(4).many_ops, e, "an op costs nothing where it does not trace")

    def test_a_second_op_that_may_change_pc(self) -> None:
        e = self.forged()
        e.trials[1].said = ""
        self.sees(rubric.checks_of(4).patched, e, "must be refused with EBUSY")

    def test_a_trampoline_while_off(self) -> None:
        e = self.forged()
        hit = e.truth.trampolines[0]
        e.truth.trampolines = [hit._replace(seq=e.off()[0].first)]
        self.sees(checks.silent_trampolines, e, "ran 1 times")


if __name__ == "__main__":
    unittest.main()

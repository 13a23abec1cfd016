"""A text of 7 MiB: far functions are traced through islands; a call site that no island reaches is
listed and never written.

Checked with the observer: the word in each call site when it ran, and the stubs that were entered.
"""
import re
import subprocess
import sys
import unittest

from grading.checks.checks import calls_tracer
from grading.elf.elf import Kernel
from grading.machine.machine import Run
from grading.machine.observer import Kind, Record
from grading.text import trace_text
from grading.truth import truth
from qemu.machine import ROOT, Machine

sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))

import islands as layout  # noqa: E402

MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
PROGRAM = "kern/ftrace/tests/far-program.c"
FAR = [f"far_{n}" for n in range(48)]
ROUNDS, CPUS = 3, 2


class Layout(unittest.TestCase):
    """The places that islands.py computes."""

    def pieces(self, *sizes: int) -> list[list[int]]:
        sections = [("o", f".text.f{n}", size) for n, size in enumerate(sizes)]
        return [[size for _, _, size in piece] for piece in layout.pieces(sections, 100)]

    def test_what_is_small_gets_none(self) -> None:
        self.assertEqual((self.pieces(), self.pieces(60, 40)), ([], []))

    def test_an_island_follows_each_piece_that_a_call_spans_but_the_last(self) -> None:
        self.assertEqual(self.pieces(60, 40, 1, 99, 50), [[60, 40], [1, 99]])

    def test_what_is_larger_than_a_piece_has_an_island_before_and_behind(self) -> None:
        self.assertEqual(self.pieces(10, 150, 10), [[10], [150]])
        self.assertEqual(self.pieces(10, 150), [[10], [150]])

    def test_a_piece_is_named_by_object_and_section(self) -> None:
        piece = [("a.o", ".text.f", 1), ("a.o", ".text.linux", 1), ("b.o", ".text", 1)]
        self.assertEqual(layout.statement(piece), '"a.o"(".text.f" ".text.linux") "b.o"(".text")')


class FarProgram:
    """The tests that are the same on both architectures and in both hook styles; one boot for each
    class."""

    arch: str
    lab: int
    islands: bool

    @classmethod
    def setUpClass(cls) -> None:
        out = ROOT / "build" / cls.arch / f"lab{cls.lab}-tests-far-program"
        subprocess.run([
            *MAKE, f"ARCH={cls.arch}", f"LAB={cls.lab}", "TESTS=1", f"APP={PROGRAM}",
            str((out / "Image").relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"
        ], check=True)
        cls.kernel = Kernel(out / "callsite.elf", cls.arch, any_name=True)
        machine = Machine(cls.arch, smp=CPUS, image=out / "Image",
                          initrd=ROOT / f"build/{cls.arch}/initrd.cpio")
        config = truth.config(cls.kernel, machine, ("far_", "beyond"))
        for stub in truth.stubs(cls.kernel):
            config.add("point", stub)
        cls.machine = Run(machine, ROOT / f"build/tests/islands-{cls.arch}-lab{cls.lab}.log",
                          config)
        cls.machine.__enter__()
        cls.boot = cls.machine.console.wait_ready(90)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    def sh(self, line: str) -> str:
        return self.machine.console.command(line, 120)

    def executed(self, line: str) -> list[Record]:
        """The observer's log of one line of the shell."""
        first = self.machine.observer.written()
        with self.machine.observer.recording():
            self.assertIn(f"{CPUS} threads, {ROUNDS} rounds, 0 wrong sums", self.sh(line))
        return list(self.machine.observer.records(first))

    def calls(self, records: list[Record], names: list[str]) -> dict[int, list[Record]]:
        """The executed call sites of these functions, for each CPU."""
        found: dict[int, list[Record]] = {}
        for r in records:
            if r.kind == Kind.SITE and self.name(r) in names:
                found.setdefault(r.vcpu, []).append(r)
        return found

    def name(self, record: Record) -> str:
        return self.kernel.site_at[record.addr].function.name

    def entered(self, records: list[Record], pattern: str) -> int:
        """How often stubs whose name matches were entered."""
        stubs = {a for n, a in self.kernel.symbols.items() if re.fullmatch(pattern, n)}
        return sum(r.kind == Kind.POINT and r.addr in stubs for r in records)

    def trace_on(self, functions: str) -> None:
        for line in ("echo nop > current_tracer", "echo > trace",
                     f"echo {functions} > set_ftrace_filter", "echo function > current_tracer"):
            self.assertEqual(self.sh(line), "")

    def test_only_what_no_island_reaches_is_said_to_be_out_of_reach(self) -> None:
        said = re.findall(r"^ftrace: (\w+)\+\S+ is out of reach; it is never traced", self.boot,
                          re.M)
        self.assertEqual(said, ["beyond"] if self.islands and self.lab > 3 else [])
        listed = self.sh("cat available_filter_functions").splitlines()
        self.assertEqual([f for f in listed if f.startswith("far_")], FAR)
        self.assertEqual("beyond" in listed, not self.islands and self.lab > 3)

    def test_far_functions_are_traced_call_by_call(self) -> None:
        text = self.sh("kt_text")
        self.trace_on("'far_*'")
        enabled = self.sh("cat enabled_functions").splitlines()
        self.assertEqual([line.split()[0] for line in enabled], FAR)
        self.assertTrue(
            all(re.search(r"tramp: ftrace_(stub_1|caller)\+0x0/", line) for line in enabled),
            enabled)
        self.assertIn(", 0 unlike their record", self.sh("kt_sites"))
        records = self.executed(f"far-program {ROUNDS}")
        printed = trace_text.parse(self.sh("cat trace"))
        self.assertEqual(self.sh("echo nop > current_tracer"), "")
        calls = self.calls(records, FAR)
        self.assertEqual([[self.name(r) for r in calls[cpu]] for cpu in sorted(calls)],
                         [FAR * ROUNDS] * CPUS)
        for r in (r for cpu in calls.values() for r in cpu):
            self.assertTrue(calls_tracer(self.kernel, r.addr, r.word),
                            f"{self.name(r)} held {r.word:#010x}")
        self.assertEqual([[e.func for e in printed.events if e.cpu == cpu] for cpu in range(CPUS)],
                         [FAR * ROUNDS] * CPUS)
        self.assertEqual(self.entered(records, r"ftrace_stub_1|ftrace_caller"),
                         CPUS * ROUNDS * len(FAR) * (1 + (self.lab > 3)))
        islands = self.entered(records, r"ftrace_island_\d+_stub_\d+")
        self.assertEqual(islands > CPUS * ROUNDS * 40, self.islands)
        self.assertEqual(self.sh("kt_text"), text)

    def test_while_nobody_traces_no_stub_and_no_island_runs(self) -> None:
        self.assertEqual(self.sh("echo nop > current_tracer"), "")
        records = self.executed(f"far-program {ROUNDS}")
        self.assertEqual(self.entered(records, r"ftrace_(island_\d+_)?stub_\d+|ftrace_caller"), 0)

    def test_an_interrupt_in_an_island_does_not_switch_threads(self) -> None:
        texts = 1 + sum(bool(re.fullmatch(r"ftrace_island_\d+", n)) for n in self.kernel.symbols)
        self.assertEqual(texts > 3, self.islands)
        self.assertIn(f"but not in the tracer's text: {texts} of {texts}\n", self.sh("test-sched"))

    def test_what_is_out_of_reach_is_never_written(self) -> None:
        if self.lab == 3:
            return  # it has no site there
        self.trace_on("")
        calls = self.calls(self.executed(f"far-program {ROUNDS}"), ["beyond"])
        self.assertEqual(self.sh("echo nop > current_tracer"), "")
        words = [calls_tracer(self.kernel, r.addr, r.word) for cpu in calls.values() for r in cpu]
        self.assertEqual(words, [not self.islands] * CPUS * ROUNDS)
        refused = self.sh("echo beyond > set_ftrace_filter")
        self.assertEqual("no function matches 'beyond'" in refused, self.islands)


class Riscv64(FarProgram, unittest.TestCase):
    arch, lab, islands = "riscv64", 6, True

    def test_function_graph_takes_the_same_way(self) -> None:
        for line in ("echo nop > current_tracer", "echo > trace",
                     "echo far_1 far_47 > set_ftrace_filter",
                     "echo function_graph > current_tracer"):
            self.assertEqual(self.sh(line), "")
        self.executed(f"far-program {ROUNDS}")
        self.assertEqual(len(re.findall(r" far_(?:1|47)\(\)[ ;]", self.sh("cat trace"))),
                         2 * CPUS * ROUNDS)
        self.assertEqual(self.sh("echo nop > current_tracer"), "")


class Riscv64Mcount(FarProgram, unittest.TestCase):
    arch, lab, islands = "riscv64", 3, True


class Arm64(FarProgram, unittest.TestCase):
    arch, lab, islands = "arm64", 6, False


if __name__ == "__main__":
    unittest.main()

"""Threads that switch, sleep, move and die inside traced calls, on a booted kernel under the
observer.

The printed events are compared with the executed calls: each entry and each
return on the CPU that made it, with its depth and its thread.
"""
import subprocess
import unittest
from bisect import bisect_right
from functools import cached_property

from grading.checks import checks, graph_checks
from grading.checks.align import Alignment, align
from grading.checks.graph_align import GraphStep, differ, steps
from grading.elf.elf import Kernel
from grading.machine.machine import Run
from grading.session.graph_session import OPTIONS
from grading.text import graph_text
from grading.text.graph_text import RETURN, GraphEvent
from grading.truth import truth
from grading.truth.returns import Span
from kern.ftrace.tests import on_each_machine
from qemu.isa import ISAS
from qemu.machine import FINISHED, ROOT, Machine

LIVES = 24
THREAD_SIZE = 16 << 10
LEAST = {"kt_life_sleep": 100_000, "kt_life_spin": 12_000_000}  # ns, at least
# The program's functions, and the scheduler's functions in which it is when it sleeps, moves,
# waits, is preempted and dies.
PROGRAM = ("kt_life", "kt_life_sleep", "kt_life_move", "kt_life_turn", "kt_life_hold",
           "kt_life_spin", "kt_life_call", "kt_life_end")
FOLLOWED = (*PROGRAM, "sleep_ns", "yield", "schedule", "__schedule", "join_queue",
            "set_cpu_affinity", "thread_start", "thread_exit", "mutex_lock", "mutex_unlock",
            "prepare_to_wait", "finish_wait", "wake_up", "wake_up_process", "sched_tick")


class OnAMachine:
    """One boot, one run of the program."""

    arch: str
    cpus: int

    @classmethod
    def setUpClass(cls) -> None:
        directory = ROOT / "build" / cls.arch / f"{FINISHED}-tests"
        subprocess.run([
            "make", "--no-print-directory", "-s", "-C",
            str(ROOT), f"ARCH={cls.arch}", "TESTS=1",
            str((directory / "Image").relative_to(ROOT))
        ], check=True)
        cls.kernel = Kernel(directory / "callsite.elf", cls.arch, any_name=True)
        cls.names = {s.function.name for s in cls.kernel.sites if s.function.name in FOLLOWED}
        machine = Machine(cls.arch, cls.cpus, image=directory / "Image", icount=cls.cpus == 1)
        log = ROOT / f"build/tests/graph-threads-{cls.arch}-{cls.cpus}.log"
        config = truth.config(cls.kernel, machine, FOLLOWED)
        config.add("point", cls.kernel.symbol("__switch_to"))
        with Run(machine, log, config) as run:
            run.console.wait_ready(60)
            cls.live(run)

    @classmethod
    def live(cls, run: Run) -> None:
        sh, observer = run.console.command, run.observer
        assert observer
        cls.said = "".join(
            map(sh, [
                "echo 0 > tracing_on", f"echo '{' '.join(sorted(cls.names))}' > set_ftrace_filter",
                *(f"echo 1 > options/{option}"
                  for option in OPTIONS), "echo function_graph > current_tracer"
            ]))
        first = observer.written()
        with run.observer.recording():
            cls.output = sh("echo 1 > tracing_on; kt_lives; echo 0 > tracing_on")
        records = list(observer.records(first))
        cls.trace = graph_text.parse(sh("cat trace"))
        switch = cls.kernel.symbol("__switch_to")
        cls.switches = [r.seq for r in records if r.addr == switch]
        cls.truth = truth.read(cls.kernel, (r for r in records if r.addr != switch), FOLLOWED)
        cls.traps = [r.seq for r in cls.truth.traps]
        run.power_off()

    # ---- the executed calls, and the printed events ----

    @classmethod
    def framed(cls, span: Span) -> bool:
        return span.name in cls.names and checks.calls_tracer(cls.kernel, span.call.site.address,
                                                              span.call.word)

    @cached_property
    def spans(self) -> list[Span]:
        """Every call of the program's threads: they begin and end while tracing is on."""
        lives = {s.call.thread for s in self.truth.returns.spans if s.name == "kt_life"}
        return [s for s in self.truth.returns.spans if s.call.thread in lives]

    @cached_property
    def printed(self) -> list[GraphEvent]:
        return [e for e in self.trace.events if e.comm == "life"]

    @cached_property
    def aligned(self) -> dict[int, Alignment[GraphStep, GraphEvent]]:
        """By CPU."""
        return align(steps(self.spans, self.names, self.framed), self.printed, differ)

    @cached_property
    def pairs(self) -> list[tuple[GraphStep, GraphEvent]]:
        """In the order of the whole machine."""
        return sorted((pair for a in self.aligned.values() for pair in a.pairs),
                      key=lambda pair: pair[0].seq)

    @staticmethod
    def within(span: Span, moments: list[int]) -> bool:
        assert span.leaving
        return bisect_right(moments, span.call.seq) < bisect_right(moments, span.leaving.left.seq)

    # ---- the promises ----

    def test_the_program_works_and_nothing_is_lost(self) -> None:
        self.assertEqual(self.said, "")
        self.assertIn(f"{LIVES} passed, 0 failed\n", self.output)
        self.assertEqual((self.trace.tracer, self.trace.lost, self.trace.unknown),
                         ("function_graph", 0, []))

    def test_it_happened(self) -> None:
        """Each thing that this test is about was executed."""
        names = {s.name for s in self.spans}
        self.assertEqual(names, self.names - ({"join_queue"} if self.cpus == 1 else set()))
        threads = {s.call.thread for s in self.spans}
        self.assertEqual(len(threads), LIVES)
        self.assertLess(len({s.call.sp // THREAD_SIZE
                             for s in self.spans}), LIVES, "no thread had the stack of a dead one")
        moved = [s for s in self.spans if s.leaving and s.leaving.left.vcpu != s.call.vcpu]
        self.assertEqual(bool(moved), self.cpus > 1)
        self.assertTrue([
            s for s in self.spans if s.call.level and s.name == "__schedule" and s.leaving
            and self.within(s, self.switches)
        ], "nobody was preempted")

    def test_printed_is_what_was_executed(self) -> None:
        self.assertEqual([s.name for s in self.spans if not self.framed(s)], [],
                         "a call site that did not call the tracer")
        for cpu, alignment in self.aligned.items():
            if alignment.divergence:
                rows = "\n".join(f"{'>' if here else ' '} {left:50} {right}"
                                 for left, right, here in alignment.divergence.neighbours(6))
                self.fail(f"CPU {cpu}: {alignment.divergence.why}; executed and printed:\n{rows}")
        self.assertEqual(len(self.pairs), len(self.printed))

    def test_each_thread_is_one(self) -> None:
        threads = {(e.pid, step.call.thread) for step, e in self.pairs}
        self.assertEqual([len(threads), *(len(set(side)) for side in zip(*threads))], [LIVES] * 3)

    def test_who_dies_inside_never_returns(self) -> None:
        """Exactly the calls in progress when a thread ends have no return; every other return goes
        through return_to_handler."""
        for thread in {s.call.thread for s in self.spans}:
            spans = [s for s in self.spans if s.call.thread == thread]
            out, last = [], next(s for s in reversed(spans) if not s.leaving)
            while last:
                out.append(last)
                last = last.below
            self.assertEqual([s for s in spans if not s.leaving], out[::-1])
            self.assertIn("thread_exit", {s.name for s in out})
            for span in spans:
                leaving = span.leaving
                self.assertTrue(not leaving or len(leaving.hits) == len(leaving.spans), span.name)
        open_calls = sum(-1 if e.kind == RETURN else 1 for e in self.printed)
        self.assertEqual(open_calls, sum(not s.leaving for s in self.spans))
        # thread_start, thread_exit and schedule; some threads die inside more calls
        self.assertGreater(open_calls, 3 * LIVES)

    def test_time_does_not_go_back(self) -> None:
        for alignment in self.aligned.values():
            finding = checks.in_time("on a CPU", alignment)
            self.assertIsNone(finding, finding)
        # an interrupt's events may come before the event that it interrupted
        for pid in {e.pid for e in self.printed}:
            own = [(step, event) for step, event in self.pairs
                   if event.pid == pid and not step.call.level]
            finding = checks.in_time("in a thread", Alignment(own))
            self.assertIsNone(finding, finding)

    def test_durations(self) -> None:
        """A call takes no longer than the call that made it, on whichever CPU; a function that must
        take long does."""
        finding = graph_checks.sums("trace", Alignment(self.pairs))
        self.assertIsNone(finding, finding)
        exact = 0
        for step, event in self.pairs:
            if step.kind == RETURN:
                self.assertGreaterEqual((event.duration or 0) + event.unit,
                                        LEAST.get(step.span.name, 0), event.line)
                exact += self.cpus == 1 and self.lasted(step.span, event)
        self.assertEqual(exact > 10 * LIVES, self.cpus == 1,
                         f"{exact} durations between their bounds")

    def lasted(self, span: Span, event: GraphEvent) -> bool:
        """An instruction is a nanosecond, if no other thread had the CPU meanwhile. Return: False
        if another had.

        The observer sees no end of an interrupt after its last call.
        """
        limits = graph_checks.bounds(span, self.framed)
        assert event.duration is not None
        if not limits:
            self.assertTrue(span.call.level, span.name)
        if not limits or self.within(span, self.switches) or self.within(span, self.traps):
            return False
        about = ISAS[self.arch].clock_ns + event.unit
        self.assertTrue(limits[0] - about < event.duration < limits[1] + about,
                        f"{limits}: {event.line}")
        return True


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(OnAMachine)


if __name__ == "__main__":
    unittest.main()

"""The aligner: which differences in the order are allowed, and where the first difference is that
is not."""

from __future__ import annotations

import random
import unittest
from collections.abc import Callable, Iterator

from grading.checks import align as aligner
from grading.checks.align import Alignment, Executed, by_cpu, differ
from grading.elf.elf import Function, Site
from grading.text.trace_text import FunctionEvent
from grading.truth.truth import Call


def call(seq: int, name: str, level: int = 0, vcpu: int = 0, thread: int = 1,
         trap: int = 0) -> Call:
    function = Function(name, 0x1000, 0x1010)
    return Call(seq, vcpu, thread, level, Site(0x1000, function, 0, 0), 0, trap)


def event(name: str, cpu: int = 0, pid: int = 7, flags: str = ".....") -> FunctionEvent:
    return FunctionEvent("shell", pid, cpu, flags, 0, name, "parent", name)


def align(
    ran: list[Call], said: list[FunctionEvent], whole: bool = True,
    needed: Callable[[Executed], bool] = lambda ran: True
) -> dict[int, Alignment[Executed, FunctionEvent]]:
    return aligner.align(by_cpu(Executed(c, c.seq, c.vcpu) for c in ran), said, differ, whole,
                         needed)


def executed(text: str) -> list[Call]:
    """Calls from a text like 'a b i1 c'; a digit at the end is the interrupt level."""
    return [
        call(n, w.rstrip("12"),
             int(w[-1]) if w[-1] in "12" else 0) for n, w in enumerate(text.split())
    ]


def printed(text: str) -> list[FunctionEvent]:
    return [event(w) for w in text.split()]


class Align(unittest.TestCase):
    def why(self, ran: str, said: str) -> str:
        found = align(executed(ran), printed(said))[0].divergence
        return found.why if found else ""

    def test_the_same_sequence_agrees(self) -> None:
        self.assertEqual(self.why("a b a c", "a b a c"), "")

    def test_an_interrupt_may_print_first(self) -> None:
        self.assertEqual(self.why("a i1 j1 b", "i j a b"), "")

    def test_an_event_may_stand_between_two_interrupts(self) -> None:
        ran = [call(0, "a"), call(1, "i", 1, trap=1), call(2, "i", 1, trap=2), call(3, "b")]
        for said in ("i a i b", "i i a b", "a i i b"):
            self.assertIsNone(align(ran, printed(said))[0].divergence, said)
        ran = [call(0, "a"), call(1, "i", 1, trap=1), call(2, "j", 1, trap=1), call(3, "b")]
        self.assertIsNotNone(align(ran, printed("i a j b"))[0].divergence)

    def test_the_same_function_in_a_thread_and_its_interrupt(self) -> None:
        ran = [
            call(0, "wl_first"),
            call(1, "wl_first", 1, trap=1),
            call(2, "wl_rest", 1, trap=1),
            call(3, "wl_rest")
        ]
        said = [
            event("wl_first", flags="d.h.."),
            event("wl_rest", flags="d.h.."),
            event("wl_first"),
            event("wl_rest")
        ]
        self.assertIsNone(align(ran, said)[0].divergence)
        self.assertIn(
            "as if it ran in",
            getattr(align(ran, [said[0], said[1], said[2], said[1]])[0].divergence, "why", ""))

    def test_an_interrupt_in_an_interrupt_may_print_first(self) -> None:
        self.assertEqual(self.why("a i1 n2 j1 b", "n i j a b"), "")

    def test_an_interrupt_may_print_in_its_place(self) -> None:
        self.assertEqual(self.why("a i1 b", "a i b"), "")

    def test_the_same_context_never_swaps(self) -> None:
        self.assertIn("executed a, printed b", self.why("a b c", "b a c"))

    def test_an_interrupted_call_prints_before_its_context_goes_on(self) -> None:
        self.assertNotEqual(self.why("a i1 b c", "i b a c"), "")

    def test_a_missing_event_is_named(self) -> None:
        self.assertIn("executed b, printed c", self.why("a b c", "a c"))

    def test_an_interrupted_call_that_is_never_printed_is_named(self) -> None:
        self.assertNotEqual(self.why("a i1 b", "i b"), "")

    def test_a_missing_last_event_is_named(self) -> None:
        self.assertIn("executed, but not printed: c", self.why("a b c", "a b"))

    def test_an_invented_event_is_named(self) -> None:
        self.assertIn("printed, but not executed: d", self.why("a b", "a b d"))

    def test_a_trace_may_begin_late_where_that_is_allowed(self) -> None:
        found = align(executed("x y a b c"), printed("a b c"), whole=False,
                      needed=lambda c: c.seq >= 2)
        self.assertIsNone(found[0].divergence)

    def test_of_places_where_it_may_begin_the_one_that_explains_all_is_taken(self) -> None:
        again = "u " * 30
        found = align(executed(f"{again}x {again}y z {again}x"), printed(f"{again}y z"),
                      whole=False, needed=lambda c: c.call.name in "yz")
        self.assertIsNone(found[0].divergence)

    def test_what_is_needed_may_not_be_missing_at_the_start(self) -> None:
        found = align(executed("x y a b c"), printed("b c"), whole=False,
                      needed=lambda c: c.seq >= 2)
        self.assertIsNotNone(found[0].divergence)

    def test_a_pid_is_one_thread(self) -> None:
        calls = [call(0, "a", thread=1), call(1, "b", thread=2)]
        found = align(calls, [event("a", pid=7), event("b", pid=7)])
        self.assertIn("pid 7", found[0].divergence.why if found[0].divergence else "")

    def test_cpus_are_held_apart(self) -> None:
        calls = [call(0, "a", vcpu=0, thread=1), call(1, "b", vcpu=1, thread=2)]
        found = align(calls, [event("b", cpu=1, pid=8), event("a", cpu=0, pid=7)])
        self.assertTrue(all(a.divergence is None for a in found.values()))

    def test_neighbours_show_the_place(self) -> None:
        found = align(executed("a b c d"), printed("a b x d"))[0].divergence
        assert found
        here = [row for row in found.neighbours() if row[2]]
        self.assertEqual(here, [("c, level 0", "..... x <-parent", True)])

    def test_a_trace_may_begin_with_an_interrupt_in_the_way_of_its_first_event(self) -> None:
        ran = [
            call(0, "x"),
            call(1, "a"),
            call(2, "i", 1, trap=1),
            call(3, "j", 1, trap=1),
            call(4, "b")
        ]
        found = align(ran, printed("i j a b"), whole=False, needed=lambda c: c.seq >= 4)
        self.assertIsNone(found[0].divergence)

    def test_a_trace_may_begin_in_an_interrupt_and_have_what_that_interrupted(self) -> None:
        ran = [call(0, "a"), call(1, "i", 1, trap=1), call(2, "j", 1, trap=1), call(3, "b")]
        found = align(ran, printed("j a b"), whole=False, needed=lambda c: c.seq >= 3)
        self.assertIsNone(found[0].divergence)

    def test_the_same_function_that_waits_and_is_printed_in_its_way(self) -> None:
        self.assertEqual(self.why("a a1 b1 c", "a b a c"), "")

    def test_another_thread_may_print_first(self) -> None:
        ran = [call(0, "a"), call(1, "i", 1, trap=1), call(2, "b", thread=2), call(3, "c")]
        said = [event("i"), event("b", pid=8), event("a"), event("c")]
        self.assertIsNone(align(ran, said)[0].divergence)
        self.assertIsNotNone(align(ran, [said[0], said[1], said[3], said[2]])[0].divergence)

    def test_nothing_that_is_legal_is_refused(self) -> None:
        for seed in range(400):
            cpu = Cpu(random.Random(seed))
            cpu.run()
            whole = not cpu.toggles
            found = align(cpu.executed, cpu.printed, whole,
                          needed=lambda c: cpu.lo <= c.seq < cpu.hi).get(0)
            divergence = found and found.divergence
            if divergence:
                self.fail(f"seed {seed}: {divergence.why}\n{divergence.neighbours()}")

    def test_an_event_that_is_missing_is_refused_wherever_it_is(self) -> None:
        refused = 0
        for seed in range(100):
            cpu = Cpu(random.Random(seed))
            cpu.toggles = False
            cpu.run()
            del cpu.printed[cpu.rng.randrange(len(cpu.printed))]
            refused += bool(align(cpu.executed, cpu.printed)[0].divergence)
        self.assertEqual(refused, 100)


class Cpu:
    """Simulates a CPU with a right tracer: threads, interrupts between a site and its event,
    tracing switched on and off."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.executed: list[Call] = []
        self.printed: list[FunctionEvent] = []
        self.toggles = rng.random() < 0.7
        self.on = False
        self.lo, self.hi = 1 << 30, 1 << 30  # calls that are executed between these must be printed
        self._trap = 0
        self._open = 0  # calls whose event is not reserved yet

    def run(self) -> None:
        threads = {n: self._thread(n) for n in range(1, 4)}
        at, length = 1, self.rng.randint(20, 150)
        if not self.toggles:
            self.on, self.lo = True, 0
        while threads:
            if next(threads[at], "over") == "over":
                del threads[at]
            if self.toggles and len(
                    self.executed) > length // 4 and not self.on and self.hi == 1 << 30:
                self._switch_on()
            if self.toggles and len(self.executed) > length and self.on and not self._open:
                self.on, self.hi = False, len(self.executed)
            if threads and (at not in threads or self.rng.random() < 0.3):
                at = self.rng.choice(sorted(threads))

    def _switch_on(self) -> None:
        self.on, self.lo = True, len(self.executed)

    def _thread(self, thread: int) -> Iterator[None]:
        for _ in range(self.rng.randint(5, 60)):
            yield from self._call(thread, 0, 0)
            yield

    def _call(self, thread: int, level: int, trap: int) -> Iterator[None]:
        """A site, then the test of whether tracing is on, then the event. An interrupt may come
        between any two of them."""
        name = self.rng.choice("abcd") if self.rng.random() < 0.8 else "wl_e"
        self.executed.append(call(len(self.executed), name, level, thread=thread, trap=trap))
        self._open += 1
        yield from self._between(thread, level)
        on = self.on
        yield from self._between(thread, level)
        if on and self.on:
            self.printed.append(event(name, pid=thread, flags="d.h.." if level else "....."))
        self._open -= 1

    def _between(self, thread: int, level: int) -> Iterator[None]:
        if level == 2 or self.rng.random() > 0.15:
            return
        if self.toggles and not self.on and self.hi == 1 << 30 and self.rng.random() < 0.2:
            self._switch_on()  # done by another CPU
        self._trap += not level
        for _ in range(self.rng.randint(0, 3)):
            yield from self._call(thread, level + 1, self._trap)
        if level == 0 and self.rng.random() < 0.5:
            yield  # preempted


if __name__ == "__main__":
    unittest.main()

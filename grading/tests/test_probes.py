"""The checks of lab 8, with records made by hand: traps in slots, hits within hits, returns, live
patches, and schedules of all of these."""

from __future__ import annotations

import unittest
from pathlib import Path
from typing import Any

from grading.checks.probe_schedules import PATCH, patches_under_schedules, probes_under_schedules
from grading.elf.elf import Function, Site
from qemu.isa import ISAS
from grading.checks import rubric
from grading.evidence.evidence import Evidence
from grading.evidence.finding import Finding
from grading.machine.observer import Kind, Record
from grading.stimulus.schedules import CALLED, CALLER, Change, Played, Schedule, ScheduleRun
from grading.tests.test_registers import HandMade
from grading.truth import probes
from grading.truth.probes import AFTER, BEFORE, NEW_SECOND, NEW_TRACED, SAID, SECOND
from grading.truth.truth import Call
from qemu.machine import ARCHES

TEXT, SIZE = 0x10000, 0x40
NAMES = (*probes.CALLED, CALLED, BEFORE, AFTER, SAID, "probe_steps", "probe_trapped", "probe_inner",
         "caller", "klp_enable_patch", "klp_disable_patch", "register_kprobe", "unregister_kprobe",
         "return_to_handler", probes.FREES)
AT = {name: TEXT + SIZE * n for n, name in enumerate(NAMES)}
SLOTS = TEXT + SIZE * len(NAMES)
checks = rubric.checks_of(8)


class ProbeKernel(HandMade):
    """Each function has 16 words: a call site at the second, a return at the last; all others are
    different."""

    def __init__(self, arch: str) -> None:
        super().__init__(arch, "entry")
        self.functions = [Function(name, at, at + SIZE) for name, at in AT.items()
                          ] + [Function("kprobe_slots", SLOTS, SLOTS + 8 * probes.SLOTS)]
        self._starts = [f.start for f in self.functions]
        self._sizes = {f.name: f.end - f.start for f in self.functions}
        self.symbols = {f.name: f.start
                        for f in self.functions} | {
                            "_text": TEXT, "_etext": self.functions[-1].end,
                            "probe_trapped_first": AT["probe_trapped"] + 8,
                            "probe_inner_first": AT["probe_inner"] + 8,
                            probes.STEPS[0]: AT["probe_steps"] + 8,
                            probes.STEPS[1]: AT["probe_steps"] + SIZE
                        }
        text = bytearray(b"".join(
            self._plain(n) for n in range((self.functions[-1].end - TEXT) // 4)))
        for at in AT.values():
            text[at + SIZE - 4 - TEXT:at + SIZE - TEXT] = ISAS[arch].ret.to_bytes(4, "little")
        self.loaded = [(TEXT, bytes(text))]
        self.sites = [Site(f.start + 4, f, self.isa.nop, self.isa.nop) for f in self.functions[:-1]]

    def _plain(self, n: int) -> bytes:
        """An addition of a number, or a move of one."""
        return (0x13 | n % 2048 << 20 if self.arch == "riscv64" else 0xD2800000
                | n << 5).to_bytes(4, "little")


class HandMadeBoot(unittest.TestCase):
    """`records` are logged one after the other; the checks run on both architectures."""

    def setUp(self) -> None:
        self.log: list[Record] = []

    def hit(self, addr: int, *v: int, word: int = 0, vcpu: int = 0, thread: int = 7) -> int:
        a, b, c, d = (*v, 0, 0, 0, 0)[:4]
        self.log.append(
            Record(len(self.log), Kind.HIT, vcpu, 0, 0, 0, word, thread, addr, 0, (a, b, c, d), ()))
        return len(self.log) - 1

    def said(self, *v: int) -> int:
        return self.hit(AT[SAID], *v)

    def evidence(self, arch: str, part: str) -> Evidence:
        e = Evidence(arch, 8, 1, 0, ProbeKernel(arch), Path())
        e.truth.hits["step"] = self.log
        e.parts[part] = 0, len(self.log)
        return e

    def right(self, found: Finding | None) -> None:
        self.assertIsNone(found, found and found.why)

    def wrong(self, words: str, found: Finding | None, mistake: str = "") -> None:
        self.assertIsNotNone(found, f"nothing was found: {words}")
        assert found
        self.assertIn(words, found.why)
        self.assertEqual(found.mistake, mistake)


class Traps(HandMadeBoot):
    def call(self, trap: int, true: int, result: int = 0x5A5A1234, ran: tuple[int, int] = (1, 0),
             inner: int = 1, wrong: bool = False) -> None:
        """A call of probe_trapped with a trap in a slot, whose handler finds `true`, as an offset
        from the probed instruction."""
        second = trap == probes.SECOND_WORD
        at = AT["probe_trapped"] + (8 if second else 12)
        for name, times in zip((BEFORE, AFTER), ran):
            for _ in range(times):
                self.hit(AT[name], 0, at)
        self.said(probes.MASKED, 0, second != wrong)
        self.said(probes.MASKED, 1, True)
        for _ in range(inner if trap in (probes.FAULT, probes.PLAIN_FAULT) else 0):
            self.hit(AT[BEFORE], 1, AT["probe_inner"] + 8)
        if trap not in (probes.NO_TRAP, probes.PLAIN_FAULT):
            self.said(probes.TRAP, SLOTS + 16 + 4 * second, at + true)
        self.said(probes.TRAPPED, trap, result)

    def judged(self) -> Finding | None:
        found: list[Finding
                    | None] = [checks.traps(self.evidence(arch, "traps")) for arch in ARCHES]
        self.log = []
        # the same on both, but for the instruction
        self.assertEqual(*((f and (f.why.split("; ", 1)[1], f.mistake)) for f in found))
        return found[0]

    def test_the_handler_finds_the_original_pc(self) -> None:
        for trap, true in ((probes.SECOND_WORD, 4), (probes.FIRST_WORD, 0), (probes.FAULT, 0),
                           (probes.NO_TRAP, 0)):
            self.call(trap, true)
        self.assertEqual(len(checks._in_slots(self.evidence("arm64", "traps"), self.log)), 3)
        self.right(self.judged())
        for trap, true in ((probes.SECOND_WORD, 0), (probes.FIRST_WORD, 4), (probes.FAULT, 4)):
            self.call(trap, true)
            self.wrong("its handler must find probe_trapped", self.judged())
        for trap, found in ((probes.SECOND_WORD, SLOTS + 20), (probes.FAULT, SLOTS + 16)):
            self.call(trap, found - AT["probe_trapped"] - (8 if trap == probes.SECOND_WORD else 12))
            self.wrong("and found kprobe_slots+0x1", self.judged(), "pc-of-the-slot")

    def test_the_handler_of_another_trap_finds_pc(self) -> None:
        for true, right in ((0x1234, True), (0, False)):
            self.said(probes.TRAP, 0x1234, true)
            self.call(probes.NO_TRAP, 0)
            found = self.judged()
            self.right(found) if right else self.wrong("must find 0x1234, and found 0x0", found)

    def test_a_post_handler_finds_the_next_pc(self) -> None:
        first = AT["probe_trapped"] + 8
        for trap, next_pc, mistake in ((probes.SECOND_WORD, 4, None), (probes.FAULT, 8, None),
                                       (probes.FAULT, 4, ""),
                                       (probes.NO_TRAP, SLOTS + 4 - first, "pc-of-the-slot")):
            self.log = []
            self.said(probes.NEXT, 0, first + next_pc)
            self.said(probes.TRAPPED, trap, 0)
            found = checks.next_pc(self.evidence("arm64", "traps"))
            self.right(found) if mistake is None else self.wrong("must find the next instruction",
                                                                 found, mistake)

    def test_the_instruction_is_executed_after_the_trap(self) -> None:
        for trap, mistake in ((probes.FIRST_WORD, ""), (probes.FAULT,
                                                        "fault-taken-for-a-breakpoint")):
            self.call(trap, 0, result=8)
            self.wrong("must return 0x5a5a1234; it returned 0x8", self.judged(), mistake)

    def test_the_handlers_run_once(self) -> None:
        for ran in ((0, 0), (2, 0), (1, 1)):
            self.call(probes.FAULT, 0, ran=ran)
            self.wrong(f"the pre handler ran {ran[0]} times and the post handler {ran[1]} times",
                       self.judged())

    def test_a_handler_is_told_whether_interrupts_were_masked(self) -> None:
        for trap, was, true in ((probes.SECOND_WORD, "masked", 4), (probes.FIRST_WORD, "enabled",
                                                                    0)):
            self.call(trap, true, wrong=True)
            self.wrong(f"interrupts were {was}, and kprobe_irqs_off() said {was == 'enabled'}",
                       self.judged())

    def test_a_hit_in_the_fault_s_handler_is_no_hit_within_a_hit(self) -> None:
        for trap, ran in ((probes.FAULT, (1, 0)), (probes.PLAIN_FAULT, (0, 0))):
            for inner in (0, 2):
                self.call(trap, 0, inner=inner, ran=ran)
                self.wrong(f"its handler ran {inner} times", self.judged())

    def test_the_later_calls_have_a_post_handler(self) -> None:
        for after, right in ((1, True), (0, False), (2, False)):
            for _ in checks.TRAPS:
                self.call(probes.NO_TRAP, 0)
            self.call(probes.NO_TRAP, 0, ran=(1, after))
            found = self.judged()
            self.right(found) if right else self.wrong("must run 1 and 1 times", found)


class Insns(HandMadeBoot):
    def test_of_a_breakpoint_what_is_under_it_and_of_a_site_what_is_there(self) -> None:
        for arch in ARCHES:
            kernel, at, site = ProbeKernel(arch), AT["probe_steps"] + 8, AT["probe_steps"] + 4
            under, call = kernel.word(at), kernel.isa.call(site, AT["caller"],
                                                           {"riscv64": 5, "arm64": 30}[arch])
            for asked, there, told, right in ((at, ISAS[arch].brk, under,
                                               True), (at, ISAS[arch].brk, ISAS[arch].brk, False),
                                              (site, call, call, True), (site, call, kernel.isa.nop,
                                                                         False)):
                self.log = []
                self.said(probes.INSN, asked, told | there << 32)
                found = checks.insns(self.evidence(arch, "steps"))
                self.right(found) if right else self.wrong("break_hook->insn was asked", found)


class Stale(HandMadeBoot):
    def judged(self, *said: tuple[int, ...]) -> Finding | None:
        self.log = []
        for words in said:
            self.said(*words)
        found: Finding | None = checks.stale(self.evidence("arm64", "stale"))
        return found

    def ended(self, line: str, why: str = "") -> Finding | None:
        e = self.evidence("arm64", "stale")
        e.why, e.typed = why, [(0, line)]
        found: Finding | None = checks.ended_there(e)
        return found

    def test_a_boot_that_ended_there_says_so(self) -> None:
        self.wrong("it did not return: pass: load of an unmapped address",
                   self.ended("probe stale", "load of an unmapped address"), "found-nothing-dies")
        self.right(self.ended("probe stale"))
        self.right(self.ended("probe patches", "load of an unmapped address"))
        self.said(probes.STALE, 1, 0)  # it returned
        self.right(self.ended("probe stale", "load of an unmapped address"))

    def test_the_word_at_pc_decides_whose_breakpoint_it_is(self) -> None:
        right = (probes.STALE, 1, 0), (probes.NOBODYS, 0)
        self.right(self.judged(*right))
        self.wrong("it returned false", self.judged((probes.STALE, 0, 0), right[1]),
                   "found-nothing-dies")
        self.wrong("belongs to no probe, and returned true",
                   self.judged(right[0], (probes.NOBODYS, 1)), "nobodys-breakpoint-taken")


class Nested(HandMadeBoot):
    def way(self, number: int, arch: str, ran: tuple[int, int] = (2, 2),
            missed: tuple[int, ...] = (0, 1), copies: int = 3, breaks: int = 3) -> None:
        at = AT["probe_inner"] + 8
        self.said(probes.NESTED, number)
        for addr, times, value, word in ((at, breaks, 0, ISAS[arch].brk),
                                         (AT[BEFORE], ran[0], 1, 0), (SLOTS, copies, 0,
                                                                      ProbeKernel(arch).word(at)),
                                         (AT[AFTER], ran[1], 1, 0)):
            for _ in range(times):
                self.hit(addr, value, word=word)
        for count in missed:
            self.said(probes.COUNTS, 2, count)

    def test_the_bits_of_other_contexts_stay(self) -> None:
        for after, mistake in ((1, ""), (0, "context-forgotten"), (5, "")):
            self.log = []
            self.said(probes.CONTEXT, 1, after)
            found = checks.nested(self.evidence("arm64", "nested"))
            self.right(found) if after == 1 else self.wrong(f"recursion was {after:#x}", found,
                                                            mistake)

    def test_each_way_has_two_runs_and_a_missed_hit(self) -> None:
        for arch in ARCHES:
            ways = [(0, (0, 1)), (1, (0, 1)), (2, (1,)), (3, (0, 1))]
            tries: list[tuple[int, dict[str, Any], str, str]] = [
                (-1, {}, "", ""),
                (0, {"ran": (3, 3)}, "the handler of another probe", "handlers-nest"),
                (1, {"missed": (0, 0)}, "at a function's entry", "missed-not-counted"),
                (1, {"missed": (1, 1)}, "of the other probe it is 1", ""),
                (2, {"ran": (3, 3)}, "a tracer's callback", "handlers-nest"),
                (2, {"ran": (1, 1)}, "does not count as a hit within a hit", ""),
                (3, {"ran": (3, 0)}, "the post handler of another probe", "handlers-nest"),
                (3, {"ran": (2, 2)}, "its post handler 2 times", ""),
                (2, {"copies": 2}, "its instruction was executed 2 times", ""),
                (2, {"breaks": 1}, "its breakpoint was executed 1 times", "")
            ]
            for bad, options, words, mistake in tries:
                self.log = []
                for number, missed in ways:
                    given: dict[str, Any] = {
                        "missed": missed, "ran": (2, 2 * (number != 3)),
                        **(options if number == bad else {})
                    }
                    self.way(number, arch, **given)
                found = checks.nested(self.evidence(arch, "nested"))
                self.wrong(words, found, mistake) if words else self.right(found)


class KretprobeReturns(HandMadeBoot):
    PART = checks.Part("probe_value was called", "probe_value", [7, 10], [0])

    def judged(self, *log: tuple[str, int]) -> Finding | None:
        """`log`: "exit" with the value in the first argument register, or "handler" with the value
        that it found."""
        self.log = []
        for what, value in log:
            if what == "exit":
                self.hit(AT["probe_value"] + SIZE - 4, value)
            else:
                self.said(probes.RETURN, AT["caller"] + 8, value)
        self.said(probes.KRETPROBE, 0, 0)
        e = self.evidence("arm64", "returns")
        e.truth.calls = [
            Call(
                0, 0, 7, 0,
                Site(AT["probe_value"] + 4,
                     Function("probe_value", AT["probe_value"], AT["probe_value"] + SIZE), 0, 0), 1,
                parent=AT["caller"] + 8)
        ]
        mine = [r for r in self.log[:-1] if r.addr == AT[SAID]]
        found: Finding | None = checks._part_wrong(e, self.PART, mine, self.log[-1:])
        return found

    def test_the_handler_runs_after_the_function_and_finds_its_value(self) -> None:
        self.right(self.judged(("exit", 7), ("handler", 7), ("exit", 10), ("handler", 10)))
        self.wrong("the last function that had returned then is none",
                   self.judged(("handler", 7), ("exit", 7), ("handler", 10), ("exit", 10)))
        self.wrong(
            "found the value 0xa, and the last function that had returned then is probe_value, "
            "with 0x7",
            self.judged(("exit", 7), ("handler", 7), ("handler", 10), ("exit", 10)))
        self.wrong("found the value 0x8", self.judged(("exit", 7), ("handler", 8)))
        self.wrong("must find the values 0x7, 0xa", self.judged(("exit", 7), ("handler", 7)))


class Counts(HandMadeBoot):
    COUNTS = (probes.COUNTERS, 0x3000, 0x3008), (probes.COUNTERS, 0x4000, 0x4008)

    def judged(self, arch: str, said: list[int | None], at: int, atomic: bool) -> Finding | None:
        """`said`: kretprobes are registered, by number, and unregistered (-1); None: a store;
        -2: a load."""
        self.log = []
        e = self.evidence(arch, "returns")
        word = {"riscv64": (0x00B52023, 0x00B5202F), "arm64": (0xB9000020, 0x88087D49)}[arch]
        text = bytearray(e.kernel.loaded[0][1])
        text[:4] = word[atomic].to_bytes(4, "little")
        e.kernel.loaded = [(TEXT, bytes(text))]
        for n, what in enumerate(said):
            if what is None or what == -2:
                e.truth.writes.append(
                    Record(n, Kind.READ if what else Kind.WRITE, 0, 0, 0, 4, 0, 7, TEXT, 0,
                           (at, 1, 0, 0), ()))
                self.hit(0)
            else:
                self.said(*self.COUNTS[what] if what >= 0 else (probes.KRETPROBE, 0, 0))
        e.parts["returns"] = 0, len(self.log)
        found: Finding | None = checks.counts_atomically(e)
        return found

    def test_each_change_is_atomic(self) -> None:
        for arch in ARCHES:
            for at, name in ((0x3000, "active"), (0x3008, "nmissed")):
                self.right(self.judged(arch, [0, None, -1], at, True))
                self.wrong(f"stored into {name}", self.judged(arch, [0, -2, None, -1], at, False),
                           "count-not-atomic")  # after a load of another word
                self.wrong(f"stored into {name}", self.judged(arch, [0, None, -1], at, False),
                           "count-not-atomic")
            self.right(self.judged(arch, [None, 0, -1, None], 0x3000, False))  # not registered
            self.right(self.judged(arch, [0, 1, -1, None, -1], 0x4000, False))
            self.wrong("stored into active", self.judged(arch, [0, 1, -1, None, -1], 0x3000, False),
                       "count-not-atomic")
            self.right(self.judged(arch, [0, None, -1], 0x3010, False))  # another word


class Instances(HandMadeBoot):
    def judged(self, part: checks.Part,  # type: ignore[name-defined]
               *said: tuple[int, int]) -> Finding | None:
        self.log = []
        for words in said:
            self.said(probes.INSTANCE, *words)
        found: Finding | None = checks._instances_wrong(part, self.log)
        return found

    def test_each_has_its_kretprobe_and_its_data(self) -> None:
        plain = checks.Part("it", "f", [], [0])
        two = checks.Part("it", "f", [], [0, 0])
        data = checks.Part("it", "f", [], [0], [3, 4])
        self.right(self.judged(plain, (0x10, 0), (0x10, 9), (0x10, 0)))
        self.right(self.judged(two, (0x10, 0), (0x20, 0), (0x20, 0), (0x10, 0)))
        self.right(self.judged(data, (0x10, 3), (0x10, 4), (0x10, 0)))
        self.wrong("the handler found 0x20 in ri->rp",
                   self.judged(plain, (0x10, 0), (0x20, 0), (0x10, 0)))
        self.wrong("must find 3, 4 there, and found 3, 3",
                   self.judged(data, (0x10, 3), (0x10, 3), (0x10, 0)))


class Entered(HandMadeBoot):
    def test_the_entry_handler_finds_the_instance(self) -> None:
        part, home = checks.Part("it", "probe_value", [], [0]), AT["caller"] + 8
        for rp, ret, right in ((0x10, home, True), (0, home, False), (0x10, 0, False)):
            self.log = []
            self.said(probes.ENTERED, rp, ret)
            self.said(probes.INSTANCE, 0x10, 0)
            e = self.evidence("arm64", "returns")
            at = AT["probe_value"]
            e.truth.calls = [Call(0, 0, 7, 0, Site(at + 4, Function("probe_value", at, at + SIZE),
                                                   0, 0), 1, parent=home)]
            found = checks._entered_wrong(e, part, self.log[:1], self.log[1:])
            self.right(found) if right else self.wrong("Both must be set before it", found)


class Slots(HandMadeBoot):
    """Stores into a slot, and slots that are freed."""

    def stored(self, arch: str, *words: tuple[int, int]) -> Finding | None:
        e = self.evidence(arch, "steps")
        e.truth.stores = [
            Record(n, Kind.STORE, 0, 0, 0, 4, 0, 7, 0, 0, (SLOTS + 4 * at - TEXT, word, 0, 0), ())
            for n, (at, word) in enumerate(words)
        ]
        found: Finding | None = checks.slot_first(e)
        return found

    def test_words_that_are_right_are_not_written(self) -> None:
        for arch in ARCHES:
            ebreak, copy = ISAS[arch].brk, 0x1234567
            self.right(self.stored(arch, (0, copy), (1, ebreak)))  # a new slot
            # a post handler comes
            self.right(self.stored(arch, (0, copy), (1, 5), (0, copy), (1, ebreak)))
            # of another slot
            self.right(self.stored(arch, (0, copy), (1, ebreak), (2, ebreak), (3, 5)))
            self.wrong("both words of the slot kprobe_slots were right already",
                       self.stored(arch, (0, copy), (1, 5), (0, copy), (1, 5)))

    def test_the_copy_stays_while_its_breakpoint_is_there(self) -> None:
        for arch in ARCHES:
            ebreak, at = ISAS[arch].brk, AT["probe_steps"] + 8
            copy, place = ProbeKernel(arch).word(at), (at - SLOTS) // 4
            armed = (0, copy), (1, ebreak), (place, ebreak)
            self.right(self.stored(arch, *armed, (0, copy), (1, 5)))  # a post handler goes
            self.right(self.stored(arch, *armed, (place, copy), (0, ebreak)))
            self.wrong("was replaced while the breakpoint was in its place",
                       self.stored(arch, *armed, (0, ebreak)))

    def test_a_slot_out_of_reach_has_a_breakpoint(self) -> None:
        for arch in ARCHES:
            ebreak, copy = ISAS[arch].brk, ProbeKernel(arch).word(AT["probe_steps"] + 8)
            for result, first, second, right in ((0, copy, ebreak, True), (0, copy, 5, False),
                                                 (0, 5, ebreak, False), (-22, copy, ebreak, False)):
                self.log = []
                self.said(probes.FAR, result & (1 << 64) - 1, first | second << 32)
                found = checks.far_slot(self.evidence(arch, "steps"))
                self.right(found) if right else self.wrong(f"It returned {result}", found)

    def given_back(self, *log: str) -> Finding | None:
        e = self.evidence("arm64", "steps")
        e.kernel.symbols |= {"kprobe_slot_owner": 0x4000, "kprobe_buckets": 0x8000}
        e.kernel._sizes["kprobe_buckets"] = 512
        for n, what in enumerate(log):
            if what == "back":
                e.truth.writes.append(
                    Record(n, Kind.WRITE, 0, 0, 0, 8, 0, 7, 0, 0, (0x4000, 0, 0, 0), ()))
            else:
                e.truth.hits[what].append(
                    Record(n, Kind.HIT, 0, 0, 0, 0, 0, 7, 0, 0, (0, 0, 0, 0), ()))
        found: Finding | None = checks.slot_kept(e)
        return found

    def test_a_slot_is_given_back_after_a_grace_period(self) -> None:
        grace = "synchronize_sched"
        self.right(self.given_back(grace, "back", "kfree", grace, "back", "kfree"))
        self.wrong("no grace period had passed", self.given_back("back", "kfree"),
                   "slot-freed-at-once")

    def released(self, part: str, *log: str) -> Finding | None:
        self.log = []
        e, free = self.evidence("arm64", part), AT[probes.FREES]
        e.kernel.symbols["kprobe_slot_owner"] = 0x4000
        for what in log:
            self.hit(free, 0x3000, what != "stays")
            if what == "slot":
                e.truth.writes.append(
                    Record(len(self.log), Kind.WRITE, 0, 0, 0, 8, 0, 7, 0, 0, (0x4008, 0, 0, 0),
                           ()))
                self.hit(0)
            self.hit(free + SIZE - 4)
        e.parts[part] = 0, len(self.log)
        found: Finding | None = checks.released(e)
        return found

    def test_the_slot_of_a_point_that_is_freed_is_released(self) -> None:
        self.right(self.released(checks.ALL, "slot", "stays", "slot"))
        self.right(self.released("steps", "emulated"))
        self.wrong("its slot was not released", self.released(checks.ALL, "slot", "freed"),
                   "slot-not-released")
        self.wrong("its slot was not released", self.released(checks.GOING, "freed", "slot"),
                   "slot-not-released")

    def freed(self, unused: bool, words: str) -> Finding | None:
        """What kprobe_wait_and_free does, from its beginning to `end`."""
        self.log, at, point = [], AT[probes.FREES], 0x3000
        e = self.evidence("arm64", "steps")
        e.kernel.symbols["kprobe_buckets"] = 0x8000
        e.kernel._sizes["kprobe_buckets"] = 512
        self.hit(at, point, unused)
        for n, word in enumerate(words.split(), 1):
            here = Record(n, Kind.HIT, 0, 0, 0, 8, 0, 7, at + SIZE - 4, 0, (point, 0, 0, 0), ())
            if word == "unlink":
                e.truth.writes.append(here._replace(kind=Kind.WRITE, v=(0x8008, 0, 0, 0)))
            elif word == "end":
                self.log.append(here)
            else:
                e.truth.hits["synchronize_sched" if word == "grace" else word].append(here)
        found: Finding | None = checks.freed_in_time(e)
        return found

    def test_a_probe_is_given_up_after_a_grace_period(self) -> None:
        self.right(self.freed(False, "grace end"))
        self.right(self.freed(True, "unlink grace kfree end"))
        self.right(self.freed(True, "unlink grace end kfree"))  # a tail call
        self.wrong("for a point that has another probe, and no grace period had passed",
                   self.freed(False, "end grace"))
        self.wrong("for a point that has no probe left, and no grace period had passed",
                   self.freed(True, "unlink kfree end"))
        for words in ("grace unlink kfree end", "unlink kfree grace end"):
            self.wrong("must be unlinked, then a grace period must pass, then it is freed",
                       self.freed(True, words))
        self.wrong("its memory was not freed", self.freed(True, "unlink grace end"))


class AfterErrors(HandMadeBoot):
    """What must stay as it was after an error."""

    def overwritten(self, arch: str, *log: str) -> Finding | None:
        """A breakpoint is written, or a probe is unregistered whose point stays or is freed."""
        self.log = []
        e, free = self.evidence(arch, "overwritten"), AT[probes.FREES]
        for what in log:
            if what == "written":
                e.truth.stores.append(
                    Record(len(self.log), Kind.STORE, 0, 0, 0, 4, 0, 7, 0, 0,
                           (AT["probe_steps"] + 8 - TEXT, ISAS[arch].brk, 0, 0), ()))
                self.hit(0)
            else:
                self.hit(free, 0x3000, what == "freed")
                self.hit(free + SIZE - 4)
        e.parts["overwritten"] = 0, len(self.log)
        found: Finding | None = checks.armed_after_errors(e)
        return found

    def test_a_point_is_as_armed_as_before(self) -> None:
        for arch in ARCHES:
            self.right(self.overwritten(arch, "written", "stays", "freed"))
            self.wrong("no breakpoint was written", self.overwritten(arch, "stays", "freed"),
                       "armed-after-an-error")
            self.wrong("and was freed", self.overwritten(arch, "written", "freed"),
                       "armed-after-an-error")

    def test_the_error_of_the_write_is_returned(self) -> None:
        for result, said in ((-22, ""), (0, "enable_kprobe returned 0"), (-1, "returned -EPERM")):
            self.log = []
            e = self.evidence("arm64", "overwritten")
            e.truth.stores = [Record(0, Kind.STORE, 0, 0, 0, 4, 0, 7, 0, 0,
                                     (AT["probe_steps"] + 8 - TEXT, e.isa.brk, 0, 0), ())]
            self.said(probes.ENABLED, 0, result & (1 << 64) - 1)
            self.said(probes.ENABLED, 0, 0)
            self.hit(AT[probes.FREES], 0x3000, 0)
            self.hit(AT[probes.FREES] + SIZE - 4)
            e.parts["overwritten"] = 0, len(self.log)
            found = checks.armed_after_errors(e)
            self.wrong(said, found) if said else self.right(found)

    def test_the_table_of_patches_is_as_before(self) -> None:
        for left in (0, 1):
            self.log = []
            self.said(probes.LEFT, 6, left)
            found = checks.nothing_left(self.evidence("arm64", "patches"))
            self.wrong("a live patch of a function that does not exist was refused with -ENOENT, "
                       "and its entries are still in the table", found,
                       "entries-left") if left else self.right(found)


class InProgress(HandMadeBoot):
    def test_a_call_ends_where_it_began(self) -> None:
        for results, words in (((11, 12), ""), ((12, 12),
                                                "in the old function while its patch was enabled"),
                               ((11, 11), "in the new function while its patch was disabled")):
            self.log = []
            for change, result in enumerate(results):
                self.said(probes.LONG, change, result)
            found = checks.in_progress(self.evidence("arm64", "patches"))
            self.wrong(words, found) if words else self.right(found)


REGISTER = Change("register", "probe at 0 calls_traced+0x8 post", "register_kprobe",
                  comes=frozenset({0}))
UNREGISTER = Change("unregister", "probe off 0", "unregister_kprobe", goes=frozenset({0}))
ENABLE = Change("patch", "probe patch on", "klp_enable_patch", comes=frozenset({PATCH}))
DISABLE = Change("unpatch", "probe patch off", "klp_disable_patch", goes=frozenset({PATCH}))


class Schedules(HandMadeBoot):
    """A log is written as words: what CPU B does, and `ends` for the end of CPU A's change."""

    def judged(self, change: Change, words: str,
               arch: str = "riscv64") -> tuple[Finding | None, Finding | None]:
        kernel, at, self.log = ProbeKernel(arch), AT[CALLED] + 8, []
        e, calls, breakpoint = self.evidence(arch, "steps"), list[Call](), ISAS[arch].brk
        for word in words.split():
            if word == "call":
                calls.append(
                    Call(
                        self.hit(0), CALLER, 7, 0,
                        Site(AT[CALLED] + 4, Function(CALLED, AT[CALLED], AT[CALLED] + SIZE), 0, 0),
                        1))
            elif word == "ends":
                self.hit(AT[change.ends] + SIZE - 4)
            else:
                addr, value = {
                    "break": (at, breakpoint), "plain": (at, kernel.word(at)),
                    "copy": (SLOTS, kernel.word(at)), "second": (SLOTS + 4, breakpoint),
                    "before": (AT[BEFORE], 0), "after": (AT[AFTER], 0),
                    "old": (AT[CALLED] + 8, kernel.word(at)), "new": (AT[NEW_TRACED] + 8, 0),
                    "old2": (AT[SECOND] + 8, 0), "new2": (AT[NEW_SECOND] + 8, 0)
                }[word]
                self.hit(addr, word=value, vcpu=CALLER)
        e.truth.hits["step"], e.truth.calls = self.log, calls
        schedule = Schedule(change, "step", "")
        e.played = [Played(change, [schedule], 1, runs=[ScheduleRun(schedule, 0, len(self.log))])]
        return probes_under_schedules(e), patches_under_schedules(e)

    def is_right(self, change: Change, words: str) -> None:
        for arch in ARCHES:
            for found in self.judged(change, words, arch):
                self.right(found)

    def is_wrong(self, sentence: str, change: Change, words: str) -> None:
        for arch in ARCHES:
            self.wrong(sentence, self.judged(change, words, arch)[0])

    PROBED = "call break before copy second after"

    def test_each_call_executes_the_instruction_once(self) -> None:
        self.is_right(REGISTER, f"call plain ends {self.PROBED}")
        self.is_right(REGISTER, f"call break before ends copy second after {self.PROBED}")
        self.is_wrong("was executed 0 times in one call", REGISTER, f"call ends {self.PROBED}")
        self.is_wrong("was executed 2 times in one call", REGISTER,
                      f"call break before copy plain ends {self.PROBED}")
        self.is_wrong("was executed 1 times in one call, and the new function 1 times", ENABLE,
                      "call plain ends call new old2 plain")

    def test_a_probe_that_came_has_its_handlers_called_once(self) -> None:
        self.is_wrong("probe 0 was in effect 0 times", REGISTER, "call plain ends call plain")
        self.is_wrong("probe 0 was in effect 2 times", REGISTER,
                      f"call plain ends {self.PROBED} before")
        self.is_wrong("the post handler of probe 0 ran 0 times", REGISTER,
                      "call plain ends call break before copy second")

    def test_a_probe_that_went_has_left_its_handler_and_slot(self) -> None:
        self.is_right(UNREGISTER, f"{self.PROBED} ends call plain")
        self.is_wrong(
            "probe 0 was in effect for a call that began after unregister_kprobe had returned",
            UNREGISTER, f"call plain ends {self.PROBED}")
        self.is_wrong(
            "unregister_kprobe returned while another CPU was still about to execute kprobe_slots",
            UNREGISTER, "call break before ends copy call plain")

    def test_a_patch_decides_each_call(self) -> None:
        self.is_right(ENABLE, "call old old2 ends call new new2")
        self.is_right(DISABLE, "call new new2 ends call old old2")
        self.is_wrong("the live patch was in effect 0 times", ENABLE,
                      "call old old2 ends call old old2")
        self.is_wrong("the live patch was in effect for a call that began after klp_disable_patch",
                      DISABLE, "call new new2 ends call new new2")
        self.is_wrong(
            "klp_disable_patch returned while another CPU was still about to execute "
            "probe_new_traced",
            DISABLE, "call ends new old2 call old old2")

    def test_what_was_not_seen_is_not_right(self) -> None:
        self.is_wrong("register_kprobe did not return", REGISTER, "call plain")
        self.is_wrong("and 1 of these calls reached the tracer", REGISTER, "call plain ends")

    def test_all_functions_of_a_patch_change_at_once(self) -> None:
        for arch in ARCHES:
            for change, words, right in ((ENABLE, "call old new2 ends",
                                          True), (ENABLE, "call new old2 ends", False),
                                         (ENABLE, "call old old2 call new old2 ends",
                                          False), (DISABLE, "call new old2 ends",
                                                   True), (DISABLE, "call old new2 ends", False),
                                         (REGISTER, "call old new2 call new old2 ends", True)):
                found = self.judged(change, words, arch)[1]
                self.right(found) if right else self.wrong(
                    "all functions of a patch change at once", found, "patch-switched-piecewise")
                if found:
                    self.assertEqual(found.schedule, f"{change.name}:step")


if __name__ == "__main__":
    unittest.main()

"""Which schedules are played, and the checks of their calls, with calls made by hand.
labs/4-*/wrong tests real schedules."""

from __future__ import annotations

import json
import random
import struct
import tempfile
import unittest
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from grading.checks.schedule_checks import PLAYED, TRACER, right_under_schedules
from grading.checks.seen import too_little
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.machine.observer import Kind, Record, has_one
from grading.machine.machine import LONGEST, Run
from grading.seeds import scheduled
from grading.session.session import BUDGET
from grading.stimulus import schedules
from grading.stimulus.schedules import (CALLER, CHANGER, EACH_INSNS, EACH_SECONDS, Change, Played,
                                        Player, Schedule, ScheduleRun, some)
from grading.tests.test_registers import RecordedCalls, record
from grading.truth.truth import Call
from grading.verdict import Stopped

ENDS, ENDED = 0x5000, 50
OPS = 0x7000
REGISTER = Change("register", "op 0 see calls_traced", "register_ftrace_function",
                  stays=frozenset({1}), comes=frozenset({0}))
UNREGISTER = Change("unregister", "op 0 off", "unregister_ftrace_function", stays=frozenset({1}),
                    goes=frozenset({0}))
FILTER = Change("filter", "echo wl_begin > set_ftrace_filter", "ftrace_filter_commit",
                goes=frozenset({TRACER}))


def callback(op: int, seq: int) -> Record:
    return record(Kind.CALLBACK, 1, 0, 0, 0x123 if op == TRACER else OPS + 0x10 * op, seq=seq)


class Judged(RecordedCalls):
    hook = "entry"

    def setUp(self) -> None:
        for name, value in (("extent", (OPS, OPS + 0x80)), ("exits", [ENDS]), ("jumps_to", 0)):
            patch = mock.patch.object(Kernel, name, return_value=value)
            patch.start()
            self.addCleanup(patch.stop)

    def traced(self, seq: int, *ops: int, landed: int = 0, mask: int = 0) -> Call:
        call = self.call(mask=mask, seq=seq, callbacks=[callback(op, seq + 1) for op in ops])
        call.name, call.vcpu = "calls_traced", CALLER
        assert call.landed
        call.landed = call.landed._replace(seq=landed or seq + 2)
        return call

    def played(self, change: Change, *calls: Call, done: bool = True) -> Evidence:
        e = self.evidence("arm64", *calls)
        schedule = Schedule(change, "ftrace_startup+0x98", "op_see")
        e.played = [
            Played(change, [schedule] * 10, planned=1, runs=[ScheduleRun(schedule, 0, 100)])
        ]
        e.truth.hits["step"] = [record(Kind.HIT, ENDS, seq=ENDED)] if done else []
        return e

    def test_a_part_in_which_the_change_goes_on(self) -> None:
        """The change has not ended; the call must run the ops that stay."""
        for calls, words in (((self.traced(10, 1),), ""), ((self.traced(10, 0, 1),), ""),
                             ((self.traced(10, 0),), "op 1 was called 0 times"),
                             ((self.traced(10, 1, 2),), "op 2 was called for a call"),
                             ((), "the call did not reach the tracer")):
            e = self.played(REGISTER, *calls, done=False)
            e.played[0].runs[0].goes_on = True
            with self.subTest(words):
                if words:
                    self.assert_finding(right_under_schedules(e), words)
                else:
                    self.assertIsNone(right_under_schedules(e))

    def right(self, change: Change, *calls: Call) -> None:
        self.assertIsNone(right_under_schedules(self.played(change, *calls)))

    def wrong(self, words: str, change: Change, *calls: Call, done: bool = True) -> None:
        self.assert_finding(right_under_schedules(self.played(change, *calls, done=done)), words)

    def test_an_op_that_comes_may_be_called_before_and_must_be_after(self) -> None:
        self.right(REGISTER, self.traced(10, 1), self.traced(60, 0, 1))
        self.right(REGISTER, self.traced(10, 0, 1), self.traced(60, 0, 1))
        self.wrong("op 0 was called 0 times for one call", REGISTER, self.traced(10, 1),
                   self.traced(60, 1))

    def test_an_op_that_stays_is_called_once_whenever_it_is(self) -> None:
        for before, after in (((), (0, 1)), ((1,), (0,)), ((0, 1, 1), (0, 1))):
            self.wrong("op 1 was called", REGISTER, self.traced(10, *before),
                       self.traced(60, *after))

    def test_an_op_that_went_is_called_no_more(self) -> None:
        self.right(UNREGISTER, self.traced(10, 0, 1), self.traced(60, 1))
        self.right(UNREGISTER, self.traced(10, 1), self.traced(60, 1))
        self.wrong(
            "op 0 was called for a call that began after unregister_ftrace_function had returned",
            UNREGISTER, self.traced(10, 1), self.traced(60, 0, 1))

    def test_nobody_returns_while_a_call_of_what_went_is_under_way(self) -> None:
        self.wrong(
            "unregister_ftrace_function returned while another CPU was still in a call that op 0 "
            "traces",
            UNREGISTER, self.traced(10, 0, 1, landed=55), self.traced(60, 1))
        self.right(UNREGISTER, self.traced(10, 1, landed=55), self.traced(60, 1))
        self.wrong("still in a call that the function tracer traces", FILTER,
                   self.traced(10, TRACER, landed=55), self.traced(60))

    def test_an_interrupt_after_the_call_may_end_the_grace_period(self) -> None:
        """It comes when the tracer has been left, and before the function's first instruction is
        executed."""
        e = self.played(UNREGISTER, self.traced(10, 0, 1, landed=60), self.traced(80, 1))
        for pc, vcpu, seq, right in ((0, CALLER, 40, True), (8, CALLER, 40, False),
                                     (0, CHANGER, 40, False), (0, CALLER, 55, False)):
            e.truth.traps = [
                record(Kind.VECTOR, 0, 0, e.truth.calls[0].site.address + 4 + pc,
                       seq=seq)._replace(vcpu=vcpu)
            ]
            self.assertEqual(right_under_schedules(e) is None, right, (pc, vcpu, seq))

    def test_a_call_has_its_registers_and_comes_to_its_function(self) -> None:
        self.wrong("did not get the registers", REGISTER, self.traced(10, 1, mask=1 << 3),
                   self.traced(60, 0, 1))
        lost = self.traced(10, 1)
        lost.landed = None
        self.wrong("did not continue after its call site", REGISTER, lost, self.traced(60, 0, 1))

    def test_what_was_not_seen_is_not_right(self) -> None:
        self.wrong("had returned, and 1 of these calls reached the tracer", REGISTER,
                   self.traced(10, 1))
        self.wrong("register_ftrace_function did not return", REGISTER, self.traced(10, 1),
                   self.traced(60, 0, 1), done=False)
        e = self.played(REGISTER, self.traced(10, 1), self.traced(60, 0, 1))
        self.assertIsNone(too_little(e, [PLAYED]))
        for todo, shown in ((9, 1), (10, 0)):
            e.played[0].todo, e.played[0].runs = e.played[0].todo[:todo], e.played[0].runs[:shown]
            self.assertIsNotNone(too_little(e, [PLAYED]))
        e.played = []
        self.assertIsNotNone(too_little(e, [PLAYED]))


class Chosen(unittest.TestCase):
    def test_every_step_and_every_place_before_the_first_are_played(self) -> None:
        all_of_them = [
            Schedule(REGISTER, step, place) for step in ("a", "b", "c", "c#2")
            for place in ("", "x", "y", "z")
        ]
        for seed in range(20):
            chosen = some(all_of_them, 2, random.Random(seed))
            self.assertEqual([s for s in all_of_them if s in chosen], chosen)
            self.assertLessEqual(
                {(s.step, s.inside)
                 for s in all_of_them if not s.inside or s.step == "a"}, {(s.step, s.inside)
                                                                          for s in chosen})
            self.assertEqual(len(chosen), 4 + 3 + 2)
        self.assertEqual(some(all_of_them, 99, random.Random(1)), all_of_them)

    def test_a_second_seed_plays_its_own_only(self) -> None:
        all_of_them = [
            Schedule(REGISTER, step, inside) for step in "abc" for inside in ("", "x", "y")
        ]
        for seed in range(20):
            chosen = some(all_of_them, 2, random.Random(seed), again=True)
            self.assertEqual([
                s for s in some(all_of_them, 2, random.Random(seed)) if s.inside and s.step != "a"
            ], chosen)
            self.assertEqual(2, len(chosen))

    def test_a_second_seed_plays_all_if_the_first_found_something(self) -> None:
        def graded(*rungs: dict[str, str | None]) -> str:
            return json.dumps({"grades": [{"rungs": [{"boots": boots} for boots in rungs]}]})

        with tempfile.TemporaryDirectory() as folder:
            at = Path(folder)
            self.assertFalse(scheduled(at))
            for text, is_right in ((graded({"1": None, "4": None},
                                           {"0": None}), True), (graded({"1": "wrong"},
                                                                        {"0": None}), True),
                                   (graded({"1": None},
                                           {"0": "wrong"}), False), (graded({"1": None}), False),
                                   ('{"grades": []}', False), ("{", False)):
                (at / "grade.json").write_text(text)
                self.assertEqual(is_right, scheduled(at), text)

    def test_the_end_of_a_change_is_seen_although_its_record_was_unfinished(self) -> None:
        """A CPU reserved the slot of the last instruction's record, and was stopped by the host
        before it finished it."""
        other, end = (struct.pack("<BBBBHHIIQQQQQQ", Kind.HIT, 0, 0, 0, 0, 0, 0, 0, address, 0, 0,
                                  0, 0, 0) for address in (0x4000, ENDS))
        slots = bytearray(other + end + other)
        slots[len(other)] = 0
        player = mock.Mock()
        player.kernel.extent.return_value = (ENDS, ENDS + 4)
        player.kernel.exits.return_value = [ENDS]
        player.kernel.jumps_to.return_value = 0
        player.machine.observer.has = lambda first, wanted: has_one(
            bytes(slots[first * len(other):]), wanted)
        ended = Player.ended_since(player, REGISTER, 0)
        self.assertFalse(ended())
        slots[len(other)] = Kind.HIT
        self.assertTrue(ended())
        self.assertTrue(ended())

    def test_the_limits_grow_with_each_schedule_that_is_played(self) -> None:
        """321 schedules of lab 8 are more than one boot's limits allow."""
        player = mock.MagicMock(
            played=[], _dry=lambda change:
            ([Schedule(change, f"step+{n:#x}", "") for n in range(321)], 1))
        machine = Run(mock.Mock(), Path(), budget=BUDGET)
        player.machine.grant = machine.grant
        with mock.patch.multiple(schedules, interleaved=mock.MagicMock(), _Play=mock.Mock()):
            player._change = lambda played, some: played.runs.extend(some) or len(some)
            Player.play(player, REGISTER, 4, random.Random(1), "*")
        self.assertEqual(len(player.played[0].runs), 321)
        self.assertEqual((machine.budget, machine._longest),
                         (BUDGET + 321 * EACH_INSNS, LONGEST + 321 * EACH_SECONDS))

    def test_what_a_change_did_not_reach_is_played_in_another_one(self) -> None:
        """And each schedule with a place has a change of its own."""
        todo = [Schedule(REGISTER, step, place) for step in "abc" for place in ("", "x")]
        changes = list[str]()

        def change(played: Played, some: list[Schedule]) -> int:
            changes.append(" ".join(str(s).partition(":")[2] for s in some))
            return 2 if len(some) == 3 else 1
        player = mock.MagicMock(played=[], _dry=lambda _: (todo, 1), _change=change)
        Player.play(player, REGISTER, 4, random.Random(1))
        self.assertEqual(changes, ["a b c", "c", "a:x", "b:x", "c:x"])

    def test_a_cpu_that_may_have_a_spinlock_is_not_held(self) -> None:
        """When A waits for B, it may have been stopped in the scheduler, with a lock of CPU B: then
        B's call returned only if A went on."""
        held, made = set[int](), list[bool]()
        cpus = mock.Mock(go=lambda *which: held.difference_update(which),
                         hold=lambda *which: held.update(which),
                         serve=lambda cpu, often: held.add(cpu))
        player = mock.Mock(kernel=mock.Mock(name_at=hex), ended_since=lambda *_: lambda: bool(made),
                           want=lambda _: None, is_made=lambda: bool(made), when_held=None)

        def reach(places: set[int], but: set[int], until: object, insns: int = 0) -> int:
            reached, = {CHANGER, CALLER} - but
            held.add(reached)
            return reached

        def run(until: Callable[[], bool], insns: int = 0) -> bool:
            made.extend([True] if not held else [])
            return until()
        cpus.reach, cpus.run, cpus.all = reach, run, {CHANGER, CALLER}
        schedules._Play(player, cpus, REGISTER, 0,
                        1).run([Schedule(REGISTER, "ftrace_startup+0x98", "op_see")])
        self.assertTrue(made)

    def chain(self, steps: list[str], comes: list[str]) -> tuple[list[str], list[ScheduleRun]]:
        """Play schedules without a place during one change, in which A comes to these steps.
        Returns what happened, in order, and the parts of the log."""
        happened, left = list[str](), [*comes]
        cpus = mock.Mock(all={CHANGER, CALLER}, run=lambda until, insns=0: True)
        player = mock.Mock(address=lambda name: name, when_held=None,
                           want=lambda _: happened.append("call"))
        player.machine.observer.written = lambda: 10 * len(happened)

        def reach(places: set[str], but: set[int], until: object) -> int | None:
            while left:
                if (step := left.pop(0)) in places:
                    happened.append(step)
                    return CHANGER
            return None
        cpus.reach = reach
        runs = schedules._Play(player, cpus, REGISTER, 5, 1).run(
            [Schedule(REGISTER, step, "") for step in steps])
        return happened, runs

    def test_b_calls_at_each_step_of_one_change(self) -> None:
        happened, runs = self.chain(["a", "b", "a#2", "c"], ["a", "b", "a", "b", "a", "c"])
        self.assertEqual(happened, ["a", "call", "b", "call", "a", "call", "c", "call", "call"])
        self.assertEqual([(r.schedule.step, r.first, r.last, r.goes_on) for r in runs],
                         [("a", 5, 30, True), ("b", 30, 50, True), ("a#2", 50, 70, True),
                          ("c", 70, 0, False)])

    def test_the_second_time_counts_although_b_did_not_call_at_the_first(self) -> None:
        self.assertEqual(self.chain(["a#2"], ["a", "b", "a"])[0], ["a", "a", "call", "call"])

    def test_a_step_that_does_not_come_ends_the_change(self) -> None:
        happened, runs = self.chain(["a", "b", "c"], ["a", "c"])
        self.assertEqual(happened, ["a", "call", "call"])
        self.assertEqual([(r.schedule.step, r.goes_on) for r in runs], [("a", False)])
        happened, runs = self.chain(["b", "c"], ["a"])  # B calls once although A does not come
        self.assertEqual(happened, ["call", "call"])
        self.assertEqual([r.schedule.step for r in runs], ["b"])

    def test_the_steps_are_in_the_order_of_their_execution(self) -> None:
        log = [record(Kind.HIT, address) for address in (0x10, 0x11, 0x10, 0x11, 0x10, 0x12, ENDS)]
        player = mock.Mock(_steps={0x10: "a", 0x11: "b", 0x12: "c"}, _stopping=[0x20, 0x21],
                           _site="site", _places_of_call=set, _log=lambda _: log)
        player.kernel.extent.return_value = (ENDS, ENDS + 4)
        player.kernel.exits.return_value = [ENDS]
        player.kernel.jumps_to.return_value = 0
        todo, _ = Player._dry(player, REGISTER)
        self.assertEqual([s.step for s in todo if not s.inside], ["a", "b", "a#2", "b#2", "c"])

    def test_no_step_is_one_at_which_the_other_cpu_is_stopped(self) -> None:
        """Inside stop_machine() it waits for the change, and makes no call."""
        log = [record(Kind.HIT, address) for address in (0x10, 0x20, 0x11, 0x21, 0x12, ENDS)]
        player = mock.Mock(_steps={0x10: "before", 0x11: "inside",
                                   0x12: "after"}, _stopping=[0x20, 0x21], _site="site",
                           _places_of_call=set, _log=lambda _: log)
        player.kernel.extent.return_value = (ENDS, ENDS + 4)
        player.kernel.exits.return_value = [ENDS]
        player.kernel.jumps_to.return_value = 0
        todo, _ = Player._dry(player, REGISTER)
        self.assertEqual([s.step for s in todo if not s.inside], ["before", "after"])
        log.pop()
        with self.assertRaisesRegex(
                Stopped,
                "'op 0 see calls_traced': register_ftrace_function did not return on CPU 0"):
            Player._dry(player, REGISTER)

    def test_a_schedule_has_a_name(self) -> None:
        self.assertEqual(str(Schedule(REGISTER, "ftrace_startup+0x98", "op_see")),
                         "register:ftrace_startup+0x98:op_see")
        self.assertEqual(str(Schedule(REGISTER, "ftrace_startup+0x98#2", "")),
                         "register:ftrace_startup+0x98#2")


if __name__ == "__main__":
    unittest.main()

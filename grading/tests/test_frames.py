"""The checks of kern/apps/frames.c and rare.c: the evidence of a right boot is changed in one
place, and the right check must find it."""

from __future__ import annotations

import copy
import dataclasses
import unittest
from typing import Any

from grading.checks import rubric
from grading.checks import frames, graph_checks, order, rare
from grading.checks.checks import Check
from grading.checks.frames import NO_STACK, REFUSED, WANTED, Try
from grading.elf.elf import Kernel
from grading.evidence.evidence import Evidence
from grading.machine.observer import Kind, Record
from grading.tests.mutants import SEED, build
from grading.truth.returns import Span
from grading.verdict import Verdict
from qemu.machine import ARCHES, ROOT

CHECKS: tuple[Check, ...] = (frames.patched_if_wanted, frames.frames_kept, frames.room_given_back,
                             graph_checks.registers_given_back, graph_checks.link_replaced,
                             rare.own_calls, rare.walks, rare.refused, rare.filter_of_two,
                             rare.left, rare.sizes, rare.room)


def booted(lab: int, arch: str) -> Evidence:
    return rubric.lab(lab).session(Kernel(ROOT / f"build/{arch}/lab{lab}/callsite.elf", arch), lab,
                                   1, SEED, ROOT / f"build/tests/frames{lab}-{arch}.log").run()


class Swept(unittest.TestCase):
    boots: dict[str, Evidence]
    of_lab_5: Evidence

    @classmethod
    def setUpClass(cls) -> None:
        build(5)
        build(6)
        cls.boots = {arch: booted(6, arch) for arch in ARCHES}
        cls.of_lab_5 = booted(5, "riscv64")

    def forged(self, of: Evidence | None = None) -> Evidence:
        e = copy.copy(of or self.boots["riscv64"])
        e.truth = copy.copy(e.truth)
        e.truth.known = {}
        return e

    def sees(self, check: Check, e: Evidence, words: str) -> None:
        finding = check(e)
        self.assertIsNotNone(finding, "nothing was found")
        assert finding
        self.assertIn(words, finding.why)

    def try_(self, e: Evidence, answer: int, stage: str) -> Try:
        return next(t for t in frames.tries(e)
                    if (t.answer, t.stage) == (answer, stage) and t.interrupt)

    def change(self, span: Span, **fields: Any) -> None:
        for name, value in fields.items():
            self.addCleanup(setattr, span, name, getattr(span, name))
            setattr(span, name, value)

    def test_nothing_is_found_in_the_right_one(self) -> None:
        for arch, e in self.boots.items():
            for check in CHECKS:
                self.assertIsNone(check(e), arch)

    def test_an_interrupt_comes_at_each_instruction(self) -> None:
        for arch, e in self.boots.items():
            for answer in (WANTED, REFUSED):
                tries = [t for t in frames.tries(e) if t.answer == answer]
                at = {frames.position(t) for t in tries if t.interrupt}
                quiet = next(t.span for t in tries if not t.interrupt)
                assert quiet.body and quiet.leaving and quiet.leaving.back
                inside = quiet.body.insns - quiet.call.insns
                home = quiet.leaving.back.insns - quiet.leaving.left.insns
                wanted = {("entry", n)
                          for n in range(1, inside + 1)} | {("return", n)
                                                            for n in range(1, home)}
                self.assertEqual(wanted - at, set(), f"{arch}: no interrupt came there")

    def test_a_function_that_returns_elsewhere(self) -> None:
        for stage, words in (("entry", "was entered and overwrote"),
                             ("return", "read after it was released")):
            e = self.forged()
            span = self.try_(e, WANTED, stage).span
            assert span.leaving and span.leaving.back
            back = span.leaving.back._replace(addr=e.kernel.symbol("frames_lost"))
            self.change(span, leaving=dataclasses.replace(span.leaving, back=back))
            self.sees(frames.frames_kept, e, words)
            self.doCleanups()

    def test_a_link_register_that_nobody_replaced(self) -> None:
        e = self.forged()
        for span in (self.try_(e, WANTED, "entry").span,
                     next(s for s in e.spans(e.on()[0]) if s.name in e.on()[0].returning)):
            assert span.body
            self.change(span, body=span.body._replace(v=(0, 0, span.call.parent, 0)))
        self.sees(frames.patched_if_wanted, e, "was not replaced by return_to_handler")
        self.sees(graph_checks.link_replaced, e, "and its link register was")

    def test_a_link_register_that_was_replaced_for_nobody(self) -> None:
        e = self.forged()
        span = self.try_(e, REFUSED, "entry").span
        assert span.body
        self.change(span,
                    body=span.body._replace(v=(0, 0, e.kernel.symbol("return_to_handler"), 0)))
        self.sees(frames.patched_if_wanted, e,
                  "the user said no, and the return address was replaced")

    def test_a_panic_in_a_thread_without_a_shadow_stack(self) -> None:
        e = self.forged()
        last = next(t.before for t in frames.tries(e) if t.answer == NO_STACK)
        e.verdict = Verdict.PANIC
        self.assertEqual(frames.ended_without_stack(e), "")
        e.truth.frames = [r for r in e.truth.frames if r.seq <= last.seq]
        self.assertEqual(frames.ended_without_stack(e), frames.NOT_ASKED)

    def put(self, e: Evidence, old: Any, **fields: Any) -> None:
        e.truth.frames = [r._replace(**fields) if r is old else r for r in e.truth.frames]

    def test_a_frame_that_is_not_filled(self) -> None:
        for word in (frames.RET, frames.FUNC, frames.SP, frames.FP, frames.BELOW):
            e = self.forged()
            shown = next(t.within for t in frames.tries(e)
                         if t.within and t.stage == "body" and t.answer == WANTED)
            more = list(shown.more)
            more[8 + word] ^= 8
            self.put(e, shown, more=tuple(more))
            self.sees(frames.frames_kept, e, "was not complete")

    def test_a_frame_that_is_not_shown_while_its_function_runs(self) -> None:
        e = self.forged()
        t = self.try_(e, WANTED, "body")
        assert t.within
        self.put(e, t.within, v=(t.before.v[0], *t.within.v[1:]))
        self.sees(frames.frames_kept, e, "did not point to its shadow frame")

    def test_a_stack_that_is_not_put_back(self) -> None:
        for n in range(3):
            e = self.forged()
            after = self.try_(e, WANTED, "return").after
            v = list(after.v)
            v[n] += 8
            self.put(e, after, v=tuple(v))
            self.sees(frames.frames_kept, e, "is not as it was before the call")

    def test_a_walk_that_goes_astray(self) -> None:
        e = self.forged()
        t = next(t for t in frames.tries(e) if t.within and t.interrupt and t.stage == "return"
                 and e.kernel.name_at(t.interrupt.v[1]).startswith("ftrace_graph_return"))
        assert t.within
        self.put(e, t.within, v=(*t.within.v[:3], 0))
        self.sees(frames.frames_kept, e, "a stack walk did not find")

    def test_interrupts_that_come_elsewhere(self) -> None:
        e = self.forged()
        e.truth.frames = [r for r in e.truth.frames if not r.level]
        self.sees(frames.frames_kept, e, "the interrupts came at other ones")

    def test_tracing_that_is_switched_off(self) -> None:
        e = self.forged()
        after = frames.tries(e)[-1].after
        self.put(e, after, v=(*after.v[:3], 1))
        self.sees(frames.frames_kept, e, "ended graph tracing permanently")

    def test_a_program_that_was_not_run(self) -> None:
        e = self.forged()
        e.truth.frames = []
        self.sees(frames.patched_if_wanted, e, "these calls ended too early")

    def test_room_that_is_kept(self) -> None:
        e = self.forged()
        self.put(e, e.truth.frames[-1],
                 v=(e.truth.frames[-1].v[0], e.truth.frames[-1].v[1] + 16, 0, 0))
        self.sees(frames.room_given_back, e, "was not freed")

    # ---- rare.c ----

    def rare(self, e: Evidence, name: str) -> list[Record]:
        return [r for r in e.truth.rare if r.addr == e.kernel.symbol(name)]

    def put_rare(self, e: Evidence, old: Record, **fields: Any) -> None:
        e.truth.rare = [r._replace(**fields) if r is old else r for r in e.truth.rare]

    def without(self, e: Evidence, name: str, at: int) -> None:
        hits = list(e.truth.hits[name])
        del hits[at]
        e.truth.hits = e.truth.hits | {name: hits}

    def test_a_handler_that_is_told_of_its_own_calls(self) -> None:
        e = self.forged()
        inner = next(s.address for s in e.kernel.sites if s.function.name == "rare_inner")
        told = self.rare(e, "rare_return")[0]
        self.put_rare(e, told, more=(*told.more[:8], inner, *told.more[9:]))
        self.sees(rare.own_calls, e, "was called for it")
        e = self.forged()
        e.truth.rare = [r for r in e.truth.rare if r is not told]
        self.sees(rare.own_calls, e, "one entry and one return")

    def word(self, e: Evidence, r: Record, n: int, value: int) -> None:
        self.put_rare(e, r, v=(*r.v[:n], value, *r.v[n + 1:]))

    def test_a_walk_that_ends_elsewhere(self) -> None:
        """Each entry of a walk is changed, from the tracer's function on; and the two tracers'
        walks get different callers."""
        for who, (_, gate, by, *_) in enumerate(rare.WALKS):
            for further in range(3 if by == rare.LINK else 2):
                e = self.forged()
                walk, at = self.walk(e, who)
                self.word(e, walk[at + further], by, e.kernel.symbol("panic") + 8)
                self.sees(rare.walks, e, f"The walk must show {gate}")
    def test_a_record_of_the_assembly_s_that_leads_past_its_caller(self) -> None:
        e = self.forged()
        walk, at = self.walk(e, 0)
        self.word(e, walk[at - 1], rare.LINK, self.walk(e, 1)[0][at - 1].v[rare.LINK])
        self.assertIsNone(rare._assembly_between(e, rare._walks(e)))
        self.word(e, rare._walks(e)[0][at - 1], rare.LINK, e.kernel.symbol("panic") + 8)
        finding = rare._assembly_between(e, rare._walks(e))
        assert finding
        self.assertIn("found panic in its place", finding.why)

    def walk(self, e: Evidence, who: int) -> tuple[list[Record], int]:
        """The walk's records, and the index of the one in the tracer's assembly."""
        _, gate, by, *_ = rare.WALKS[who]
        walk = rare._walks(e)[who]
        return walk, next(n for n, r in enumerate(walk)
                          if e.kernel.name_at(r.v[by] - 4).startswith(f"{gate}+"))

    def test_an_answer_that_is_wrong(self) -> None:
        for kind, words in enumerate(rare.ANSWERS):
            e = self.forged()
            r = next(r for r in self.rare(e, "rare_answer") if r.v[0] == kind)
            self.word(e, r, 1, 0x1234)
            self.sees(rare.answered(kind), e, words)

    def test_handlers_that_walk_no_stack(self) -> None:
        e = self.forged()
        e.truth.rare = [r for r in e.truth.rare if r.addr != e.kernel.symbol("rare_walk")]
        self.sees(rare.walks, e, "0 of these 4 walks were seen")

    def test_a_registration_that_is_not_refused(self) -> None:
        for n, words in enumerate(
            ("-ENOSPC, and returned 0", "-EBUSY, and returned 0", "-ENODEV, and returned 0",
             "-ENODEV, and returned 0")):
            e = self.forged()
            self.word(e, self.rare(e, "rare_refused")[n], 1, 0)
            self.sees(rare.refused, e, words)
        e = self.forged()
        self.word(e, self.rare(e, "rare_refused")[0], 2, 0x1000)
        self.sees(rare.refused, e, "threads still have shadow stacks")

    def test_room_that_is_not_there(self) -> None:
        rooms = self.rare(self.forged(), "rare_room")
        self.assertEqual([(r.v[0] + 8 > r.v[1], bool(r.v[2]), r.v[3]) for r in rooms[-4:]],
                         [(False, True, 0), (True, False, 1), (False, True, 0), (True, False, 1)])
        for at, word, value, words in ((-3, 2, 0x1000, "it got them"), (-2, 2, 0,
                                                                        "it did not get them"),
                                       (-3, 3, 0, "must grow by 1"), (-2, 3, 1, "must not grow")):
            e = self.forged()
            self.word(e, self.rare(e, "rare_room")[at], word, value)
            self.sees(rare.room, e, words)

    def test_a_filter_that_the_one_that_left_took_with_it(self) -> None:
        e = self.forged()
        shared = next(s.address for s in e.kernel.sites if s.function.name == "rare_shared")
        e.truth.rare = [r for r in e.truth.rare if not r.more[8:] or r.more[8] != shared]
        self.sees(rare.filter_of_two, e, "two users had one filter")

    def test_functions_whose_returns_are_not_patched(self) -> None:
        e = self.forged()
        began = rare.calls(e)["rare_a"].seq
        e.truth.hits = e.truth.hits | {
            "return_to_handler": [r for r in e.truth.handlers if r.seq < began]
        }
        self.sees(rare.left, e, "none of them returned through return_to_handler")

    def test_a_frame_that_is_not_said_to_be_bad(self) -> None:
        e = self.forged()
        self.without(e, "ftrace_graph_stop", 0)
        self.sees(rare.left, e, "ftrace_graph_stop must be called with")

    def test_a_frame_that_fits_and_is_said_to_be_bad(self) -> None:
        e = self.forged()
        began = rare.calls(e)["rare_a"].seq
        handler = next(r for r in e.truth.handlers if r.seq > began)
        stops = e.truth.hits["ftrace_graph_stop"]
        e.truth.hits = e.truth.hits | {
            "ftrace_graph_stop": [stops[-1]._replace(seq=handler.seq + 1), *stops]
        }
        self.sees(rare.left, e,
                  "ftrace_graph_stop must not be called, because a frame with that sp is there")

    def test_users_that_are_not_told_of_calls_that_were_left(self) -> None:
        e = self.forged()
        e.truth.rare = [r for r in e.truth.rare if r.addr != e.kernel.symbol("rare_gone")]
        self.sees(rare.left, e, "handler 5 of the user must be rare_gone for rare_e")

    def test_a_handler_that_is_given_something_else(self) -> None:
        self.assertIsNone(rare.handed(self.of_lab_5))
        for name, n, word, words in (("rare_entry", 1, 9, "with the depth"),
                                     ("rare_entry", 1, 10, "with the calltime"),
                                     ("rare_gone", 0, 8, "with the func"),
                                     ("rare_return", -1, 10, "with the depth"),
                                     ("rare_return", -1, 11, "with the calltime")):
            e = self.forged(self.of_lab_5)
            given = self.rare(e, name)[n]
            more = list(given.more)
            more[word] += 1
            self.put_rare(e, given, more=tuple(more))
            self.sees(rare.handed, e, words)
        e = self.forged(self.of_lab_5)
        given = self.rare(e, "rare_return")[-1]
        more = list(given.more)
        more[10] += 1 << 32
        self.put_rare(e, given, more=tuple(more))
        self.sees(rare.handed, e, "with the overrun 0x3, and must be called with 0x2")

    def test_a_return_past_frames_that_goes_astray(self) -> None:
        for place in ("rare_home_f", "rare_home_c", "rare_home_a"):
            e = self.forged()
            self.without(e, place, 0)
            self.sees(rare.left, e, f"It must go to {place}")

    def test_frames_that_stay(self) -> None:
        for n, word in ((1, 0), (2, 1), (3, 2)):
            e = self.forged()
            stack = self.rare(e, "rare_stack")[n]
            v = list(stack.v)
            v[word] += 1
            self.put_rare(e, stack, v=tuple(v))
            self.sees(rare.left, e, "the frames above its own are popped too")

    def test_calls_that_were_left_and_not_counted(self) -> None:
        for n in (1, 2, 3):
            e = self.forged()
            stack = self.rare(e, "rare_stack")[n]
            self.word(e, stack, 3, stack.v[3] - 1)
            self.sees(rare.left, e, "each of them must be counted")

    def test_gone_handlers_of_users_that_said_no(self) -> None:
        e = self.forged()
        e.truth.rare = sorted([*e.truth.rare, self.rare(e, "rare_gone")[0]], key=lambda r: r.seq)
        self.sees(rare.left, e, "rare_e was left without a return, and 3 gone handlers")

    def test_gone_handlers_in_the_order_of_the_entry_handlers(self) -> None:
        e = self.forged()
        gone = self.rare(e, "rare_gone")
        self.word(e, gone[0], 1, gone[1].v[1])
        self.sees(rare.left, e, "must run in the reverse order")

    def test_a_handler_after_the_end(self) -> None:
        for name in ("rare_entry", "rare_return"):
            e = self.forged()
            e.truth.rare = [
                *e.truth.rare,
                self.rare(e, name)[0]._replace(seq=self.rare(e, "rare_stack")[-1].seq)
            ]
            self.sees(rare.left, e, "after that rare_")

    def test_data_of_another_size(self) -> None:
        for asked, word, words in ((9, 3, "must find 16"), (256, 2, "must find 256"),
                                   (257, 1, "got them"), (0, 2, "got them"), (2**64 - 1, 1,
                                                                              "-1 bytes")):
            e = self.forged()
            data = next(r for r in self.rare(e, "rare_data") if r.v[0] == asked)
            v = list(data.v)
            v[word] += 8
            self.put_rare(e, data, v=tuple(v))
            self.sees(rare.sizes, e, words)

    def test_a_bad_frame_after_which_users_are_found(self) -> None:
        for name in ("fgraph_slots", "fgraph_single.users"):
            e = self.forged()
            stop, (variable, _,
                   member) = e.truth.hits["ftrace_graph_stop"][0].seq, name.partition(".")
            at = e.kernel.symbol(variable) + (e.kernel.members(variable)[member] if member else 0)
            e.truth.writes = [r for r in e.truth.writes if r.seq < stop or r.v[0] != at]
            self.sees(order.dead_or_unused, e, f"{name} was not set to 0")

    def test_slots_that_do_not_end_behind_the_last_one(self) -> None:
        e = self.forged()
        left = next(s for s in order.steps(e) if s.line == "fgraph_op 0 off")
        e.truth.known = {}
        e.truth.writes = sorted([
            *e.truth.writes, left.writes[-1]._replace(v=(e.kernel.symbol("fgraph_slots"), 3, 0, 0))
        ])
        self.sees(order.users_in_time, e, "fgraph_slots is 3. The last slot in use is 15")

    def test_a_slot_that_is_read_twice(self) -> None:
        e = self.forged()
        lo, hi = e.kernel.extent("fgraph_array")
        calls = order._calls_of(e)
        for r in e.truth.writes:
            call = order._entered(calls.get(r.context, []), r.seq)
            if r.kind == Kind.READ and lo <= r.v[0] < hi and call and call.landed:
                break
        e.truth.writes = sorted([*e.truth.writes, r])
        self.sees(order.stamp_first, e, "read one slot twice")

    def test_stacks_that_are_begun_for_the_second_user_too(self) -> None:
        e = self.forged()
        begins = e.truth.hits["shadow_users_begin"]
        e.truth.hits = e.truth.hits | {"shadow_users_begin": [begins[0], *begins]}
        self.sees(order.stacks_in_time, e, "while an earlier one was registered")

    def test_a_register_that_a_return_loses(self) -> None:
        for number, name in ((10, "a0"), (11, "a1"), (2, "sp"), (8, "s0"), (27, "s11"), (4, "tp")):
            e = self.forged()
            span = next(s for s in e.spans(e.on()[0])
                        if s.leaving and s.leaving.back and s.leaving.back.addr == s.home)
            assert span.leaving and span.leaving.back
            back = span.leaving.back._replace(v=(1 << number, 0, 0, 0))
            self.change(span, leaving=dataclasses.replace(span.leaving, back=back))
            self.sees(graph_checks.registers_given_back, e,
                      f"{name} was not as the function had left it")
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()

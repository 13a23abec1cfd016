"""function_graph's checks with synthetic records and synthetic text."""

from __future__ import annotations

import unittest
from pathlib import Path
from unittest import mock

from grading.checks import rubric
from grading.checks import checks, graph_checks
from grading.checks.align import align
from grading.checks.checks import Check
from grading.checks.graph_align import differ, steps
from grading.elf.elf import Function, Kernel, Site
from grading.evidence.evidence import Evidence, Filter, Phase, User
from grading.machine.observer import Kind, Record
from grading.session.graph_session import GraphSession
from grading.text.graph_text import ENTRY, RETURN, GraphEvent, GraphTrace
from grading.truth.returns import Places, Reader, Span
from grading.truth.truth import AT_ENTRY, AT_RETURN, Call, UserEvent

HANDLER = 0x100
NAMES = ["wl_a", "wl_b", "wl_c", "wl_i"]


def entry(name: str) -> int:
    return 0x1000 * (1 + NAMES.index(name))


# Each function has a site, a body, a call of each other function (0x10 bytes apart), and a return.
SITES = {n: Site(entry(n), Function(n, entry(n), entry(n) + 0x800), 0, 0) for n in NAMES}
CALL = {(maker, n): (entry(maker) if maker else 0x9000) + 0x100 + 0x10 * i
        for maker in [*NAMES, ""] for i, n in enumerate(NAMES)}
PLACES = Places(HANDLER, {s.address + 4: s
                          for s in SITES.values()}, {s.address + 0x400: s
                                                     for s in SITES.values()},
                {a + 4
                 for a in CALL.values()})
Context = tuple[int, int, int]  # thread, level, trap
THREAD = (1, 0, 0)


class Story:
    """Makes the records of a simulated machine; each record comes ten instructions after the last.
    """

    def __init__(self) -> None:
        self.reader = Reader(PLACES)
        self.seq = 0
        # the calls in flight: function, return address, sp
        self.out: dict[Context, list[tuple[str, int, int]]] = {}
        self.users: list[Record] = []

    def record(self, kind: Kind, addr: int, who: Context = THREAD, user: int = 0) -> Record:
        self.seq += 1
        thread, level, trap = who
        return Record(self.seq, kind, 0, level, trap, 0, 0, thread, addr, 10 * self.seq,
                      (0, user, 0, 0))

    def body(self, name: str, who: Context = THREAD) -> None:
        self.reader.body(self.record(Kind.BODY, entry(name) + 4, who))

    def exit(self, name: str, who: Context = THREAD) -> None:
        self.reader.exit(self.record(Kind.EXIT, entry(name) + 0x400, who))

    def handler(self) -> None:
        self.reader.handler(self.record(Kind.HIT, HANDLER))

    def home(self, address: int, who: Context = THREAD) -> None:
        self.reader.home(self.record(Kind.HOME, address, who))

    def tell(self, *users: int) -> None:
        self.users += [self.record(Kind.CALLBACK, 0x200, user=user) for user in users]

    def enter(self, name: str, who: Context = THREAD, tail: bool = False,
              body: bool = True) -> None:
        out = self.out.setdefault(who, [])
        maker, home, sp = out[-1] if out else ("", 0, 0x8000)
        if not tail:
            home, sp = CALL[maker, name] + 4, sp - 16
        r = self.record(Kind.SITE, entry(name), who)
        self.reader.site(
            r,
            Call(r.seq, 0, who[0], who[1], SITES[name], 0, who[2], parent=HANDLER if tail else home,
                 sp=sp))
        out.append((name, home, sp))
        if body:
            self.body(name, who)

    def leave(self, hits: int = 1, who: Context = THREAD, home: int | None = None,
              tails: int = 0) -> None:
        out = self.out[who]
        name, address, _ = out[-1]
        del out[len(out) - 1 - tails:]
        self.exit(name, who)
        for _ in range(hits):
            self.reader.handler(self.record(Kind.HIT, HANDLER, who))
        self.home(address if home is None else home, who)

    @property
    def spans(self) -> list[Span]:
        return self.reader.returns.spans


def event(kind: str, func: str, depth: int = 0, ns: int | None = None, cpu: int = 0) -> GraphEvent:
    return GraphEvent(kind, cpu, "workload", 7, depth, func, 0, f"{kind} {func}", ns)


def printed(text: str) -> list[GraphEvent]:
    """The records of nested calls written as `a{ b{ } }`."""
    events: list[GraphEvent] = []
    names: list[str] = []
    for word in text.split():
        if word == "}":
            events.append(event(RETURN, names.pop(), len(names)))
        else:
            events.append(event(ENTRY, "wl_" + word[0], len(names)))
            names.append("wl_" + word[0])
    return events


class Returning(unittest.TestCase):
    def test_a_call_has_a_maker_a_depth_and_a_home(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b")
        story.leave()
        story.leave()
        a, b = story.spans
        self.assertEqual((a.depth, b.depth, b.maker), (1, 2, a))
        assert b.leaving and b.leaving.back
        self.assertEqual((b.leaving.back.addr, len(b.leaving.hits)), (b.home, 1))

    def test_a_tail_call_ends_both(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b", tail=True)
        story.enter("wl_c", tail=True)
        story.leave(hits=3, tails=2)
        a, b, c = story.spans
        self.assertEqual([s.tail for s in (a, b, c)], [False, True, True])
        assert c.leaving
        self.assertEqual(c.leaving.spans, [c, b, a])
        self.assertEqual((a.home, c.home), (CALL["", "wl_a"] + 4,) * 2)

    def test_of_a_chain_with_a_frame_too_few_the_innermost_returns_first(self) -> None:
        """The user of wl_c was already unregistered when wl_c was entered, but the site still held
        a call."""
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b", tail=True)
        story.enter("wl_c", tail=True)
        story.leave(hits=2, tails=2)
        found = steps(story.spans, ["wl_a", "wl_b"], lambda span: True)[0]
        self.assertEqual([(s.kind, s.span.name) for s in found],
                         [(ENTRY, "wl_a"), (ENTRY, "wl_b"), (RETURN, "wl_b"), (RETURN, "wl_a")])

    def test_an_interrupt_has_calls_of_its_own_above_the_threads(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_i", (1, 1, 1))
        story.leave(who=(1, 1, 1))
        story.leave()
        a, i = story.spans
        self.assertEqual((i.maker, i.below, i.depth), (None, a, 1))

    def test_a_handler_that_nobody_waits_for_is_stray(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.handler()
        self.assertEqual(len(story.reader.returns.stray), 1)


class Aligning(unittest.TestCase):
    def story(self) -> Story:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b")
        story.leave()
        story.enter("wl_c")
        story.leave()
        story.leave()
        return story

    def why(self, story: Story, text: str, names: set[str] = set(NAMES),
            traced: set[str] = set(NAMES)) -> str:
        found = align(steps(story.spans, names, lambda s: s.name in traced), printed(text),
                      differ)[0].divergence
        return found.why if found else ""

    def test_the_same_nesting_agrees(self) -> None:
        self.assertEqual(self.why(self.story(), "a{ b{ } c{ } }"), "")

    def test_a_wrong_nesting_is_named(self) -> None:
        self.assertIn("executed the return of wl_b, printed the entry of wl_c",
                      self.why(self.story(), "a{ b{ c{ } } }"))

    def test_a_wrong_depth_is_named(self) -> None:
        said = printed("a{ b{ } c{ } }")
        said[1] = event(ENTRY, "wl_b", 2)
        found = align(steps(self.story().spans, NAMES, lambda s: True), said, differ)[0].divergence
        self.assertIn("1 traced calls are around it, and the printed depth is 2",
                      found.why if found else "")

    def test_a_missing_return_is_named(self) -> None:
        said = printed("a{ b{ } c{ } }")[:-1]
        found = align(steps(self.story().spans, NAMES, lambda s: True), said, differ)[0].divergence
        self.assertIn("executed, but not printed: return of wl_a", found.why if found else "")

    def test_an_invented_call_is_named(self) -> None:
        self.assertIn("printed, but not executed", self.why(self.story(), "a{ b{ } c{ } } b{ }"))

    def test_neighbours_show_the_place(self) -> None:
        found = align(steps(self.story().spans, NAMES, lambda s: True), printed("a{ b{ } b{ } }"),
                      differ)[0].divergence
        assert found
        self.assertEqual([row for row in found.neighbours() if row[2]],
                         [("  wl_c() {", "  wl_b() {", True)])

    def test_what_the_filter_leaves_out_is_not_counted(self) -> None:
        self.assertEqual(self.why(self.story(), "b{ } c{ }", {"wl_b", "wl_c"}, {"wl_b", "wl_c"}),
                         "")

    def test_another_users_frames_may_count(self) -> None:
        said = [event(ENTRY, "wl_b", 1), event(RETURN, "wl_b", 1)]
        self.assertIsNone(
            align(steps(self.story().spans, {"wl_b"}, lambda s: True), said, differ)[0].divergence)

    def test_the_frames_of_who_is_leaving_may_count_or_not(self) -> None:
        story = Story()
        for name in ("wl_a", "wl_b", "wl_c"):
            story.enter(name)
        for _ in range(3):
            story.leave()
        for depth, fits in ((0, True), (1, True), (2, True), (3, False)):
            said = [event(ENTRY, "wl_c", depth), event(RETURN, "wl_c", depth)]
            executed = steps(story.spans, {"wl_c"}, lambda s: True, lambda s: s.name in
                             ("wl_a", "wl_b"))
            self.assertEqual(
                align(executed, said, differ)[0].divergence is None, fits, f"depth {depth}")

    def test_who_is_leaving_and_came_back_through_the_handler_had_a_frame(self) -> None:
        # counting the user's own frames, or all frames
        for hits, may_be in ((1, {0, 2}), (0, {0, 1, 2})):
            story = Story()
            for name in ("wl_a", "wl_b", "wl_c"):
                story.enter(name)
            for through in (1, 1, hits):
                story.leave(through)
            e = evidence(story)
            phase = e.phases[0]
            phase.users = [User("", Filter("wl_c", "", frozenset({"wl_c"})))]
            phase.users.append(
                User("instances/b/", Filter("wl_[ab]", "", frozenset({"wl_a", "wl_b"})),
                     leaves=True))
            with mock.patch.object(checks, "calls_tracer", return_value=True):
                for depth in range(4):
                    phase.users[0].trace.events = [
                        event(ENTRY, "wl_c", depth),
                        event(RETURN, "wl_c", depth)
                    ]
                    e.truth.known = {}
                    found = graph_checks.aligned(e, phase, phase.users[0])[0].divergence
                    self.assertEqual(found is None, depth in may_be,
                                     f"wl_a came back by {hits}, depth {depth}")

    def interrupted(self) -> Story:
        """An interrupt comes between wl_b's site and its body, and calls wl_b too."""
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b", body=False)
        story.enter("wl_b", (1, 1, 1))
        story.leave(who=(1, 1, 1))
        story.body("wl_b")
        story.enter("wl_c")
        story.leave()
        story.leave()
        story.leave()
        return story

    def test_an_interrupt_may_print_first(self) -> None:
        self.assertEqual(self.why(self.interrupted(), "a{ b{ } b{ c{ } } }"), "")

    def test_an_interrupt_may_print_in_its_place(self) -> None:
        self.assertEqual(self.why(self.interrupted(), "a{ b{ b{ } c{ } } }"), "")

    def test_a_frame_that_is_leaving_may_count_for_all_that_an_interrupt_calls(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.exit("wl_a")
        story.enter("wl_i", (1, 1, 1))
        story.enter("wl_b", (1, 1, 1))
        story.leave(who=(1, 1, 1))
        story.leave(who=(1, 1, 1))
        story.handler()
        story.home(story.spans[0].home)
        for deep in (0, 1):
            said = [
                event(ENTRY, "wl_a"),
                event(ENTRY, "wl_i", deep),
                event(ENTRY, "wl_b", deep + 1),
                event(RETURN, "wl_b", deep + 1),
                event(RETURN, "wl_i", deep),
                event(RETURN, "wl_a")
            ]
            found = align(steps(story.spans, NAMES, lambda s: True), said, differ)[0].divergence
            self.assertEqual(found.why if found else "", "")

    def test_an_event_may_stand_between_two_interrupts(self) -> None:
        story = Story()
        story.enter("wl_a", body=False)
        for trap in (1, 2):
            story.enter("wl_i", (1, 1, trap))
            story.leave(who=(1, 1, trap))
        story.body("wl_a")
        story.leave()
        self.assertEqual(self.why(story, "i{ } a{ i{ } }"), "")

    def test_an_interrupt_may_not_print_after_the_thread_went_on(self) -> None:
        self.assertNotEqual(self.why(self.interrupted(), "a{ b{ c{ } b{ } } }"), "")

    def test_an_interrupt_behind_the_body_may_not_print_first(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_i", (1, 1, 1))
        story.leave(who=(1, 1, 1))
        story.leave()
        self.assertEqual(self.why(story, "a{ i{ } }"), "")
        self.assertNotEqual(self.why(story, "i{ } a{ }"), "")


class NoKernel(Kernel):
    """A kernel without a file that only gives names to addresses."""

    def __init__(self) -> None:  # pylint: disable=super-init-not-called
        self.arch, self.path = "riscv64", Path("callsite.elf")

    def name_at(self, address: int) -> str:
        return f"{address:#x}"


def evidence(story: Story, smp: int = 1) -> Evidence:
    e = Evidence("riscv64", 6, smp, 0, NoKernel(), Path())
    e.truth.returns = story.reader.returns
    e.truth.users = story.users
    everything = Filter("wl_*", "", frozenset(NAMES))
    e.phases = [Phase("trace", 0, everything, 0, story.seq + 1, users=[User("", everything)])]
    return e


class Checks(unittest.TestCase):
    def why(self, check: Check, e: Evidence) -> str:
        found = check(e)
        return found.why if found else ""

    def test_right(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b", tail=True)
        story.leave(hits=2, tails=1)
        for check in (graph_checks.through_handler, graph_checks.comes_home):
            self.assertEqual(self.why(check, evidence(story)), "")

    def test_a_return_past_the_tracer(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.leave(hits=0)
        self.assertIn("returned without the tracer",
                      self.why(graph_checks.through_handler, evidence(story)))

    def test_a_tail_call_whose_maker_is_lost(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b", tail=True)
        story.leave(hits=1, tails=1)
        self.assertIn("when wl_b <- wl_a returned, 2 traced calls ended",
                      self.why(graph_checks.through_handler, evidence(story)))

    def test_a_call_that_never_returned(self) -> None:
        story = Story()
        story.enter("wl_a")
        self.assertIn("never returned", self.why(graph_checks.through_handler, evidence(story)))

    def test_a_return_to_a_wrong_place(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b")
        story.leave(home=CALL["wl_a", "wl_c"])
        self.assertIn(
            f"wl_b must return to {CALL['wl_a', 'wl_b'] + 4:#x}, and went to "
            f"{CALL['wl_a', 'wl_c']:#x}",
            self.why(graph_checks.comes_home, evidence(story)))

    def lasted(self, ns: int, smp: int = 1, more: int = 60) -> str:
        story = Story()
        story.enter("wl_a")
        story.seq += more
        story.leave()
        e = evidence(story, smp)
        e.phases[0].users[0].trace = GraphTrace(
            "function_graph",
            [event(ENTRY, "wl_a"), event(RETURN, "wl_a", 0, ns)])
        return self.why(graph_checks.durations, e)

    def test_a_duration_within_what_was_executed(self) -> None:
        self.assertEqual(self.lasted(620), "")

    def test_a_duration_that_is_too_short_or_too_long(self) -> None:
        for ns in (400, 900):
            self.assertIn("instructions ran", self.lasted(ns))
            self.assertEqual(self.lasted(ns, smp=4), "")
        self.assertIn("each return is printed with 0.000 us", self.lasted(0, smp=4))
        self.assertIn("instructions ran", self.lasted(900, smp=4, more=60_000))

    def test_no_call_began_before_the_line_before_its_entry(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b")
        story.leave()
        story.leave()
        for ns, words in ((10_900, ""), (12_000, "was printed 10 us before its return")):
            e = evidence(story, 4)
            e.phases[0].users[0].trace = GraphTrace("function_graph", [
                event(ENTRY, "wl_a")._replace(usec=30),
                event(ENTRY, "wl_b", 1)._replace(usec=35),
                event(RETURN, "wl_b", 1, ns)._replace(usec=40, line="}"),
                event(RETURN, "wl_a", 0, 99_000)
            ])
            found = self.why(graph_checks.durations, e)
            self.assertIn(words, found)
            self.assertEqual(bool(words), bool(found))

    def test_parts_longer_than_the_whole(self) -> None:
        story = Story()
        story.enter("wl_a")
        story.enter("wl_b")
        story.leave()
        story.leave()
        e = evidence(story, 4)
        said = [
            event(ENTRY, "wl_a"),
            event(ENTRY, "wl_b", 1),
            event(RETURN, "wl_b", 1, 500),
            event(RETURN, "wl_a", 0, 400)
        ]
        e.phases[0].users[0].trace = GraphTrace("function_graph", said)
        self.assertIn("and the calls that it made lasted 0.500 us",
                      self.why(graph_checks.durations, e))

    def order_finding(self, entries: list[int], returns: list[int]) -> str:
        """The finding for users whose handlers ran in this order at the entry and at the return."""
        story = Story()
        story.enter("wl_a", body=False)
        story.tell(*entries)
        story.body("wl_a")
        story.exit("wl_a")
        story.handler()
        story.tell(*returns)
        story.home(story.spans[0].home)
        e = evidence(story)
        e.phases[0].users *= 2
        return self.why(rubric.checks_of(6).reverse, e)

    def test_the_last_told_of_the_entry_is_the_first_told_of_the_return(self) -> None:
        self.assertEqual(self.order_finding([1, 2], [2, 1]), "")

    def test_the_wrong_order(self) -> None:
        self.assertIn("ran in a wrong order", self.order_finding([1, 2], [1, 2]))

    def test_a_user_that_is_not_told(self) -> None:
        self.assertIn("user 0 said yes at the entry, and was not called at the return",
                      self.order_finding([1, 2], [2]))
        self.assertIn("ran for 1 of them", self.order_finding([1], [1]))


class Asleep(unittest.TestCase):
    """The session waits until the thread sleeps, and not for a fixed time: on a busy host a thread
    may need long."""

    def typed(self, *walks: str) -> list[str]:
        session, machine = GraphSession(NoKernel(), 6, 4, 0, Path()), mock.MagicMock()
        said = {"sleep 1000000 &": iter(["[3] thread 9\n"]), "ps -s": iter(walks)}
        machine.console.command.side_effect = lambda line, *_: next(said.get(line, iter([""])),
                                                                    "none")
        session._walk(machine)
        return [call.args[0] for call in machine.console.command.call_args_list]

    def test_the_stacks_are_looked_at_until_it_sleeps(self) -> None:
        begin = ["fgraph_op 0 see sleep_ns", "sleep 1000000 &"]
        end = ["fgraph_op 0 off", "kill 3; wait"]
        self.assertEqual(self.typed("       sleep_ns+0x4/0x8\n"), [*begin, "ps -s", *end])
        self.assertEqual(self.typed("ready", "running", "       sleep_ns+0x4/0x8\n"),
                         [*begin, *["ps -s"] * 3, *end])
        self.assertEqual(
            self.typed("ready").count("ps -s"), 100,
            "one that never sleeps does not hold up the grade for ever")


if __name__ == "__main__":
    unittest.main()

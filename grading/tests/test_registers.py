"""Checks of registers and of executed words, with calls and records made by hand."""

from __future__ import annotations

import re
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from grading.checks import checks, entry, integrity, registers, rubric, seen
from grading.checks.graph_checks import registers_given_back
from grading.elf.elf import Function, Kernel, Site
from qemu.isa import ARM64, ISAS
from grading.evidence.evidence import Evidence, Phase, Filter, Spoilt
from grading.evidence.finding import Finding
from grading.machine.observer import Kind, Record
from grading.truth import truth
from grading.truth.returns import Leaving, Span
from grading.truth.truth import KEPT_NOTHING, MOST_FRAME, Call
from qemu.machine import ARCHES

TEXT, CALLER, OP = 0x10000, 0x10804, 0x9000
NAMED = ("wl_a", "entry_traced", "text_alias_close", "caller", "entry_elsewhere", "entry_through",
         "ftrace_call", "ftrace_caller", "entry_tracer", "entry_skipper")
FUNCTIONS = [
    Function(name, TEXT + 0x200 * n, TEXT + 0x200 * (n + 1)) for n, name in enumerate(NAMED)
]
SP, FP, PARENT = 0x8000, 0x8100, TEXT + 0x600 + 4  # in `caller`
PATTERN = registers.PATTERN << 32


class HandMade(Kernel):
    """A kernel without a file: ten functions, each with a call site at its second word."""

    def __init__(self, arch: str, hook: str) -> None:  # pylint: disable=super-init-not-called
        self.arch, self.path, self.isa = arch, Path("callsite.elf"), ISAS[arch]
        self.functions, self._starts = FUNCTIONS, [f.start for f in FUNCTIONS]
        self.symbols = {f.name: f.start
                        for f in FUNCTIONS
                        } | {"_text": TEXT, "_etext": FUNCTIONS[-1].end, "function_trace_op": OP}
        self._several, self.entries, self.loaded = set(), [1] * (hook == "entry"), [(TEXT,
                                                                                     bytes(0x2000))]
        self._sizes: dict[str, int] = {}
        self.sites = [Site(f.start + 4, f, self.isa.nop, self.isa.nop) for f in FUNCTIONS[:3]]


def record(kind: Kind, addr: int, *v: int, seq: int = 1, more: tuple[int, ...] = (),
           word: int = 0) -> Record:
    a, b, c, d = (*v, 0, 0, 0, 0)[:4]
    return Record(seq, kind, 0, 0, 0, 0, word, 7, addr, 0, (a, b, c, d), more)


class RecordedCalls(unittest.TestCase):
    hook: str

    def evidence(self, arch: str, *calls: Call) -> Evidence:
        e = Evidence(arch, 4 if self.hook == "entry" else 1, 1, 0, HandMade(arch, self.hook),
                     Path())
        e.truth.calls = list(calls)
        e.phases = [Phase("trace", 0, Filter("", "", frozenset()), 0, 100)]
        return e

    def call(self, name: str = "wl_a", mask: int | None = 0, at: int = 0, seq: int = 1,
             callbacks: list[Record] | None = None, arguments: tuple[int, ...] = (),
             link: int = 0) -> Call:
        """A call that continued after its site, or `at` an address, with a mask of changed
        registers. mask None: it did not continue."""
        site = next(Site(f.start + 4, f, 0, 0) for f in FUNCTIONS if f.name == name)
        landed = None if mask is None else record(Kind.BODY, at or site.address + 4, mask, 0, link)
        return Call(seq, 0, 7, 0, site, 1, parent=PARENT, sp=SP, fp=FP, callbacks=callbacks or [],
                    landed=landed, arguments=arguments)

    def assert_finding(self, found: Finding | None, words: str, mistake: str = "") -> None:
        self.assertIsNotNone(found, f"nothing was found: {words}")
        assert found
        self.assertIn(words, found.why)
        self.assertEqual(found.mistake, mistake)


class Kept(RecordedCalls):
    hook = "entry"
    free = {
        "riscv64": "t0 t1 t3 t4 t5 t6".split(),
        "arm64": "x9 x10 x11 x12 x13 x14 x15 x16 x17".split()
    }
    link = {"riscv64": "ra", "arm64": "x30"}

    def test_of_a_patched_return_too(self) -> None:
        for arch in ARCHES:
            bits = {name: 1 << n for n, name in enumerate(ISAS[arch].names)}
            saved, second = ("s11", "a1") if arch == "riscv64" else ("x28", "x1")
            self.assertIsNone(
                registers.found_as_left(self.evidence(arch, self.call(mask=bits[self.link[arch]]))))
            self.assert_finding(
                registers.found_as_left(self.evidence(arch, self.call(mask=bits[saved]))),
                f"after its call site {saved}")
            for mask, words in ((bits[saved], saved), (bits[second], second),
                                (bits[self.link[arch]], ""), (KEPT_NOTHING, "")):
                e = self.evidence(arch, call := self.call())
                e.lab = 6
                span = Span(call, 0, None, False, 2, None, ())
                span.leaving = Leaving([span], record(Kind.EXIT, 1), [], record(Kind.HOME, 2, mask))
                e.truth.returns.spans = [span]
                if words:
                    self.assert_finding(registers_given_back(e),
                                        f"{words} was not as the function had left it")
                else:
                    self.assertIsNone(registers_given_back(e))

    def test_each_register_that_must_survive_is_told_by_name(self) -> None:
        for arch in ARCHES:
            for self.hook in ("entry", "mcount"):
                for n, name in enumerate(ISAS[arch].names):
                    found = registers.kept(self.evidence(arch), self.call(mask=1 << n))
                    if name in self.free[arch] or self.hook == "mcount" and name == self.link[arch]:
                        self.assertIsNone(found, f"{arch}, {self.hook}: {name}")
                    else:
                        self.assert_finding(found, f"its call site {name} was not what it had been",
                                            registers.mistake_of(ISAS[arch], n))

    def test_the_mistake_follows_from_the_register(self) -> None:
        for arch, names in (("riscv64", "sp s0 gp ra a7 t2 s1"), ("arm64",
                                                                  "sp x29 x18 x30 x8 x0 x19")):
            self.assertEqual([
                registers.mistake_of(ISAS[arch], ISAS[arch].names.index(name))
                for name in names.split()
            ], [
                "stack-not-given-back", "frame-pointer-lost", "reserved-register-touched",
                "return-address-lost", "argument-clobbered", "argument-clobbered",
                "saved-register-lost"
            ])

    def test_of_several_the_stack_or_frame_pointer_is_told(self) -> None:
        for arch, name, mistake in (("riscv64", "sp", "stack-not-given-back"),
                                    ("arm64", "x29", "frame-pointer-lost")):
            self.assert_finding(registers.kept(self.evidence(arch), self.call(mask=(1 << 32) - 1)),
                                f"its call site {name} was", mistake)

    def test_where_nothing_was_kept_nothing_is_told(self) -> None:
        for mask in (KEPT_NOTHING, None):
            self.assertIsNone(registers.kept(self.evidence("arm64"), self.call(mask=mask)))

    def test_a_call_goes_on_after_its_site(self) -> None:
        e = self.evidence("riscv64", self.call(callbacks=[record(Kind.CALLBACK, 0)]))
        self.assertIsNone(registers.registers_kept(e))
        e.truth.calls.append(self.call(at=FUNCTIONS[3].start))
        self.assert_finding(
            registers.registers_kept(e),
            "must continue at 0x10008 (wl_a+0x8), after its call site, and continued at 0x10600 "
            "(caller)"
        )

    def test_what_lies_below_sp_is_nobodys(self) -> None:
        for sp, words in ((SP, "below sp"), (SP + 8, "not a multiple of 16")):
            for check, hook in ((registers.registers_kept, "mcount"),
                                (registers.found_as_left, "entry"), (entry.registers_found,
                                                                     "entry")):
                self.hook = hook
                e = self.evidence("riscv64", self.call(callbacks=[record(Kind.CALLBACK, TEXT)]))
                e.truth.between = [record(Kind.BELOW, TEXT, sp)]
                with self.subTest(sp=sp, hook=hook):
                    self.assert_finding(
                        check(e), words, "" if hook == "entry" else
                        "stored-below-sp" if sp == SP else "stack-not-aligned")

    def test_what_an_interrupt_between_two_instructions_would_find(self) -> None:
        self.hook = "mcount"
        for sp, mask, words, mistake in (
                (SP + 16, 0, "16 bytes above where the call began", ""),
                (SP - 528, 0, "528 bytes on the stack since the call began: a frame may have at "
                              "most 256", ""),
                (SP, 1 << 4, "another value in tp", "reserved-register-touched"),
                (SP, 1 << 8, "a frame pointer, s0,", "frame-pointer-lost")):
            e = self.evidence("riscv64", self.call(callbacks=[record(Kind.CALLBACK, TEXT)]))
            e.truth.between = [record(Kind.BETWEEN, TEXT, sp, SP, mask)]
            self.assert_finding(registers.registers_kept(e), words, mistake)

    def test_something_must_have_been_traced(self) -> None:
        nothing: list[Record] = []
        for traced in (nothing, [record(Kind.CALLBACK, 0)]):
            self.assert_finding(
                registers.registers_kept(
                    self.evidence("riscv64", self.call(mask=None, callbacks=traced), self.call())),
                "no traced call reached the callback and returned to its call site")

    def test_the_traced_call_that_did_not_come_back_since_a_line_was_typed(self) -> None:
        traced = [record(Kind.CALLBACK, 0)]
        lost = self.call(mask=None, callbacks=traced)
        self.assertIs(
            registers.unfinished(self.evidence("arm64", self.call(callbacks=traced), lost)), lost)
        e = self.evidence("arm64", lost)
        e.typed = [(lost.seq + 1, "workload")]
        self.assertIsNone(registers.unfinished(e), "it was cut off at the end of what was recorded")


class Told(RecordedCalls):
    """With HOOK=mcount."""

    hook = "mcount"
    BELOW = 0x8200

    def traced(self, ip: int = TEXT + 4, parent: int = PARENT, op: int = 55, regs: int = 0,
               below: int = FP, home: int = TEXT + 8) -> Finding | None:
        r = record(Kind.CALLBACK, 0, ip, parent, op, regs, seq=5,
                   more=(below, home, self.BELOW, PARENT, 0, 0, 0, 0, 55, *[0] * 7))
        found = registers.callback_arguments(self.evidence("riscv64", self.call(callbacks=[r])))
        self.assertTrue(not found or found.seq == 5)
        return found

    def test_the_right_arguments_and_frame_record(self) -> None:
        self.assertIsNone(self.traced())

    def test_another_ip(self) -> None:
        self.assert_finding(self.traced(ip=TEXT + 8),
                            "ip was 0x10008 (wl_a+0x8), and not 0x10004 (wl_a+0x4)",
                            "wrong-call-site-offset")

    def test_another_parent_and_where_it_comes_from(self) -> None:
        for parent, mistake in ((1, ""), (self.BELOW, "frame-pointer-for-parent"),
                                (PATTERN + 3, "parent-from-argument"), (TEXT + 8,
                                                                        "parent-of-the-stub")):
            self.assert_finding(self.traced(parent=parent), f"parent_ip was {parent:#x}", mistake)

    def test_another_op(self) -> None:
        self.assert_finding(self.traced(op=56), "op was 0x38, and not 0x37, the value", "")
        self.assert_finding(self.traced(op=OP), "op was 0x9000, and not 0x37, the value",
                            "address-taken-for-the-value")

    def test_registers_that_nobody_keeps(self) -> None:
        self.assert_finding(self.traced(regs=1), "regs was 0x1, and not 0")

    def test_no_frame_record(self) -> None:
        for wrong in ({"below": FP + 16}, {"home": PARENT}):
            self.assert_finding(self.traced(**wrong), "caller made no frame record")

    def test_no_callback(self) -> None:
        self.assert_finding(registers.callback_arguments(self.evidence("riscv64", self.call())),
                            "no call site reached a callback")

    def test_a_callback_on_a_stack_of_its_own(self) -> None:
        e = self.evidence("riscv64", self.call())
        self.assertIsNone(registers.lone_callbacks(e))
        e.truth.lone = [record(Kind.CALLBACK, 0x1000)]
        self.assert_finding(registers.lone_callbacks(e),
                            "the tracer's callback ran 1 times on a stack on which no call site")


class Seen(RecordedCalls):
    """With HOOK=entry: struct ftrace_regs, and the op's changes to it."""

    hook = "entry"
    ARGUMENTS = tuple(range(100, 108))

    def regs(self, arch: str, site: int = TEXT + 4, **changed: int) -> tuple[int, ...]:
        words = [*self.ARGUMENTS, *[0] * 8]
        right = {"sp": SP, "pc": site + 4, "fp": FP, "link": PARENT}
        for at, value in zip(ISAS[arch].regs, (right | changed).values()):
            words[at] = value
        return tuple(words)

    def callback(self, arch: str, *v: int, walk: tuple[int, ...] = (), site: int = TEXT + 4,
                 **changed: int) -> Record:
        """Frame records: the tracer's, the traced function's, its caller's."""
        walk = walk or (0x7F00, 1, 0x7F80, site + 4, FP, PARENT, 0, 0)
        return record(Kind.CALLBACK, 0, *(v or (site, PARENT)),
                      more=walk + self.regs(arch, site, **changed))

    def seen(self, arch: str, mask: int = 0, arguments: tuple[int, ...] = ARGUMENTS,
             **changed: Any) -> Finding | None:
        call = self.call(mask=mask, callbacks=[self.callback(arch, **changed)], arguments=arguments)
        return entry.registers_seen(self.evidence(arch, call))

    def test_the_calls_registers(self) -> None:
        for arch in ARCHES:
            self.assertIsNone(self.seen(arch))
            self.assert_finding(self.seen(arch, sp=SP - 32), "regs->sp was 0x7fe0, and not 0x8000",
                                "sp-inside-the-frame")
            self.assert_finding(self.seen(arch, pc=TEXT + 4),
                                "regs->pc was 0x10004 (wl_a+0x4), and not 0x10008 (wl_a+0x8)")
            self.assert_finding(self.seen(arch, fp=SP), "regs->fp was 0x8000, and not 0x8100",
                                "sp-inside-the-frame")
            self.assert_finding(self.seen(arch, link=TEXT + 8),
                                "regs->link was 0x10008 (wl_a+0x8), and not 0x10604 (caller+0x4)")

    def test_each_argument_that_no_callback_changed(self) -> None:
        for arch in ARCHES:
            for n in range(8):
                received = tuple(value + (i == n) for i, value in enumerate(self.ARGUMENTS))
                self.assert_finding(
                    self.seen(arch, arguments=received),
                    f"regs->arg[{n}] was {100 + n:#x}, and the caller had passed {101 + n:#x}")
                self.assertIsNone(self.seen(arch, 1 << ISAS[arch].arguments[n], received))

    def test_what_handlers_of_entry_and_return_are_given(self) -> None:
        for arch in ARCHES:
            for link, value, regs, words in (
                (PARENT, 100, SP - 112, ""),
                (TEXT + 8, 100, SP - 112, "entry handler's regs->link was 0x10008"),
                (PARENT, 7, SP - 112, "returned 0x7, and its return handler's regs->arg[0] was "
                                      "0x64"),
                (PARENT, 100, OP, "entry handler's third argument was 0x9000, and not the address"),
                (PARENT, 100, SP, "entry handler's third argument was 0x8000")):
                call = self.call(callbacks=[self.callback(arch, 0, 0, regs, link=link)])
                e = self.evidence(arch, call)
                e.kernel.symbols["trace_graph_entry"] = 0x5000
                call.callbacks[0] = call.callbacks[0]._replace(addr=0x5000)
                span = Span(call, 0, None, False, 2, None, ())
                span.leaving = Leaving([span], record(Kind.EXIT, 1, 0, value),
                                       user_handlers=[self.callback(arch)])
                e.truth.returns.spans = [span]
                if words:
                    self.assert_finding(entry.handler_arguments(e), words,
                                        "" if "regs->" in words else "regs-not-passed")
                else:
                    self.assertIsNone(entry.handler_arguments(e))

    def caller(self, arch: str, *v: int, walk: tuple[int, ...] = (),
               second: bool = False) -> Finding | None:
        callbacks = [self.callback(arch)] * second + [self.callback(arch, *v, walk=walk)]
        return entry.callers_seen(self.evidence(arch, self.call(callbacks=callbacks)))

    def test_ip_and_parent_of_each_callback(self) -> None:
        for arch in ARCHES:
            for second in (False, True):
                self.assertIsNone(self.caller(arch, second=second))
                self.assert_finding(self.caller(arch, TEXT + 8, PARENT, second=second),
                                    "ip was 0x10008", "ip-off-by-one-instruction")
                self.assert_finding(self.caller(arch, TEXT + 4, TEXT + 8, second=second),
                                    "parent_ip was 0x10008")

    def test_the_stack_can_be_walked_from_the_first_callback(self) -> None:
        for arch in ARCHES:
            for walk, words in (((0x7F00, 1, FP, PARENT, 0, 0, 0, 0),
                                 "do not include the traced function's"),
                                ((0x7F80, TEXT + 8, FP + 16, PARENT, 0, 0, 0, 0),
                                 "do not include that of the function's caller"),
                                ((0x7F80, TEXT + 8, FP, PARENT + 4, 0, 0, 0, 0),
                                 "do not include that of the function's caller")):
                self.assert_finding(self.caller(arch, walk=walk), words, "one-frame-record")
                self.assertIsNone(self.caller(arch, walk=walk, second=True),
                                  "an op before may have changed pc and link")

    def entries(self, arch: str, **second: Any) -> Evidence:
        """The three calls of entry_traced; in the second the function found every argument changed.
        """
        site, flipped = FUNCTIONS[1].start + 4, tuple(~value & entry.MASK
                                                      for value in self.ARGUMENTS)
        changed: dict[str, Any] = {
            "mask": sum(1 << n for n in ISAS[arch].arguments[:8]), "arguments": flipped,
            "link": FUNCTIONS[4].start
        } | second
        tracer, skipper = ([self.callback(arch, site=site)._replace(addr=FUNCTIONS[n].start)]
                           for n in (8, 9))
        e = self.evidence(arch, self.call("entry_traced", callbacks=tracer),
                          self.call("entry_traced", callbacks=tracer, **changed),
                          self.call("entry_traced", callbacks=skipper, at=FUNCTIONS[5].start))
        e.phases = []
        return e

    def test_what_the_callback_changed_arrives_and_nothing_else_is_another(self) -> None:
        for arch in ARCHES:
            flipped = tuple(~value & entry.MASK for value in self.ARGUMENTS)
            self.assertIsNone(entry.registers_changed(self.entries(arch)))
            for value, mistake in ((1, "argument-clobbered"), (PATTERN + 1,
                                                               "change-not-loaded-back")):
                found = entry.registers_changed(self.entries(arch, arguments=(*flipped[:7], value)))
                self.assert_finding(found, f"found {value:#x} as argument 7", mistake)
            self.assert_finding(entry.registers_changed(self.entries(arch, link=PARENT)),
                                "and not to the changed link", "change-not-loaded-back")
            self.assert_finding(entry.registers_changed(self.entries(arch, link=1)),
                                "and not to the changed link", "return-address-lost")
            saved = "s1" if arch == "riscv64" else "x19"
            found = entry.registers_changed(
                self.entries(arch, mask=1 << ISAS[arch].names.index(saved)))
            self.assert_finding(found, f"did not find {saved} as its caller had left it",
                                "saved-register-lost")
            self.assert_finding(entry.registers_changed(self.entries(arch, mask=None)),
                                "did not run")

    def test_every_register_is_found_by_who_is_only_looked_at(self) -> None:
        for arch in ARCHES:
            e = self.entries(arch)
            self.assertIsNone(entry.registers_found(e))
            e.truth.known = {}
            e.truth.calls[0] = self.call("entry_traced", mask=1 << 18,
                                         callbacks=e.truth.calls[0].callbacks)
            self.assertIsNotNone(entry.registers_found(e))
            e = self.entries(arch)
            e.truth.calls.append(self.call(mask=1 << 18, seq=50))
            self.assertIsNone(entry.registers_found(e),
                              "outside of the phases an op may have changed it")
            e.phases = [Phase("trace", 0, Filter("", "", frozenset()), 50, 60)]
            self.assertIsNotNone(entry.registers_found(e))

    def test_it_must_have_run(self) -> None:
        for e in (self.entries("arm64", mask=None), self.evidence("arm64")):
            e.truth.calls[:] = [
                self.call("entry_traced", mask=None, callbacks=[self.callback("arm64")])
            ]
            for check in (entry.registers_found, entry.registers_changed):
                self.assert_finding(check(e), "and its body did not run")

    def test_who_is_skipped_returns_through_the_replacement(self) -> None:
        e = self.entries("arm64")
        self.assertIsNone(entry.return_taken(e))
        e.truth.known = {}
        e.truth.calls[2] = self.call("entry_traced", at=PARENT,
                                     callbacks=e.truth.calls[2].callbacks)
        self.assert_finding(entry.return_taken(e), "must return at once, to the replaced link")

    def test_an_op_is_there_when_its_site_is_written(self) -> None:
        for ran, late in ((1, 2), None), ((0, 2), "alone"), ((1, 1), "after another one"):
            calls = [
                self.call("text_alias_close", callbacks=[self.callback("arm64")] * n) for n in ran
            ]
            found = entry.ready_before_sites(self.evidence("arm64", *calls))
            self.assert_finding(found, f"traces text_alias_close, {late}, was registered",
                                "published-too-late") if late else self.assertIsNone(found)

    def test_an_op_does_not_clash_with_itself(self) -> None:
        # it returns an int: the upper half may be anything
        for value, refused in (1 << 32, False), (0xFFFFFFF0, True):
            e = self.evidence("arm64")
            e.truth.hits["ftrace_set_filter"] = [record(Kind.HIT, 0)._replace(seq=1)]
            e.truth.hits["answer"] = [record(Kind.HIT, 0, value)._replace(seq=2)]
            found = entry.own_functions_kept(e)
            self.assert_finding(
                found, "was refused, and must succeed") if refused else self.assertIsNone(found)

    def test_a_disabled_site_is_left_alone(self) -> None:
        for value, words in (0, ""), (1, "register_ftrace_function returned 0x1"):
            with self.registered(value) as e:
                found = entry.disabled_left_alone(e)
                self.assert_finding(found, words) if words else self.assertIsNone(found)

    @contextmanager
    def registered(self, value: int) -> Iterator[Evidence]:
        """kern/apps/entry.c registered an op, and this value was returned."""
        e = self.evidence("arm64", self.call("entry_traced"))
        e.truth.hits["register_ftrace_function"] = [record(Kind.HIT, 0x40)._replace(seq=1)]
        e.truth.hits["answer"] = [record(Kind.HIT, 0x44, value)._replace(seq=3)]
        with mock.patch.object(e.kernel, "extent", return_value=(0x40, 0x80)):
            yield e

    def test_there_are_as_many_ops_as_stubs(self) -> None:
        answers = [0] * 32 + [0xFFFFFFE4]
        for at, value, words in (0, 0, ""), (31, 0xFFFFFFE4, "31 ops were registered"), (
                32, 0, "must return -ENOSPC, and returned 0"):
            with self.registered(0) as e:
                said = [*answers[:at], value, *answers[at + 1:]]
                e.truth.hits["register_ftrace_function"] = [
                    record(Kind.HIT, 0x40)._replace(seq=2 * n + 1) for n in range(33)
                ]
                e.truth.hits["answer"] = [
                    record(Kind.HIT, 0x44, v)._replace(seq=2 * n + 2) for n, v in enumerate(said)
                ]
                found = entry.stubs_filled(e)
                self.assert_finding(found, words) if words else self.assertIsNone(found)

    def test_two_ops_that_may_change_pc_have_no_function_together(self) -> None:
        for value, words in (0xFFFFFFF0, ""), (0, "register_ftrace_function returned 0"), (
                0xFFFFFFEA, "returned -EINVAL"):
            with self.registered(value) as e:
                found = entry.clashes(e)
                self.assert_finding(found, words) if words else self.assertIsNone(found)


class Read(RecordedCalls):
    """Calls are built from records."""

    hook = "mcount"
    OP, SITE = 0x5000, TEXT + 4

    def read(self, *records: Record) -> truth.Truth:
        kernel = HandMade("riscv64", self.hook)
        kernel.symbols["registers_tracer"] = self.OP
        return truth.read(kernel, [r._replace(seq=seq) for seq, r in enumerate(records)])

    def at(self, kind: Kind, thread: int = 1, level: int = 0, recording: int = 1,
           mask: int = 0) -> Record:
        where = {
            Kind.SITE: self.SITE, Kind.BODY: self.SITE + 4, Kind.CALLBACK: self.OP, Kind.HOME: 2
        }[kind]
        return record(kind, where, mask)._replace(thread=thread, level=level, size=recording)

    def test_a_callback_is_its_call_site_s(self) -> None:
        found = self.read(self.at(Kind.SITE), self.at(Kind.CALLBACK), self.at(Kind.BODY),
                          self.at(Kind.CALLBACK))
        self.assertEqual(([len(call.callbacks)
                           for call in found.calls], [r.seq for r in found.lone]), ([1], [3]))

    def test_a_cpu_may_have_been_between_the_two_when_the_harness_began_to_look(self) -> None:
        """In each recording, only the first record of a CPU at each level may lack its call."""
        for records, lone in (([(0, 1), (0, 1)], [1]), ([(1, 1), (0, 1),
                                                         (1, 1), (0, 1)], [2, 3]), ([(0, 1), (0, 2),
                                                                                     (0, 2)], [2])):
            found = self.read(*(self.at(Kind.CALLBACK, 10 + n, level, recording)
                                for n, (level, recording) in enumerate(records)))
            self.assertEqual([r.seq for r in found.lone], lone, records)
        found = self.read(self.at(Kind.SITE), self.at(Kind.CALLBACK, 2))
        self.assertEqual(len(found.lone), 1, "the CPU had come to a site")

    def test_a_call_lands_at_what_is_seen_next_in_its_context(self) -> None:
        for kind in (Kind.BODY, Kind.HOME, Kind.SITE):
            found = self.read(self.at(Kind.SITE), self.at(kind, thread=2), self.at(kind, level=1),
                              self.at(kind), self.at(kind))
            landed = found.calls[0].landed
            self.assertEqual(landed and landed.seq, 3, kind)

    def test_with_a_site_whose_registers_were_not_kept_in_this_recording_nothing_is_compared(
            self) -> None:
        found = self.read(self.at(Kind.SITE), self.at(Kind.SITE, recording=2, mask=KEPT_NOTHING))
        self.assertEqual([call.landed for call in found.calls], [None, None])


class Integrity(RecordedCalls):
    hook = "entry"

    def found(self, arch: str, address: int, word: int,
              spoilt: Spoilt | None = None) -> Finding | None:
        e = self.evidence(arch)
        e.spoilt = spoilt
        e.truth.words = [record(Kind.WORD, address, word=word)]
        return integrity.as_linked(e)

    def call_of(self, arch: str, address: int) -> int:
        return ISAS[arch].call(address, FUNCTIONS[7].start, 5 if arch == "riscv64" else 30)

    def test_a_call_site_holds_the_nop_or_a_call(self) -> None:
        for arch in ARCHES:
            site = TEXT + 4
            for word in (ISAS[arch].nop, self.call_of(arch, site)):
                self.assertIsNone(self.found(arch, site, word))
            for word in (ISAS[arch].ret, ISAS[arch].nop ^ 1 << 20, 0):
                self.assert_finding(self.found(arch, site, word), f"wl_a+0x4 held {word:08x}")

    def test_ftrace_call_holds_a_call(self) -> None:
        for arch in ARCHES:
            at = FUNCTIONS[6].start
            self.assertIsNone(self.found(arch, at, self.call_of(arch, at)))
            self.assert_finding(self.found(arch, at, ISAS[arch].ret), "ftrace_call held")

    def test_the_word_beside_a_site_is_what_is_written_there_at_boot(self) -> None:
        self.assertIsNone(self.found("arm64", TEXT, ARM64.mov_x9_x30))
        self.assert_finding(self.found("arm64", TEXT, ARM64.ret), "wl_a held")
        # there is none
        self.assert_finding(self.found("riscv64", TEXT, ISAS["riscv64"].nop), "wl_a held")
        self.hook = "mcount"
        self.assertIsNone(self.found("riscv64", TEXT, ISAS["riscv64"].nop))
        self.assert_finding(self.found("riscv64", TEXT, ISAS["riscv64"].ret), "wl_a held")

    def test_a_stored_word_is_one_that_its_address_may_hold(self) -> None:
        site, call, stub, other = TEXT + 4, FUNCTIONS[6].start, FUNCTIONS[7].start, TEXT + 0x600
        for arch in ARCHES:
            isa = ISAS[arch]
            for self.hook in ("entry", "mcount"):
                link = isa.link_register(self.hook)
                for at, word, right in (
                    (site, isa.nop, True), (site, isa.call(site, stub, link), True),
                    (site, 0, False), (site, isa.call(site, other, link), False),
                    (site, isa.brk, False), (site + 4, isa.nop, False),
                    (site, isa.call(site, stub, 6), arch == "arm64"),
                    (call, isa.call(call, other, isa.link), False), (call, 0, False),
                    (call, isa.call(call, stub + 64, isa.link), True), (call, isa.brk, True)):
                    e = self.evidence(arch)
                    e.lab = 3
                    e.kernel.symbols["registers_tracer"] = stub + 64
                    e.truth.stores = [record(Kind.STORE, 0, at - TEXT, word, seq=5)]
                    with self.subTest(arch=arch, hook=self.hook, at=hex(at), word=hex(word)):
                        found = integrity.words_stored(e)
                        self.assertEqual(found.seq if found else 0, 0 if right else 5)

    def test_the_word_that_the_harness_wrote(self) -> None:
        site = Site(TEXT + 4, FUNCTIONS[0], 0, 0)
        self.assertIsNone(self.found("arm64", site.address, 0xD503251F, Spoilt(site, 0xD503251F,
                                                                               0)))
        self.assert_finding(
            self.found("arm64", site.address, 0xD503253F, Spoilt(site, 0xD503251F, 0)),
            "held d503253f")

    def test_a_system_register_is_set_to_one_value_by_each_instruction(self) -> None:
        for arch in ARCHES:
            for values, words in (((1, 2, 1, 2), ""),
                                  ((1, 2, 3, 2), "was executed with 0x3, and before with 0x1")):
                e = self.evidence(arch)
                e.truth.settings = [
                    record(Kind.SETTING, TEXT + 4 + 4 * (n % 2), value)
                    for n, value in enumerate(values)
                ]
                finding = integrity.as_linked(e)
                self.assert_finding(finding, words) if words else self.assertIsNone(finding)

    def test_a_callback_begins_at_its_beginning(self) -> None:
        e = self.evidence("arm64")
        e.truth.middle = [record(Kind.MIDDLE, TEXT + 8)]
        self.assert_finding(
            integrity.as_linked(e),
            "CPU 0 left the tracer's callback at wl_a+0x8 without having entered it at its first "
            "instruction"
        )

    def test_without_a_filter_every_site_calls_the_tracer(self) -> None:
        for arch in ARCHES:
            e = self.evidence(arch)
            sites, text = [site.address for site in e.kernel.sites], bytearray(0x2000)
            for at in sites:
                text[at - TEXT:at - TEXT + 4] = self.call_of(arch, at).to_bytes(4, "little")
            e.text_traced = bytes(text)
            self.assertIsNone(checks.every_site(e))
            for at in sites:
                e.text_traced = bytes(text[:at - TEXT]) + e.kernel.isa.nop.to_bytes(
                    4, "little") + bytes(text[at - TEXT + 4:])
                self.assert_finding(
                    checks.every_site(e),
                    f"the call site of {e.kernel.name_at(at - 4)} held no call to the tracer")
            e.text_traced, e.phases = b"", []
            needed = (seen.text_traced("arguments"),)
            self.assert_finding(seen.too_little(e, needed),
                                "no byte of text, while every function was traced")
            e.phases = [Phase("trace", 0, None)]
            found = seen.too_little(e, needed)
            self.assertEqual(found and found.need, "arguments",
                             "the result was wrong: it is not tried then")

    def test_text_is_what_was_linked_and_stored(self) -> None:
        stores = [record(Kind.STORE, 0, *v, seq=seq)._replace(size=size) for seq, size, v in
                  ((1, 4, (8, 0xFFFF04030201)), (2, 16, (16, 5, 6)), (9, 1, (8, 7)))]
        linked = bytes(0x2000)
        first = (bytes(8) + bytes([1, 2, 3, 4]) + bytes(4) + bytes([5, *bytes(7), 6])
                 + bytes(0x2000 - 25))
        last = first[:8] + bytes([7]) + first[9:]
        for texts, words in (
            ([(0, linked), (5, first), (10, last)], ""),
            ([(5, first), (9, last)], "wl_a+0x8 was changed, and no CPU"),
            ([(1, linked), (5, first[:16] + bytes(0x2000 - 16))], "wl_a+0x10 was changed"),
            ([(0, bytes(0x1FFF) + b"1")], "was changed")):
            e = self.evidence("arm64")
            e.kernel.symbols["_etext"], e.truth.stores, e.texts = TEXT + 0x2000, stores, texts
            if words:
                self.assert_finding(integrity.as_linked(e), words)
            else:
                self.assertIsNone(integrity.as_linked(e))
            e.why = "it ended early"
            self.assertIsNone(integrity.as_linked(e))

    def test_each_contract_has_the_limit_of_each_frame(self) -> None:
        for lab, folder in rubric.LABS.items():
            text = " ".join((folder / "handout.md").read_text().split())
            self.assertEqual(re.findall(r"at most (\d+) bytes", text),
                             [str(MOST_FRAME)] * {1: 1, 3: 1, 4: 1, 5: 2}.get(lab, 0), lab)

    def test_what_is_foreign_is_told_with_its_address(self) -> None:
        for address, word, words in (
            (TEXT + 8, 0x13, "at wl_a+0x8, where 00000000 was linked: this is not a call site"),
            (TEXT + 10, 0x73, "at wl_a+0xa (ecall) that is not a whole word"),
            (TEXT + 14, 0x9002, "at wl_a+0xe (ebreak) that is not a whole word"),
            (TEXT + 12, 0, "at wl_a+0xc (unimp) that is not a whole word"),
            (0x70000, 0x13,
             "executed an instruction at 0x70000, which is outside of the kernel's text")):
            e = self.evidence("riscv64")
            e.truth.foreign = [record(Kind.FOREIGN, address, word=word)]
            self.assert_finding(integrity.as_linked(e), words)
            e.truth.foreign = []
            self.assertIsNone(integrity.as_linked(e))


if __name__ == "__main__":
    unittest.main()

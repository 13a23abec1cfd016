"""A machine at the far end of a bad serial line: each command runs once, and what is read is what
was printed."""

from __future__ import annotations

import io
import os
import random
import re
import select
import socket
import subprocess
import tempfile
import threading
import time
import tty
import unittest
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast
from unittest import mock

import serial  # type: ignore
from rich.console import Console as Screen
from serial.rfc2217 import PortManager  # type: ignore

from grading.checks import rubric
from grading.elf.elf import Kernel
from grading.elf.module import Module
from grading.evidence.evidence import Coming, Evidence, Filter, Going, Loaded, Phase, User, Visit
from grading.machine.line import LineConsole, UBoot, open_line
from grading.report import report
from grading.session.line_parts import BEFORE, PROBES, PROFILE
from grading.session.line_session import AT_BOOT, AT_END, Place
from grading.session.module_session import INSIDE, OTHER, REQUEST, SECOND
from grading.stimulus import seeded, workload
from grading.text import graph_text
from grading.text.trace_text import PROBE_LINE, parse
from grading.tests.noise import Board, Far, Noise, Shell
from grading.verdict import Refused, Stopped, Verdict
from kern.tests import board_trees, board_uboots
from qemu.machine import FETCHED, ROOT, WITH_US, Machine, boot_script, initrd_of

LOGS = ROOT / "build/tests/line"
MINUTES = 10 if os.environ.get("EVERY") == "1" else 0.5  # of traffic at 115200 baud
TRACE = "".join(
    f"        workload-{n}     [00{n % 4}] .....    {n}.{n * 37 % 1000000:06d}: wl_leaf_ash "
    f"<-wl_fan_{n}\n"
    for n in range(900))


class OnALine(unittest.TestCase):
    def console(self, far: Far) -> LineConsole:
        LOGS.mkdir(parents=True, exist_ok=True)
        console = LineConsole(far, LOGS / f"{self.id().rpartition('.')[2]}.log")
        self.addCleanup(console.close)
        return console

    def test_a_good_line_is_typed_once(self) -> None:
        far = Far(Shell({"trace": TRACE}))
        console = self.console(far)
        console.boot(UBoot(), 60)
        self.assertEqual(console.command("echo \"a\" '$b' > `c\\`"),
                         "echo \"a\" '$b' > `c\\` was run\n")
        self.assertEqual(console.file("trace"), TRACE)
        self.assertEqual((console.retyped, console.refetched), (0, 0))

    def test_a_bad_line_changes_nothing(self) -> None:
        """One byte in a thousand is dropped, doubled or changed, in both directions."""
        far = Far(Shell({"trace": TRACE}), seed=random.randrange(1 << 30) if MINUTES > 1 else 1,
                  rate=0.001)
        console, typed = self.console(far), list[str]()
        console.boot(UBoot(), 60)
        with self.subTest(far=vars(far.there)):
            while far.clock() < 60 * MINUTES:
                typed.append(f"echo 'wl_leaf_*' > set_ftrace_filter; workload {len(typed):016x}")
                self.assertEqual(console.command(typed[-1]), f"{typed[-1]} was run\n")
                self.assertEqual(console.file("trace"), TRACE)
        self.assertEqual(far.shell.ran, typed)
        self.assertGreater(far.there.harmed + far.back.harmed, 100 * MINUTES)
        self.assertGreater(console.retyped + console.refetched, 0)


    def test_a_kernel_that_starts_again_is_found(self) -> None:
        far = Far(Shell({}))
        console = self.console(far)
        console.boot(UBoot(), 60)
        console.command("one")
        far.shell = Shell({})
        with self.assertRaises(Stopped) as caught:
            console.command("two")
        self.assertEqual(caught.exception.verdict, Verdict.REBOOT, caught.exception)

    def ends(self, verdict: Verdict, why: str, shell: Shell) -> None:
        console = self.console(Far(shell))
        console.boot(UBoot(), 60)
        with self.assertRaises(Stopped) as caught:
            console.command("one")
        self.assertEqual((caught.exception.verdict, caught.exception.why.partition(";")[0]),
                         (verdict, why))

    def test_each_end_has_its_verdict(self) -> None:
        class Silent(Shell):
            def types(self, data: bytes) -> bytes:
                return self.last(data) if self.ran else super().types(data)

            def last(self, data: bytes) -> bytes:
                return b""

        class Panics(Silent):
            def run(self, command: str) -> str:
                return "\npanic: the tracer is broken\nend of panic\n"

        class Floods(Silent):
            def last(self, data: bytes) -> bytes:
                return b"again " * 20000

        self.ends(Verdict.PANIC, "the tracer is broken", Panics({}))
        self.ends(Verdict.TIMEOUT, "no answer within 300 s to 'one'", Silent({}))
        with mock.patch("grading.machine.line.CAP", 1 << 16):
            self.ends(Verdict.FLOOD, "the console printed more than 65536 bytes", Floods({}))
        class NeverAnswers(Shell):
            def types(self, data: bytes) -> bytes:
                return b""

        dead = self.console(Far(NeverAnswers({})))
        with self.assertRaises(Stopped) as caught:
            dead.boot(UBoot(), 60)
        self.assertEqual(caught.exception.verdict, Verdict.DEAD)

    def off(self, shell: Shell) -> Verdict | None:
        far = Far(shell)
        console = self.console(far)
        console.boot(UBoot(), 60)
        console.command("uptime")
        try:
            console.power_off()
        except Stopped as stopped:
            return stopped.verdict
        finally:
            self.assertLess(far.clock(), 1000)
        return None

    def test_a_machine_is_off_if_nothing_answers_and_only_then(self) -> None:
        class Off(Shell):
            def types(self, data: bytes) -> bytes:
                return b"" if "poweroff" in self.ran else super().types(data)

        class StartsAgain(Shell):
            def enter(self, line: str) -> str:
                said = super().enter(line)
                if "poweroff" in self.ran:
                    self.ran, self._number, self._kept = [], 0, ""
                return said

        class AtUBoot(Shell):
            def types(self, data: bytes) -> bytes:
                return data.replace(b"\r",
                                    b"\r\n=> ") if "poweroff" in self.ran else super().types(data)

        for shell, verdict in ((Off, None), (StartsAgain, Verdict.REBOOT), (AtUBoot,
                                                                            Verdict.TIMEOUT)):
            with self.subTest(shell.__name__):
                self.assertEqual(self.off(shell({})), verdict)


class ThroughUBoot(unittest.TestCase):
    def boots(self, board: Board, *commands: str, noise: bytes = b"") -> list[str]:
        """What was typed at U-Boot's prompt, up to the kernel's."""
        LOGS.mkdir(parents=True, exist_ok=True)
        board.power(noise)
        with closing(LineConsole(board, LOGS / "uboot.log")) as console:
            console.boot(UBoot(Board.PROMPT, commands), 600)
            self.assertEqual(console.command("uptime"), "uptime was run\n")
        return board.typed

    def test_without_commands_no_key_is_pressed(self) -> None:
        self.assertEqual(self.boots(Board(Shell({}))), [])

    def test_noise_that_stops_the_countdown_is_survived(self) -> None:
        self.assertEqual(self.boots(Board(Shell({})), noise=b"\xff"), ["boot"])

    def test_the_commands_are_typed_at_its_prompt(self) -> None:
        lines = [
            "load mmc 1:1 ${kernel_addr_r} Image", "booti ${kernel_addr_r} - ${fdtcontroladdr}"
        ]
        self.assertEqual(self.boots(Board(Shell({}), boots=lines[1]), *lines), lines)

    def test_a_bad_line_changes_no_command(self) -> None:
        lines = [
            "load mmc 1:1 ${kernel_addr_r} Image", "booti ${kernel_addr_r} - ${fdtcontroladdr}"
        ]
        for seed in range(40):
            with self.subTest(seed=seed):
                self.assertLessEqual(
                    {
                        line
                        for line in self.boots(Board(Shell({}), seed, 0.005, lines[1]), *lines)
                        if line
                    }, set(lines))


class PlacesOfLines(unittest.TestCase):
    def test_what_is_no_place_is_refused(self) -> None:
        for where in ("", "serial", "serial:", "serial:/dev/ttyUSB0@fast", "usb:/dev/ttyUSB0"):
            with self.subTest(where), self.assertRaises(Refused):
                open_line(where)

    def test_the_power_is_on_during_the_boot_and_off_afterwards(self) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        said = LOGS / "power.txt"
        said.unlink(missing_ok=True)
        with mock.patch("grading.session.line_session.open_line", lambda where: Far(Shell({}))):
            with self.assertRaises(KeyError), Place("unix:none",
                                                    power=f"echo >> {said}").powered(LOGS /
                                                                                     "power.log"):
                self.assertEqual(said.read_text(), "on\n")
                raise KeyError
        self.assertEqual(said.read_text(), "on\noff\n")


class OverTelnet(unittest.TestCase):
    def test_a_port_that_another_host_serves(self) -> None:
        """By RFC 2217: telnet, with the port's settings in between. On a busy host the server may
        begin to answer late."""
        LOGS.mkdir(parents=True, exist_ok=True)

        def serve() -> None:
            with listener.accept()[0] as line, serial.serial_for_url("loop://") as port:
                time.sleep(4)
                manager = PortManager(port, SimpleNamespace(write=line.sendall))
                with suppress(ConnectionError):
                    while data := line.recv(4096):
                        line.sendall(b"".join(
                            manager.escape(shell.types(b"".join(manager.filter(data))))))

        shell = Shell({"trace": TRACE})
        # all is quiet until Enter is typed
        with socket.create_server(
            ("127.0.0.1", 0)) as listener, mock.patch("grading.machine.line.AT_UBOOT", 0.2):
            threading.Thread(target=serve, daemon=True).start()
            with closing(
                    LineConsole(open_line(f"telnet:127.0.0.1:{listener.getsockname()[1]}"),
                                LOGS / "telnet.log")) as console:
                console.boot(UBoot(), 600)
                self.assertEqual(console.command("uptime"), "uptime was run\n")
                self.assertEqual(console.file("trace"), TRACE)
        self.assertEqual(shell.ran, ["uptime"])


def traced(seed: int, cpus: int, names: frozenset[str]) -> list[str]:
    """The lines of `trace` after a workload of which these functions were traced."""
    lines = []
    for name, calls in workload.expect(seed, cpus).contexts.items():
        kind, _, cpu = name.partition(" ")
        flags, pid = "..h.." if kind == "interrupt" else ".....", int(cpu or 9) + 10
        lines += [
            f"{'workload':>16}-{pid}      [00{cpu or 0}] {flags}     1.000000: {call.function} "
            f"<-{call.caller}"
            for call in calls if call.function in names
        ]
    return lines


LINKED = bytes(range(256)) * 10
NOP = 0x13
# the one call site is at 0x1400
AT_REST = LINKED[:1024] + NOP.to_bytes(4, "little") + LINKED[1028:]


def fake_kernel() -> Kernel:
    """What the checks of the console need of one."""
    return cast(
        Kernel,
        SimpleNamespace(path="callsite.elf", arch="riscv64", hook="entry",
                        text=(0x1000, 0x1000 + len(LINKED)), text_bytes=lambda: LINKED,
                        rest_text=lambda lab: AT_REST, symbol=lambda name: 0, name_at=hex))


def crcs(text: bytes) -> str:
    return "".join(f"{zlib.crc32(text[at:at + 1024]):08x}\n" for at in range(0, len(text), 1024))


class ConsoleAlone(unittest.TestCase):
    """The console is compared with what follows from the seed; what it cannot show is not judged.
    """

    def graded(self, spoils: Callable[[list[str]], list[str]] = lambda lines: lines, why: str = "",
               boot: bytes = AT_REST, end: bytes = AT_REST) -> report.Grade:
        e = Evidence("riscv64", 3, 4, 7, fake_kernel(), LOGS / "none.log",
                     Verdict.TIMEOUT if why else Verdict.PASS, why, line="unix:line")
        e.files = {AT_BOOT: crcs(boot), AT_END: crcs(end)}
        for seed, functions in ((1, workload.FUNCTIONS), (2, ("wl_leaf_ash", "wl_begin",
                                                              "wl_fan_brook"))):
            names = frozenset(functions)
            lines = spoils(traced(seed, 4, names))
            text = "\n".join([
                "# tracer: function",
                f"# entries-in-buffer/entries-written: {len(lines)}/{len(lines)}   #P:4", *lines
            ])
            e.phases.append(
                Phase(f"trace {seed}", seed, Filter("wl_*", "", names), trace=parse(text)))
        return report.judge("riscv64", 3, 7, [e])

    def test_a_right_trace_reaches_what_can_be_judged(self) -> None:
        grade = self.graded()
        self.assertEqual((grade.points, grade.possible, grade.verdict), (25, 25, Verdict.PASS),
                         [r.findings for r in grade.results])
        self.assertEqual([r.rung.name for r in grade.results if not r.unseen],
                         ["life", "rest", "restored", "many CPUs"])

    def test_the_table_says_what_is_not_judged(self) -> None:
        report.show(self.graded(), Screen(width=120, file=(said := io.StringIO())))
        rows = [line for line in said.getvalue().splitlines() if "not judged" in line]
        self.assertEqual(len(rows), 10, said.getvalue())
        self.assertTrue(all("0/0" in row for row in rows))
        self.assertIn("rungs of 75 points need QEMU's observer",
                      " ".join(said.getvalue().replace("│", "").split()))

    def test_a_wrong_trace_has_no_points_for_it(self) -> None:
        def unlike(change: Callable[[str], str]) -> Callable[[list[str]], list[str]]:
            return lambda lines: [*lines[:-1], change(lines[-1])]

        for name, spoils in {
                "an event is missing": lambda lines: lines[:-1],
                "an event is printed twice": lambda lines: [*lines, lines[-1]],
                "an event is printed later": lambda lines: [*lines[1:], lines[0]],
                "another function": unlike(lambda line: re.sub(
                    r"wl_\w+ <-", "wl_leaf_elm <-"
                    if "wl_leaf_elm <-" not in line else "wl_leaf_fir <-", line)),
                "another parent": unlike(lambda line: re.sub("<-.*", "<-schedule", line)),
                "an interrupt is not printed as one": unlike(
                    lambda line: line.replace("..h..", ".....")), "nothing": lambda lines: []
        }.items():
            with self.subTest(name):
                self.assertLess(self.graded(spoils).points, 25)

    def test_a_boot_that_ended_early_has_no_points(self) -> None:
        grade = self.graded(why="no prompt")
        self.assertEqual((grade.points, grade.possible, grade.verdict), (0, 25, Verdict.TIMEOUT))

    def test_a_kernel_that_traces_nothing_has_no_points(self) -> None:
        self.assertEqual(self.graded(lambda lines: []).points, 0)

    def test_text_is_that_of_the_kernel_at_rest(self) -> None:
        for name, boot, end, lost in (("no nop at boot", LINKED, AT_REST, ["rest"]),
                                      ("no nop at the end", AT_REST, LINKED, ["restored"]),
                                      ("another kernel", LINKED[::-1], AT_REST, ["life", "rest"]),
                                      ("a shorter one", AT_REST[:1024], AT_REST, ["life", "rest"])):
            with self.subTest(name):
                self.assertEqual(
                    [r.rung.name for r in self.graded(boot=boot, end=end).results if r.lost], lost)


def graph(seed: int, cpus: int, names: frozenset[str]) -> list[str]:
    """The same of function_graph; on each CPU the interrupt comes at the thread's tenth call."""
    lines = [
        f" 1.000000 |   0)  workload-9 |   1.000 us    |  {call.function}();"
        for call in workload.expect(seed, cpus).contexts["main"] if call.function in names
    ]
    for cpu in range(cpus):
        around = list[tuple[int, str]]()

        def until(depth: int, base: int) -> list[str]:
            ended = []
            while len(around) > base and around[-1][0] >= depth:
                ended.append(line(len(around) - 1, f"}} /* {around.pop()[1]} */"))
            return ended

        def line(depth: int, what: str) -> str:
            return f" 1.000000 |   {cpu})  workload-9 |               |  {'  ' * depth}{what}"

        def calls(kind: str, base: int) -> Iterator[str]:
            for n, call in enumerate(workload.expect(seed, cpus).contexts[f"{kind} {cpu}"]):
                if kind == "thread" and n == 10:
                    yield from calls("interrupt", len(around))
                yield from until(call.depth, base)
                if call.function in names:
                    yield line(len(around), f"{call.function}() {{")
                    around.append((call.depth, call.function))
            yield from until(0, base)

        lines += calls("thread", 0)
    return lines


class GraphAlone(unittest.TestCase):
    """The same for function_graph."""

    def graded(self, spoils: Callable[[list[str]],
                                      list[str]] = lambda lines: lines) -> report.Grade:
        e = Evidence("riscv64", 5, 4, 7, fake_kernel(), LOGS / "none.log", line="unix:line")
        e.files[AT_BOOT] = crcs(AT_REST)
        for seed, functions in ((1, workload.FUNCTIONS), (2, ("wl_rest", "wl_begin",
                                                              *workload.LEAVES, *workload.FANS))):
            chosen = Filter("wl_*", "", frozenset(functions))
            text = "\n".join(["# tracer: function_graph", *spoils(graph(seed, 4, chosen.names))])
            e.phases.append(
                Phase(f"trace {seed}", seed, chosen,
                      users=[User("", chosen, graph_text.parse(text))]))
        return report.judge("riscv64", 5, 7, [e])

    def test_a_right_trace_reaches_what_can_be_judged(self) -> None:
        grade = self.graded()
        self.assertEqual((grade.points, grade.possible), (15, 15),
                         [r.findings for r in grade.results])

    def test_a_wrong_trace_has_no_points_for_it(self) -> None:
        def at(found: str, change: Callable[[str], list[str]]) -> Callable[[list[str]], list[str]]:
            def changed(lines: list[str]) -> list[str]:
                n = next(n for n, line in enumerate(lines) if n > 20 and found in line)
                return [*lines[:n], *change(lines[n]), *lines[n + 1:]]
            return changed

        for name, spoils in {
                "an entry is missing": at("() {", lambda line: []),
                "a return is missing": at("} /*", lambda line: []),
                "a return of another function": at(
                    "} /*", lambda line: [re.sub(r"wl_\w+", "wl_wide_oak", line)]),
                "an entry is printed twice": at("() {", lambda line: [line, line]),
                "it is one deeper": at("() {", lambda line: [line.replace("wl_", "  wl_")]),
                "another function": at("() {",
                                       lambda line: [re.sub(r"wl_\w+", "wl_wide_oak", line)]),
                "events were lost": lambda lines: [*lines, "CPU:1 [LOST 3 EVENTS]"],
                "the first line, of wl_begin, is missing": lambda lines: lines[1:],
                "the rest is missing": lambda lines: lines[:-2], "nothing": lambda lines: []
        }.items():
            with self.subTest(name):
                self.assertLess(self.graded(spoils).points, 15)


def printed(lines: list[str]) -> str:
    """A `trace` file with these events."""
    return "\n".join([
        "# tracer: function",
        f"# entries-in-buffer/entries-written: {len(lines)}/{len(lines)}   #P:4", *lines
    ])


def event(cpu: int, pid: int, what: str, flags: str = ".....") -> str:
    return f"{'workload':>16}-{pid}      [00{cpu}] {flags}     1.000000: {what}"


Spoils = Callable[[list[str]], list[str]]


def as_it_is(lines: list[str]) -> list[str]:
    return lines


def last(change: Callable[[str], list[str]]) -> Spoils:
    return lambda lines: [*lines[:-1], *change(lines[-1])]


class ModulesAlone(unittest.TestCase):
    """The same for modules."""

    MAPLE, PINE = (cast(
        Module, SimpleNamespace(name=name, named=lambda part, name=name: f"{name}_{part} [{name}]"))
                   for name in ("maple", "pine"))

    def graded(self, visited: Spoils = as_it_is, came: Spoils = as_it_is, graph: Spoils = as_it_is,
               other: str = "", files: dict[str, str] | None = None,
               inside: dict[str, str] | None = None, of: str = SECOND) -> report.Grade:
        """`of`: the instance whose trace of the module that comes is spoilt."""
        e = Evidence("riscv64", 7, 4, 7, fake_kernel(), LOGS / "none.log", line="unix:line")
        e.files = {AT_BOOT: crcs(AT_REST), AT_END: crcs(AT_REST)}
        runs = [seeded.SeededRun(self.MAPLE, n, n) for n in (0, 1)]
        lines = [
            event(run.cpu, run.cpu + 7, f"{name} <-file_write") for run in runs
            for name in (self.MAPLE.named("write"), *seeded.expect(run).calls)
        ]
        lines[9:9] = [event(3, 1, f"{self.PINE.named(part)} <-insmod") for part in ("init", "exit")]
        e.visits = [
            Visit("pine comes and goes", runs, frozenset(), [],
                  output="\n".join(seeded.expect(run).line for run in runs),
                  trace=parse(printed(visited(lines))))
        ]
        run = seeded.SeededRun(self.PINE, 5)
        names = [self.PINE.named("init"), self.PINE.named("write"), *seeded.expect(run).calls]
        lines = [event(0, 1, f"{name} <-insmod") for name in names]
        traces = {
            at: parse(printed(came(lines) if at == of else lines))
            for at in ("", SECOND, REQUEST)
        } | {OTHER: parse(printed([other] if other else []))}
        e.coming = [
            Coming(run, output=seeded.expect(run).line, traces={at: traces[at]
                                                                for at in of_one},
                   graph=graph(names)) for of_one in (("", SECOND), ("", REQUEST, OTHER))
        ]
        e.going = Going(
            self.MAPLE, Loaded(self.PINE, True), files={
                f"enabled_functions{BEFORE}": "maple_leaf [maple] (1)\n", "enabled_functions": "",
                "set_ftrace_filter": "", "enabled_functions again": "",
                "set_ftrace_filter again": ""
            } | (files or {}))
        e.inside = {**dict.fromkeys(INSIDE, "rmmod: maple: EBUSY\n"), "another": "", "awake": ""
                    } | (inside or {})
        return report.judge("riscv64", 7, 7, [e])

    def test_a_right_console_reaches_what_can_be_judged(self) -> None:
        grade = self.graded()
        self.assertEqual((grade.points, grade.possible), (40, 40),
                         [r.findings for r in grade.results])

    def test_each_wrong_console_loses_its_rung(self) -> None:
        shorter, twice = last(lambda line: []), last(lambda line: [line, line])
        nothing = lambda lines: lines[:0]
        for lost, name, wrong in (
            ("many CPUs", "a call is missing", {"visited": shorter}),
            ("many CPUs", "a call is printed twice", {"visited": twice}),
            ("many CPUs", "a call that nobody made",
             {"visited": lambda lines: [event(0, 30, "maple_leaf [maple] <-file_write"), *lines]}),
            ("many CPUs", "another function",
             {"visited": lambda lines:
              [*lines[:5], lines[5].replace("maple_", "maple_l"), *lines[6:]]}),
            ("coming", "init is missing", {"came": lambda lines: lines[1:]}),
            ("coming", "a call is missing", {"came": shorter}),
            *(("coming", f"{at or 'the top'} has none", {"came": nothing, "of": at})
              for at in ("", SECOND, REQUEST)),
            ("coming", "function_graph has none", {"graph": nothing}),
            ("coming", "function_graph lacks one", {"graph": shorter}),
            ("coming", "a tracer of wl_begin has them",
             {"other": event(0, 1, "pine_leaf [pine] <-insmod")}),
            ("going", "enabled_functions lists it",
             {"files": {"enabled_functions": "maple_leaf [maple] (1)\n"}}),
            ("going", "a filter lists its successor",
             {"files": {"set_ftrace_filter again": "pine_leaf [pine]\n"}}),
            ("going", "it was never traced", {"files": {f"enabled_functions{BEFORE}": ""}}),
            *(("inside", f"{case}: it was removed", {"inside": {case: ""}}) for case in INSIDE),
            ("inside", "it stays for ever", {"inside": {"awake": "rmmod: maple: EBUSY\n"}})):
            with self.subTest(name, rung=lost):
                grade = self.graded(**wrong)  # type: ignore[arg-type]
                self.assertEqual([r.rung.name for r in grade.results if r.lost], [lost],
                                 [r.findings for r in grade.results])

    def test_nothing_printed_is_nothing_reached(self) -> None:
        grade = self.graded(lambda lines: [], lambda lines: [], lambda lines: [],
                            files={f"enabled_functions{BEFORE}": ""},
                            inside=dict.fromkeys(INSIDE, ""))
        self.assertEqual((grade.points, grade.possible), (0, 40))


class ProbesAlone(unittest.TestCase):
    """The same for events by probes."""

    SIZE = 0x40
    STARTS = {name: 0x1000 + 0x40 * n for n, name in enumerate(workload.FUNCTIONS)}
    PROBED, RETURNING = ("wl_fan_amber", "wl_rest", "wl_leaf_ash",
                         "wl_tail_swan"), ("wl_leaf_ash", "wl_leaf_holly")

    def kernel(self) -> Kernel:
        def name_at(address: int) -> str:
            return next(f"{name}+{address - at:#x}" for name, at in self.STARTS.items()
                        if at <= address < at + self.SIZE)

        def extent(name: str) -> tuple[int, int]:
            return self.STARTS[name], self.STARTS[name] + self.SIZE

        return cast(Kernel,
                    SimpleNamespace(**vars(fake_kernel()) | {"name_at": name_at, "extent": extent}))

    def graded(self, spoils: Spoils = as_it_is, counts: Spoils = as_it_is) -> report.Grade:
        e = Evidence("riscv64", 8, 4, 7, self.kernel(), LOGS / "none.log", line="unix:line")
        e.files = {AT_BOOT: crcs(AT_REST), AT_END: crcs(AT_REST)}
        e.probed, e.returning = [self.STARTS[name] + 4 for name in self.PROBED], self.RETURNING
        lines, hits = list[str](), dict.fromkeys(range(len(self.PROBED)), 0)
        for context, calls in workload.expect(3, 4).contexts.items():
            kind, _, cpu = context.partition(" ")
            for call in calls:
                of = []
                for n, name in enumerate(self.PROBED):
                    hits[n] += name == call.function
                    of += [f"at{n}: ({name}+0x4/0x40)"] if name == call.function else []
                of += [
                    f"back{n}: ({call.caller}+0x24/0x40 <- {name}) "
                    f"arg1={workload.returned(call):#x}"
                    for n, name in enumerate(self.RETURNING) if name == call.function
                ]
                lines += [
                    event(int(cpu or 0),
                          int(cpu or 9) + 10, what, "d.h1." if kind == "interrupt" else ".....")
                    for what in of
                ]
        e.files[PROFILE] = "".join(counts([f"  at{n}   {count}   0\n"
                                           for n, count in hits.items()]))
        e.phases = [
            Phase(PROBES, 3, None, output=workload.expect(3, 4).line,
                  trace=parse(printed(spoils(lines)), PROBE_LINE))
        ]
        return report.judge("riscv64", 8, 7, [e])

    def test_a_right_console_reaches_what_can_be_judged(self) -> None:
        grade = self.graded()
        self.assertEqual((grade.points, grade.possible), (30, 30),
                         [r.findings for r in grade.results])

    def test_each_wrong_console_loses_its_rung(self) -> None:
        def at(found: str, change: Callable[[str], list[str]]) -> Spoils:
            def changed(lines: list[str]) -> list[str]:
                n = next(n for n, line in enumerate(lines) if n > 20 and found in line)
                return [*lines[:n], *change(lines[n]), *lines[n + 1:]]
            return changed

        for lost, name, wrong in (("many CPUs", "a hit is missing", {
                "spoils": at(" at0:", lambda line: [])
        }), ("many CPUs", "a hit is printed twice",
             {"spoils": at(" at2:", lambda line: [line, line])}), ("many CPUs", "another place", {
                 "spoils": at(" at1:", lambda line: [line.replace("+0x4/", "+0x8/")])
             }), ("many CPUs", "an interrupt is not printed as one", {
                 "spoils": at("d.h1.     1.000000: at",
                              lambda line: [line.replace("d.h1.", ".....")])
             }), ("many CPUs", "one hit was missed", {
                 "counts": lambda lines: [line.replace("   0\n", "   1\n") for line in lines]
             }), ("many CPUs", "no counts",
                  {"counts": lambda lines: []
                   }), ("returns", "a return is missing",
                        {"spoils": at(" back0:", lambda line: [])
                         }), ("returns", "a return is printed twice",
                              {"spoils": at(" back1:", lambda line: [line, line])
                               }), ("returns", "another caller", {
                                   "spoils": at(" back0:",
                                                lambda line: [re.sub(r"\(\w+", "(schedule", line)])
                               }), ("returns", "another value",
                                    {"spoils": at(" back1:", lambda line: [f"{line}f"])})):
            with self.subTest(name, rung=lost):
                grade = self.graded(**wrong)  # type: ignore[arg-type]
                self.assertEqual([r.rung.name for r in grade.results if r.lost], [lost],
                                 [r.findings for r in grade.results])

    def test_nothing_printed_is_nothing_reached(self) -> None:
        grade = self.graded(lambda lines: [])
        self.assertEqual((grade.points, grade.possible), (0, 30))


@contextmanager
def bad_line(listener: socket.socket, seed: int, rate: float) -> Iterator[str]:
    """A pseudo-terminal whose other end is QEMU's serial line; bytes are lost, doubled, changed and
    late in between. Gives its path."""
    ours, theirs = os.openpty()
    tty.setraw(theirs)
    noise = {side: Noise(seed + n, rate) for n, side in enumerate(("there", "back"))}
    late = random.Random(seed + 2)

    def carry() -> None:
        waiting = {"there": b"", "back": b""}
        with listener.accept()[0] as line, os.fdopen(ours, "r+b", buffering=0), os.fdopen(
                theirs, "r+b", buffering=0), suppress(ConnectionError):
            while True:
                ready = select.select([line, ours], [], [], 0.01)[0]
                if line in ready:
                    if not (data := line.recv(4096)):
                        break
                    waiting["back"] += noise["back"].through(data)
                if ours in ready:
                    waiting["there"] += noise["there"].through(os.read(ours, 4096))
                for side, to in (("there", line.fileno()), ("back", ours)):
                    n = late.randrange(len(waiting[side]) + 1) if ready else len(waiting[side])
                    waiting[side] = waiting[side][os.write(to, waiting[side][:n]):]

    thread = threading.Thread(target=carry, daemon=True)
    thread.start()
    yield os.ttyname(theirs)
    thread.join()


@contextmanager
def at_a_line(machine: Machine, rate: float, seed: int) -> Iterator[str]:
    """QEMU, at the far end of such a line. Gives the line's path."""
    with tempfile.TemporaryDirectory() as scratch, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{scratch}/line")
        listener.listen()
        (disk := Path(scratch, "disk")).mkdir()
        serial = ["-chardev", f"socket,id=line,path={scratch}/line", "-serial", "chardev:line"]
        with bad_line(listener, seed,
                      rate) as pty, subprocess.Popen([*WITH_US,
                                                      *machine.command(serial, disk)]) as qemu:
            try:
                yield pty
            finally:
                qemu.kill()


class Graded(unittest.TestCase):
    """A lab's solution in QEMU, through U-Boot, at the far end of a bad line."""

    def machine(self, arch: str, lab: int) -> Machine:
        LOGS.mkdir(parents=True, exist_ok=True)
        image = ROOT / "build" / arch / f"lab{lab}" / "Image"
        subprocess.run([
            "make", "-s", "-C",
            str(ROOT), f"LAB={lab}",
            str(image.relative_to(ROOT)), f"build/{arch}/initrd.cpio"
        ], check=True)
        return Machine(arch, smp=4, image=image, uboot=True,
                       initrd=initrd_of(arch) if lab == 7 else None)

    def graded(self, machine: Machine, lab: int, rate: float, *types: str) -> report.Grade:
        seed = random.getrandbits(64)
        with at_a_line(machine, rate, seed % 1000) as pty:
            kernel = Kernel(machine.image_path().with_name("callsite.elf"), machine.arch)
            evidence = rubric.boot_on_line(kernel, lab, seed, LOGS,
                                           Place(f"pty:{pty}", UBoot(commands=types)))
        self.assertEqual(evidence.why, "", f"{seed:x}, {evidence.log}")
        return report.judge(machine.arch, lab, seed, [evidence])

    def test_a_raspberry_pi_that_cannot_be_turned_off(self) -> None:
        """Its card boots by itself. After poweroff nothing is printed any more."""
        tree = FETCHED / "bcm2837-rpi-3-b.dtb"
        if board_uboots.fetch(
                "arm64", "rpi_3") or not tree.exists() and board_trees.main() and not tree.exists():
            print(
                "skipped: a Raspberry Pi over its line: its U-Boot or device tree could not be "
                "fetched from Debian"
            )
            self.skipTest("could not be fetched")
        machine, card = self.machine("arm64", 3), LOGS / "raspi3b.img"
        subprocess.run([
            "/usr/bin/python3", "boot/card.py", "--arch", "arm64", "--image",
            machine.image_path(), "--initrd",
            initrd_of("arm64"), "--folder", LOGS / "card", "--out", card
        ], cwd=ROOT, check=True)
        grade = self.graded(
            replace(machine, memory=1024, board="raspi3b", card=card, extra=["-dtb",
                                                                             str(tree)]), 3, 0)
        self.assertEqual((grade.points, grade.possible), (25, 25),
                         [r.findings for r in grade.results])

    def test_make_grades_the_machine_at_a_line(self) -> None:
        """The command is what `make grade` would run, but that the kernel is built already, and
        that it has a folder for its results. UBOOT= is one line, in which a quote is the shell's.
        """
        machine = self.machine("arm64", 3)
        types = boot_script(machine).replace("'", "").splitlines()
        with tempfile.TemporaryDirectory() as folder, at_a_line(machine, 0.001, 1) as pty:
            said = subprocess.check_output([
                "make", "-n", "-C",
                str(ROOT), "grade", "LAB=3", "ARCH=arm64", f"MACHINE=pty:{pty}",
                f"POWER=echo >> {folder}/power", "UBOOT_PROMPT==> ", f"UBOOT={'; '.join(types)}"
            ], text=True)
            command = next(line for line in said.replace("\\\n", " ").splitlines()
                           if "-m grading --lab" in line)
            done = subprocess.run(f"{command} --make true --out {folder}", shell=True, cwd=ROOT,
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("25 of 25 points", done.stdout)
            self.assertEqual(Path(folder, "power").read_text(), "on\noff\n")

    def test_a_bad_line_costs_no_point(self) -> None:
        for arch, lab, points in (("riscv64", 3, 25), ("arm64", 6, 15), ("arm64", 7, 40),
                                  ("riscv64", 8, 30)):
            with self.subTest(arch=arch, lab=lab):
                machine = self.machine(arch, lab)
                grade = self.graded(machine, lab, 0.001, *boot_script(machine).splitlines())
                self.assertEqual((grade.points, grade.possible), (points, points),
                                 [r.findings for r in grade.results])
                self.assertEqual(grade.verdict, Verdict.PASS)
                self.assertGreater(grade.evidence[0].again, 0)


if __name__ == "__main__":
    unittest.main()

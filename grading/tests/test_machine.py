"""Each way in which a run may end has its own verdict; tested with real one-page kernels."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import termios
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from grading.checks import rubric
from grading.elf.elf import ALIAS_BASE, KERNEL_BASE, Kernel
from grading.machine.console import GuestConsole
from grading.machine.gdbstub import Stub
from grading.machine.machine import ADDRESSES, LONGEST, Run
from grading.machine.observer import Kind
from grading.report import report
from grading.session.session import machine_of
from grading.tests import mutants, tiny
from grading.verdict import Stopped, Verdict
from qemu.isa import ARCHES, ISAS, RISCV64
from qemu.isa.common import MIB
from qemu.machine import ROOT
from qemu.reason import Reason

LOGS = ROOT / "build/tests/machine"
NOP = {"riscv64": 0x00000013, "arm64": 0xD503201F}


def run(arch: str, part: str, budget: int = 0, cap: int = 32 << 20, observe: bool = True) -> Run:
    config = tiny.config(arch, part, "site traced_site", "point tracer") if observe else None
    return Run(tiny.machine(arch, part), LOGS / f"{arch}-{part}.log", config, budget, cap)


def holds(console: GuestConsole, size: int) -> None:
    """Wait until the console's pipe holds so many bytes."""
    while int.from_bytes(fcntl.ioctl(console._from, termios.FIONREAD, bytes(4)),
                         sys.byteorder) < size:
        time.sleep(0.01)


class Words(unittest.TestCase):
    def test_words_are_seen_however_much_was_read_after_them(self) -> None:
        """On a busy host one read may return more than the last lines."""
        LOGS.mkdir(parents=True, exist_ok=True)
        script = "printf 'the words\\n'; sleep 0.3; printf '%09999d=> ' 0; cat"
        with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              bufsize=0) as program, \
                closing(GuestConsole(program, LOGS / "words.log", 1 << 20, lambda: None,
                                     time.monotonic)) as console:
            holds(console, len("the words\n") + 9999 + len("=> "))
            text = console.wait_for(lambda _: console.has("the words"), 20, "the words")
            self.assertTrue(text.startswith("the words\n0"), text[:20])
            self.assertFalse(console.has("the words"))


class Ends(unittest.TestCase):
    """Each one-page kernel ends with the verdict that it is made for."""

    def ends(self, part: str, verdict: Verdict, seconds: float = 30, budget: int = 0,
             cap: int = 32 << 20, observe: bool = True) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.assertRaises(Stopped) as caught:
                with run(arch, part, budget, cap, observe) as machine:
                    machine.console.wait_ready(seconds)
            self.assertEqual(caught.exception.verdict, verdict, f"{arch}: {caught.exception}")

    def test_a_panic_is_a_panic(self) -> None:
        self.ends("PANIC", Verdict.PANIC)

    def test_a_qemu_that_ends_slowly_is_waited_for(self) -> None:
        """On a busy host it may take long from the end of its console to its own."""
        with self.assertRaises(Stopped) as caught, run("arm64", "PANIC") as machine:
            ends = machine._process.wait

            def in_ten_seconds(timeout: float | None = None) -> int:
                if timeout is not None and timeout < 10:
                    raise subprocess.TimeoutExpired("qemu", timeout)
                return ends(timeout)

            with mock.patch.object(machine._process, "wait", in_ten_seconds):
                machine.console.wait_ready(30)
        self.assertEqual(caught.exception.verdict, Verdict.PANIC, caught.exception)

    def test_a_kernel_that_prints_nothing_is_dead(self) -> None:
        for arch in ARCHES:
            with self.assertRaises(Stopped) as caught, run(arch, "DEAD",
                                                           budget=100_000_000) as machine:
                machine.console.wait_ready(20)
            firmware_speaks = arch == "riscv64"
            expected = Verdict.TIMEOUT if firmware_speaks else Verdict.DEAD
            self.assertEqual(caught.exception.verdict, expected)

    def test_an_endless_loop_uses_up_its_instructions(self) -> None:
        self.ends("LOOP", Verdict.TIMEOUT, seconds=30, budget=100_000_000)

    def test_it_may_have_ended_before_anybody_looked(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), run(arch, "LIVE", budget=100_000_000) as machine:
                machine.console.wait_ready(30)
                assert machine.observer
                while not machine.observer.insns():  # instructions are counted by the million
                    machine.console.drain(0.05)
                machine.power_off()
                machine.check_limits()
                machine.budget = 1
                with self.assertRaises(Stopped) as caught:
                    machine.check_limits()
                self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT)
                machine.grant(100_000_000, 0)
                machine.check_limits()

    def test_an_endless_sleep_meets_the_wall_clock(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.assertRaises(Stopped) as caught, run(
                    arch, "WAIT", budget=100_000_000) as machine:
                machine.console.wait_for(lambda text: bool(text), 30, "first words")
                machine.console.wait_ready(1.5)
            self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT,
                             f"{arch}: {caught.exception}")

    def test_a_machine_that_counts_instructions_is_woken(self) -> None:
        """Its QEMU may stand still when all CPUs are idle. Another one is left alone."""
        for counts in (True, False):
            machine = replace(tiny.machine("arm64", "WAIT"),
                              extra=["-icount", "shift=5"] if counts else [])
            with mock.patch("grading.machine.machine.WAKE",
                            0), mock.patch.object(Reason,
                                                  "wake") as wake, Run(machine,
                                                                       LOGS / "woken.log") as run_:
                run_.console.wait_for(lambda text: bool(text), 30, "first words")
                with self.assertRaises(Stopped):
                    run_.console.wait_ready(0.5)
                self.assertEqual(wake.called, counts)

    def test_a_boot_as_a_whole_has_an_end(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), run(arch, "LIVE", budget=100_000_000) as machine:
                machine.console.wait_ready(30)
                machine.grant(0, -LONGEST - 1)
                with self.assertRaises(Stopped) as caught:
                    machine.watch()
                self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT)
                self.assertIn("in all", caught.exception.why)

    def test_a_busy_host_makes_nobody_late(self) -> None:
        """Four programs compete with QEMU for a processor: the time that QEMU must wait does not
        count."""
        hog = ("import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nos.write(1, "
               "b'.')\nwhile True: pass")
        cpu = min(os.sched_getaffinity(0))
        for arch in ARCHES:
            with self.subTest(arch=arch), ExitStack() as hogs, run(arch, "LOOP") as machine:
                assert machine._process
                for thread in os.listdir(f"/proc/{machine._process.pid}/task"):
                    os.sched_setaffinity(int(thread), {cpu})
                for _ in range(4):
                    process = hogs.enter_context(
                        subprocess.Popen([sys.executable, "-c", hog,
                                          str(cpu)], stdout=subprocess.PIPE))
                    hogs.callback(process.kill)
                    assert process.stdout
                    process.stdout.read(1)  # wait until it runs
                began, start = machine.clock(), time.monotonic()
                late = time.monotonic() - machine.clock()
                with self.assertRaises(Stopped):
                    machine.console.wait_for(lambda text: False, 1, "what never comes")
                self.assertGreaterEqual(machine.clock() - began, 1)
                # until it has waited for a second
                while time.monotonic() - machine.clock() < late + 1:
                    self.assertLess(time.monotonic(), start + 300, "its clock is the wall's")
                    time.sleep(0.01)

    def test_the_first_cpu_boots(self) -> None:
        """riscv64: CPU 0 has left the firmware before another hart executes anything."""
        machine = replace(tiny.machine("riscv64", "LIVE"), smp=2)
        with Run(machine, LOGS / "riscv64-first.log", stopped=True) as run_, run_.held() as stub:
            self.assertEqual([stub.pc(cpu) for cpu in range(2)], [RISCV64.after_firmware, 0x1000])

    def test_the_clock_does_not_go_back(self) -> None:
        """A wait of ten seconds is in schedstat only when it is over; until then the clock has
        counted it."""
        with run("arm64",
                 "LOOP") as machine, tempfile.TemporaryDirectory(prefix="callsite-test-") as task:
            schedstat = Path(task, "schedstat")
            schedstat.write_text("0 0 1\n")
            with mock.patch.object(machine, "_tasks",
                                   return_value=[task]), mock.patch("grading.machine.machine.LOOK",
                                                                    0):
                before = machine.clock()
                schedstat.write_text(f"0 {10 * 10**9} 1\n")
                self.assertEqual(machine.clock(), before)

    def test_a_flood_is_a_flood(self) -> None:
        self.ends("FLOOD", Verdict.FLOOD, seconds=60, cap=1 << 17)

    def test_a_flood_is_a_flood_while_qemu_is_asked_for_something(self) -> None:
        for arch in ARCHES:
            for wait in (lambda m: m.memory(tiny.symbols(arch, "FLOOD")["_start"], 4),
                         self.goes_on):
                with self.subTest(arch=arch), run(arch, "FLOOD", cap=1 << 17) as machine:
                    self.fills(machine)
                    with self.assertRaises(Stopped) as caught:
                        wait(machine)
                        machine.console.wait_ready(60)
                    self.assertEqual(caught.exception.verdict, Verdict.FLOOD)

    @staticmethod
    def fills(machine: Run) -> None:
        """Print until the console's pipe is full and QEMU blocks."""
        holds(machine.console, fcntl.fcntl(machine.console._from, fcntl.F_GETPIPE_SZ))

    @staticmethod
    def goes_on(machine: Run) -> None:
        with machine.held() as stub:
            stub.go_on()
            stub.stopped(30)

    def test_a_jump_to_the_start_is_a_reboot_loop(self) -> None:
        self.ends("REBOOT", Verdict.REBOOT)

    def test_a_reset_without_a_panic_is_a_reboot(self) -> None:
        self.ends("RESET", Verdict.REBOOT)

    def ended_by(self, number: int, then: Callable[[Run], object]) -> Verdict:
        """The verdict if a signal ends QEMU before this is done."""
        with self.assertRaises(Stopped) as caught, run("arm64", "LIVE") as machine:
            machine.console.wait_ready(30)
            machine._process.send_signal(number)
            then(machine)
        return caught.exception.verdict

    def test_one_that_ends_before_its_memory_is_read_is_dead(self) -> None:
        self.assertEqual(
            self.ended_by(
                signal.SIGSEGV,
                lambda machine: machine.memory(tiny.symbols("arm64", "LIVE")["traced_site"], 4)),
            Verdict.DEAD)

    def test_one_that_the_host_ends_is_an_error_of_the_harness(self) -> None:
        """The OOM killer sends SIGKILL. A store into a mapped file for which the disk has no room
        is a SIGBUS."""
        thens: list[Callable[[Run], object]] = [
            lambda machine: machine.memory(tiny.symbols("arm64", "LIVE")["traced_site"], 4),
            lambda machine: machine.console.command("now"), lambda machine: machine.power_off()
        ]
        for number in (signal.SIGKILL, signal.SIGBUS):
            for then in thens:
                self.assertEqual(self.ended_by(number, then), Verdict.HARNESS, number)

    def test_a_missing_image_is_a_harness_error(self) -> None:
        machine = tiny.machine("riscv64", "LIVE")
        machine.image = LOGS / "nothing-is-here"
        began = time.monotonic()
        with self.assertRaises(Stopped) as caught, Run(machine, LOGS / "missing.log"):
            pass
        self.assertEqual(caught.exception.verdict, Verdict.HARNESS)
        self.assertLess(time.monotonic() - began, 30, "it waited for a QEMU that had ended")


class OnePageKernels(unittest.TestCase):
    def test_one_is_whole_while_another_test_builds_it(self) -> None:
        """test_observer runs beside this file. The tools empty their output file before they write
        it."""
        files = [tiny.build("riscv64", "LIVE").with_suffix(suffix) for suffix in (".elf", ".img")]
        whole, runs = [file.read_bytes() for file in files], subprocess.run

        def halfway(command: list[str], check: bool) -> None:
            Path(command[command.index("-o") +
                         1] if "-o" in command else command[-1]).write_bytes(b"")
            self.assertEqual([file.read_bytes() for file in files], whole)
            runs(command, check=check)

        with mock.patch("grading.tests.tiny.subprocess.run", halfway):
            tiny.build.__wrapped__("riscv64", "LIVE")
        self.assertEqual(files[1].read_bytes(), whole[1])


class ObservedMachine(unittest.TestCase):
    """The observer reports what was executed, whatever the kernel prints."""

    def sites(self, arch: str, part: str) -> tuple[list[int], int, int, str]:
        """The words executed at the site before and during tracing; entries of the tracer; stores;
        the printed trace."""
        with run(arch, part) as machine:
            machine.console.wait_ready(30)
            with machine.observer.recording():
                machine.console.command("now")
                machine.console.command("enable")
                machine.console.command("now")
            text = machine.console.command("cat")
            machine.power_off()
            assert machine.observer
            records = list(machine.observer.records())
        words = [r.word for r in records if r.kind == Kind.SITE]
        hits = sum(r.kind == Kind.POINT for r in records)
        stores = sum(r.kind == Kind.STORE for r in records)
        return words, hits, stores, text

    def test_a_patched_site_shows_nop_then_call(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                words, hits, stores, text = self.sites(arch, "LIVE")
                self.assertEqual(len(words), 2)
                self.assertEqual(words[0], NOP[arch])
                self.assertNotEqual(words[1], NOP[arch])
                self.assertEqual((hits, stores), (1, 1))
                self.assertIn("traced <-work", text)

    def test_a_liar_prints_the_same_and_is_seen(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                words, hits, stores, text = self.sites(arch, "LIAR")
                self.assertEqual(words, [NOP[arch]] * 2)
                self.assertEqual((hits, stores), (0, 0))
                self.assertIn("traced <-work", text)

    def test_memory_is_read_without_the_guest(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), run(arch, "LIVE") as machine:
                machine.console.wait_ready(30)
                site = tiny.symbols(arch, "LIVE")["traced_site"]
                self.assertEqual(int.from_bytes(machine.memory(site, 4), "little"), NOP[arch])
                machine.console.command("enable")
                self.assertNotEqual(int.from_bytes(machine.memory(site, 4), "little"), NOP[arch])


def runs_to(stub: Stub, address: int) -> bool:
    stub.do(f"Z1,{address:x},4")
    stub.go_on()
    came = stub.stopped()
    stub.do(f"z1,{address:x},4")
    return came


@contextmanager
def in_firmware(machine: Run) -> Iterator[Stub]:
    """The machine, stopped while its hart is in M-mode, which has no page tables."""
    with Run.held(machine) as stub:
        machine.console.send(b"sleep 0.001\r")  # the firmware sets the timer
        assert runs_to(stub, stub.control_register(0, "mtvec") & ~3)
        yield stub
    machine.console.wait_ready(60)


@contextmanager
def at_its_first_instruction(machine: Run) -> Iterator[Stub]:
    """The machine, stopped at the kernel's first instruction, before there are page tables."""
    with Run.held(machine) as stub:
        assert runs_to(stub, machine.machine.load_address())
        yield stub


class Anywhere(unittest.TestCase):
    """The harness reads and writes memory correctly in whatever mode the CPU was stopped."""

    @classmethod
    def setUpClass(cls) -> None:
        mutants.build(3)

    def kernel(self, arch: str) -> Kernel:
        return Kernel(ROOT / f"build/{arch}/lab3/callsite.elf", arch)

    def boot(self, arch: str, smp: int = 1) -> Run:
        return Run(machine_of(self.kernel(arch), 3, smp), LOGS / f"{arch}-anywhere.log")

    def is_written(self, machine: Run, arch: str, stub: Stub) -> None:
        """With virtual addresses this would fail, so the harness does not use them."""
        site = self.kernel(arch).sites[0].address
        physical = machine.machine.load_address() + site - KERNEL_BASE
        before = machine.memory(physical, 4)
        stub.ask(f"M{site:x},4:{b'lost'.hex()}")  # riscv64: OK
        self.assertEqual(machine.memory(physical, 4), before)
        machine.write(physical, b"here")
        self.assertEqual(machine.memory(physical, 4), b"here")
        machine.write(physical, before)

    def test_why_it_ended_is_known_after_many_stops(self) -> None:
        """QEMU also reports each stop on this socket. (riscv64's QEMU gives no reason for a
        power-off.)"""
        with self.boot("arm64") as machine:
            machine.console.wait_ready(60)
            with machine.held() as stub:
                for _ in range(1000):  # not steps, as a step of an idle CPU would not end
                    stub.go_on()
                    stub.hold()
            machine.console.begin("poweroff")
            self.assertTrue(machine.wait_end(60))
            self.assertEqual(machine._reason.read(), "guest-shutdown")

    def test_in_firmware(self) -> None:
        with self.boot("riscv64") as machine:
            machine.console.wait_ready(60)
            with in_firmware(machine) as stub, mock.patch.object(
                    machine, "held", contextmanager(lambda: iter([stub]))):
                self.is_written(machine, "riscv64", stub)
                self.leads(machine, "riscv64", {0})

    def test_before_there_are_page_tables(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), ExitStack() as stack:
                with mock.patch.object(Stub, "go_on"):
                    machine = stack.enter_context(self.boot(arch))
                with at_its_first_instruction(machine) as stub, \
                        mock.patch.object(machine, "held", contextmanager(lambda: iter([stub]))):
                    self.assertEqual(machine.mapped(self.kernel(arch).text[0]), {})
                    self.is_written(machine, arch, stub)
                machine.console.wait_ready(60)

    def leads(self, machine: Run, arch: str, cpus: set[int]) -> None:
        """Page tables map text to its load address; between two batches they do not map its alias.
        """
        kernel = self.kernel(arch)
        for offset in (0, 0x1004):
            there = machine.machine.load_address() + offset
            self.assertEqual(machine.mapped(kernel.text[0] + offset), dict.fromkeys(cpus, there))
        self.assertEqual(machine.mapped(ALIAS_BASE), {})

    def test_page_tables_of_each_cpu(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.boot(arch, 4) as machine:
                machine.console.wait_ready(60)
                self.leads(machine, arch, {0, 1, 2, 3})

    def test_an_address_that_is_none_is_no_error_of_the_harness(self) -> None:
        """sp and fp may have any value."""
        for arch in ARCHES:
            with self.subTest(arch=arch), self.boot(arch) as machine:
                machine.console.wait_ready(60)
                with machine.held() as stub:
                    for address in (-512, 0, 1 << 63, (1 << 64) - 8, 1 << 64):
                        self.assertEqual(stub.read(address, 512), b"")

    def test_text_that_can_only_be_executed_is_mapped(self) -> None:
        self.assertEqual(RISCV64.table_entry(0x80200000 >> 2 | 0b1001, True),
                         (True, True, False, 0x80200000))

    def test_page_tables_that_are_garbage_lead_nowhere(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.boot(arch) as machine:
                machine.console.wait_ready(60)
                kernel = self.kernel(arch)
                root = (machine.machine.load_address() + kernel.address_of("_early_tables")
                        - KERNEL_BASE)
                at = root + 8 * (kernel.text[0] >> 30 & 511)
                for garbage in (0, 1, (1 << 64) - 1, 0x10000003, 0x10000001 << 28):
                    with machine.held() as stub, mock.patch.object(
                            machine, "held", contextmanager(lambda: iter([stub]))):
                        right = machine.memory(at, 8)
                        stub.write_physical(at, garbage.to_bytes(8, "little"))
                        self.assertNotEqual(machine.mapped(kernel.text[0]),
                                            {0: machine.machine.load_address()})
                        stub.write_physical(at, right)

    def test_what_the_page_tables_let_the_kernel_write(self) -> None:
        """One more entry maps a GiB of memory with text in it, writable or not."""
        for arch in ARCHES:
            base = ISAS[arch].ram
            leaves = {
                "riscv64": (base >> 2 | 0xCB, base >> 2 | 0xCF),
                "arm64": (base | 0x781, base | 0x701)
            }[arch]
            with self.subTest(arch=arch), self.boot(arch) as machine:
                machine.console.wait_ready(60)
                kernel, loaded = self.kernel(arch), machine.machine.load_address()
                text = loaded, loaded + kernel.text[1] - kernel.text[0]
                at = loaded + kernel.address_of("_early_tables") - KERNEL_BASE + 8 * 100
                self.assertEqual(machine.writable(*text), [])
                self.assertEqual(machine.writable(text[1], base + MIB * 16), [0],
                                 "what is no text may be written")
                for leaf, cpus in zip(leaves, ([], [0])):
                    machine.write(at, leaf.to_bytes(8, "little"))
                    self.assertEqual(machine.writable(*text), cpus)
                machine.write(at, bytes(8))

    def test_page_tables_without_end_are_a_fail(self) -> None:
        base = RISCV64.ram

        def table(at: int, size: int) -> bytes:
            return b"".join((base + word % 30000 * 4096 >> 2 | 1).to_bytes(8, "little")
                            for word in range(at // 8, (at + size) // 8))

        with self.boot("riscv64") as machine, mock.patch.object(machine, "read", table), \
                self.assertRaisesRegex(Stopped, "refer to [0-9]+ others"):
            list(machine._walk(base, range(ADDRESSES)))

    def test_what_was_written_and_is_not_there_is_no_ones_mistake_but_the_harness_s(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.boot(arch) as machine:
                machine.console.wait_ready(60)
                with self.assertRaisesRegex(
                        OSError, "QEMU was to write 01020304 into memory at 0x10, and it holds"):
                    machine.write(0x10, bytes([1, 2, 3, 4]))  # no memory at this address

    def test_a_right_kernel_loses_nothing(self) -> None:
        """Lab 3 refuses a site that the harness overwrote while the hart was in firmware."""
        kernel = self.kernel("riscv64")
        machine_held = Run.held
        entered = mock.Mock()

        @contextmanager
        def held(machine: Run) -> Iterator[Stub]:
            with mock.patch.object(Run, "held", machine_held), in_firmware(machine) as stub:
                entered()
                yield stub

        with mock.patch.object(Run, "held", held):
            e = rubric.lab(3).session(kernel, 3, 1, 0x6f8c2f0dbb13a618, LOGS / "firmware.log").run()
        self.assertEqual((e.verdict, e.why), (Verdict.PASS, ""))
        self.assertGreater(entered.call_count, 5)
        self.assertEqual([f for f in report.findings_of(3, [e]) if f.get(1)], [])


if __name__ == "__main__":
    unittest.main()

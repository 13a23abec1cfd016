"""Each end of a run has its own verdict; real one-page kernels play the parts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from grading.console import FifoTransport
from grading.machine import Run
from grading.observer import Kind
from grading.tests import tiny
from grading.verdict import Stopped, Verdict
from qemu.machine import ARCHES, ROOT

LOGS = ROOT / "build/tests/machine"
NOP = {"riscv64": 0x00000013, "arm64": 0xD503201F}


def run(arch: str, part: str, budget: int = 0, cap: int = 32 << 20, observe: bool = True) -> Run:
    config = tiny.config(arch, part) if observe else None
    return Run(tiny.machine(arch, part), LOGS / f"{arch}-{part}.log", config, budget, cap)


class Ends(unittest.TestCase):
    """A kernel that plays PART ends with the verdict of that name."""

    def ends(self, part: str, verdict: Verdict, seconds: float = 30, budget: int = 0, cap: int = 32 << 20,
             observe: bool = True) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.assertRaises(Stopped) as caught:
                with run(arch, part, budget, cap, observe) as machine:
                    machine.console.wait_ready(seconds)
            self.assertEqual(caught.exception.verdict, verdict, f"{arch}: {caught.exception}")

    def test_a_panic_is_a_panic(self) -> None:
        self.ends("PANIC", Verdict.PANIC)

    def test_a_kernel_that_prints_nothing_is_dead(self) -> None:
        for arch in ARCHES:
            with self.assertRaises(Stopped) as caught, run(arch, "DEAD", budget=100_000_000) as machine:
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
                machine.power_off()
                machine.check_limits()
                machine.budget = 1
                with self.assertRaises(Stopped) as caught:
                    machine.check_limits()
                self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT)

    def test_an_endless_sleep_meets_the_wall_clock(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), self.assertRaises(Stopped) as caught, run(arch, "WAIT", budget=100_000_000) as machine:
                machine.console.wait_for(lambda text: bool(text), 30, "first words")
                machine.console.wait_ready(1.5)
            self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT, f"{arch}: {caught.exception}")

    def test_a_boot_as_a_whole_has_an_end(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch), run(arch, "LIVE", budget=100_000_000) as machine:
                machine.console.wait_ready(30)
                with mock.patch.object(machine, "_end", machine.clock()), self.assertRaises(Stopped) as caught:
                    machine.watch()
                self.assertEqual(caught.exception.verdict, Verdict.TIMEOUT)
                self.assertIn("in all", caught.exception.why)

    def test_a_busy_host_makes_nobody_late(self) -> None:
        """Four programs want the processor that QEMU runs on: a second of its time is several of the wall's."""
        hog = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"
        cpu = min(os.sched_getaffinity(0))
        for arch in ARCHES:
            with self.subTest(arch=arch), self.assertRaises(Stopped), run(arch, "LOOP") as machine:
                assert machine._process
                for thread in os.listdir(f"/proc/{machine._process.pid}/task"):
                    os.sched_setaffinity(int(thread), {cpu})
                hogs = [subprocess.Popen([sys.executable, "-c", hog, str(cpu)], start_new_session=True) for _ in range(4)]
                for process in hogs:
                    self.addCleanup(process.wait)
                    self.addCleanup(process.kill)
                began = time.monotonic()
                try:
                    machine.console.wait_for(lambda text: False, 1, "what never comes")
                finally:
                    self.assertGreater(time.monotonic() - began, 2)
                    for process in hogs:
                        process.kill()

    def test_a_flood_is_a_flood(self) -> None:
        self.ends("FLOOD", Verdict.FLOOD, seconds=60, cap=1 << 20)

    def test_a_jump_to_the_start_is_a_reboot_loop(self) -> None:
        self.ends("REBOOT", Verdict.REBOOT)

    def test_a_reset_without_a_panic_is_a_reboot(self) -> None:
        self.ends("RESET", Verdict.REBOOT)

    def test_one_that_ends_before_its_memory_is_read_is_dead(self) -> None:
        with self.assertRaises(Stopped) as caught, run("arm64", "LIVE") as machine:
            machine.console.wait_ready(30)
            assert machine._process
            machine._process.kill()
            machine.memory(tiny.symbols("arm64", "LIVE")["traced_site"], 4)
        self.assertEqual(caught.exception.verdict, Verdict.DEAD)

    def test_a_missing_image_is_a_harness_error(self) -> None:
        machine = tiny.machine("riscv64", "LIVE")
        machine.image = LOGS / "nothing-is-here"
        began = time.monotonic()
        with self.assertRaises(Stopped) as caught, Run(machine, LOGS / "missing.log"):
            pass
        self.assertEqual(caught.exception.verdict, Verdict.HARNESS)
        self.assertLess(time.monotonic() - began, 30, "it waited for a QEMU that had ended")

    def test_nobody_waits_at_a_line_whose_other_end_is_gone(self) -> None:
        with tempfile.TemporaryDirectory(prefix="callsite-test-") as name:
            console = Path(name) / "console"
            FifoTransport.make(console)
            with self.assertRaises(OSError):
                FifoTransport(console)


class Observed(unittest.TestCase):
    """The observer reports what was executed, whatever the kernel prints."""

    def sites(self, arch: str, part: str) -> tuple[list[int], int, int, str]:
        """Words executed at the site before, during; entries of the tracer; stores; the printed trace."""
        with run(arch, part) as machine:
            machine.console.wait_ready(30)
            machine.console.command("now")
            machine.console.command("enable")
            machine.console.command("now")
            text = machine.console.command("cat")
            machine.power_off()
            assert machine.observer
            records = list(machine.observer.records())
        words = [r.value for r in records if r.kind == Kind.SITE]
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


if __name__ == "__main__":
    unittest.main()

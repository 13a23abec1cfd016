"""last_boot=: the events of a boot that was reset, read by the next boot; on both architectures, on
one CPU and on four.

The machine is really reset: by a panic, by `reboot`, and by QEMU between two chosen instructions or
at any moment.
"""
import re
import subprocess
import unittest

from grading.elf.elf import Kernel
from grading.machine.console import PROMPT
from grading.machine.machine import Run
from kern.ftrace.tests import on_each_machine
from qemu.machine import FINISHED, ROOT, Machine

MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
SECONDS = 300  # for a boot or a command, on a busy host
SEED = "0123456789abcdef"


class OnAMachine:
    arch: str
    cpus: int
    machine: Run
    elf: Kernel

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / FINISHED / "Image"
        subprocess.run([
            *MAKE, f"ARCH={cls.arch}",
            str(image.relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"
        ], check=True)
        cls.elf = Kernel(image.with_name("callsite.elf"), cls.arch, any_name=True)
        config = Machine(cls.arch, smp=cls.cpus, image=image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio", memory=64,
                         append="last_boot=1M", extra=["-action", "reboot=reset"])  # not -no-reboot
        cls.machine = Run(config, ROOT / f"build/tests/last-boot-{cls.arch}-{cls.cpus}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(SECONDS)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    def sh(self, line: str) -> str:
        return self.machine.console.command(line, SECONDS)

    def quiet(self, *lines: str) -> None:
        for line in lines:
            self.assertEqual(self.sh(line), "", line)

    def setUp(self) -> None:
        if "last_boot" in self.sh("ls instances"):
            self.quiet("rmdir instances/last_boot")
        self.quiet("echo nop > current_tracer", "echo > trace", "echo > set_ftrace_filter",
                   "echo 1 > tracing_on")

    def trace(self, path: str = "trace") -> list[str]:
        """The events, without the threads' names: those are known in their own boot alone."""
        lines = [line for line in self.sh(f"cat {path}").splitlines() if not line.startswith("#")]
        return [
            " ".join(re.sub(r"(?!<idle>)\S+-(\d+)(?= )", r"\1", line).split()) for line in lines
        ]

    def booted(self, has: str) -> None:
        """Wait for the boot after a reset; this is what it says of the boot before."""
        said = self.machine.console.wait_for(
            lambda text: "\nlast_boot: " in text and text.endswith(PROMPT), SECONDS,
            "prompt of the next boot")
        self.assertRegex(said, rf"(?m)^last_boot: {has}$")

    def last(self) -> list[str]:
        events = self.trace("instances/last_boot/trace")
        self.assertEqual(self.sh("cat instances/last_boot/tracing_on"), "0\n")
        return events

    def record(self, tracer: str, functions: str) -> list[str]:
        self.quiet(f"echo '{functions}' > set_ftrace_filter", f"echo {tracer} > current_tracer")
        self.assertIn("result", self.sh(f"workload {SEED}"))
        self.quiet("echo 0 > tracing_on")
        return self.trace()

    def test_a_panic_shows_its_trace_in_the_next_boot(self) -> None:
        before = self.record("function", "wl_*")
        self.assertGreater(len(before), 500)
        self.assertEqual({line.split("[")[1][:3]
                          for line in before if ": wl_" in line},
                         {f"{cpu:03}"
                          for cpu in range(self.cpus)})
        self.machine.console.begin("panic now")
        self.booted(f"instances/last_boot has {len(before)} events of the boot before")
        self.assertEqual(self.last(), before)
        self.assertEqual(self.trace(), [])
        self.quiet("rmdir instances/last_boot")

    def test_a_reboot_shows_patched_returns(self) -> None:
        """The text of function_graph, too."""
        before = self.record("function_graph", "wl_fan_* wl_leaf_a*")
        self.machine.console.begin("reboot")
        self.booted(r"instances/last_boot has \d+ events of the boot before")
        self.assertEqual(self.last(), before)
        # It can be read like any instance, and starts anew when it is emptied.
        self.quiet("echo > instances/last_boot/trace", "echo 1 > instances/last_boot/tracing_on",
                   "echo new > instances/last_boot/trace_marker")
        self.assertRegex(self.sh("cat instances/last_boot/trace"), r"shell-1 .*: new\n$")

    def test_it_does_not_record_until_it_is_emptied(self) -> None:
        """The times of this boot are earlier. Only what empties the buffers of all CPUs starts the
        instance anew."""
        self.quiet("echo before > trace_marker", "echo 0 > tracing_on")
        before = self.trace()
        self.machine.console.begin("reboot")
        self.booted(r"instances/last_boot has 1 events of the boot before")
        self.quiet("echo 100 > instances/last_boot/buffer_size_kb")
        self.assertEqual(self.last(), before)
        self.quiet(f"echo > instances/last_boot/per_cpu/cpu{self.cpus - 1}/trace",
                   "echo 1 > instances/last_boot/tracing_on")
        self.assertIn("the events are those of the boot before",
                      self.sh("echo early > instances/last_boot/trace_marker"))
        self.assertNotIn("early", self.sh("cat instances/last_boot/trace"))
        self.quiet("echo > instances/last_boot/trace", "echo 1 > instances/last_boot/tracing_on",
                   "echo new > instances/last_boot/trace_marker")
        self.assertRegex(self.sh("cat instances/last_boot/trace"),
                         r"shell-1 .* [0-9]{1,3}\.\d+: .*: new\n$")

    def test_half_an_event_is_not_shown(self) -> None:
        """QEMU resets the machine when a marker is written and its commit is not."""
        self.quiet("echo whole > trace_marker")
        place = self.elf.symbol("trace_end")
        with self.machine.held() as stub:
            stub.breakpoint(place, True)
            self.machine.console.begin("echo half > trace_marker")
            stub.go_on()
            self.assertTrue(stub.stopped(SECONDS))
            stub.breakpoint(place, False)
            self.machine.reset()
        self.booted("instances/last_boot has 1 events of the boot before")
        self.assertRegex("".join(self.last()),
                         r"^\d+ \[\d+\] \S+ [\d.]+: tracing_mark_write: whole$")

    def test_a_reset_at_any_moment_damages_nothing(self) -> None:
        """All CPUs record every function in full buffers while the machine is reset."""
        self.quiet("echo function > current_tracer")
        self.sh(f"workload {SEED}")
        self.machine.console.begin(f"workload {SEED} &")
        self.machine.console.wait_for(lambda text: "] thread" in text, SECONDS, "job")
        self.machine.reset()
        self.booted(r"instances/last_boot has \d{4,} events of the boot before")
        stats = "".join(
            self.sh(f"cat instances/last_boot/per_cpu/cpu{cpu}/stats") for cpu in range(self.cpus))
        self.assertGreater(min(map(int, re.findall(r"entries: (\d+)", stats))), 0)

    def test_the_buffers_have_the_size_of_the_region(self) -> None:
        size = self.sh("cat buffer_size_kb")
        self.assertEqual(size, {1: "1004\n", 4: "243\n"}[self.cpus])
        self.assertIn("EBUSY", self.sh("echo 100 > buffer_size_kb"))
        self.assertEqual(self.sh("cat buffer_size_kb"), size)

    def test_they_change_places_with_no_others(self) -> None:
        for line in ("echo 1 > snapshot", "echo snapshot > events/kmem/kfree/trigger",
                     "echo 'file_open:snapshot' > set_ftrace_filter"):
            self.assertIn("EBUSY", self.sh(line), line)
        self.assertIn("Snapshot is freed", self.sh("cat snapshot"))


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(OnAMachine)


if __name__ == "__main__":
    unittest.main()

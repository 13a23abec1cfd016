"""Stacks on a booted kernel: func_stack_trace, the stack tracer, `ps -s`, with graph tracing on and
off.

The expected stack follows from the commands that are typed: each call of the
chain, in order, and never the address that function_graph put in its place.
"""
import re
import subprocess
import unittest

from grading.machine.machine import Run
from kern.ftrace.tests.waiting import until
from qemu.machine import FINISHED, ROOT, Machine

MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
SWITCH = "/proc/sys/kernel/stack_tracer_enabled"
# A program that sleeps, from the tracer's first function to the thread's first instruction.
SLEEPER = [
    "sleep_ns", "app_main_sleep", "app_run", "shell_run_words", "run_command", "thread_start",
    "thread_start_asm"
]
SHELL = ["thread_wait", "shell_run_line", "shell_main", "thread_start", "thread_start_asm"]
ROW = re.compile(r"^ *(\d+)\) +(\d+) +(\d+)   (\w+)\S*$", re.M)


# The functions that return_to_handler may call, or that may interrupt it.
IN_THE_HANDLER = ("ftrace_return_to_handler", "ftrace_graph_return", "trace_graph_direct_return",
                  "exception_vector")


class Stacks:
    """The tests that are the same on both architectures; one boot."""

    arch: str
    smp: int
    machine: Run

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / FINISHED / "Image"
        subprocess.run([
            *MAKE, f"ARCH={cls.arch}",
            str(image.relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"
        ], check=True)
        config = Machine(cls.arch, smp=cls.smp, image=image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio", append="stacktrace")
        cls.machine = Run(config, ROOT / f"build/tests/stack-{cls.arch}-{cls.smp}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)
        cls.booted = cls.machine.console.command(f"cat {SWITCH}")
        cls.machine.console.command("mkdir instances/g; mkdir instances/h")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    def sh(self, line: str) -> str:
        return self.machine.console.command(line, 60)

    def setUp(self) -> None:
        for line in ("echo nop > current_tracer", "echo nop > instances/g/current_tracer",
                     "echo nop > instances/h/current_tracer", "echo > set_ftrace_filter",
                     f"echo 0 > {SWITCH}", "echo > stack_trace_filter", "echo 0 > stack_max_size",
                     "echo > trace"):
            self.assertEqual(self.sh(line), "")

    def graph(self) -> None:
        """Two users of function_graph, all functions."""
        self.sh(
            "echo function_graph > instances/g/current_tracer; echo function_graph > "
            "instances/h/current_tracer"
        )

    def has_chain(self, text: str, chain: list[str], pattern: str) -> None:
        """The names that @pattern finds contain the chain without gaps, and no address of the
        tracer."""
        names = re.findall(pattern, text, re.M)
        self.assertIn(" ".join(chain), " ".join(names), text[-1500:])
        self.assertNotIn("return_to_handler", text)

    def stack_behind_events(self) -> None:
        self.sh("echo sleep_ns > set_ftrace_filter; echo function > current_tracer")
        self.assertIn("nofunc_stack_trace\n", self.sh("cat trace_options"))
        self.sh("echo 1 > options/func_stack_trace")
        self.sh("sleep 0.05")
        self.sh("echo 0 > options/func_stack_trace")
        text = self.sh("cat trace")
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertRegex(lines[0], r": sleep_ns <-app_main_sleep$")
        self.assertRegex(lines[1],
                         r"^ +sleep-\d+ +\[\d{3}\] \.[.N]\.{3} +\d+\.\d{6}: <stack trace>$")
        self.assertEqual(lines[2:], [f" => {name}" for name in SLEEPER])

    def test_func_stack_trace(self) -> None:
        self.stack_behind_events()
        self.assertNotIn("func_stack_trace",
                         self.sh("echo nop > current_tracer; cat trace_options"))

    def test_func_stack_trace_at_the_functions_time(self) -> None:
        """The clock counts how often it is read: once for both events."""
        self.sh("echo counter > trace_clock; echo sleep_ns > set_ftrace_filter")
        self.sh("echo function > current_tracer; echo 1 > options/func_stack_trace; sleep 0.01")
        self.sh("echo 0 > options/func_stack_trace")
        lines = re.findall(r" (\d+): (sleep_ns <-|<stack trace>)", self.sh("cat trace"))
        self.sh("echo local > trace_clock")
        self.assertEqual([what for _, what in lines], ["sleep_ns <-", "<stack trace>"])
        self.assertEqual(lines[0][0], lines[1][0])

    def test_func_stack_trace_under_graph(self) -> None:
        self.graph()
        self.stack_behind_events()

    def test_func_stack_trace_from_an_interrupt(self) -> None:
        self.graph()
        self.sh("echo sched_tick > set_ftrace_filter; echo function > current_tracer")
        self.sh("echo 1 > options/func_stack_trace; sleep 0.2; echo 0 > options/func_stack_trace")
        text = self.sh("cat trace")
        stacks = re.findall(r"<stack trace>\n((?: => .*\n)+)", text)
        self.assertTrue(stacks)
        for stack in stacks:
            names = re.findall(r"^ => (\w+)", stack, re.M)
            self.assertEqual(names[0], "sched_tick")
            self.assertIn("trap_interrupt exception_vector", " ".join(names))
            self.assertIn(names[-1], ("thread_start_asm", "kernel_main", "secondary_main"))
            for callee, name in zip(names, names[1:]):
                # the interrupt came inside it: this is no unresolved return address
                if name == "return_to_handler":
                    self.assertIn(callee, IN_THE_HANDLER, stack)

    def sleeping_stack(self) -> None:
        self.sh("sleep 1000 &")
        text = until(self.machine.console, "ps -s", " sleep_ns+")
        self.sh("kill 1; wait")
        self.has_chain(text, SLEEPER, r"^ {7}(\w+)")
        self.has_chain(text, SHELL, r"^ {7}(\w+)")
        self.assertEqual(len(re.findall(r"^ +0 .*swapper/", text, re.M)), self.smp)

    def test_ps(self) -> None:
        self.sleeping_stack()

    def test_ps_under_graph(self) -> None:
        self.graph()
        self.sleeping_stack()

    def test_ps_of_one(self) -> None:
        text = self.sh("ps -s 1")
        self.assertEqual(len(re.findall(r"^ *\d+ +\d+ ", text, re.M)), 1, text)
        self.has_chain(text, SHELL, r"^ {7}(\w+)")
        self.assertIn("there is no thread 4000", self.sh("ps -s 4000"))
        self.assertIn("Usage", self.sh("ps -x"))

    def deepest(self) -> None:
        self.sh(f"echo 1 > {SWITCH}")
        self.sh("echo 0 > stack_max_size")
        self.sh("sort /data/words.txt -o /tmp/sorted")
        self.sh(f"echo 0 > {SWITCH}")
        text = self.sh("cat stack_trace")
        rows = [(int(n), int(depth), int(size), name) for n, depth, size, name in ROW.findall(text)]
        self.assertEqual(text.splitlines()[:2], [
            f"        Depth    Size   Location    ({len(rows)} entries)",
            "        -----    ----   --------"
        ])
        self.assertEqual([row[0] for row in rows], list(range(len(rows))))
        self.assertEqual(rows[0][1], int(self.sh("cat stack_max_size")))
        for row, caller in zip(rows, rows[1:]):
            self.assertEqual(row[2], row[1] - caller[1], text)
        self.assertTrue(all(row[2] >= 0 for row in rows), text)
        self.assertGreater(rows[0][1], 1000)
        self.assertIn(rows[-1][3], ("thread_start_asm", "kernel_main", "secondary_main"), text)
        # An interrupt may come inside the tracer, so its frames may be there; but return_to_handler
        # may not be shown as a caller.
        self.assertNotIn("return_to_handler+0x0/", text)

    def test_stack_tracer(self) -> None:
        self.deepest()

    def test_stack_tracer_under_graph(self) -> None:
        self.graph()
        self.deepest()

    def test_stack_tracer_filter(self) -> None:
        self.sh("echo sleep_ns > stack_trace_filter")
        self.assertEqual(self.sh("cat stack_trace_filter"), "sleep_ns\n")
        self.sh(f"echo 1 > {SWITCH}")
        self.assertEqual(
            [line.split()[0] for line in self.sh("cat enabled_functions").splitlines()],
            ["sleep_ns"])
        self.sh("sleep 0.05")
        names = [row[3] for row in ROW.findall(self.sh("cat stack_trace"))]
        self.assertEqual(names, SLEEPER)
        self.assertIn("no function matches", self.sh("echo nosuchfunction > stack_trace_filter"))

    def test_stack_tracer_off(self) -> None:
        self.assertEqual(self.booted, "1\n", "the boot argument switches it on")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.assertIn("(0 entries)", self.sh("cat stack_trace"))
        self.assertIn(SWITCH, self.sh("cat stack_trace"))
        self.assertIn("not a number", self.sh("echo x > stack_max_size"))


class StacksRiscv64(Stacks, unittest.TestCase):
    arch, smp = "riscv64", 4


class StacksArm64(Stacks, unittest.TestCase):
    arch, smp = "arm64", 4


class StacksRiscv64Alone(Stacks, unittest.TestCase):
    arch, smp = "riscv64", 1


class StacksArm64Alone(Stacks, unittest.TestCase):
    arch, smp = "arm64", 1


if __name__ == "__main__":
    unittest.main()

"""`make gdb`: the output of each command, compared with tracefs, the shell and the ELF file, on
both architectures."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path
from typing import TYPE_CHECKING

import pexpect  # type: ignore[import]

from qemu.isa import ISAS
from grading.tests.test_signals import below
from qemu.machine import FINISHED, ROOT
from qemu.tests.terminal import hang_up

MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
NM = {"riscv64": "riscv64-linux-gnu-nm", "arm64": "aarch64-linux-gnu-nm"}
SEED = "workload 0123456789abcdef"


# Base classes for several machines, which are no tests by themselves.
if TYPE_CHECKING:
    Shared = unittest.TestCase
else:
    Shared = object


class DebuggerSession:
    """gdb at its prompt; the guest's shell through its `console`."""

    def __init__(self, arch: str, smp: int, stage: str = FINISHED) -> None:
        elf = ROOT / "build" / arch / stage / "callsite.elf"
        lab = [] if stage == FINISHED else [f"LAB={stage.removeprefix('lab')}"]
        subprocess.run([
            *MAKE, f"ARCH={arch}", *lab, *(str(elf.with_name(n).relative_to(ROOT))
                                           for n in ("callsite.elf", "Image")),
            f"build/{arch}/initrd.cpio"
        ], check=True)
        log = ROOT / f"build/tests/gdb-{arch}-{smp}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log = log.open("w")
        self._gdb = pexpect.spawn(sys.executable, [
            "qemu/debug.py", "--arch", arch, "--smp",
            str(smp), "--elf",
            str(elf), "--gdb=-nx", "--gdb=-ex", "--gdb=set width 0"
        ], cwd=str(ROOT), encoding="utf-8", timeout=1800, echo=False, logfile=self._log,
                                  env={**os.environ, "TERM": "dumb"})
        self._gdb.delaybeforesend = None
        self._gdb.expect_exact("(gdb) ")

    def __call__(self, line: str) -> str:
        self._gdb.sendline(line)
        self._gdb.expect_exact("(gdb) ")
        return str(self._gdb.before).replace("\r", "")

    def interrupted(self, line: str, until: str) -> str:
        """Type Ctrl-C when the command has shown this."""
        self._gdb.sendline(line)
        self._gdb.expect_exact(until)
        self._gdb.send("\x03")
        self._gdb.expect_exact("(gdb) ")
        return str(self._gdb.before)

    def frozen(self, line: str, seconds: float) -> str:
        """Type a command while QEMU waits for a processor of the host, and go on waiting for its
        output."""
        qemu, = (pid for pid, name in below(self._gdb.pid).items()
                 if name.startswith("qemu-system"))
        os.kill(qemu, signal.SIGSTOP)
        self._gdb.sendline(line)
        time.sleep(seconds)
        os.kill(qemu, signal.SIGCONT)
        self._gdb.expect_exact("(gdb) ")
        return str(self._gdb.before)

    def sh(self, line: str) -> str:
        """The shell's output for a line."""
        said = self(f"console {line}").partition(f"{line}\n")[2].removesuffix("callsite# ")
        return said.rpartition("callsite# ")[0] or said

    def functions(self, line: str) -> list[str]:
        """The functions of a backtrace, innermost first."""
        return re.findall(r"^#\d+ +(?:0x[0-9a-f]+ in )?([\w.]+) \(", self(line), re.M)

    def close(self) -> None:
        self._gdb.sendline("kill")
        self._gdb.sendline("quit")
        hang_up(self._gdb)
        self._log.close()


class OnAMachine(Shared):
    arch: str
    smp: int
    gdb: DebuggerSession

    @classmethod
    def setUpClass(cls) -> None:
        cls.gdb = DebuggerSession(cls.arch, cls.smp)
        cls.gdb("console")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.gdb.close()

    def setUp(self) -> None:
        self.gdb("delete")
        self.gdb("console")
        for line in ("echo nop > current_tracer", "echo > set_ftrace_filter", "echo 1 > tracing_on",
                     "echo > trace"):
            self.assertEqual(self.gdb.sh(line), "")

    def trace_function(self, words: str, tracer: str = "function") -> None:
        self.assertEqual(self.gdb.sh(f"echo {words} > set_ftrace_filter"), "")
        self.assertEqual(self.gdb.sh(f"echo {tracer} > current_tracer"), "")

    def stop_in(self, function: str, command: str = SEED) -> str:
        """Run until the call site: arm64's line table begins after it."""
        ip, = self.rows(function)
        self.gdb(f"tbreak *0x{ip}")
        return self.gdb(f"console {command}")

    def sleeper(self) -> str:
        """Wait until job 1 sleeps. Returns the number of its thread."""
        pid = re.search(r"thread (\d+)", self.gdb.sh("sleep 1000 &"))
        assert pid
        asleep, deadline = re.compile(rf"^ *{pid[1]} .* sleeps ", re.M), time.monotonic() + 600
        while not asleep.search(said := self.gdb.sh("ps")):
            self.assertLess(time.monotonic(), deadline, f"it does not fall asleep: {said}")
        return pid[1]

    def rows(self, glob: str = "") -> dict[str, re.Match[str]]:
        said = self.gdb(f"callsites {glob}")
        found = {
            row[1]: row
            for row in re.finditer(r"^([0-9a-f]{16}) (\S+) +([0-9a-f]{8})  (\S.*?)(?:  -> (.*))?$",
                                   said, re.M)
        }
        self.assertTrue(found, f"callsites {glob} says: {said!r}")
        return found

    # ---- callsites ----

    def test_callsites_lists_what_tracefs_lists(self) -> None:
        addrs = re.findall(r"(?:0x)?([0-9a-f]{16}) (\S+)",
                           self.gdb.sh("cat available_filter_functions_addrs"))
        self.assertGreater(len(addrs), 200)
        self.assertEqual([(ip, row[2]) for ip, row in self.rows().items()], addrs)

    def test_callsites_calls_are_the_enabled_functions(self) -> None:
        self.trace_function("wl_leaf_*")
        enabled = re.findall(r"^(\S+) \(1\)", self.gdb.sh("cat enabled_functions"), re.M)
        self.assertEqual(len(enabled), 6)
        rows = self.rows()
        self.assertEqual([row[2] for row in rows.values() if row[5]], enabled)
        stub = subprocess.run(f"{NM[self.arch]} {self.elf()} | grep ' ftrace_stub_1$'", shell=True,
                              text=True, stdout=subprocess.PIPE, check=True).stdout.split()[0]
        for ip, row in rows.items():
            jump = ISAS[self.arch].jump(int(ip, 16), int(row[3], 16))
            self.assertEqual(jump[0] if jump else None, int(stub, 16) if row[5] else None, row[0])
            self.assertIn(row[5], (None, "stub 1: global_ops (function_trace_call)"))

    def elf(self) -> Path:
        return ROOT / "build" / self.arch / FINISHED / "callsite.elf"

    def test_an_untraced_site_is_disassembled_as_objdump_does(self) -> None:
        for ip, row in self.rows("wl_leaf_*").items():
            said = subprocess.run([
                f"{ISAS[self.arch].cross}objdump", "-d", f"--start-address=0x{ip}",
                f"--stop-address=0x{int(ip, 16) + 4:x}",
                str(self.elf())
            ], stdout=subprocess.PIPE, text=True, check=True).stdout
            self.assertRegex(said, rf"{ip}:\s+{row[3]}\s+{row[4]}\s")

    def test_callsites_names_every_op_of_the_list(self) -> None:
        self.gdb.sh("mkdir instances/a")
        self.gdb.sh("echo wl_leaf_elm > instances/a/set_ftrace_filter")
        self.gdb.sh("echo function > instances/a/current_tracer")
        self.trace_function("wl_leaf_*")
        told = {row[2]: row[5] for row in self.rows("wl_leaf_*").values()}
        self.gdb.sh("rmdir instances/a")
        self.assertRegex(
            told.pop("wl_leaf_elm"),
            r"^list: global_ops \(function_trace_call\), op 0x[0-9a-f]+ \(function_trace_call\)$")
        self.assertEqual(set(told.values()), {"stub 2: global_ops (function_trace_call)"})

    def test_at_the_prompt_no_hart_is_in_the_firmware(self) -> None:
        """The guest is stopped at or soon after its prompt; a hart may be setting its timer then.
        """
        if self.arch != "riscv64":
            return
        self.gdb("thbreak *($mtvec & ~3)")
        self.assertIn("reakpoint", self.gdb("console sleep 0.001"))
        self.assertIn("in the firmware", self.gdb("callsites"))
        self.gdb("python from qemu.debugger import console; console.leave_firmware()")
        self.assertGreater(len(self.rows()), 200)

    def test_memory_is_read_through_the_selected_hart(self) -> None:
        """And not through the first hart, which is in the firmware here, where the kernel's
        addresses are not mapped."""
        if self.arch != "riscv64" or self.smp == 1:
            return
        for thread, mode in ((1, 3), (2, 1)):  # 3: the firmware's, 1: the kernel's
            self.gdb(f"thread {thread}")
            self.addCleanup(self.gdb,
                            f"thread apply {thread} set $priv = {self.gdb('output $priv')}")
            self.gdb(f"set $priv = {mode}")
        self.assertGreater(len(self.rows()), 200)

    def test_a_breakpoint_on_the_way_out_of_the_firmware_is_told(self) -> None:
        if self.arch != "riscv64":
            return
        self.gdb("thbreak *($mtvec & ~3)")
        self.assertIn("reakpoint", self.gdb("console sleep 0.001"))
        self.gdb("thbreak *$mepc")
        self.gdb("thbreak *($mepc + 4)")
        said = self.gdb("python from qemu.debugger import console; print(console.leave_firmware())")
        self.assertRegex(said, r"(?s)Temporary breakpoint .*False$")

    def test_the_way_out_of_the_firmware_does_not_wait_for_a_line(self) -> None:
        """A hart is in the firmware when the prompt comes, and `console` runs the guest out of it:
        only the user's own `continue` waits."""
        if self.arch != "riscv64":
            return
        self.gdb("thbreak *($mtvec & ~3)")
        self.gdb(
            "python from qemu.debugger.console import CONSOLE; came = lambda _: "
            "CONSOLE.__dict__.update(at_prompt=True, stopped=True)"
        )
        self.gdb("python gdb.events.stop.connect(came)")
        said = self.gdb("console sleep 0.001")
        self.gdb(
            "python gdb.events.stop.disconnect(came); CONSOLE.at_prompt = "
            "CONSOLE._seen.endswith(b'\\ncallsite# ')"
        )
        self.assertNotIn("waits for a line", said + self.gdb("console"))

    def test_a_guest_that_goes_on_at_its_prompt_says_how_to_stop_it(self) -> None:
        said = self.gdb.interrupted("continue", "waits for a line: Ctrl-C")
        self.assertIn("SIGINT", said)
        self.assertEqual(self.gdb.sh("echo alive"), "alive\n")

    def test_a_ctrl_c_right_after_it_was_said_how_to_stop_the_guest_stops_it(self) -> None:
        """SIGINT comes while Python still runs, so Python raises a KeyboardInterrupt."""
        self.gdb(
            "python import os, time; from qemu.debugger.console import CONSOLE; write = os.write")
        self.gdb(
            "python os.write = lambda to, data: write(to, data) + (to == CONSOLE._tell[1] and "
            "time.sleep(0.2) or 0)"
        )
        said = self.gdb.interrupted("continue", "waits for a line: Ctrl-C")
        self.gdb("python os.write = write")
        self.assertIn("SIGINT", said)
        self.assertEqual(self.gdb.sh("echo alive"), "alive\n")

    # ---- the host is busy ----

    def test_a_qemu_that_does_not_run_for_seconds_is_waited_for(self) -> None:
        """By default gdb repeats a packet after two seconds, and then takes the second answer to it
        for that to the next one."""
        if self.smp > 1:
            return
        self.assertRegex(self.gdb.frozen("callsites wl_leaf_*", 5),
                         r"6 call sites, 0 of them calls\s*$")
        self.assertEqual(self.gdb.sh("echo alive"), "alive\n")

    def test_what_the_guest_printed_is_shown_before_gdbs_prompt(self) -> None:
        """The thread that reads it comes late."""
        self.gdb(
            "python import threading, time; from qemu.debugger.console import CONSOLE; main = "
            "threading.current_thread(); settle = CONSOLE.settle"
        )
        self.gdb(
            "python CONSOLE.settle = lambda: (threading.current_thread() is not main and "
            "time.sleep(2), settle())"
        )
        self.addCleanup(self.gdb, "python del CONSOLE.settle")
        said = self.stop_in("wl_leaf_ash", f"echo -n printed; {SEED}")
        self.assertIn("printed", said.partition(SEED)[2])
        self.assertRegex(self.gdb("print 4711"), r"^ ?\$\d+ = 4711\n$")

    def test_a_breakpoint_at_the_moment_of_the_prompt_is_told(self) -> None:
        self.gdb(
            "python from qemu.debugger.console import CONSOLE; comes = lambda _: "
            "CONSOLE.__dict__.update(stopped=True) or True"
        )
        self.gdb("python type('AtThePrompt', (gdb.Breakpoint,), {'stop': comes})('wl_leaf_ash')")
        self.assertIn("Breakpoint", self.gdb(f"console {SEED}"))

    # ---- trace ----

    def same_as_cat_trace(self) -> None:
        self.gdb.sh("echo 0 > tracing_on")
        shown = [line for line in self.gdb.sh("cat trace").splitlines() if not line.startswith("#")]
        read = self.gdb("trace 100000").splitlines()
        self.assertGreater(len(shown), 50)
        self.assertRegex(read[0], r"^# tracer: \w+; (\d+) of \1 events$")
        self.assertEqual(read[1:], shown)

    def test_trace_is_what_cat_trace_shows(self) -> None:
        self.trace_function("wl_self_* wl_leaf_f*")
        self.gdb.sh("echo something to find > trace_marker")
        self.gdb.sh(SEED)
        self.same_as_cat_trace()
        last = self.gdb("trace 3").splitlines()
        self.assertEqual(last[1:], self.gdb("trace 100000").splitlines()[-3:])

    def test_trace_is_what_cat_trace_shows_of_a_graph(self) -> None:
        self.trace_function(
            "wl_step_* wl_leaf_* wl_fan_* dispatch_interrupt sched_tick schedule mutex_lock",
            "function_graph")
        self.gdb.sh(SEED)
        self.gdb.sh("echo a comment > trace_marker")
        self.same_as_cat_trace()

    def test_trace_goes_on_where_a_reader_stopped(self) -> None:
        self.trace_function("wl_pair_* wl_leaf_e*")
        self.gdb.sh(SEED)
        self.gdb.sh("cat trace_pipe > /tmp/read &")
        self.gdb.sh("kill 1")
        self.gdb.sh("wait")
        self.gdb.sh(SEED)
        self.same_as_cat_trace()

    # ---- stacks ----

    def test_bt_thread_of_a_sleeper_is_what_ps_shows(self) -> None:
        pid = self.sleeper()
        kernel = [
            re.sub(r"\..*", "", name)
            for name in re.findall(r"^ +([\w.]+)\+0x", self.gdb.sh(f"ps -s {pid}"), re.M)
        ]
        ours = self.gdb.functions(f"bt-thread {pid}")
        self.gdb.sh("kill 1")
        self.gdb.sh("wait")
        self.assertEqual(kernel[-1], "thread_start_asm")
        rest = iter(ours)
        self.assertTrue(all(name in rest for name in kernel), (kernel, ours))
        self.assertEqual(ours[-1], "thread_start_asm")

    def test_bt_thread_while_the_cpu_stands_in_an_inlined_function(self) -> None:
        pid = self.sleeper()
        self.assertIn("context_switch",
                      self.gdb("thbreak context_switch") + self.gdb(f"console {SEED}"))
        self.assertIn("True",
                      self.gdb("python print(gdb.newest_frame().type() == gdb.INLINE_FRAME)"))
        ours, threads = self.gdb.functions(f"bt-thread {pid}"), self.gdb("threads")
        self.gdb("console")
        self.gdb.sh("kill 1; wait")
        self.assertIn("sleep_ns", ours)
        self.assertEqual(ours.count("__schedule"), 1)
        self.assertRegex(threads, rf"(?m)^ *{pid} .* sleep_ns ")

    def test_threads_shows_what_ps_shows(self) -> None:
        self.sleeper()
        shell = {(row[0], row[1])
                 for row in re.findall(r"^ +(\d+) .* (\S+)$", self.gdb.sh("ps"), re.M)}
        shell = {row for row in shell if row[1] != "ps"}  # it has ended since
        said = self.gdb("threads")
        self.gdb.sh("kill 1")
        self.gdb.sh("wait")
        ours = {(row[0], row[1]) for row in re.findall(r"^ +(\d+) +\d+ [a-z]+ +(\S+)", said, re.M)}
        self.assertGreaterEqual(len(ours), self.smp + 2)
        self.assertEqual(ours, shell)
        self.assertRegex(said, r" sleep +sleep_ns < app_main_sleep")

    def test_bt_passes_patched_returns(self) -> None:
        stacks = []
        for tracer in ("nop", "function_graph"):
            self.trace_function("wl_*", tracer)
            self.assertIn("reakpoint", self.stop_in("wl_leaf_ash"))
            stacks.append(self.gdb.functions("bt"))
            self.gdb("console")
        self.assertEqual(stacks[0][0], "wl_leaf_ash")
        for stack in stacks:
            self.assertIn(stack[-1], ("thread_start_asm", "kernel_main", "secondary_main"))
            self.assertNotIn("return_to_handler", stack)
            self.assertNotIn("ftrace_init_nop", stack)
            self.assertGreater(sum(name.startswith("wl_") for name in stack), 2)
        if self.smp == 1:  # otherwise another thread may come first
            self.assertEqual(stacks[0], stacks[1])

    def test_bt_at_each_instruction_of_a_hook(self) -> None:
        # no other CPU interrupts it, and this CPU's timer stops while gdb has control
        digest = "sha256 /data/words.txt"
        self.trace_function("sha256_rounds")
        self.gdb.sh(digest)  # now the ring has pages, and an event takes a hundred instructions
        self.stop_in("sha256_rounds", digest)
        expected = self.gdb.functions("bt 4")[1:4]
        steps, seen = 0, set()
        while steps < 300:
            self.gdb("stepi")
            stack = self.gdb.functions("bt 12")
            steps += 1
            seen.add(stack[0])
            at = stack.index("sha256_rounds") if "sha256_rounds" in stack else -1
            self.assertEqual(stack[at + 1:at + 4], expected, f"{steps}: {stack}")
            if at == 0 and steps > 4:
                break
        self.assertLess(steps, 300, stack)
        self.assertTrue({"ftrace_stub_1", "ftrace_caller"} & seen or len(seen) > 2, seen)

    def test_bt_where_an_interrupt_has_just_come(self) -> None:
        """The interrupted registers are not saved yet; only the CPU has them."""
        for _ in range(3):
            vector = {
                "riscv64": "&exception_vector",
                "arm64": "((char *)&exception_vector + 5 * 128)"
            }
            self.gdb(f"thbreak *{vector[self.arch]}")
            self.gdb(f"console {SEED}")
            came = self.gdb.functions("bt")
            here = re.search(r"thread is ([\d.]+)", self.gdb("thread"))
            assert here
            self.gdb(f"thbreak *&trap_interrupt thread {here[1]}")  # another CPU may reach it first
            self.gdb("continue")
            self.assertEqual(self.gdb.functions("bt"), ["trap_interrupt", *came])
            self.assertGreater(len(came), 1)
            self.gdb("console")

    # ---- who-patches ----

    def test_who_patches_stops_behind_the_store(self) -> None:
        self.gdb.sh("echo wl_leaf_fir > set_ftrace_filter")
        self.gdb("who-patches wl_leaf_fir")
        said = self.gdb("console echo function > current_tracer")
        site, = self.rows("wl_leaf_fir").values()
        self.assertIn(f"wl_leaf_fir at 0x{site[1]} is written: now {site[3]}", said)
        self.assertTrue(site[5])
        stack = self.gdb.functions("bt")
        for name in ("ftrace_make_call", "ftrace_startup", "current_tracer_set", "shell_main"):
            self.assertIn(name, stack)
        self.assertIn("callsite# ", self.gdb("console"))
        self.gdb("console echo nop > current_tracer")
        self.assertIn("ftrace_make_nop", self.gdb.functions("bt"))

    def test_who_patches_leaves_other_sites_alone(self) -> None:
        self.gdb("who-patches wl_leaf_elm")
        self.trace_function("wl_leaf_fir")

    # ---- mistakes ----

    def test_a_mistake_is_answered_by_a_sentence(self) -> None:
        self.assertIn("neither a function with a call site nor an address",
                      self.gdb("who-patches nobody_here"))
        self.assertIn("There is no thread '4711'", self.gdb("bt-thread 4711"))
        self.assertIn("0 call sites are in 'ftrace_make_call'",
                      self.gdb("who-patches ftrace_make_call"))
        self.assertEqual(self.gdb("trace ten").strip(), "trace [N]")


class Panicked(Shared):
    """A machine of its own, as the test ends it."""

    arch: str
    smp: int

    def test_a_dead_kernel_can_be_read(self) -> None:
        gdb = DebuggerSession(self.arch, self.smp)
        self.addCleanup(gdb.close)
        gdb.sh("echo 'shell_* panic_main' > set_ftrace_filter")
        gdb.sh("echo function > current_tracer")
        said = gdb("console panic for a test")
        self.assertIn("panic: for a test", said)
        kernel = re.findall(r"^  \[<[0-9a-f]+>\] ([\w.]+)\+", said, re.M)
        stack = iter(gdb.functions("bt"))
        self.assertTrue(kernel and all(name in stack for name in kernel), kernel)
        self.assertRegex(gdb("threads"),
                         r" running shell +firmware_poweroff < die < report_panic < panic")
        self.assertRegex(gdb("trace 5"), r"\n +shell-1 .*: panic_main <-shell_run_words\n")


class InLab3(Shared):
    """Lab 3's tracer: sites call ftrace_caller, and function_trace_op points to the only op."""

    arch: str

    def test_a_site_names_the_tracer(self) -> None:
        gdb = DebuggerSession(self.arch, 1, "lab3")
        self.addCleanup(gdb.close)
        gdb.sh("echo mutex_lock > set_ftrace_filter")
        gdb("who-patches mutex_lock")
        calls = r"mutex_lock .*-> ftrace_caller: global_ops \(function_trace_call\)"
        self.assertRegex(gdb("console echo function > current_tracer"), calls)
        gdb("delete")
        gdb("console")
        self.assertRegex(gdb("callsites mutex_lock"), calls)


class Riscv64(OnAMachine, unittest.TestCase):
    arch, smp = "riscv64", 1


class Riscv64Smp(OnAMachine, unittest.TestCase):
    arch, smp = "riscv64", 4


class Arm64(OnAMachine, unittest.TestCase):
    arch, smp = "arm64", 1


class Arm64Smp(OnAMachine, unittest.TestCase):
    arch, smp = "arm64", 4


class Riscv64Panicked(Panicked, unittest.TestCase):
    arch, smp = "riscv64", 4


class Arm64Panicked(Panicked, unittest.TestCase):
    arch, smp = "arm64", 4


class Riscv64InLab3(InLab3, unittest.TestCase):
    arch = "riscv64"


class Arm64InLab3(InLab3, unittest.TestCase):
    arch = "arm64"


class WithoutGdb(unittest.TestCase):
    def test_it_says_which_package_is_missing(self) -> None:
        done = subprocess.run(
            [sys.executable,
             str(ROOT / "qemu/debug.py"), "--arch", "arm64", "--elf", "none"],
            env={**os.environ, "PATH": "/nowhere"}, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("sudo apt-get install gdb-multiarch", done.stderr)


if __name__ == "__main__":
    unittest.main()

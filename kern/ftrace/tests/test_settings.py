"""Settings of a trace array in a booted kernel, on both architectures, on one CPU and on four: one
CPU's buffer size, tracing_thresh, and the options markers, pause-on-trace and stacktrace.

How often each function of the workload is called follows from the seed
(grading.stimulus.workload).
"""
import re
import unittest

from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot
from kern.ftrace.tests.waiting import until

SEED = 0x0123456789ABCDEF


class SettingsOnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "settings"

    def tearDown(self) -> None:
        self.quiet("echo nop > current_tracer", "echo 0 > events/enable", "echo 0 > tracing_thresh",
                   "echo > set_ftrace_filter", "echo 1 > options/markers",
                   "echo 0 > options/pause-on-trace", "echo 0 > options/stacktrace",
                   "echo 1408 > buffer_size_kb", "echo 0 > snapshot", "echo > trace")

    def refused(self, line: str, error: str, why: str) -> None:
        said = self.sh(line)
        self.assertIn(f"({error})", said)
        self.assertIn(why, said)

    # ---- one CPU's buffer

    def sizes(self) -> list[int]:
        return [int(self.sh(f"cat per_cpu/cpu{cpu}/buffer_size_kb")) for cpu in range(self.cpus)]

    def test_a_cpu_has_a_buffer_size_of_its_own(self) -> None:
        self.quiet("echo 100 > buffer_size_kb")
        last = self.cpus - 1
        self.quiet(f"echo 50 > per_cpu/cpu{last}/buffer_size_kb")
        sizes = self.sizes()
        self.assertEqual([size // 50 for size in sizes], [2] * last + [1])
        self.assertEqual(self.sh("cat buffer_size_kb"), "X\n" if last else f"{sizes[0]}\n")
        self.assertEqual(self.sh("cat buffer_total_size_kb"), f"{sum(sizes)}\n")
        self.quiet("echo 100 > buffer_size_kb")
        self.assertEqual([size // 50 for size in self.sizes()], [2] * self.cpus)

    def test_a_snapshot_has_the_sizes_of_all_cpus(self) -> None:
        self.quiet("echo 60 > buffer_size_kb", "echo 200 > per_cpu/cpu0/buffer_size_kb")
        sizes = self.sizes()
        self.quiet("echo 1 > snapshot")
        self.assertEqual(self.sizes(), sizes)
        self.quiet("echo 30 > per_cpu/cpu0/buffer_size_kb", "echo 1 > snapshot")
        self.assertLess(self.sizes()[0], 40)
        self.assertEqual(self.sizes()[1:], sizes[1:])

    def test_the_events_of_the_other_cpus_stay(self) -> None:
        self.quiet("echo before > trace_marker", "echo 20 > per_cpu/cpu0/buffer_size_kb")
        self.assertIn("tracing_mark_write: before\n", self.sh("cat trace"))

    def test_a_size_that_is_refused(self) -> None:
        sizes = self.sizes()
        self.refused("echo 0 > per_cpu/cpu0/buffer_size_kb", "EINVAL", "at least 1 KiB")
        self.refused("echo 99999999 > per_cpu/cpu0/buffer_size_kb", "ENOMEM", "at most 1 GiB")
        self.refused("echo 999999 > per_cpu/cpu0/buffer_size_kb", "ENOMEM", "no memory")
        self.refused("echo x > per_cpu/cpu0/buffer_size_kb", "EINVAL", "not a number")
        self.assertEqual(self.sizes(), sizes)

    def used(self) -> int:
        found = re.search(r"(\d+) used", self.sh("free"))
        assert found
        return int(found[1])

    def test_a_size_for_which_the_snapshot_has_no_memory(self) -> None:
        self.quiet("echo 1 > snapshot")
        sizes, used = self.sizes(), self.used()
        self.refused(f"echo {70 * 1024 // self.cpus} > buffer_size_kb", "ENOMEM", "no memory")
        self.assertEqual(self.sizes(), sizes)
        self.assertLess(self.used(), used + 100, "KiB")
        self.quiet("echo 1 > snapshot")
        self.assertEqual(self.sizes(), sizes)

    # ---- tracing_thresh

    def test_only_calls_that_took_as_long_are_shown(self) -> None:
        self.quiet("echo 50000 > tracing_thresh", "echo 'sleep_ns wl_*' > set_ftrace_filter",
                   "echo function_graph > current_tracer")
        self.assertEqual(self.sh("cat tracing_thresh"), "50000\n")
        self.work(SEED)
        self.quiet("sleep 0.06", "echo 0 > tracing_on")
        lines = [line for line in self.sh("cat trace").splitlines() if " us " in line]
        self.quiet("echo 1 > tracing_on")
        for line in lines:
            self.assertRegex(line, r"^ \d\) [*#@$] [\d.]{7,} us +\|  +\} /\* \w+ \*/$")
            duration = re.search(r"([\d.]+) us", line)
            assert duration
            self.assertGreaterEqual(float(duration[1]), 50000)
        self.assertIn("} /* sleep_ns */", lines[-1])

    def test_without_it_all_calls_are_shown_again(self) -> None:
        self.quiet("echo 'wl_*' > set_ftrace_filter", "echo 1000000 > tracing_thresh",
                   "echo function_graph > current_tracer", "echo 0 > tracing_thresh",
                   "echo > trace")
        calls = self.work(SEED)
        shown = re.findall(r"\| +(wl_\w+)\(\)", self.sh("cat trace"))
        self.assertEqual({name: shown.count(name) for name in calls}, dict(calls))

    def test_a_number_that_is_refused(self) -> None:
        self.refused("echo -1 > tracing_thresh", "EINVAL", "not a number")
        self.refused("echo 4294967296 > tracing_thresh", "ERANGE", "too large")

    # ---- options

    def test_markers(self) -> None:
        self.quiet("echo 0 > options/markers")
        self.refused("echo one > trace_marker", "EINVAL", "the option markers is off")
        self.quiet("echo 1 > options/markers", "echo two > trace_marker")
        self.assertEqual(re.findall(r"tracing_mark_write: (\w+)", self.sh("cat trace")), ["two"])

    def test_recording_pauses_while_trace_is_open(self) -> None:
        self.quiet("echo 1 > options/pause-on-trace")
        for job in (1, 2):
            self.assertRegex(self.sh("sleep 1000 < trace &"), rf"^\[{job}\] thread \d+\n$")
        for job in (1, 2):
            self.refused("echo during > trace_marker", "EBADF", "not recorded")
            self.assertEqual(self.sh("cat tracing_on"), "1\n")
            if f"[{job}] done" not in self.sh(f"kill {job}"):
                until(self.machine.console, "echo", f"[{job}] done")
        self.quiet("echo after > trace_marker")
        self.assertEqual(re.findall(r"tracing_mark_write: (\w+)", self.sh("cat trace")), ["after"])

    def test_a_stack_follows_each_event(self) -> None:
        self.quiet("echo 1 > options/stacktrace", "echo 1 > events/sched/sched_process_exit/enable",
                   "sleep 0.01")
        self.assertRegex(
            self.sh("cat trace"), r": sched_process_exit: comm=sleep .*\n.*<stack trace>\n"
            r"( => \w+\n)* => thread_exit\n( => \w+\n)* => thread_start\n")
        self.quiet("echo 0 > options/stacktrace", "echo > trace", "sleep 0.01")
        self.assertNotIn("<stack", self.sh("cat trace"))

    def test_an_instance_takes_the_option_over(self) -> None:
        self.quiet("echo 1 > options/stacktrace", "mkdir instances/one",
                   "echo 1 > instances/one/events/sched/sched_process_exit/enable",
                   *["sleep 0.01"] * 3)
        self.assertEqual(self.sh("cat instances/one/trace").count("<stack trace>"), 3)
        self.quiet("rmdir instances/one")

    # ---- other places

    def test_the_directory_has_its_old_path(self) -> None:
        old = "/sys/kernel/debug/tracing"
        self.assertEqual(self.sh("ls /sys/kernel/debug"), "tracing/\n")
        self.assertEqual(self.sh(f"ls {old}"), self.sh("ls /sys/kernel/tracing"))
        self.quiet(f"echo by the old path > {old}/trace_marker", f"mkdir {old}/instances/one")
        self.assertIn("tracing_mark_write: by the old path\n", self.sh("cat trace"))
        self.assertEqual(self.sh("ls instances"), "one/\n")
        self.quiet("rmdir instances/one", f"cd {old}")
        self.assertEqual(self.sh("pwd; cat current_tracer"), "/sys/kernel/tracing\nnop\n")
        self.assertIn("(ENOTEMPTY)", self.sh(f"rmdir {old}"))

    def test_ftrace_enabled(self) -> None:
        path = "/proc/sys/kernel/ftrace_enabled"
        self.assertEqual(self.sh(f"cat {path}"), "1\n")
        self.quiet(f"echo 1 > {path}")
        self.refused(f"echo 0 > {path}", "EBUSY", "one by one")
        self.refused(f"echo x > {path}", "EINVAL", "not a number")
        self.assertEqual(self.sh(f"cat {path}"), "1\n")

    def test_names_of_threads(self) -> None:
        self.quiet("sleep 0.01")
        names = dict(line.split(" ", 1) for line in self.sh("cat saved_cmdlines").splitlines())
        self.assertEqual(names["1"], "shell")
        self.assertLessEqual({"sleep", "cat"}, set(names.values()))


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(SettingsOnAMachine)

if __name__ == "__main__":
    unittest.main()

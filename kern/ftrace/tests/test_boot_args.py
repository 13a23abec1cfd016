"""Boot arguments for tracing, on both architectures, on one CPU and on four."""
import re
import unittest
from collections import Counter

from grading.machine.machine import Run
from grading.stimulus.workload import expect
from kern.ftrace.tests import finished, on_each_machine
from qemu.machine import ROOT


class BootArgsOnAMachine:
    arch: str
    cpus: int

    def boot(self, append: str, *lines: str) -> tuple[str, list[str]]:
        """What a boot with these arguments prints, and what each of these lines prints."""
        machine = finished(self.arch, self.cpus, append)
        with Run(machine, ROOT / f"build/tests/boot-args-{self.arch}-{self.cpus}.log") as run:
            booted = run.console.wait_ready(60)
            said = [run.console.command(line, 60) for line in lines]
            run.power_off()
        return booted, said

    def test_the_first_call_is_traced(self) -> None:
        """The tracer begins before the shell, with the filter, whatever the order."""
        booted, (trace, names, options, size, arguments) = self.boot(
            "ftrace=function trace_buf_size=2M ftrace_notrace=schedule trace_options=sym-offset,"
            "noirq-info ftrace_filter=sched*,shell_main",
            "cat trace", "cat set_ftrace_filter set_ftrace_notrace", "cat trace_options",
            "cat buffer_size_kb", "cat /proc/cmdline")
        self.assertNotIn("refused", booted)
        self.assertRegex(trace, r"\n +shell-1 +\[000\] +\d+\.\d{6}: shell_main\+0x[04]/0x")
        self.assertNotIn(": schedule", trace)
        self.assertEqual(set(names.split()), {"schedule", "sched_tick", "shell_main"})
        self.assertLessEqual({"sym-offset", "noirq-info"}, set(options.split()))
        self.assertIn(int(size), range(2048, 2056))
        self.assertEqual(re.findall(r"Command line: (.*\n)", booted), [arguments])
        self.assertIn("trace_buf_size=2M ftrace_notrace=schedule", arguments)

    def test_function_graph(self) -> None:
        _, (trace, ) = self.boot("ftrace_graph_filter=file_open ftrace_graph_notrace=mutex_* "
                                 "ftrace=function_graph", "cat trace")
        calls = re.findall(r"\| ( +)(\w+)\(\)", trace)
        self.assertEqual({name for blanks, name in calls if len(blanks) == 1}, {"file_open"})
        self.assertFalse([name for _, name in calls if name.startswith("mutex_")])

    def test_events(self) -> None:
        _, (events, trace) = self.boot(
            "kprobe_event=p:one,file_open,path=$arg2;r:two,file_open,$retval "
            "trace_event=kprobes:one,kprobes:two", "cat kprobe_events", "cat trace")
        self.assertRegex(events, r"^p:kprobes/one file_open path=\$arg2\n"
                         r"r\d+:kprobes/two file_open arg1=\$retval\n$")
        self.assertRegex(trace, r": one: \(file_open\+0x0/0x\w+\) path=0x")
        self.assertRegex(trace, r": two: \(\w+\+0x\w+/0x\w+ <- file_open\) arg1=0\n")

    def panic(self, append: str, *lines: str) -> str:
        """What is printed between the call trace of a panic and its end."""
        machine = finished(self.arch, self.cpus, append)
        with Run(machine, ROOT / f"build/tests/panic-{self.arch}-{self.cpus}.log") as run:
            run.console.wait_ready(60)
            for line in lines:
                run.console.command(line, 60)
            run.console.begin("panic now")
            said = run.console.drain(60).replace("\r", "")
        found = re.search(
            r"\npanic: now\n(?:.*\n)*?Call trace:\n(?:  .*\n)+((?:.*\n)*)end of panic\n", said)
        assert found, said
        return found[1]

    def test_the_buffers_at_a_panic(self) -> None:
        seed = 0x0123456789ABCDEF
        rule = "-" * 33 + "\n"
        dumped = self.panic("ftrace_dump_on_oops ftrace_filter=wl_* ftrace=function",
                            f"workload {seed:016x}")
        begin, events, end = dumped.partition(rule)[0], *dumped.split(rule)[1:]
        self.assertEqual((begin, end), ("Dumping ftrace buffer:\n", ""))
        calls = Counter(re.findall(r"^ .*: (wl_\w+) <-\w+$", events, re.M))
        self.assertEqual(calls.total(), len(events.splitlines()))
        self.assertEqual(calls, Counter(
            call.function for calls in expect(seed, self.cpus).contexts.values() for call in calls))

    def test_the_buffer_of_the_cpu_that_panics(self) -> None:
        dumped = self.panic("ftrace_dump_on_oops=orig_cpu ftrace=function_graph",
                            "echo p:one wl_begin > kprobe_events", "echo 1 > events/kprobes/enable",
                            "workload 1")
        cpus = set(re.findall(r"^ (\d)\) ", dumped, re.M))
        self.assertEqual(len(cpus), 1)
        self.assertIn("| ", dumped)

    def test_no_events_at_a_panic(self) -> None:
        file = "/proc/sys/kernel/ftrace_dump_on_oops"
        self.assertEqual(self.panic("", f"echo 1 > {file}"),
                         "Dumping ftrace buffer:\n   (ftrace buffer empty)\n")
        dumped = self.panic("ftrace=function ftrace_dump_on_oops=2", f"echo 0 > {file}")
        self.assertEqual(dumped, "")
        booted, (number, refused) = self.boot("ftrace_dump_on_oops=all", f"cat {file}",
                                              f"echo 3 > {file}")
        self.assertIn("boot argument 'ftrace_dump_on_oops=all' is refused (EINVAL), ignored",
                      booted.replace("\r", ""))
        self.assertEqual(number, "0\n")
        self.assertIn("(EINVAL)", refused)

    def test_nothing_is_recorded_while_the_buffers_are_printed(self) -> None:
        """Not by a command that starts recording, nor by one that exchanges the buffers."""
        dumped = self.panic("ftrace_dump_on_oops", "echo before > trace_marker",
                            "echo 1 > snapshot", "echo last > trace_marker",
                            "echo console_write:traceon > set_ftrace_filter",
                            "echo seq_printf:snapshot:1 > set_ftrace_filter",
                            "echo console_write seq_printf > set_ftrace_filter",
                            "echo function > current_tracer; echo now > trace_marker")
        self.assertNotIn("before", dumped)
        self.assertNotIn("LOST", dumped)
        self.assertEqual(dumped.count("console_write <-dump"), 0)
        self.assertEqual(dumped.count("tracing_mark_write: now"), 1)

    def test_events_that_the_next_boot_shows_are_not_printed(self) -> None:
        self.assertEqual(self.panic("ftrace_dump_on_oops last_boot=4M ftrace=function"),
                         "The ftrace buffer is kept for the next boot: instances/last_boot\n")

    def test_a_snapshot_ends_with_last_boot(self) -> None:
        """The buffers are those that the next boot finds, though a command has made spare ones."""
        _, (trace, said, refused) = self.boot(
            "ftrace_filter=__schedule,__schedule:snapshot ftrace=function last_boot=4M",
            "cat trace", "cat snapshot", "echo 1 > snapshot")
        self.assertIn(": __schedule <-", trace)
        self.assertIn("Snapshot is freed", said)
        self.assertIn("(EBUSY)", refused)

    def test_what_is_refused(self) -> None:
        booted, (tracer, names) = self.boot(
            "ftrace=nosuch trace_buf_size=4Q trace_clock=sundial ftrace_filter=nosuch,kfree "
            "trace_options=nosuch kprobe_event=x trace_event=nosuch",
            "cat current_tracer", "cat set_ftrace_filter")
        for name in ("ftrace", "trace_buf_size", "trace_clock", "ftrace_filter", "trace_options",
                     "kprobe_event", "trace_event"):
            self.assertIn(f"boot argument '{name}=' is refused (EINVAL), ignored\n",
                          booted.replace("\r", ""))
        self.assertEqual((tracer, names), ("nop\n", "#### all functions enabled ####\n"))


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(BootArgsOnAMachine)

if __name__ == "__main__":
    unittest.main()

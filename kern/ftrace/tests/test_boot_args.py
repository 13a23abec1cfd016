"""Boot arguments for tracing, on both architectures, on one CPU and on four."""
import re
import unittest

from grading.machine.machine import Run
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
        booted, (trace, names, options, size) = self.boot(
            "ftrace=function trace_buf_size=2M ftrace_notrace=schedule trace_options=sym-offset,"
            "noirq-info ftrace_filter=sched*,shell_main",
            "cat trace", "cat set_ftrace_filter set_ftrace_notrace", "cat trace_options",
            "cat buffer_size_kb")
        self.assertNotIn("refused", booted)
        self.assertRegex(trace, r"\n +shell-1 +\[000\] +\d+\.\d{6}: shell_main\+0x[04]/0x")
        self.assertNotIn(": schedule", trace)
        self.assertEqual(set(names.split()), {"schedule", "sched_tick", "shell_main"})
        self.assertLessEqual({"sym-offset", "noirq-info"}, set(options.split()))
        self.assertIn(int(size), range(2048, 2056))

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

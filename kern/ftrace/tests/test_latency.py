"""The latency tracers in a booted kernel, on both architectures, on one CPU and on four.

The module hold has the sections: its functions say which of them was found. Times have only lower
limits, because the host may be busy. Then another section may be longer than those of the module,
and is rightly kept: found() tries again.
"""
import re
import unittest

from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot

US = 20000  # of each step of the module hold
LINE = re.compile(r"^ *(\S+)-(\d+) +(\d+)([d.][N.][h.][0-9a-f.]\.) +(\d+)us[ +!#*@$]: (.*)$", re.M)
LEGEND = """\
#                    _------=> CPU#            
#                   / _-----=> irqs-off/BH-disabled
#                  | / _----=> need-resched    
#                  || / _---=> hardirq/softirq 
#                  ||| / _--=> preempt-depth   
#                  |||| / _-=> migrate-disable 
#                  ||||| /     delay           
#  cmd     pid     |||||| time  |   caller     
#     \\   /        ||||||  \\    |    /       
"""  # noqa: W291


class LatencyOnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "latency"

    def setUp(self) -> None:
        self.quiet("cd /sys/kernel/tracing", f"insmod hold us={US}")

    def tearDown(self) -> None:
        self.quiet("echo nop > current_tracer", "rmmod hold", "echo 1 > tracing_on",
                   "echo 0 > tracing_thresh", "echo > set_ftrace_filter")

    def places(self, text: str) -> list[str]:
        """Where the section in the header began and ended."""
        return re.findall(r"^#  => (?:started at: |ended at:   )(.*)$", text, re.M)

    def found(self, tracer: str, way: str, where: str = "") -> str:
        """The trace after a section of the module; tracing_on is 0, so it stays."""
        self.quiet(f"echo {tracer} > {where}current_tracer")
        while True:
            self.quiet(f"echo 1 > {where}tracing_on; echo 0 > {where}tracing_max_latency; "
                       f"echo {way} > /proc/hold; echo 0 > {where}tracing_on")
            text = self.sh(f"cat {where}trace")
            if "[hold]" in self.places(text)[0]:
                return text
            self.assertGreaterEqual(self.latency(where), US, "a shorter section is kept")

    def latency(self, where: str = "") -> int:
        return int(self.sh(f"cat {where}tracing_max_latency"))

    # ---- irqsoff

    def test_the_header_is_linux_s(self) -> None:
        text = self.found("irqsoff", "irqs")
        events = len(LINE.findall(text))
        self.assertRegex(text.replace(LEGEND, "LEGEND\n"), "".join((
            "^# tracer: irqsoff\n#\n# irqsoff latency trace v1.1.5 on Callsite\n# -{68}\n",
            rf"# latency: (\d+) us, #{events}/{events}, CPU#\d ",
            rf"\| \(M:preempt VP:0, KP:0, SP:0 HP:0 #P:{self.cpus}\)\n#    -{{17}}\n",
            r"#    \| task: shell-1 \(uid:0 nice:0 policy:0 rt_prio:0\)\n#    -{17}\n",
            r"#  => started at: hold_irqs \[hold\]\n#  => ended at:   hold_irqs \[hold\]\n",
            "#\n#\nLEGEND\n +shell-1 ")))
        self.assertEqual(f"latency: {self.latency()} us",
                         text[text.index("latency: "):text.index(", #")])

    def test_the_events_are_those_of_the_section(self) -> None:
        text = self.found("irqsoff", "irqs")
        lines = LINE.findall(text)
        functions = [line[5] for line in lines]
        self.assertEqual(functions[0], "_local_irq_save <-hold_irqs [hold]")
        self.assertEqual(functions[1], "spend [hold] <-hold_irqs [hold]")
        self.assertEqual(functions[-2], "_local_irq_restore <-hold_irqs [hold]")
        self.assertEqual(functions[-1], "<stack trace>")
        self.assertEqual({line[:3] for line in lines}, {("shell", "1", lines[0][2])})
        self.assertLessEqual({line[3] for line in lines}, {"d....", "dN..."})
        times = [int(line[4]) for line in lines]
        self.assertEqual(times, sorted(times))
        self.assertLess(times[1], US)
        self.assertGreaterEqual(times[-2], US)
        self.assertGreaterEqual(self.latency(), US)
        self.assertRegex(text, r"=> hold_irqs \[hold\]\n => hold_write \[hold\]\n")

    def test_a_shorter_section_is_not_kept(self) -> None:
        long = self.found("irqsoff", "both")
        latency = self.latency()
        self.assertGreaterEqual(latency, 2 * US)
        self.quiet("rmmod hold", "insmod hold us=1",
                   "echo 1 > tracing_on; echo irqs > /proc/hold; echo 0 > tracing_on")
        if self.latency() == latency:
            self.assertEqual(self.sh("cat trace"), long)
        else:
            self.assertGreater(self.latency(), latency, "a longer section of a busy host")
        self.quiet("echo 0 > tracing_max_latency")
        self.assertEqual(self.latency(), 0)

    def test_with_a_threshold_the_last_long_section_is_kept(self) -> None:
        self.quiet(f"echo {US} > tracing_thresh")
        self.assertEqual(self.places(self.found("irqsoff", "both")), ["hold_both [hold]"] * 2)
        self.quiet("echo 1 > tracing_on; echo irqs > /proc/hold; echo 0 > tracing_on")
        self.assertNotIn("hold_both", self.sh("cat trace"))
        self.assertGreaterEqual(self.latency(), US)

    def test_what_is_written_to_max_latency_must_be_exceeded(self) -> None:
        self.quiet("echo irqsoff > current_tracer", "echo 900000000 > tracing_max_latency",
                   "echo irqs > /proc/hold")
        self.assertEqual(self.sh("cat tracing_max_latency"), "900000000\n")
        self.assertNotIn("[hold]", self.sh("cat trace"))
        said = self.sh("echo 99999999999999999 > tracing_max_latency")
        self.assertIn("too many microseconds", said)
        self.assertIn("(EINVAL)", said)

    def test_interrupts_are_masked_at_each_event(self) -> None:
        """Sections begin in one thread and end in another one, which may be a new one."""
        self.quiet("echo irqsoff > current_tracer")
        for _ in range(10):
            self.quiet("echo 0 > tracing_max_latency", "sleep 0.001")
            flags = {line[3][0] for line in LINE.findall(self.sh("cat trace"))}
            self.assertEqual(flags, {"d"})

    # ---- preemptoff, preemptirqsoff

    def test_each_tracer_measures_its_kind(self) -> None:
        """`both` takes three steps: preemption is off in the first two, interrupts in the last two.
        """
        for tracer, first, last, steps in (
                ("irqsoff", "_local_irq_save", "_local_irq_restore", 2),
                ("preemptoff", "preempt_disable", "preempt_enable", 2),
                ("preemptirqsoff", "preempt_disable", "_local_irq_restore", 3)):
            with self.subTest(tracer):
                text = self.found(tracer, "both")
                self.assertEqual(self.places(text), ["hold_both [hold]"] * 2)
                functions = [line[5] for line in LINE.findall(text)]
                self.assertEqual(functions[0], f"{first} <-hold_both [hold]")
                self.assertEqual(functions[-2], f"{last} <-hold_both [hold]")
                self.assertEqual(functions.count("spend [hold] <-hold_both [hold]"), steps)
                self.assertGreaterEqual(self.latency(), steps * US)

    def test_a_kind_that_is_not_measured(self) -> None:
        for tracer, way in (("irqsoff", "preempt"), ("preemptoff", "irqs")):
            self.quiet(f"echo {tracer} > current_tracer", f"echo {way} > /proc/hold")
            self.assertNotIn("[hold]", "".join(self.places(self.sh("cat trace"))))

    def test_an_interrupt_belongs_to_the_section(self) -> None:
        """A timer interrupt comes every 10 ms, unless the host does not run the CPU meanwhile."""
        flags: list[str] = []
        while not any(flag[2] == "h" for flag in flags):
            flags = [line[3] for line in LINE.findall(self.found("preemptoff", "preempt"))]
            self.assertEqual({flag[0] + flag[2:] for flag in (flags[0], flags[1], flags[-1])},
                             {"..1."})

    # ---- wakeup

    def test_wakeup_has_the_thread_that_waited(self) -> None:
        self.quiet("echo wakeup > current_tracer", "sort /README.md > /tmp/sorted")
        text = self.sh("cat trace")
        task = re.search(r"^#    \| task: (.+)-(\d+) \(", text, re.M)
        assert task
        self.assertNotEqual(task[2], "0")
        started, ended = self.places(text)
        self.assertRegex(started, "^wake_")
        self.assertEqual(ended, "__schedule")
        self.assertRegex(text, "<stack trace>\n => __schedule\n")
        self.assertGreater(self.latency(), 0)
        events = [line[5] for line in LINE.findall(text)]
        self.assertRegex(events[0], rf"^ +\d+:120:[RSZ]   \+ \[\d+\] +{task[2]}:120:R {task[1]}$")
        switch = [e for e in events if " ==> " in e and e.endswith(f"{task[2]}:120:R {task[1]}")]
        self.assertEqual(len(switch), 1)
        self.assertRegex(switch[0], r"^ +\d+:120:[RSZ] ==> \[\d+\] ")
        self.quiet("echo nop > current_tracer", "rm /tmp/sorted")
        self.assertEqual(self.sh("cat events/sched/enable"), "0\n")

    def test_wakeup_leaves_the_events_of_others(self) -> None:
        self.quiet("echo 1 > events/sched/sched_switch/enable", "echo wakeup > current_tracer",
                   "sleep 0.01", "echo nop > current_tracer", "sleep 0.01")
        self.assertIn("sched_switch: ", self.sh("cat trace"))
        self.quiet("echo 0 > events/sched/enable", "echo > trace", "sleep 0.01")
        self.assertNotIn("sched_switch: ", self.sh("cat trace"))

    def test_a_snapshot_command_stays(self) -> None:
        self.quiet("echo 'hold_irqs:snapshot' > set_ftrace_filter", "echo irqsoff > current_tracer",
                   "echo irqs > /proc/hold", "echo nop > current_tracer",
                   "echo hold_irqs > set_ftrace_filter", "echo function > current_tracer",
                   "echo irqs > /proc/hold")
        self.assertIn("hold_irqs [hold] <-hold_write [hold]",
                      self.sh("cat trace") + self.sh("cat snapshot"))
        self.assertNotIn("is freed", self.sh("cat snapshot"))
        self.quiet("echo '!hold_irqs:snapshot' > set_ftrace_filter", "echo 0 > snapshot")

    # ---- the options, and the other files

    def test_without_functions(self) -> None:
        self.quiet("echo irqsoff > current_tracer", "echo 0 > options/function-trace")
        self.assertEqual([line[5] for line in LINE.findall(self.found("irqsoff", "irqs"))],
                         ["_local_irq_save <-hold_irqs [hold]",
                          "_local_irq_restore <-hold_irqs [hold]", "<stack trace>"])
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.quiet("echo 1 > options/function-trace", "echo spend > set_ftrace_filter")
        self.assertIn("spend [hold] (1)", self.sh("cat enabled_functions"))
        self.assertEqual([line[5] for line in LINE.findall(self.found("irqsoff", "both"))][1:3],
                         ["spend [hold] <-hold_both [hold]"] * 2)
        self.quiet("echo nop > current_tracer")
        self.assertNotIn("function-trace", self.sh("cat trace_options"))
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def test_nothing_is_kept_while_recording_is_off(self) -> None:
        self.quiet("echo 0 > tracing_on", "echo irqsoff > current_tracer", "echo irqs > /proc/hold")
        self.assertEqual(self.sh("cat trace"), "# tracer: irqsoff\n#\n")
        self.found("irqsoff", "irqs")

    def test_nothing_is_kept_while_trace_is_open(self) -> None:
        """The command's standard input is the file."""
        self.quiet("echo irqsoff > current_tracer", "echo irqs < trace > /proc/hold")
        self.assertNotIn("[hold]", "".join(self.places(self.sh("cat trace"))))
        self.found("irqsoff", "irqs")
        self.quiet("echo 0 > tracing_max_latency; echo 1 > tracing_on; "
                   "echo both < snapshot > /proc/hold; echo 0 > tracing_on")
        self.assertNotIn("hold_both", self.sh("cat trace"))

    def test_one_cpu_s_trace(self) -> None:
        self.found("irqsoff", "irqs")
        with_events = [cpu for cpu in range(self.cpus)
                       if LINE.search(self.sh(f"cat per_cpu/cpu{cpu}/trace"))]
        self.assertEqual(len(with_events), 1)
        self.assertIn(f"CPU#{with_events[0]} ", self.sh("cat trace"))

    def test_an_emptied_trace(self) -> None:
        self.found("irqsoff", "irqs")
        self.quiet("echo > trace")
        self.assertEqual(LINE.findall(self.sh("cat trace")), [])

    def test_the_spare_buffers_are_in_use(self) -> None:
        self.quiet("echo irqsoff > current_tracer")
        for line in ("echo 1 > snapshot", "echo 0 > snapshot"):
            said = self.sh(line)
            self.assertIn("the spare buffers are in use by irqsoff", said)
            self.assertIn("(EBUSY)", said)
        self.assertIn("(EBUSY)", self.sh("echo 'schedule:snapshot' > set_ftrace_filter"))
        text = self.found("irqsoff", "irqs")
        self.assertEqual(self.sh("cat snapshot"), text)
        self.quiet("echo nop > current_tracer")
        self.assertIn("* Snapshot is freed *", self.sh("cat snapshot"))

    def test_one_instance_at_a_time(self) -> None:
        self.quiet("mkdir instances/a", "echo wakeup > current_tracer")
        said = self.sh("echo irqsoff > instances/a/current_tracer")
        self.assertIn("irqsoff can be used once, and another instance uses it", said)
        self.assertIn("(EBUSY)", said)
        self.quiet("echo nop > current_tracer")
        self.found("irqsoff", "irqs", "instances/a/")
        self.assertNotIn("[hold]", self.sh("cat trace"))
        self.quiet("echo wakeup > instances/a/current_tracer", "rmdir instances/a")
        self.found("irqsoff", "irqs")

    def test_the_module_refuses_what_it_does_not_know(self) -> None:
        for text in ("", "irq", "irqsx", "irqs 5"):
            self.assertIn("(EINVAL)", self.sh(f"echo {text} > /proc/hold"), text)
        self.quiet("rmmod hold")
        for us in (-1, 1000001):
            self.assertIn("(EINVAL)", self.sh(f"insmod hold us={us}"))
        self.quiet("insmod hold")



On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(LatencyOnAMachine)

if __name__ == "__main__":
    unittest.main()

"""Which threads and CPUs are recorded, in a booted kernel, on both architectures, on one CPU and on
four: set_ftrace_pid and set_event_pid, their notrace files, tracing_cpumask.

The shell is thread 1. A program that it starts is a thread that it creates, and the threads of
the workload are created by the program. How often each function is called follows from the seed
(grading.stimulus.workload).
"""
import re
import unittest

from grading.stimulus.workload import expect
from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot
from kern.ftrace.tests.waiting import until

SEED = 0x0123456789ABCDEF
SHELL = 1
FILES = ("set_ftrace_pid", "set_ftrace_notrace_pid", "set_event_pid", "set_event_notrace_pid")


class PidsOnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "pids"

    def tearDown(self) -> None:
        self.quiet("echo nop > current_tracer", "echo 0 > events/enable",
                   "echo 0 > options/function-fork", "echo 0 > options/event-fork",
                   "echo > set_ftrace_filter", *(f"echo > {file}" for file in FILES),
                   f"echo {(1 << self.cpus) - 1:x} > tracing_cpumask", "echo > trace")

    def in_threads(self) -> int:
        """How many calls of the workload are made outside of interrupts."""
        contexts = expect(SEED, self.cpus).contexts
        return sum(len(calls) for name, calls in contexts.items() if "interrupt" not in name)

    def recorded(self, pattern: str) -> int:
        """How many lines of `trace` are such events, outside of interrupts."""
        return len(re.findall(rf"^ .*-\d+ +\[\d+\] [d.][N.]\...* {pattern}", self.sh("cat trace"),
                              re.M))

    def run_functions(self) -> int:
        self.quiet("echo 'wl_*' > set_ftrace_filter", "echo function > current_tracer")
        self.work(SEED)
        count = self.recorded(r"wl_\w+ <-")
        self.quiet("echo nop > current_tracer")
        return count

    def assert_only_the_shell(self, file: str) -> None:
        """The threads that it created have ended, but for the one that reads the file."""
        shell, cat = self.sh(f"cat {file}").split()
        self.assertEqual(shell, str(SHELL))
        self.assertRegex(self.sh(f"cat {file}"), rf"^{SHELL}\n(?!{cat}\n)\d+\n$")

    def background(self) -> int:
        """Start a program that runs every 10 ms, until the test ends. Its pid."""
        self.quiet("mkdir instances/waits")
        said = re.fullmatch(r"\[1\] thread (\d+)\n",
                            self.sh("cat instances/waits/trace_pipe > /tmp/nothing &"))
        assert said
        self.addCleanup(lambda: [self.sh(line) for line in (
            "kill 1", "wait", "rmdir instances/waits")])
        return int(said[1])

    def wait_for(self, words: str) -> None:
        until(self.machine.console, "cat trace", words)

    # ---- functions

    def test_only_these_threads(self) -> None:
        self.quiet(f"echo {SHELL} > set_ftrace_pid")
        self.assertEqual(self.run_functions(), 0)
        self.quiet("echo > set_ftrace_pid")
        self.assertEqual(self.run_functions(), self.in_threads())

    def test_and_the_threads_that_they_create(self) -> None:
        self.quiet("echo 1 > options/function-fork", f"echo {SHELL} > set_ftrace_pid")
        self.assertEqual(self.run_functions(), self.in_threads())
        self.assert_only_the_shell("set_ftrace_pid")

    def test_not_these_threads(self) -> None:
        self.quiet("echo 1 > options/function-fork", f"echo {SHELL} > set_ftrace_notrace_pid")
        self.assertEqual(self.run_functions(), 0)
        self.quiet("echo 0 > options/function-fork")
        self.assertEqual(self.run_functions(), self.in_threads(), "a program is another thread")

    def test_notrace_wins(self) -> None:
        self.quiet("echo 1 > options/function-fork", f"echo {SHELL} > set_ftrace_pid",
                   f"echo {SHELL} > set_ftrace_notrace_pid")
        self.assertEqual(self.run_functions(), 0)

    def test_of_one_program_among_others(self) -> None:
        pid = self.background()
        self.quiet(f"echo {pid} > set_ftrace_pid", "echo function > current_tracer")
        self.wait_for(f"-{pid} ")
        listed = set(re.findall(r"^ +\S+-(\d+) +\[", self.sh("cat trace"), re.M))
        self.quiet("echo > set_ftrace_pid", "echo > trace")
        self.assertEqual(listed, {str(pid)})

    def test_function_graph(self) -> None:
        self.quiet("echo 'wl_*' > set_ftrace_filter", f"echo {SHELL} > set_ftrace_pid",
                   "echo function_graph > current_tracer")
        self.work(SEED)
        self.assertNotIn("wl_", self.sh("cat trace"))
        self.quiet("echo 1 > options/function-fork")
        self.work(SEED)
        entries = re.findall(r"\| +wl_\w+\(\)", self.sh("cat trace"))
        self.assertGreaterEqual(len(entries), self.in_threads())

    # ---- events

    def events(self) -> list[tuple[int, str]]:
        """The pid and the text of each event."""
        return [(int(pid), text) for pid, text in re.findall(
            r"^ .*-(\d+) +\[\d+\] \S+ +\d+\.\d+: (.*)", self.sh("cat trace"), re.M)]

    def test_an_event_is_that_of_its_thread_or_switches_to_it_or_wakes_it(self) -> None:
        pid = self.background()
        self.quiet(f"echo {pid} > set_event_pid", "echo 1 > events/enable")
        for event in (f"sched_switch: prev_comm=cat prev_pid={pid} ", f" next_pid={pid} ",
                      f"sched_waking: comm=cat pid={pid} "):
            self.wait_for(event)
        self.quiet("echo 0 > events/enable")
        events = self.events()
        for runs, text in events:
            if runs != pid:
                self.assertRegex(text, rf"^sched_switch: .* next_pid={pid} |"
                                 rf"^sched_wak\w+: comm=cat pid={pid} ")

    def test_not_the_events_of_these_threads(self) -> None:
        pid = self.background()
        self.quiet(f"echo {pid} > set_event_notrace_pid", "echo 1 > events/enable")
        self.wait_for(f" next_pid={pid} ")
        self.quiet("echo 0 > events/enable")
        texts = [text for runs, text in self.events() if runs == pid]
        self.assertTrue(self.events())
        self.assertEqual([t for t in texts if not t.startswith(("sched_switch", "sched_wak"))], [])

    def test_events_follow_a_fork(self) -> None:
        self.quiet("echo 1 > options/event-fork", f"echo {SHELL} > set_event_pid",
                   "echo 1 > events/sched/sched_process_exit/enable",
                   "echo 'prev_state == 0x20' > events/sched/sched_switch/filter",
                   "echo 1 > events/sched/sched_switch/enable", "sleep 0.01")
        texts = [text for _, text in self.events()]
        self.quiet("echo 0 > events/sched/sched_switch/filter")
        self.assertEqual([text.split()[:2] for text in texts],
                         [["sched_process_exit:", "comm=sleep"],
                          ["sched_switch:", "prev_comm=sleep"]], "its last switch, too")
        self.assert_only_the_shell("set_event_pid")

    def test_a_trigger_after_an_event_that_is_not_recorded_does_not_act(self) -> None:
        event = "events/sched/sched_process_fork"
        for pid, expected in ((4000, []), (SHELL, ["sched_process_fork:", "<stack"])):
            self.quiet(f"echo stacktrace > {event}/trigger", f"echo {pid} > set_event_pid",
                       f"echo 1 > {event}/enable", "sleep 0.01", f"echo 0 > {event}/enable",
                       f"echo '!stacktrace' > {event}/trigger")
            self.assertEqual([text.split()[0] for _, text in self.events()], expected)

    def test_functions_and_events_have_lists_of_their_own(self) -> None:
        self.quiet("echo 1 > options/function-fork", f"echo {SHELL} > set_event_notrace_pid",
                   "echo 4000 > set_event_pid", f"echo {SHELL} > set_ftrace_pid")
        self.assertEqual(self.run_functions(), self.in_threads())

    # ---- the files

    def test_lists_are_printed_in_order(self) -> None:
        for file in FILES:
            none = "no pid\n" if "ftrace" in file else ""
            self.assertEqual(self.sh(f"cat {file}"), none)
            self.quiet(f"echo '  4095 3 0x10 ' > {file}", f"echo 0 >> {file}", f"echo >> {file}")
            self.assertEqual(self.sh(f"cat {file}"), "0\n3\n16\n4095\n")
            self.quiet(f"echo 7 > {file}")
            self.assertEqual(self.sh(f"cat {file}"), "7\n")
            self.quiet(f"echo > {file}")
            self.assertEqual(self.sh(f"cat {file}"), none)

    def test_all_words_are_added_or_none(self) -> None:
        for file in FILES:
            self.quiet(f"echo 5 > {file}")
            for word, error in (("shell", "EINVAL"), ("-1", "EINVAL"), ("6x", "EINVAL"),
                                ("4096", "EPERM"), ("99999999999", "EPERM"),
                                ("1" * 30, "EINVAL"), ("9" * 23, "EINVAL")):
                said = self.sh(f"echo '6 {word}' >> {file}")
                self.assertIn(f"({error})", said)
                self.assertIn(f"tracefs: {file}: ", said)
                self.assertEqual(self.sh(f"cat {file}"), "5\n")

    def test_an_instance_has_lists_of_its_own(self) -> None:
        self.quiet("echo 1 > options/function-fork", "echo 1 > options/event-fork",
                   "mkdir instances/one")
        for option in ("function-fork", "event-fork"):
            self.assertEqual(self.sh(f"cat instances/one/options/{option}"), "0\n")
        self.quiet("echo 1 > instances/one/options/function-fork",
                   f"echo {SHELL} > instances/one/set_ftrace_pid",
                   f"echo {SHELL} > set_ftrace_notrace_pid",
                   "echo 'wl_*' > instances/one/set_ftrace_filter",
                   "echo function > instances/one/current_tracer")
        self.assertEqual(self.run_functions(), 0)
        text = self.sh("cat instances/one/trace")
        self.assertGreaterEqual(len(re.findall(r": wl_\w+ <-", text)), self.in_threads())
        self.quiet("rmdir instances/one")  # while its tracer and its list are in use
        self.assertEqual(self.run_functions(), 0)

    # ---- CPUs

    def entries(self, cpu: int) -> int:
        found = re.search(r"^entries: (\d+)", self.sh(f"cat per_cpu/cpu{cpu}/stats"))
        assert found
        return int(found[1])

    def test_cpus_that_are_not_in_the_mask_record_nothing(self) -> None:
        last = self.cpus - 1
        for mask in (1 << last, (1 << self.cpus) - 1, 0):
            self.quiet(f"echo {mask:x} > tracing_cpumask", "echo function > current_tracer")
            self.assertEqual(self.sh("cat tracing_cpumask"), f"{mask:x}\n")
            self.work(SEED)
            self.quiet("echo 0 > tracing_on")
            self.assertEqual([self.entries(cpu) > 0 for cpu in range(self.cpus)],
                             [bool(mask >> cpu & 1) for cpu in range(self.cpus)])
            self.quiet("echo nop > current_tracer", "echo 1 > tracing_on")

    def test_a_mask_has_groups_of_32_bits(self) -> None:
        every = f"{(1 << self.cpus) - 1:x}"
        for word, mask in ((f"0,{every}", every), ("00000000,00000001", "1"), ("", "0"),
                           (f"0,,0, {every.upper()}", every), (",", "0"), ("00000001", "1")):
            self.quiet(f"echo '{word}' > tracing_cpumask")
            self.assertEqual(self.sh("cat tracing_cpumask"), f"{mask}\n", word)
        self.quiet(f"echo {every} > tracing_cpumask")

    def test_a_mask_that_is_refused(self) -> None:
        for word, error in (("x", "EINVAL"), ("-1", "EINVAL"), ("0x1", "EINVAL"),
                            ("0,x", "EINVAL"), (f"{1 << self.cpus:x}", "EOVERFLOW"),
                            ("f" * 40, "EOVERFLOW"), ("1,0", "EOVERFLOW"),
                            ("0,1,0,1", "EOVERFLOW")):
            said = self.sh(f"echo '{word}' > tracing_cpumask")
            self.assertIn(f"({error})", said, word)
            self.assertIn("tracefs: tracing_cpumask: ", said)
        self.assertEqual(self.sh("cat tracing_cpumask"), f"{(1 << self.cpus) - 1:x}\n")


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(PidsOnAMachine)

if __name__ == "__main__":
    unittest.main()

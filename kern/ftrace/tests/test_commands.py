"""Commands in set_ftrace_filter in a booted kernel, on both architectures, on one CPU and on four.

How often each function of the workload is called follows from the seed
(grading.stimulus.workload).
"""
import re
import unittest
from collections import Counter

from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot

SEEDS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
ALL = "#### all functions enabled ####"
COUNT = 3


class CommandsOnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "commands"

    def tearDown(self) -> None:
        for line in self.listed():
            function, rest = line.split(":", 1)
            command, count = rest.rsplit(":", 1)
            self.quiet(f"echo '!{function}:{command}{':0' if '=' in count else ''}' "
                       ">> set_ftrace_filter")
        self.quiet("echo > set_ftrace_filter", "echo 1 > tracing_on", "echo > trace")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def listed(self, path: str = "") -> list[str]:
        return [line for line in self.sh(f"cat {path}set_ftrace_filter").splitlines()
                if ":" in line]

    def stacks(self, path: str = "") -> Counter[str]:
        """The first function of each stack trace."""
        return Counter(
            re.findall(r"<stack trace>\n => (\w+)", self.sh(f"cat {path}trace")))

    def refused(self, word: str, error: str = "EINVAL", file: str = "set_ftrace_filter") -> None:
        before = self.sh(f"cat {file}")
        said = self.sh(f"echo '{word}' >> {file}")
        self.assertIn(f"({error})", said, word)
        self.assertIn(f"{file}: no function matches", said)
        self.assertEqual(self.sh(f"cat {file}"), before, word)

    # ---- events

    def enabled(self, event: str, path: str = "") -> str:
        return self.sh(f"cat {path}events/{event}/enable").strip()

    def test_an_event_is_recorded_from_a_call_on(self) -> None:
        event = "sched/sched_process_exit"
        self.quiet("echo 'wl_begin:enable_event:sched:sched_process_exit' > set_ftrace_filter",
                   "sleep 0.01")
        self.assertEqual(self.listed(),
                         ["wl_begin:enable_event:sched:sched_process_exit:unlimited"])
        self.assertEqual(self.enabled(event), "0*")
        self.work(SEEDS[0])
        self.assertEqual(self.enabled(event), "1*")
        self.quiet("sleep 0.01")
        self.assertNotIn("comm=sleep", self.sh("cat trace").split("comm=workload")[0])
        self.assertEqual(self.sh("cat trace | grep -c comm=sleep").strip(), "1")
        self.quiet("echo '!wl_begin:enable_event:sched:sched_process_exit' > set_ftrace_filter")
        self.assertEqual(self.enabled(event), "0")

    def test_an_event_is_not_recorded_from_a_call_on(self) -> None:
        event = "sched/sched_process_exit"
        self.quiet("echo 'wl_end:disable_event:sched:sched_process_exit:1' > set_ftrace_filter",
                   f"echo 1 > events/{event}/enable")
        self.work(SEEDS[0])
        self.assertEqual(self.enabled(event), "0*")
        self.assertEqual(self.listed(), ["wl_end:disable_event:sched:sched_process_exit:count=0"])
        self.quiet(f"echo 1 > events/{event}/enable")
        self.work(SEEDS[0])
        self.assertEqual(self.enabled(event), "1*", "the count is used up")
        self.quiet("echo '!wl_end:disable_event:sched:sched_process_exit:0' > set_ftrace_filter")
        self.assertEqual(self.enabled(event), "1", "it was enabled by a user")
        self.quiet(f"echo 0 > events/{event}/enable")

    def test_a_call_without_effect_is_not_counted(self) -> None:
        self.quiet("echo 'wl_begin:enable_event:sched:sched_waking:2' > set_ftrace_filter")
        self.work(*SEEDS)
        self.assertEqual(self.listed(), ["wl_begin:enable_event:sched:sched_waking:count=1"])

    def test_an_event_of_a_probe_stays_while_a_command_names_it(self) -> None:
        self.quiet("echo 'p:one wl_begin' > kprobe_events",
                   "echo 'wl_end:enable_event:kprobes:one' > set_ftrace_filter")
        self.assertIn("(EBUSY)", self.sh("echo > kprobe_events"))
        self.quiet("echo '!wl_end:enable_event:kprobes:one' > set_ftrace_filter",
                   "echo > kprobe_events")

    def test_end_with_their_module(self) -> None:
        self.quiet("insmod maple", "echo 'p:one wl_begin' > kprobe_events",
                   "echo maple_root:enable_event:kprobes:one > set_ftrace_filter",
                   "echo 'maple_*:stacktrace:3 wl_end:stacktrace:3' > set_ftrace_filter",
                   "rmmod maple")
        self.assertEqual(self.listed(), ["wl_end:stacktrace:count=3"])
        self.assertEqual(self.enabled("kprobes/one"), "0")
        self.quiet("echo > kprobe_events")

    def test_an_event_of_an_instance(self) -> None:
        event = "sched/sched_process_exit"
        self.quiet("mkdir instances/one",
                   "echo wl_begin:enable_event:sched:sched_process_exit > "
                   "instances/one/set_ftrace_filter")
        self.work(SEEDS[0])
        self.assertEqual(self.enabled(event, "instances/one/"), "1*")
        self.assertEqual(self.enabled(event), "0")
        self.quiet("rmdir instances/one")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.work(SEEDS[0])

    # ---- written, listed, removed

    def test_are_listed_after_the_filter(self) -> None:
        self.quiet("echo 'sleep_ns:traceoff:3 wl_begin sleep_ns:traceon' > set_ftrace_filter")
        self.assertEqual(self.sh("cat set_ftrace_filter"),
                         "wl_begin\nsleep_ns:traceoff:count=3\nsleep_ns:traceon:unlimited\n")

    def test_are_no_part_of_the_filter(self) -> None:
        self.quiet("echo wl_end:stacktrace > set_ftrace_filter")
        self.assertEqual(self.sh("cat set_ftrace_filter"), f"{ALL}\nwl_end:stacktrace:unlimited\n")
        self.quiet("echo wl_begin > set_ftrace_filter", "echo > set_ftrace_filter")
        self.assertEqual(self.sh("cat set_ftrace_filter"), f"{ALL}\nwl_end:stacktrace:unlimited\n")
        self.assertIn("wl_end (1)", self.sh("cat enabled_functions"))

    def test_of_several_functions(self) -> None:
        self.quiet("echo 'wl_leaf_*:traceoff:0x10' > set_ftrace_filter",
                   "echo '!wl_leaf_[!e]*:traceoff:0' >> set_ftrace_filter")
        self.assertEqual(self.listed(), ["wl_leaf_elm:traceoff:count=16"])
        self.quiet("echo :stacktrace:1 > set_ftrace_filter")
        self.assertEqual(
            len(self.listed()),
            1 + len(self.sh("cat available_filter_functions").splitlines()))
        self.quiet("echo '!:stacktrace:' > set_ftrace_filter")
        self.assertEqual(self.listed(), ["wl_leaf_elm:traceoff:count=16"])

    def test_without_a_number_there_is_no_count(self) -> None:
        self.quiet("echo 'wl_end:traceon: wl_begin:traceon' > set_ftrace_filter")
        self.assertEqual(self.listed(), ["wl_begin:traceon:unlimited", "wl_end:traceon:unlimited"])

    def test_one_that_is_set_stays_as_it_is(self) -> None:
        self.quiet("echo 'wl_leaf_elm:stacktrace:5' > set_ftrace_filter",
                   "echo 'wl_leaf_*:stacktrace:9' > set_ftrace_filter",
                   "echo 'wl_leaf_*:stacktrace:9' > set_ftrace_filter")
        counts = dict(line.split(":stacktrace:") for line in self.listed())
        self.assertEqual(counts.pop("wl_leaf_elm"), "count=5")
        self.assertEqual((len(counts), set(counts.values())), (5, {"count=9"}))
        self.quiet("echo '!wl_leaf_elm:stacktrace:0' > set_ftrace_filter",
                   "echo 'wl_leaf_elm:stacktrace:7' > set_ftrace_filter")
        self.assertIn("wl_leaf_elm:stacktrace:count=7", self.listed())

    def test_removal_names_the_kind(self) -> None:
        self.quiet("echo 'wl_begin:traceoff:2' > set_ftrace_filter")
        for word in ("!wl_begin:traceoff", "!wl_begin:traceon:0", "!wl_end:traceoff:0",
                     "!nosuch:traceoff:0"):
            self.refused(word)
        self.quiet("echo '!wl_begin:traceoff:99' > set_ftrace_filter")
        self.assertEqual(self.listed(), [])
        self.refused("!wl_begin:traceoff:0")

    def test_what_is_refused(self) -> None:
        for word in ("wl_begin:nosuch", "wl_begin:", "wl_begin:traceo", "wl_begin:traceonn",
                     "wl_begin:traceoff:-1", "wl_begin:traceoff:x", "wl_begin:traceoff:3:4",
                     "wl_begin:traceoff:3000000000", "nosuch:traceoff", ":", "::", "!:",
                     "1:traceoff", "x" * 200 + ":traceoff", "wl_begin:enable_event",
                     "wl_begin:enable_event:sched", "wl_begin:enable_event:sched:nosuch",
                     "wl_begin:enable_event::sched_waking", "wl_begin:disable_event:sched:",
                     "wl_begin:enable_event:sched:sched_waking:-1",
                     "wl_begin:enable_event:sched:sched_waking:",
                     "nosuch:enable_event:sched:sched_waking",
                     "!wl_begin:enable_event:sched:sched_waking"):
            self.refused(word)
        self.assertEqual(self.enabled("sched/sched_waking"), "0")
        for file in ("set_ftrace_notrace", "set_graph_function"):
            self.refused("wl_begin:traceoff", file=file)

    def test_the_reason_is_named(self) -> None:
        """Each of 32 stubs has a command, so there is none for one more."""
        words = [f"wl_end:{act}:{event}" for act in ("disable_event", "enable_event")
                 for event in self.sh("cat available_events").split()]
        self.quiet(*(f"echo '{word}' >> set_ftrace_filter" for word in words[:32]))
        said = self.sh(f"echo '{words[32]}' >> set_ftrace_filter")
        self.assertIn(f"set_ftrace_filter: '{words[32]}': no stub is free\n", said)
        self.assertIn("(ENOSPC)", said)
        self.assertEqual(len(self.listed()), 32)

    # ---- what they do

    def test_traceoff_and_traceon(self) -> None:
        self.quiet("echo 'wl_begin:traceoff:2 wl_end:traceon' > set_ftrace_filter")
        for left in (1, 0, 0):
            self.work(SEEDS[0])
            self.assertEqual(self.sh("cat tracing_on"), "1\n")
            self.assertIn(f"wl_begin:traceoff:count={left}", self.listed())
        self.quiet("echo '!wl_end:traceon' > set_ftrace_filter",
                   "echo '!wl_begin:traceoff:0' > set_ftrace_filter",
                   "echo 'wl_begin:traceoff:2' > set_ftrace_filter")
        for _ in range(2):  # when it is off already, a call is not counted
            self.work(SEEDS[0])
            self.assertEqual(self.sh("cat tracing_on"), "0\n")
            self.assertIn("wl_begin:traceoff:count=1", self.listed())

    def test_each_function_counts_for_itself(self) -> None:
        self.quiet(f"echo 'wl_*:stacktrace:{COUNT}' > set_ftrace_filter")
        calls = self.work(*SEEDS)
        self.assertEqual(self.stacks(),
                         {name: min(n, COUNT) for name, n in calls.items() if n})
        for line in self.listed():
            name = line.split(":")[0]
            self.assertEqual(line, f"{name}:stacktrace:count={max(0, COUNT - calls[name])}")

    def test_a_count_of_0_does_nothing(self) -> None:
        self.quiet("echo 'wl_*:stacktrace:0' > set_ftrace_filter")
        self.work(SEEDS[0])
        self.assertEqual(self.stacks(), {})

    def test_stacktrace_beside_a_tracer(self) -> None:
        self.quiet("echo 'wl_begin wl_begin:stacktrace' > set_ftrace_filter",
                   "echo function > current_tracer")
        self.work(SEEDS[0])
        lines = [line for line in self.sh("cat trace").splitlines() if not line.startswith("#")]
        self.quiet("echo nop > current_tracer")
        self.assertEqual(sum("wl_begin <-" in line for line in lines), 1)
        self.assertEqual(lines.count(" => wl_begin"), 1)

    # ---- instances, modules

    def test_act_in_their_instance(self) -> None:
        self.quiet("mkdir instances/a",
                   "echo 'wl_begin:traceoff wl_end:stacktrace:1' > instances/a/set_ftrace_filter")
        self.assertEqual(self.listed(), [])
        self.assertEqual(len(self.listed("instances/a/")), 2)
        self.work(SEEDS[0])
        self.assertEqual(self.sh("cat tracing_on instances/a/tracing_on"), "1\n0\n")
        self.quiet("rmdir instances/a")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def test_go_with_their_module(self) -> None:
        self.quiet("insmod maple", "echo 'maple_*:stacktrace wl_begin:stacktrace' > "
                   "set_ftrace_filter")
        listed = self.listed()
        self.assertIn("wl_begin:stacktrace:unlimited", listed)
        self.assertGreater(len(listed), 1)
        self.assertEqual({line.split(" ")[1] for line in listed if line.startswith("maple")},
                         {"[maple]:stacktrace:unlimited"})
        self.quiet("rmmod maple")
        self.assertEqual(self.listed(), ["wl_begin:stacktrace:unlimited"])
        self.quiet("insmod maple")
        self.assertEqual(self.listed(), ["wl_begin:stacktrace:unlimited"])
        self.quiet("rmmod maple")


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(CommandsOnAMachine)

if __name__ == "__main__":
    unittest.main()

"""Snapshots in a booted kernel, on both architectures, on one CPU and on four: the files, the
command in set_ftrace_filter, the trigger.

The functions that the workload calls, and how often, follow from the seed
(grading.stimulus.workload). As nothing is overwritten, each call is in `trace` or in `snapshot`.
"""
import re
import unittest
from collections import Counter

from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot

SEEDS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
FREED = "# * Snapshot is freed *"
EMPTY = "# * Snapshot is allocated *"


class SnapshotsOnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "snapshot"

    def setUp(self) -> None:
        self.quiet("echo 'wl_*' > set_ftrace_filter", "echo function > current_tracer")

    def tearDown(self) -> None:
        self.quiet("echo nop > current_tracer", "echo > set_ftrace_filter", "echo 0 > snapshot",
                   "echo > trace")

    def functions(self, *files: str) -> Counter[str]:
        """How often each function is in these files; what their headers say is the same."""
        found = Counter[str]()
        for file in files:
            text = self.sh(f"cat {file}")
            lines = re.findall(r"^ .*: (\w+) <-\w+$", text, re.M)
            said = re.findall(r"^# entries-in-buffer/entries-written: (\d+)/(\d+) ", text, re.M)
            if "per_cpu" not in file:  # there, too, they are those of all CPUs
                self.assertEqual(said or [("0", "0")], [(str(len(lines)), str(len(lines)))], file)
            found.update(lines)
        return found

    def refused(self, line: str, error: str, why: str) -> None:
        said = self.sh(line)
        self.assertIn(f"({error})", said)
        self.assertIn(why, said)

    # ---- the file

    def test_a_file_says_what_can_be_written(self) -> None:
        for state, line in ((FREED, ""), (EMPTY, "echo 1 > snapshot"), (FREED, "echo 0 > snapshot"),
                            (FREED, "echo 2 > snapshot")):
            if line:
                self.quiet(line)
            for file in ("snapshot", "per_cpu/cpu0/snapshot"):
                text = self.sh(f"cat {file}")
                self.assertTrue(text.startswith(f"# tracer: function\n#\n#\n{state}\n#\n"), text)
                self.assertEqual(re.findall(r"^# echo (\d) > snapshot", text, re.M), [*"012"])

    def test_what_was_recorded_is_in_the_snapshot(self) -> None:
        first, second = self.work(SEEDS[0]), Counter[str]()
        self.quiet("echo 1 > snapshot")
        self.assertEqual((self.functions("trace"), self.functions("snapshot")), (second, first))
        second = self.work(SEEDS[1])
        self.assertEqual((self.functions("trace"), self.functions("snapshot")), (second, first))
        self.quiet("echo 1 > snapshot")  # exchanged again
        self.assertEqual((self.functions("trace"), self.functions("snapshot")), (first, second))
        self.quiet("echo 3 > snapshot")
        self.assertEqual(self.functions("trace"), first)
        self.assertIn(EMPTY, self.sh("cat snapshot"))
        self.quiet("echo > trace")
        self.assertEqual(self.functions("trace"), Counter())

    def test_of_one_cpu(self) -> None:
        calls = self.work(SEEDS[0])
        last = self.cpus - 1
        mine = self.functions(f"per_cpu/cpu{last}/trace")
        self.assertTrue(mine)
        self.quiet(f"echo 1 > per_cpu/cpu{last}/snapshot")
        self.assertEqual(self.functions("snapshot"), mine)
        self.assertEqual(self.functions(f"per_cpu/cpu{last}/snapshot"), mine)
        self.assertEqual(self.functions("trace"), calls - mine)
        self.refused(f"echo 0 > per_cpu/cpu{last}/snapshot", "EINVAL", "freed for all CPUs")
        self.quiet(f"echo 2 > per_cpu/cpu{last}/snapshot")
        self.assertIn(EMPTY, self.sh(f"cat per_cpu/cpu{last}/snapshot"))

    def test_trace_pipe_reads_what_is_recorded_now(self) -> None:
        self.work(SEEDS[0])
        self.quiet("echo 1 > snapshot")
        calls = self.work(SEEDS[1])
        self.quiet("echo 0 > tracing_on")
        text = self.sh("cat trace_pipe")
        self.quiet("echo 1 > tracing_on")
        self.assertEqual(Counter(re.findall(r": (wl_\w+) <-", text)), calls)

    def test_another_size(self) -> None:
        calls = self.work(SEEDS[0])
        self.quiet("echo 1 > snapshot", "echo 700 > buffer_size_kb")
        self.assertEqual(self.functions("snapshot"), calls)
        self.quiet("echo 1 > snapshot", "echo 1408 > buffer_size_kb")
        self.assertEqual(self.functions("trace"), calls)
        size = self.sh("cat buffer_size_kb")
        self.refused("echo 300000 > buffer_size_kb", "ENOMEM", "no memory")
        self.assertEqual(self.sh("cat buffer_size_kb"), size)
        self.assertEqual(self.functions("trace"), calls)

    def test_another_clock_empties_both(self) -> None:
        self.work(SEEDS[0])
        self.quiet("echo 1 > snapshot", "echo counter > trace_clock")
        self.assertIn(EMPTY, self.sh("cat snapshot"))
        self.quiet("echo local > trace_clock")

    def test_refusals(self) -> None:
        for text in ("x", "", "-1", "1 2", "9" * 30):
            said = self.sh(f"echo '{text}' > snapshot")
            self.assertRegex(said, r"\((EINVAL|ERANGE)\)", text)
        self.assertIn(FREED, self.sh("cat snapshot"))

    # ---- at a call, at an event

    def test_a_command_takes_one_at_each_call(self) -> None:
        self.quiet("echo 'wl_leaf_*:snapshot' >> set_ftrace_filter")
        for seed in SEEDS:
            calls = self.work(seed)
            self.assertEqual(self.functions("trace", "snapshot"), calls)
            self.quiet("echo 2 > snapshot", "echo > trace")
        self.quiet("echo '!wl_leaf_*:snapshot' >> set_ftrace_filter")

    def test_a_command_with_a_count(self) -> None:
        self.quiet("echo 'wl_end:snapshot:1' >> set_ftrace_filter")
        self.assertIn("wl_end:snapshot:count=1\n", self.sh("cat set_ftrace_filter"))
        first, second = self.work(SEEDS[0]), self.work(SEEDS[1])
        self.assertIn("wl_end:snapshot:count=0\n", self.sh("cat set_ftrace_filter"))
        self.assertEqual(self.functions("trace", "snapshot"), first + second)
        # all calls before wl_end, the last one, are in the snapshot
        self.assertEqual(self.functions("snapshot") - Counter(wl_end=1),
                         first - Counter(wl_end=1))
        self.quiet("echo '!wl_end:snapshot:0' >> set_ftrace_filter")

    def test_a_freed_snapshot_is_not_taken(self) -> None:
        self.quiet("echo 'wl_end:snapshot' >> set_ftrace_filter", "echo 0 > snapshot")
        calls = self.work(SEEDS[0])
        self.assertEqual(self.functions("trace"), calls)
        self.assertIn(FREED, self.sh("cat snapshot"))
        self.quiet("echo '!wl_end:snapshot' >> set_ftrace_filter")

    def test_a_trigger(self) -> None:
        trigger = "events/sched/sched_process_exit/trigger"
        self.quiet(f"echo 'snapshot if comm == \"workload\"' > {trigger}")
        self.assertEqual(self.sh(f"cat {trigger}"), 'snapshot:unlimited if comm == "workload"\n')
        calls = self.work(SEEDS[0])
        self.assertEqual(self.functions("trace", "snapshot"), calls)
        self.quiet(f"echo '!snapshot' > {trigger}")

    def test_of_an_instance(self) -> None:
        self.quiet("mkdir instances/s", "echo 'wl_*' > instances/s/set_ftrace_filter",
                   "echo function > instances/s/current_tracer")
        calls = self.work(SEEDS[0])
        self.quiet("echo 1 > instances/s/snapshot")
        self.assertEqual(self.functions("instances/s/snapshot"), calls)
        self.assertEqual(self.functions("trace"), calls)
        self.assertIn(FREED, self.sh("cat snapshot"))
        self.quiet("rmdir instances/s")


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(SnapshotsOnAMachine)

if __name__ == "__main__":
    unittest.main()

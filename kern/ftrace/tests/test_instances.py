"""Instances in a booted kernel, on both architectures, on one CPU and on four.

The expected events of the workload's functions follow from the seed
(grading.stimulus.workload); the files of a new instance are compared with the golden
files of test_tracefs.
"""
import re
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path

from grading.stimulus.workload import expect
from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot
from kern.ftrace.tests.waiting import until
from qemu.machine import Machine

GOLDEN = Path(__file__).resolve().parent / "golden"
SEEDS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
PROSE = "/data/prose.txt"
BLOCKS = (166868 + 9 + 63) // 64  # of sha256, in that file


class OnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "instances"
    fresh: dict[str, str]  # the content of each file of an instance that was made after boot
    options: dict[str, str]  # and of TRACEFS

    @classmethod
    def config(cls) -> Machine:
        return replace(super().config(), memory=64)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.options = {name: cls.sh(f"cat options/{name}") for name in cls.files("options")}
        cls.sh("mkdir instances/new")
        cls.fresh = {
            name: cls.sh(f"cat instances/new/{name}")
            for name in cls.files("instances/new") if "pipe" not in name and name != "trace_marker"
        }
        cls.sh("rmdir instances/new")

    @classmethod
    def files(cls, path: str, below: str = "") -> list[str]:
        found: list[str] = []
        for name in cls.sh(f"ls {path}/{below}").split():
            found += cls.files(path, below + name) if name.endswith("/") else [below + name]
        return found

    def quiet(self, *lines: str) -> None:
        for line in lines:
            self.assertEqual(re.sub(r"(?m)^\[\d+\] done.*\n", "", self.sh(line)), "", line)

    def make(self, *names: str, kib: int = 400) -> None:
        for name in names:
            self.quiet(f"mkdir instances/{name}", f"echo {kib} > instances/{name}/buffer_size_kb")

    def tearDown(self) -> None:
        self.sh("wait")
        for name in self.sh("ls instances").split():
            self.quiet(f"rmdir instances/{name}")
        self.quiet("echo nop > current_tracer", "echo > set_ftrace_filter", "echo > trace",
                   "echo > /tmp/out", "rm /tmp/out")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def trace(self, name: str) -> list[str]:
        return [
            line for line in self.sh(f"cat instances/{name}/trace").splitlines()
            if not line.startswith("#")
        ]

    def traced(self, name: str) -> Counter[str]:
        """How often each function is in the trace of either tracer."""
        return Counter(m[1] or m[2] for line in self.trace(name)
                       if (m := re.search(r": (\w+) <-|\b(wl_\w+)\(\)(?:;| \{)", line)))

    def written(self, name: str) -> int:
        stats = "".join(
            self.sh(f"cat instances/{name}/per_cpu/cpu{cpu}/stats") for cpu in range(self.cpus))
        return sum(map(int, re.findall(r"^(?:entries|overrun|dropped events): (\d+)$", stats,
                                       re.M)))

    def truth(self, prefix: str, *seeds: int) -> Counter[str]:
        return Counter(call.function for seed in seeds
                       for calls in expect(seed, self.cpus).contexts.values() for call in calls
                       if call.function.startswith(prefix))

    def workload(self, seed: int) -> None:
        self.assertEqual(self.sh(f"workload {seed:016x}"), expect(seed, self.cpus).line + "\n")

    def start(self, name: str, words: str, tracer: str = "function") -> None:
        self.quiet(f"echo '{words}' > instances/{name}/set_ftrace_filter",
                   f"echo {tracer} > instances/{name}/current_tracer")

    # ---- the files

    def test_files_are_linux_s(self) -> None:
        """An instance has the files that it has on Linux, as far as they exist here, and no others.
        """
        top = self.files(".")
        own = {name
               for name in top if not name.startswith("instances")} - {
                   "README", "available_filter_functions", "available_filter_functions_addrs",
                   "dyn_ftrace_total_info", "enabled_functions", "dynamic_events",
                   "available_events", "saved_cmdlines", "tracing_thresh", "printk_formats"
               }
        own = {n for n in own if not re.match(r"stack_|function_profile|trace_stat|kprobe|uprobe",
                                              n)}
        self.make("a")
        self.assertEqual(set(self.files("instances/a")), own)

    def test_golden(self) -> None:
        """A file has the content of the same file of the top directory after boot."""
        different = {"buffer_total_size_kb": f"{7 * self.cpus} (expanded: {1408 * self.cpus})\n",
                     "set_event_pid": "", "set_event_notrace_pid": "",
                     "tracing_cpumask": f"{(1 << self.cpus) - 1:x}\n",
                     "set_ftrace_filter": "#### all functions enabled ####\n",
                     "set_ftrace_notrace": "#### no functions disabled ####\n"}
        checked = set(self.fresh)
        for name, text in self.fresh.items():
            golden = GOLDEN / f"{name.replace('/', '__')}.txt"
            if name in different:
                want = different[name]
            elif golden.exists():
                want = golden.read_text()
            elif name.startswith("options/"):
                want = self.options[name.partition("/")[2]]
            elif name.startswith("events/"):
                want = self.sh(f"cat {name}")
            elif name.endswith("/buffer_size_kb"):
                want = "7\n"
            elif name.endswith("/stats"):
                want = (GOLDEN / "per_cpu__cpu1__stats.txt").read_text()
            elif name.endswith("/snapshot"):
                want = (GOLDEN / "per_cpu__cpu0__snapshot.txt").read_text()
            elif name.endswith("/trace"):
                want = (GOLDEN / "trace.txt").read_text()
            else:
                checked.remove(name)
                continue
            want = re.escape(want.replace("#P:2",
                                          f"#P:{self.cpus}")).replace("<time>", r" *\d+\.\d{6}")
            self.assertRegex(text, rf"\A{want}\Z", name)
        self.assertEqual(set(self.fresh) - checked, set(), "files without a golden text")

    def test_each_has_its_own(self) -> None:
        self.make("a", "b")
        self.quiet("echo 4 > instances/a/buffer_size_kb", "echo counter > instances/a/trace_clock",
                   "echo noprint-parent > instances/a/trace_options",
                   "echo 1 > instances/a/options/sym-offset",
                   "echo schedule > instances/a/set_ftrace_notrace",
                   "echo kfree > instances/a/set_ftrace_filter",
                   "echo function > instances/a/current_tracer", "echo 0 > instances/a/tracing_on",
                   "echo to b > instances/b/trace_marker", "echo to the top > trace_marker")
        self.assertNotEqual(self.sh("echo to a > instances/a/trace_marker"), "")
        for there in ("instances/b/", "./"):
            self.assertEqual(self.sh(f"cat {there}current_tracer"), "nop\n")
            self.assertEqual(self.sh(f"cat {there}tracing_on"), "1\n")
            self.assertIn("[local]", self.sh(f"cat {there}trace_clock"))
            self.assertEqual(self.sh(f"cat {there}trace_options"), self.fresh["trace_options"])
            self.assertEqual(self.sh(f"cat {there}set_ftrace_filter"),
                             "#### all functions enabled ####\n")
            self.assertEqual(self.sh(f"cat {there}set_ftrace_notrace"),
                             "#### no functions disabled ####\n")
        self.assertEqual(self.sh("cat instances/b/buffer_size_kb"), "402\n")
        self.assertEqual(self.sh("cat instances/a/buffer_size_kb"), "7\n")
        self.assertRegex("".join(self.trace("b")), r"tracing_mark_write: to b$")
        self.assertRegex(self.sh("cat trace"), r"tracing_mark_write: to the top\n$")
        self.assertEqual(self.sh("cat instances/a/set_ftrace_filter"), "kfree\n")
        self.assertEqual(self.sh("cat instances/a/set_ftrace_notrace"), "schedule\n")

    def test_options_are_inherited(self) -> None:
        self.quiet("echo sym-addr > trace_options")
        self.make("a")
        self.quiet("echo nosym-addr > trace_options")
        self.assertEqual(self.sh("cat instances/a/options/sym-addr"), "1\n")

    # ---- names, and reasons to refuse

    def test_refusals(self) -> None:
        self.make("a")
        for line, errno in (("mkdir instances/a", "EEXIST"), ("mkdir instances/.", "EEXIST"),
                            (f"mkdir instances/{'n' * 256}", "ENAMETOOLONG"),
                            ("mkdir instances/a/x", "EPERM"), ("mkdir instances/none/x", "ENOENT"),
                            ("rmdir instances/none",
                             "ENOENT"), ("rmdir instances/a/per_cpu",
                                         "EPERM"), ("rmdir instances/a/trace", "ENOTDIR"),
                            ("rm instances/a/trace", "EPERM"), ("rmdir instances", "EPERM"),
                            ("echo > instances/x", "EACCES"), ("mkdir x", "EPERM")):
            self.assertIn(f"({errno})", self.sh(line), line)
        longest = "n" * 255
        self.quiet(f"mkdir instances/{longest}", f"rmdir instances/{longest}",
                   "mkdir 'instances/a name'")
        self.assertEqual(self.sh("ls instances"), "a/\na name/\n")
        self.quiet("rmdir 'instances/a name'")

    def test_in_use(self) -> None:
        self.make("a")
        self.sh("cat instances/a/per_cpu/cpu0/trace_pipe > /tmp/out &")
        until(self.machine.console, "ps -s", "pipe_read")  # it has begun
        said = self.sh("rmdir instances/a")
        self.assertIn("instances/a: one of its files is open", said)
        self.assertIn("(EBUSY)", said)
        self.quiet("echo hello > instances/a/trace_marker", "echo 0 > instances/a/tracing_on")
        self.sh("kill 1")
        self.sh("wait")
        self.quiet("cd instances/a/options")
        self.assertIn("(EBUSY)", self.sh("rmdir ../../a"))
        self.quiet("cd /sys/kernel/tracing", "rmdir instances/a", "mkdir instances/a")
        self.assertEqual(self.trace("a"), [])

    # ---- tracing

    def test_two_filters_and_one_removed(self) -> None:
        self.make("a", "b", "both")
        self.start("a", "wl_leaf_*")
        self.start("b", "wl_pick_*")
        self.start("both", "wl_leaf_elm wl_pick_*")
        self.quiet("echo wl_ring_sun > set_ftrace_filter", "echo function > current_tracer")
        self.workload(SEEDS[0])
        self.assertEqual(self.traced("a"), self.truth("wl_leaf_", SEEDS[0]))
        self.assertEqual(self.traced("b"), self.truth("wl_pick_", SEEDS[0]))
        self.assertEqual(self.traced("both"),
                         self.truth("wl_pick_", SEEDS[0]) + self.truth("wl_leaf_elm", SEEDS[0]))
        self.assertEqual(set(re.findall(r": (\w+) <-", self.sh("cat trace"))), {"wl_ring_sun"})
        before = self.trace("b")
        self.quiet("rmdir instances/a")
        self.assertEqual(self.trace("b"), before)
        self.workload(SEEDS[1])
        self.assertEqual(self.traced("b"), self.truth("wl_pick_", *SEEDS))
        self.assertEqual([line for line in self.trace("b") if line in set(before)], before)
        enabled = dict(re.findall(r"^(\w+) \((\d+)\)", self.sh("cat enabled_functions"), re.M))
        self.assertEqual(enabled, {"wl_leaf_elm": "1", "wl_ring_sun": "1"} |
                         {f"wl_pick_{where}": "2" for where in ("north", "south", "east", "west")})

    def test_two_graphs(self) -> None:
        self.make("a", "b")
        self.start("a", "wl_leaf_*", "function_graph")
        self.start("b", "wl_pick_* wl_leaf_elm", "function_graph")
        self.workload(SEEDS[0])
        self.assertEqual(self.traced("a"), self.truth("wl_leaf_", SEEDS[0]))
        self.assertEqual(self.traced("b"),
                         self.truth("wl_pick_", SEEDS[0]) + self.truth("wl_leaf_elm", SEEDS[0]))
        self.quiet("rmdir instances/b", "echo > instances/a/trace")
        self.workload(SEEDS[1])
        self.assertEqual(self.traced("a"), self.truth("wl_leaf_", SEEDS[1]))
        text = "\n".join(self.trace("a"))
        self.assertEqual(text.count("() {"), text.count("}"))

    def test_both_tracers_on_the_same_functions(self) -> None:
        self.make("calls", "graph")
        self.start("calls", "wl_leaf_* wl_pick_*")
        self.start("graph", "wl_leaf_* wl_pick_*", "function_graph")
        self.workload(SEEDS[0])
        truth = self.truth("wl_leaf_", SEEDS[0]) + self.truth("wl_pick_", SEEDS[0])
        self.assertEqual(self.traced("calls"), truth)
        self.assertEqual(self.traced("graph"), truth)
        self.quiet("echo nop > instances/graph/current_tracer")
        self.workload(SEEDS[1])
        self.assertEqual(self.traced("calls"), truth + self.truth("wl_leaf_", SEEDS[1]) +
                         self.truth("wl_pick_", SEEDS[1]))

    def test_seventeen_graphs_are_one_too_many(self) -> None:
        names = [f"g{n}" for n in range(17)]
        self.make(*names, kib=4)
        for name in names[:16]:
            self.start(name, "wl_leaf_elm", "function_graph")
        said = self.sh("echo function_graph > instances/g16/current_tracer")
        self.assertIn("(ENOSPC)", said)
        self.assertEqual(self.sh("cat instances/g16/current_tracer"), "nop\n")
        self.workload(SEEDS[0])
        self.assertEqual({self.written(name) for name in names},
                         {2 * self.truth("wl_leaf_elm", SEEDS[0])["wl_leaf_elm"], 0})

    def test_in_the_background_while_others_come_and_go(self) -> None:
        """If the host gives the guest more time than the test, a job ends before a round does: the
        next round starts another."""
        files = outlasted = 0
        self.make("a")
        self.start("a", "sha256_block")
        for n, tracer in enumerate(("function", "function_graph") * 3):
            if "running" not in self.sh("jobs"):
                self.sh(f"sha256 {' '.join([PROSE] * 40)} >> /tmp/out &")
                files += 40
            self.make(f"x{n}", kib=4)
            self.start(f"x{n}", "sha256_* schedule", tracer)
            self.quiet(f"rmdir instances/x{n}")
            outlasted += "running" in self.sh("jobs")
        self.assertTrue(outlasted, "each ended before anything happened")
        self.sh("wait")
        sums = self.sh("cat /tmp/out").splitlines()
        self.assertEqual((len(sums), len(set(sums))), (files, 1))
        self.assertEqual(self.written("a"), files * BLOCKS)

    # ---- memory

    def free(self) -> int:
        return int(re.search(r"(\d+) used", self.sh("free"))[1])

    def come_and_go(self, times: int) -> None:
        for n in range(times):
            name = f"instances/i{n % 3}"
            self.quiet(f"mkdir {name}")
            self.start(name[10:], "wl_*", ("function", "function_graph", "nop")[n % 3])
            self.quiet(f"echo wl_leaf_elm > {name}/set_ftrace_notrace",
                       f"echo {100 * n + 4} > {name}/buffer_size_kb",
                       f"echo hello > {name}/trace_marker", f"rmdir {name}")

    def test_memory_comes_back(self) -> None:
        self.come_and_go(20)
        before = self.free()
        self.come_and_go(20)
        self.assertEqual(self.free(), before)

    def test_many(self) -> None:
        """An instance takes the memory of its buffers when it is first used."""
        before = self.free()
        for n in range(100):
            self.quiet(f"mkdir instances/i{n}")
        self.assertIn("(expanded: 1408)", self.sh("cat instances/i7/buffer_size_kb"))
        self.quiet("echo hello > instances/i7/trace_marker")
        self.assertEqual(self.sh("cat instances/i7/buffer_size_kb"), "1410\n")
        self.assertIn("mark_write: hello", self.sh("cat instances/i7/trace"))
        for n in range(100):
            self.quiet(f"rmdir instances/i{n}")
        self.assertEqual(self.free(), before)

    def test_no_memory(self) -> None:
        self.make("i2")
        self.start("i2", "wl_leaf_elm")
        # the free memory goes into the buffers of two others, up to 4 KiB
        for name in ("i0", "i1"):
            self.quiet(f"mkdir instances/{name}")
            size = 4
            for step in (4096, 512, 64, 8, 4):
                while not self.sh(f"echo {size + step} > instances/{name}/buffer_size_kb"):
                    size += step
        made = 0
        while not (said := self.sh(f"mkdir instances/more{made}")):
            made += 1
            self.assertLess(made, 64)
        self.assertIn(f"instances/more{made}: no memory", said)
        self.assertIn("(ENOMEM)", said)
        for line in ("echo function_graph > instances/i1/current_tracer",
                     "echo 'wl_*' > instances/i1/set_ftrace_filter",
                     "cat instances/i1/trace > /tmp/out", "echo nop > instances/i1/current_tracer"):
            # the free memory may just be enough
            self.assertRegex(self.sh(line), r"\A\Z|ENOMEM|ENOSPC", line)
        self.quiet("rmdir instances/i0", "mkdir instances/more")
        self.workload(SEEDS[0])
        self.assertEqual(self.traced("i2"), self.truth("wl_leaf_elm", SEEDS[0]))


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(OnAMachine)


if __name__ == "__main__":
    unittest.main()

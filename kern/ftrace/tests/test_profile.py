"""The function profiler in a booted kernel, on both architectures, on one CPU and on four.

The number of calls of each function on each CPU follows from the seed
(grading.stimulus.workload). The times come from the function_graph tracer, which runs at
the same time and gets the same times: from its events each line of trace_stat is
computed and compared, byte for byte. One CPU counts instructions (-icount), so
that no figure contains the host's pauses.
"""
import re
import unittest
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction

from grading.stimulus.workload import expect
from kern.ftrace.tests import on_each_machine
from kern.ftrace.tests.one_boot import OneBoot
from qemu.machine import Machine

SEEDS = (0x0123456789ABCDEF, 0xFEDCBA9876543210)
HEADER = ("  Function                               Hit    Time            Avg             s^2\n"
          "  --------                               ---    ----            ---             ---\n")
US = r"(\d+(?:\.\d+)?) us {1,7}"
ROW = re.compile(rf"  (\S.{{29}})  ([ \d]{{10}})    {US}    {US}    {US}\n")
OF_THE_TRACER = 500  # ns for each call: up to 333 were measured
AN_INTERRUPT = 20_000  # ns: one may come while the tracer has begun a call and the profiler has not
EVENT = re.compile(r"^ (\d)\) (?:. (\S+) us +)? *\|  ( *)(?:(\w+)\(\)(;| \{)|\})$")


def microseconds(ns: int) -> str:
    whole = str(ns // 1000)
    text = whole if len(whole) >= 7 else f"{whole}.{ns % 1000:03}"[:8]
    return f"{text} us " + " " * (8 - len(text))


def row(function: str, times: list[int]) -> str:
    """The line for calls that took these numbers of nanoseconds."""
    n, total = len(times), sum(times)
    spread = Fraction(n * sum(t * t for t in times) - total * total,
                      n * (n - 1) * 1000) if n > 1 else 0
    columns = (total, total // n, int(spread))
    return f"  {function[:30]:30}  {n:10}    " + "    ".join(map(microseconds, columns)) + "\n"


class Profile(dict[str, tuple[int, float]]):
    """A trace_stat file: hits and time, in microseconds, by function."""

    def __init__(self, text: str) -> None:
        assert text.startswith(HEADER), text[:300]
        self.rows = text[len(HEADER):].splitlines(keepends=True)
        matches = [ROW.fullmatch(line) for line in self.rows]
        assert all(matches), self.rows
        found = [m for m in matches if m]
        super().__init__({m[1].rstrip(): (int(m[2]), float(m[3])) for m in found})
        self.times = [float(m[3]) for m in found]


class OnAMachine(OneBoot):
    """The tests that are the same everywhere; one boot."""

    name = "profile"

    @classmethod
    def config(cls) -> Machine:
        return replace(super().config(), memory=64, icount=cls.cpus == 1)

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        assert cls.sh("echo 4000 > buffer_size_kb") == ""

    def tearDown(self) -> None:
        for name in self.sh("ls instances").split():
            self.quiet(f"rmdir instances/{name}")
        self.quiet("echo 0 > function_profile_enabled", "echo nop > current_tracer",
                   "echo > set_ftrace_filter", "echo 1 > tracing_on", "echo > set_ftrace_notrace",
                   "echo 1 > options/graph-time", "echo 1 > options/sleep-time")
        self.assertEqual(self.sh("cat enabled_functions"), "")

    def profile(self, cpu: int) -> Profile:
        profile = Profile(self.sh(f"cat trace_stat/function{cpu}"))
        self.assertEqual(profile.times, sorted(profile.times, reverse=True),
                         "the longest time is first")
        return profile

    def hits(self) -> Counter[str]:
        """The sum of all CPUs."""
        return Counter({name: sum(p[name][0] for p in profiles if name in p)
                        for profiles in [[self.profile(cpu) for cpu in range(self.cpus)]]
                        for name in set().union(*profiles)})

    def truth(self, pattern: str, *seeds: int, cpu: int | None = None) -> Counter[str]:
        return Counter(call.function for seed in seeds
                       for name, calls in expect(seed, self.cpus).contexts.items() for call in calls
                       if re.match(pattern, call.function) and (
                           cpu is None or name in (f"thread {cpu}", f"interrupt {cpu}")))

    def workload(self, seed: int) -> None:
        self.assertEqual(self.sh(f"workload {seed:016x}"), expect(seed, self.cpus).line + "\n")

    def start(self, functions: str) -> None:
        self.quiet(f"echo '{functions}' > set_ftrace_filter", "echo 1 > function_profile_enabled")

    def events(self) -> tuple[dict[int, dict[str, list[int]]], dict[int, list[int]], set[str]]:
        """The tracer's durations for each CPU and function; those of outermost calls for each CPU;
        the functions with a duration that is not printed to the nanosecond."""
        times: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        outermost: dict[int, list[int]] = defaultdict(list)
        rounded: set[str] = set()
        stack: dict[int, list[str]] = defaultdict(list)
        for line in self.sh("cat trace").splitlines():
            match = EVENT.match(line)
            if not match:
                continue
            cpu, name = int(match[1]), match[4]
            if match[5] == " {":
                stack[cpu].append(name)
                continue
            name = name or stack[cpu].pop()
            times[cpu][name].append(int(Fraction(match[2]) * 1000))
            if not match[3]:
                outermost[cpu].append(times[cpu][name][-1])
            if not re.search(r"\.\d{3}$", match[2]):
                rounded.add(name)
        return times, outermost, rounded

    # ---- counts

    def test_hits_are_the_seed_s(self) -> None:
        """Each CPU's file has the calls that its thread and its interrupts made there."""
        self.start("wl_*")
        self.workload(SEEDS[0])
        for cpu in range(self.cpus):
            found = {
                name: hits
                for name, (hits, _) in self.profile(cpu).items()
                if name not in ("wl_begin", "wl_end")
            }
            self.assertEqual(found, dict(self.truth("wl_", SEEDS[0], cpu=cpu)))
        self.assertEqual(self.hits(), self.truth("wl_", SEEDS[0]))

    def test_lines_are_worked_out_from_the_tracer_s_events(self) -> None:
        """Hits, time, average and variance, byte for byte; no event of the tracer is lost."""
        self.start("wl_*")
        self.quiet("echo function_graph > current_tracer")
        self.workload(SEEDS[1])
        self.quiet("echo 0 > function_profile_enabled", "echo 0 > tracing_on")
        times, _, rounded = self.events()
        checked = 0
        for cpu in range(self.cpus):
            rows = {line[2:32].rstrip(): line for line in self.profile(cpu).rows}
            self.assertEqual({n: len(t)
                              for n, t in times[cpu].items()},
                             {n: p[0]
                              for n, p in self.profile(cpu).items()})
            for name in set(rows) - rounded:
                self.assertEqual(rows[name], row(name, times[cpu][name]))
                checked += 1
        self.assertGreater(checked, 20)
        self.quiet("echo 1 > tracing_on")
        self.assertEqual(
            sum((Counter({n: len(t)
                          for n, t in by_name.items()}) for by_name in times.values()), Counter()),
            self.truth("wl_", SEEDS[1]))

    def test_a_caller_s_time_has_its_callees(self) -> None:
        self.start("app_main_sha256 sha256_file sha256_rounds")
        self.quiet("sha256 /data/prose.txt > /tmp/out", "rm /tmp/out")
        time = Counter[str]()
        for cpu in range(self.cpus):
            time.update({name: round(us) for name, (_, us) in self.profile(cpu).items()})
        self.assertGreater(time["app_main_sha256"] + 2, time["sha256_file"])
        self.assertGreater(time["sha256_file"], time["sha256_rounds"])

    def test_no_graph_time(self) -> None:
        """Without graph-time the sum of all functions' times is the time of the outermost calls,
        except for the time of the tracer, whose handlers run first."""
        self.quiet("echo 'wl_*' > set_ftrace_filter", "echo function_graph > current_tracer",
                   "echo 0 > options/graph-time")
        self.start("wl_*")
        self.workload(SEEDS[0])
        self.quiet("echo 0 > function_profile_enabled", "echo 0 > tracing_on")
        times, outermost, _ = self.events()
        self.quiet("echo 1 > tracing_on")
        for cpu in range(self.cpus):
            profile, with_callees = self.profile(cpu), sum(map(sum, times[cpu].values())) / 1000
            own = sum(profile.times)
            self.assertLess(own, with_callees)
            if self.cpus > 1:
                continue  # the host may stop a CPU for long anywhere
            missing = sum(outermost[cpu]) - 1000 * own
            self.assertGreaterEqual(missing, 0)
            self.assertLess(missing, OF_THE_TRACER * len(outermost[cpu]) + AN_INTERRUPT)
            for name, (_, us) in profile.items():
                self.assertLess(us, 1.01 * sum(times[cpu][name]) / 1000, name)
        self.assertEqual(self.hits(), self.truth("wl_", SEEDS[0]))

    def test_no_sleep_time(self) -> None:
        for sleeps in (1, 0):
            self.quiet(f"echo {sleeps} > options/sleep-time")
            self.start("app_main_sleep")
            self.quiet("sleep 1", "echo 0 > function_profile_enabled")
            time = sum(
                self.profile(cpu).get("app_main_sleep", (0, 0))[1] for cpu in range(self.cpus))
            self.assertTrue(1000000 <= time if sleeps else 0 < time < 500000, f"{time} us")

    def test_a_call_counts_where_it_began(self) -> None:
        """A call is counted on one CPU, wherever it ends: no CPU has times without hits."""
        if self.cpus == 1:
            return
        # the first call begins on any CPU and ends on CPU 0, the second begins on CPU 0 and ends on
        # this one
        for last in (1, 2):
            self.start("set_cpu_affinity")
            self.quiet(f"taskset -c 0 taskset -c {last} echo -n",
                       "echo 0 > function_profile_enabled")
            rows = [
                profile["set_cpu_affinity"] for cpu in range(self.cpus)
                if (profile := self.profile(cpu))
            ]
            self.assertEqual(sum(hits for hits, _ in rows), 2)
            self.assertTrue(all(hits and time for hits, time in rows), rows)

    def test_long_calls(self) -> None:
        """The sum of the squares of seven seconds and of almost none has more than 64 bits."""
        self.start("app_main_sleep")
        self.sh("taskset -c 0 sleep 0 & ; taskset -c 0 sleep 7 & ; wait")
        rows = [ROW.fullmatch(line) for cpu in range(self.cpus) for line in self.profile(cpu).rows]
        self.assertEqual(len(rows), 1)
        assert rows[0]
        self.assertEqual((rows[0][1].rstrip(), int(rows[0][2])), ("app_main_sleep", 2))
        total, spread = float(rows[0][3]), float(rows[0][5])
        self.assertTrue(7e6 <= total < 14e6, total)
        # one call is so much longer than the other: by all of the time, less twice what is over
        # seven seconds
        apart = (2 * spread) ** 0.5
        self.assertTrue(0.999 * (14e6 - total) <= apart <= 1.001 * total, (total, apart))

    # ---- on and off, and its filter

    def test_on_resets_and_off_keeps(self) -> None:
        self.start("wl_leaf_*")
        self.workload(SEEDS[0])
        self.quiet("echo 1 > function_profile_enabled")
        self.assertEqual(self.hits(), self.truth("wl_leaf_", SEEDS[0]), "1 when it is 1: as it was")
        self.quiet("echo 0 > function_profile_enabled")
        self.assertEqual(self.sh("cat enabled_functions"), "")
        self.workload(SEEDS[1])
        self.assertEqual(self.hits(), self.truth("wl_leaf_", SEEDS[0]))
        self.quiet("echo 1 > function_profile_enabled")
        self.assertEqual(self.sh(f"cat trace_stat/function{self.cpus - 1}"), HEADER)
        self.workload(SEEDS[1])
        self.assertEqual(self.hits(), self.truth("wl_leaf_", SEEDS[1]))

    def test_follows_set_ftrace_filter_beside_the_tracer_that_comes_and_goes(self) -> None:
        self.start("wl_leaf_*")
        self.quiet("echo function_graph > current_tracer")
        self.workload(SEEDS[0])
        want = self.truth("wl_leaf_", SEEDS[0])
        self.quiet("echo nop > current_tracer", "echo 'wl_pick_*' > set_ftrace_filter")
        self.workload(SEEDS[1])
        want += self.truth("wl_pick_", SEEDS[1])
        self.assertEqual(self.hits(), want)
        self.quiet("echo function > current_tracer", "echo 'wl_pick_south' > set_ftrace_notrace")
        self.workload(SEEDS[0])
        want += self.truth("wl_pick_(?!south)", SEEDS[0])
        self.assertEqual(self.hits(), want)
        self.quiet("echo 0 > function_profile_enabled", "echo 'wl_fan_*' > set_ftrace_filter")
        self.workload(SEEDS[1])
        self.assertEqual(self.hits(), want)

    # ---- refusals

    def test_refusals(self) -> None:
        for text, error in (("x", "EINVAL"), ("-1", "EINVAL"), ("99999999999999999999", "ERANGE")):
            self.assertIn(f"({error})", self.sh(f"echo {text} > function_profile_enabled"))
            self.assertEqual(self.sh("cat function_profile_enabled"), "0\n")
        self.quiet("echo wl_leaf_elm > set_ftrace_filter", "echo 2 > function_profile_enabled")
        self.assertEqual(self.sh("cat function_profile_enabled"), "1\n",
                         "as Linux: any number but 0")

    def test_no_room_for_one_user_more(self) -> None:
        self.quiet("echo wl_leaf_elm > set_ftrace_filter")
        self.quiet(*(f"fgraph_op {n} see wl_leaf_elm" for n in range(16)))
        said = self.sh("echo 1 > function_profile_enabled")
        self.assertIn("(ENOSPC)", said)
        self.assertIn("function_profile_enabled: ", said)
        self.quiet(*(f"fgraph_op {n} off" for n in range(16)))
        self.assertEqual(self.sh("cat function_profile_enabled"), "0\n")

    def test_no_memory(self) -> None:
        """Without memory it prints the reason and counts nothing; with enough memory it works the
        next time."""
        # a fresh machine: the tables are kept once they are made
        self.machine.__exit__(None, None, None)
        type(self).setUpClass()
        self.quiet("echo 'wl_leaf_*' > set_ftrace_filter", "echo 4 > buffer_size_kb")
        for n in range(3):
            self.quiet(f"mkdir instances/i{n}")
        for n in range(3):
            size = 4
            for step in (16384, 2048, 256, 32, 4):
                while not self.sh(f"echo {size + step} > instances/i{n}/buffer_size_kb"):
                    size += step
        said = self.sh("echo 1 > function_profile_enabled")
        self.assertRegex(
            said, r"function_profile_enabled: (no memory for \d+ bytes for each CPU|"
            r"function_graph cannot take another user: Cannot allocate memory)\n.*\(ENOMEM\)")
        self.quiet(*(f"rmdir instances/i{n}" for n in range(3)))
        self.assertEqual(self.sh("cat function_profile_enabled"), "0\n")
        self.assertEqual(self.sh("cat trace_stat/function0"), HEADER)
        self.quiet("echo 1 > function_profile_enabled")
        self.workload(SEEDS[0])
        self.assertEqual(self.hits(), self.truth("wl_leaf_", SEEDS[0]))
        self.quiet("echo 4000 > buffer_size_kb")


On1Riscv64, On4Riscv64, On1Arm64, On4Arm64 = on_each_machine(OnAMachine)


if __name__ == "__main__":
    unittest.main()

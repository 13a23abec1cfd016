"""The output of function_graph on a booted kernel: its text, its options and its files.

On both architectures, with one CPU and with four. The text is read back line
by line: every event must be in it once, every call must close where it opened.
"""
import re
import subprocess
import unittest
from collections import Counter
from dataclasses import dataclass

from grading.machine.machine import Run
from kern.ftrace.tests.waiting import until
from qemu.machine import ROOT, Machine

from .test_tracefs import FINISHED

HEADER = ("# tracer: function_graph\n#\n"
          "# CPU  DURATION                  FUNCTION CALLS\n"
          "# |     |   |                     |   |   |   |\n")
RULE = " ------------------------------------------"
MARKS = ((1e6, "$"), (1e5, "@"), (1e4, "*"), (1e3, "#"), (1e2, "!"), (1e1, "+"))
LINE = re.compile(
    r" (?P<cpu>\d)\) (?:(?P<mark>[ +!#*@$]) (?P<us>\d+(?:\.\d{1,3})?) us {1,5}| {14})\|  "
    r"(?P<indent>(?:  )*)(?P<what>\S.*)")
ARROW = re.compile(r" (?P<cpu>\d)\)   (?P<arrow>={10}>|<={10}) \|")
SWITCH = re.compile(r" (?P<cpu>\d)\) (?P<last> *\S+-\d+ *) => (?P<next> *\S+-\d+ *)")


@dataclass
class Line:
    """A call, a return, both, or a comment."""
    cpu: int
    us: float | None
    depth: int
    kind: str  # ( leaf, { open, } close, / comment
    function: str
    thread: int  # which thread of this CPU: counts the switches


def parse(test: unittest.TestCase, text: str) -> list[Line]:
    lines, threads = [], Counter()
    rows = iter(text.splitlines())
    for row in rows:
        if row == RULE:
            match = SWITCH.fullmatch(next(rows))
            test.assertIsNotNone(match, row)
            test.assertEqual((len(match["last"]), len(match["next"])), (14, 14))
            test.assertNotEqual(match["last"], match["next"])
            test.assertEqual((next(rows), next(rows)), (RULE, ""))
            threads[int(match["cpu"])] += 1
        elif row.startswith("CPU:") or ARROW.fullmatch(row):
            continue
        else:
            lines.append(parse_line(test, row, threads))
    return lines


def parse_line(test: unittest.TestCase, row: str, threads: Counter[int]) -> Line:
    match = LINE.fullmatch(row)
    test.assertIsNotNone(match, f"not a line of function_graph: {row!r}")
    what, us, cpu = match["what"], match["us"], int(match["cpu"])
    for kind, shape in (("(", r"([\w.]+)\(\);.*"), ("{", r"([\w.]+)\(\) \{.*"),
                        ("}", r"\}(?: /\* ([\w.]+).*)?"), ("/", r"/\*() .*\*/")):
        name = re.fullmatch(shape, what)
        if name:
            break
    test.assertIsNotNone(name, row)
    test.assertEqual(us is not None, kind in "()}", row)
    if us:
        mark = next((m for border, m in MARKS if float(us) > border), " ")
        # the last mark is for all longer times, too
        if float(us) not in (border for border, _ in MARKS):
            test.assertEqual(match["mark"], mark, row)
        test.assertRegex(row, r"\d us  *\|  ")
    return Line(cpu,
                float(us) if us else None,
                len(match["indent"]) // 2, kind, name[1] or "", threads[cpu])


def events_of(lines: list[Line]) -> int:
    return sum(2 if line.kind == "(" else 1 for line in lines)


class GraphText:
    """One boot; the subclasses name the machine."""

    arch: str
    smp: int
    machine: Run

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / FINISHED / "Image"
        subprocess.run(["make", "--no-print-directory", "-s", "-C", str(ROOT), f"ARCH={cls.arch}",
                        str(image.relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"], check=True)
        config = Machine(cls.arch, smp=cls.smp, image=image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio")
        cls.machine = Run(config, ROOT / f"build/tests/graph-text-{cls.arch}-{cls.smp}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)
        cls.defaults = cls.options()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    @classmethod
    def sh(cls, line: str) -> str:
        return cls.machine.console.command(line)

    @classmethod
    def options(cls) -> list[str]:
        cls.sh("echo function_graph > current_tracer")
        return cls.sh("cat trace_options").split()

    def quiet(self, *lines: str) -> None:
        for line in lines:
            self.assertEqual(self.sh(line), "", line)

    def setUp(self) -> None:
        self.quiet("echo function_graph > current_tracer")
        now = self.sh("cat trace_options").split()
        self.quiet(*(f"echo {option} > trace_options" for option in self.defaults
                     if option not in now))
        self.quiet("echo nop > current_tracer", "echo > set_ftrace_filter",
                   "echo > set_graph_function", "echo > set_graph_notrace",
                   "echo 0 > max_graph_depth", "echo 1 > tracing_on", "echo > trace")

    def record(self, *before: str, work: str = "cksum README", filter: str = "") -> None:
        """Trace @work with the settings of @before."""
        self.quiet(*([f"echo '{filter}' > set_ftrace_filter"] if filter else []),
                   "echo 0 > tracing_on", "echo function_graph > current_tracer", *before,
                   "echo > trace", "echo 1 > tracing_on")
        self.sh(work)
        self.quiet("echo 0 > tracing_on")

    def trace(self, *before: str, **how: str) -> str:
        self.record(*before, **how)
        return self.sh("cat trace")

    def lines(self, *before: str, **how: str) -> list[Line]:
        text = self.trace(*before, **how)
        self.assertTrue(text.startswith(HEADER), text[:300])
        return parse(self, text[len(HEADER):])

    def stats(self, what: str) -> list[int]:
        return [int(re.search(rf"^{what}: (\d+)$", self.sh(f"cat per_cpu/cpu{cpu}/stats"), re.M)[1])
                for cpu in range(self.smp)]

    def test_every_event_is_shown_once(self) -> None:
        lines = self.lines()
        shown = Counter()
        for line in lines:
            shown[line.cpu] += 2 if line.kind == "(" else 1
        self.assertEqual([shown[cpu] for cpu in range(self.smp)], self.stats("entries"))
        self.assertGreater(len(lines), 100)
        self.assertTrue({"(", "{", "}"} <= {line.kind for line in lines})

    def test_calls_close_where_they_opened(self) -> None:
        """A call takes at least as long as the calls that it makes."""
        stacks: dict[tuple[int, int], list[tuple[Line, float]]] = {}
        checked = 0
        for line in self.lines(work="cat README > /tmp/x", filter="file_* mutex_* k*alloc kfree"):
            stack = stacks.setdefault((line.cpu, line.thread), [])
            if line.kind == "{":
                if stack:
                    self.assertEqual(line.depth, stack[-1][0].depth + 1)
                stack.append((line, 0.0))
                continue
            inside = 0.0
            if line.kind == "}":
                if not stack:
                    continue  # entered before a switch
                opened, inside = stack.pop()
                self.assertEqual(line.depth, opened.depth)
                self.assertGreaterEqual(line.us + 0.11, inside, line)
                checked += 1
            if stack:
                outer, sum_inside = stack[-1]
                self.assertEqual(line.depth, outer.depth + 1)
                stack[-1] = (outer, sum_inside + line.us)
        self.assertGreater(checked, 3)

    def test_a_pipe_prints_the_same_lines(self) -> None:
        looked = self.trace()[len(HEADER):]
        self.assertEqual(self.sh("cat trace_pipe"), looked)
        self.assertEqual(self.sh("cat trace"), HEADER)
        self.assertEqual(sum(self.stats("read events")), events_of(parse(self, looked)))

    def test_one_cpus_file(self) -> None:
        self.record()
        for cpu in range(self.smp):
            lines = parse(self, self.sh(f"cat per_cpu/cpu{cpu}/trace")[len(HEADER):])
            self.assertLessEqual({line.cpu for line in lines}, {cpu})
            self.assertEqual(events_of(lines), self.stats("entries")[cpu])

    def test_a_full_buffer_loses_whole_events_only(self) -> None:
        self.quiet("echo 16 > buffer_size_kb")
        try:
            # The events that follow sort's return, about 7 KiB, do not overwrite it.
            text = self.trace(work="sort /README.md > /tmp/x; echo 0 > tracing_on")
            lines = parse(self, text[len(HEADER):])
            self.assertEqual(events_of(lines), sum(self.stats("entries")))
            lost = sum(self.stats("overrun"))
            self.assertGreater(lost, 0)
            pipe = self.sh("cat trace_pipe")
            self.assertEqual(
                sum(map(int, re.findall(r"^CPU:\d \[LOST (\d+) EVENTS\]$", pipe, re.M))), lost)
            self.assertRegex(text, r"\} /\* \w+ \*/\n")  # of a call whose entry is lost
        finally:
            self.quiet("echo 1408 > buffer_size_kb")

    def test_comments_stand_in_the_call_around_them(self) -> None:
        lines = self.trace(work="echo hello > trace_marker", filter="file_write").splitlines()
        at = next(i for i, line in enumerate(lines) if "/* hello */" in line)
        self.assertRegex(lines[at], r"^ \d\)               \|  /\* hello \*/$")
        self.assertRegex(lines[at - 1], r"\|  file_write\(\) \{$")
        self.assertRegex(lines[at + 1], r"\|  \}$")

    def test_interrupts_stand_between_arrows(self) -> None:
        text = self.trace()
        entries = re.findall(r"={10}> \|\n \d\) .*\| +dispatch_interrupt\(\)", text)
        self.assertGreater(len(entries), 0)
        self.assertEqual(text.count("==========> |"), len(entries))
        self.assertEqual(len(re.findall(r"dispatch_interrupt\(\)", text)), len(entries))
        self.assertLessEqual(abs(text.count("<========== |") - len(entries)), self.smp)

    def test_without_funcgraph_irqs_they_are_not_recorded(self) -> None:
        text = self.trace("echo 0 > options/funcgraph-irqs")
        self.assertNotIn("dispatch_interrupt", text)
        self.assertNotIn("=====", text)
        self.quiet("echo 1 > options/funcgraph-irqs")
        self.assertEqual(self.sh("cat trace"), text, "they were recorded, only not shown")

    def test_a_function_in_interrupts_that_was_asked_for(self) -> None:
        text = self.trace("echo 0 > options/funcgraph-irqs", "echo sched_tick > set_graph_function",
                          work="sleep 0.2")
        lines = parse(self, text[len(HEADER):])
        self.assertEqual({line.function
                          for line in lines if line.depth == 0 and line.function}, {"sched_tick"})

    def test_set_graph_function(self) -> None:
        self.quiet("echo file_open > set_graph_function", "echo file_close >> set_graph_function")
        self.assertEqual(self.sh("cat set_graph_function"), "file_open\nfile_close\n")
        lines = self.lines("echo 0 > options/funcgraph-irqs")
        roots = [line for line in lines if line.depth == 0 and line.kind != "}"]
        self.assertEqual({line.function for line in roots}, {"file_open", "file_close"})
        self.assertGreater(len(lines), 4 * len(roots))

    def test_set_graph_notrace(self) -> None:
        self.quiet("echo 'mutex_*' > set_graph_notrace", "echo kzalloc >> set_graph_notrace")
        functions = {line.function for line in self.lines("echo file_open > set_graph_function")}
        self.assertIn("file_open", functions)
        self.assertFalse({f
                          for f in functions if f.startswith("mutex_")}
                         | functions & {"kzalloc", "kmalloc"})

    def test_what_a_list_hid_stays_hidden_when_the_list_goes(self) -> None:
        """A thread is still inside a call that was named: its return has no event either. Its next
        call has both."""
        self.quiet("mkdir instances/other", "echo file_read > set_ftrace_filter",
                   "echo file_read > set_graph_notrace", "echo function_graph > current_tracer")
        self.sh("cat instances/other/trace_pipe > /tmp/out &")
        until(self.machine.console, "ps -s", "pipe_read")  # it has begun
        self.quiet("echo > set_graph_notrace", "echo read this > instances/other/trace_marker")
        # any of them may print that cat is done
        self.sh("echo 0 > instances/other/tracing_on; wait; rmdir instances/other")
        self.quiet("echo 0 > tracing_on")
        lines = parse(self, self.sh("cat trace")[len(HEADER):])
        self.assertIn([line.kind for line in lines], (["("], ["{", "}"]), lines)

    def test_max_graph_depth(self) -> None:
        for depth in (1, 2):
            self.assertEqual({line.depth
                              for line in self.lines(f"echo {depth} > max_graph_depth")},
                             set(range(depth)))
        self.assertEqual(self.sh("cat max_graph_depth"), "2\n")
        self.assertGreater(max(line.depth for line in self.lines("echo 0 > max_graph_depth")), 3)

    def test_sleep_time(self) -> None:
        """The host may stop a CPU at a place where the guest does not sleep, but hardly three
        times."""
        for on, low, high in ((1, 100000, 10000000), (0, 0, 50000)):
            lines = self.lines(f"echo {on} > options/sleep-time", work="; ".join(["sleep 0.1"] * 3),
                               filter="sleep_ns")
            slept = [line.us for line in lines if line.us is not None]
            self.assertEqual(len(slept), 3)
            self.assertTrue(low <= min(slept) < high, (on, slept))

    def test_columns(self) -> None:
        self.record(work="sleep 0.01", filter="sleep_ns")
        # a sleep of more than a second has no decimals
        line = r"[ +!#*@$] \d+(?:\.\d{1,3})? us +\|  "
        proc = r"   sleep-\d+    | +sleep-\d+ *"
        for option, shape in (("funcgraph-abstime", rf" +\d+\.\d{{6}} \|   \d\) {line}"),
                              ("funcgraph-proc", rf" \d\) (?:{proc}) \| {line}"),
                              ("latency-format", rf" \d\)  [.dDbNnpHhsZz0-9a-f]{{5}} \| {line}"),
                              ("nofuncgraph-cpu", line), ("nofuncgraph-duration", r" \d\) "),
                              ("nofuncgraph-overhead", rf" \d\)   {line[len('[ +!#*@$] '):]}"),
                              ("nocontext-info", "")):
            self.quiet(f"echo {option} > trace_options")
            self.assertRegex(
                self.sh("cat trace").splitlines()[-1], rf"^{shape}sleep_ns\(\);$", option)
            self.quiet(
                f"echo {option[2:] if option.startswith('no') else 'no' + option} > trace_options")

    def test_tail_overrun_and_values(self) -> None:
        self.record("echo funcgraph-tail > trace_options", work="ls /", filter="file_open kzalloc")
        text = self.sh("cat trace")
        self.assertRegex(text, r"\|  \} /\* file_open \*/\n")
        self.quiet("echo funcgraph-overrun > trace_options")
        self.assertRegex(self.sh("cat trace"), r"\} /\* file_open \*/\n \(Overruns: 0\)\n")
        self.quiet("echo nofuncgraph-overrun > trace_options",
                   "echo funcgraph-retval > trace_options")
        text = self.sh("cat trace")
        self.assertRegex(text, r"kzalloc\(\); /\* = 0xf{6,}[0-9a-f]{6,10} \*/\n")
        self.assertRegex(text, r"\} /\* file_open = 0x0 \*/\n")

    def test_an_error_that_is_returned(self) -> None:
        lines = self.trace("echo funcgraph-retval > trace_options", work="cat /nosuchfile",
                           filter="file_open")
        self.assertRegex(lines, r"file_open\(\); /\* = -2 \*/\n")
        self.quiet("echo funcgraph-retval-hex > trace_options")
        self.assertRegex(self.sh("cat trace"), r"file_open\(\); /\* = 0xf+e \*/\n")

    def test_return_addresses_are_the_callers(self) -> None:
        text = self.trace("echo funcgraph-retaddr > trace_options")
        self.assertNotIn("return_to_handler", text)
        callers = re.findall(r"([\w.]+)\(\)(?:;| \{) /\* <-([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+ \*/",
                             text)
        self.assertEqual(len(callers), len(re.findall(r"\(\)(?:;| \{)", text)))
        self.assertIn("kzalloc", {caller for function, caller in callers if function == "kmalloc"})

    def test_options_exist_with_their_tracer(self) -> None:
        self.quiet("echo nop > current_tracer")
        self.assertNotIn("funcgraph-tail", self.sh("cat trace_options"))
        refusal = self.sh("echo funcgraph-tail > trace_options")
        self.assertIn("'funcgraph-tail' is no option while nop is the tracer", refusal)
        self.assertIn("EINVAL", refusal)
        self.quiet("echo 1 > options/funcgraph-tail", "echo function_graph > current_tracer")
        self.assertIn("\nfuncgraph-tail\n", self.sh("cat trace_options"))

    def test_each_instance_has_options_of_its_own(self) -> None:
        self.quiet("mkdir instances/other")
        try:
            self.quiet("echo sleep_ns > instances/other/set_ftrace_filter",
                       "echo 0 > instances/other/options/funcgraph-cpu",
                       "echo function_graph > instances/other/current_tracer")
            self.record(work="sleep 0.01", filter="sleep_ns")
            self.quiet("echo nop > current_tracer")
            self.assertRegex(self.sh("cat instances/other/trace"),
                             r"\n[*#@!+ $] \d+(?:\.\d+)? us +\|  sleep_ns\(\);\n$")
        finally:
            self.sh("rmdir instances/other")

    def test_nothing_marks_where_a_full_buffer_begins(self) -> None:
        size = self.sh("cat buffer_size_kb").split()[0]
        self.quiet("echo 1 > buffer_size_kb", "echo function_graph > current_tracer",
                   "sha256 /LICENSE > /tmp/sum")
        text = self.sh("cat trace")
        self.quiet("echo nop > current_tracer", f"echo {size} > buffer_size_kb")
        self.assertNotIn("####", text)

    def test_refusals(self) -> None:
        for line, why in (("echo nosuch > set_graph_function", "no function matches 'nosuch'"),
                          ("echo '!kfree' > set_graph_function", "no function matches '!kfree'"),
                          ("echo 12 > set_graph_notrace", "no function matches '12'"),
                          ("echo x > max_graph_depth", "not a number"),
                          ("echo 99999999999 > max_graph_depth", "too large a number")):
            self.assertIn(why, self.sh(line))
        self.assertEqual(self.sh("cat set_graph_function"), "#### all functions enabled ####\n")
        self.assertEqual(self.sh("cat set_graph_notrace"), "#### no functions disabled ####\n")


class TestGraphTextRiscv64(GraphText, unittest.TestCase):
    arch, smp = "riscv64", 1


class TestGraphTextRiscv64On4(GraphText, unittest.TestCase):
    arch, smp = "riscv64", 4


class TestGraphTextArm64(GraphText, unittest.TestCase):
    arch, smp = "arm64", 1


class TestGraphTextArm64On4(GraphText, unittest.TestCase):
    arch, smp = "arm64", 4


if __name__ == "__main__":
    unittest.main()

"""The tracefs files of a booted kernel against golden text, on both architectures.

golden/<file>.txt (`__` for `/`) is the file's content after boot on two
CPUs; `<time>` stands for seconds with six decimals.
"""
import re
import subprocess
import unittest
from pathlib import Path

from grading.machine.machine import Run
from kern.ftrace.tests.waiting import until
from qemu.machine import FINISHED, ROOT, Machine

GOLDEN = Path(__file__).resolve().parent / "golden"
MAKE = ["make", "--no-print-directory", "-s", "-C", str(ROOT)]
HEADER_LINES = 12
EVENT = re.compile(
    r"^ *(?P<comm>\S+)-(?P<pid>\d+) +\[(?P<cpu>\d{3})\] (?P<flags>[.dDbNnpHhsZz0-9a-f]{5}) +"
    r"(?P<time>\d+\.\d{6}): (?P<text>.*)$")
# flags; N: an interrupt came inside the tracer, and asked for a switch, which is put off until the
# tracer's end
IN_A_THREAD = r"\.[.N]\.\.\."


def pattern(golden: str) -> re.Pattern[str]:
    return re.compile(re.escape(golden).replace("<time>", r" *\d+\.\d{6}"))


class OnAMachine:
    """The tests that are the same on both architectures; one boot."""

    arch: str
    machine: Run
    booted: dict[str, str]  # the content of each golden file after boot

    @classmethod
    def setUpClass(cls) -> None:
        image = ROOT / "build" / cls.arch / FINISHED / "Image"
        subprocess.run([
            *MAKE, f"ARCH={cls.arch}",
            str(image.relative_to(ROOT)), f"build/{cls.arch}/initrd.cpio"
        ], check=True)
        config = Machine(cls.arch, smp=2, image=image,
                         initrd=ROOT / f"build/{cls.arch}/initrd.cpio")
        cls.machine = Run(config, ROOT / f"build/tests/tracefs-{cls.arch}.log")
        cls.machine.__enter__()
        cls.machine.console.wait_ready(60)
        names = [golden.stem.replace("__", "/") for golden in sorted(GOLDEN.glob("*.txt"))]
        cls.booted = {name: cls.machine.console.command(f"cat {name}") for name in names}

    @classmethod
    def tearDownClass(cls) -> None:
        cls.machine.__exit__(None, None, None)

    def sh(self, line: str) -> str:
        return self.machine.console.command(line)

    def setUp(self) -> None:
        for line in ("echo nop > current_tracer", "echo > set_ftrace_filter", "echo 1 > tracing_on",
                     "echo 1 > options/overwrite", "echo local > trace_clock", "echo > trace"):
            self.assertEqual(self.sh(line), "")

    def events(self, text: str) -> list[re.Match[str]]:
        found = []
        for line in text.splitlines():
            if line.startswith("#"):
                continue
            match = EVENT.match(line)
            self.assertIsNotNone(match, f"not an event line: {line!r}")
            found.append(match)
        return found

    def counts(self, text: str) -> tuple[int, int]:
        match = re.search(r"^# entries-in-buffer/entries-written: (\d+)/(\d+)   #P:2$", text, re.M)
        self.assertIsNotNone(match, text[:300])
        return int(match[1]), int(match[2])

    def test_golden(self) -> None:
        for name, text in self.booted.items():
            golden = (GOLDEN / f"{name.replace('/', '__')}.txt").read_text()
            with self.subTest(file=name):
                if not pattern(golden).fullmatch(text):
                    self.assertEqual(text, golden)

    def test_readme_names_files_that_exist(self) -> None:
        listed = set(self.sh("ls").split())
        for name in re.findall(r"^  ([a-z_]+) {2,}", self.sh("cat README"), re.M):
            self.assertIn(name, listed | {"cat", "echo"})

    def trace_one(self) -> None:
        """One call of sleep_ns(), traced; recording is off afterwards."""
        self.sh("echo sleep_ns > set_ftrace_filter")
        self.sh("echo function > current_tracer")
        self.sh("sleep 0.1")
        self.sh("echo 0 > tracing_on")

    def test_function_trace(self) -> None:
        self.trace_one()
        self.assertEqual(self.sh("cat current_tracer"), "function\n")
        text = self.sh("cat trace")
        events = self.events(text)
        self.assertEqual(text.splitlines()[0], "# tracer: function")
        self.assertEqual(len(events), 1)
        self.assertRegex(events[0]["text"], r"^sleep_ns <-\w+$")
        self.assertEqual(events[0]["comm"], "sleep")
        self.assertRegex(events[0]["flags"], f"^{IN_A_THREAD}$")
        self.assertEqual(self.counts(text), (1, 1))
        self.assertEqual(self.sh("cat trace"), text, "reading consumed")
        self.sh("echo > trace")
        self.assertEqual(self.counts(self.sh("cat trace")), (0, 0))

    def test_all_that_the_header_counts_is_shown(self) -> None:
        """The thread that opens trace and begins to read is traced itself meanwhile."""
        self.sh("echo function > current_tracer")
        for _ in range(5):
            text = self.sh("cat trace > /tmp/t; cat /tmp/t")
            self.assertGreaterEqual(len(self.events(text)), self.counts(text)[0])
            self.sh("echo > trace")

    def test_all_functions_and_loss(self) -> None:
        self.sh("echo 4 > buffer_size_kb")
        self.sh("echo function > current_tracer")
        self.sh("cksum README")
        self.sh("echo 0 > tracing_on")
        text = self.sh("cat trace")
        entries, written = self.counts(text)
        self.assertGreater(written, entries)
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(lines), entries)
        times = [float(e["time"]) for e in self.events("\n".join(lines))]
        self.assertEqual(times, sorted(times))
        stats = [self.stats(cpu) for cpu in (0, 1)]
        self.assertEqual(sum(s["entries"] for s in stats), entries)
        self.assertEqual(sum(s["entries"] + s["overrun"] for s in stats), written)
        pipe = self.sh("cat trace_pipe")
        lost = sum(int(n) for n in re.findall(r"^CPU:\d+ \[LOST (\d+) EVENTS\]$", pipe, re.M))
        self.assertEqual(lost, written - entries)
        self.assertEqual(len(self.events(re.sub(r"(?m)^CPU:.*\n", "", pipe))), entries)
        self.assertEqual(self.counts(self.sh("cat trace")), (0, lost))
        self.assertEqual(sum(self.stats(cpu)["read events"] for cpu in (0, 1)), entries)
        self.sh("echo 1408 > buffer_size_kb")

    def stats(self, cpu: int) -> dict[str, int]:
        text = self.sh(f"cat per_cpu/cpu{cpu}/stats")
        return {k: int(v) for k, v in re.findall(r"^([a-z ]+): (\d+)$", text, re.M)}

    def test_stop_mode_counts_dropped(self) -> None:
        self.sh("echo 4 > buffer_size_kb")
        self.sh("echo 0 > options/overwrite")
        self.sh("echo function > current_tracer")
        self.sh("cksum README")
        self.sh("echo 0 > tracing_on")
        stats = [self.stats(cpu) for cpu in (0, 1)]
        self.assertGreater(sum(s["dropped events"] for s in stats), 0)
        self.assertEqual(sum(s["overrun"] for s in stats), 0)
        self.assertNotIn("LOST", self.sh("cat trace_pipe"))
        self.sh("echo 1408 > buffer_size_kb")

    def test_raw_pages(self) -> None:
        self.sh("echo function > current_tracer")
        self.sh("cksum README")
        self.sh("echo 0 > tracing_on")
        before = [self.stats(cpu)["entries"] for cpu in (0, 1)]
        for cpu in (0, 1):
            if before[cpu]:
                self.sh(f"cat per_cpu/cpu{cpu}/trace_pipe_raw > /tmp/raw")
                size = int(re.search(r"(\d+) raw$", self.sh("ls -l /tmp"), re.M)[1])
                self.assertEqual(size % 4096, 0)
                self.assertGreaterEqual(size, before[cpu] * 28)
            after = self.stats(cpu)
            self.assertEqual((after["entries"], after["read events"]), (0, before[cpu]))
        self.assertGreater(sum(before), 0)

    def test_pipe_waits_and_has_one_reader(self) -> None:
        self.sh("cat trace_pipe > /tmp/pipe &")
        until(self.machine.console, "ps -s", "pipe_read")  # it has begun
        self.assertIn("EBUSY", self.sh("cat per_cpu/cpu1/trace_pipe"))
        self.sh("echo one > trace_marker")
        self.sh("sleep 0.1")
        self.sh("echo two > trace_marker")
        self.sh("echo 0 > tracing_on")
        self.sh("wait")
        texts = [e["text"] for e in self.events(self.sh("cat /tmp/pipe"))]
        self.assertEqual(texts, ["tracing_mark_write: one", "tracing_mark_write: two"])

    def test_marker(self) -> None:
        self.sh("echo hello > trace_marker")
        self.sh("echo there >> trace_marker")
        events = self.events(self.sh("cat trace"))
        self.assertEqual([e["text"] for e in events],
                         ["tracing_mark_write: hello", "tracing_mark_write: there"])
        self.sh("echo 0 > tracing_on")
        self.assertNotEqual(self.sh("echo no > trace_marker"), "")
        self.assertEqual(len(self.events(self.sh("cat trace"))), 2)

    def test_clocks(self) -> None:
        for clock in ("global", "counter", "uptime", "mono", "mono_raw", "boot", "local"):
            self.assertEqual(self.sh(f"echo {clock} > trace_clock"), "")
            self.assertIn(f"[{clock}]", self.sh("cat trace_clock"))
            self.sh("echo tick > trace_marker")
            line = self.sh("cat trace").splitlines()[-1]
            time = (r" {12}1"
                    if clock == "counter" else r" +\d+" if clock == "uptime" else r" +\d+\.\d{6}")
            self.assertRegex(line, rf"\] {IN_A_THREAD}{time}: tracing_mark_write: tick$")

    def test_options(self) -> None:
        self.trace_one()
        place = r"\w+\+0x[0-9a-f]+/0x[0-9a-f]+"
        for option, line in (("noprint-parent", r": sleep_ns"), ("print-parent",
                                                                 r": sleep_ns <-\w+"),
                             ("sym-offset", rf": {place} <-{place}"), ("nosym-offset",
                                                                       r": sleep_ns <-\w+"),
                             ("sym-addr", r": sleep_ns <[0-9a-f]{16}> <-\w+ <[0-9a-f]{16}>"),
                             ("nosym-addr",
                              r": sleep_ns <-\w+"), ("noirq-info",
                                                     r" \[00\d\]  +\d+\.\d{6}: sleep_ns <-\w+"),
                             ("irq-info",
                              rf" \[00\d\] {IN_A_THREAD}  +\d+\.\d{{6}}: sleep_ns <-\w+"),
                             ("nocontext-info", r"sleep_ns <-\w+"), ("context-info",
                                                                     r": sleep_ns <-\w+")):
            self.assertEqual(self.sh(f"echo {option} > trace_options"), "")
            self.assertIn(option, self.sh("cat trace_options").splitlines())
            text = self.sh("cat trace").splitlines()[-1]
            self.assertRegex(text, "^" + line + "$" if option == "nocontext-info" else line + "$")

    def test_sizes(self) -> None:
        for kb, shown in ((1, 7), (100, 103), (1408, 1410)):
            self.assertEqual(self.sh(f"echo {kb} > buffer_size_kb"), "")
            self.assertEqual(self.sh("cat buffer_size_kb"), f"{shown}\n")
            self.assertEqual(self.sh("cat buffer_total_size_kb"), f"{2 * shown}\n")
        for kb, why in ((0, "at least 1 KiB"), (1 << 20, "no memory"),
                        ((1 << 20) + 1, "at most 1 GiB"), (1 << 60, "at most 1 GiB")):
            self.assertIn(why, self.sh(f"echo {kb} > buffer_size_kb"))
        self.assertEqual(self.sh("cat buffer_size_kb"), "1410\n")

    def test_tracing_on_takes_any_number(self) -> None:
        for value, shown in (("0", 0), ("7", 1), ("00", 0), ("1", 1)):
            self.assertEqual(self.sh(f"echo {value} > tracing_on"), "")
            self.assertEqual(self.sh("cat tracing_on"), f"{shown}\n")

    def test_refusals(self) -> None:
        for line in ("echo nothing > current_tracer", "echo x > tracing_on", "echo -1 > tracing_on",
                     "echo ' 1' > tracing_on", "echo 0 > buffer_size_kb",
                     "echo lots > buffer_size_kb", "echo 99999999999 > buffer_size_kb",
                     "echo sundial > trace_clock", "echo 2 > options/overwrite",
                     "echo nosuch > trace_options"):
            said = self.sh(line)
            self.assertIn(line.split()[-1].rsplit("/", maxsplit=1)[-1], said, f"{line}: {said!r}")
        self.assertEqual(self.sh("cat tracing_on"), "1\n")

    def test_per_cpu(self) -> None:
        self.sh("echo function > current_tracer")
        self.sh("cksum README")
        self.sh("echo 0 > tracing_on")
        for cpu in (0, 1):
            for event in self.events(self.sh(f"cat per_cpu/cpu{cpu}/trace"))[:50]:
                self.assertEqual(int(event["cpu"]), cpu)
        self.sh("echo > per_cpu/cpu0/trace")
        self.assertEqual(self.stats(0)["entries"], 0)


class TestTracefsRiscv64(OnAMachine, unittest.TestCase):
    arch = "riscv64"


class TestTracefsArm64(OnAMachine, unittest.TestCase):
    arch = "arm64"


if __name__ == "__main__":
    unittest.main()

"""The commands that README, the pages and the handouts show are typed as written, from the top of
each document to its end.

A document is one sitting at a terminal: `make run` and `make gdb` are typed as they are, with a
kernel like the document's own where it names none, and each kernel goes on until the document
starts another. All that a command is shown to print must be printed, in this order and with nothing
between. Figures, addresses and durations may differ, and `...` means any number of lines. A command
that is shown without output must not fail. What objdump and gdb show of compiled code is that of
Debian 12's compiler; with another one they are typed, and what they print is not compared.
"""
import os
import re
import subprocess
import unittest
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pexpect  # type: ignore[import]

from docs.book import pages
from qemu.machine import LAST_LAB, ROOT
from qemu.tests.terminal import hang_up

HOST, SHELL, GDB = "$ ", "callsite# ", "(gdb) "
COMPILER = "12"  # whose code is shown
# Seconds: limits only against hanging; the host may be busy, and what is typed there may build.
PATIENCE = {HOST: 1800, SHELL: 300, GDB: 300}
MY = ROOT / "build/tests/my"  # what the handouts call my/
# Blocks, by their first lines.
NOT_TYPED = {
    ("docs/modules.md", "rmmod stuck"): "a module that no tree has",
    ("labs/0-boot/handout.md", "make doctor"): "this machine's versions",
    ("labs/0-boot/handout.md", "make gdb ARCH=riscv64 LAB=1 APP=my/collatz.c"):
        "the start of lab 1",
    ("labs/0-boot/handout.md", "info symbol $x30"): "what a reader finds who does on arm64 what "
    "was shown on riscv64",
    ("labs/2-call-site-records/handout.md", "callsites mutex_*"): "likewise",
    ("labs/3-nop-call-patching/handout.md", "make grade LAB=3 ARCH=arm64 REPLAY=0123456789abcdef "
     "RUNG='one CPU' GDB=1"): "a mistake",
    ("labs/4-caller-regs/handout.md", "make grade LAB=4 ARCH=riscv64 REPLAY=0123456789abcdef "
     "RUNG=3 GDB=1"): "a mistake",
    ("labs/4-caller-regs/handout.md", "make grade LAB=4 ARCH=riscv64"):
        "a grade in a student's tree",
    ("labs/5-function-graph/handout.md", "workload 0123456789abcdef"): "a mistake",
    ("labs/6-graph-many-users/handout.md", "fgraph_op 0 see wl_leaf_elm"):
        "fourteen of its commands are left out",
}


@dataclass
class TranscriptStep:
    """A line that is typed at one of the prompts, and what is shown of what it prints."""

    prompt: str
    line: str
    shown: list[str] = field(default_factory=list)


def blocks(text: str) -> Iterator[list[TranscriptStep]]:
    """The commands of a document, in blocks: a block is a run of lines without prose between them.
    """
    block: list[TranscriptStep] = []
    for _, line, is_prose in pages.prose(text):
        line = line.removeprefix("    ")
        if is_prose or line.startswith("```"):
            if block:
                yield block
            block = []
            continue
        if re.match("make (run|gdb) ", line):
            line = HOST + line
        in_gdb = block and (block[-1].prompt == GDB or block[-1].line.startswith("make gdb"))
        prompt = next((p for p in (HOST, *(() if in_gdb else (SHELL,)), GDB) if line.startswith(p)),
                      None)
        if prompt:
            block.append(
                TranscriptStep(prompt, re.sub(r"\s{2,}# .*", "", line.removeprefix(prompt))))
        elif block and block[-1].line.endswith("\\"):
            block[-1].line = block[-1].line[:-1] + line.strip()
        elif block:
            block[-1].shown.append(line)
    if block:
        yield block


def programs(text: str) -> dict[str, str]:
    """The programs that a document has its reader write: each begins with its name in a comment."""
    found = re.findall(r"^```c\n(/\* ([\w-]+)[ :,][\s\S]*?)^```|^    (/\* ([\w-]+): [\s\S]*?)^\S",
                       text, re.M)
    return {f"{name or other}.c": fenced or indented for fenced, name, indented, other in found}


def plain(line: str) -> str:
    """Without what differs from run to run, and from one build to the next."""
    line = re.sub(r"^( +\d+\)) [+!#*@$] ", r"\1   ", line)  # a call that took long
    line = re.sub(r"(\d+us)[+!#*@$]:", r"\1 :", line)  # the same, with a latency tracer
    line = re.sub(r"^( *\S+-\d+ +\d+[d.])N", r"\1.", line)
    line = re.sub(r"(\badrp\s.*) <.*>", r"\1", line)  # the name of whatever begins at that page
    return re.sub(r"\s+", " ",
                  re.sub(r"-?(0x[0-9a-f]+|\d+\.\d+|\b(?=[a-f]*\d)[0-9a-f]+\b|\d+)", "0",
                         line)).strip()


def agrees(shown: str, printed: str) -> bool:
    """Of a line that is too long for a page only its beginning is shown."""
    return printed.startswith(
        shown.removesuffix(" ...")) if shown.endswith(" ...") else shown == printed


def shows(shown: list[str], printed: list[str], whole: bool) -> str:
    """The first run of lines that is not printed where it should be, or ""; @whole: not a line is
    left out unless `...` says so."""
    at, anchored = 0, whole
    for part in re.split(r"^\.\.\.$", "\n".join(shown), flags=re.M):
        lines = [line for line in part.splitlines() if line]
        places = [at] if anchored else range(at, len(printed) + 1)
        found = next(
            (place
             for place in places if all(map(agrees, lines, printed[place:] + [""] * len(lines)))),
            None)
        if found is None:
            return part.strip()
        at, anchored = found + len(lines), False
    return "" if not whole or shown[-1] == "..." or at == len(
        printed) else f"nothing more, not: {printed[at]}"


# What an interrupt adds to a trace (plain() has been applied): lines of the function tracer with an
# h, those of a switch of threads before it returns, and what function_graph has between its arrows,
# and its __schedule() after them; and the N of a switch that is put off.
IN_INTERRUPT = re.compile(
    r"\S+ \[0\] (\S\Sh|.* (__schedule <-(exception_vector|trap_interrupt|irq_exit)|\S+ "
    r"<-__schedule)$)"
)
PUT_OFF = re.compile(r"(\S+ \[0\] \S)N")
SWITCH = "| __schedule()"
FROM, TO = "==========>", "<=========="


def uninterrupted(printed: list[str]) -> list[str]:
    """The lines without those of interrupts, which come when they come."""
    kept, inside, ends, switching = list[str](), False, False, 0
    for line in printed:
        inside |= FROM in line
        if switching or ends and SWITCH in line:
            switching += line.endswith("{") - ("| }" in line)
        elif not inside and not IN_INTERRUPT.match(line):
            kept.append(PUT_OFF.sub(r"\1.", line))
        ends = TO in line
        inside &= not ends
    return kept


def gdb_says(shown: list[str], printed: str) -> str:
    """The same of gdb, which breaks its lines where the window ends, and says more than a page
    shows."""
    at = 0
    for piece in (piece.strip() for line in shown for piece in line.split("...")):
        at = printed.find(piece, at)
        if at < 0:
            return piece
        at += len(piece)
    return ""


class Terminal:
    """A terminal session: it starts a kernel where the document does not say how."""

    def __init__(self, lab: int, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self._lab, self._log = lab, log.open("w")
        self._at = HOST
        env = {"PATH": os.environ["PATH"], "HOME": str(MY), "TERM": "dumb", "PS1": HOST}
        self._tty = pexpect.spawn("/bin/bash", ["--norc", "--noediting"], cwd=str(ROOT), env=env,
                                  encoding="utf-8", timeout=PATIENCE[HOST],
                                  dimensions=(50, 400), logfile=self._log)
        self._tty.delaybeforesend = None
        self._tty.expect_exact(HOST)

    def type(self, step: TranscriptStep) -> str:
        """What it prints."""
        if step.prompt != self._at:
            if step.prompt == GDB:
                raise AssertionError(f"{step.line}: gdb has ended, or did not start")
            self._leave()
            if step.prompt != HOST:
                self._line(f"make run ARCH=riscv64 LAB={self._lab}", step.prompt)
        starts = re.match("make (run|gdb) ", step.line) if step.prompt == HOST else None
        return self._line(step.line,
                          {"run": SHELL, "gdb": GDB}[starts[1]] if starts else step.prompt)

    def _line(self, line: str, prompt: str) -> str:
        """Type a line and wait for the next prompt. Under gdb the guest's clock counts
        instructions: a stopped guest gets no interrupt."""
        line += " QEMU_EXTRA='-icount shift=0'" if line.startswith("make gdb") else ""
        self._tty.sendline(line.replace("my/", f"{MY.relative_to(ROOT)}/"))
        self._at = (prompt, HOST)[self._tty.expect_exact([prompt, "\n" + HOST],
                                                         PATIENCE[self._at])]
        printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\r", "", self._tty.before)
        return printed.replace(f"{MY.relative_to(ROOT)}/", "my/").removeprefix(line).lstrip("\n")

    def _leave(self) -> None:
        if self._at == SHELL:
            self._line("poweroff", HOST)
        elif self._at == GDB:
            self._line("set confirm off", GDB)
            self._line("quit", HOST)

    def close(self) -> None:
        hang_up(self._tty)
        self._log.close()


class InterruptsInTraces(unittest.TestCase):
    """A timer's interrupt between two calls that a document shows one after the other."""

    def test_between_two_lines_of_the_function_tracer(self) -> None:
        printed = (
            "  collatz-2  [000] .....  0.131630: strtoull <-app_main_collatz\n  collatz-2  [000] "
            "d.h..  0.131871: sched_tick <-handle_external\n"
            "  collatz-2  [000] .....  0.131997: steps <-app_main_collatz\n")
        shown = [line for line in printed.splitlines() if "sched_tick" not in line]
        self.assertEqual("", difference(TranscriptStep(SHELL, "cat trace", shown), printed))
        self.assertIn("is not printed",
                      difference(TranscriptStep(SHELL, "cat trace", shown[::-1]), printed))

    def test_one_that_asks_for_a_switch(self) -> None:
        """Of a thread that is in the tracer's text: the switch is put off, and the thread's own
        lines have an N until then."""
        shown = [
            "  collatz-2  [000] .....  0.055963: app_main_collatz <-app_run",
            "  collatz-2  [000] .....  0.055982: strtoull <-app_main_collatz",
            "  collatz-2  [000] .....  0.056087: steps <-app_main_collatz"
        ]
        printed = [
            shown[0], shown[1].replace(".....", ".N..."),
            "  collatz-2  [000] dNh..  0.056919: dispatch_interrupt <-trap_interrupt",
            "  collatz-2  [000] dN...  0.056952: __schedule <-exception_vector",
            "  collatz-2  [000] d....  0.056952: next_deadline <-__schedule", shown[2]
        ]
        self.assertEqual("",
                         difference(TranscriptStep(SHELL, "cat trace", shown), "\n".join(printed)))
        self.assertIn(
            "is not printed",
            difference(TranscriptStep(SHELL, "cat trace", shown),
                       "\n".join(printed).replace(".N...", "dN...")))

    def test_inside_a_call_of_function_graph(self) -> None:
        printed = (
            " 0)               |  steps() {\n 0)   ==========> |\n 0)               |    "
            "sched_tick() {\n 0)   1.0 us      |    }\n"
            " 0)   <========== |\n 0)   0.1 us      |    triple();\n 0)   2.0 us      |  }\n")
        shown = [
            " 0)               |  steps() {", " 0)   0.1 us      |    triple();",
            " 0)   2.0 us      |  }"
        ]
        self.assertEqual("", difference(TranscriptStep(SHELL, "cat trace", shown), printed))

    def test_a_switch_after_an_interrupt_inside_a_call_of_function_graph(self) -> None:
        shown = [
            " 0)               |    open() {", " 0) + 13.700 us   |      shell_cwd();",
            " 0) + 50.600 us   |      file_open();"
        ]
        irq = ("\n 1)   ==========> |\n 1) ! 934.416 us  |      dispatch_interrupt();\n 1)   "
               "<========== |\n")
        for switch in (
                " 1) + 77.280 us   |      __schedule();\n",
                " 1)               |      __schedule() {\n 1)   4.0 us      |        "
                "next_deadline();\n 1)   9.1 us      |      }\n"
        ):
            printed = shown[0] + irq + switch + "\n".join(shown[1:])
            self.assertEqual("", difference(TranscriptStep(SHELL, "cat trace", shown), printed))
            self.assertIn(
                "is not printed",
                difference(TranscriptStep(SHELL, "cat trace", shown), printed.replace("<=", "==")))
            self.assertIn(
                "is not printed",
                difference(TranscriptStep(SHELL, "cat trace", shown),
                           shown[0] + "\n" + switch + "\n".join(shown[1:])))


class Transcripts(unittest.TestCase):
    maxDiff = None

    def test_what_is_typed_prints_what_is_shown(self) -> None:
        typed = 0
        MY.mkdir(parents=True, exist_ok=True)
        for path in [
                ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted(
                    (ROOT / "labs").glob("*/handout.md"))
        ]:
            page, text = str(path.relative_to(ROOT)), path.read_text()
            for name, source in programs(text).items():
                (MY / name).write_text(source)
            todo = [
                step for block in blocks(text) if (page, block[0].line) not in NOT_TYPED
                for step in block
            ]
            typed += len(todo)
            with self.subTest(page=page):
                self.assertEqual("", "\n".join(wrong(page, todo)))
        self.assertGreater(typed, 100, "lines typed")


def wrong(page: str, todo: list[TranscriptStep]) -> Iterator[str]:
    """Types a whole document; what was shown and not printed."""
    lab = max(1, int(page[len("labs/")])) if page.startswith("labs/") else LAST_LAB
    with closing(Terminal(lab, ROOT /
                          f"build/tests/transcript-{page.replace('/', '-')}.log")) as terminal:
        for step in todo:
            said = terminal.type(step)
            why = difference(step, said)
            if why:
                yield f"{step.prompt}{step.line}\n  {why}\n  but:\n{said[:3000]}"


@cache
def compiler() -> str:
    return subprocess.run(["riscv64-linux-gnu-gcc", "-dumpversion"], capture_output=True, text=True,
                          check=True).stdout.strip()


def of_code(step: TranscriptStep) -> bool:
    """Is what it prints the compiler's, and the tool's that reads its code?"""
    return step.prompt == GDB or "objdump" in step.line


def difference(step: TranscriptStep, text: str) -> str:
    """What is shown and was not printed, or ""."""
    # a comment is the document's
    shown = [plain(re.sub(r"(?<=\S)\s{3,}# .*", "", line)) for line in step.shown if line.strip()]
    printed = [plain(line) for line in text.splitlines() if line.strip()]
    if uninterrupted(shown) == shown:
        printed = uninterrupted(printed)
    if shown and not (of_code(step) and compiler() != COMPILER):
        missing = gdb_says(shown, " ".join(printed)) if step.prompt == GDB else shows(
            shown, printed, step.prompt == SHELL)
        return missing and f"this is not printed: {missing}"
    failed = not shown and re.search(r".*\(E[A-Z]+\)\n|.*unknown command|^make: \*\*\*.*", text)
    return f"it fails: {failed[0]}" if failed else ""


if __name__ == "__main__":
    unittest.main()

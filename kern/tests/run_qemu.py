"""Tests the kernel under QEMU: boots it on every machine, types at its shell, and reads its output.

A case is a machine, a build of the kernel, and steps: a command and what its
output must show. The tests inside the kernel are commands that say `ok` or
`FAILED` for each promise. Prints a line for each case, then `N passed, N failed`.
"""

from __future__ import annotations

import argparse
import ctypes
import gzip
import hashlib
import os
import re
import signal
import subprocess
import sys
import textwrap
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from grading.elf.elf import Kernel  # noqa: E402
from grading.machine.console import PROMPT  # noqa: E402
from grading.machine.hold import Cpus, interleaved  # noqa: E402
from grading.machine.line import ask  # noqa: E402
from grading.machine.machine import Run, ended_by_signals  # noqa: E402
from grading.report.side_by_side import PR_SET_PDEATHSIG  # noqa: E402
from grading.stimulus import workload  # noqa: E402
from grading.truth.returns import calls_to  # noqa: E402
from grading.verdict import Stopped, Verdict  # noqa: E402
from kern.ftrace.tests.waiting import until  # noqa: E402
from kern.tests import app_host  # noqa: E402
from qemu.emulator import find  # noqa: E402
from qemu.isa import ARCHES, ISAS  # noqa: E402
from qemu.machine import FINISHED, ROOT, Machine, initrd_of  # noqa: E402

LOGS = ROOT / os.environ.get("LOGS", "build/tests/qemu")
# QEMU with a thread for each CPU fetches an instruction of riscv64 as two halves, so a CPU may
# execute half of a call that has just become a nop, or half of a breakpoint. Where threads call
# what is patched, the CPUs take turns, and an instruction takes 32 ns of guest time. So a test also
# takes the same turns each time, however busy the host is. On arm64 the CPUs run at the same time.
TURNS: dict[str, object] = {"extra": ["-icount", "shift=5"]}
# Where only guest time passes, 128 ns for each instruction: the watchdog's eight seconds take half
# a second of a CPU that is busy.
FAST_CLOCK: dict[str, object] = {"extra": ["-icount", "shift=7"]}
MIB = 1 << 20
# The installed OpenSBI. Version 1.5.1, out of backports, loses this board's timer interrupts; 1.1
# and 1.6 do not.
FIRMWARE = "/usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin"
# seconds: a limit only against hanging. QEMU's UARTs may need a thread's turn for eight bytes,
# which takes long on a busy host
HANGS = 600
UARTS = {
    "riscv64": ("machine.dtb", "/soc/serial@10000000", "10000000"),
    "arm64": ("machine-arm64.dtb", "/pl011@9000000", "9000000")
}
POLLED = "The console does not interrupt"  # said only where the case expects it
# Of `make test-long`: what these cases begin with.
LONG = ("unwinding from every instruction", "unwinding from interrupts", "ring buffers under fire",
        "boots on the HiFive Unleashed")
Step = Callable[[Run], str]  # "" or what is wrong


@dataclass
class Case:
    name: str
    arch: str
    variant: str = FINISHED
    smp: int = 1
    steps: list[Step] = field(default_factory=list)
    options: dict[str, object] = field(default_factory=dict)  # of Machine
    replace: tuple[bytes, bytes] | None = None  # in a copy of the image: this expression by that
    boot: list[str] = field(default_factory=list)  # what the boot's output must show
    # or a pattern of the last words, and of how it stopped; "": the machine stays on
    end: str = "poweroff"

    @property
    def full_name(self) -> str:
        return f"{self.arch} {self.name}"


def shows(command: str, *patterns: str) -> Step:
    """The command's output shows each pattern."""
    def step(run: Run) -> str:
        text = run.console.command(command, HANGS)
        missing = [p for p in patterns if not re.search(p, text, re.M)]
        return f"'{command}' does not show '{missing[0]}' but:\n{text[-600:]}" if missing else ""
    return step


def cksum(data: bytes) -> int:
    """The checksum that the host's cksum prints for this data."""
    return int(
        subprocess.run(["cksum"], input=data, capture_output=True, check=True).stdout.split()[0])


def prints(command: str, want: str) -> Step:
    """The command's output is exactly this."""
    def step(run: Run) -> str:
        text = run.console.command(command, HANGS)
        return "" if text == want else f"'{command}' prints {text[:300]!r}, not {want[:300]!r}"
    return step


def promises(command: str, seconds: float = HANGS) -> Step:
    """A test inside the kernel: it has promises, and all of them are kept."""
    def step(run: Run) -> str:
        return kept(command, run.console.command(command, seconds))
    return step


def kept(command: str, text: str) -> str:
    counts = re.search(r"^(\d+) passed, (\d+) failed", text, re.M)
    if counts and int(counts[1]) and counts[2] == "0":
        return ""
    broken = [line for line in text.splitlines() if line.startswith("FAILED")]
    return f"'{command}': " + ("; ".join(broken) or text[-600:] or "nothing was printed")


def parents(trace: str, function: str, parent: str, not_by: str) -> Step:
    """The function tracer prints this parent, and never `not_by`."""
    def step(run: Run) -> str:
        text = run.console.command(f"cat {trace}")
        found = set(re.findall(rf" {function} <-(\w+)", text))
        wrong = parent not in found or not_by in found
        return f"{function} was called by {sorted(found)}, not by {parent}" if wrong else ""
    return step


def frees_all(command: str, made: str) -> Step:
    """A program that is ended by `kill`, at whatever instruction, leaves no more memory in use than
    one that ends by itself."""
    def step(run: Run) -> str:
        used = []
        for end in ("", "", "kill 1;", "kill 1;", "sleep 0.01; kill 1;"):
            run.console.command(f"{command} & ; {end} wait; rm {made}")
            used.append(run.console.command("free"))
        if len(set(used[1:])) > 1:
            return f"memory after '{command}' came to its end, twice, and was ended: {used}"
        return ""
    return step


def shell_goes_on() -> Step:
    """A Ctrl-C in a program that `taskset` runs in the shell's thread: the shell goes on, and no
    memory is lost."""
    def step(run: Run) -> str:
        used = []
        for _ in range(3):
            if wrong := interrupted("taskset -c 1 sleep 60 > /tmp/s")(run):
                return wrong
            used.append(run.console.command("rm /tmp/s; free"))
        return f"memory after each time: {used}" if len(set(used[1:])) > 1 else ""
    return step


def works(seed: int = 0x0123456789ABCDEF, cpus: int = 0) -> Step:
    """The workload prints the result that the host computes for so many CPUs."""
    def step(run: Run) -> str:
        want = workload.expect(seed, cpus or run.machine.smp).line
        text = run.console.command(f"workload {seed:016x}", HANGS)
        return ("" if want in text else
                f"the workload should print '{want}', it printed:\n{text[-600:]}")
    return step


def lies_at(wanted: int | None = None) -> Step:
    """The image's header is at this physical address; by default at the machine's load address."""
    def step(run: Run) -> str:
        address = wanted or run.machine.load_address()
        found = run.memory(address, 64)[56:60]
        return "" if found in (b"ARM\x64", b"RSC\x05") else f"no image header at {address:#x}"
    return step


def wide_accesses(log: Path) -> Step:
    """QEMU's log has accesses to the UART's registers of 4 bytes each, 4 bytes apart, and enough of
    them by the kernel."""
    def step(run: Run) -> str:
        found = re.findall(r"addr 0x2000(\w{4}) value \w+ size (\d+) name 'serial'",
                           log.read_text())
        wrong = [(at, size) for at, size in found
                 if size != "4" or int(at, 16) % 4 or int(at, 16) > 0x7C]
        if wrong or len(found) < 1000:
            return f"{len(found)} accesses to the UART, among them {wrong[:3]}"
        return ""
    return step


def stands_still() -> Step:
    """On a machine that cannot be turned off the kernel says so and stops."""
    def step(run: Run) -> str:
        run.console.send(b"poweroff\r")
        try:
            run.console.wait_for(lambda _: run.console.has("it is halted"), 20, "last words")
        except Stopped as stopped:
            return f"poweroff, on a machine that has none: {stopped}"
        return ""
    return step


def rests() -> Step:
    """While all CPUs wait for a key, QEMU uses almost no processor time."""
    def used(run: Run) -> float:
        user, system = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def step(run: Run) -> str:
        before = used(run)
        time.sleep(1)
        spent = used(run) - before
        return (f"an idle machine took {spent:.2f} s of a processor in a second"
                if spent > 0.5 else "")
    return step


def answers(run: Run, before: bytes, seconds: float) -> str:
    """The shell runs a line that is typed immediately after the bytes `before`, and prints its
    prompt. Returns "", or what is wrong."""
    word = f"alive-{run.console.received}"
    run.console.send(before + f"echo {word}\r".encode())
    try:
        run.console.wait_for(lambda text: f"\n{word}\n" in text and text.endswith(PROMPT), seconds,
                             "answer")
    except Stopped as stopped:
        return str(stopped)
    return ""


LINE_LIMIT = 1023  # characters: LINE_MAX of kern/shell/line.h, without the NUL
TOO_LONG = (
    f"shell: a line has at most {LINE_LIMIT} characters; this one has more and was not run.\n")


def limit() -> Step:
    """A line of exactly the limit runs; one more character, and it is refused."""
    def step(run: Run) -> str:
        for length in LINE_LIMIT - 1, LINE_LIMIT, LINE_LIMIT + 1:
            text = "x" * (length - len("echo "))
            run.console.begin(f"echo {text}")
            said = run.console.wait_for(lambda tail: tail.endswith(f"\n{PROMPT}"), HANGS,
                                        "prompt after a long line")
            fits = length <= LINE_LIMIT
            if (f"\n{text}\n" in said) != fits or (TOO_LONG in said) == fits:
                return f"a line of {length} characters: {said[-300:]!r}"
        return ""
    return step


def flood(before: bytes = b"", rest: bytes = b"") -> Step:
    """A line that holds more than the console's ring is sent at once. It is refused, the prompt
    comes, and the next line runs. If the ring is still full after a Ctrl-C in the line, too little
    of the rest fits for a line that is too long. What was lost is reported after the refusal."""
    refused = re.compile(
        f"({re.escape(TOO_LONG)}|shell: bytes of the line were lost; it was not run.\n)"
        rf"(\n[^\n]* lost[^\n]*\n)*{re.escape(PROMPT)}\Z")

    def step(run: Run) -> str:
        run.console.send(before + b"x" * 22000 + rest + b"\r")
        try:
            run.console.wait_for(lambda text: bool(refused.search(text)), HANGS,
                                 "sentence that refuses a line of 22,000 characters")
        except Stopped as stopped:
            return str(stopped)
        return answers(run, b"", HANGS)
    return step


def noise() -> Step:
    """After every byte that is no character the prompt still works."""
    return lambda run: answers(
        run,
        bytes(range(128, 256)) + b"\x01\x02\x05\x06\x0e\x0f\x1b[99z\x1bOP\x03", HANGS)


def interrupted(command: str = "sleep 60") -> Step:
    """A Ctrl-C that is sent together with a command's line ends that command, and not the shell."""
    def step(run: Run) -> str:
        run.console.send(command.encode() + b"\r\x03echo alive\r")
        try:
            run.console.wait_for(lambda text: "\nalive\n" in text and text.endswith("# "), HANGS,
                                 "the command after Ctrl-C")
        except Stopped as stopped:
            return f"Ctrl-C immediately after a command's line: {stopped}"
        return ""
    return step


def ended(kind: str, how: str, again: int = 3) -> Step:
    """Ctrl-C and `kill` end a program without I/O and all its threads; its memory is freed and its
    mutex released."""
    def once(run: Run) -> str:
        line = f"own-program endless {kind}"
        run.console.begin(line + (" &" if how == "kill" else ""))
        shown = {PROMPT} if how == "kill" else set()
        run.console.wait_for(
            lambda text: all(words in text for words in shown | ({"all run"}
                                                                 if kind != "alone" else set())),
            HANGS, "threads of the program")
        if how == "kill":
            said = run.console.command("kill 1") + run.console.command("wait")
        else:
            run.console.send(b"\x03")
            said = run.console.wait_ready(HANGS)
        left = re.findall(r"^.* own-program$", run.console.command("ps"), re.M)
        wrong = ("does not respond" in said
                 or how == "kill" and f"[1] done, exit status 130: {line}" not in said)
        return f"'{line}', after {how}: {said[-300:]!r}, {left}" if left or wrong else ""

    def step(run: Run) -> str:
        free = []
        for _ in range(again):
            wrong = once(run)
            if wrong:
                return wrong
            run.console.command("rm /tmp/own")
            free.append(run.console.command("free"))
        if len(set(free[1:])) > 1:
            return f"memory after 'own-program endless {kind}' was ended, by {how}: {free}"
        return ""
    return step


def outlives() -> Step:
    """Threads that still run when main() has returned are a job, which is reported, listed, and
    ended by `kill`."""
    def step(run: Run) -> str:
        steps = [
            shows(
                "own-program endless outlive", r"^all run$",
                r"^main\(\) of own-program has returned; its threads continue in the background as "
                r"job 1\.$"
            ),
            shows("jobs", r"^\[1\] thread \d+ and 6 others, running: own-program endless outlive$"),
            prints("kill 1", ""),
            shows("wait", r"^\[1\] done, exit status 130: own-program endless outlive$")
        ]
        left = next(filter(None, (s(run) for s in steps)), "")
        left = left or prints("jobs", "")(run)
        if not left and "own-program" in run.console.command("ps"):
            return "own-program still runs"
        return left or shows("ps", "swapper")(run)
    return step


def stack_among(threads: int) -> Step:
    """`ps -s` finds the shell, the oldest thread, among more threads than `ps` lists."""
    def step(run: Run) -> str:
        for _ in range(threads // 50):
            run.console.command(";".join(["sleep 9999&"] * 50))
        pid = re.search(r"^ *(\d+) .* shell$", run.console.command("ps"), re.M)
        if pid:
            return f"`ps` lists all of {threads} threads"
        return shows("ps -s 1", "^ +1 .* shell$", r"shell_main\+0x")(run)
    return step


@contextmanager
def held(run: Run, program: str, place: str) -> Iterator[Cpus]:
    """In this block the program runs in the background on CPU 1, and is held where it calls this
    function. The shell is at its prompt."""
    kernel = kernel_of(run)
    with interleaved(run) as cpus:
        cpus.begin(f"taskset -c 1 {program} &")
        places = {
            at
            for code in kernel.code_of(f"kern/apps/{program}.c")
            for at in calls_to(kernel, place, code)
        }
        if cpus.reach(places, but={0}) != 1:
            raise Stopped(Verdict.FAIL, f"{program} does not come to {place}")
        cpus.serve(1)
        if not cpus.run(run.console.at_prompt):
            raise Stopped(
                Verdict.FAIL,
                f"the shell does not come to its prompt while {program} is in front of {place}")
        yield cpus


def twice(program: str, place: str) -> Step:
    """While one run of the program is held there, a second run waits for it, and neither prints
    anything."""
    def step(run: Run) -> str:
        kernel = kernel_of(run)
        waits = calls_to(kernel, "prepare_to_wait", kernel.extent("mutex_lock"))
        with held(run, program, place) as cpus:
            cpus.begin(f"taskset -c 0 {program}; wait")
            if cpus.reach(waits, but={1}) != 0:
                return f"{program} does not wait for one that is in front of {place}"
        said = re.sub(r"^\[1\] done, exit status 0: .*\n", "",
                      run.console.wait_ready(HANGS).partition("wait\n")[2])
        return ("" if said == PROMPT else
                f"{program}, while another one was in front of {place}, says:\n{said}")
    return step


def meanwhile(program: str, place: str, line: str) -> Step:
    """The line ends while the program is held there."""
    def step(run: Run) -> str:
        with held(run, program, place) as cpus:
            cpus.begin(line)
            if not cpus.run(run.console.at_prompt):
                return f"'{line}' does not come to its end while {program} is in front of {place}"
        return shows("wait; echo alive", "^alive$")(run)
    return step


def done_or_waits(run: Run) -> Callable[[], bool]:
    """Is the shell at its prompt, or have two seconds passed? Then its command waits for a thread
    that is held; otherwise it takes a tenth of that."""
    end = run.clock() + 2
    return lambda: run.console.at_prompt() or run.clock() > end


def grace_period(line: str) -> Step:
    """The line waits for a grace period while CPU 1's thread is held in the tracer's text, which no
    interrupt makes it leave; and no longer than that."""
    def step(run: Run) -> str:
        kernel = kernel_of(run)
        lock = kernel.symbol("mutex_lock")
        with interleaved(run) as cpus:
            cpus.begin("taskset -c 1 frames &")
            if cpus.reach(calls_to(kernel, "mutex_lock", kernel.extent("register_ftrace_graph")),
                          but={0}) != 1:
                return "frames does not come to where register_ftrace_graph takes ftrace_lock"
            cpus.serve(1)
            if not cpus.run(run.console.at_prompt):
                return "the shell does not come to its prompt"
            cpus.begin(line)
            if cpus.run(done_or_waits(run)) and run.console.at_prompt():
                return f"'{line}' does not wait for a CPU that is in the tracer's text"
            if not cpus.alone(1, lock):
                return "frames does not come to mutex_lock"
            cpus.serve(1)
            if not cpus.run(run.console.at_prompt):
                return (
                    f"'{line}' waits for a CPU that is in front of mutex_lock, and handles its "
                    f"interrupts"
                )
        return shows("wait; echo alive", "^alive$")(run)
    return step


def instance_goes(run: Run) -> str:
    """rmdir of an instance waits for a hit on CPU 1 that is about to test the instance's filter.
    The event stays enabled in the top directory, so its probe does too."""
    kernel, own = kernel_of(run), "instances/a/events/kt/e"
    for line in ("mkdir instances/a", "echo p:kt/e file_open > dynamic_events",
                 "echo 1 > events/kt/e/enable", f"echo 'common_pid > 0' > {own}/filter",
                 f"echo 1 > {own}/enable"):
        if said := run.console.command(line):
            return f"'{line}' says {said}"
    with interleaved(run) as cpus:
        cpus.begin("taskset -c 1 cat /README.md > /tmp/out &")
        if cpus.reach({kernel.symbol("event_filter_match")}, but={0}) != 1:
            return "CPU 1 does not come to the instance's filter"
        if not cpus.run(run.console.at_prompt):
            return "the shell does not come to its prompt"
        cpus.begin("taskset -c 0 rmdir instances/a")
        if cpus.reach(calls_to(kernel, "synchronize_sched", kernel.extent("instance_gone"))) != 0:
            return "'rmdir instances/a' does not begin a grace period"
        cpus.go(0)
        if cpus.run(done_or_waits(run)) and run.console.at_prompt():
            return "'rmdir instances/a' does not wait for a CPU that is in a hit"
        cpus.go(1)
        if not cpus.run(run.console.at_prompt):
            return "'rmdir instances/a' does not come to its end"
    return shows("wait; rm /tmp/out; echo 0 > events/enable; echo > dynamic_events; echo alive",
                 "^alive$")(run)


def from_each_instruction(*functions: str) -> Step:
    """CPU 1 is held at each instruction of functions that every event executes. CPU 0 interrupts it
    there, and walks its stack."""
    def step(run: Run) -> str:
        kernel, line = kernel_of(run), "test-unwind all function_graph"
        hits = run.machine.load_address() + kernel.symbol("unwind_hits") - kernel.text[0]
        with interleaved(run) as cpus:
            cpus.begin(line)
            if not cpus.run(lambda: run.console.has("function_graph starts")):
                return f"'{line}' does not start the tracer"
            for way, name in enumerate(functions):
                for at in instructions(kernel, name):
                    bit = 1 << (at - kernel.symbol(name)) // 4

                    def walked(word: int = hits + 8 * way, bit: int = bit) -> bool:
                        return bool(int.from_bytes(run.read(word, 8), "little") & bit)

                    if cpus.reach({at}, but={0}) != 1:
                        return f"'{line}' does not come to {kernel.name_at(at)}"
                    cpus.serve(1)
                    if not cpus.run(walked):
                        return f"CPU 1, at {kernel.name_at(at)}, does not take the interrupt"
                    cpus.go(1)
        return kept(line, run.console.wait_ready(HANGS))
    return step


def stops_a_sender(run: Run) -> str:
    """When CPU 0 stops the machine, CPU 1 has set CPU 2's bit, but has not sent the IPI yet. CPU 0
    relies on that IPI."""
    kernel, line = kernel_of(run), "test-stop crossing"
    with interleaved(run) as cpus:
        cpus.begin(line)
        if cpus.reach(calls_to(kernel, "irqchip_send_ipi", kernel.extent("ipi_send")), but={0, 2
                                                                                            }) != 1:
            return f"'{line}': CPU 1 does not come to where it sends an IPI"
        if cpus.reach({kernel.symbol("watchdog_touch")}, but={2}) != 0:
            return f"'{line}': CPU 0 does not wait for the others"
        cpus.go(0, 1)
    return kept(line, run.console.wait_ready(HANGS))


def dies_while_woken(run: Run) -> str:
    """CPU 0 is held before each instruction with which it wakes a thread, while the thread, on CPU
    1, exits or waits for a lock of CPU 0's."""
    kernel = kernel_of(run)
    wakes, = calls_to(kernel, "wake_up_process", kernel.extent("wake_dying_threads"))
    switches = calls_to(kernel, "schedule", kernel.extent("thread_exit"))
    path = sum(len(instructions(kernel, name)) for name in ("wake_up_process", "task_rq_lock"))
    line, steps, exits = f"test-sched dying {path}", 0, 0
    with interleaved(run) as cpus:
        cpus.begin(line)
        while cpus.line_up({0: wakes, 1: kernel.symbol("about_to_die")}):
            steps += 1
            for _ in range(steps):
                cpus.step(0)
            if cpus.pc(0) == wakes + 4:
                break
            cpus.go(1)
            if cpus.reach({*switches, kernel.symbol("task_rq_lock")}) != 1:
                return (
                    f"'{line}': CPU 1 does not exit while CPU 0 is at {kernel.name_at(cpus.pc(0))}")
            if cpus.pc(1) not in switches:
                cpus.go(1)
                end = run.clock() + 0.05
                # pylint: disable-next=cell-var-from-loop
                cpus.reach(switches, until=lambda: run.clock() > end)
            exits += cpus.pc(1) in switches
            cpus.go(0)
            # CPU 1, if it has not exited, runs too: it may have a lock that CPU 0 waits for
            if cpus.reach({wakes + 4}, but={1}) != 0:
                return f"'{line}': CPU 0, after {steps} instructions, does not wake up the thread"
            cpus.go(0, 1)
    return kept(line, run.console.wait_ready(HANGS)) or (
        "" if 10 < exits < steps else f"the thread exits in {exits} of {steps} places")


def comes_to(run: Run, cpus: Cpus, line: str, places: tuple[str, ...]) -> str:
    """CPU 1 runs the line, comes to these functions one after another, and its thread is held at
    the last. The shell is at its prompt. Returns "", or what is wrong."""
    kernel = kernel_of(run)
    cpus.begin(f"taskset -c 1 {line} &")
    for place in places:
        cpus.go(1)
        if cpus.reach({kernel.symbol(place)}, but={0}) != 1:
            return f"'{line}' does not come to {place}"
    cpus.serve(1)
    return "" if cpus.run(run.console.at_prompt) else "the shell does not come to its prompt"


def both(before: tuple[str, ...], line: str, places: tuple[str, ...], other: str,
         after: Step) -> Step:
    """After the commands `before`, CPU 1 runs a line and is held at the last one of these
    functions, while CPU 0 runs the other line."""
    def step(run: Run) -> str:
        for command in before:
            if said := run.console.command(command):
                return f"'{command}' says {said}"
        with interleaved(run) as cpus:
            if said := comes_to(run, cpus, line, places):
                return said
            cpus.begin(f"taskset -c 0 {other}")
            cpus.run(done_or_waits(run))
            cpus.go(1)
        run.console.wait_ready(HANGS)
        return after(run)
    return step


def unloaded_meanwhile(line: str, places: tuple[str, ...], after: Step) -> Step:
    """A module is removed while CPU 1, which runs the line, has found the module's records and is
    at the last one of these functions."""
    return both(("insmod maple",), line, places, "rmmod maple",
                lambda run: after(run) or shows("wait; lsmod; echo alive", r"^Module .*\nalive$")
                (run))


def woken_twice() -> Step:
    """CPU 1 is about to join the module's thread, when CPU 0 wakes it too."""
    wake = "echo wake > /proc/maple"
    return both(("insmod maple", "echo nap > /proc/maple"), wake, ("thread_join",), wake,
                shows("wait; rmmod maple; echo alive", "^alive$"))


def searched_meanwhile(run: Run) -> str:
    """A module's removal waits while CPU 1, which runs `op`, searches the records of all functions
    for a name."""
    if said := run.console.command("insmod maple"):
        return f"'insmod maple' says {said}"
    with interleaved(run) as cpus:
        if said := comes_to(run, cpus, "op 0 patch wl_leaf_elm wl_leaf_ash",
                            ("app_main_op", "ksym_lookup")):
            return said
        cpus.begin("taskset -c 0 rmmod maple")
        if cpus.run(done_or_waits(run)) and run.console.at_prompt():
            return "'rmmod maple' frees its records while another CPU searches them"
        cpus.go(1)
    run.console.wait_ready(HANGS)
    return shows("wait; op 0 off; lsmod; echo alive",
                 r"\A(\[1\] done, exit status 0: .*\n)?Module .*\nalive$")(run)


def removed_twice() -> Step:
    """CPU 1 has found the file that it removes from /ram, when CPU 0 removes it."""
    places = "file_lookup", "mutex_unlock", "mutex_lock"  # the next lock: for the file's removal
    return both(("insmod ramfs", "echo text > /ram/a"), "rm /ram/a", places, "rm /ram/a",
                shows("wait; ls /ram; rmmod ramfs; echo alive", "^alive$"))


def removed_before_opened(run: Run) -> str:
    """A CPU has created a file in /ram, and is about to open it, when the other CPU removes it. No
    file that is not of ramfs is made there instead."""
    kernel = kernel_of(run)
    if said := run.console.command("insmod ramfs"):
        return f"'insmod ramfs' says {said}"
    with interleaved(run) as cpus:
        cpus.begin("echo text > /ram/a &")
        for places in ({kernel.symbol("file_make_at")},
                       calls_to(kernel, "kzalloc", kernel.extent("file_open"))):
            cpus.go(*cpus.all)
            if (held := cpus.reach(places)) is None:
                return f"no CPU comes to {', '.join(map(kernel.name_at, places))}"
        cpus.serve(held)
        cpus.run(run.console.at_prompt)
        cpus.begin("rm /ram/a")
        if not cpus.run(run.console.at_prompt):
            return "'rm /ram/a' does not come to its end"
        cpus.go(held)
    return shows("wait; ls /ram; rm /ram/a; rmmod ramfs; echo alive", "^rm: .*No such file",
                 "^alive$", "done, exit status 1: echo text")(run)


def shows_all(run: Run, *wanted: tuple[str, ...]) -> str:
    """Each is a command, and what its output shows. Returns "", or what is wrong first."""
    return next(filter(None, (shows(*words)(run) for words in wanted)), "")


CTRL_C = b"\x03"
GONE = r"\AModule .*\nalive\n\Z"  # lsmod; echo alive
REGISTERED = "an op or a user of function_graph of it is registered"
INSIDE = r"thread \d+ \(stuck\) is inside"


def waits(name: str, why: str) -> str:
    return f"module {name}: waiting, because {why}; Ctrl-C ends the wait\n"


def stays(name: str, why: str) -> str:
    return f"module {name}: it stays, because {why}; try `rmmod {name}` again when that has ended\n"


def typed(run: Run, line: str, *answers: tuple[str, bytes]) -> str:
    """The line's output. Each time it has shown a pattern, something is typed: Ctrl-C, say."""
    run.console.begin(line)
    shown = ""
    for pattern, keys in answers:
        seen = re.compile(pattern).search
        shown += run.console.wait_for(lambda text, seen=seen: bool(seen(text)), HANGS, pattern)
        run.console.send(keys)
    return shown + run.console.wait_ready(HANGS)


def gives_up(run: Run) -> str:
    """The init of a module has returned an error and left an op: insmod waits, until Ctrl-C."""
    run.console.command(f"cat /lib/modules/{run.machine.arch}/mt_faults.ko > /tmp/f3.ko")
    line = "insmod /tmp/f3.ko fails after=op"
    text = typed(run, line, (waits("f3", REGISTERED), CTRL_C))
    if stays("f3", REGISTERED) not in text:
        return text
    return run.console.command("insmod mt_hello; rmmod mt_hello")


ROUNDS = 100  # looks of an rmmod before it says what it waits for (kern/loader/module.c)


def load_stuck(run: Run, what: str, name: str) -> str:
    """The line that loads mt_stuck under this name. /tmp/NAME.end ends what does not end in it."""
    file = f"/lib/modules/{run.machine.arch}/mt_stuck.ko"
    run.console.command(f"cat {file} > /tmp/{name}.ko")
    return f"insmod /tmp/{name}.ko what={what} until=/tmp/{name}.end"


@cache
def own_names(image: Path, arch: str) -> int:
    """The number of the kernel's own lines in /proc/kallsyms, which are the first."""
    kernel = Kernel(image.with_name("callsite.elf"), arch, any_name=True)
    return kernel.word(kernel.symbol("ksym_count"))


def others_go_on(run: Run, name: str) -> str:
    """A module stays Unloading or Loading. Every other command goes on, other modules too."""
    state = r"(Unload|Load)ing"
    row = rf"^{name} +\d+  0 \({state}\)$"
    return shows_all(
        run,
        ("echo alive", "^alive$"),
        ("lsmod", row),
        ("cat /proc/modules", rf"^{name} \d+ 0 - {state} 0x"),
        ("insmod mt_hello; lsmod", r"^mt_hello +\d+  0$", row),
        # without the kernel's own, which take a second to print
        (f"lines {own_names(run.machine.image_path(), run.machine.arch)} 9999 /proc/kallsyms",
         rf" t mt_stuck\t\[{name}\]$", r" t mt_leaf\t\[mt_hello\]$"),
        ("echo 'p:leaf mt_leaf' > kprobe_events; cat kprobe_events", "^p:kprobes/leaf mt_leaf$"),
        ("echo > kprobe_events; rmmod mt_hello; echo alive", r"\Aalive$"),
        ("echo function > current_tracer; echo nop > current_tracer; echo alive", r"\Aalive$"),
        (f"insmod /tmp/{name}.ko", rf"^module {name}: it is loaded already$"),
        ("insmod mt_thread; rmmod mt_thread; lsmod", rf"\AModule .*\n{name} .*\n\Z"))


def removed_later(run: Run, name: str) -> str:
    """What did not end in the module ends. Then rmmod removes it, and its name is free."""
    return shows_all(
        run,
        (f"echo > /tmp/{name}.end; rmmod {name}; lsmod; echo alive", GONE),
        (f"insmod /tmp/{name}.ko what=nothing; rmmod {name}; lsmod; echo alive", GONE))


def left_by_exit(what: str, why: str, ends: bool = True) -> Step:
    """A module's exit leaves something: rmmod waits until Ctrl-C, as does the next one."""
    def step(run: Run) -> str:
        if said := run.console.command(load_stuck(run, what, what)):
            return said
        for _ in range(2):
            text = typed(run, f"rmmod {what}", (waits(what, why), CTRL_C))
            if not re.search(rf"{stays(what, why)}(.*\n)*rmmod: {what}: .*EINTR", text):
                return text
            if wrong := others_go_on(run, what):
                return wrong
        return removed_later(run, what) if ends else ""
    return step


def never_returns(what: str, call: str) -> Step:
    """A module's init or exit does not return. A second Ctrl-C ends insmod, or rmmod."""
    def step(run: Run) -> str:
        first, again = load_stuck(run, what, what), f"rmmod {what}"
        if call == "exit":
            run.console.command(first)
            first = again
        once = f"module {what}: its {call} was interrupted; Ctrl-C again ends the wait for it\n"
        for line, begins in ((first, f"mt_stuck: {call} waits\n"), (again, "")):
            text = typed(run, line, (begins, CTRL_C), (once, CTRL_C))
            if stays(what, f"its {call} still runs") not in text:
                return text
            if wrong := others_go_on(run, what):
                return wrong
        return removed_later(run, what)
    return step


def removed_in_the_background(run: Run) -> str:
    """Two jobs wait, each for a module whose thread does not end. A third rmmod is refused."""
    for name in ("left", "right"):
        run.console.command(load_stuck(run, "sleeps", name))
        typed(run, f"rmmod {name} &", (waits(name, INSIDE), CTRL_C))
        if wrong := others_go_on(run, name) if name == "left" else "":
            return wrong
    if wrong := shows_all(
            run,
            ("lsmod", r"^left +\d+  0 \(Unloading\)$", r"^right +\d+  0 \(Unloading\)$"),
            ("insmod mt_hello; rmmod mt_hello; echo alive", r"\Aalive$"),
            ("rmmod left", "^module left: it is being loaded or removed$", r"\(EBUSY\)$"),
            ("kill 1; echo > /tmp/right.end; wait", f"^{stays('left', INSIDE)}")):
        return wrong
    run.console.command("echo")  # now the shell has said which jobs have ended
    one = shows("cat /proc/modules", r"\Aleft .* Unloading .*\n\Z")
    return one(run) or removed_later(run, "left")


def poweroff_meanwhile(run: Run) -> str:
    """A job waits for a thread that does not end, when the case ends and powers the machine off."""
    run.console.command(load_stuck(run, "loops", "never"))
    run.console.command("echo stop_machine > set_ftrace_filter; echo function > current_tracer")
    typed(run, "rmmod never &", (waits("never", INSIDE), CTRL_C))
    looks = re.findall(r"(\d+\.\d+): stop_machine <-", run.console.command("cat trace"))
    run.console.command("echo nop > current_tracer; echo > set_ftrace_filter")
    if len(looks) < ROUNDS or float(looks[ROUNDS - 1]) - float(looks[0]) > 60:
        return (f"rmmod must look {ROUNDS} times, every 10 ms, although a loop has its CPU: it did "
                f"at {', '.join(looks[:ROUNDS]) or 'no time'}")
    return ""


# What a module does wrong so that it cannot be removed, or not at once.
DO_NOT_GO = [
    left_by_exit("loops", INSIDE), left_by_exit("sleeps", INSIDE),
    never_returns("exit", "exit"), never_returns("joined", "exit"), never_returns("init", "init"),
    removed_in_the_background,
    shows("insmod mt_stuck what=file; rmmod mt_stuck; cat /mt_stuck; lsmod; echo alive",
          r"\Acat: /mt_stuck: .*\(ENOENT\)\nModule .*\nalive\n\Z"),
    shows("insmod mt_stuck what=faults; rmmod mt_stuck; lsmod; echo alive",
          r"^thread \d+ \(rmmod\) ends: read from a NULL pointer ",
          r"^module mt_stuck: its exit faulted\nModule .*\nalive$"),
    left_by_exit("op", REGISTERED, ends=False), poweroff_meanwhile]
DOES_NOT_STOP = [
    shows("taskset -c 0 insmod mt_stuck what=masked",
          "^watchdog: CPU 1 has been stuck for ", "^stop_machine: CPU 1 does not stop$",
          "^module mt_stuck: it stays, because a CPU does not stop, so it is not known whether "),
    shows("lsmod; rmmod mt_stuck; lsmod; echo alive",
          r"\AModule .*\nmt_stuck +\d+  0 \(Unloading\)\nModule .*\nalive\n\Z")]


def file_of_a_refused_module(run: Run) -> str:
    """CPU 1 opens /proc/latency, if it is there, before the init of its module fails. No open file
    may call the module afterwards."""
    kernel = kernel_of(run)
    for n in range(16):  # users of function_graph, so that there is no room for the module's
        for line in (f"mkdir instances/{n}", f"echo 4 > instances/{n}/buffer_size_kb",
                     f"echo file_root > instances/{n}/set_ftrace_filter",
                     f"echo function_graph > instances/{n}/current_tracer"):
            if said := run.console.command(line):
                return f"'{line}' says {said}"
    with interleaved(run) as cpus:
        cpus.begin("taskset -c 1 cat /proc/latency &")
        if cpus.reach({kernel.symbol("app_main_cat")}, but={0}) != 1:
            return "cat does not start on CPU 1"
        cpus.serve(1)
        cpus.run(run.console.at_prompt)
        cpus.begin("taskset -c 0 insmod latency")
        if cpus.reach({kernel.symbol("register_ftrace_graph")}, but={1}) != 0:
            return "the module does not register its user"
        cpus.serve(0)
        cpus.go(1)
        if cpus.reach({kernel.symbol("seq_read")},
                      until=lambda: run.console.has("No such file")) == 1:
            cpus.serve(1)
        cpus.go(0)
        cpus.run(run.console.at_prompt)
        cpus.go(1)
    run.console.wait_ready(HANGS)
    return shows("wait; cat /proc/latency; echo alive", "^cat: /proc/latency: No such file",
                 "^alive$")(run)


def panics_meanwhile(run: Run) -> str:
    """CPU 0 panics while CPU 1 is about to print a line, whose bytes must not be among those of the
    panic. In 20 ms CPU 0 does not give up waiting for CPU 1."""
    kernel = kernel_of(run)
    send = kernel.symbol({"riscv64": "ns_send", "arm64": "pl_send"}[run.machine.arch])
    with interleaved(run) as cpus:
        cpus.begin("taskset -c 1 cat /README.md &; taskset -c 0 panic now")
        if not cpus.line_up({0: kernel.symbol("panic_main"), 1: kernel.symbol("app_main_cat")}):
            return "CPU 0 does not come to panic_main, or cat does not start on CPU 1"
        cpus.go(1)
        if cpus.reach({kernel.symbol("uart_write")}) != 1:
            return "cat does not come to uart_write"
        cpus.go(0)
        end = run.clock() + 0.02
        # it prints before CPU 1 has stopped
        if cpus.reach({kernel.symbol("console_panic_mode")}, until=lambda: run.clock() > end) == 0:
            for _ in range(4):
                cpus.go(0)
                cpus.reach({send})
                cpus.step(0)
            cpus.go(1)
            cpus.run(lambda: run.console.has("# Callsite"))
        cpus.go(0, 1)
    return run.console.wait_ready(HANGS) and "it did not panic"


def removed_event(run: Run) -> str:
    """CPU 1 has copied events of a probe, and is about to print them, when the probe is removed and
    another one is made."""
    for line in ("echo p:kt/one file_open > dynamic_events", "echo 1 > events/kt/one/enable",
                 "cat /README.md > /tmp/a; cat /tmp/a > /tmp/b"):
        if said := run.console.command(line):
            return f"'{line}' says {said}"
    with interleaved(run) as cpus:
        # the header; the first event; its columns
        if said := comes_to(run, cpus, "cat trace > /tmp/trace",
                            ("listing_show", "listing_show", "seq_printf")):
            return said
        cpus.begin(
            "echo 0 > events/enable; echo 'p:kt/two file_open name=+0($arg2):string' > "
            "dynamic_events"
        )
        if not cpus.run(run.console.at_prompt):
            return "the second probe is not made"
        cpus.go(1)
    text = run.console.command("wait; echo > dynamic_events; cat /tmp/trace")
    return ("" if ": Unknown type " in text and ": two: (" not in text else
            f"the removed probe's events are printed so:\n{text[-600:]}")


def stuck(kind: str, cpu: int, function: str, thread: str) -> Step:
    """The watchdog reports this CPU once, and reports no other CPU."""
    def step(run: Run) -> str:
        text = run.console.command(f"test-fault {kind}")
        one = (
            rf"\s*watchdog: CPU {cpu} has been stuck for 8 s, in {function}\+0x0/\w+ \[{thread}\]\n"
        )
        return "" if re.fullmatch(one, text) else f"'test-fault {kind}' prints {text[-600:]!r}"
    return step


def held_long(run: Run) -> str:
    """A CPU that a debugger holds longer than the watchdog waits is not reported."""
    with interleaved(run) as cpus:
        cpus.begin("test-fault busy-thread")
        busy = cpus.reach({kernel_of(run).symbol("busy_thread")})
        if busy is None:
            return "'test-fault busy-thread' does not come to busy_thread()"
        cpus.hold(1 - busy)
        cpus.go(busy)
        if not cpus.run(run.console.at_prompt):
            return "'test-fault busy-thread' does not come to its end"
    text = run.console.wait_ready(HANGS)
    return f"a CPU was held, and the console shows {text!r}" if "watchdog" in text else ""


def instructions(kernel: Kernel, function: str) -> range:
    """The addresses of the function's instructions, without the padding after them."""
    lo, hi = kernel.extent(function)
    while kernel.word(hi - 4) in (0, kernel.isa.nop):
        hi -= 4
    return range(lo, hi, 4)


@cache
def kernel_of(run: Run) -> Kernel:
    elf = run.machine.image_path().with_name("callsite.elf")
    return Kernel(elf, run.machine.arch, any_name=True)


def compressed() -> Step:
    """The guest's gzip prints the same bytes as the same program on the host, and gunzip restores
    the file."""
    def step(run: Run) -> str:
        source, made = (ROOT / f"build/{run.machine.arch}/initrd/data/prose.txt",
                        LOGS / f"prose-{run.machine.arch}.gz")
        program = app_host.build("gzip", app_host.SANITIZE, LOGS / f"host-{run.machine.arch}")
        subprocess.run([str(program), str(source), str(made)], check=True)
        data = made.read_bytes()
        if gzip.decompress(data) != source.read_bytes() or len(data) >= source.stat().st_size:
            return "gzip's output on the host is wrong"
        return (shows("gzip /data/prose.txt /tmp/prose.gz")(run)
                or shows("cksum /tmp/prose.gz", f"^{cksum(data)} {len(data)}\\b")(run))
    return step


def application_cases(arch: str) -> list[Case]:
    data = ROOT / f"build/{arch}/initrd/data"

    def sums(run: Run) -> str:
        for name in ("words.txt", "noise.bin", "empty"):
            digest = hashlib.sha256((data / name).read_bytes()).hexdigest()
            wrong = shows(f"sha256 /data/{name}", f"^{digest}\\b")(run)
            if wrong:
                return wrong
        return ""

    def sorts(run: Run) -> str:
        lines = sorted((data / "words.txt").read_bytes().splitlines(keepends=True))
        text = b"".join(lines)
        return (shows("sort /data/words.txt -o /tmp/sorted")(run)
                or shows("cksum /tmp/sorted", f"^{cksum(text)} {len(text)}\\b")(run))

    def lists_programs(*own: str) -> Step:
        def step(run: Run) -> str:
            listed = re.findall(r"^  (\S+)",
                                run.console.command("help").partition("Programs:\n")[2], re.M)
            want = sorted([*(path.stem for path in (ROOT / "kern/apps").glob("*.c")), *own])
            return "" if listed == want else f"help lists {listed}, not {want}"
        return step

    return [
        Case(
            "applications", arch, smp=4, steps=[
                lists_programs(), sums, sorts,
                compressed(),
                shows("pipeline /data/prose.txt", ": as in one pass")
            ]), *(Case(f"a person's own program on {n} CPUs", arch, f"{FINISHED}-own-program", n, [
                lists_programs("own-program"),
                promises("own-program 'two words' 2"),
                promises("own-program 'two words' 2"),
                works(),
                ended("alone", "Ctrl-C"),
                ended("alone", "kill"),
                ended("together", "Ctrl-C"),
                ended("together", "kill"),
                outlives(),
                ended("locked", "Ctrl-C"),
                ended("locked", "kill"),
                shows("echo 'own_*' > set_ftrace_filter; echo function_graph > current_tracer"),
                ended("alone", "Ctrl-C"),
                ended("together", "kill"),
                outlives(),
                prints("echo nop > current_tracer", ""),
                promises("own-program 'two words' 2"),
                shows("echo own_cpu > set_ftrace_filter; echo function > current_tracer"),
                promises("own-program 'two words' 2"),
                shows("cat trace", r"own-program-\d+ .*: own_cpu <-thread_start$")
            ]) for n in (1, 4))
    ]


# Device trees in which CPUs are missing, refused or in another order: the machine whose tree it is,
# and what fdtput changes in it. riscv64: OpenSBI boots on the hart that cold-boot-harts names. A
# CPU below /cpus/cluster is the first in the tree. OpenSBI does not see it, so it refuses to start
# it. arm64: QEMU boots on the CPU with the id 0, and PSCI refuses an id that no CPU has.
LAST_BOOTS = ("-cp /chosen/opensbi-config", "-ts /chosen/opensbi-config compatible opensbi,config",
              "-tx /cpus/cpu@2 phandle 2222", "-tx /chosen/opensbi-config cold-boot-harts 2222")
REFUSED = (*LAST_BOOTS, "-cp /cpus/cluster/cpu@9", "-tx /cpus/cluster #address-cells 1",
           "-tx /cpus/cluster #size-cells 0", "-ts /cpus/cluster/cpu@9 device_type cpu",
           "-ts /cpus/cluster/cpu@9 mmu-type riscv,sv48", "-tx /cpus/cluster/cpu@9 reg 9")
IDS = tuple(f"-tx /cpus/cpu@{cpu} reg {hwid}" for cpu, hwid in enumerate((1, 7, 0)))
TREES: dict[str, dict[str, tuple[str, ...]]] = {
    "riscv64": {
        "whole": ("virt -smp 4",),
        "without CPU 0": ("virt -smp 3", "-ts /cpus/cpu@0 status disabled"),
        "one of two": ("virt -smp 2", "-ts /cpus/cpu@0 status disabled"),
        "without CPU 0, APLIC": ("virt,aia=aplic -smp 3", "-ts /cpus/cpu@0 status disabled"),
        "without CPU 0, IMSIC": ("virt,aia=aplic-imsic -smp 3", "-ts /cpus/cpu@0 status disabled"),
        "without CPU 1": ("virt -smp 4", "-ts /cpus/cpu@1 status disabled"),
        "a CPU that failed": ("virt -smp 3", "-ts /cpus/cpu@2 status fail"),
        "the last one boots": ("virt -smp 3", *LAST_BOOTS),
        "the last one boots, one is refused": ("virt -smp 3", *REFUSED),
        "a CPU without an id": ("virt -smp 3", "-d /cpus/cpu@0 reg"),
        "not the one that boots": ("virt -smp 2", "-d /cpus/cpu@0 mmu-type"),
    },
    "arm64": {
        "whole": ("virt,gic-version=2 -smp 4",),
        "without CPU 1": ("virt,gic-version=2 -smp 4", "-ts /cpus/cpu@1 status disabled"),
        "a CPU that failed": ("virt,gic-version=2 -smp 3", "-ts /cpus/cpu@2 status fail"),
        "the last one boots": ("virt,gic-version=2 -smp 3", "-tx /cpus/cpu@0 reg 2",
                               "-tx /cpus/cpu@2 reg 0"),
        "the last one boots, one is refused": ("virt,gic-version=2 -smp 3", *IDS),
        "the last one boots, one is refused, GICv3": ("virt,gic-version=3 -smp 3", *IDS),
        "a CPU without an id": ("virt,gic-version=2 -smp 3", "-d /cpus/cpu@1 reg"),
        "not the one that boots": ("virt,gic-version=2 -smp 2", "-ts /cpus/cpu@0 status disabled"),
        "a spin table": ("virt,gic-version=2 -smp 3", "-ts /cpus/cpu@1 enable-method spin-table",
                         "-tx /cpus/cpu@1 cpu-release-addr 0 47fff000"),
    }}


def tree_of(arch: str, name: str) -> Path:
    return LOGS / (re.sub(r"\W+", "-", f"{arch} {name}") + ".dtb")


def make_trees() -> None:
    for arch, trees in TREES.items():
        for name, (machine, *changes) in trees.items():
            made = tree_of(arch, name)
            qemu = [*find(arch).command(), "-nodefaults", "-display", "none"]
            cpu = ["-cpu", "cortex-a72"] if arch == "arm64" else []
            subprocess.run([*qemu, "-M", *machine.split(), *cpu, "-M", f"dumpdtb={made}"],
                           check=True, capture_output=True)
            for change in changes:
                kind, *words = change.split()
                subprocess.run(["fdtput", kind, str(made), *words], check=True)


def cpu_cases(arch: str) -> list[Case]:
    """Which CPUs are used if not all that the device tree lists can be."""
    def case(tree: str, smp: int, used: int, *boot: str, **options: object) -> Case:
        none = prints(f"taskset -c {used} echo", f"taskset: there is no CPU {used}.\n")
        return Case(f"CPUs, {tree}: {used} of {smp}", arch, f"{FINISHED}-tests", smp,
                    options={"extra": ["-dtb", str(tree_of(arch, tree))], **options},
                    boot=[*boot, f": {used} CPU"],
                    steps=[shows("ps", rf"swapper/{used - 1}$"), none, works(cpus=used),
                           promises("test-smp")])

    def refuses(hwid: int) -> str:
        return f"({hwid:x}) does not start (error 19) and is not used."

    def late(cpu: int) -> str:
        return (f"CPU {cpu} ({cpu:x}) does not start (error 110) and is not used.\n"
                "It may still come, so no further CPU is started.")

    refused, boots = "the last one boots, one is refused", {"any_first": True}
    cases = [
        case("without CPU 1", 4, 3),
        case("a CPU that failed", 3, 2),
        case("the last one boots", 3, 3, **boots),
        case("a CPU without an id", 3, 1, "CPU without an id (reg): only the boot CPU", **boots),
        case("not the one that boots", 2, 1, "does not list the boot CPU: only the boot CPU (0)")
    ]
    if arch == "riscv64":
        cases += [case("one of two", 2, 1, **boots), case("without CPU 0", 3, 2, **boots),
                  case("without CPU 0, APLIC", 3, 2, board="virt,aia=aplic", **boots),
                  case("without CPU 0, IMSIC", 3, 2, board="virt,aia=aplic-imsic", **boots),
                  case(refused, 3, 3, refuses(9), **boots), case("whole", 2, 2, late(2))]
    else:
        cases += [case(refused, 3, 2, refuses(7)),
                  case(f"{refused}, GICv3", 3, 2, refuses(7), gic=3),
                  case("whole", 2, 2, refuses(2), refuses(3)), case("a spin table", 3, 1, late(1))]
    many = "The device tree has 12 CPUs: Callsite uses 8, the most that it supports."
    cases.append(Case("CPUs: 8 of 12", arch, smp=12, options={"gic": 3}, steps=[works(cpus=8)],
                      boot=[many, ": 8 CPUs, "]))
    return cases


def kernel_cases(arch: str) -> list[Case]:
    """Boots with several numbers of CPUs, on several machines, and from several places."""
    cases = [
        Case(f"boots on {n} CPUs", arch, smp=n, steps=[lies_at(), works(),
                                                       works(n)]) for n in (1, 4, 8)
    ]
    cases += cpu_cases(arch)
    cases += [Case(f"boots on {n} CPUs, HOOK=mcount", arch, "lab3", n, [works()]) for n in (1, 4)]
    base = ISAS[arch].ram
    for at in (2 * MIB, 4 * MIB, 18 * MIB):
        cases.append(
            Case(f"boots through U-Boot at RAM + {at // MIB} MiB", arch, smp=2,
                 steps=[lies_at(base + at),
                        works()], options={"uboot": True, "load": base + at, "memory": 256}))
    cases += [
        Case(
            "says which boot argument it does not know", arch,
            options={"append": "nonsense=1 stacktrace_filter=nosuchfunction"}, boot=[
                "boot arguments that are not known, ignored: nonsense=1",
                "boot argument 'stacktrace_filter=nosuchfunction' is refused (EINVAL), ignored"
            ]),
        *(Case(f"boots with {gib} GiB", arch, options={"memory": 1024 * gib}, steps=[works()])
          for gib in (1, 4)),
        Case("is idle under -icount", arch, options={"icount": True},
             steps=[rests(), prints("sleep 0.1", ""), rests()]),
        # QEMU 10.0.2's ns16550a may forget its time-out at this speed: bytes after the eighth
        # did not arrive.
        Case("lines of nine bytes", arch, options={"extra": ["-icount", "shift=4"]},
             steps=[prints("echo abcd", "abcd\n")] * 2000)
    ]
    if arch == "riscv64":
        cases.append(
            Case("boots on harts whose A and D bits fault", arch, smp=2,
                 options={"extra": ["-cpu", "rv64,svade=on,svadu=off"]}, steps=[works()]))
        cases += [
            Case(f"boots with aia={aia} on 4 CPUs", arch, smp=4,
                 options={"board": f"virt,aia={aia}"}, steps=[works(), interrupted()])
            for aia in ("aplic", "aplic-imsic")
        ]
        cases += [
            Case(
                "boots with an unknown UART", arch, replace=(rb"ns16550a\0", b"ns16550?\0"), boot=[
                    "no driver for the device tree's console (/soc/",
                    "): the firmware's console is used.", POLLED
                ], steps=[works(), prints("echo typed", "typed\n")]),
            Case("boots without stdout-path", arch,
                 options={"extra": ["-dtb", str(LOGS / "no-stdout.dtb")]}, steps=[works()])
        ]
        cases += [
            Case(f"boots without SBI {name}", arch, smp=4,
                 replace=(asked.to_bytes(8, "little"), bytes(7) + b"?"),
                 boot=[f"no SBI {name}: only one CPU is used", " 1 CPU, "], steps=[works(cpus=1)])
            for name, asked in (("RFENCE", 0x52464E43), ("IPI", 0x735049))
        ]
        # lui: RFENCE's number
        cases.append(
            Case("a fence that the firmware refuses", arch, smp=2,
                 replace=(rb"([\x37\xb7][\x50-\x5f])FR", rb"\1VR"),
                 steps=[shows("echo function > current_tracer", "it did not end")],
                 end="panic: the firmware refuses a fence on other CPUs"))
        cases.append(Case("an IPI that the firmware refuses", arch, smp=2,
                          replace=(rb"([\x37\xb7][\x50-\x5f])s\0", rb"\1t\0"),  # lui: IPI's number
                          steps=[shows("taskset -c 1 echo", "it did not end")],
                          end="panic: the firmware refuses an IPI to CPU 1"))
    if arch == "arm64":
        cases += [
            Case("boots with GICv3", arch, smp=4, steps=[works()], options={"gic": 3}),
            Case("boots with GICv3 on 8 CPUs", arch, smp=8, steps=[works()], options={"gic": 3}),
            Case("enters at EL2", arch, smp=4, steps=[works()], options={"el2": True}),
            Case("enters at EL2 with GICv3", arch, smp=4, steps=[works()],
                 options={"el2": True, "gic": 3}),
            Case("enters at EL2 through U-Boot", arch, smp=2, steps=[works()],
                 options={"el2": True, "uboot": True, "memory": 256})
        ]
    return cases


def framed() -> list[Step]:
    """A command that is asked for runs once, and what it printed can be read again, in frames."""
    def frames(*texts: tuple[str, int, str]) -> str:
        return "".join(f"{kind}1 {n} {zlib.crc32(f'{kind}1 {n} {text}'.encode()):08x} {text}\n"
                       for kind, n, text in texts)

    long = "x" * 170
    said = (":", 0, "a  \"$b\""), (":", 1, "nothing: unknown command; `help` lists the commands.")
    refused = "ask: the last command's number is 1; this one was not run.\n"
    return [
        prints('ask 1 0 "echo no"',
               f"ask: the command's CRC is {zlib.crc32(b'1 echo no'):08x}; it was not run.\n"),
        prints(ask(1, "echo 'a  \"$b\"'; nothing"), "".join(f"{text}\n" for _, _, text in said)),
        *(prints(ask(number, "echo no"), refused) for number in (0, 1, 3)),
        prints("lines 0 9", frames(*said, (".", 2, ""))),
        prints("lines 0 1", frames(said[0])),
        prints("lines 1 9", frames(said[1], (".", 2, ""))),
        prints("lines 2 1", frames((".", 2, ""))),
        prints(
            f"echo {long} > /tmp/long; echo -n {'y' * 160} >> /tmp/long; lines 0 9 /tmp/long",
            frames(("+", 0, long[:160]), (":", 1, long[160:]), ("+", 2, "y" * 160), (".", 3, ""))),
        shows("lines 0 9 /nosuch", r"^lines: /nosuch: No such file"),
        shows("lines 0", "^Usage: lines"),
        shows("ask 1 2", "^Usage: ask"),
        shows(ask(2, "cat /data/prose.txt"), ""),
        shows("lines 9999 99999", r"^\.2 \d+ [0-9a-f]{8} cut$")
    ]


def typing() -> list[Step]:
    """What people and programs type that is no command; the last one while a command runs, when
    nothing is taken out of the ring."""
    return [
        limit(),
        prints("echo alive", "alive\n"),
        noise(),
        interrupted(),
        flood(rest="\u00e4\0\033[1;5C\033[".encode()),
        flood(rest=b"\x03" + b"x" * 2000),
        flood(b"sleep 2\r")
    ]


def loses_nothing(*lines: str) -> Step:
    """After these lines as much memory is free as before."""
    def step(run: Run) -> str:
        used = []
        for _ in range(3):
            for line in lines:
                run.console.command(line, HANGS)
            used.append(run.console.command("free"))
        return f"memory after each time: {used}" if len(set(used[1:])) > 1 else ""
    return step


def pipes() -> list[Step]:
    """Pipelines, lists, and what is refused of them."""
    noise = "cat /data/noise.bin"  # more than a pipe holds
    alone = "only the shell itself can run this, not a job, a pipe or `time`"
    beside = "shell: '|' needs a command before it and after it.\n"
    lists = "shell: '&&' and '||' need a command before and after them.\n"
    return [
        prints("echo a b | cat | wc -w", "2\n"),
        prints("ls / | grep ^s | sort", "sys/\n"),
        prints(f"{noise} | cat | cat > /tmp/n; cksum /data/noise.bin | cut -d ' ' -f 1 > /tmp/a; "
               "cksum /tmp/n | cut -d ' ' -f 1 >> /tmp/a; uniq /tmp/a | wc -l", "1\n"),
        prints("echo one > /tmp/a | wc -c; cat < /tmp/a", "0\none\n"),
        prints("echo two | cat < /tmp/a > /tmp/b; cat /tmp/b", "one\n"),
        # A reader that ends early ends the writers; one that does not read, too.
        prints(f"{noise} | cat | head -n 0; echo $?", "0\n"),
        prints(f"{noise} | echo done; {noise} | sleep 0", "done\n"),
        prints("echo function > current_tracer; cat trace_pipe | head -n 3 | wc -l; "
               "echo nop > current_tracer", "3\n"),
        # The status is the last program's.
        prints("grep x < /tmp/a | cat; echo $?; cat /tmp/a | grep x; echo $?", "0\n1\n"),
        prints("grep -c x /tmp/a || echo none; grep -c one /tmp/a && echo some",
               "0\nnone\n1\nsome\n"),
        prints("grep x /tmp/a && echo a || echo b && echo c", "b\nc\n"),
        prints("echo $? \"$?\" '$?'; # nothing", "0 0 $?\n"),
        prints("nosuch | wc -l; nosuch || echo $?", "nosuch: unknown command; `help` lists the "
               "commands.\n0\nnosuch: unknown command; `help` lists the commands.\n127\n"),
        # In the background there is no input, and the line goes on.
        shows("cat | wc -c & echo on; wait", r"^on$", r"^0$"),
        shows("sleep 60 | sleep 60 & kill $!; wait", r"^\[1\] thread (\d+)$",
              r"^\[1\] done, exit status 130: sleep 60 \| sleep 60 &$"),
        interrupted(f"{noise} | cat | sleep 60"),
        interrupted("sleep 60 | cat | cat"),
        prints("cd /tmp | cat; pwd", f"cd: {alone}.\n/sys/kernel/tracing\n"),
        # What cannot be understood does not run.
        *(prints(line, beside)
          for line in ("| cat", "echo a |", "echo a | | cat", "> /tmp/c | cat")),
        *(prints(line, lists) for line in ("&& echo", "|| echo")),
        prints("echo a &&", f"a\n{lists}"),
        shows("; echo", r"^shell: '&' and ';' need a command before them\.$"),
        prints("echo|" * 16 + "echo", "shell: a pipeline has at most 16 commands.\n"),
        prints("echo|" * 15 + "echo a", "a\n"),
        loses_nothing(f"{noise} | cat | head -n 0", f"{noise} | echo done | sleep 0",
                      "cat /nosuch | cat > /nosuch/x", "echo a | | b",
                      "sleep 60 | cat & kill $!; wait"),
        # Globs, which are the names of files, or stay as they are.
        prints("echo events/*/sched_p*/id 'ev*' ev\\* nosuch*",
               "events/sched/sched_process_exit/id events/sched/sched_process_fork/id ev* ev* "
               "nosuch*\n"),
        prints("cd /tmp; echo two > b.txt; echo one > a.txt; cat *.txt; ls ?.tx*",
               "one\ntwo\na.txt\nb.txt\n"),
        prints("cat *.txt > c.txt; cat c* | wc -l; cat < *.txt",
               "2\ncat: *.txt: No such file or directory (ENOENT)\n"),
        prints("rm ?.txt; echo *.txt > *.txt; cat *.txt; rm *.txt; cd /sys/kernel/tracing",
               "*.txt\n"),
        shows("echo events/*/*/../../*/*/*", r"^shell: there are more than 500 words"),
        loses_nothing("cat events/*/*/enable", "echo nosuch*", "echo events/*/*/../../*/*/* | cat"),
        prints("ps | grep -c shell", "1\n"),
        prints("uname; uname -x", "Callsite\nUsage: uname [-a]\n"),
    ]


def shell_cases(arch: str) -> list[Case]:
    steps = [
        prints("echo hello", "hello\n"),
        prints("echo 'a  b' \"c\"", "a  b c\n"),
        shows("nosuchcommand", "nosuchcommand"),
        prints("echo still here", "still here\n"),
        prints("echo one > /tmp/f", ""),
        prints("echo two >> /tmp/f", ""),
        prints("cat /tmp/f", "one\ntwo\n"),
        shows("cksum /tmp/f", r"^\d+ 8 "),
        shows("cat /nosuchfile", "nosuchfile"),
        shows("gzip /nosuch /tmp/g", r"^gzip: /nosuch: No such file or directory \(ENOENT\)$"),
        shows("cat /data/noise.bin > set_ftrace_filter", r"no function matches '[ -~]+'$"),
        frees_all("gzip /data/prose.txt /tmp/g", "/tmp/g"),
        shows("ls /", "sys"),
        shows("ps", "swapper"),
        shows("help", "current_tracer|echo"),
        prints("cd /data", ""),
        shell_goes_on(),
        prints("pwd; jobs; cd /sys/kernel/tracing", "/data\n"),
        *(shows(f"{line} & ; wait", rf"^{line.split()[0]}: only the shell itself can run this")
          for line in ("wait", "jobs", "kill 1", "cd /tmp")),
        *(shows(f"time {line}", rf"^{line.split()[0]}: only the shell itself can run this")
          for line in ("wait", "jobs", "kill 1", "cd /tmp")),
        prints("pwd; wait", "/sys/kernel/tracing\n"),
        shows("mkdir instances/a; rm instances/a", r"^rm: instances/a: Is a directory \(EISDIR\)"),
        prints("rmdir instances/a; echo x > /tmp/x; rm /tmp/x", ""),
        shows("cat /tmp/x",
              "ENOENT"), *(prints(line, f"Usage: {usage}\n")
                           for line, usage in (("help cat", "help"), ("wait 5", "wait"),
                                               ("cd /tmp /data", "cd [directory]"))),
        shows("cat /tmp/f 2> /tmp/err", "^shell: a redirection has no number"),
        shows("ls /tmp/err", "ENOENT"),
        *(prints(line, "") for line in
          ("echo p:g/one schedule > dynamic_events; cd events/g; echo > ../../dynamic_events; cd "
           "../..",
           "echo p:g/two schedule > dynamic_events; echo 1 > events/g/enable; echo 0 > "
           "events/g/enable; echo > dynamic_events"
           )),
        shows("ls events/g", "ENOENT"),
        shows(
            f"cat /lib/modules/{arch}/stone.ko > /tmp/f.ko; insmod /tmp/f.ko; lsmod > "
            f"dynamic_events",
            r"^lsmod: dynamic_events: .*\(EINVAL\)$"),
        shows("lsmod; rmmod f; rm /tmp/f.ko", r"^f  +\d+  0$"),
        stack_among(300), *framed()
    ]
    graph = "echo function_graph > current_tracer"
    return [
        Case("shell", arch, smp=2, steps=steps),
        *(Case(f"pipes, CPUs {smp}", arch, smp=smp, steps=pipes()) for smp in (1, 4)),
        *(Case(f"typing, CPUs {smp}", arch, smp=smp, steps=typing()) for smp in (1, 4)),
        Case("a grace period and a thread that is held", arch, smp=2,
             steps=[grace_period(graph),
                    prints("echo nop > current_tracer", ""),
                    works()]),
        Case("an instance goes during a hit", arch, smp=2, steps=[instance_goes]),
        Case(
            "an event is disabled, but not in every instance", arch, smp=2, steps=[
                *(prints(line, "")
                  for line in ("mkdir instances/a", "echo p:kt/e nosuch:function > dynamic_events",
                               "echo p:kt/e file_open >> dynamic_events",
                               "echo 1 > instances/a/events/kt/e/enable",
                               "echo 1 > events/kt/e/enable")),
                grace_period("echo 0 > events/kt/e/enable"),
                prints("rmdir instances/a; echo > dynamic_events", "")
            ]), *(Case(f"frames under {name}", arch, variant, 2, [
                shows(f"{begin}; frames; {end}",
                      r"^frames: function_graph is in use: Device or resource busy \(EBUSY\)$"),
                prints("frames", ""),
                *(meanwhile("frames", place, f"{begin}; {end}")
                  for place in ("ftrace_set_filter", "frames_call", "unregister_ftrace_graph")),
                works(),
                prints("cat current_tracer", "nop\n")
            ]) for name, variant, begin, end in (
                ("function_graph", FINISHED, graph, "echo nop > current_tracer"),
                ("lab 5's function_graph", "lab5-tests", graph, "echo nop > current_tracer"),
                ("the profiler", FINISHED, "echo 1 > function_profile_enabled",
                 "echo 0 > function_profile_enabled"))),
        Case("entry's disabled record, which a tracer selects meanwhile", arch, "lab4-tests", 2, [
            meanwhile("entry", "entry_disabled",
                      "echo entry_traced > set_ftrace_filter; echo function > current_tracer"),
            prints("echo nop > current_tracer; cat enabled_functions", ""),
            prints("entry; cat enabled_functions", ""),
            shows("echo function > current_tracer; cat enabled_functions", r"^entry_traced \(1\)"),
            shows("entry", r"^entry: register_ftrace_function: Device or resource busy \(EBUSY\)$"),
            prints("echo nop > current_tracer; cat enabled_functions", "")
        ]), *(Case(f"{program}, twice at once", arch, variant, 2,
                   [*(twice(program, place)
                      for place in places), works()])
              for program, variant, *places in (("frames", FINISHED, "ftrace_set_filter",
                                                 "frames_call", "unregister_ftrace_graph"),
                                                ("entry", "lab4-tests", "ftrace_set_filter",
                                                 "call_traced", "unregister_ftrace_function")))
    ]


def board_cases(arch: str) -> list[Case]:
    """QEMU's models of boards: the SoC has four CPUs, its own addresses, UART and interrupt
    controller, and cannot be turned off."""
    cases, readme = [], (ROOT / "README.md").read_bytes()
    traces = [
        shows("ps", "swapper/3"),
        works(cpus=4),
        shows("cksum /README.md", f"^{cksum(readme)} {len(readme)} "),
        interrupted(),
        shows("echo 'wl_*n*' > set_ftrace_filter; echo function > current_tracer"),
        works(1, 4),
        shows("cat trace", *(rf"\[00{cpu}\] .* wl_\w+ <-" for cpu in range(4)))
    ]
    if arch == "riscv64":
        cases.append(
            Case("boots on the HiFive Unleashed", arch, smp=5, end="",
                 boot=["Unleashed A00: 4 CPUs"],
                 options={"board": "sifive_u", "memory": 1024,
                          "extra": ["-bios", FIRMWARE]}, steps=[*traces, stands_still()]))
    else:
        cases.append(
            Case(
                "boots on the Raspberry Pi 3", arch, smp=4, end="",
                boot=["Raspberry Pi 3: 4 CPUs",
                      "no PSCI: the machine cannot be turned off"], options={
                          "board": "raspi3b", "memory": 1024,
                          "extra": ["-dtb", str(LOGS / "raspi3b.dtb")]
                      }, steps=[lies_at(), *traces, stands_still()]))
    for uart in ("ns16550a", "snps,dw-apb-uart") if arch == "riscv64" else ():
        log = LOGS / f"icicle-{uart}.trace"
        options = {
            "board": "microchip-icicle-kit", "memory": 1537, "extra": [
                "-bios", FIRMWARE, "-dtb",
                str(LOGS / f"icicle-{uart}.dtb"), "-trace", "memory_region_ops_*", "-D",
                str(log)
            ]
        }
        cases.append(Case(f"Icicle kit, {uart}", arch, smp=5, options=options, end="",
                          boot=["Icicle kit: 4 CPUs", "cannot be turned off"], steps=[
            *traces, wide_accesses(log), stands_still()]))
    return cases


def twice_alone(command: str, cpus: int) -> list[Step]:
    """On one CPU the command also runs a second time: it must not rely on the state after boot."""
    return [promises(command)] * (2 if cpus == 1 else 1)


# arm64: a word in a function's body is written while the other CPUs are stopped. The trace shows
# who stops them.
STOPS = (
    "echo stop_machine > set_ftrace_filter; echo function > current_tracer; echo 'p:body "
    "file_open+16' > kprobe_events; "
    "echo 1 > events/kprobes/body/enable; cat trace; echo 0 > events/kprobes/body/enable; echo > "
    "kprobe_events; echo nop > current_tracer"
)


def traced_cases(arch: str) -> list[Case]:
    """The tests inside the kernel (TESTS=1), and mistakes that must end in a panic."""
    # fire: seconds of guest time, which is 8 times as fast with TURNS
    turns, fire = (TURNS, 24) if arch == "riscv64" else ({}, 3)
    return [
        Case("ops, registers, recursion", arch, f"{FINISHED}-tests", 4,
             [promises("kt_ops"), shows("kt_sites", ", 0 unlike their record")], options=turns),
        # Lab 2 has lab 1's _mcount, and lab 7 the finished kernel's way to a callback.
        *(Case(f"registers that are live at an entry, lab {lab}", arch, f"lab{lab}-tests", 1,
               [promises("kt_live")]) for lab in (1, 3, 4, 5, 6, 8)),
        *(Case(f"fprobe and kretprobe on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [*twice_alone("kt_fprobe", n),
                shows("kt_sites", ", 0 unlike their record")], options=turns) for n in (1, 4)),
        # With a thread for each CPU QEMU may see half of a word on riscv64, and translate the old
        # word once more if the host stops the writer just then.
        Case("a call site that changes while it is called", arch, f"{FINISHED}-tests", 2,
             [promises("kt_fresh 300"), works()], options=TURNS),
        *(Case(f"live patches on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [*twice_alone("kt_livepatch", n),
                shows("kt_sites", ", 0 unlike their record")], options=TURNS) for n in (1, 4)),
        *(Case(f"function_graph's users on {n} CPUs", arch, f"{FINISHED}-tests", n,
               twice_alone("kt_graph", n), options=turns) for n in (1, 4)),
        *(Case(f"functions that are left by a jump, lab {lab} on {n} CPUs", arch, f"lab{lab}-tests",
               n, [*twice_alone("kt_jump", n), works()], options=turns)
          for lab, n in ((5, 1), (6, 4), (8, 1), (8, 4))),
        *(Case(f"lab 5's function_graph on {n} CPUs", arch, "lab5-tests", n, [
            promises("kt_graph"),
            promises("test-unwind function function_graph"),
            promises("hostile 5 3"),
            shows("kt_sites", ", 0 unlike their record"),
            shows(
                "echo sleep_ns > set_ftrace_filter; echo function_graph > current_tracer; sleep "
                "0.2; "
                "echo 0 > options/sleep-time; sleep 0.2; sleep 0.2; cat trace; echo nop > "
                "current_tracer",
                r"^ \d\) [@$] [\d.]+ us +\|  sleep_ns\(\);\n[\s\S]*^ \d\) [^@$] +[\d.]+ us +\|  "
                r"sleep_ns\(\);\n"
            ),
            shows("kt_graph_bad_frame", "graph tracing is off for good", "^4 passed, 0 failed"),
            works()
        ], options=turns) for n in (1, 4)),
        Case("the parent of a tail call out of a graph-traced function", arch, f"{FINISHED}-tests",
             1, [
                 *(prints(line, "")
                   for line in ("mkdir instances/f",
                                "echo kt_graph_leaf > instances/f/set_ftrace_filter",
                                "echo function > instances/f/current_tracer",
                                "echo kt_graph_tail > set_ftrace_filter",
                                "echo function_graph > current_tracer")),
                 shows("kt_graph", "ok     a tail call comes back"),
                 parents("instances/f/trace", "kt_graph_leaf", "graph_command",
                         not_by="return_to_handler")
             ]),
        Case("a return that fits no call", arch, f"{FINISHED}-tests", 2, [
            shows("kt_graph_bad_frame", "graph tracing is off for good"),
            shows("echo function_graph > current_tracer", "No such device"),
            shows("cat current_tracer", "^nop")
        ]),
        Case("threads that outlast their files", arch, f"{FINISHED}-tests", 2,
             [promises("test-app"),
              prints("cat /tmp/app_kt; rm /tmp/app_kt", "late\n")]),
        Case("settings while the tracer changes", arch, f"{FINISHED}-tests", 2,
             [promises("test-options")], options=turns),
        Case("ring buffers under fire", arch, f"{FINISHED}-tests", 4, [promises("test-buffer")]),
        *(Case(f"snapshots under fire, {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("test-snapshot")]) for n in (1, 4)),
        *(Case(f"threads on {n} CPUs", arch, f"{FINISHED}-tests", n, [promises("test-sched")])
          for n in (1, 4, 8)),
        *(Case(f"unwinding from interrupts on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("test-unwind function function_graph")]) for n in (2, 4)),
        *(Case(f"unwinding from handlers on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("test-unwind-graph")]) for n in (1, 4)),
        Case("unwinding from every instruction of the tracer", arch, f"{FINISHED}-tests", 2,
             [from_each_instruction("ftrace_caller", "return_to_handler")]),
        Case("unwinding from every instruction of lab 5's tracer", arch, "lab5-tests", 2,
             [from_each_instruction("ftrace_caller", "return_to_handler", "ftrace_graph_caller")]),
        Case("unwinding from interrupts, HOOK=mcount", arch, "lab3-tests", 2,
             [promises("test-unwind function")]),
        *(Case(f"a stopped machine of {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("test-stop")]) for n in (1, 2, 4)),
        Case("a CPU that comes too late to be stopped", arch, f"{FINISHED}-tests", 2,
             [promises("test-stop late")], options=FAST_CLOCK),
        Case("threads that exit while they are woken up", arch, f"{FINISHED}-tests", 2,
             [dies_while_woken]),
        Case("a stopped machine with an IPI on its way", arch, f"{FINISHED}-tests", 3,
             [stops_a_sender]),
        Case("an fprobe that is registered while a module is removed", arch, f"{FINISHED}-tests", 2,
             [
                 unloaded_meanwhile(
                     "kt_fprobe_glob maple_*", ("ftrace_set_put", "module_is_going"),
                     shows("wait; kt_fprobe_glob maple_*", "^kt_fprobe_glob: .*No such file"))
             ]),
        Case("the profiler, started while a module is removed", arch, f"{FINISHED}-tests", 2, [
            unloaded_meanwhile("echo 1 > function_profile_enabled", ("ftrace_total", "kzalloc"),
                               shows("wait; cat trace_stat/function0", "^  Function  "))
        ]),
        Case("a module's thread that is woken twice", arch, f"{FINISHED}-tests", 2,
             [woken_twice()]),
        Case("the records, searched by a program while a module is removed", arch,
             f"{FINISHED}-tests", 2, [searched_meanwhile]),
        Case("a file of /ram that is removed twice", arch, f"{FINISHED}-tests", 2,
             [removed_twice()]),
        Case("a file of /ram that is removed before it is opened", arch, f"{FINISHED}-tests", 2,
             [removed_before_opened]),
        Case("a file of a module whose init fails", arch, f"{FINISHED}-tests", 2,
             [file_of_a_refused_module]),
        Case("events of a probe that is gone", arch, f"{FINISHED}-tests", 2, [removed_event]),
        *(Case(f"modules on {n} CPUs", arch, f"{FINISHED}-tests", n, [
            promises("test-module"),
            shows("test-module failing-init", "^" + waits("mt_probed", "a kprobe is in it")),
            shows(
                "insmod mt_faults after=op; rmmod mt_faults; lsmod; cat /mt_faults; echo function "
                "> current_tracer; echo nop > current_tracer",
                r"^thread \d+ \(insmod\) ends: read from a NULL pointer \(address 0x8\), at "
                r"mt_read\+0x\w+/0x\w+ \[mt_faults\]$",
                r"^  \[<\w+>\] mt_read\+0x\w+/0x\w+ \[mt_faults\]$",
                "^module mt_faults: its init faulted$", "^" + stays("mt_faults", REGISTERED),
                r"^insmod: mt_faults: .*\(EFAULT\)$", r"^rmmod: mt_faults: .*\(EBUSY\)$",
                r"^mt_faults +\d+  0 \(Unloading\)$", r"^cat: /mt_faults: .*\(ENOENT\)$"),
            shows(
                f"cat /lib/modules/{arch}/mt_faults.ko > /tmp/f2.ko; insmod /tmp/f2.ko "
                f"after=thread; lsmod",
                "^" + stays("f2", r"thread \d+ \(mt_faults\) is inside"), "^f2 +"), gives_up,
            shows("insmod mt_stays; rmmod mt_stays; lsmod",
                  r"^module mt_stays: it has no module_exit\(\)$",
                  r"^rmmod: mt_stays: .*\(EBUSY\)$", "^mt_stays +")
        ], options=turns) for n in (1, 4)),
        *(Case(f"modules that stay, {n} CPUs", arch, f"{FINISHED}-tests", n, DO_NOT_GO,
               options=turns) for n in (1, 4)),
        Case("a module whose CPU does not stop", arch, f"{FINISHED}-tests", 2, DOES_NOT_STOP,
             options=FAST_CLOCK),
        *(Case(f"everything at once on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("test-smp")], options=turns) for n in (1, 4)),
        Case("hostile to function_graph, one CPU", arch, f"{FINISHED}-tests", 1,
             [promises("hostile_graph 3 7")]),
        Case("hostile to function_graph, four CPUs", arch, f"{FINISHED}-tests", 4,
             [promises(f"hostile_graph {fire} 1")], options=turns),
        *(Case(f"kprobes on {n} CPUs", arch, f"{FINISHED}-tests", n, [
            promises("kt_kprobe"),
            shows("kt_sites", ", 0 unlike their record"),
            *([shows(STOPS, ": stop_machine <-")] if arch == "arm64" else [])
        ], options=turns) for n in (1, 4)),
        *(Case(f"probe events on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("kt_probe_events"),
                shows("kt_sites", ", 0 unlike their record")], options=TURNS) for n in (1, 4)),
        *(Case(f"static events on {n} CPUs", arch, f"{FINISHED}-tests", n,
               [promises("kt_static_events"),
                shows("kt_sites", ", 0 unlike their record")], options=TURNS) for n in (1, 4)),
        Case("hostile, one CPU", arch, f"{FINISHED}-tests", 1, [promises("hostile 3 7")]),
        Case("hostile, four CPUs", arch, f"{FINISHED}-tests", 4, [promises(f"hostile {fire} 1")],
             options=turns),
        Case("call sites, HOOK=mcount", arch, "lab3-tests", 2,
             [shows("kt_sites", ", 0 unlike their record")]),
        Case("a store into text", arch, f"{FINISHED}-tests", 1,
             [lambda run: run.console.command("kt_store") and "kt_store returned"],
             end="panic: write to"),
    ]


def memory_cases(arch: str) -> list[Case]:
    """The promises of the allocators and the page tables, and machines with wrong descriptions of
    memory."""
    def typed(command: str) -> Step:
        return lambda run: run.console.command(command) and f"'{command}' returned"

    cut = LOGS / f"cut-{arch}.cpio"
    broken = [
        Case("an initrd cut short", arch, options={"initrd": cut},
             steps=[shows("ls /", "README.md")], boot=["initrd: cut short inside a file"])
    ]
    if arch == "riscv64":  # QEMU puts its own memory node into every tree for arm64
        def tree(name: str, memory: int = 128) -> dict[str, object]:
            return {"memory": memory, "extra": ["-dtb", str(LOGS / f"{name}.dtb")]}

        broken += [
            Case("a device tree without memory", arch, options=tree("no-memory"),
                 end="boot: there is no memory to work with"),
            Case(
                "memory that begins elsewhere", arch, options=tree("memory-elsewhere"), end=
                "no memory node that holds the kernel at 0x80200000\nboot: there is no memory to "
                "work with"
            ),
            Case(
                "an initrd that is the kernel's, too", arch,
                options={**tree("initrd-in-kernel"), "initrd": None},
                steps=[shows("echo alive", "^alive$")], boot=[
                    "initrd: 0x80210000 to 0x80211000 is also the kernel's or the device tree's: "
                    "ignored"
                ]),
            Case("a device tree without a timer", arch, options=tree("no-timebase"),
                 end="panic: The device tree has no /cpus/timebase-frequency"),
            Case("memory in forty pieces", arch, steps=[works()], options=tree("pieces", 512))
        ]
    else:
        broken.append(
            Case("no console that is known: the machine is reset", arch,
                 replace=(rb"arm,pl011\0", b"arm,pl01?\0"), end=r"\Areboot loop: the guest reset"))
    def console(name: str) -> dict[str, object]:
        return {"extra": ["-dtb", str(LOGS / f"{name}-{arch}.dtb")]}

    broken += [
        Case("a console with 14 GiB of registers", arch, options=console("too-many-registers"),
             steps=[works()]),
        Case(
            "a console without registers", arch, options=console("no-registers"), steps=[works()],
            boot=[
                "ioremap: a device at 0x5555000 cannot have 0 bytes",
                "no driver for the device tree's console (/serial@5555000): another one is used."
            ])
    ]
    return [
        Case(f"memory on {n} CPUs", arch, f"{FINISHED}-tests", n, twice_alone("test-memory", n),
             {"memory": m}) for n, m in ((1, 64), (4, 1024))
    ] + [
        Case(f"memory of modules on {n} CPUs", arch, f"{FINISHED}-tests", n,
             twice_alone("test-module-memory", n), TURNS if arch == "riscv64" else {})
        for n in (1, 4)
    ] + [
        Case("an object used after it was freed", arch, f"{FINISHED}-tests-debug", 1,
             [typed("break-memory")],
             end="panic: kmalloc: the 128-byte object at [0-9a-f]+ was written after it was freed"),
        Case("an object freed twice", arch, f"{FINISHED}-tests-debug", 1,
             [typed("break-memory twice")],
             end="panic: kfree: the 128-byte object at [0-9a-f]+ was already freed"), *broken
    ]


def make_broken() -> None:
    """Make half an initrd, and device trees: without memory, without some CPUs, of another board.
    """
    whole = initrd_of(ARCHES[0]).read_bytes()
    for arch in ARCHES:
        (LOGS / f"cut-{arch}.cpio").write_bytes(whole[:len(whole) // 2])
    tree = LOGS / "machine.dtb"
    qemu = [*find("riscv64").command(), "-display", "none"]
    subprocess.run([*qemu, "-M", f"virt,dumpdtb={tree}"], check=True, capture_output=True)
    make_trees()
    (LOGS / "no-stdout.dtb").write_bytes(tree.read_bytes().replace(b"stdout-path\0",
                                                                   b"stdin-paths\0"))
    subprocess.run([
        "dtc", "-q", "-O", "dtb", "-o",
        str(LOGS / "raspi3b.dtb"),
        str(ROOT / "kern/tests/raspi3b.dts")
    ], check=True)
    subprocess.run([
        *find("arm64").command(), "-nodefaults", "-display", "none", "-cpu", "cortex-a72", "-M",
        f"virt,gic-version=2,dumpdtb={LOGS / 'machine-arm64.dtb'}"
    ], check=True, capture_output=True)
    for arch, (source, uart, address) in UARTS.items():
        none, many = LOGS / f"no-registers-{arch}.dtb", LOGS / f"too-many-registers-{arch}.dtb"
        none.write_bytes((LOGS / source).read_bytes())
        many.write_bytes((LOGS / source).read_bytes())
        for made, *change in ((many, "-tx", uart, "reg", "0", address, "3", "80000000"),
                              (none, "-c", "/serial@5555000"), (none, "-ts", "/serial@5555000",
                                                                "compatible", "arm,sbsa-uart"),
                              (none, "-tx", "/serial@5555000", "reg", "0", "5555000", "0",
                               "0"), (none, "-ts", "/chosen", "stdout-path", "/serial@5555000")):
            subprocess.run(["fdtput", change[0], str(made), *change[1:]], check=True)
    icicle = (ROOT / "kern/tests/icicle.dts").read_text()
    for uart in ("ns16550a", "snps,dw-apb-uart"):
        subprocess.run(["dtc", "-q", "-O", "dtb", "-o",
                        str(LOGS / f"icicle-{uart}.dtb")], check=True, text=True,
                       input=icicle.replace("ns16550a", uart))
    (LOGS / "no-memory.dtb").write_bytes(tree.read_bytes().replace(b"memory\0\0", b"nothin\0\0"))
    pieces = [f"0 {0x84001000 + n * 2 * MIB:x} 0 {MIB:x}" for n in range(40)]
    memory = "/memory@80000000 reg"
    for name, change in (("memory-elsewhere",
                          f"{memory} 0 90000000 0 8000000"), ("pieces", " ".join([
                              memory, "0 80000000 0 4000000", *pieces, "0 90000000 0 8000000"
                          ])), ("initrd-in-kernel", "/chosen linux,initrd-start 80210000"),
                         ("initrd-in-kernel", "/chosen linux,initrd-end 80211000"),
                         ("no-timebase", "/cpus timebase-frequency 0")):
        made = LOGS / f"{name}.dtb"
        if "end" not in change:
            made.write_bytes(tree.read_bytes())
        subprocess.run(["fdtput", "-t", "x", str(made), *change.split()], check=True)


DEEP = r".* recurse\+0x.*\n +\.\.\. the line above repeats 299 times\n"


def deep_stack(run: Run) -> str:
    """`ps -s` says once how often a line repeats, and goes on to the end of the stack."""
    text = until(run.console, "ps -s", "repeats 299 times")
    want = rf" sleep_ns\+0x.*\n.* recurse\+0x.*\n{DEEP}.* deep_thread\+0x.*\n.* thread_start\+0x"
    return "" if re.search(want, text) else f"'ps -s' does not show '{want}' but:\n{text[-2000:]}"


def panic_cases(arch: str) -> list[Case]:
    """Each mistake ends in a panic that names the mistake and the place where it was made."""
    kinds = {
        "text": r"panic: write to read-only kernel text at 0xffffffff8[\s\S]*write_text\+0x",
        "linear-text": r"panic: write to read-only kernel text at 0xffffffc0",
        "rodata": r"panic: write to read-only kernel constants at 0xffffffff8",
        "null": r"panic: read from a NULL pointer \(address 0x8\)",
        "unmapped": r"panic: read from an unmapped address, 0xffffffff7ffff000",
        "execute": r"panic: execution of non-executable kernel data at "
                   r"0xffffffff8[\s\S]*test_fault\+0x",
        "far": r"panic: execution of an unmapped address, 0xfffffeff8",
        "illegal": r"panic: (illegal|undefined) instruction[\s\S]*illegal_instruction\+0x",
        "break": r"panic: (ebreak|brk)[\s\S]*break_point\+0x",
        "overflow": r"panic: the stack of thread \d+ \(shell\) overflowed[\s\S]* "
                    r"overflow_stack\+0x.*\n  \.\.\. the line above repeats \d+ times\n"
        r".* test_fault\+0x[\s\S]* thread_start_asm\+0x.*\nend of panic",
        "recursion": rf"panic: at depth\n.*\nCall trace:\n.* panic_now\+0x.*\n.* "
                     rf"recurse\+0x.*\n{DEEP}.* test_fault\+0x[\s\S]* thread_start_asm\+0x.*\nend "
                     rf"of panic",
        "recursion-of-two": r"panic: at depth\n.*\nCall trace:\n.* panic_now\+0x.*\n.* "
                            r"recurse_even\+0x.*\n(.* recurse_odd\+0x.*\n.* recurse_even\+0x.*\n)"
        r"  \.\.\. the 2 lines above repeat 99 times\n.* test_fault\+0x[\s\S]* "
        r"thread_start_asm\+0x.*\nend of panic",
        "leaf": r"panic: in an "
                r"interrupt[\s\S]*spinning_leaf\+0x.*\n.*spinning_thread\+0x.*\n.*thread_start\+0x",
        "yield": r"panic: schedule\(\) in a context that may not "
                 r"sleep[\s\S]*yield_unpreemptible\+0x",
        "move": r"panic: schedule\(\) in a context that may not sleep[\s\S]*move_unpreemptible\+0x",
        "call": r"panic: smp_call\(\): CPU 2 is not online[\s\S]*smp_call\+0x",
        "devices": r"test-fault devices\s*reboot loop: the guest reset",
    }

    of_modules = {
        "text": r"panic: write to read-only module text at 0xffffffff8[\s\S]*break_module\+0x",
        "rodata": r"panic: write to read-only module memory at 0xffffffff8[\s\S]*break_module\+0x",
        "data": r"panic: execution of non-executable module memory at "
                r"0xffffffff8[\s\S]*break_module\+0x",
        "call": r"panic: from a module\n[\s\S]*\] fail\+0x.*\n.*\] kt_visit\+0x1[4c]/0x100 "
                r"\[kt_a\]\n.*\] break_module\+0x",
    }
    programs = {
        "inside": r"panic: free: malloc\(\) did not return ffffffc0\w+8$",
        "within": r"panic: free: malloc\(\) did not return ffffffc0\w+0, or it was already freed$",
        "zeroed": r"panic: free: malloc\(\) did not return ffffffc0\w+0, or it was already freed$",
        "static": r"panic: free: malloc\(\) did not return ffffffff8\w+$",
        "local": r"panic: free: malloc\(\) did not return ffffff\w+$",
        "nowhere": r"panic: free: malloc\(\) did not return 0{12}1234$",
        "twice": r"panic: free: the object at ffffffc0\w+ was already freed$",
        "large": r"panic: free: malloc\(\) did not return ffffffc0\w+, or it was already freed$",
        "interrupt": r"panic: interrupt_call: the function allocates[^\n]*\nCPU 1, ",
        "odd": r"panic: (illegal instruction|misaligned instruction address) at 0xffffffff8\w+( "
               r"\(0x0\))?$",
    }

    def types(kind: str, program: str = "test-fault") -> Step:
        return lambda run: run.console.command(f"{program} {kind}", 30
                                               ) and f"{program} {kind} returned"

    def panics(run: Run) -> str:
        run.console.command("echo function_graph > current_tracer; mkdir instances/g; "
                            "echo function_graph > instances/g/current_tracer")
        return run.console.command("panic under graph tracing") and "it did not"

    callers = ("panic_main", "shell_run_words", "run_command", "shell_run_line", "shell_main",
               "thread_start", "thread_start_asm")
    walk = "Call trace:\n" + "".join(rf".*\] {name}\+0x[1-9a-f].*\n"
                                     for name in callers) + "end of panic"
    return [
        *(Case(f"panic: {kind}", arch, f"{FINISHED}-tests", 2, [types(kind)], end=patterns)
          for kind, patterns in kinds.items()),
        *(Case(f"panic: a module's {kind}", arch, f"{FINISHED}-tests", 2,
               [types(kind, "break-module")], end=patterns)
          for kind, patterns in of_modules.items()),
        *(Case(
            f"panic: a module's init, with {what}", arch, f"{FINISHED}-tests", 2,
            [types(f"mt_faults after={what}", "insmod")], end=
            r"panic: read from a NULL pointer \(address 0x8\)\nCPU [01], thread \d+ \(insmod\), at "
            r"mt_read\+0x.*\[mt_faults\]\n"
        ) for what in ("mutex", "preemption", "interrupts", "queue")),
        *(Case(f"a program's mistake: {kind}", arch, f"{FINISHED}-own-program", 2,
               [types(kind, "own-program mistake")], end=rf"(?m){pattern}")
          for kind, pattern in programs.items()),
        Case("panic: while another CPU prints", arch, f"{FINISHED}-tests", 2, [panics_meanwhile],
             {"extra": ["-icount", "shift=0"]},
             end=r"panic: now\nCPU 0, thread \d+ \(shell\), at "),
        Case(
            "a program's mistake: threads", arch, f"{FINISHED}-own-program", 2,
            options={"memory": 256}, steps=[
                shows("own-program mistake threads", "^threads: Resource temporarily unavailable$"),
                shows("sleep 1 & ; echo alive &",
                      r"^echo: not started: Resource temporarily unavailable \(EAGAIN\)$")
            ]),
        *(Case(f"a CPU that is {kind}, of {n}", arch, f"{FINISHED}-tests", n,
               [stuck(kind, n - 1, function, thread), works()], options=FAST_CLOCK)
          for kind, function, thread, counts in (
              ("stuck", "spin", r"[/a-z0-9]+:\d+",
               (2, 4)), ("stuck-thread", "spin_unpreemptible", r"spinner:\d+",
                         (1, 2)), ("stuck-masked", "spin_masked", r"spinner:\d+", (2, 4)))
          for n in counts),
        *(Case(f"the stack of a thread in a recursion, {n} CPUs", arch, f"{FINISHED}-tests", n,
               [prints("test-fault deep-thread", ""), deep_stack]) for n in (1, 4)),
        Case("a CPU that is not stuck", arch, f"{FINISHED}-tests", 2,
             [prints("test-fault busy-thread", ""), held_long], options=FAST_CLOCK),
        *(Case(f"panic: its callers under graph tracing, {n} CPUs", arch, FINISHED, n, [panics],
               end=rf"panic: under graph tracing\n[\s\S]*{walk}") for n in (1, 4))
    ]


def soak_cases(arch: str) -> list[Case]:
    """Ten minutes of cases for which `make test` has half a minute; each day has another seed."""
    day = int(time.time()) // 86400
    return [
        Case("ten hostile minutes", arch, f"{FINISHED}-tests", 4, [
            promises(f"hostile_graph 400 {day}", 800),
            promises(f"hostile 200 {day}", 400),
            promises("kt_graph")
        ])
    ]


def cases() -> list[Case]:
    return [
        case for arch in ARCHES
        for make in (kernel_cases, board_cases, shell_cases, application_cases, memory_cases,
                     traced_cases, panic_cases) for case in make(arch)
    ]


def build(wanted: list[Case]) -> str:
    """Make every build that the cases use. Returns the output of a make that failed, or ""."""
    for arch, variant in sorted({(c.arch, c.variant) for c in wanted}):
        image = f"build/{arch}/{variant}/Image"
        options = [
            f"ARCH={arch}", f"LAB={variant[3]}", *(["TESTS=1"] if "-tests" in variant else []),
            *(["DEBUG=1"] if "-debug" in variant else []),
            *(["APP=kern/tests/own-program.c"] if "own-program" in variant else [])
        ]
        initrd = initrd_of(arch, "-tests" in variant).relative_to(ROOT)
        made = subprocess.run(["make", "-s", "-j2", *options, image, str(initrd)], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        if made.returncode:
            return f"make {' '.join(options)} {image}:\n{made.stdout[-1500:]}{made.stderr[-1500:]}"
    return ""


def image_of(case: Case, log: Path) -> Path:
    image = ROOT / "build" / case.arch / case.variant / "Image"
    if not case.replace:
        return image
    data, found = re.subn(*case.replace, image.read_bytes())
    if not found:
        raise Stopped(Verdict.FAIL, f"{case.replace[0]!r} is not in {image}")
    log.with_suffix(".Image").write_bytes(data)
    return log.with_suffix(".Image")


def run_case(case: Case) -> str:
    """Run the case. Returns "", or what is wrong."""
    log = LOGS / (case.full_name.replace(" ", "-").replace(",", "").replace("/", "-") + ".log")
    try:
        initrd = initrd_of(case.arch, "-tests" in case.variant)
        machine = Machine(case.arch, case.smp, image=image_of(case, log),
                          **{"initrd": initrd, **case.options})  # type: ignore[arg-type]
        with Run(machine, log) as run:
            text = run.console.wait_ready(HANGS)
            missing = [p for p in case.boot if p not in text]
            if missing:
                return f"the boot does not show '{missing[0]}' but:\n{text[-800:]}"
            if POLLED in text and POLLED not in case.boot:
                return "the console's input is polled"
            for step in case.steps:
                wrong = step(run)
                if wrong:
                    return wrong
            if case.end == "poweroff":
                run.power_off()
            if not case.end:
                return ""
    except Stopped as stopped:
        if case.end not in ("", "poweroff") and re.search(
                case.end, f"{log.read_text(errors='replace')}{stopped}"):
            return ""
        return f"{stopped}\n     log: {log}"
    return "" if case.end == "poweroff" else f"it should have ended with '{case.end}'"


def end_with_parent() -> None:
    """End this process, which runs cases, when its parent ends; its machine ends with it."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


@cache
def by_name() -> dict[str, Case]:
    return {c.full_name: c for c in [*cases(), *(c for arch in ARCHES for c in soak_cases(arch))]}


def part_of(case: Case) -> str:
    return "long" if case.name.startswith(LONG) else "short"


def reported(name: str) -> bool:
    case = by_name()[name]
    began, used = time.monotonic(), sum(os.times()[:4])
    try:
        wrong = run_case(case)
    except Exception:  # a case's own mistake: the other cases still run
        wrong = traceback.format_exc()
    took = f"{time.monotonic() - began:.1f} s, {sum(os.times()[:4]) - used:.1f} s of a processor"
    print(
        f"FAILED {case.full_name}\n{textwrap.indent(wrong, '     ')}"
        if wrong else f"ok     {case.full_name} ({took})", flush=True)
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", help="cases whose name contains all of these words")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-build", action="store_true")
    parser.add_argument("--only-build", action="store_true")
    parser.add_argument("--part", choices=("short", "long"),
                        help="the cases of `make test`, or those of `make test-long`")
    parser.add_argument("--soak", action="store_true",
                        help="ten minutes of toggling under load, and nothing else")
    options = parser.parse_args()
    all_cases = [c for arch in ARCHES for c in soak_cases(arch)] if options.soak else cases()
    wanted = [
        c for c in all_cases
        if all(w in c.full_name for w in options.only) and options.part in (None, part_of(c))
    ]
    wrong = "" if options.no_build else build(wanted)
    if wrong:
        print(f"FAILED build: {wrong}\n0 passed, 1 failed")
        return 1
    if options.only_build:
        return 0
    LOGS.mkdir(parents=True, exist_ok=True)
    make_broken()
    with get_context("fork").Pool(options.jobs, end_with_parent) as pool:
        passed = pool.map(reported, [c.full_name for c in wanted], chunksize=1)
        # each ends by itself: a signal may come to one just before it waits, and then it waits for
        # ever
        pool.close()
        pool.join()
    print(f"{sum(passed)} passed, {len(passed) - sum(passed)} failed")
    return 0 if passed and all(passed) else 1


if __name__ == "__main__":
    ended_by_signals()
    sys.exit(main())

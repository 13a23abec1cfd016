"""A running machine: QEMU with its console, its debugger stub, its memory and its observer.

QEMU starts stopped, and inherits its ends of the pipes and sockets. It is always
ended by SIGKILL to its process group; nothing is lost by that. If the thread that
started QEMU dies, the host's kernel kills QEMU.
"""

from __future__ import annotations

import mmap
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

from grading.machine.console import GuestConsole
from grading.machine.gdbstub import QemuGone, Stub
from grading.machine.observer import Config, Observer
from grading.verdict import HOST, Stopped, Verdict
from qemu.emulator import Unfit
from qemu.machine import WITH_US, Machine
from qemu.reason import Reason

PANIC = "panic:"
# seconds from power-on to power-off, however many commands; to the first prompt: BOOT_SECONDS in
# grading/session/session.py
LONGEST = 600
# Of page tables (kern/arch.h): the bytes that one entry of each level covers.
LEVELS = (1 << 30, 1 << 21, 1 << 12)
# bytes of virtual addresses that the tables translate; the upper address bits are all equal
ADDRESSES = 1 << 39
LOOK = 0.02  # seconds for which the clock does without a look at QEMU's threads
WAKE = 1.0  # seconds after which a QEMU that counts instructions is woken, see Reason.wake()
LOOKS = 5  # samples of each CPU's pc
# seconds in which a running CPU executes a million instructions, the step of the observer's counter
IDLE = 0.5
MOST_TABLES = 1000  # page tables of one level; a right kernel has some dozens
# seconds for the end of a QEMU that has closed its console or its debugger stub, on a busy host
ENDING = 300
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# a host that has no more memory ends QEMU by these; no guest can
OF_THE_HOST = (signal.SIGKILL, signal.SIGBUS)


def ended_by_signals() -> None:
    """Let signals that end this program unwind it, so that its child processes are ended too. An
    ignored signal stays ignored."""
    def end(number: int, _: FrameType | None) -> None:
        for other in ENDS:
            signal.signal(other, signal.SIG_IGN)  # a second one would interrupt the unwinding
        sys.exit(128 + number)

    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


@dataclass(frozen=True)
class Mapping:
    """A leaf entry of the page tables."""

    virtual: int
    physical: int
    size: int
    writable: bool


class Run:
    """One boot, from power-on to power-off; use as a context manager."""

    console: GuestConsole
    _process: subprocess.Popen[bytes]

    def __init__(self, machine: Machine, log: Path, config: Config | None = None,
                 budget: int = 0, cap: int = 32 << 20, stopped: bool = False) -> None:
        self.machine = machine
        self._stopped = stopped  # stay stopped before the kernel's first instruction
        self.log = log
        self.config = config
        self.budget = budget  # instructions that any vCPU may execute; 0: any number
        self._longest: float = LONGEST
        self._holders = 0  # blocks of held() that are open
        self._cap = cap
        # each line, with the number of observer records before it
        self.typed: list[tuple[int, str]] = []
        self._observer: Observer | None = None
        self._waited = 0.0  # seconds that a thread of QEMU waited for a processor of the host
        self._looked = self._woken = 0.0
        self._clock = 0.0  # what clock() said last

    def __enter__(self) -> Run:
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as opened:
            try:
                self._start(opened)
            except Unfit as why:
                raise Stopped(Verdict.HARNESS, str(why)) from why
            self._opened = opened.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._opened.close()

    def _start(self, opened: ExitStack) -> None:
        if self.config:
            directory = self.log.with_suffix(".observer")
            directory.mkdir(exist_ok=True)
            self._observer = opened.enter_context(
                closing(Observer(self.machine.arch, self.config, directory)))
            self.machine.plugin = self._observer.plugin
        self._reason = opened.enter_context(closing(Reason()))
        line, qemus = socket.socketpair()
        opened.enter_context(line)
        opened.enter_context(qemus)
        ram = opened.enter_context(os.fdopen(os.memfd_create("guest"))).fileno()
        os.ftruncate(ram, len(self.machine.ram()))
        self._ram = opened.enter_context(mmap.mmap(ram, 0, prot=mmap.PROT_READ))
        disk = opened.enter_context(tempfile.TemporaryDirectory(prefix="callsite-"))
        command = self.machine.command(["-chardev", "stdio,id=console,signal=off", "-serial",
                                        "chardev:console"], Path(disk), ram)
        command += [*self._reason.options(), "-chardev", f"socket,id=stub,fd={qemus.fileno()}",
                    "-gdb", "chardev:stub", "-S"]
        self._counts = "-icount" in command
        self._errors = opened.enter_context(os.fdopen(os.memfd_create("errors"), "w+b"))
        self._process = subprocess.Popen(
            WITH_US + self.machine.bounded() + command, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, bufsize=0, stderr=self._errors, start_new_session=True,
            pass_fds=[ram, qemus.fileno(), self._reason.fileno(),
                      *([self._observer.fileno()] if self._observer else [])])
        opened.callback(self._end)
        qemus.close()
        self._began = self.clock()
        self.console = opened.enter_context(
            closing(GuestConsole(self._process, self.log, self._cap, self.watch, self.clock)))
        self.console.on_begin = self._begins
        self._stub = Stub(line, self._keep_up, self.clock)
        try:
            self._stub.hold()
            self._first_cpu_boots()
            if not self._stopped:
                self._stub.go_on()
        except QemuGone as error:
            raise Stopped(Verdict.HARNESS,
                          f"QEMU did not start: {self._qemu_errors() or error}") from error

    def _first_cpu_boots(self) -> None:
        """All CPUs enter the firmware, if there is one, and the first of them starts the kernel.
        Let CPU 0 run alone until it leaves the firmware, so that CPU n of QEMU is CPU n of the
        kernel."""
        after = self.machine.isa.after_firmware
        if not after or self.machine.smp == 1 or not self.machine.board.startswith("virt"):
            return
        if self.machine.any_first:
            return
        self._stub.breakpoint(after, True)
        self._stub.go_on_with([0])
        if not self._stub.stopped():
            raise Stopped(Verdict.HARNESS, "CPU 0, running alone, does not leave the firmware")
        self._stub.breakpoint(after, False)

    def _keep_up(self) -> None:
        """Read the console and the control socket, so that QEMU never blocks on them."""
        self.console.keep_up()
        self._reason.drain()

    def _end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _ended(self) -> bool:
        try:
            # a QEMU that has closed its console is about to end
            status = self._process.wait(ENDING if self.console.ended else 0)
        except subprocess.TimeoutExpired:
            return False
        if -status in OF_THE_HOST:
            raise Stopped(Verdict.HARNESS, f"QEMU was ended by {signal.Signals(-status).name}: has "
                          "this host too little memory?")
        return True

    @property
    def pid(self) -> int:
        return self._process.pid

    def clock(self) -> float:
        """Seconds, without the time in which QEMU waited for a processor of the host: a busy host
        causes no time-out.

        Linux adds the length of a wait to schedstat only when the wait is over. This clock then
        stops for that long, so it never goes back.
        """
        now = time.monotonic()
        if now > self._looked + LOOK:
            self._looked = now
            for task in self._tasks():
                # the thread may have just ended
                with suppress(OSError, IndexError), open(f"{task}/schedstat",
                                                         encoding="ascii") as file:
                    self._waited = max(self._waited, int(file.read().split()[1]) / 1e9)
        self._clock = max(self._clock, now - self._waited)
        return self._clock

    def _tasks(self) -> list[str]:
        """A folder of /proc for each of QEMU's threads; none when it has ended."""
        with suppress(OSError):
            folder = f"/proc/{self._process.pid}/task"
            return [f"{folder}/{name}" for name in os.listdir(folder)]
        return []

    def threads(self) -> dict[str, tuple[float, bool]]:
        """Of each of QEMU's threads: the seconds for which it has run, and whether it now waits for
        something else than a processor of the host."""
        found = {}
        for task in self._tasks():
            with suppress(OSError, IndexError):
                with (open(f"{task}/schedstat", encoding="ascii") as ran,
                      open(f"{task}/stat", encoding="ascii") as stat):
                    found[task] = (int(ran.read().split()[0]) / 1e9,
                                   stat.read().rpartition(")")[2].split()[0] != "R")
        return found

    def _qemu_errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def _begins(self, line: str) -> None:
        self.typed.append((self._observer.written() if self._observer else 0, line))

    @property
    def observer(self) -> Observer:
        assert self._observer
        return self._observer

    def insns(self) -> list[int]:
        """The number of instructions that each CPU has executed; 0 without an observer."""
        return self._observer.insns_of(
            self.machine.smp) if self._observer else [0] * self.machine.smp

    def watch(self) -> None:
        """Raise Stopped if the machine ended, restarted, or used up its limits."""
        self.check_limits()
        if self._counts and time.monotonic() > self._woken + WAKE:
            self._woken = time.monotonic()
            self._reason.wake()
        if self._observer and self._observer.starts() > 1:
            raise Stopped(Verdict.REBOOT,
                          f"the kernel's first instruction ran {self._observer.starts()} times")
        if not self._ended():
            return
        text = self.console.drain(5)  # QEMU has ended, so this reads to the end of the output
        if PANIC in text:
            line = next(s for s in text.splitlines() if PANIC in s)
            raise Stopped(Verdict.PANIC, line.split(PANIC, 1)[1].strip())
        reason = self._reason.read()
        if reason == "guest-reset":
            raise Stopped(Verdict.REBOOT, "the guest reset the machine")
        if not self.console.received:
            raise Stopped(Verdict.DEAD,
                          f"the machine ended ({reason or self._qemu_errors()}) without any output")
        raise Stopped(Verdict.DEAD, "the machine ended too early: "
                      f"{reason or self._qemu_errors() or 'QEMU did not say why'}")

    def grant(self, insns: int, seconds: float) -> None:
        """Raise the limits of a boot that is about to do more."""
        if self.budget:
            self.budget += insns
        self._longest += seconds

    def check_limits(self) -> None:
        """Raise Stopped if the machine executed, took or logged more than it may."""
        if not self.budget:
            return
        verdict = Verdict.TIMEOUT if self.console.received else Verdict.DEAD
        used = max(self._observer.insns(), default=0) if self._observer else 0
        if used > self.budget:
            raise Stopped(
                verdict, f"{used:,} instructions on one CPU, more than the {self.budget:,} allowed")
        if self.clock() > self._began + self._longest:
            raise Stopped(Verdict.TIMEOUT, f"the boot took more than {self._longest:.0f} s in all")
        if self._observer and self._observer.lost():
            raise Stopped(verdict, f"{self._observer.written():,} calls, stores and exceptions "
                          "were seen, several times what a graded boot has: the kernel repeats "
                          "itself endlessly, or each of its steps causes an exception")

    @contextmanager
    def held(self) -> Iterator[Stub]:
        """Stop the machine; the stub can step it, read it and write it. It runs again at the end of
        the outermost such block."""
        try:
            self._stub.hold()
            self._holders += 1
            try:
                yield self._stub
            finally:
                self._holders -= 1
            if not self._holders:
                self._stub.go_on()
        except QemuGone:  # the machine ended meanwhile: watch() raises the verdict for that
            self.wait_end(ENDING)
            self.watch()
            raise

    @contextmanager
    def handed_over(self, folder: Path) -> Iterator[None]:
        """Give the stopped machine to another program: the debugger stub is at the socket
        folder/gdb, the console at folder/console."""
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(f"{folder}/console")
            listener.listen()
            threading.Thread(target=lambda: self.console.join(listener.accept()[0]),
                             daemon=True).start()
            self._reason.monitor(f"gdbserver unix:{folder}/gdb,server=on,wait=off")
            while not (folder / "gdb").exists():
                self.watch()
                time.sleep(0.01)
            yield

    def memory(self, physical: int, size: int) -> bytes:
        """Read guest memory while the machine is stopped."""
        with self.held():
            return self.read(physical, size)

    def read(self, physical: int, size: int) -> bytes:
        """Read guest memory now; a running CPU may change it meanwhile."""
        at = physical - self.machine.ram().start
        return self._ram[at:at + size]

    def mapped(self, address: int) -> dict[int, int]:
        """By CPU: the physical address of this virtual address, if the CPU's page tables map it."""
        low = address % ADDRESSES
        found = {cpu: list(mappings) for cpu, mappings in self._mappings(range(low, low + 1))}
        return {cpu: m.physical + low - m.virtual for cpu, mappings in found.items()
                for m in mappings}

    def writable(self, lo: int, hi: int) -> list[int]:
        """The CPUs whose page tables map any of this physical memory writable, at any virtual
        address."""
        return [cpu for cpu, mappings in self._mappings(range(ADDRESSES))
                if any(m.writable and m.physical < hi and m.physical + m.size > lo
                       for m in mappings)]

    def _mappings(self, addresses: range) -> Iterator[tuple[int, Iterable[Mapping]]]:
        """Each CPU with the mappings of these virtual addresses in its page tables, in whatever
        mode the CPU is."""
        with self.held() as stub:
            roots = [stub.control_register(cpu, self.machine.isa.root_register)
                     for cpu in range(self.machine.smp)]
            for cpu, root in enumerate(roots):
                yield cpu, self._walk(self.machine.isa.table_root(root), addresses)

    def _walk(self, root: int, addresses: range) -> Iterator[Mapping]:
        """Walk the page tables as a CPU does. A table outside of RAM has no entries."""
        tables = [(0, root)]
        for covers in LEVELS:
            below = []
            for start, table in tables:
                data = self.read(table, 4096) if table in self.machine.ram() else b""
                for virtual, (entry,) in zip(range(start, ADDRESSES, covers),
                                             struct.iter_unpack("<Q", data)):
                    if entry and virtual < addresses.stop and virtual + covers > addresses.start:
                        last = covers == LEVELS[-1]
                        valid, leaf, writable, at = self.machine.isa.table_entry(entry, last)
                        if valid and leaf:
                            yield Mapping(virtual, at, covers, writable)
                        elif valid:
                            below.append((virtual, at))
            tables = below
            if len(tables) > MOST_TABLES:
                raise Stopped(Verdict.FAIL, f"the page tables refer to {len(tables)} others: too "
                              "many to find out what is writable")

    def whereabouts(self) -> tuple[list[list[int]], list[list[int]]]:
        """LOOKS samples of every CPU's pc, and of the pc that its last trap came from; empty lists
        if the machine has ended."""
        found, came_from = list[list[int]](), list[list[int]]()
        try:
            for _ in range(LOOKS):
                before, end = self.insns(), self.clock() + IDLE
                while self.insns() == before and self.clock() < end:
                    time.sleep(0.001)
                with self.held() as stub:
                    found.append([stub.pc(cpu) for cpu in range(self.machine.smp)])
                    came_from.append([stub.control_register(cpu, self.machine.isa.trapped_pc)
                                      for cpu in range(self.machine.smp)])
        except (Stopped, *HOST):
            return [], []
        return found, came_from

    def write(self, physical: int, data: bytes) -> None:
        """Write guest memory by its physical address, past all page tables."""
        with self.held() as stub:
            stub.write_physical(physical, data)

    def reset(self) -> None:
        """Reset the machine; QEMU must not have -no-reboot. If it was stopped, it is stopped before
        the first instruction."""
        self._reason.reset()

    def power_off(self, seconds: float = 20) -> None:
        """Type poweroff; the machine must then end without an error."""
        self.console.begin("poweroff")
        if not self.wait_end(seconds):
            raise Stopped(Verdict.TIMEOUT, f"no power-off within {seconds:.0f} s")
        # riscv64's QEMU gives no reason
        reason, status = self._reason.read() or "exit", self._process.returncode
        if reason not in ("guest-shutdown", "exit") or status:
            raise Stopped(Verdict.FAIL,
                          f"poweroff ended the machine by {reason}, QEMU with status {status}")

    def wait_end(self, seconds: float) -> bool:
        """Wait for the end of the machine. Has it ended?"""
        deadline = self.clock() + seconds
        while not self._ended() and self.clock() < deadline:
            self.console.drain(0.02)
        self.console.keep_up()
        return self._ended()

"""A running machine: QEMU, its console, its control socket and its observer.

QEMU starts stopped; the console is open before the first instruction. It is
ended by SIGKILL to its process group, always, and nothing is lost by that. If
the thread that started it ends without a word, the kernel of the host does it.
"""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ClassVar

from grading.console import Console, FifoTransport
from grading.gdbstub import Stub
from grading.observer import Config, Observer
from grading.qmp import Line, Qmp, QemuError, QemuGone
from grading.verdict import Stopped, Verdict
from qemu.emulator import Unfit
from qemu.machine import BOUNDED, MIB, RAM_BASE, WITH_US, Machine

PANIC = "panic:"
LONGEST = 600  # seconds for a whole graded boot: each command may take a little less than its own, and there are many
# Page tables (kern/arch.h): where the root is, and what one level's entry covers.
ROOT_REGISTER = {"riscv64": "satp", "arm64": "TTBR1_EL1"}
LEVELS = (1 << 30, 1 << 21, 1 << 12)
MOST_TABLES = 1000  # of one level; a right kernel has some dozens
ENDS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def ended_by_signals() -> None:
    """What ends this program unwinds it: what it began is taken along. Who was told to ignore a signal goes on doing so."""
    def end(number: int, _: FrameType | None) -> None:
        for other in ENDS:
            signal.signal(other, signal.SIG_IGN)  # a second one would interrupt the unwinding
        sys.exit(128 + number)

    for number in ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end)


def _root(arch: str, register: int) -> int:
    return register << 12 & (1 << 56) - 1 if arch == "riscv64" else register & 0xFFFFFFFFF000


def _entry(arch: str, entry: int, covers: int) -> tuple[bool, bool, int]:
    """Of a page table (kern/arch/<arch>/arch.h): is it valid, is it the last, and the physical address that it has."""
    last = covers == LEVELS[-1]
    if arch == "riscv64":
        return bool(entry & 1), bool(entry & 14), entry >> 10 << 12 & (1 << 56) - 1
    return entry & 3 == 3 or entry & 3 == 1 and not last, last or not entry & 2, entry & 0xFFFFFFFFF000


def _writes(arch: str, entry: int) -> bool:
    return bool(entry & 4) if arch == "riscv64" else not entry & 0x80


class Run:
    """One boot, from power-on to power-off; use as a context manager."""

    _running: ClassVar[set[Run]] = set()
    over: ClassVar[bool] = False  # this program ends: nothing is to begin

    def __init__(self, machine: Machine, log: Path, config: Config | None = None,
                 budget: int = 0, cap: int = 32 << 20) -> None:
        self.machine = machine
        self.log = log
        self.config = config
        self.budget = budget  # instructions that any vCPU may execute; 0: any number
        self._cap = cap
        self.typed: list[tuple[int, str]] = []  # each line, and the observer's records before it
        self.observer: Observer | None = None
        self._waited = 0.0  # seconds for which a thread of QEMU had to wait for a processor
        self._qmp: Qmp | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._console: Console | None = None

    def __enter__(self) -> Run:
        self._scratch = tempfile.TemporaryDirectory(prefix="callsite-")
        self._saved = Path(self._scratch.name) / "memory"  # QEMU may still write it when we are told to end
        self.log.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._start(Path(self._scratch.name))
        except BaseException as error:
            self.__exit__(None, None, None)
            if isinstance(error, Unfit):
                raise Stopped(Verdict.HARNESS, str(error)) from error
            raise
        return self

    def _start(self, scratch: Path) -> None:
        if self.config:
            directory = self.log.with_suffix(".observer")
            directory.mkdir(exist_ok=True)
            self.observer = Observer(self.machine.arch, self.config, directory)
            self.machine.plugin = self.observer.plugin
        disk, console, qmp = scratch / "disk", scratch / "console", scratch / "qmp"
        disk.mkdir()
        FifoTransport.make(console)
        serial = ["-chardev", f"pipe,id=console,path={console}", "-serial", "chardev:console"]
        command = self.machine.command(serial, disk)
        command += ["-S", "-qmp", f"unix:{qmp},server=on,wait=off"]
        self._errors = self.log.with_suffix(".qemu").open("w+b")
        self._process = subprocess.Popen(WITH_US + BOUNDED + command, stdin=subprocess.DEVNULL, stdout=self._errors,
                                         stderr=self._errors, start_new_session=True)
        Run._running.add(self)
        if Run.over:
            raise Stopped(Verdict.HARNESS, "nothing is to run any more")
        self._end = self.clock() + LONGEST
        try:
            self._qmp = Qmp(qmp, self._process, self.clock)
            transport = FifoTransport(console)
        except OSError as error:
            raise Stopped(Verdict.HARNESS, f"QEMU did not start: {self._said() or error}") from error
        self._console = Console(transport, self.log, self._cap, self.watch, self.clock)
        self._console.on_command = self._types
        self._qmp.line.meanwhile = self._console.keep_up
        self._qmp.send("cont")

    @classmethod
    def end_all(cls) -> None:
        """Of a program that ends: what its threads are waiting for ends now."""
        cls.over = True
        for run in list(cls._running):
            run._kill()

    def _kill(self) -> None:
        if self._process and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def clock(self) -> float:
        """Seconds, less those in which a thread of QEMU was ready and had no processor: a busy host makes nobody late."""
        assert self._process
        for file in Path(f"/proc/{self._process.pid}/task").glob("*/schedstat"):
            try:
                self._waited = max(self._waited, int(file.read_text().split()[1]) / 1e9)
            except (OSError, IndexError):
                pass  # a thread that has just ended
        return time.monotonic() - self._waited

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Call sites and what follows them are logged meanwhile."""
        assert self.observer
        with self.observer.recording():
            yield

    def _types(self, line: str) -> None:
        self.typed.append((self.observer.written() if self.observer else 0, line))

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def begin(self, line: str) -> None:
        """Type a line and wait for nothing."""
        self._types(line)
        self.console.type(line)
        self.console.send(b"\r")

    @property
    def console(self) -> Console:
        assert self._console
        return self._console

    @property
    def qmp(self) -> Qmp:
        assert self._qmp
        return self._qmp

    def watch(self) -> None:
        """Raise Stopped if the machine ended, restarted, or used up its instructions."""
        self.check_limits()
        if self.observer and self.observer.starts() > 1:
            raise Stopped(Verdict.REBOOT, f"the kernel's first instruction ran {self.observer.starts()} times")
        gone = self._process and self._process.poll() is not None  # asked first: then all that it said is there
        self.qmp.drain()
        reason = self.qmp.shutdown_reason()
        if not reason and not gone:
            return
        text = self.console.drain(5)  # to its end, however late we are: what ends the machine ends QEMU
        if PANIC in text:
            line = next(s for s in text.splitlines() if PANIC in s)
            raise Stopped(Verdict.PANIC, line.split(PANIC, 1)[1].strip())
        if reason == "guest-reset":
            raise Stopped(Verdict.REBOOT, "the guest reset the machine")
        if not self.console.received:
            raise Stopped(Verdict.DEAD, f"the machine ended ({reason or self._said()}) without a byte")
        raise Stopped(Verdict.DEAD, f"the machine ended too early: {reason or self._said() or 'QEMU did not say why'}")

    def check_limits(self) -> None:
        """Raise Stopped if it did more than it may."""
        used = max(self.observer.insns(), default=0) if self.observer else 0
        if self.budget and used > self.budget:
            verdict = Verdict.TIMEOUT if self.console.received else Verdict.DEAD
            raise Stopped(verdict, f"{used:,} instructions on one CPU, more than the {self.budget:,} allowed")
        if self.budget and self.clock() > self._end:
            raise Stopped(Verdict.TIMEOUT, f"the boot took more than {LONGEST} s in all")
        if self.budget and self.observer and self.observer.lost():
            verdict = Verdict.TIMEOUT if self.console.received else Verdict.DEAD
            raise Stopped(verdict, f"{self.observer.written():,} calls, stores and exceptions were seen, several times what "
                          "a graded boot has: the kernel goes round in a circle, or each of its steps is an exception")

    def _control(self, command: str, **arguments: Any) -> None:
        """On the control socket; of a machine that ended meanwhile it is said how, as always."""
        try:
            self.qmp.command(command, **arguments)
        except QemuGone:
            self._end_early()
            raise

    def _end_early(self) -> None:
        self.wait_end(5)
        self.watch()

    def memory(self, physical: int, size: int) -> bytes:
        """Guest memory while the machine stands still."""
        self._control("stop")
        self._control("pmemsave", val=physical, size=size, filename=str(self._saved))
        self._control("cont")
        return self._saved.read_bytes()

    def mapped(self, address: int) -> dict[int, int]:
        """Where each CPU's page tables lead from this virtual address, of those where they lead somewhere."""
        found = {}
        with self.held() as stub:
            for cpu in range(self.machine.smp):
                root = stub.control_register(cpu, ROOT_REGISTER[self.machine.arch])
                physical = self._walk(stub, _root(self.machine.arch, root), address)
                if physical is not None:
                    found[cpu] = physical
        return found

    def _walk(self, stub: Stub, table: int, address: int) -> int | None:
        """As the CPU itself does, whatever mode it is in now. A table that is not in memory has no entries."""
        ram = range(RAM_BASE[self.machine.arch], RAM_BASE[self.machine.arch] + self.machine.memory * MIB)
        for covers in LEVELS:
            if table not in ram:
                return None
            data = stub.read_physical(table + address // covers % 512 * 8, 8)
            valid, leaf, table = _entry(self.machine.arch, int.from_bytes(data, "little"), covers)
            if not valid:
                return None
            if leaf:
                return table + address % covers
        return None

    def writable(self, lo: int, hi: int) -> list[int]:
        """The CPUs whose page tables let the kernel write something of this physical memory, at whatever address."""
        with self.held() as stub:
            roots = [_root(self.machine.arch, stub.control_register(cpu, ROOT_REGISTER[self.machine.arch])) for cpu in range(self.machine.smp)]
            found = {root: self._lets_write(stub, root, range(lo, hi)) for root in set(roots)}
        return [cpu for cpu, root in enumerate(roots) if found[root]]

    def _lets_write(self, stub: Stub, root: int, memory: range) -> bool:
        ram = range(RAM_BASE[self.machine.arch], RAM_BASE[self.machine.arch] + self.machine.memory * MIB)
        tables = {root}
        for covers in LEVELS:
            below: set[int] = set()
            for table in tables:
                data = b"".join(stub.read_physical(table + at, 512) for at in range(0, 4096, 512)) if table in ram else b""
                for (entry,) in struct.iter_unpack("<Q", data):
                    valid, leaf, at = _entry(self.machine.arch, entry, covers)
                    if valid and leaf and at < memory.stop and at + covers > memory.start and _writes(self.machine.arch, entry):
                        return True
                    below |= {at} if valid and not leaf else set()
            tables = below
            if len(tables) > MOST_TABLES:
                raise Stopped(Verdict.FAIL, f"the page tables lead to {len(tables)} others: who could say what is writable?")
        return False

    @contextmanager
    def held(self) -> Iterator[Stub]:
        """The machine stands still, and is stepped, read and written as a debugger does."""
        path = Path(self._scratch.name) / "gdb"
        self._control("human-monitor-command", **{"command-line": f"gdbserver unix:{path},server=on,wait=off"})
        line = Line(path, self.clock)
        line.meanwhile = self.console.keep_up
        try:
            stub = Stub(line)
            yield stub
            stub.let_go()
        except QemuGone:  # what it said of its end would be lost, were it asked for more
            self._end_early()
            raise
        finally:
            line.close()
        self._control("human-monitor-command", **{"command-line": "gdbserver none"})

    def write(self, physical: int, data: bytes) -> None:
        """Write guest memory: no page table forbids it, and no CPU's mode changes where it goes."""
        with self.held() as stub:
            stub.write_physical(physical, data)

    def power_off(self, seconds: float = 20) -> None:
        """Type poweroff; the machine must end by itself, and cleanly."""
        self.begin("poweroff")
        reason = self.wait_end(seconds)
        if reason is None:
            raise Stopped(Verdict.TIMEOUT, f"no power-off within {seconds:.0f} s")
        status = self.exit_status()
        if reason not in ("guest-shutdown", "exit") or status:
            raise Stopped(Verdict.FAIL, f"poweroff ended the machine by {reason}, QEMU with status {status}")

    def wait_end(self, seconds: float) -> str | None:
        """Why the machine ended (exit: QEMU did not say, as at riscv64's power-off); None: it still runs."""
        deadline = self.clock() + seconds
        while self.clock() < deadline:
            self.console.drain(0.02)
            gone = self._process and self._process.poll() is not None
            self.qmp.drain()
            reason = self.qmp.shutdown_reason()
            if reason:
                self.console.drain(0.2)
                return reason
            if gone:
                return "exit"
        return None

    def exit_status(self, seconds: float = 5) -> int | None:
        """QEMU's own exit status, once it ended."""
        assert self._process
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._process:
            self._kill()
            self._process.wait()
            Run._running.discard(self)
            self._errors.close()
        if self._qmp:
            self._qmp.close()
        if self._console:
            self._console.close()
        if self.observer:
            self.observer.close()
        self._scratch.cleanup()

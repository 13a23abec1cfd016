"""The console of a booted kernel with the program selftest, for one command at a time."""
import os
import re
import select
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

from qemu.machine import FINISHED, ROOT, Machine, initrd_of

PROMPT = b"callsite# "
CTRL_C = b"\x03"
CPUS = 2
APP = "kern/ftrace/tests/linux/selftest.c"
BOOT_SECONDS, SECONDS = 120, 60  # limits against hanging
QUIET = 0.25  # seconds without a byte after which a trace_pipe has no more events


class Gone(Exception):
    """The machine has ended, or does not come back to its prompt."""


def build(arch: str) -> Machine:
    """Build the finished kernel with selftest in it. Returns a machine with it."""
    image = ROOT / "build" / arch / f"{FINISHED}-selftest/Image"
    subprocess.run([
        "make", "--no-print-directory", "-s", "-C",
        str(ROOT), f"ARCH={arch}", f"APP={APP}",
        str(image.relative_to(ROOT)), f"build/{arch}/initrd.cpio"
    ], check=True)
    return Machine(arch, smp=CPUS, image=image, initrd=initrd_of(arch))


class Guest:
    """A machine that is booted again when it has ended. Each command holds @lock."""

    def __init__(self, machine: Machine, log: Path) -> None:
        self.lock = threading.RLock()
        self.worker = ""  # the pid of `selftest &`
        self.boots = 0
        self._machine = machine
        self._log = log.open("w", buffering=1)
        self._scratch = tempfile.TemporaryDirectory(prefix="callsite-")
        self._qemu: subprocess.Popen[bytes] | None = None
        self.boot()

    def note(self, text: str) -> None:
        self._log.write(f"{time.strftime('%H:%M:%S')} {text}\n")

    def boot(self) -> None:
        with self.lock:
            self.end()
            self.note("boot")
            self.boots += 1
            serial = ["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]
            self._qemu = subprocess.Popen(
                self._machine.command(serial, Path(self._scratch.name)), bufsize=0,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
            self._until_prompt(BOOT_SECONDS)
            started = re.search(r"thread (\d+)", self.run("selftest &"))
            assert started
            self.worker = started[1]

    def end(self) -> None:
        if self._qemu:
            self._qemu.kill()
            self._qemu.wait()

    def _type(self, data: bytes) -> None:
        assert self._qemu and self._qemu.stdin
        with suppress(BrokenPipeError):
            self._qemu.stdin.write(data)

    def _read(self, seconds: float) -> bytes:
        """What the kernel prints, at the latest after so many seconds."""
        assert self._qemu and self._qemu.stdout
        if not select.select([self._qemu.stdout], [], [], seconds)[0]:
            return b""
        data = os.read(self._qemu.stdout.fileno(), 1 << 16)
        if not data:
            raise Gone("the machine has ended")
        return data

    def _until_prompt(self, seconds: float) -> bytes:
        printed, end = bytearray(), time.monotonic() + seconds
        while not printed.endswith(PROMPT):
            if time.monotonic() > end:
                raise Gone(f"no prompt in {seconds} s after {printed[-300:].decode('latin-1')!r}")
            printed += self._read(1)
        return bytes(printed)

    def run(self, line: str, seconds: float = SECONDS) -> str:
        """Type a line. Returns what is printed. Raises Gone, and the next command is typed to a
        new machine."""
        with self.lock:
            began = time.monotonic()
            self._type(line.encode("latin-1") + b"\r")
            try:
                printed = self._until_prompt(seconds)
            except Gone as why:
                self.note(f"{line[:300]}: {why}")
                self.boot()
                raise
            return self._shown(line, printed, time.monotonic() - began)

    def pipe(self, path: str) -> str:
        """The events in a trace_pipe. It waits for more, so it is interrupted when it is quiet."""
        with self.lock:
            line, began = f"cat {path}", time.monotonic()
            self._type(line.encode("latin-1") + b"\r")
            printed = b""
            while not printed.endswith(PROMPT) and time.monotonic() < began + 5:
                data = self._read(QUIET)
                printed += data
                if not data and len(printed) > len(line):
                    break
            if not printed.endswith(PROMPT):
                self._type(CTRL_C)
                printed += self._until_prompt(SECONDS)
            text = self._shown(line, printed, time.monotonic() - began)
            text = re.sub(r"^cat: .*\(EINTR\)\n", "", text.replace("^C\n", "").replace("^C", ""),
                          flags=re.M)
            return text if text.strip() else ""

    def _shown(self, line: str, printed: bytes, seconds: float) -> str:
        """Without the echo of the typed line, and without the prompt."""
        text = printed.removesuffix(PROMPT).decode("latin-1").replace("\r", "")
        text = text.removeprefix(line).removeprefix("\n")
        head = "".join(f"\n    | {shown}" for shown in text[:300].splitlines())
        self.note(f"{seconds:.3f} $ {line[:300]}{head}" +
                  (f"\n    | ... {len(text)} bytes" if len(text) > 300 else ""))
        return text

"""The console: QEMU's stdin and stdout are the guest's UART.

QEMU writes each byte with its own system call, and a pipe is the fastest
receiver. The harness must read the pipe at all times, or the guest blocks.
"""

import os
import re
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from grading.verdict import Stopped, Verdict
from qemu.disk import naming

PROMPT = "callsite# "
TAIL = 400
LAST = 4000  # bytes at the end in which the last line is searched
# seconds to wait for more after the first byte: reading each byte separately would cost more time
# than the guest itself
GATHER = 0.002, 0.016
MUCH = 500  # bytes; after a read of more than this the longer wait is used
ESCAPES = re.compile(
    rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")


def plain(data: bytes) -> str:
    """The text that a person would see: without escapes and control characters, lines ended by
    newlines."""
    text = ESCAPES.sub(b"", data.replace(b"\r\n", b"\n")).replace(b"\r", b"")
    return text.decode("utf-8", "replace")


def last_line(text: str, cut: bool) -> str:
    """The last line of the text. `cut`: the text was longer, so the line's first word may be
    incomplete and is left out."""
    lines = text.strip().splitlines()
    if len(lines) == 1 and cut:
        return "... " + lines[0].partition(" ")[2]
    return lines[-1] if lines else ""


class Transcript:
    """The file with all that a console printed. What was written is in the file, and an error names
    the file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("wb", buffering=0)

    def write(self, data: bytes) -> None:
        with naming(self.path):
            while data:  # a disk may be full after a part of it
                data = data[self._file.write(data):]

    def close(self) -> None:
        with naming(self.path):
            self._file.close()


class GuestConsole:
    """Talks to the guest's shell: waits for its prompt, types a line, and returns the output."""

    def __init__(self, qemu: subprocess.Popen[bytes], log: Path, cap: int,
                 watch: Callable[[], None], clock: Callable[[], float]) -> None:
        assert qemu.stdin and qemu.stdout
        self._to, self._from = qemu.stdin, qemu.stdout
        self._log = Transcript(log)
        self._cap = cap
        self._watch = watch  # checks the machine; raises Stopped
        self._clock = clock  # seconds in which the guest could run
        self.on_begin: Callable[[str], None] = lambda line: None
        self._unread = bytearray()
        self._gather = GATHER[0]
        self.received = 0
        self.ended = False

    def _fill(self, seconds: float) -> bool:
        """Wait at most `seconds` for the first byte, then read all that is available. False:
        nothing was read."""
        if self.ended or not select.select([self._from], [], [], seconds)[0]:
            return False
        if seconds:
            time.sleep(self._gather)
        data = os.read(self._from.fileno(), 1 << 20)
        self._gather = GATHER[len(data) > MUCH]
        self.ended = not data
        self.received += len(data)
        self._log.write(data)
        self._unread += data
        if self.received > self._cap:
            raise Stopped(Verdict.FLOOD, f"the console printed more than {self._cap} bytes")
        return bool(data)

    def wait_for(self, seen: Callable[[str], bool], seconds: float, what: str) -> str:
        """Wait until `seen` accepts the last lines. Returns all output since the last wait."""
        deadline = self._clock() + seconds
        looked = time.monotonic()
        while not seen(plain(self._unread[-TAIL:])):
            quiet = not self._fill(0.05)
            if quiet or time.monotonic() > looked + 0.2:
                self._watch()
                looked = time.monotonic()
                if self._clock() > deadline:
                    raise self._late(seconds, what)
            if self.ended:
                raise Stopped(Verdict.DEAD,
                              f"the console closed while the harness waited for {what}")
        text = plain(self._unread)
        self._unread.clear()
        return text

    def _late(self, seconds: float, what: str) -> Stopped:
        if not self.received:
            return Stopped(Verdict.DEAD, f"no byte on the console in {seconds:.0f} s")
        last = last_line(plain(self._unread[-LAST:]), len(self._unread) > LAST)
        return Stopped(Verdict.TIMEOUT, f"no {what} within {seconds:.0f} s"
                       + (f"; the last line was: {last}" if last else ""))

    def at_prompt(self) -> bool:
        """Does the output read so far end with a prompt, so that the last typed line is done?"""
        return _at_prompt(plain(self._unread[-TAIL:]))

    def has(self, words: str) -> bool:
        """Are these words in the output since the last wait, however much was read after them?"""
        return words in plain(self._unread)

    def wait_ready(self, seconds: float) -> str:
        return self.wait_for(_at_prompt, seconds, "prompt")

    def send(self, data: bytes) -> None:
        try:
            self._to.write(data)
        except BrokenPipeError:
            pass  # the machine has ended; the next read raises Stopped

    def begin(self, line: str) -> None:
        """Type a line and do not wait."""
        self.on_begin(line)
        self.keep_up()
        self._unread.clear()
        self.send(line.encode() + b"\r")

    def command(self, line: str, seconds: float = 60) -> str:
        """Type a line, wait for the next prompt, and return the output between them."""
        self.begin(line)
        text = self.wait_for(_at_prompt, seconds, f"prompt after '{line}'")
        echo, typed, output = text.partition(line)
        return (output if typed else echo).removesuffix(PROMPT).lstrip("\n")

    def keep_up(self) -> None:
        """Read all that is available, while the caller waits for something else: a guest blocks
        when the pipe is full."""
        self._fill(0)

    def join(self, line: socket.socket) -> None:
        """Connect the guest's console to the socket, in both directions, until one of the two ends.
        """
        while True:
            for ready in select.select([self._from, line], [], [])[0]:
                data = os.read(ready.fileno(), 1 << 16)
                if not data:
                    return
                if ready is line:
                    self.send(data)
                else:
                    line.sendall(data)

    def drain(self, seconds: float) -> str:
        """Read until the pipe closes or the time is over. Returns at most the last megabyte."""
        deadline = time.monotonic() + seconds
        self._fill(0.05)  # read once even if the time is over already
        while time.monotonic() < deadline and not self.ended:
            self._fill(0.05)
        return plain(self._unread[-(1 << 20):])

    def transcript(self) -> str:
        """All output since the boot, at most the last megabyte."""
        return plain(self._log.path.read_bytes()[-(1 << 20):])

    def close(self) -> None:
        self._to.close()
        self._from.close()
        self._log.close()


def _at_prompt(text: str) -> bool:
    return text.endswith(PROMPT) and (len(text) == len(PROMPT) or text[-len(PROMPT) - 1] == "\n")

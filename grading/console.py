"""The console: QEMU's stdin and stdout, which are its guest's UART.

QEMU writes each byte by itself, and a pipe is what takes them for the least
time. It is read always: a guest that floods must not block.
"""

from __future__ import annotations

import os
import re
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from grading.verdict import Stopped, Verdict

PROMPT = "callsite# "
TAIL = 400
LAST = 4000  # bytes in which the last line is looked for
GATHER = 0.002, 0.016  # seconds from the first byte on: reading each of them alone would cost more than the guest does
MUCH = 500  # bytes; while so many come at once, there is longer to wait for more
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")


def plain(data: bytes) -> str:
    """What a person would see: escapes and control characters gone, lines ended by newlines."""
    text = ESCAPES.sub(b"", data.replace(b"\r\n", b"\n")).replace(b"\r", b"")
    return text.decode("utf-8", "replace")


def last_line(text: str, cut: bool) -> str:
    """`cut`: there was more before; what is left of a line begins with a whole word."""
    lines = text.strip().splitlines()
    if len(lines) == 1 and cut:
        return "... " + lines[0].partition(" ")[2]
    return lines[-1] if lines else ""


class GuestConsole:
    """Talks to the shell: waits for its prompt, types, and gives back what was printed."""

    def __init__(self, qemu: subprocess.Popen[bytes], log: Path, cap: int,
                 watch: Callable[[], None], clock: Callable[[], float]) -> None:
        assert qemu.stdin and qemu.stdout
        self._to, self._from = qemu.stdin, qemu.stdout
        self._log = log.open("wb")
        self._cap = cap
        self._watch = watch  # looks at the machine; raises Stopped
        self._clock = clock  # seconds that the guest could have used
        self.on_begin: Callable[[str], None] = lambda line: None
        self._unread = bytearray()
        self._gather = GATHER[0]
        self.received = 0
        self.ended = False

    def _fill(self, seconds: float) -> bool:
        """Read what is there, waiting so long for the first byte, and then for others; False: nothing came."""
        if self.ended or not select.select([self._from], [], [], seconds)[0]:
            return False
        if seconds:
            time.sleep(self._gather)
        data = os.read(self._from.fileno(), 1 << 20)
        self._gather = GATHER[len(data) > MUCH]
        self.ended = not data
        self.received += len(data)
        self._log.write(data)
        self._log.flush()
        self._unread += data
        if self.received > self._cap:
            raise Stopped(Verdict.FLOOD, f"the console printed more than {self._cap} bytes")
        return bool(data)

    def wait_for(self, seen: Callable[[str], bool], seconds: float, what: str) -> str:
        """Everything printed from the last wait on, as soon as `seen` likes its last lines."""
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
                raise Stopped(Verdict.DEAD, f"the console closed while we waited for {what}")
        text = plain(self._unread)
        self._unread.clear()
        return text

    def _late(self, seconds: float, what: str) -> Stopped:
        if not self.received:
            return Stopped(Verdict.DEAD, f"not one byte on the console in {seconds:.0f} s")
        last = last_line(plain(self._unread[-LAST:]), len(self._unread) > LAST)
        return Stopped(Verdict.TIMEOUT, f"no {what} within {seconds:.0f} s" + (f"; the last line was: {last}" if last else ""))

    def at_prompt(self) -> bool:
        """Of what was read: the line that was typed last has come to its end."""
        return _at_prompt(plain(self._unread[-TAIL:]))

    def has(self, words: str) -> bool:
        """Of what was read: are they in its last lines?"""
        return words in plain(self._unread[-TAIL:])

    def wait_ready(self, seconds: float) -> str:
        return self.wait_for(_at_prompt, seconds, "prompt")

    def send(self, data: bytes) -> None:
        try:
            self._to.write(data)
        except BrokenPipeError:
            pass  # the machine has ended; the next read raises Stopped

    def begin(self, line: str) -> None:
        """Type a line and wait for nothing."""
        self.on_begin(line)
        self.keep_up()
        self._unread.clear()
        self.send(line.encode() + b"\r")

    def command(self, line: str, seconds: float = 60) -> str:
        """Type a line, wait for the next prompt, and return what was printed between."""
        self.begin(line)
        text = self.wait_for(_at_prompt, seconds, f"prompt after '{line}'")
        echo, typed, said = text.partition(line)
        return (said if typed else echo).removesuffix(PROMPT).lstrip("\n")

    def keep_up(self) -> None:
        """Read what is there, while the caller waits for something else: a guest cannot go on when its line is full."""
        self._fill(0)

    def join(self, line: socket.socket) -> None:
        """What is printed goes there, and what comes from there is typed, until one of the two ends."""
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
        """What is there, and what still comes until the line closes or the time is over."""
        deadline = time.monotonic() + seconds
        self._fill(0.05)  # in any case: the time may be over already
        while time.monotonic() < deadline and not self.ended:
            self._fill(0.05)
        return plain(self._unread[-(1 << 20):])

    def transcript(self) -> str:
        """All that came since the boot, at most its last megabyte."""
        return plain(Path(self._log.name).read_bytes()[-(1 << 20):])

    def close(self) -> None:
        for file in (self._to, self._from, self._log):
            file.close()


def _at_prompt(text: str) -> bool:
    return text.endswith(PROMPT) and (len(text) == len(PROMPT) or text[-len(PROMPT) - 1] == "\n")

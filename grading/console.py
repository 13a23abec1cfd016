"""The console: one line to the guest, whatever carries it.

It is opened before the machine runs, read always (a guest that floods must
not block), and written in small pieces, each after the echo of the one
before: a UART's FIFO is 16 bytes deep.
"""

from __future__ import annotations

import os
import re
import select
import termios
import time
import tty
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from grading.verdict import Stopped, Verdict

PROMPT = "callsite# "
PIECE = 16
TAIL = 400
GATHER = 0.002  # seconds: a UART sends byte by byte, and reading each of them alone would cost more than the guest does
ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-Z\\-_]|[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]")


MIRROR = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def cksum(data: bytes) -> int:
    """POSIX cksum: zlib's polynomial with each byte's bits the other way round, and the length at the end."""
    length = len(data).to_bytes((len(data).bit_length() + 7) // 8, "little")
    mirrored = zlib.crc32((data + length).translate(MIRROR), 0xFFFFFFFF)
    return int(f"{mirrored:032b}"[::-1], 2)


class Transport(Protocol):
    """Bytes to and from the guest's UART."""

    loses: bool  # is there a wire that may lose some?

    def fileno(self) -> int: ...
    def read(self) -> bytes: ...
    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...


class FifoTransport:
    """Two FIFOs that QEMU has open (`-chardev pipe`): they hold 64 KiB, where a socket holds 300 writes of one byte."""

    loses = False

    def __init__(self, path: Path) -> None:
        """OSError: QEMU has ended. Who opens a FIFO whose other end nobody has would wait for ever."""
        self._to = os.open(f"{path}.in", os.O_WRONLY | os.O_NONBLOCK)
        self._from = os.open(f"{path}.out", os.O_RDONLY | os.O_NONBLOCK)
        for end in (self._to, self._from):
            os.set_blocking(end, True)

    @staticmethod
    def make(path: Path) -> None:
        for way in ("in", "out"):
            os.mkfifo(f"{path}.{way}")

    def fileno(self) -> int:
        return self._from

    def read(self) -> bytes:
        return os.read(self._from, 65536)

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._to, data):]
        except BrokenPipeError:
            pass  # the machine has ended: whoever reads is told

    def close(self) -> None:
        os.close(self._from)
        os.close(self._to)


class PipeTransport:
    """The stdin and stdout of a process, for QEMU's `-serial stdio`."""

    loses = False

    def __init__(self, to_guest: IO[bytes], from_guest: IO[bytes]) -> None:
        self._to, self._from = to_guest, from_guest

    def fileno(self) -> int:
        return self._from.fileno()

    def read(self) -> bytes:
        return os.read(self._from.fileno(), 65536)

    def write(self, data: bytes) -> None:
        self._to.write(data)
        self._to.flush()

    def close(self) -> None:
        self._to.close()
        self._from.close()


class TtyTransport:
    """A pty or a real serial port, raw, at the given speed."""

    loses = True

    def __init__(self, path: Path, speed: int = termios.B115200) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(self._fd)
        settings = termios.tcgetattr(self._fd)
        settings[2] |= termios.CLOCAL | termios.CREAD
        settings[4] = settings[5] = speed
        termios.tcsetattr(self._fd, termios.TCSANOW, settings)

    def fileno(self) -> int:
        return self._fd

    def read(self) -> bytes:
        try:
            return os.read(self._fd, 65536)
        except OSError:
            return b""  # a pty whose other side closed

    def write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data):]

    def close(self) -> None:
        os.close(self._fd)


def plain(data: bytes) -> str:
    """What a person would see: escapes and control characters gone, lines ended by newlines."""
    text = ESCAPES.sub(b"", data.replace(b"\r\n", b"\n")).replace(b"\r", b"")
    return text.decode("utf-8", "replace")


class Console:
    """Talks to the shell: waits for its prompt, types, and gives back what was printed."""

    def __init__(self, transport: Transport, log: Path, cap: int = 32 << 20,
                 watch: Callable[[], None] = lambda: None, clock: Callable[[], float] = time.monotonic) -> None:
        self._transport = transport
        self._log = log.open("wb")
        self._cap = cap
        self._watch = watch  # looks at the machine; raises Stopped
        self._clock = clock  # seconds that the guest could have used
        self.on_command: Callable[[str], None] = lambda line: None
        self._unread = b""
        self.received = 0
        self.ended = False

    def _fill(self, seconds: float, gather: float = 0) -> bool:
        """Read what is there, waiting so long for the first byte, and then for others; False: nothing came."""
        if self.ended or not select.select([self._transport], [], [], seconds)[0]:
            return False
        if gather:
            time.sleep(gather)
        data = self._transport.read()
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
            quiet = not self._fill(0.05, GATHER)
            if quiet or time.monotonic() > looked + 0.2:
                self._watch()
                looked = time.monotonic()
                if self._clock() > deadline:
                    raise self._late(seconds, what)
            if self.ended:
                raise Stopped(Verdict.DEAD, f"the console closed while we waited for {what}")
        text = plain(self._unread)
        self._unread = b""
        return text

    def _late(self, seconds: float, what: str) -> Stopped:
        if not self.received:
            return Stopped(Verdict.DEAD, f"not one byte on the console in {seconds:.0f} s")
        tail = plain(self._unread[-TAIL:]).strip().splitlines()
        last = f"; the last line was: {tail[-1]}" if tail else ""
        return Stopped(Verdict.TIMEOUT, f"no {what} within {seconds:.0f} s{last}")

    def wait_ready(self, seconds: float) -> str:
        return self.wait_for(_at_prompt, seconds, "prompt")

    def type(self, text: str) -> None:
        """Type without the newline, piece by piece; a guest that does not echo is not waited for long."""
        for start in range(0, len(text), PIECE):
            piece = text[start:start + PIECE]
            before = len(plain(self._unread))
            self._transport.write(piece.encode())
            deadline = self._clock() + 2
            while len(plain(self._unread)) < before + len(piece):
                if not self._fill(0.05):
                    self._watch()
                    if self._clock() > deadline:
                        break

    def command(self, line: str, seconds: float = 60) -> str:
        """Type a line, wait for the next prompt, and return what was printed between."""
        self.on_command(line)
        self.type(line)
        self._fill(0)
        self._unread = b""
        self._transport.write(b"\r")
        text = self.wait_for(_at_prompt, seconds, f"prompt after '{line}'")
        return text[: -len(PROMPT)].lstrip("\n") if text.endswith(PROMPT) else text

    def until(self, line: str, shown: str, seconds: float = 60) -> str:
        """Type a line again and again, until what it prints has these words: that is returned."""
        deadline = self._clock() + seconds
        while shown not in (text := self.command(line)):
            if self._clock() > deadline:
                raise Stopped(Verdict.TIMEOUT, f"'{line}' does not show '{shown}' within {seconds:.0f} s, but:\n{text[-TAIL:]}")
        return text

    def file(self, name: str, seconds: float = 60) -> str:
        """A file's text; where a wire may lose some of it, held against the guest's own checksum."""
        text = self.command(f"cat {name}", seconds)
        if not self._transport.loses:
            return text
        said = self.command(f"cksum {name}", seconds).split()[:2]
        came = [str(cksum(text.encode())), str(len(text.encode()))]
        if said != came:
            raise Stopped(Verdict.HARNESS, f"{name} arrived damaged: cksum says {' '.join(said)}, what arrived has {' '.join(came)}")
        return text

    def keep_up(self) -> None:
        """Read what is there, while the caller waits for something else: a guest cannot go on when its line is full."""
        self._fill(0)

    def send(self, data: bytes) -> None:
        self._transport.write(data)

    def drain(self, seconds: float) -> str:
        """What is there, and what still comes until the line closes or the time is over."""
        deadline = time.monotonic() + seconds
        self._fill(0.05)  # in any case: the time may be over already
        while time.monotonic() < deadline and not self.ended:
            self._fill(0.05)
        return plain(self._unread[-(1 << 20):])

    def unread(self) -> str:
        return plain(self._unread)

    def transcript(self) -> str:
        """All that came since the boot, at most its last megabyte."""
        return plain(Path(self._log.name).read_bytes()[-(1 << 20):])

    def close(self) -> None:
        self._transport.close()
        self._log.close()


def _at_prompt(text: str) -> bool:
    return text.endswith(PROMPT) and (len(text) == len(PROMPT) or text[-len(PROMPT) - 1] == "\n")

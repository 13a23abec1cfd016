"""A machine at the far end of a serial line: its console is all that the harness has, and any byte
may be lost, doubled or changed.

The line has no flow control, and the UART at its end may have room for 16 bytes only. So the
harness types and reads like this:

1. It types CHUNK bytes, waits for their echo, and compares. If the echo differs it types Ctrl-U, a
   comment with a new number, `#17`, and Enter, until it reads exactly that and a prompt; then it
   types the line again.
2. A command is typed as `ask NUMBER CRC "COMMAND"` (kern/shell/framed.c). The kernel does not run
   it if it arrived changed, nor if its number does not follow the last one's. So if there is doubt
   whether it has run, it is typed again.
3. What the command printed is read with `lines FIRST COUNT`, and a file with `lines FIRST COUNT
   FILE`: each line comes with the command's number, its own number and a CRC. Frames that are not
   whole are ignored, and asked for again.
4. Frames have the number of the kernel's last command. If it is another one than was typed last,
   the kernel has started again.

No step relies on time. If nothing comes for some seconds, the harness types again what can be typed
again; on a slow machine it does so for nothing. A kernel that does not answer for `seconds` has a
time-out.

U-Boot has no such commands. Only the echo of what is typed is compared there; Ctrl-C gives a new
prompt.
"""

import re
import select
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from grading.machine.console import LAST, PROMPT, Transcript, last_line, plain
from grading.verdict import Refused, Stopped, Verdict
from qemu.disk import naming

BAUD = 115200
TICK = 0.05  # seconds that one read waits at most
CHUNK = 8  # bytes that are typed at once
WINDOW = 256  # frames that are asked for at once
# seconds without a byte after which it is typed again; twice as long each time, up to LONGEST_QUIET
QUIET = 2.0
LONGEST_QUIET = 60.0
AT_UBOOT = 10.0  # seconds without a byte after which Enter is typed while the machine boots
# of a telnet server, to each of its port's settings; pyserial waits for 3, which is too little on a
# busy host
ANSWER_SECONDS = 60
OFF_SECONDS = 5.0  # without an answer: the machine is off
COMMAND_SECONDS = 300.0
CAP = 64 << 20
COUNTDOWN = b"Hit any key to stop autoboot"
FRAME = re.compile(rb"^([:+.])(\d{1,19}) (\d{1,9}) ([0-9a-f]{8}) (.*?)\r?$", re.M)
PANIC = b"panic:"


class Line(Protocol):
    def read(self) -> bytes:
        """What has come; after TICK seconds, nothing. EOFError: the line is closed."""

    def write(self, data: bytes) -> None: ...

    def clock(self) -> float:
        """Seconds."""

    def close(self) -> None: ...


class _Port:
    """A serial device, or a telnet server that has one (RFC 2217)."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.clock = time.monotonic
        self.close = port.close
        self.write = port.write

    def read(self) -> bytes:
        try:
            data: bytes = self._port.read(1)
            more: bytes = self._port.read(self._port.in_waiting) if data else b""
            return data + more
        except OSError as closed:  # pyserial's exception is one
            raise EOFError from closed


class _Socket:
    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        with naming(Path(path)):
            self._socket.connect(path)
        self.clock = time.monotonic
        self.close = self._socket.close

    def read(self) -> bytes:
        if not select.select([self._socket], [], [], TICK)[0]:
            return b""
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionError as closed:
            raise EOFError from closed
        if not data:
            raise EOFError
        return data

    def write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except ConnectionError:
            pass  # the next read says so


def parts_of(where: str) -> tuple[str, str, str, str]:
    """serial:DEVICE[@BAUD], pty:PATH, unix:PATH or telnet:HOST:PORT as its kind, what follows, that
    without the baud rate, and the rate or "". Raises Refused."""
    kind, _, rest = where.partition(":")
    device, _, baud = rest.partition("@")
    port = rest.rpartition(":")[2] if kind == "telnet" else "1"
    if not rest or kind not in ("serial", "pty", "unix", "telnet") or not re.fullmatch(
            "[0-9]{1,7}", baud or str(BAUD)) or not re.fullmatch("[0-9]{1,5}", port):
        raise Refused(
            f"MACHINE={where} is not serial:DEVICE[@BAUD], pty:PATH, unix:PATH or telnet:HOST:PORT")
    return kind, rest, device, baud


def open_line(where: str) -> Line:
    """Open the line to a machine. Raises Refused if `where` is not understood."""
    kind, rest, device, baud = parts_of(where)
    if kind == "unix":
        return _Socket(rest)
    import serial  # type: ignore  # pylint: disable=import-outside-toplevel
    if kind == "telnet":
        return _Port(
            serial.serial_for_url(f"rfc2217://{rest}?timeout={ANSWER_SECONDS}", BAUD, timeout=TICK))
    return _Port(serial.Serial(device, int(baud or BAUD), timeout=TICK, exclusive=True))


@dataclass(frozen=True)
class UBoot:
    prompt: str = "=> "
    # typed at its prompt. Empty: it boots by itself; `boot` is typed if something has stopped it
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class LineFrame:
    kind: bytes
    number: int
    index: int
    text: bytes


def frames(said: bytes) -> Iterator[LineFrame]:
    """The frames that are whole."""
    for kind, number, index, crc, text in FRAME.findall(said):
        if zlib.crc32(b"%s%s %s %s" % (kind, number, index, text)) == int(crc, 16):
            yield LineFrame(kind, int(number), int(index), text)


def ask(number: int, command: str) -> str:
    crc = zlib.crc32(f"{number} {command}".encode())
    quoted = re.sub(r'(["\\$`])', r"\\\1", command)
    return f'ask {number} {crc:08x} "{quoted}"'


def ends_with(prompt: str) -> Callable[[bytes], bool]:
    """Is this a prompt, at the beginning of a line?"""
    return lambda came: came == prompt.encode() or came.endswith(f"\n{prompt}".encode())


at_prompt = ends_with(PROMPT)


class LineConsole:
    """The kernel's shell, and U-Boot's before it, at the far end of the line."""

    def __init__(self, line: Line, log: Path) -> None:
        self._line = line
        self._log = Transcript(log)
        self._tail = b""  # the last that was read
        self._number = 0  # of the last command
        self._comment = 0  # the number of the last comment
        self._deadline, self._seconds, self._what = 0.0, 0.0, ""
        self.received = self.retyped = self.refetched = 0

    # ---- bytes ----

    def _take(self) -> bytes:
        try:
            data = self._line.read()
        except EOFError as closed:
            raise self._ended(Verdict.DEAD, f"the line was closed during {self._what}") from closed
        self.received += len(data)
        self._log.write(data)
        self._tail = (self._tail + data)[-LAST:]
        if self.received > CAP:
            raise Stopped(Verdict.FLOOD, f"the console printed more than {CAP} bytes")
        if self._line.clock() > self._deadline:
            raise self._late()
        return data

    def _late(self) -> Stopped:
        if not self.received:
            return Stopped(Verdict.DEAD, f"no byte came over the line in {self._seconds:.0f} s")
        said = last_line(plain(self._tail), len(self._tail) == LAST)
        return self._ended(
            Verdict.TIMEOUT,
            f"no answer within {self._seconds:.0f} s to {self._what}; the last line was: {said}")

    def _ended(self, verdict: Verdict, why: str) -> Stopped:
        panic = self._tail.rpartition(PANIC)
        if panic[1]:
            return Stopped(Verdict.PANIC, plain(panic[2]).partition("\n")[0].strip())
        return Stopped(verdict, why)

    def _limit(self, seconds: float, what: str) -> None:
        self._deadline, self._seconds, self._what = self._line.clock() + seconds, seconds, what

    def _until(self, enough: Callable[[bytes], bool], quiet: float) -> bytes:
        """Read until it is enough, or until nothing has come for so many seconds."""
        came, end = b"", self._line.clock() + quiet
        while not enough(came) and self._line.clock() < end:
            data = self._take()
            came += data
            end = self._line.clock() + quiet if data else end
        return came

    def _echoed(self, line: str) -> bool:
        """Type the line. Did the echo of all of it come?"""
        for at in range(0, len(line), CHUNK):
            chunk = line[at:at + CHUNK].encode()
            self._line.write(chunk)
            if self._until(lambda came, n=len(chunk): len(came) >= n,  # type: ignore[misc]
                           QUIET) != chunk:
                self.retyped += 1
                return False
        return True

    # ---- U-Boot ----

    def boot(self, uboot: UBoot, seconds: float) -> None:
        """Wait for the kernel's prompt. At U-Boot's prompt type its commands; if all is quiet,
        Enter."""
        self._limit(seconds, "the boot")
        at_uboot = ends_with(uboot.prompt)
        while True:
            came = self._until(lambda came: at_prompt(came) or at_uboot(came)
                               or bool(uboot.commands) and COUNTDOWN in came[-100:], AT_UBOOT)
            if at_prompt(came) or at_uboot(came) and self._boots(uboot.commands or
                                                                 ("boot",), at_uboot):
                break
            if not at_uboot(came):
                self._line.write(b" " if COUNTDOWN in came[-100:] else b"\r")

        said = next(filter(None, (list(frames(self._enter("lines 0 1"))) for _ in count())))
        self._number = said[0].number

    def _boots(self, commands: tuple[str, ...], at_uboot: Callable[[bytes], bool]) -> bool:
        """Type U-Boot's commands. Is the kernel's prompt there?"""
        came, either = b"", lambda came: at_prompt(came) or at_uboot(came)
        for command in commands:
            came = b""
            while not came.startswith(b"\r\n"):  # of the echo of Enter
                self._line.write(b"\x03")
                came = self._until(either, QUIET)
                if at_prompt(came):
                    return True
                if at_uboot(came) and self._echoed(command):
                    self._line.write(b"\r")
                    came = self._until(either, AT_UBOOT)
                else:
                    came = b""
            if not at_uboot(came):
                break
        return at_prompt(came)

    # ---- the kernel's shell ----

    def _sync(self) -> None:
        """Come to a prompt of which it is known that nothing comes after it."""
        quiet = QUIET
        while True:
            self._comment += 1
            mark = b"#%d" % self._comment
            self._line.write(b"\x15" + mark + b"\r")
            end = mark + b"\r\n" + PROMPT.encode()
            # pylint: disable-next=cell-var-from-loop
            if self._until(lambda came: came.endswith(end), quiet).endswith(end):
                return
            if PANIC in self._tail:
                self._until(lambda came: False, QUIET)  # what else it prints
                raise self._ended(Verdict.PANIC, "")
            quiet = min(2 * quiet, LONGEST_QUIET)

    def _enter(self, line: str) -> bytes:
        """Type the line. Returns what came up to the prompt, or until nothing came for some time.
        """
        while True:
            self._sync()
            if self._echoed(line):
                break
        self._line.write(b"\r")
        return self._until(at_prompt, QUIET)

    def command(self, command: str, seconds: float = COMMAND_SECONDS) -> str:
        """Run a command at the shell, once, and return what it printed."""
        self._limit(seconds, f"'{command}'")
        self._number += 1
        while True:
            self._enter(ask(self._number, command))
            text = self._text("")
            if text is not None:
                return text

    def file(self, name: str, seconds: float = COMMAND_SECONDS) -> str:
        """The text of a file. It must not change meanwhile."""
        self._limit(seconds, f"'lines' of {name}")
        return self._text(f" {name}") or ""

    def _text(self, file: str) -> str | None:
        """The text of a file, or of what the last command printed. None: it has not run yet."""
        found, asked = dict[int, LineFrame](), 0
        end: LineFrame | None = None
        while end is None or len(found) < end.index:
            first = next(n for n in count() if n not in found)
            until = min((n for n in found if n > first), default=first + WINDOW)
            self.refetched += first < asked
            asked = max(asked, until)
            for frame in frames(self._enter(f"lines {first} {until - first}{file}")):
                if frame.number == self._number - 1:
                    return None
                if frame.number != self._number:
                    raise self._ended(Verdict.REBOOT,
                                      f"the kernel has started again before or during {self._what}")
                if frame.kind == b".":
                    end = frame
                else:
                    found[frame.index] = frame
        if end.text:
            raise Stopped(Verdict.FLOOD, f"{self._what} printed more than the kernel keeps")
        return plain(b"".join(found[n].text + (b"\n" if found[n].kind == b":" else b"")
                              for n in range(end.index)))

    def power_off(self) -> None:
        """Type poweroff, until nothing answers any more: neither the kernel nor, after a reset,
        what comes before it."""
        self._number += 1
        end = self._line.clock() + COMMAND_SECONDS
        while self._line.clock() < end:
            self._limit(COMMAND_SECONDS, "'poweroff'")
            try:
                self._enter(ask(self._number, "poweroff"))
                self._limit(OFF_SECONDS, "'poweroff'")
                self._text("")
            except Stopped as stopped:
                if stopped.verdict not in (Verdict.DEAD, Verdict.TIMEOUT):
                    raise
                if stopped.verdict == Verdict.DEAD or self._silent():
                    return
        raise self._ended(Verdict.TIMEOUT,
                          f"the machine is still on, {COMMAND_SECONDS:.0f} s after 'poweroff'")

    def _silent(self) -> bool:
        """Does nothing come for some time, nor an echo of Enter?"""
        self._limit(COMMAND_SECONDS, "'poweroff'")
        self._line.write(b"\r")
        try:
            return not self._until(bool, OFF_SECONDS)
        except Stopped as stopped:
            return stopped.verdict == Verdict.DEAD

    def transcript(self) -> str:
        """What came over the line, at most the last megabyte, as it came."""
        return plain(self._log.path.read_bytes()[-(1 << 20):])

    def close(self) -> None:
        self._line.close()
        self._log.close()

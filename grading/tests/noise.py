"""A serial line that delays, drops, doubles and changes bytes, by a seed; and a shell at its far
end that knows what line.py needs."""

from __future__ import annotations

import random
import re
import zlib

from grading.machine.console import PROMPT


class Noise:
    """What becomes of the bytes that go through one direction of a line."""

    def __init__(self, seed: int, rate: float) -> None:
        self._random = random.Random(seed)
        self._rate = rate
        self.harmed = self.passed = 0

    def through(self, data: bytes) -> bytes:
        self.passed += len(data)
        return b"".join(map(self._byte, data))

    def _byte(self, byte: int) -> bytes:
        if self._random.random() >= self._rate:
            return bytes([byte])
        self.harmed += 1
        return self._random.choice([
            b"",
            bytes([byte, byte]),
            bytes([byte ^ 1 << self._random.randrange(8)]),
            bytes([self._random.randrange(256)])
        ])


class Shell:
    """The kernel's shell, as much as is needed of it."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.ran: list[str] = []  # by `ask`
        self._line = b""
        self._number, self._kept = 0, ""

    def types(self, data: bytes) -> bytes:
        """What it prints when these bytes are typed."""
        return b"".join(self._key(bytes([byte])) for byte in data)

    def _key(self, key: bytes) -> bytes:
        if key == b"\r":
            line, self._line = self._line.decode("latin-1"), b""
            return f"\n{self.enter(line)}{PROMPT}".replace("\n", "\r\n").encode("latin-1")
        if key in (b"\x15", b"\x03"):
            self._line = b""
            return f"^C\r\n{PROMPT}".encode() if key == b"\x03" else b""
        self._line += key if b" " <= key < b"\x7f" else b""
        return key if b" " <= key < b"\x7f" else b""

    def enter(self, line: str) -> str:
        if asked := re.fullmatch(r'ask (\d+) ([0-9a-f]{8}) "((?:[^"\\]|\\.)*)"', line):
            return self._ask(int(asked[1]), int(asked[2], 16), re.sub(r"\\(.)", r"\1", asked[3]))
        if lines := re.fullmatch(r"lines (\d+) (\d+)(?: (\S+))?", line):
            text = self.files.get(lines[3]) if lines[3] else self._kept
            return f"lines: {lines[3]}: ENOENT\n" if text is None else self._lines(
                int(lines[1]), int(lines[2]), text)
        return "" if not line or line[0] == "#" else f"{line}: unknown command\n"

    def _ask(self, number: int, crc: int, command: str) -> str:
        if zlib.crc32(f"{number} {command}".encode()) != crc:
            return "ask: the CRC is another one\n"
        if number != self._number + 1:
            return f"ask: the last number is {self._number}\n"
        self._number, self._kept = number, self.run(command)
        self.ran.append(command)
        return self._kept

    def run(self, command: str) -> str:
        return f"{command} was run\n"

    def _lines(self, first: int, count: int, text: str) -> str:
        said = ""
        texts = text.splitlines()
        for kind, index, line in [
                *((":", n, line) for n, line in enumerate(texts)), (".", len(texts), "")
        ]:
            if first <= index < first + count or kind == "." and first + count > index:
                crc = zlib.crc32(f"{kind}{self._number} {index} {line}".encode())
                said += f"{kind}{self._number} {index} {crc:08x} {line}\n"
        return said


class Far:
    """A line to a shell, as grading.machine.line.Line; its clock goes by the bytes, at 115200 baud,
    and by what is waited for."""

    def __init__(self, shell: Shell, seed: int = 1, rate: float = 0.0) -> None:
        self.shell = shell
        self.there, self.back = Noise(seed, rate), Noise(seed + 1, rate)
        self._coming = b""
        self._late = random.Random(seed + 2)
        self._now = 0.0

    def clock(self) -> float:
        return self._now

    def write(self, data: bytes) -> None:
        self._now += len(data) / 11520
        self._coming += self.back.through(self.shell.types(self.there.through(data)))

    def read(self) -> bytes:
        n = self._late.randrange(1 + min(len(self._coming), 64))
        data, self._coming = self._coming[:n], self._coming[n:]
        self._now += n / 11520 if self._coming or data else 0.05
        return data

    def close(self) -> None:
        pass


class Board(Far):
    """A board with a scripted U-Boot: its countdown is stopped by any byte; the kernel is booted by
    the command `boot` or by no key."""

    PROMPT = "StarFive # "

    def __init__(self, shell: Shell, seed: int = 1, rate: float = 0.0, boots: str = "boot") -> None:
        super().__init__(shell, seed, rate)
        self.typed: list[str] = []  # at U-Boot's prompt
        self._boots = boots
        self._at_uboot = self._counting = False
        self._row = b""

    def power(self, noise: bytes = b"") -> None:
        """Turn the board on; noise on the line reaches it while it counts down."""
        self._counting = True
        self._coming += self.back.through(
            b"\r\nU-Boot 2025.01\r\nHit any key to stop autoboot:  2 \b\b\b 1 ")
        self.write(noise)

    def read(self) -> bytes:
        data = super().read()
        if self._counting and not data and not self._coming:
            self._counting = False
            self._start()
        return data

    def write(self, data: bytes) -> None:
        if self._counting and data:
            self._counting, self._at_uboot = False, True
            self._coming += self.back.through(f"\r\n{self.PROMPT}".encode())
        elif self._at_uboot:
            self._coming += self.back.through(b"".join(
                self._uboot(bytes([key])) for key in self.there.through(data)))
        elif not self._counting:
            super().write(data)

    def _start(self) -> None:
        self._at_uboot = False
        self._coming += self.back.through(
            f"\r\nStarting kernel ...\r\n\r\nCallsite on a board: 4 CPUs, 99 MiB free\r\n{PROMPT}".
            encode())

    def _uboot(self, key: bytes) -> bytes:
        if key == b"\x03":
            self._row = b""
            return f"<INTERRUPT>\r\n{self.PROMPT}".encode()
        if key != b"\r":
            self._row += key
            return key
        line, self._row = self._row.decode("latin-1"), b""
        self.typed.append(line)
        if line == self._boots:
            self._start()
            return b""
        return f"\r\n{self.PROMPT}".encode()

"""QEMU's debugger stub, spoken to directly: the machine held at an instruction, stepped, read and written."""

from __future__ import annotations

import re
import socket
import struct
from pathlib import Path

from grading.verdict import Stopped, Verdict

PACKET = re.compile(rb"\$([^#]*)#..", re.S)


class Gone(Exception):
    """The machine has ended."""


class Stub:
    """A connection; the machine stands still from the first moment on."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(10)
        self._socket.connect(str(path))
        self._data = b""

    def let_go(self) -> bool:
        """The machine goes on alone; False: it has ended."""
        try:
            self.ask("D")
        except Gone:
            return False
        finally:
            self._socket.close()
        return True

    def send(self, packet: str) -> None:
        self._write(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())

    def _write(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise Gone from error

    def receive(self, seconds: float = 10) -> bytes:
        """The next packet; b'': none came."""
        self._socket.settimeout(seconds)
        while not (packet := PACKET.search(self._data)):
            try:
                more = self._socket.recv(65536)
            except TimeoutError:
                return b""
            except OSError as error:
                raise Gone from error
            if not more:
                raise Gone
            self._data += more
        self._data = self._data[packet.end():]
        self._write(b"+")
        return packet[1]

    def ask(self, packet: str) -> bytes:
        """The answer; that the machine stopped it says when it likes."""
        self.send(packet)
        answer = self.receive()
        while answer.startswith((b"T", b"S")):
            answer = self.receive()
        if answer.startswith((b"W", b"X")):
            raise Gone
        return answer

    def do(self, packet: str) -> None:
        answer = self.ask(packet)
        if answer != b"OK":
            raise Stopped(Verdict.HARNESS, f"QEMU's debugger stub answered {answer!r}")

    def step(self) -> bool:
        """One instruction; no interrupt comes. False: the machine has ended."""
        self.send("s")
        return self.stopped()

    def go_on(self) -> None:
        self.send("c")

    def interrupt(self) -> None:
        self._write(b"\x03")
        self.stopped()

    def stopped(self, seconds: float = 10) -> bool:
        """Wait until it stands still again."""
        return self.receive(seconds).startswith((b"T", b"S"))

    def registers(self) -> list[int]:
        """riscv64: x0 to x31, pc. arm64: x0 to x30, sp, pc."""
        return list(struct.unpack_from("<33Q", bytes.fromhex(self.ask("g").decode())))

    def load_registers(self, registers: list[int]) -> None:
        data = bytes.fromhex(self.ask("g").decode())
        self.do("G" + (struct.pack("<33Q", *registers) + data[33 * 8:]).hex())

    def read(self, address: int, size: int) -> bytes:
        """b'': nothing can be read there."""
        answer = self.ask(f"m{address:x},{size:x}")
        return b"" if answer.startswith(b"E") else bytes.fromhex(answer.decode())

    def write(self, address: int, data: bytes) -> None:
        self.do(f"M{address:x},{len(data):x}:{data.hex()}")

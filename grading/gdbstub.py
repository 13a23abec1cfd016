"""QEMU's debugger stub, spoken to directly: the machine held at an instruction, stepped, read and written."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable

from grading.qmp import PATIENCE, Line, QemuError, QemuGone

PACKET = re.compile(rb"\$([^#]*)#..", re.S)
PC = 32  # its number in the packets, on both architectures
PIECE = 1024  # bytes of memory in one packet, which holds less than 4096 characters


class Stub:
    """A connection; the machine is stopped as soon as it is made.

    Addresses are virtual, and mean what the first CPU's page tables say in the mode that it is in: in riscv64's firmware,
    or before its MMU is on, a kernel's address is not mapped, and a write to it is dropped without an error. A caller that
    does not know that CPU's mode uses physical addresses.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._data = b""
        self._numbers: dict[str, int] = {}
        self.do("Qqemu.PhyMemMode:0")  # QEMU remembers it from one connection to the next

    def let_go(self) -> None:
        """The machine goes on alone."""
        self.do("D")

    def send(self, packet: str) -> None:
        self._line.send(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())

    def receive(self, seconds: float = PATIENCE) -> bytes | None:
        """The next packet; None: none came."""
        while not (packet := PACKET.search(self._data)):
            more = self._line.more(seconds)
            if not more:
                return None
            self._data += more
        self._data = self._data[packet.end():]
        self._line.send(b"+")
        return packet[1]

    def ask(self, packet: str) -> bytes:
        """The answer; that the machine stopped it says when it likes."""
        self.send(packet)
        answer = self.receive()
        while answer and answer.startswith((b"T", b"S")):
            answer = self.receive()
        if answer is None:
            raise QemuError("QEMU's debugger stub does not answer")
        if answer.startswith((b"W", b"X")):
            raise QemuGone("QEMU's debugger stub says that the machine has ended")
        return answer

    def do(self, packet: str) -> None:
        answer = self.ask(packet)
        if answer != b"OK":
            raise QemuError(f"QEMU's debugger stub answered {answer!r} to {packet[:20]}")

    def step(self) -> bool:
        """One instruction; no interrupt comes. False: the machine has ended."""
        self.send("s")
        return self.stopped()

    def go_on(self) -> None:
        self.send("c")

    def go_on_with(self, cpus: Iterable[int]) -> None:
        """These run; the others stand still until they are told."""
        self.send("vCont" + "".join(f";c:{cpu + 1:x}" for cpu in cpus))

    def step_one(self, cpu: int) -> None:
        """One instruction of this CPU; no interrupt comes, and no other CPU runs."""
        self.send(f"vCont;s:{cpu + 1:x}")
        self.stopped()

    def breakpoint(self, address: int, on: bool) -> None:
        """It stops whichever CPU comes there; nothing is written into memory."""
        self.do(f"{'Z' if on else 'z'}0,{address:x},4")

    def pc(self, cpu: int) -> int:
        self.do(f"Hg{cpu + 1:x}")
        return int.from_bytes(bytes.fromhex(self.ask(f"p{PC:x}").decode()), "little")

    def interrupt(self) -> None:
        self._line.send(b"\x03")
        self.stopped()

    def stopped(self, seconds: float = PATIENCE) -> bool:
        """Wait until it stands still again."""
        return (self.receive(seconds) or b"").startswith((b"T", b"S"))

    def registers(self) -> list[int]:
        """riscv64: x0 to x31, pc. arm64: x0 to x30, sp, pc."""
        return list(struct.unpack_from("<33Q", bytes.fromhex(self.ask("g").decode())))

    def load_registers(self, registers: list[int]) -> None:
        data = bytes.fromhex(self.ask("g").decode())
        self.do("G" + (struct.pack("<33Q", *registers) + data[33 * 8:]).hex())

    def control_register(self, cpu: int, name: str) -> int:
        """One of those that rule a CPU, by its name in QEMU's description; whatever mode the CPU is in."""
        if not self._numbers:
            self._numbers = self._described()
        if name not in self._numbers:
            raise QemuError(f"QEMU's debugger stub does not know {name}")
        self.do(f"Hg{cpu + 1:x}")
        return int.from_bytes(bytes.fromhex(self.ask(f"p{self._numbers[name]:x}").decode()), "little")

    def _described(self) -> dict[str, int]:
        files = re.findall(rb'href="([^"]+)"', self._file("target.xml"))
        text = b"".join(self._file(name.decode()) for name in files)
        return {name.decode(): int(number) for name, number in re.findall(rb'<reg name="(\w+)"[^>]* regnum="(\d+)"', text)}

    def _file(self, name: str) -> bytes:
        text, more = b"", b"m"
        while more[:1] == b"m":
            more = self.ask(f"qXfer:features:read:{name}:{len(text):x},{PIECE:x}")
            text += more[1:]
        return text

    def read(self, address: int, size: int) -> bytes:
        """b'': nothing can be read there."""
        answer = self.ask(f"m{address % (1 << 64):x},{size:x}")
        return b"" if answer.startswith(b"E") else bytes.fromhex(answer.decode())

    def write(self, address: int, data: bytes) -> None:
        self.do(f"M{address % (1 << 64):x},{len(data):x}:{data.hex()}")

    def read_physical(self, address: int, size: int) -> bytes:
        self.do("Qqemu.PhyMemMode:1")
        data = self.read(address, size)
        self.do("Qqemu.PhyMemMode:0")
        return data

    def write_physical(self, address: int, data: bytes) -> None:
        """And look whether it is there then."""
        self.do("Qqemu.PhyMemMode:1")
        self.write(address, data)
        self.do("Qqemu.PhyMemMode:0")
        held = self.read_physical(address, len(data))
        if held != data:
            raise QemuError(f"QEMU was to write {data.hex()} into memory at {address:#x}, and it holds {held.hex()}")

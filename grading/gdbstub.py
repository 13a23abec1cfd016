"""QEMU's debugger stub, spoken to directly: the machine held at an instruction, stepped, read and written."""

from __future__ import annotations

import re
import select
import socket
import struct
from collections.abc import Callable, Iterable

from grading.verdict import Stopped, Verdict

PACKET = re.compile(rb"\$([^#]*)#..", re.S)
PC = 32  # its number in the packets, on both architectures
PIECE = 1024  # bytes of a file in one packet, which holds less than 4096 characters
STEP = 10.0  # seconds for one instruction
PATIENCE = 60.0  # seconds for a QEMU that neither answers nor ends: a host may be busy


class QemuError(OSError):
    """QEMU refused a command, or does not answer."""


class QemuGone(QemuError):
    """Its socket closed: QEMU ends."""


class Stub:
    """One connection, made before QEMU starts. QEMU is started with -S, so the CPUs are stopped at first.

    Addresses are virtual, and mean what the first CPU's page tables say in the mode that it is in: in riscv64's firmware,
    or before its MMU is on, a kernel's address is not mapped, and a write to it is dropped without an error. A caller that
    does not know that CPU's mode uses physical addresses.
    """

    def __init__(self, line: socket.socket, meanwhile: Callable[[], object], clock: Callable[[], float]) -> None:
        self._line = line
        self._line.settimeout(PATIENCE)
        self._meanwhile = meanwhile  # reads the console: a QEMU whose console is full answers nobody
        self._clock = clock
        self._data = b""
        self._numbers: dict[str, int] = {}
        self._running = False

    def _send(self, data: bytes) -> None:
        try:
            self._line.sendall(data)
        except OSError as error:
            raise QemuGone(str(error)) from error

    def _more(self, seconds: float) -> bytes:
        """What comes next; b'': nothing in all this time."""
        deadline = 0.0
        while not select.select([self._line], [], [], min(seconds, 0.05))[0]:
            deadline = deadline or self._clock() + seconds
            if self._clock() >= deadline:
                return b""
            self._meanwhile()
        try:
            data = self._line.recv(65536)
        except OSError as error:
            raise QemuGone(str(error)) from error
        if not data:
            raise QemuGone("QEMU closed its debugger stub")
        return data

    def send(self, packet: str) -> None:
        self._send(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())

    def receive(self, seconds: float = PATIENCE) -> bytes | None:
        """The next packet; None: none came."""
        while not (packet := PACKET.search(self._data)):
            more = self._more(seconds)
            if not more:
                return None
            self._data += more
        self._data = self._data[packet.end():]
        if packet[1].startswith((b"W", b"X")):
            raise QemuGone("QEMU's debugger stub says that the machine has ended")
        self._send(b"+")
        return packet[1]

    def ask(self, packet: str) -> bytes:
        """The answer; that the machine stopped it may say once more."""
        self.send(packet)
        answer = self.receive()
        while answer and answer.startswith((b"T", b"S")):
            answer = self.receive()
        if answer is None:
            raise QemuError("QEMU's debugger stub does not answer")
        return answer

    def do(self, packet: str) -> None:
        answer = self.ask(packet)
        if answer != b"OK":
            raise QemuError(f"QEMU's debugger stub answered {answer!r} to {packet[:20]}")

    def go_on(self) -> None:
        self.send("c")
        self._running = True

    def stopped(self, seconds: float = PATIENCE) -> bool:
        """Wait until no CPU runs any more; False: they still run after so many seconds."""
        self._running = self.receive(seconds) is None
        self._meanwhile()  # each stop has its message on the control socket
        return not self._running

    def hold(self) -> None:
        """Stop all CPUs. Registers are then those of the first CPU."""
        if self._running:
            self._send(b"\x03")
            if not self.stopped():
                raise QemuError("QEMU's debugger stub does not stop the machine")
        self.do("Hg1")

    def go_on_with(self, cpus: Iterable[int]) -> None:
        """These run; the others stand still until they are told."""
        self.send("vCont" + "".join(f";c:{cpu + 1:x}" for cpu in cpus))
        self._running = True

    def step_one(self, cpu: int) -> None:
        """One instruction of this CPU, or none; no interrupt comes, and no other CPU runs."""
        self.send(f"vCont;s:{cpu + 1:x}")
        if not self.stopped():
            raise QemuError("QEMU's debugger stub does not come to the end of a step")

    def breakpoint(self, address: int, on: bool) -> None:
        """It stops whichever CPU comes there; nothing is written into memory."""
        self.do(f"{'Z' if on else 'z'}0,{address:x},4")

    def pc(self, cpu: int) -> int:
        return self.register(cpu, PC)

    def register(self, cpu: int, number: int) -> int:
        self.do(f"Hg{cpu + 1:x}")
        return int.from_bytes(bytes.fromhex(self.ask(f"p{number:x}").decode()), "little")

    def step(self) -> None:
        """One instruction; no interrupt comes."""
        self.send("s")
        if not self.stopped(STEP):
            self.hold()  # QEMU is well
            raise Stopped(Verdict.TIMEOUT, "an instruction that was taken alone waits for what does not come")

    def registers(self) -> list[int]:
        """riscv64: x0 to x31, pc. arm64: x0 to x30, sp, pc."""
        return list(struct.unpack_from("<33Q", bytes.fromhex(self.ask("g").decode())))

    def control_register(self, cpu: int, name: str) -> int:
        """One of those that rule a CPU, by its name in QEMU's description; whatever mode the CPU is in."""
        if not self._numbers:
            self._numbers = self._described()
        if name not in self._numbers:
            raise QemuError(f"QEMU's debugger stub does not know {name}")
        return self.register(cpu, self._numbers[name])

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

    def write_physical(self, address: int, data: bytes) -> None:
        """And look whether it is there then."""
        self.do("Qqemu.PhyMemMode:1")
        self.write(address, data)
        held = self.read(address, len(data))
        self.do("Qqemu.PhyMemMode:0")
        if held != data:
            raise QemuError(f"QEMU was to write {data.hex()} into memory at {address:#x}, and it holds {held.hex()}")

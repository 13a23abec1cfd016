"""A client of QEMU's debugger stub: stops the machine at an instruction, steps it, and reads and
writes registers and memory."""

import re
import select
import socket
from collections.abc import Callable, Iterable

from grading.verdict import Stopped, Verdict

PACKET = re.compile(rb"\$([^#]*)#..", re.S)
PC = 32  # the register number of pc in the packets, on both architectures
PIECE = 1024  # bytes of a file in one packet, which holds less than 4096 characters
STEP = 10.0  # seconds for one instruction
PATIENCE = 600.0  # seconds to wait for an answer of QEMU: the host may be busy


class QemuError(OSError):
    """QEMU refused a command, or does not answer."""


class QemuGone(QemuError):
    """QEMU closed its socket: it is ending."""


class Stub:
    """One connection. QEMU is started with -S, so all CPUs are stopped at first.

    Addresses are virtual, and are translated by the first CPU in its current mode. In riscv64's
    firmware, or before the MMU is on, the kernel's addresses are not mapped, and a write to them is
    dropped without an error. A caller that does not know the first CPU's mode must use physical
    addresses.
    """

    def __init__(self, line: socket.socket, meanwhile: Callable[[], object],
                 clock: Callable[[], float]) -> None:
        self._line = line
        self._line.settimeout(PATIENCE)
        # reads the console: QEMU does not answer while its console is full
        self._meanwhile = meanwhile
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
        """The next bytes; b'': nothing arrived in time."""
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
        """The next packet; None: none arrived in time."""
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
        """Send a packet and return its answer. Repeated notices that the machine has stopped are
        skipped."""
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
        """Wait until all CPUs have stopped. False: they still run after `seconds`."""
        self._running = self.receive(seconds) is None
        # each stop also sends a message to the control socket, which must be read
        self._meanwhile()
        return not self._running

    def hold(self) -> None:
        """Stop all CPUs and select the first CPU's registers."""
        if self._running:
            self._send(b"\x03")
            if not self.stopped():
                raise QemuError("QEMU's debugger stub does not stop the machine")
        self.do("Hg1")

    def go_on_with(self, cpus: Iterable[int]) -> None:
        """Let these CPUs run; the others stay stopped."""
        self.send("vCont" + "".join(f";c:{cpu + 1:x}" for cpu in cpus))
        self._running = True

    def step_one(self, cpu: int) -> None:
        """Execute at most one instruction on this CPU, without interrupts; no other CPU runs."""
        self.send(f"vCont;s:{cpu + 1:x}")
        if not self.stopped():
            raise QemuError("QEMU's debugger stub does not come to the end of a step")

    def breakpoint(self, address: int, on: bool) -> None:
        """Set or clear a breakpoint for all CPUs; nothing is written into memory."""
        self.do(f"{'Z' if on else 'z'}0,{address:x},4")

    def pc(self, cpu: int) -> int:
        return self.register(cpu, PC)

    def register(self, cpu: int, number: int) -> int:
        self.do(f"Hg{cpu + 1:x}")
        return int.from_bytes(bytes.fromhex(self.ask(f"p{number:x}").decode()), "little")

    def step(self) -> None:
        """Execute one instruction, without interrupts."""
        self.send("s")
        if not self.stopped(STEP):
            self.hold()  # QEMU still answers
            raise Stopped(Verdict.TIMEOUT, "an instruction that was stepped alone does not end")

    def control_register(self, cpu: int, name: str) -> int:
        """A system register, by its name in QEMU's description; it can be read in any CPU mode."""
        if not self._numbers:
            self._numbers = self._described()
        if name not in self._numbers:
            raise QemuError(f"QEMU's debugger stub does not know {name}")
        return self.register(cpu, self._numbers[name])

    def _described(self) -> dict[str, int]:
        files = re.findall(rb'href="([^"]+)"', self._file("target.xml"))
        text = b"".join(self._file(name.decode()) for name in files)
        return {name.decode(): int(number)
                for name, number in re.findall(rb'<reg name="(\w+)"[^>]* regnum="(\d+)"', text)}

    def _file(self, name: str) -> bytes:
        text, more = b"", b"m"
        while more[:1] == b"m":
            more = self.ask(f"qXfer:features:read:{name}:{len(text):x},{PIECE:x}")
            text += more[1:]
        return text

    def read(self, address: int, size: int) -> bytes:
        """Memory of the guest; b'': it cannot be read."""
        answer = self.ask(f"m{address % (1 << 64):x},{size:x}")
        return b"" if answer.startswith(b"E") else bytes.fromhex(answer.decode())

    def write(self, address: int, data: bytes) -> None:
        self.do(f"M{address % (1 << 64):x},{len(data):x}:{data.hex()}")

    def write_physical(self, address: int, data: bytes) -> None:
        """Write to physical memory and check the result."""
        self.do("Qqemu.PhyMemMode:1")
        self.write(address, data)
        held = self.read(address, len(data))
        self.do("Qqemu.PhyMemMode:0")
        if held != data:
            raise QemuError(f"QEMU was to write {data.hex()} into memory at {address:#x}, and it "
                            f"holds {held.hex()}")

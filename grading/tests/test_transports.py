"""The console over everything that may carry it: a pty, a pipe and a serial port, each to a real QEMU."""

from __future__ import annotations

import os
import re
import select
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from grading.console import Console, PipeTransport, Transport, TtyTransport, cksum
from grading.qmp import Qmp
from grading.verdict import Stopped
from qemu.machine import ARCHES, FINISHED, ROOT, Machine

LOGS = ROOT / "build/tests/transports"
LINE = "echo " + "".join(f"{i:02} " for i in range(60)) + "end"  # many times a UART's FIFO


class BadWire(PipeTransport):
    """Loses each z: there is none in what is typed."""

    loses = True

    def read(self) -> bytes:
        data = super().read()
        while data and not data.strip(b"z"):  # nothing would be left, which is how a line ends
            data = super().read()
        return data.replace(b"z", b"")


class Guest:
    """A QEMU that stands still until the line to it is open; ended with the test."""

    def __init__(self, test: unittest.TestCase, arch: str, serial: list[str], stdin: int, stdout: int) -> None:
        scratch = tempfile.TemporaryDirectory(prefix="callsite-")
        test.addCleanup(scratch.cleanup)
        image = ROOT / "build" / arch / FINISHED / "Image"
        qmp = Path(scratch.name) / "qmp"
        command = Machine(arch, 2, image=image).command(serial, Path(scratch.name))
        self.process = subprocess.Popen([*command, "-S", "-qmp", f"unix:{qmp},server=on,wait=off"],
                                        stdin=stdin, stdout=stdout, stderr=subprocess.PIPE)
        test.addCleanup(self.end)
        self.qmp = Qmp(qmp, self.process)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.qmp.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe:
                pipe.close()


def said_pty(process: subprocess.Popen[bytes]) -> Path:
    """Where QEMU put the console, from what it says when it starts."""
    assert process.stdout
    said, deadline = b"", time.monotonic() + 10
    while time.monotonic() < deadline and not said.endswith(b"\n"):
        if select.select([process.stdout], [], [], 0.1)[0]:
            said += os.read(process.stdout.fileno(), 4096)
    found = re.search(rb"redirected to (/dev/\S+)", said)
    assert found, f"QEMU does not say which pty: {said!r}"
    return Path(found[1].decode())


class TestTransports(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        LOGS.mkdir(parents=True, exist_ok=True)
        images = [f"build/{arch}/{FINISHED}/Image" for arch in ARCHES]
        subprocess.run(["make", "-s", *images], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)

    def session(self, guest: Guest, transport: Transport, log: str) -> None:
        """Boot, ready, a command and its answer, off: the machine's end is the line's end too."""
        console = Console(transport, LOGS / log)
        self.addCleanup(console.close)
        guest.qmp.send("cont")
        self.assertIn("2 CPUs", console.wait_ready(30))
        self.assertEqual(console.command("echo hello"), "hello\n")
        self.assertEqual(console.command(LINE), LINE.removeprefix("echo ") + "\n")
        text = console.file("available_filter_functions").encode()
        self.assertEqual(console.command("cksum available_filter_functions").split()[:2], [str(cksum(text)), str(len(text))])
        console.type("poweroff")
        console.send(b"\r")
        self.assertEqual(guest.process.wait(60), 0)
        console.drain(5)
        self.assertTrue(console.ended, "the line is still open behind a machine that is off")

    def test_pty(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                guest = Guest(self, arch, ["-serial", "pty"], subprocess.DEVNULL, subprocess.PIPE)
                self.session(guest, TtyTransport(said_pty(guest.process)), f"pty-{arch}.log")

    def test_pipe(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                guest = Guest(self, arch, ["-serial", "stdio"], subprocess.PIPE, subprocess.PIPE)
                assert guest.process.stdin and guest.process.stdout
                self.session(guest, PipeTransport(guest.process.stdin, guest.process.stdout), f"pipe-{arch}.log")

    def test_what_a_wire_lost_is_missed(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                guest = Guest(self, arch, ["-serial", "stdio"], subprocess.PIPE, subprocess.PIPE)
                assert guest.process.stdin and guest.process.stdout
                console = Console(BadWire(guest.process.stdin, guest.process.stdout), LOGS / f"bad-wire-{arch}.log")
                self.addCleanup(console.close)
                guest.qmp.send("cont")
                console.wait_ready(30)
                with self.assertRaisesRegex(Stopped, "arrived damaged"):
                    console.file("available_filter_functions")

    def test_serial_port(self) -> None:
        """A pty pair is the port: we open its one end by name, the machine's UART is its other."""
        for arch in ARCHES:
            with self.subTest(arch):
                board, port = os.openpty()
                transport = TtyTransport(Path(os.ttyname(port)))
                os.close(port)
                guest = Guest(self, arch, ["-serial", "stdio"], board, board)
                os.close(board)
                self.session(guest, transport, f"serial-{arch}.log")


if __name__ == "__main__":
    unittest.main()

"""QEMU's control socket: go on, stop, read memory, and hear why the machine ended."""

from __future__ import annotations

import json
import select
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 60.0  # seconds for a QEMU that neither answers nor ends: a host may be busy


class QemuError(OSError):
    """QEMU refused a command, or does not answer."""


class QemuGone(QemuError):
    """Its socket closed: QEMU ends."""


class Line:
    """One of QEMU's sockets. The console is read while we wait: a QEMU whose console is full answers nobody."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self._clock = clock
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(PATIENCE)
        try:
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise

    def send(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise QemuGone(str(error)) from error

    def more(self, seconds: float) -> bytes:
        """What comes next; b'': nothing in all this time."""
        deadline = self._clock() + seconds
        while not select.select([self._socket], [], [], min(seconds, 0.05))[0]:
            if self._clock() >= deadline:
                return b""
            self.meanwhile()
        try:
            data = self._socket.recv(65536)
        except OSError as error:
            raise QemuGone(str(error)) from error
        if not data:
            raise QemuGone("QEMU closed its socket")
        return data

    def close(self) -> None:
        self._socket.close()


class Qmp:
    """One connection; events that arrive meanwhile are kept in `events`."""

    def __init__(self, path: Path, qemu: subprocess.Popen[bytes], clock: Callable[[], float] = time.monotonic) -> None:
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._sent = 0
        self.line = _connect(path, qemu, clock)
        try:
            self._next()
            self.command("qmp_capabilities")
        except QemuError:
            self.close()
            raise

    def _next(self, seconds: float = PATIENCE) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            data = self.line.more(seconds)
            if not data:
                raise QemuError("QEMU does not answer on its control socket")
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        if "event" in message:
            self.events.append(message)
        return message

    def command(self, name: str, **arguments: Any) -> Any:
        number = self.send(name, **arguments)
        while True:
            message = self._next()
            if message.get("id", number) != number:
                continue
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise QemuError(f"{name}: {message['error'].get('desc', message['error'])}")

    def send(self, name: str, **arguments: Any) -> int:
        """A command whose answer nobody waits for: QEMU may first have a console to write to."""
        self._sent += 1
        request = json.dumps({"execute": name, "arguments": arguments, "id": self._sent}).encode()
        self.line.send(request + b"\n")
        return self._sent

    def drain(self) -> None:
        """Collect what has arrived."""
        try:
            while True:
                self._next(0)
        except QemuError:
            pass

    def shutdown_reason(self) -> str | None:
        """Why the machine ended: guest-shutdown, guest-reset, host-signal, ...; None: it runs."""
        for event in self.events:
            if event["event"] == "SHUTDOWN":
                return str(event.get("data", {}).get("reason", "unknown"))
        return None

    def close(self) -> None:
        self.line.close()


def _connect(path: Path, qemu: subprocess.Popen[bytes], clock: Callable[[], float]) -> Line:
    """QEMU makes the socket when it is ready for that; one that has ended never will."""
    deadline = clock() + PATIENCE
    while True:
        try:
            return Line(path, clock)
        except OSError as error:
            if clock() > deadline or qemu.poll() is not None:
                raise QemuError(f"no control socket at {path}") from error
            time.sleep(0.01)

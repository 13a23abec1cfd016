"""QEMU's control socket: go on, stop, read memory, and hear why the machine ended."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any


class QmpError(Exception):
    """QEMU refused a command, or does not answer."""


class QmpGone(QmpError):
    """Its control socket closed: QEMU ends."""


class Qmp:
    """One connection; events that arrive meanwhile are kept in `events`."""

    def __init__(self, path: Path, qemu: subprocess.Popen[bytes], timeout: float = 60.0) -> None:
        self.events: list[dict[str, Any]] = []
        self._buffer = b""
        self._sent = 0
        self._timeout = timeout  # of a QEMU that neither answers nor ends: a host may be busy
        self._socket = _connect(path, qemu, timeout)
        self._socket.settimeout(timeout)
        try:
            self._next()
            self.command("qmp_capabilities")
        except QmpError:
            self.close()
            raise

    def _next(self) -> dict[str, Any]:
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(65536)
            except TimeoutError as error:
                raise QmpError("QEMU does not answer on its control socket") from error
            except OSError as error:
                raise QmpGone(str(error)) from error
            if not data:
                raise QmpGone("QEMU closed its control socket")
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
                raise QmpError(f"{name}: {message['error'].get('desc', message['error'])}")

    def send(self, name: str, **arguments: Any) -> int:
        """A command whose answer nobody waits for: QEMU may first have a console to write to."""
        self._sent += 1
        request = json.dumps({"execute": name, "arguments": arguments, "id": self._sent}).encode()
        try:
            self._socket.sendall(request + b"\n")
        except OSError as error:
            raise QmpGone(str(error)) from error
        return self._sent

    def drain(self, seconds: float = 0.0) -> None:
        """Collect what has arrived; wait for more, at most so long."""
        self._socket.settimeout(max(seconds, 0.001))
        try:
            while True:
                self._next()
        except (QmpError, ValueError):
            pass
        finally:
            self._socket.settimeout(self._timeout)

    def shutdown_reason(self) -> str | None:
        """Why the machine ended: guest-shutdown, guest-reset, host-signal, ...; None: it runs."""
        for event in self.events:
            if event["event"] == "SHUTDOWN":
                return str(event.get("data", {}).get("reason", "unknown"))
        return None

    def close(self) -> None:
        self._socket.close()


def _connect(path: Path, qemu: subprocess.Popen[bytes], timeout: float) -> socket.socket:
    """QEMU makes the socket when it is ready for that; one that has ended never will."""
    deadline = time.monotonic() + timeout
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            return connection
        except OSError as error:
            connection.close()
            if time.monotonic() > deadline or qemu.poll() is not None:
                raise QmpError(f"no control socket at {path}") from error
            time.sleep(0.01)

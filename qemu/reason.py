"""Why a machine ended: QEMU's exit status does not tell a power-off from a reset, its control socket does."""

from __future__ import annotations

import json
import socket


class Reason:
    """A control socket that is open before QEMU runs; what QEMU says there is read when QEMU has ended."""

    def __init__(self) -> None:
        self._ours, self._qemus = socket.socketpair()
        self._said = b""
        self._ours.sendall(b'{"execute": "qmp_capabilities"}\n')

    def fileno(self) -> int:
        """QEMU's end, which it must inherit."""
        return self._qemus.fileno()

    def options(self) -> list[str]:
        return ["-chardev", f"socket,id=control,fd={self.fileno()}", "-qmp", "chardev:control"]

    def monitor(self, line: str) -> None:
        """A command of QEMU's monitor."""
        self._ours.sendall(json.dumps({"execute": "human-monitor-command", "arguments": {"command-line": line}}).encode() + b"\n")

    def drain(self, flags: int = socket.MSG_DONTWAIT) -> None:
        """QEMU tells of every stop and start too. The socket holds some hundred of them, and the rest is lost when QEMU ends."""
        try:
            while data := self._ours.recv(65536, flags):
                self._said += data
        except (BlockingIOError, ConnectionError):
            pass  # that was all; or QEMU was killed

    def read(self) -> str | None:
        """guest-shutdown, guest-reset, host-signal, ...; None: QEMU did not say. QEMU must have ended."""
        self._qemus.close()
        self.drain(flags=0)
        events = [json.loads(line) for line in self._said.split(b"\n")[:-1]]  # a QEMU that was killed leaves half a line
        return next((str(e["data"]["reason"]) for e in events if e.get("event") == "SHUTDOWN"), None)

    def close(self) -> None:
        self._qemus.close()
        self._ours.close()

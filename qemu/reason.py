"""Why a machine ended: QEMU's exit status does not tell a power-off from a reset, its control socket does."""

from __future__ import annotations

import json
import socket


class Reason:
    """A control socket that is open before QEMU runs; what QEMU says there is read when QEMU has ended."""

    def __init__(self) -> None:
        self._ours, self._qemus = socket.socketpair()
        self._ours.sendall(b'{"execute": "qmp_capabilities"}\n')

    def fileno(self) -> int:
        """QEMU's end, which it must inherit."""
        return self._qemus.fileno()

    def options(self) -> list[str]:
        return ["-chardev", f"socket,id=control,fd={self.fileno()}", "-qmp", "chardev:control"]

    def read(self) -> str | None:
        """guest-shutdown, guest-reset, host-signal, ...; None: QEMU did not say."""
        self._qemus.close()
        said = b""
        try:
            while data := self._ours.recv(65536):
                said += data
        except ConnectionError:
            pass  # it was killed
        events = [json.loads(line) for line in said.splitlines()]
        return next((str(e["data"]["reason"]) for e in events if e.get("event") == "SHUTDOWN"), None)

    def close(self) -> None:
        self._qemus.close()
        self._ours.close()

"""Finds out why a machine ended, from QEMU's control socket: the exit status is the same for a
power-off and a reset."""

import json
import socket
from contextlib import suppress

RESET = b'"event": "RESET"'


class Reason:
    """QEMU's control socket, open before QEMU starts; QEMU's messages are read when QEMU has ended.
    """

    def __init__(self) -> None:
        self._ours, self._qemus = socket.socketpair()
        self._messages = b""
        self._ours.sendall(b'{"execute": "qmp_capabilities"}\n')

    def fileno(self) -> int:
        """QEMU's end, which it must inherit."""
        return self._qemus.fileno()

    def options(self) -> list[str]:
        return ["-chardev", f"socket,id=control,fd={self.fileno()}", "-qmp", "chardev:control"]

    def monitor(self, line: str) -> None:
        """Send a command to QEMU's monitor."""
        self._ours.sendall(json.dumps({"execute": "human-monitor-command",
                                       "arguments": {"command-line": line}}).encode() + b"\n")

    def reset(self) -> None:
        """Reset the machine, running or stopped; return when it has been reset."""
        before = self._messages.count(RESET)
        self.monitor("system_reset")
        while self._messages.count(RESET) == before:
            data = self._ours.recv(65536)
            if not data:
                raise ConnectionError("QEMU ended, and was to reset the machine")
            self._messages += data

    def wake(self) -> None:
        """
        Make QEMU's main loop run once. With -icount, when all CPUs have become idle, QEMU 10
        sometimes does not wait for the guest's next timer. Then the guest's time stands still,
        until the main loop has something to do.
        """
        with suppress(OSError):  # it has ended
            self._ours.sendall(b'{"execute": "query-status"}\n')
        self.drain()

    def drain(self, flags: int = socket.MSG_DONTWAIT) -> None:
        """Read the messages so far. QEMU also sends one for every stop and start. The socket holds
        some hundred, and QEMU drops the rest."""
        try:
            while data := self._ours.recv(65536, flags):
                self._messages += data
        except (BlockingIOError, ConnectionError):
            pass  # no more messages, or QEMU was killed

    def read(self) -> str | None:
        """guest-shutdown, guest-reset, host-signal, ...; None: unknown. QEMU must have ended."""
        self._qemus.close()
        self.drain(flags=0)
        # drops an incomplete last line, which a killed QEMU leaves
        events = [json.loads(line) for line in self._messages.split(b"\n")[:-1]]
        return next((str(e["data"]["reason"]) for e in events if e.get("event") == "SHUTDOWN"),
                    None)

    def close(self) -> None:
        self._qemus.close()
        self._ours.close()

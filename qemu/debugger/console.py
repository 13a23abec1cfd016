# mypy: no-warn-return-any, allow-subclassing-any
"""The guest's console inside gdb: what it prints appears as it comes; `console LINE` types."""

from __future__ import annotations

import os
import select
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gdb  # type: ignore[import]

from qemu.debugger.guest import Command, in_firmware

PROMPT = b"callsite# "
WAITS = "[the kernel waits for a line: Ctrl-C stops it here, then `console LINE` types one]\n"


@contextmanager
def aside() -> Iterator[Callable[[], str]]:
    """What gdb says meanwhile, of stops too, is kept for whoever wants it; the guest goes on printing."""
    gdb.flush()
    shown = os.dup(1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        try:
            yield lambda: os.pread(log.fileno(), 1 << 20, 0).decode(errors="replace")
        finally:
            gdb.flush()
            os.dup2(shown, 1)
            os.close(shown)


class Console:
    """A thread reads; at the prompt that somebody waits for it stops the guest."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._out = os.dup(1)
        self._lock = threading.Lock()  # who holds it reads; all that follows is under it
        self._ended = False
        self._seen = b"\n"  # since the last line was typed; that one's end may have come before us
        self._waited_for = False
        self.at_prompt = False
        self.stopped = False  # the guest, by us
        self.muted = False  # what it prints is not shown
        self._told = False  # that nothing stops the guest at its prompt
        gdb.events.cont.connect(self._goes_on)

    def connect(self, path: Path) -> None:
        self._socket.connect(str(path))
        # Signals are for gdb's own thread.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        threading.Thread(target=self._read, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, old)

    def _read(self) -> None:
        while not self._ended:
            select.select([self._socket], [], [])
            self.settle()

    def _take(self) -> None:
        data = self._receive()
        self._ended = not data
        if not self.muted:
            os.write(self._out, data.replace(b"\r", b""))
        self._seen = (self._seen + data)[-65536:]
        self.at_prompt = self._seen.endswith(b"\n" + PROMPT)
        if self.at_prompt and self._waited_for:
            self._waited_for = False
            self.stopped = True
            gdb.post_event(lambda: gdb.execute("interrupt"))
        elif self.at_prompt and not self.muted:
            os.write(self._out, WAITS.encode())

    def _goes_on(self, _: gdb.ContinueEvent) -> None:
        """The user lets the guest go on at its prompt, where nothing stops it. A Ctrl-C that comes while Python runs is Python's and
        not gdb's: it interrupts the guest all the same."""
        if self.at_prompt and not self.muted and not self._told:
            self._told = True
            try:
                gdb.write(WAITS)
            except KeyboardInterrupt:
                gdb.post_event(lambda: gdb.execute("interrupt"))

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""

    def settle(self) -> None:
        """What was printed before the stop is in the socket: it is read, by whichever thread."""
        with self._lock:
            while not self._ended and select.select([self._socket], [], [], 0)[0]:
                self._take()

    def type(self, line: bytes) -> None:
        with self._lock:
            self._seen = b""
            self.at_prompt = False
        self._socket.sendall(line)

    def run_to_prompt(self) -> bool:
        """False: something else stopped the guest, and was told."""
        self.settle()
        with self._lock:
            self.stopped = False
            self._waited_for = not self.at_prompt
            if self.at_prompt:  # it came just before
                return True
        with aside() as said:
            gdb.execute("continue")
            gdb.flush()
            told = said()
        self._waited_for = False
        if not self.stopped:
            gdb.write(told)
        elif in_firmware():
            self.stopped = leave_firmware()
        self._told = False
        return self.stopped


def leave_firmware() -> bool:
    """At the prompt a hart may be setting its timer: it goes on to where it came from, the `ecall` or what follows it.
    False: a breakpoint of the user's stopped the guest, and was told."""
    back = int(gdb.parse_and_eval("$mepc"))
    users = {breakpoint: breakpoint.hit_count for breakpoint in gdb.breakpoints() if breakpoint.number > 0}
    places = [gdb.Breakpoint(f"*{at:#x}", gdb.BP_HARDWARE_BREAKPOINT, internal=True) for at in (back, back + 4)]
    with aside() as said:
        gdb.execute("continue")
        gdb.flush()
        told = said()
    left = any(place.hit_count for place in places)
    for place in places:
        place.delete()
    if left and all(breakpoint.is_valid() and breakpoint.hit_count == count for breakpoint, count in users.items()):
        return True
    gdb.write(told)
    return False


CONSOLE = Console()


class ConsoleCommand(Command):
    """console [LINE]: let the guest run until its prompt; type LINE there, and run until the next.

What the guest prints appears as it comes. Whatever else stops the guest on the way
(a breakpoint, a panic) stops it; `console` without LINE goes on to the prompt.
`console ^C` types Ctrl-C."""

    name = "console"

    def invoke(self, argument: str, from_tty: bool) -> None:
        line = argument.strip()
        self.dont_repeat()
        if line == "^C":
            CONSOLE.type(b"\x03")
            CONSOLE.run_to_prompt()
            return
        if not CONSOLE.run_to_prompt() or not line:
            return
        CONSOLE.type(line.encode() + b"\r")
        CONSOLE.run_to_prompt()

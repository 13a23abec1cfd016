# mypy: no-warn-return-any, allow-subclassing-any
"""The guest's console inside gdb: shows the guest's output at once; `console LINE` types a line."""

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
    """Keep gdb's own output, also about stops, for the caller. The guest's output is still shown.
    """
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


def go_on() -> str:
    """Run the guest until it stops. Returns what gdb says about that."""
    with aside() as said:
        gdb.execute("continue")
        gdb.flush()
        return said()


class Console:
    """A thread reads the guest's output, and stops the guest at the prompt for which a caller
    waits."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._out = os.dup(1)
        self._lock = threading.Lock()  # held while reading; it protects all that follows
        self._ended = False
        # the output since the last line was typed; its newline may have come before this class read
        self._seen = b"\n"
        self._waited_for = False
        self._runs = False  # run_to_prompt() runs the guest, and stops it, so WAITS would be wrong
        self.at_prompt = False
        self.stopped = False  # this class stopped the guest
        self.muted = False  # the guest's output is not shown
        self._told = False  # WAITS was printed since the guest ran last
        self._tell = os.pipe()  # a byte in it: print WAITS now
        gdb.events.cont.connect(self._goes_on)

    def connect(self, path: Path) -> None:
        self._socket.connect(str(path))
        # Signals must go to gdb's own thread.
        old = signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals))
        threading.Thread(target=self._read, daemon=True).start()
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
        gdb.events.stop.connect(self._stops)

    def _read(self) -> None:
        while not self._ended:
            ready = select.select([self._socket, self._tell[0]], [], [])[0]
            if self._tell[0] in ready:
                os.read(self._tell[0], 1)
                os.write(self._out, WAITS.encode())
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
            gdb.post_event(self._interrupt)
        elif self.at_prompt and not self.muted and not self._runs:
            os.write(self._out, WAITS.encode())

    def _interrupt(self) -> None:
        if self.stopped:  # otherwise a breakpoint has stopped the guest meanwhile
            gdb.execute("interrupt")

    def _stops(self, event: gdb.StopEvent) -> None:
        """The guest has stopped, and perhaps at a breakpoint just when its prompt came. What it
        printed is shown before gdb's own prompt: on a busy host the other thread may read it later.
        """
        with self._lock:
            self._waited_for = False
            if isinstance(event, gdb.BreakpointEvent):
                self.stopped = False
        self.settle()

    def _goes_on(self, _: gdb.ContinueEvent) -> None:
        """The user continues the guest at its prompt, where nothing will stop it, so WAITS must be
        printed. Its reader may type Ctrl-C at once, which is lost before the guest runs. So WAITS
        is printed when gdb waits for the guest, and by the other thread."""
        if self.at_prompt and not self.muted and not self._runs and not self._told:
            self._told = True
            gdb.post_event(self._tell_now)

    def _tell_now(self) -> None:
        """Python and not gdb gets a Ctrl-C that comes while Python runs; it must interrupt the
        guest all the same."""
        try:
            os.write(self._tell[1], b".")
        except KeyboardInterrupt:
            gdb.post_event(lambda: gdb.execute("interrupt"))

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(65536)
        except OSError:
            return b""

    def settle(self) -> None:
        """Read the output from before the stop, which is still in the socket. Either thread may do
        it."""
        with self._lock:
            while not self._ended and select.select([self._socket], [], [], 0)[0]:
                self._take()

    def type(self, line: bytes) -> None:
        with self._lock:
            self._seen = b""
            self.at_prompt = False
        self._socket.sendall(line)

    def run_to_prompt(self) -> bool:
        """Run the guest to its prompt. False: something else stopped it, and a message was printed.
        """
        self.settle()
        with self._lock:
            self.stopped = False
            self._waited_for = not self.at_prompt
            if self.at_prompt:  # the guest is there already
                return True
        self._runs = True
        try:
            told = go_on()
            if not self.stopped:
                gdb.write(told)
            elif in_firmware():
                self.stopped = leave_firmware()
        finally:
            self._waited_for = self._runs = self._told = False
        return self.stopped


def leave_firmware() -> bool:
    """At the prompt a hart may be in the firmware, setting its timer. Run it until it returns, to
    the `ecall` or the instruction after it. False: a breakpoint of the user stopped the guest, and
    a message was printed."""
    back = int(gdb.parse_and_eval("$mepc"))
    users = {breakpoint: breakpoint.hit_count for breakpoint in gdb.breakpoints()
             if breakpoint.number > 0}
    places = [gdb.Breakpoint(f"*{at:#x}", gdb.BP_HARDWARE_BREAKPOINT, internal=True)
              for at in (back, back + 4)]
    told = go_on()
    left = any(place.hit_count for place in places)
    for place in places:
        place.delete()
    if left and all(breakpoint.is_valid() and breakpoint.hit_count == count
                    for breakpoint, count in users.items()):
        return True
    gdb.write(told)
    return False


CONSOLE = Console()


class ConsoleCommand(Command):
    """console [LINE]: run the guest until its prompt, type LINE, and run until the next prompt.

The guest's output is shown at once. A breakpoint or a panic stops the guest before the
prompt; then `console` without LINE continues to the prompt.
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

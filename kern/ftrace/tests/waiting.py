"""Wait for a state of the kernel."""

from __future__ import annotations

import time

from grading.machine.console import GuestConsole


def until(console: GuestConsole, line: str, shown: str, seconds: float = 600) -> str:
    """Type a line again and again, until its output has these words; return that output."""
    deadline = time.monotonic() + seconds
    while shown not in (text := console.command(line)):
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"'{line}' does not show '{shown}' within {seconds:.0f} s, but:\n{text[-400:]}")
    return text

"""Ends a program that a test has started on a terminal."""

import signal

import pexpect  # type: ignore[import]


def hang_up(child: pexpect.spawn) -> None:
    """End the program and its children, as a closed terminal does. pexpect's close() waits half a
    second, which is too little on a busy host."""
    child.kill(signal.SIGHUP)
    child.expect(pexpect.EOF)
    child.wait()
    child.close()

"""`make run`: what it types at the console, and how it ends."""
import os
import pty
import signal
import subprocess
import unittest

from qemu.machine import ARCHES, ROOT
from qemu.run import end_with_terminal


class TypedAhead(unittest.TestCase):
    def test_a_line_that_came_before_the_prompt_keeps_its_first_character(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                said = subprocess.run(["make", "-s", "-C", str(ROOT), f"ARCH={arch}", "run"], input="echo hello\npoweroff\n",
                                      capture_output=True, text=True, check=False, timeout=1800).stdout
                self.assertIn("callsite# echo hello\nhello\ncallsite# poweroff\n", said.replace("\r", ""))


class ClosedTerminal(unittest.TestCase):
    def test_a_closed_terminal_ends_qemu_though_nobody_is_told(self) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.alarm(600)
            with subprocess.Popen(["sleep", "1200"]) as sleeper:
                os.write(1, b"ready")
                end_with_terminal(sleeper)
                os._exit(0 if sleeper.wait() == -signal.SIGKILL else 1)
        os.read(terminal, 5)
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()

"""`make run`: how it ends."""
import os
import pty
import signal
import subprocess
import unittest

from qemu.run import end_with_terminal


class ClosedTerminal(unittest.TestCase):
    def test_a_closed_terminal_ends_qemu_though_nobody_is_told(self) -> None:
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.alarm(20)
            with subprocess.Popen(["sleep", "60"]) as sleeper:
                os.write(1, b"ready")
                end_with_terminal(sleeper)
                os._exit(0 if sleeper.wait() == -signal.SIGKILL else 1)
        os.read(terminal, 5)
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()

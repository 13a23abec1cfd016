"""`make run`: what it types at the console, and how it ends."""
import os
import pty
import signal
import subprocess
import sys
import unittest

from qemu.machine import ARCHES, ROOT
from qemu.run import end_with_terminal, parse


class TypedAhead(unittest.TestCase):
    def test_a_line_that_came_before_the_prompt_keeps_its_first_character(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                said = subprocess.run(["make", "-s", "-C",
                                       str(ROOT), f"ARCH={arch}", "run"],
                                      input="echo hello\npoweroff\n", capture_output=True,
                                      text=True, check=False, timeout=1800).stdout
                self.assertIn("callsite# echo hello\nhello\ncallsite# poweroff\n",
                              said.replace("\r", ""))


class NumberOfCpus(unittest.TestCase):
    def test_only_a_number_that_the_kernel_uses_is_taken(self) -> None:
        for program in ("qemu/run.py", "qemu/debug.py"):
            elf = ["--elf", "none"] if "debug" in program else []
            for smp in ("0", "9", "16", "-1", "04", "3.5", "four", "", "9" * 5000,
                        "\N{ARABIC-INDIC DIGIT THREE}", "\N{SUPERSCRIPT TWO}"):
                with self.subTest(program=program, smp=smp[:20]):
                    command = [sys.executable, program, "--arch", "arm64", *elf, f"--smp={smp}"]
                    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                                          check=False)
                    self.assertEqual(2, done.returncode)
                    self.assertIn(f"'{smp}' is not a number of CPUs from 1 to 8\n", done.stderr)

    def test_each_of_them_is_passed_on(self) -> None:
        self.assertEqual(1, parse(["--arch", "arm64"])[0].smp)
        for n in range(1, 9):
            self.assertEqual(n, parse(["--arch", "arm64", f"--smp={n}"])[0].smp)


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

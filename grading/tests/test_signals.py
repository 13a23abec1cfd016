"""After a signal has ended a grade, none of its machines runs, and none of its sandboxes and
folders exists."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from grading.checks import rubric
from grading.tests.mutants import build
from qemu.machine import ARCHES, FINISHED, LAST_LAB, ROOT

BUILD_SECONDS = 600  # limit until the process to be ended runs: some build a kernel first
SLEEPS = "#include <unistd.h>\nint main(void) { return sleep(1000); }\n"
TABLE = """
from pathlib import Path
from grading.checks import recordmcount
elf = recordmcount.entry_elf("riscv64", [8, 16])
recordmcount.table(Path({tool!r}), elf, Path({tool!r} + ".elf"))
"""


def below(pid: int) -> dict[int, str]:
    """The names of all descendants of a process that have not ended."""
    found: dict[int, str] = {}
    process = Path(f"/proc/{pid}")
    with suppress(OSError):  # it has just ended
        children = [int(child) for task in process.glob("task/*/children")
                    for child in task.read_text().split()]
        for child in children:
            with suppress(OSError):
                before, _, after = Path(f"/proc/{child}/stat").read_text().rpartition(")")
                if after.split()[0] != "Z":
                    found |= {child: before.partition("(")[2]} | below(child)
    return found


def going_on(processes: dict[int, str]) -> list[str]:
    """The names of those that have not ended. Processes are known by descriptors: soon another
    process may get the number of one that has ended."""
    ended = select.select(processes, [], [], 0)[0]
    return [name for process, name in processes.items() if process not in ended]


def until(what: Callable[[], bool], seconds: float = 300) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def listens() -> None:
    """Restore the default action of the signals: the process that runs this test may ignore them.
    """
    for end in (signal.SIGHUP, signal.SIGINT):
        signal.signal(end, signal.SIG_DFL)


class Ended(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        build(LAST_LAB)
        build(max(rubric.LABS))

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-test-")
        self.addCleanup(folder.cleanup)
        self.scratch = Path(folder.name)
        (self.scratch / "tmp").mkdir()

    def program(self, *words: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL,
                                   env={**os.environ, "TMPDIR": str(self.scratch / "tmp")},
                                   start_new_session=True, preexec_fn=listens)
        self.addCleanup(process.wait)
        self.addCleanup(self.sweep, process)
        return process

    @staticmethod
    def sweep(leader: subprocess.Popen[bytes]) -> None:
        if leader.poll() is None:  # otherwise its number may be another session's
            os.killpg(leader.pid, signal.SIGKILL)

    def ends(self, process: subprocess.Popen[bytes], end: signal.Signals,
             ready: Callable[[list[str]], bool], clean: bool = True) -> None:
        """Wait until the child processes run, send the signal to the program only, and check that
        all of them end too."""
        self.assertTrue(until(lambda: ready(list(below(process.pid).values())), BUILD_SECONDS),
                        "it did not begin")
        started = self.opened(below(process.pid))
        process.send_signal(end)
        self.assertTrue(until(lambda: not going_on(started)),
                        f"after {end.name} these run: {going_on(started)}")
        self.assertEqual(process.wait(BUILD_SECONDS), -end if end == signal.SIGKILL else 128 + end)
        if clean:
            self.assertEqual(list((self.scratch / "tmp").iterdir()), [], "a folder was left")

    def opened(self, found: dict[int, str]) -> dict[int, str]:
        """Their names, by descriptor. They are ended with the test."""
        processes = dict[int, str]()
        for pid, name in found.items():
            with suppress(ProcessLookupError):  # it has just ended
                process = os.pidfd_open(pid)
                self.addCleanup(self.kill, process)
                processes[process] = name
        return processes

    @staticmethod
    def kill(process: int) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, signal.SIGKILL)
        os.close(process)

    def grade(self) -> subprocess.Popen[bytes]:
        kernels = self.scratch / "kernels"
        for arch in ARCHES:
            (kernels / arch).mkdir(parents=True)
            for name in ("callsite.elf", "Image", "recordmcount"):
                (kernels / arch / name).symlink_to(ROOT / f"build/{arch}/lab{max(rubric.LABS)}" /
                                                   name)
        return self.program("-m", "grading", "--kernels", str(kernels), "--out",
                            str(self.scratch / "out"))

    def test_a_grade_takes_its_machines_along(self) -> None:
        for end in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=end.name):
                self.setUp()
                self.ends(self.grade(), end,
                          lambda names: sum(n.startswith("qemu-system") for n in names) == 2,
                          end != signal.SIGKILL)

    def test_so_do_the_tests_under_qemu(self) -> None:
        for end in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            with self.subTest(signal=end.name):
                self.setUp()
                with patch.dict(os.environ, LOGS=str(self.scratch / "qemu")):
                    self.ends(self.program("kern/tests/run_qemu.py", "hostile, four"), end,
                              lambda names: sum(n.startswith("qemu-system") for n in names) == 2,
                              end != signal.SIGKILL)

    def test_so_do_the_wrong_solutions(self) -> None:
        for end in (signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=end.name):
                self.setUp()
                self.ends(
                    self.program("-m", "grading.selftest.wrong", "lab8-hangs", "--lab",
                                 str(max(rubric.LABS))), end,
                    lambda names: sum(n.startswith("qemu-system") for n in names) == 2,
                    end != signal.SIGKILL)

    def test_so_does_a_machine_at_a_terminal(self) -> None:
        image = ROOT / f"build/riscv64/{FINISHED}/Image"
        self.ends(self.program("qemu/run.py", "--arch", "riscv64", "--image",
                               str(image)), signal.SIGKILL,
                  lambda names: any(n.startswith("qemu-system") for n in names), False)

    def test_a_recordmcount_in_its_sandbox_ends_too(self) -> None:
        tool = self.scratch / "sleeps"
        tool.with_suffix(".c").write_text(SLEEPS)
        subprocess.run(["gcc", "-static", "-o", tool, tool.with_suffix(".c")], check=True)
        for walls in ("yes", "no"):
            with self.subTest(SANDBOX=walls), patch.dict(os.environ, SANDBOX=walls):
                self.ends(self.program("-c", TABLE.format(tool=str(tool))), signal.SIGKILL,
                          lambda names: any(n in ("recordmcount", "sleeps") for n in names), False)


if __name__ == "__main__":
    unittest.main()

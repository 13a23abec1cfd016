"""`make run` on a terminal: the output, the keys, the exit status."""

from __future__ import annotations

import sys
import unittest

import pexpect  # type: ignore[import]

from grading.tests.mutants import build
from qemu.machine import ARCHES, FINISHED, LAST_LAB, ROOT

SECONDS = 600  # a limit only against hanging


def start(arch: str, *options: str) -> pexpect.spawn:
    image = ROOT / f"build/{arch}/{FINISHED}/Image"
    words = [str(ROOT / "qemu/run.py"), "--arch", arch, "--image", str(image), *options]
    return pexpect.spawn(sys.executable, words, timeout=SECONDS, encoding="utf-8",
                         codec_errors="replace", dimensions=(24, 200))


class TerminalRun(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        build(LAST_LAB)

    def ends(self, child: pexpect.spawn) -> int:
        child.expect(pexpect.EOF)
        child.wait()  # close() gives it half a second
        child.close()
        return int(child.exitstatus if child.exitstatus is not None else -1)

    def test_the_banner_comes_first_and_poweroff_gives_0(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                child = start(arch, "--smp", "2")
                child.expect("Ctrl-C goes to the kernel, Ctrl-A X ends QEMU")
                child.expect("callsite# ")
                child.send("poweroff\r")
                self.assertEqual(self.ends(child), 0)

    def test_each_option_reaches_the_machine(self) -> None:
        """Through U-Boot, at a load address of one's own; an interrupt controller; an exception
        level."""
        for arch, *options in (("riscv64", "--boot", "uboot"), ("arm64", "--boot", "uboot",
                                                                "--load", "0x40800000"),
                               ("arm64", "--gic", "3", "--el", "2")):
            with self.subTest(arch=arch, options=options):
                child = start(arch, *options)
                if "uboot" in options:
                    child.expect("U-Boot 20")
                child.expect("callsite# ")
                child.send("poweroff\r")
                self.assertEqual(self.ends(child), 0)
        child = start("arm64", "--gic", "3", "--el", "2", "--print")
        child.expect("gic-version=3.*virtualization=on|virtualization=on.*gic-version=3")
        self.assertEqual(self.ends(child), 0)

    def test_ctrl_c_goes_to_the_guest(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                child = start(arch)
                child.expect("callsite# ")
                child.send("sleep 1000\r")
                child.expect("sleep 1000\\s+")
                child.sendcontrol("c")
                child.expect("callsite# ")
                child.send("poweroff\r")
                self.assertEqual(self.ends(child), 0)

    def test_ctrl_a_x_ends_qemu(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                child = start(arch)
                child.expect("callsite# ")
                child.sendcontrol("a")
                child.send("x")
                self.assertEqual(self.ends(child), 0)

    def test_a_panic_does_not_give_0(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch=arch):
                child = start(arch)
                child.expect("callsite# ")
                child.send("panic told\r")
                child.expect("panic: told")
                self.assertNotEqual(self.ends(child), 0)

    def test_a_missing_image_is_said(self) -> None:
        child = start("riscv64", "--image", "/nothing/here")
        child.expect("does not exist")
        self.assertEqual(self.ends(child), 2)


if __name__ == "__main__":
    unittest.main()

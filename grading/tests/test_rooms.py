"""grading/selftest/rooms.py: a room imports nothing from a room that comes after it."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from grading import ROOMS
from grading.selftest.rooms import wrong
from qemu.machine import ROOT


class RoomsOfTheHarness(unittest.TestCase):
    def importing(self, line: str) -> list[str]:
        """The lines about a module of machine/ that has this line."""
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "machine").mkdir()
            Path(folder, "machine/hold.py").write_text(line + "\n")
            return wrong(Path(folder))

    def test_itself_and_earlier_rooms(self) -> None:
        for line in ("from grading.machine import machine", "from grading.elf.elf import Kernel",
                     "from grading.verdict import Stopped", "from grading import ROOMS",
                     "import grading.elf.elf", "from qemu.machine import ROOT"):
            self.assertEqual(self.importing(line), [], line)

    def test_a_later_room_and_no_room(self) -> None:
        for line, name in (("from grading.checks.align import align",
                            "checks.align"), ("from grading import evidence", "evidence"),
                           ("import grading.report.report",
                            "report.report"), ("    from grading.tests import tiny", "tests")):
            said = (
                f"grading/machine/hold.py imports grading.{name}, which is not in a room before "
                f"machine/ (grading/__init__.py)"
            )
            self.assertEqual(self.importing(f"if True:\n{line}" if line[0] == " " else line),
                             [said])

    def test_the_harness_s_own_rooms(self) -> None:
        self.assertLess(ROOMS.index("session"), ROOMS.index("checks"), "a session judges nothing")
        self.assertEqual(wrong(ROOT / "grading"), [])
        modules = {p.parent.name for p in ROOT.glob("grading/*/*.py")} - {"tests"}
        self.assertEqual(modules, set(ROOMS))


if __name__ == "__main__":
    unittest.main()

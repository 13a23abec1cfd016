"""kern/ftrace/tools/rooms.py: a room includes no header of a room that comes after it."""
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))
import rooms  # noqa: E402


class Rooms(unittest.TestCase):
    def wrong(self, include: str) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            tracer = Path(name)
            (tracer / "stages.mk").write_text("ftrace_rooms := $(addprefix kern/ftrace/,low high)\n")
            for room in ("low", "high"):
                (tracer / room).mkdir()
                (tracer / room / f"{room}.h").write_text("")
            (tracer / "low/low.c").write_text(include)
            (tracer / "high/high.c").write_text('#include "low.h"\n#include "high.h"\n')
            return rooms.wrong(tracer)

    def test_earlier_rooms_and_headers_from_elsewhere_may_be_included(self) -> None:
        self.assertEqual(self.wrong('#include "low.h"\n#include "errno.h"\n'), [])

    def test_a_later_room_may_not(self) -> None:
        self.assertEqual(self.wrong('#include "high.h"\n'), ["kern/ftrace/low/low.c includes high.h of high/, which comes after low/ in stages.mk"])

    def test_the_tracer_s_own_rooms(self) -> None:
        self.assertEqual(rooms.wrong(rooms.TRACER), [])
        self.assertIn("core", rooms.rooms(rooms.TRACER))

"""kern/ftrace/tools/rooms.py: a room includes no header of a later room, and uses nothing that one defines."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))
import rooms  # noqa: E402

LATER = ", a room that comes later in stages.mk"


class Rooms(unittest.TestCase):
    def wrong(self, low: str, high: str) -> list[str]:
        """Two rooms, a source file in each, compiled."""
        with tempfile.TemporaryDirectory() as name:
            tracer, kernel = Path(name) / "tracer", Path(name) / "kernel"
            tracer.mkdir()
            (tracer / "stages.mk").write_text("ftrace_rooms := $(addprefix kern/ftrace/,low high)\n")
            for room in ("low", "high"):
                (tracer / room).mkdir()
                (tracer / room / f"{room}.h").write_text("")
            for room, text in (("low", low), ("high", high)):
                objects = kernel / "kern/ftrace" / room
                objects.mkdir(parents=True)
                (tracer / room / f"{room}.c").write_text(text)
                subprocess.run(["gcc", "-I", tracer / "low", "-I", tracer / "high", "-c", "-o", objects / f"{room}.o",
                                tracer / room / f"{room}.c"], check=True)
            return rooms.wrong(tracer, [kernel])

    def test_earlier_rooms_and_names_from_elsewhere_may_be_used(self) -> None:
        self.assertEqual(self.wrong("int printk(const char *);\nint low(void) { return printk(\"\"); }\n",
                                    '#include "low.h"\nint low(void);\nint high(void) { return low(); }\n'), [])

    def test_a_later_room_is_not_included(self) -> None:
        self.assertEqual(self.wrong('#include "high.h"\n', ""),
                         ["kern/ftrace/low/low.c includes high.h of high/" + LATER])

    def test_a_later_room_is_not_called_and_its_variables_are_not_read(self) -> None:
        self.assertEqual(self.wrong("int high(void);\nextern int own;\nint low(void) { return high() + own; }\n",
                                    "int own;\nint high(void) { return own; }\n"),
                         [f"kern/ftrace/low/low.c uses {name} of high/high.c" + LATER for name in ("high", "own")])

    def test_a_pointer_in_a_table_names_no_later_room(self) -> None:
        self.assertEqual(self.wrong("extern int (*__start_t[])(void);\nint low(void) { return __start_t[0](); }\n",
                                    'static int high(void) { return 1; }\n'
                                    'static int (*entry)(void) __attribute__((used, section("t"))) = high;\n'), [])

    def test_the_tracer_s_own_rooms_include_no_later_one(self) -> None:
        self.assertEqual(rooms.wrong(rooms.TRACER, []), [])
        self.assertIn("core", rooms.rooms(rooms.TRACER))


if __name__ == "__main__":
    unittest.main()

"""The parser of the function tracer's text."""

from __future__ import annotations

import unittest

from grading.machine.console import plain
from grading.text.trace_text import parse

TRACE = """\
# tracer: function
#
# entries-in-buffer/entries-written: 3/5   #P:2
#
#                                _-----=> irqs-off/BH-disabled
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
#              | |         |   |||||     |         |
            init-1       [001] .....     3.401528: vfs_write <-ksys_write
       swapper/0-0       [000] d.h..    12.000001: handle_timer <-handle_irq
 a long comm nam-4096    [000] .N.2.    12.000002: f <-g
panic: no
"""


class Parse(unittest.TestCase):
    def test_header_counts(self) -> None:
        trace = parse(TRACE)
        self.assertEqual((trace.tracer, trace.in_buffer, trace.written, trace.overrun, trace.cpus),
                         ("function", 3, 5, 2, 2))

    def test_events(self) -> None:
        first, second, third = parse(TRACE).events
        self.assertEqual((first.comm, first.pid, first.cpu, first.func, first.parent, first.usec),
                         ("init", 1, 1, "vfs_write", "ksys_write", 3401528))
        self.assertFalse(first.interrupt)
        self.assertTrue(second.interrupt)
        self.assertEqual((third.comm, third.pid), ("a long comm nam", 4096))

    def test_other_lines_are_no_events(self) -> None:
        self.assertEqual(parse(TRACE).unknown, ["panic: no"])

    def test_a_number_that_python_does_not_read_is_none(self) -> None:
        long = "1" * 5000
        text = TRACE.replace("3/5", f"{long}/5").replace("3.401528", f"{long}.401528")
        trace = parse(text.replace("init-1 ", f"init-{long} "))
        self.assertEqual((trace.in_buffer, len(trace.events)), (-1, 2))

    def test_an_empty_text_has_no_counts(self) -> None:
        self.assertEqual(parse("").in_buffer, -1)


class Bytes(unittest.TestCase):
    def test_escapes_do_not_reach_the_reader(self) -> None:
        self.assertEqual(plain(b"\x1b[2Ka\x1b[31mb\x00\x07\r\nc\x1b[0m"), "ab\nc")


if __name__ == "__main__":
    unittest.main()

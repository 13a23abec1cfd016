"""The parser of function_graph's text, with lines as Linux 6.12 prints them."""

from __future__ import annotations

import unittest

from grading.text.graph_text import ENTRY, RETURN, parse, stats

TRACE = """# tracer: function_graph
#
#     TIME        CPU  TASK/PID         DURATION                  FUNCTION CALLS
#      |          |     |    |           |   |                     |   |   |   |
   12.000001 |   0)   workloa-12   |               |  wl_first() {
   12.000002 |   0)   workloa-12   |   0.071 us    |    wl_leaf_ash();
 ------------------------------------------
 0)   workloa-12   =>    idle-0
 ------------------------------------------

   12.000009 |   0)   workloa-12   | + 56.200 us   |    } /* wl_fan_amber */
   12.000010 |   3)    a b-c-7     | # 1025.70 us  |  } /* wl_first */
   12.000011 |   3)    a b-c-7     |               |  /* a comment */
"""


class GraphText(unittest.TestCase):
    def test_a_leaf_is_an_entry_and_a_return(self) -> None:
        events = parse(TRACE).events
        self.assertEqual([e.kind for e in events], [ENTRY, ENTRY, RETURN, RETURN, RETURN])
        self.assertEqual([e.func for e in events],
                         ["wl_first", "wl_leaf_ash", "wl_leaf_ash", "wl_fan_amber", "wl_first"])
        self.assertEqual([e.depth for e in events], [0, 1, 1, 1, 0])

    def test_durations_in_ns_with_the_worth_of_their_last_digit(self) -> None:
        events = parse(TRACE).events
        self.assertEqual([(e.duration, e.unit) for e in events if e.kind == RETURN],
                         [(71, 1), (56200, 1), (1025700, 10)])
        self.assertIsNone(events[0].duration)

    def test_who_where_and_when(self) -> None:
        last = parse(TRACE).events[-1]
        self.assertEqual((last.cpu, last.comm, last.pid, last.usec), (3, "a b-c", 7, 12_000_010))

    def test_headers_switches_and_comments_are_known(self) -> None:
        trace = parse(TRACE)
        self.assertEqual((trace.tracer, trace.unknown, trace.lost), ("function_graph", [], 0))

    def test_what_is_no_line_of_function_graph_is_kept(self) -> None:
        for line in ("   12.000001 |   0)   workloa-12   |   wl_first() {", "hello",
                     " 0)   0.071 us    |    wl_leaf_ash();",
                     "   12.000001 |   0)   workloa-12   |               |  wl_first {"):
            self.assertEqual(parse(line).unknown, [line])

    def test_lost_events_are_counted(self) -> None:
        self.assertEqual(parse("CPU:1 [LOST 17 EVENTS]\nCPU:0 [LOST EVENTS]\n").lost, 18)

    def test_values(self) -> None:
        lead = "   12.000001 |   0)   workloa-12   |   0.071 us    |  "
        for text in ("f(); /* = 0x1f */", "} /* f = 0x1f */", "f(); /* ret=0x1f */",
                     "} /* f ret=0x1f */"):
            event = parse(lead + text).events[-1]
            self.assertEqual((event.func, event.value), ("f", "0x1f"), text)

    def test_stats(self) -> None:
        self.assertEqual(
            stats("entries: 12\noverrun: 3\noldest event ts:     0.000000\ndropped events: 1\n"),
            {"entries": 12, "overrun": 3, "dropped events": 1})


if __name__ == "__main__":
    unittest.main()

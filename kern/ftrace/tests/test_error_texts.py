"""Each text that error_log can have is explained in the book."""
import re
import unittest

from qemu.machine import ROOT

SOURCES = ("probe_parse.c", "trace_probe.c", "event_filter.c", "event_trigger.c")


class ErrorTexts(unittest.TestCase):
    def test_each_is_in_the_book(self) -> None:
        book = (ROOT / "docs/tracefs.md").read_text()
        for name in SOURCES:
            source = (ROOT / "kern/ftrace/events" / name).read_text()
            texts = {
                text.replace('\\"', '"')
                for text in re.findall(r'"((?:[A-Z]|\$\w)(?:[^"\\\n]|\\")* (?:[^"\\\n]|\\")*)"',
                                       source)
            }
            self.assertGreater(len(texts), 3, name)
            self.assertEqual({text
                              for text in texts if f"`{text}`" not in book}, set(),
                             f"{name}: not in docs/tracefs.md")


if __name__ == "__main__":
    unittest.main()

"""One class name means one thing in all of the project's Python."""

import re
import unittest
from collections import defaultdict

from qemu.machine import ROOT


class ClassNames(unittest.TestCase):
    def test_no_two_classes_have_the_same_name(self) -> None:
        places = defaultdict[str, list[str]](list)
        for folder in ("grading", "labs", "qemu", "docs"):
            for path in (ROOT / folder).rglob("*.py"):
                for name in re.findall(r"^\s*class (\w+)", path.read_text(), re.M):
                    places[name].append(str(path.relative_to(ROOT)))
        self.assertEqual({name: files for name, files in places.items() if len(files) > 1}, {})


if __name__ == "__main__":
    unittest.main()

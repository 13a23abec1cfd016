"""kern/ftrace/tools/rooms.py: a room includes no header of a later room, and uses nothing that one
defines; and circles of files lie inside one room."""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))
import rooms  # noqa: E402
from qemu.machine import FINISHED  # noqa: E402

LATER = ", a room that comes later in kern/rooms.mk"
LISTS = """rooms := kern/low kern/high
room_too.kern/low := kern/arch/*/low.c
room_none := kern/entry*.c
room_circle := kern/entry.c kern/high/high.c kern/low/*
room_files = $(or $(room.$1),$1/*) $(room_too.$1)
"""


def calling(*others: str, name: str) -> str:
    """A function `name` that calls the others."""
    return "".join(f"void {other}(void);\n" for other in others
                   ) + f"void {name}(void) {{ {' '.join(f'{other}();' for other in others)} }}\n"


class Rooms(unittest.TestCase):
    def wrong(self, low: str = "", high: str = "", **more: str) -> list[str]:
        """Two rooms, a source file in each, and more files, compiled."""
        with tempfile.TemporaryDirectory() as name:
            root, kernel = Path(name), Path(name, "build/lab")
            sources = {"kern/low/low.c": low, "kern/high/high.c": high
                       } | {path.replace("__", "/") + ".c": text
                            for path, text in more.items()}
            for path, text in {
                    "kern/rooms.mk": LISTS, "kern/ftrace/stages.mk": "", "kern/all.h": "",
                    "kern/low/low.h": "", "kern/high/high.h": "", **sources
            }.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            for path in sources:
                target = (kernel / path).with_suffix(".o")
                target.parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(
                    ["gcc", "-Ikern", "-Ikern/low", "-Ikern/high", "-c", "-o", target, path],
                    cwd=root, check=True)
            lists = rooms.read(root)
            self.cut = rooms.cut(lists, [kernel])
            return rooms.wrong(lists, [kernel])

    def test_earlier_rooms_and_names_from_elsewhere_may_be_used(self) -> None:
        self.assertEqual(
            self.wrong("int printk(const char *);\nint low(void) { return printk(\"\"); }\n",
                       '#include "low.h"\nint low(void);\nint high(void) { return low(); }\n'), [])

    def test_headers_of_no_room_are_for_all(self) -> None:
        self.assertEqual(self.wrong('#include "all.h"\n', '#include "all.h"\n'), [])

    def test_a_later_room_is_not_included(self) -> None:
        for name in ("high.h", "high/high.h", "../high/high.h"):
            with self.subTest(name):
                self.assertEqual(self.wrong(f'#include "{name}"\n'),
                                 ["kern/low/low.c includes kern/high/high.h" + LATER])

    def test_a_later_room_is_not_called_and_its_variables_are_not_read(self) -> None:
        self.assertEqual(
            self.wrong("int high(void);\nextern int own;\nint low(void) { return high() + own; }\n",
                       "int own;\nint high(void) { return own; }\n"),
            [f"kern/low/low.c uses {name} of kern/high/high.c" + LATER for name in ("high", "own")])

    def test_a_pointer_in_a_table_names_no_later_room(self) -> None:
        self.assertEqual(
            self.wrong(
                "extern int (*__start_t[])(void);\nint low(void) { return __start_t[0](); }\n",
                'static int high(void) { return 1; }\n'
                'static int (*entry)(void) __attribute__((used, section("t"))) = high;\n'), [])

    def test_the_compiler_s_call_in_each_function_is_nobody_s_use(self) -> None:
        self.assertEqual(self.wrong(calling("_mcount", name="low"), calling(name="_mcount")), [])

    def test_a_file_that_lies_elsewhere_belongs_to_its_room(self) -> None:
        self.assertEqual(
            self.wrong(high=calling(name="high"),
                       kern__arch__x__low=calling("high", name="switch_to")),
            ["kern/arch/x/low.c uses high of kern/high/high.c" + LATER])

    def test_each_source_has_a_room(self) -> None:
        self.assertEqual(self.wrong(kern__arch__x__other=calling(name="other")),
                         ["kern/arch/x/other.c is in no room"])

    def test_a_large_circle_lies_inside_a_room(self) -> None:
        inside = {
            f"kern__low__file{n}": calling(f"file{(n + 1) % 5}", name=f"file{n}")
            for n in range(5)
        }
        self.assertEqual(self.wrong(**inside), [])
        for files, wrong in ((3, False), (4, True)):
            with self.subTest(files):
                through = {
                    f"kern__low__file{n}": calling(f"file{n + 1}", name=f"file{n}")
                    for n in range(files - 2)
                }
                found = self.wrong(**through, kern__low__last=calling("entry",
                                                                      name=f"file{files - 2}"),
                                   kern__entry2=calling("file0", name="entry"))
                self.assertEqual(len(found), wrong)
                if wrong:
                    self.assertIn(
                        "a circle of files that does not lie in one room: kern/entry2.c (no room), "
                        "kern/low/file0.c (kern/low),",
                        found[0])

    def test_the_circle_that_is_left_may_have_only_the_files_that_are_named(self) -> None:
        files = {
            "low": calling("file1", name="low"), "kern__low__file1": calling("entry", name="file1"),
            "kern__entry": calling("high", name="entry"), "high": calling("low", name="high")
        }
        self.assertEqual(self.wrong(**files), [])
        self.assertEqual(self.cut, [])
        files["kern__entry"] = calling("other", name="entry")
        files["kern__high__other"] = calling("high", name="other")
        self.assertIn("kern/high/other.c (kern/high)", self.wrong(**files)[0])

    def test_a_circle_that_is_cut_is_not_named_any_more(self) -> None:
        self.assertEqual(self.wrong(calling(name="low"), calling("low", name="high")), [])
        self.assertIn("kern/low/low.c is in no large circle: take it out of room_circle", self.cut)

    def test_the_kernel_s_own_rooms(self) -> None:
        lists = rooms.read(ROOT)
        self.assertLess(lists.order.index("kern/base"), lists.order.index("kern/sched"))
        self.assertLess(lists.order.index("kern/sched"), lists.order.index("kern/ftrace/core"))
        built = [
            folder for folder in sorted(ROOT.glob(f"build/*/{FINISHED}"))
            if (folder / "callsite.elf").exists()
        ]
        self.assertEqual(rooms.wrong(lists, built), [])
        sources = {
            file.relative_to(ROOT)
            for top in ("boot", "kern") for file in (ROOT / top).rglob("*.[cS]")
            if not {"tests", "tools", "samples"} & set(file.parts)
            and file.name not in ("asm-offsets.c", "callsite.lds.S")
        }
        self.assertEqual(sources - set(lists.place) - lists.outside, set())


if __name__ == "__main__":
    unittest.main()

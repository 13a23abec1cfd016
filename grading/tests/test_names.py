"""The list of the kernel's names on which the grader relies: none is missing, none is too much, and
the build looks for each."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path

from grading.elf import names
from grading.elf.elf import DECLARED, Kernel
from grading.truth import returns
from kern.ftrace.tools.kernel_elf import Elf
from qemu.machine import ARCHES, LAST_LAB, ROOT

LABS = range(1, LAST_LAB + 1)
GRADER = [
    *(
        file
        for file in sorted(ROOT.glob("grading/*/*.py"))
        if file.parent.name != "tests" and file.name != "names.py"
    ),
    *sorted(ROOT.glob("labs/*/checks.py")),
]


def strings(text: str) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def unlisted(text: str, symbols: set[str]) -> list[tuple[int, str]]:
    """The strings that are symbols of a kernel and not listed. A word without _ may be no symbol:
    the reader refuses it."""
    return [
        (line, string)
        for line, string in strings(text)
        if "_" in string and string in symbols - names.LISTED
    ]


def gone(text: str) -> list[str]:
    named = [string for _, string in strings(text) if re.fullmatch(r"kern/[\w/-]+\.[chS]", string)]
    return [name for name in named if not (ROOT / name).exists()]


class List(unittest.TestCase):
    def elf(self, arch: str, lab: int = LAST_LAB) -> Path:
        return ROOT / f"build/{arch}/lab{lab}/callsite.elf"

    def test_each_string_that_is_a_kernels_symbol_is_listed(self) -> None:
        symbols = {
            symbol.name
            for lab in LABS
            for arch in ARCHES
            for symbol in Elf(self.elf(arch, lab)).table
            if symbol.kind != "STT_SECTION"
        }
        self.assertEqual(
            [(3, "sched_tick")], unlisted('"ring buffer"\n"rare_a"\n"sched_tick"\n', symbols)
        )
        for file in GRADER:
            self.assertEqual(
                [], unlisted(file.read_text(), symbols), f"{file}: add them to grading/elf/names.py"
            )

    def test_each_file_of_the_kernel_that_is_named_is_there(self) -> None:
        """Of one that is gone, code_of() would find no code, and a check no mistake."""
        self.assertEqual(["kern/gone.c"], gone('"kern/gone.c"\n"see kern/gone.c"\n"kern/main.c"\n'))
        for file in GRADER:
            self.assertEqual([], gone(file.read_text()), file)
        self.assertEqual(
            [], [name for name in DECLARED.values() if not (ROOT / f"{name}.c").exists()]
        )

    def test_the_reader_finds_no_other_name(self) -> None:
        kernel = Kernel(self.elf("riscv64"), "riscv64")
        self.assertTrue(kernel.address_of("sched_tick"))
        for looks in (
            kernel.symbol,
            kernel.extent,
            kernel.exits,
            lambda name: returns.calls_to(kernel, name),
            lambda name: returns.ends(kernel, name),
        ):
            with self.assertRaisesRegex(LookupError, "^sched_tick is not in grading/elf/names.py"):
                looks("sched_tick")
        self.assertTrue(kernel.symbol("ftrace_call"))
        self.assertEqual(0, kernel.symbol("_mcount"), "of another stage")

    def test_each_name_is_needed(self) -> None:
        self.assertEqual([], sorted(name for name in names.LISTED if not names.needed_by(name)))

    def test_a_renamed_function_is_an_error_of_the_build(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch), tempfile.TemporaryDirectory() as folder:

                def look(*changes: str) -> subprocess.CompletedProcess[str]:
                    new = Path(folder, "callsite.elf.new")
                    subprocess.run(
                        [
                            f"{Kernel(self.elf(arch), arch).isa.cross}objcopy",
                            *changes,
                            self.elf(arch),
                            new,
                        ],
                        check=True,
                    )
                    return subprocess.run(
                        [sys.executable, "-m", "grading.elf.names", arch, str(LAST_LAB), str(new)],
                        cwd=ROOT,
                        capture_output=True,
                        text=True,
                        check=False,
                    )

                done = look()
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                done = look(
                    "--redefine-sym",
                    "kprobe_buckets=buckets",
                    "--redefine-sym",
                    "rare_left=rare_gone",
                )
                self.assertEqual(1, done.returncode)
                self.assertEqual(3, len(done.stderr.splitlines()), done.stderr)
                self.assertIn(
                    "looks for kprobe_buckets (labs/8-probes/checks.py), and this kernel has none: "
                    "was it renamed",
                    done.stderr,
                )
                self.assertRegex(
                    done.stderr,
                    r"looks for rare_left \(grading/checks/rare.py, .*and this kernel has none",
                )
                self.assertRegex(
                    done.stderr, r"looks for rare_gone \(.*and this kernel has 2 of this name"
                )


if __name__ == "__main__":
    unittest.main()

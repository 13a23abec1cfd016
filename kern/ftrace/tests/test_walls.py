"""A handed-in file is compiled within walls: the files that the compiler sees and writes, its
limits, and the messages."""
import contextlib
import dataclasses
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from grading.tests.needs import resize, small_disk
from qemu.machine import ROOT

sys.path.insert(0, str(ROOT / "kern/ftrace/tools"))
import compile as compiler  # noqa: E402

COMPILE = ROOT / "kern/ftrace/tools/compile.py"


class Compile(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        self.source = self.folder / "seen/file.c"
        self.source.parent.mkdir()
        self.object = self.folder / "file.o"

    def compile(self, text: str, *words: str) -> subprocess.CompletedProcess[str]:
        self.source.write_text(text)
        return subprocess.run([
            sys.executable, COMPILE,
            str(self.source.parent), "--", "gcc", *words, "-c", "-o",
            str(self.object),
            str(self.source)
        ], capture_output=True, text=True, check=False, timeout=600)

    def stopped(self, text: str, sentence: str, *words: str) -> None:
        done = self.compile(text, *words)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"build failure: {self.source}: ", done.stderr)
        self.assertIn(sentence, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertLessEqual({path.name
                              for path in self.folder.iterdir()}, {"seen", "secret", "secret.h"},
                             "something is left behind")

    def test_the_object_and_what_it_depends_on(self) -> None:
        (self.source.parent / "other.h").write_text("#define ZERO 0\n")
        done = self.compile('#include "other.h"\nint f(void) { return ZERO; }\n', "-MMD", "-MP")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertTrue(self.object.read_bytes().startswith(b"\x7fELF"))
        depends = self.object.with_suffix(".d").read_text().replace("\\\n", "")
        self.assertEqual(depends.split()[:3],
                         [f"{self.object}:",
                          str(self.source),
                          str(self.source.parent / "other.h")])

    def test_it_sees_no_other_file(self) -> None:
        (self.folder / "secret").write_text("secret\n")
        for path in ("/etc/passwd", "/dev/zero", "/proc/self/environ", self.folder / "secret",
                     ROOT / "Makefile", Path.home() / ".profile"):
            with self.subTest(path=path):
                self.stopped(f'__asm__(".incbin \\"{path}\\"");\n', "it does not compile")

    def test_it_has_no_environment(self) -> None:
        os.environ["CPATH"] = str(self.folder)
        self.addCleanup(os.environ.pop, "CPATH")
        (self.folder / "secret.h").write_text("\n")
        self.stopped("#include <secret.h>\n", "No such file or directory")

    def test_what_make_reads_does_nothing(self) -> None:
        for name in ("$(shell touch x).h", "a;b.h", "a\tb.h", "a=b.h", "a#b.h"):
            with self.subTest(name=name):
                (self.source.parent / name).write_text("\n")
                self.stopped(f'#include "{name}"\n', "whose name no file of the kernel has", "-MMD",
                             "-MP")

    def test_a_list_of_files_that_is_too_long_to_check_is_none(self) -> None:
        depends = self.folder / "depends"
        for text, ends in (("a.o: b.h\n", False),
                           (" " * compiler.MESSAGES + "\nx:=$(shell touch y)\n", True)):
            depends.write_text(text)
            with self.subTest(size=len(text)), self.assertRaises(
                    compiler.Refused) if ends else contextlib.nullcontext():
                compiler.check_depends(str(depends))

    def test_its_memory_ends(self) -> None:
        self.stopped('__asm__(".rept 100000000; .8byte 1, 2, 3, 4; .endr");\n',
                     "it needs more than 1024 MiB of memory")

    def test_its_output_ends(self) -> None:
        self.stopped('__asm__(".fill 30000000");\n', "what it writes is larger than 16 MiB")

    def test_a_full_disk_is_not_the_files_fault(self) -> None:
        with small_disk(200) as disk:
            self.object = disk / "file.o"
            done = self.compile("int x[100000] = {1};\n")
            self.assertEqual(1, done.returncode)
            self.assertEqual([
                f"{self.source} is not compiled: {disk} cannot be written: No space left on device."
            ],
                             done.stderr.splitlines()[-1:])
            self.assertNotIn("build failure", done.stderr)
            self.assertEqual([], os.listdir(disk))
            resize(disk, "ro")
            done = self.compile("int x;\n")
            self.assertEqual((
                1,
                f"{self.source} is not compiled: {disk} cannot be written: Read-only file system.\n"
            ), (done.returncode, done.stderr))

    def test_a_message_about_a_full_disk_is_only_a_message(self) -> None:
        self.stopped("#error No space left on device\n", "it does not compile")

    def test_what_a_tool_prints_is_written_whole_or_refused(self) -> None:
        for tool in ("mksyms.py", "mkrecords.py", "islands.py"):
            words = ["riscv64"] if tool == "islands.py" else ["--empty"]
            with self.subTest(tool), open("/dev/full", "wb") as full:
                done = subprocess.run([sys.executable,
                                       COMPILE.with_name(tool), *words], stdout=full,
                                      stderr=subprocess.PIPE, text=True, check=False)
                self.assertEqual(
                    (1, f"{tool}: /dev/full cannot be written: No space left on device.\n"),
                    (done.returncode, done.stderr))

    def test_its_time_ends(self) -> None:
        limits = compiler.LIMITS
        self.addCleanup(setattr, compiler, "LIMITS", limits)
        compiler.LIMITS = dataclasses.replace(limits, processor=1, seconds=60)
        self.source.write_text('__asm__(".rept 1000000\\n.rept 1000\\n.endr\\n.endr");\n')
        with self.assertRaisesRegex(compiler.Refused, "it was stopped after"):
            compiler.build([str(self.source.parent)],
                           ["gcc", "-O2", "-c", "-o",
                            str(self.object),
                            str(self.source)])

    def test_what_it_says_is_printable_and_ends(self) -> None:
        done = self.compile('#warning "\x1b]0;title\x07 \x1b[2J \u202e"\n')
        self.assertEqual(done.returncode, 0)
        self.assertIn('"?]0;title? ?[2J ?"', done.stderr)
        self.assertTrue(all(c == "\n" or c.isprintable() for c in done.stderr))
        done = self.compile("".join(f"#warning {'long ' * 3000}\n" for _ in range(150)))
        self.assertLess(len(done.stderr), compiler.MESSAGES + 200)
        self.assertRegex(done.stderr, r"\(the compiler says \d+ bytes: cut after 1048576\)\n$")

    def test_without_bubblewrap_it_says_what_to_do(self) -> None:
        bwrap = self.folder / "seen/bwrap"
        bwrap.write_text(
            "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
        bwrap.chmod(0o755)
        was = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", was)
        os.environ["PATH"] = f"{bwrap.parent}:{was}"
        self.stopped("int x;\n", "the sandbox cannot be made (bwrap: No permissions")
        os.environ["SANDBOX"] = "no"
        self.addCleanup(os.environ.pop, "SANDBOX")
        self.assertEqual(self.compile("int x;\n").returncode, 0)


if __name__ == "__main__":
    unittest.main()

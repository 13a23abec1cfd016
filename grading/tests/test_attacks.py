"""Attacks on a class's grade that are not one edit of a lab's solution, each with the verdict that
it must get. What is elsewhere:

    archives, names, links, devices, bombs, encodings    test_intake.py
    files of the host, memory, time, output, messages    kern/ftrace/tests/test_walls.py
    sections, symbols, instructions of an object         test_handed_in.py
    panics, silence, floods, reboots, early power-off    test_machine.py
    what runs within the walls, and what it leaves       test_classroom.py
    forged traces and evidence                           test_forged.py, test_graph_forged.py,
                                                         grading/attacks/
    everything else that a handed-in file may do         grading/attacks/
    a student's text on pages, in tables, at terminals   test_classroom.py
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

from grading.classroom import one
from grading.classroom.intake import Taken, taken
from grading.tests.needs import user_namespaces
from grading.tests.test_intake import BOTH, CALLER, PATCH, WANTED, tar, zipped
from qemu.machine import ARCHES, ROOT, Machine

AUTHOR = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
GCC = {".c": "riscv64-linux-gnu-gcc", ".S": "aarch64-linux-gnu-gcc"}
NOT_THERE = "No such file|file not found|can't open|cannot find"


class HandedIn(unittest.TestCase):
    """What is handed in, as a folder, an archive or a repository."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        self.ann = self.folder / "ann"
        self.ann.mkdir()

    def take(self, data: bytes, name: str = "lab3.tar") -> Taken:
        (self.folder / name).write_bytes(data)
        return taken(self.folder / name, WANTED)

    def put(self, name: str, data: bytes = b"x\n") -> Path:
        path = self.ann / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def git(self, *words: str | Path) -> None:
        subprocess.run(["git", "-C", self.ann, *words], check=True, capture_output=True,
                       env={**os.environ, **AUTHOR})

    def repository(self) -> None:
        for name, data in BOTH.items():
            self.put(name, data)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "."]):
            self.git(*words)

    def test_results_and_rules_of_its_own_are_ignored(self) -> None:
        forged = ("grade.json", "build/grade.json", "result.json", "attempt-1/grade.json",
                  "attempt-1.status", "graded/result.json", "Makefile", "kern/Makefile",
                  "labs/3-nop-call-patching/rubric.toml", "labs/3-nop-call-patching/checks.py",
                  "grading/__main__.py", "build/riscv64/lab3/kern/ftrace/core/patch.o",
                  ".git/hooks/post-checkout", "sitecustomize.py")
        got = self.take(tar([*BOTH.items(), *((name, b"100 points\n") for name in forged)]))
        self.assertEqual((got.files, got.ignored), (BOTH, list(forged)))

    @user_namespaces
    def test_the_repository_of_another_student(self) -> None:
        self.repository()
        bob = self.folder / "bob"
        bob.mkdir()
        (bob / ".git").symlink_to(self.ann / ".git")
        self.assertEqual(taken(bob, WANTED).files, {})
        (bob / ".git").unlink()
        (bob / ".git").write_text(f"gitdir: {self.ann}/.git\n")
        self.assertEqual(taken(bob, WANTED).files, {})
        (bob / ".git").unlink()
        subprocess.run(["git", "init", "-q", bob], check=True)
        (bob / ".git/objects/info/alternates").write_text(f"{self.ann}/.git/objects\n")
        commit = subprocess.run(["git", "-C", self.ann, "rev-parse", "HEAD"], capture_output=True,
                                text=True, check=True).stdout
        (bob / ".git/HEAD").write_text(commit)
        self.assertRegex(taken(bob, WANTED).refused, "git cannot read it")

    @user_namespaces
    def test_links_and_modules_of_a_repository(self) -> None:
        self.repository()
        (self.ann / PATCH).unlink()
        (self.ann / PATCH).symlink_to("/etc/passwd")
        self.git("commit", "-q", "-a", "-m", ".")
        self.assertIn(f"{PATCH} is a link", taken(self.ann, WANTED).refused)
        self.git("rm", "-q", "-r", "--cached", "kern/ftrace/core")
        self.git("update-index", "--add", "--cacheinfo",
                 "160000,1234567890123456789012345678901234567890,kern/ftrace/core")
        self.git("commit", "-q", "-m", ".")
        self.assertEqual(taken(self.ann, WANTED).missing, [PATCH])

    @user_namespaces
    def test_attributes_of_a_repository_name_no_program(self) -> None:
        self.repository()
        self.put(".gitattributes", b"* filter=run export-subst diff=run\n")
        self.put(PATCH, b"// $Format:%(trailers:key=x)$\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", ".")
        with (self.ann / ".git/config").open("a") as file:
            file.write(
                f'[filter "run"]\n\tsmudge = touch {self.folder}/ran; cat '
                f'/etc/passwd\n\trequired\n[core]\n\thooksPath = {self.folder}\n'
            )
        self.assertNotIn(b"root:", b"".join(taken(self.ann, WANTED).files.values()))
        self.assertFalse((self.folder / "ran").exists())

    def test_a_file_that_is_large_and_takes_no_room(self) -> None:
        os.truncate(self.put(PATCH), 1 << 40)
        self.assertIn(f"{PATCH} has {1 << 40} bytes", taken(self.ann, WANTED).refused)

    def test_a_sparse_file_in_a_tar(self) -> None:
        os.truncate(self.put(PATCH), 1 << 36)
        subprocess.run(["tar", "-cSf", self.folder / "sparse.tar", "-C", self.ann, PATCH],
                       check=True)
        self.assertIn(f"{PATCH} has {1 << 36} bytes",
                      taken(self.folder / "sparse.tar", WANTED).refused)

    def test_a_fifo_in_the_place_of_an_archive_or_a_file_stops_nothing(self) -> None:
        os.mkfifo(self.folder / "fifo.tar")
        self.assertTrue(taken(self.folder / "fifo.tar", WANTED).refused)
        self.put(CALLER)
        (self.ann / PATCH).parent.mkdir(parents=True)
        os.mkfifo(self.ann / PATCH)
        self.assertIn(f"{PATCH} is a link or a device", taken(self.ann, WANTED).refused)

    def test_an_archive_that_is_a_link(self) -> None:
        (self.folder / "bob.tar").write_bytes(tar(list(BOTH.items())))
        (self.ann / "lab3.tar").symlink_to("../bob.tar")
        self.assertEqual(taken(self.ann, WANTED).files, {})

    def test_an_archive_within_an_archive_is_not_unpacked(self) -> None:
        got = self.take(zipped([("lab3.tar", tar(list(BOTH.items()))), ("bomb.zip", b"PK")]),
                        "outer.zip")
        self.assertEqual((got.files, got.ignored), ({}, ["lab3.tar", "bomb.zip"]))

    def test_an_encrypted_zip(self) -> None:
        data = bytearray(zipped([(PATCH, b"x\n")]))
        for mark, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
            data[data.index(mark) + at] |= 1
        self.assertIn(f"{PATCH} is a link or a device, or encrypted",
                      self.take(bytes(data), "lab3.zip").refused)

    def test_names_of_other_systems(self) -> None:
        """Letters that only look the same are others; what Windows drops is spellings.py's."""
        names = [
            PATCH.replace("p", "\u0440"), PATCH.replace("c", "c\u0327"), PATCH + "\u200b",
            PATCH.replace("k", "\u212a"), PATCH + ":stream"
        ]
        for name in names:
            got = self.take(tar([(name, b"x\n")]))
            self.assertEqual((got.files, got.refused, got.ignored_count), ({}, "", 1), name)

    def test_a_folder_in_the_place_of_a_file(self) -> None:
        (self.ann / PATCH).mkdir(parents=True)
        self.assertEqual(taken(self.ann, WANTED).missing, list(WANTED))
        got = self.take(tar([(f"{PATCH}/{PATCH}", b"x\n"), (PATCH + "/", b"")]))
        self.assertEqual((list(got.files), got.refused), ([PATCH], ""))  # as any folder's name

    def test_a_path_without_end(self) -> None:
        got = self.take(tar([("a/" * 30_000 + PATCH, b"x\n"), ("b" * 100_000, b"")]))
        self.assertEqual((got.files, max(map(len, got.ignored))), ({PATCH: b"x\n"}, 203))

    def test_text_in_other_encodings(self) -> None:
        for code in ("utf-16", "utf-16-le", "utf-32", "utf-32-be"):
            self.assertRegex(
                self.take(tar([(PATCH, "int x;\n".encode(code))])).refused,
                "is text in UTF-16|has a NUL character")

    def test_many_headers_before_one_file(self) -> None:
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as file:
            info = tarfile.TarInfo(PATCH)
            info.pax_headers = {f"a{n}": "b" * 1000 for n in range(2000)}
            info.size = 2
            file.addfile(info, io.BytesIO(b"x\n"))
        got = self.take(out.getvalue())
        self.assertTrue(got.refused or got.files == {PATCH: b"x\n"})

    def test_a_zip_whose_members_overlap(self) -> None:
        """One compressed megabyte that a thousand members share."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr(PATCH, bytes(1 << 20))
            for n in range(1000):
                info = zipfile.ZipInfo(f"{n}/{PATCH}")
                for field in ("header_offset", "CRC", "compress_size", "file_size",
                              "compress_type"):
                    setattr(info, field, getattr(file.filelist[0], field))
                file.filelist.append(info)
                file.NameToInfo[info.filename] = info
        self.assertRegex(
            self.take(out.getvalue(), "lab3.zip").refused,
            "more than 64 files of the names|it cannot be read: Overlapped entries")


class Compiled(unittest.TestCase):
    """A file that the compiler refuses, or that says nothing of the host."""

    def compile(self, text: str, suffix: str = ".c") -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="callsite-") as scratch:
            (Path(scratch) / "seen").mkdir()
            source = Path(scratch) / f"seen/file{suffix}"
            source.write_text(text)
            return subprocess.run([
                sys.executable, ROOT / "kern/ftrace/tools/compile.py",
                str(source.parent), "--", GCC[suffix], "-O2", "-MMD", "-c", "-o",
                f"{scratch}/file.o",
                str(source)
            ], capture_output=True, text=True, check=False)

    def test_what_is_refused(self) -> None:
        cases = (
            (".c", '#include "/proc/self/root/etc/passwd"\n', NOT_THERE),
            (".c", '#include "/proc/self/cwd/../../../../../etc/passwd"\n', NOT_THERE),
            (".c", "#include </proc/1/environ>\n", NOT_THERE + "|Permission denied"),
            (".c", '#define NAME "/etc/passwd"\n#include NAME\n', NOT_THERE),
            (".c", '#include_next "/etc/hostname"\n', NOT_THERE),
            (".c", '#import "/etc/hostname"\n', NOT_THERE),
            (".c", '#pragma GCC dependency "/etc/passwd"\n', NOT_THERE),
            (".c", '#pragma GCC pch_preprocess "/etc/passwd"\n', "pch_preprocess|" + NOT_THERE),
            (".c",
             '__attribute__((section(".text\\n.incbin \\"/etc/passwd\\"\\n"))) int f(void) { '
             'return 0; }\n',
             NOT_THERE),
            (".c",
             'int f(void) __asm__("x\\n.incbin \\"/etc/passwd\\"\\n"); int g(void) { return f(); '
             '}\n',
             NOT_THERE + "|Error"),
            (".S", '.include "/proc/self/environ"\n', "can't open|No such file"),
            (".S", ".macro again\nagain\n.endm\nagain\n", "Macros nested too deep|macros nested"),
            (".S", ".macro two\ntwo\ntwo\n.endm\ntwo\n",
             "Macros nested too deep|macros nested|stopped"),
            (".S", ".fill 1 << 40\n", "build failure"),
            (".S", ".org 1 << 50\n", "build failure"),
            (".S", ".space 1 << 62, 1\n", "build failure"),
            (".S", ".if 1\n", "end of file|unbalanced|conditional"),
            (".S", ".err\n", "Error: .err"),
        )
        for suffix, text, sentence in cases:
            with self.subTest(text=text):
                done = self.compile(text, suffix)
                self.assertEqual(done.returncode, 1)
                self.assertRegex(done.stderr, sentence)
                self.assertRegex(done.stderr, "(?m)^build failure: ")
                self.assertNotRegex(done.stderr, "root:|HOME=|Traceback")

    def test_a_message_shows_no_line_of_the_host_s(self) -> None:
        """The compiler prints the line that #line names."""
        for path in ("/etc/passwd", str(ROOT / "Makefile"), "/proc/self/environ"):
            done = self.compile(f'#line 1 "{path}"\nint error\n')
            self.assertEqual(done.returncode, 1)
            self.assertNotRegex(done.stderr, "root:|Callsite: every command|HOME=")

    def test_names_of_the_host_are_not_in_an_object(self) -> None:
        done = self.compile(
            '#if __has_include("/etc/passwd") || __has_include("/root") || '
            '__has_include("/proc/1/environ")\n#error seen\n#endif\nint f(void) { return '
            'sizeof(__FILE__ __BASE_FILE__); }\n'
        )
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_messages_of_the_assembler_are_printable(self) -> None:
        done = self.compile('.print "\x1b[2J\x07<script>"\n.warning "\x1b]0;x\x07"\n', ".S")
        self.assertEqual(done.returncode, 0)
        self.assertTrue(all(c == "\n" or c.isprintable() for c in done.stdout + done.stderr),
                        done.stderr)


class Hardware(unittest.TestCase):
    def test_a_guest_finds_nothing_of_the_host_s(self) -> None:
        """No network, disk, shared folder, semihosting, or value of our own in fw_cfg; and QEMU may
        start no process."""
        for arch in ARCHES:
            with tempfile.TemporaryDirectory() as scratch:
                words = Machine(arch, 4).command(["-serial", "stdio"], Path(scratch))
            self.assertIn("-nic none", " ".join(words))
            self.assertIn("-nodefaults", words)
            options = {word for word in words if word.startswith("-")}
            self.assertLessEqual(
                options, {
                    "-L", "-M", "-cpu", "-smp", "-m", "-nodefaults", "-nic", "-display", "-monitor",
                    "-no-reboot", "-serial", "-kernel", "-initrd", "-append", "-bios"
                })
        self.assertIn("spawn=deny", one.QEMU_SANDBOX)


if __name__ == "__main__":
    unittest.main()

"""What cannot be written is said in one sentence with the file and the reason, and the old contents
stay."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from qemu import disk
from qemu.machine import ROOT

FULL = "No space left on device"


class Disk(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))

    def full(self, name: str) -> Path:
        """A file to which no byte can be written."""
        path = self.folder / name
        path.symlink_to("/dev/full")
        return path

    def test_the_sentence_names_the_file_and_the_reason(self) -> None:
        for number, said in ((errno.ENOSPC, "a/b cannot be written: No space left on device"),
                             (errno.EDQUOT, "a/b cannot be written: Disk quota exceeded"),
                             (errno.EROFS, "a/b cannot be written: Read-only file system"),
                             (errno.EACCES, "a/b cannot be used: Permission denied"), (errno.ENOENT,
                                                                                       "")):
            with self.subTest(said=said):
                self.assertEqual(said, disk.why(OSError(number, os.strerror(number), "a/b")))
                self.assertEqual(said, disk.why(OSError(number, os.strerror(number)), Path("a/b")))
        self.assertEqual("", disk.why(ValueError("No space left on device")))
        self.assertEqual("", disk.why(OSError(errno.EIO, os.strerror(errno.EIO))),
                         "a serial line's error, for example")

    def test_a_copy_of_a_folder_names_the_file(self) -> None:
        (self.folder / "from").mkdir()
        (self.folder / "from/file").write_text("text")

        def copy(source: str, target: str) -> None:
            raise OSError(errno.ENOSPC, FULL, source, None, target)

        with self.assertRaises(shutil.Error) as caught:
            shutil.copytree(self.folder / "from", self.folder / "to", copy_function=copy)
        self.assertEqual(f"{self.folder}/to/file cannot be written: {FULL}",
                         disk.why(caught.exception))

    def test_without_a_folder_for_temporary_files_there_is_a_sentence(self) -> None:
        program = ("import tempfile; from qemu import disk; disk.ended(lambda: "
                   "bool(tempfile.TemporaryFile()), 'x', 3)")
        done = subprocess.run(["prlimit", "--fsize=0", sys.executable, "-c", program], cwd=ROOT,
                              capture_output=True, text=True, check=False)
        self.assertRegex(done.stderr, r"^x: /\S+ cannot be written: File too large\.\n$")

    def test_a_file_that_cannot_be_replaced_keeps_its_contents(self) -> None:
        path = self.folder / "grade.json"
        disk.write_whole(path, "old")
        self.full(".grade.json.new")
        with self.assertRaises(OSError) as caught:
            disk.write_whole(path, "new")
        self.assertEqual(f"{path} cannot be written: {FULL}", disk.why(caught.exception))
        self.assertEqual(["grade.json"], os.listdir(self.folder))
        self.assertEqual("old", path.read_text())
        disk.write_whole(path, "new")
        self.assertEqual("new", path.read_text())

    def test_a_program_ends_with_its_status_and_one_sentence(self) -> None:
        def fails() -> int:
            with disk.naming(self.folder / "x"), self.full("full").open("wb", buffering=0) as file:
                return file.write(b"1")

        with mock.patch("sys.stderr.write") as said:
            self.assertEqual(3, disk.ended(fails, "program", 3))
        self.assertEqual(f"program: {self.folder}/x cannot be written: {FULL}.\n",
                         "".join(call.args[0] for call in said.mock_calls))
        with self.assertRaises(FileNotFoundError):
            disk.ended(lambda: len(os.listdir("/nothing-is-here")), "program", 3)

    def test_a_folder_without_room_is_found(self) -> None:
        self.assertEqual("", disk.lacks(self.folder))
        program = ("import sys; from pathlib import Path; from qemu import disk; "
                   "print(disk.lacks(*map(Path, sys.argv[1:])), disk.told('x', Path('/')))")
        done = subprocess.run(
            ["prlimit", "--fsize=1000000", sys.executable, "-c", program, self.folder, "/tmp"],
            cwd=ROOT, capture_output=True, text=True, check=True)
        self.assertEqual(f"{self.folder} cannot be written: File too large \n", done.stdout)
        self.assertEqual(f"{self.folder} cannot be written: {FULL}",
                         disk.told(f"ld: final link failed: {FULL}\n", self.folder),
                         "though there is room again")
        self.assertEqual("", disk.told("ld: undefined reference\n", self.folder))


class Bytecode(unittest.TestCase):
    """Python 3.11 writes the beginning of a .pyc file where there is no room for all of it, and
    cannot import the module afterwards."""

    def test_none_is_written_on_a_disk_that_is_nearly_full(self) -> None:
        show = "import os, sys, types{}; import qemu; print(sys.dont_write_bytecode)"
        nearly = "; os.statvfs = lambda path: types.SimpleNamespace(f_bavail=100, f_frsize=4096)"
        env = {
            name: value
            for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
        }
        for change, written in (("", False), (nearly, True)):
            said = subprocess.run([sys.executable, "-c", show.format(change)], cwd=ROOT,
                                  capture_output=True, text=True, check=True, env=env).stdout
            self.assertEqual(f"{written}\n", said)


if __name__ == "__main__":
    unittest.main()

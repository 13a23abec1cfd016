"""A disk that is full or cannot be written is an error of the harness with one sentence: never a
score, a failure of the student's, or a traceback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from rich.console import Console

from grading.classroom import one
from grading.elf.elf import Kernel
from grading.machine.machine import Run
from grading.report import progress, report, side_by_side, submit
from grading.session import session
from grading.tests import mutants, tiny
from grading.tests.needs import resize, small_disk, user_namespaces
from grading.verdict import Stopped, Verdict, blamed
from kern.ftrace.tools import walls
from qemu.machine import ARCHES, ROOT

LAB = 3
FULL = "No space left on device"
HARNESS = "The harness failed; this is no score: "


def grade(out: Path, arch: str, *words: str) -> subprocess.CompletedProcess[str]:
    """One boot and one rung, graded in the folder `out`."""
    return subprocess.run([
        sys.executable, "-m", "grading", f"--lab={LAB}", "--arch", arch, "--smp=1", "--rung=1",
        "--kernels", ROOT / f"build/tests/disk/{arch}", "--out", out, *words
    ], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


class BootOnFullDisk(unittest.TestCase):
    """Each file that a boot writes, in turn, has no room."""

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))

    def test_a_file_of_a_boot_that_cannot_be_written(self) -> None:
        for arch in ARCHES:
            for name in ("x.log", "x.observer/observer.config", "x.observer/observer.image",
                         "x.observer/observer.log"):
                with self.subTest(arch, name=name), tempfile.TemporaryDirectory() as folder:
                    path = Path(folder, name)
                    path.parent.mkdir(exist_ok=True)
                    path.symlink_to("/dev/full")
                    live = tiny.machine(arch, "LIVE")
                    config = tiny.config(arch, "LIVE", "point traced_site")
                    with self.assertRaises(Stopped) as caught, blamed(), \
                            Run(live, Path(folder, "x.log"), config) as machine:
                        machine.console.wait_ready(60)
                    self.assertEqual((Verdict.HARNESS, f"{path} cannot be written: {FULL}"),
                                     (caught.exception.verdict, caught.exception.why))

    def test_a_graded_boot_has_no_other_verdict(self) -> None:
        mutants.build(LAB)
        for arch in ARCHES:
            for cpus in (1, 4):
                for name in ("x.observer/observer.config", "x.observer/observer.log"):
                    with self.subTest(arch, cpus=cpus,
                                      name=name), tempfile.TemporaryDirectory() as folder:
                        path = Path(folder, name)
                        path.parent.mkdir(exist_ok=True)
                        path.symlink_to("/dev/full")
                        kernel = Kernel(ROOT / f"build/{arch}/lab{LAB}/callsite.elf", arch)
                        evidence = session.Session(kernel, LAB, cpus, 5, Path(folder,
                                                                              "x.log")).run()
                        self.assertEqual((Verdict.HARNESS, f"{path} cannot be written: {FULL}"),
                                         (evidence.verdict, evidence.why))

    def test_the_log_on_the_disk_is_not_written_while_qemu_runs(self) -> None:
        for arch in ARCHES:
            log = self.folder / f"{arch}.observer/observer.log"
            with self.subTest(arch), Run(tiny.machine(arch, "LIVE"), self.folder / f"{arch}.log",
                                         tiny.config(arch, "LIVE", "point traced_site")) as machine:
                machine.console.wait_ready(60)
                self.assertFalse(
                    log.exists(),
                    "a mapped file on a full disk ends QEMU or the harness by a signal")
            self.assertGreater(log.stat().st_size, 0)


class ResultsOnFullDisk(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))

    def test_results_that_cannot_be_written_leave_the_old_ones(self) -> None:
        for name, write in (("grade.json", lambda path: report.write_json([], path)),
                            ("best.json", lambda path: progress.remember([], path)),
                            (f"lab{LAB}.tar", lambda path: submit.write(LAB, path.parent))):
            path = self.folder / name
            path.write_text('{"lab3": {}}')
            (self.folder / f".{name}.new").symlink_to("/dev/full")
            with self.subTest(name), self.assertRaisesRegex(OSError, f"{FULL}: '{path}'"):
                write(path)
            self.assertEqual('{"lab3": {}}', path.read_text())
            write(path)
            self.assertGreater(path.stat().st_size, 0)
        self.assertEqual({"grade.json", "best.json", f"lab{LAB}.tar"}, set(os.listdir(self.folder)))

    def test_a_process_that_dies_is_not_silent(self) -> None:
        def dies(arch: str, _: side_by_side.Say) -> None:
            if arch == "riscv64":
                os.kill(os.getpid(), signal.SIGBUS)
            os.mkdir("/dev/full/x") if arch == "x" else Path("/dev/full").write_text("1")

        with open(self.folder / "said", "w+", encoding="utf-8") as said:
            with mock.patch("sys.stderr", said):
                self.assertEqual({}, side_by_side.run(dies, ["riscv64", "arm64"],
                                                      Console(file=said)))
            said.seek(0)
            text = said.read()
        self.assertIn("riscv64: the process that grades it was ended by SIGBUS.\n", text)
        self.assertIn(f"arm64: a file cannot be written: {FULL}.\n", text)
        self.assertNotIn("Traceback", text)


class ClassOnFullDisk(unittest.TestCase):
    @user_namespaces
    def test_what_a_command_in_the_sandbox_prints_is_whole(self) -> None:
        """recordmcount's table or git's archive, cut by a full disk, would be the student's
        mistake."""
        with small_disk(64) as disk, mock.patch("tempfile.tempdir", str(disk)):
            for profile in (walls.SUBMISSION, walls.PROGRAM):
                printed = walls.run(["/usr/bin/seq", "100000"], ["/usr", "/lib", "/lib64"],
                                    walls.Limits(60, 1 << 20), profile).output
                self.assertEqual((588895, b"100000\n"), (len(printed), printed[-7:]))

    def test_a_build_that_fails_on_a_full_disk_is_no_build_failure(self) -> None:
        def fails(*_: object, **__: object) -> walls.Ended:
            (disk / "build-riscv64.txt").write_text("no message")
            (disk / "build-riscv64.status").write_text("2")
            return walls.Ended(0, b"", b"")

        with small_disk(1 << 10) as disk, mock.patch.object(walls, "run", fails), mock.patch.object(
                one, "tree_at", lambda source, at: at):
            with self.assertRaises(walls.NoWalls) as caught:
                one.run({"tree": str(disk), "lab": LAB, "files": {}, "seeds": []}, disk)
            self.assertEqual(f"{disk} cannot be written: {FULL}", str(caught.exception))

    def test_a_result_that_does_not_fit_leaves_no_half(self) -> None:
        with small_disk(200) as disk:
            with self.assertRaisesRegex(OSError, FULL):
                one.write(disk, "key", one.without_grade("key", LAB, 100, one.BUILD, "x" * 500_000))
            self.assertEqual([], os.listdir(disk / "graded"))
            one.write(disk, "key", one.without_grade("key", LAB, 100, one.BUILD, "x"))
            self.assertEqual(["result.json"], os.listdir(disk / "graded/key"))

    def test_an_autograder_that_does_not_fit_is_not_there(self) -> None:
        with small_disk(100) as disk:
            done = subprocess.run([
                sys.executable, "-m", "grading.classroom.platforms", f"--lab={LAB}", disk / "x.zip"
            ], cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertEqual((2, f"OUT={disk}/x.zip cannot be written: {FULL}\n"),
                             (done.returncode, done.stderr))
            self.assertEqual([], os.listdir(disk))

    def test_a_handout_that_does_not_fit_is_not_there(self) -> None:
        with small_disk(500) as disk:
            done = subprocess.run(["make", "-s", "handout", f"OUT={disk}/out", "LABS=0-1"],
                                  cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertRegex(
                done.stderr,
                rf"^handout: {disk}/out\S* cannot be written: {FULL}\nmake: \*\*\* .*\n$")
            self.assertEqual([], os.listdir(disk))


class GradeOnFullDisk(unittest.TestCase):
    """A grade whose folder becomes full: at first while the kernel is copied, then at each of the
    files that it writes."""

    @classmethod
    def setUpClass(cls) -> None:
        mutants.build(LAB)
        for arch in ARCHES:
            link = ROOT / f"build/tests/disk/{arch}" / arch
            link.parent.mkdir(parents=True, exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(ROOT / f"build/{arch}/lab{LAB}")

    def test_a_grade_on_a_full_disk(self) -> None:
        for arch in ARCHES:
            with small_disk(64 << 10) as disk:
                best = {f"lab{LAB}": {arch: {"points": 5, "possible": 100}}}
                (disk / "best.json").write_text(json.dumps(best))
                self.assertEqual(0, grade(disk, arch).returncode)
                used = sum(file.stat().st_blocks // 2 for file in disk.rglob("*") if file.is_file())
                kernels = sum(file.stat().st_blocks // 2 for file in disk.glob("grade/kernels/**/*")
                              if file.is_file())
                for kib in (kernels // 2, kernels + 100, (kernels + used) // 2):
                    with self.subTest(arch, kib=kib):
                        subprocess.run(["rm", "-rf", disk / "grade", disk / "grade.json"],
                                       check=True)
                        resize(disk, f"size={kib}k")
                        done = grade(disk, arch)
                        self.assertEqual(3, done.returncode, done.stdout)
                        self.assertRegex(done.stdout,
                                         rf"^{HARNESS}{disk}\S* cannot be written: {FULL}\.\n$")
                        self.assertEqual(best, json.loads((disk / "best.json").read_text()))
                resize(disk, "size=64m")
                self.assertEqual(0,
                                 grade(disk, arch).returncode,
                                 "with room again the same command works")
                resize(disk, "ro")
                done = grade(disk, arch)
                self.assertEqual(
                    (3, f"{HARNESS}{disk}/grade/lock cannot be written: Read-only file system.\n"),
                    (done.returncode, done.stdout))


if __name__ == "__main__":
    unittest.main()

"""The user's view of make: `make help` lists the variables that may be set, `make sdcard` says why
there is no card, an installation waits for apt's lock, and builds at once do not disturb each
other."""
import itertools
import os
import re
import resource
import shlex
import shutil
import subprocess
import tempfile
import unittest
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grading.classroom.tree import OF_MAKE
from grading.machine.machine import Run
from grading.tests.needs import resize, small_disk
from qemu.machine import ARCHES, FINISHED, ROOT, Machine

# .ci/run's, make bench's, make's, ccache's, all programs'
OURS = {
    "CI", "BENCH_SITES", "CURDIR", "MAKE", "MAKEFLAGS", "MAKEFILE_LIST", "MAKECMDGOALS",
    "CCACHE_DIR", "TMPDIR"
}
FRAGMENTS = [
    ROOT / name
    for name in subprocess.run(["git", "ls-files", "Makefile", "*.mk"], cwd=ROOT,
                               capture_output=True, text=True, check=True).stdout.split()
]


def may_be_set() -> set[str]:
    """The names that makefiles use and none sets, and those that programs take from the
    environment."""
    text = "\n".join(re.sub(r"^#.*", "", file.read_text(), flags=re.M) for file in FRAGMENTS)
    used = set(re.findall(r"\$\(([A-Z][A-Z_]*)\)|ifdef ([A-Z_]+)", text)) | {
        (name, "")
        for line in re.findall(r"^export (.*)", text, re.M) for name in line.split()
    }
    read = {
        name
        for file in [*ROOT.glob("qemu/*.py"), *ROOT.glob("kern/ftrace/tools/*.py")]
        for name in re.findall(r'environ\.get\("([A-Z_]+)"', file.read_text())
    }
    return {a or b for a, b in used} - set(re.findall(r"^([A-Z_]+) :?=", text, re.M)) | read


class Help(unittest.TestCase):
    def test_every_variable_is_in_the_help(self) -> None:
        said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout
        told = set(re.findall(r"\b([A-Z_]+)=", said.partition("\n\n")[2]))
        names = may_be_set()
        self.assertLessEqual({"GIC", "EL", "QEMU_EXTRA", "SANDBOX", "STAFF"}, names)
        self.assertEqual(set(), names - told - OURS)

    @unittest.skipUnless((ROOT / "labs/instructor.mk").exists(), "pages name its commands")
    def test_what_the_pages_tell_to_type_is_in_the_help(self) -> None:
        said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True,
                              check=True).stdout
        known = {*re.findall(r"^  make (\S+)", said, re.M), *re.findall(r"\b[A-Z_]+=", said), "CI="}
        pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("labs/*.md"), *ROOT.glob("labs/*/handout.md"),
                 *ROOT.glob("kern/**/README.md"), ROOT / "README.md"]
        lines = {" ".join(re.sub(r"\s{2,}#.*|&&.*", "", line).split()): page for page in pages
                 for found in re.findall(r"`make ([^`]+)`|^(?:    |\$ )make ([a-z].*)$",
                                         page.read_text(), re.M) for line in found if line}
        self.assertGreater(len(lines), 100)
        for line, page in lines.items():
            words = {re.sub("=.*", "=", word, flags=re.S) for word in shlex.split(line)}
            unknown = {word for word in words - known - {"..."} if not word.startswith("build/")}
            self.assertEqual(set(), unknown, f"{page.name}: make {line}")


class Folder(unittest.TestCase):
    def test_the_tree_may_be_in_a_folder_with_quotes_and_spaces(self) -> None:
        """Then CCACHE_DIR has them, too."""
        with tempfile.TemporaryDirectory(prefix="it's \"a\" ") as folder:
            done = subprocess.run(["make", "-s", "build/riscv64/lab1/kern/base/string.o",
                                   "LAB=1", "ARCH=riscv64"], cwd=ROOT, capture_output=True,
                                  text=True, check=False,
                                  env={**os.environ, "CCACHE_DIR": f"{folder}/ccache"})
        self.assertEqual((0, ""), (done.returncode, done.stderr))


class FullDisk(unittest.TestCase):
    def test_a_build_on_a_full_disk(self) -> None:
        """At each size one sentence, and with room again the same command works."""
        with small_disk(64 << 10) as disk:
            listed = subprocess.run(
                ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                capture_output=True, text=True, check=True).stdout.split()
            for name in [
                    *(file for file in listed if (ROOT / file).is_file() and file.split("/")[0] in
                      (".ci", "Makefile", "README.md", "LICENSE", "boot", "kern", "labs")),
                    "build/.setup"
            ]:
                (disk / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, disk / name, follow_symlinks=False)
            for package in ("grading", "qemu"):
                (disk / package).symlink_to(ROOT / package)
            made = "build/riscv64/initrd.cpio"
            used = sum(file.stat().st_blocks // 2 for file in disk.rglob("*")
                       if file.is_file() and not file.is_symlink())
            for more in (60, 400, 800):
                resize(disk, f"size={used + more}k")
                full = subprocess.run(["make", "-s", made], cwd=disk, capture_output=True,
                                      text=True, check=False,
                                      env={**os.environ, "CCACHE_DISABLE": "1"})
                with self.subTest(more=more):
                    self.assertEqual(2, full.returncode)
                    self.assertIn("build cannot be written: No space left on device.\n",
                                  full.stderr)
                    self.assertNotIn("Traceback", full.stderr)
                    self.assertFalse((disk / made).exists())
            resize(disk, "size=64m")
            subprocess.run(["make", "-s", made], cwd=disk, check=True)
            listing = subprocess.run(["cpio", "-t", "--quiet", "-I", made], cwd=disk,
                                     capture_output=True, text=True, check=True).stdout.split()
            self.assertLessEqual({"data/noise.bin", "lib/modules/riscv64/pine.ko"}, set(listing))


class Modules(unittest.TestCase):
    def test_a_file_of_the_users_own_is_built_as_a_module_for_both_architectures(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            source = Path(name, "of_test_make.c")
            source.write_text(
                '#include "module.h"\nstatic int own_init(void)\n{\n\tprintk("hello from '
                'outside\\n");\n\treturn 0;\n}\nmodule_init(own_init);\n'
            )
            initrds = [f"build/{arch}/initrd-of_test_make.cpio" for arch in ARCHES]
            try:
                subprocess.run(["make", "-s", f"MODULE={source}", *initrds], cwd=ROOT, check=True)
                for arch, initrd in zip(ARCHES, initrds):
                    with self.subTest(arch):
                        self.assertIn("hello from outside", self.loaded(arch, ROOT / initrd))
            finally:
                for file in ROOT.glob("build/*/**/*of_test_make*"):
                    shutil.rmtree(file) if file.is_dir() else file.unlink(missing_ok=True)
        refused = subprocess.run(["make", "-s", "MODULE=/nowhere/x.c", "help"], cwd=ROOT,
                                 capture_output=True, text=True, check=False)
        self.assertIn("MODULE=/nowhere/x.c: no such file", refused.stderr)

    @staticmethod
    def loaded(arch: str, initrd: Path) -> str:
        """What insmod prints."""
        image = ROOT / "build" / arch / FINISHED / "Image"
        subprocess.run(["make", "-s", f"ARCH={arch}",
                        str(image.relative_to(ROOT))], cwd=ROOT, check=True)
        with Run(Machine(arch, image=image, initrd=initrd),
                 ROOT / f"build/tests/make-module-{arch}.log") as run:
            run.console.wait_ready(60)
            return run.console.command("insmod of_test_make")


@dataclass
class Command:
    """What somebody types, and what it must do: the files that it builds are the same as in a tree
    in which it runs alone."""

    words: tuple[str, ...]
    builds: tuple[str, ...]  # folders of kernels in build/
    points: str = ""  # the last line that it prints

    def __str__(self) -> str:
        return "make " + " ".join(self.words)


GRADE2 = Command(("grade", "LAB=2", "ARCH=riscv64"), ("riscv64/lab2",),
                 "100 of 100 points: full marks.")
GRADE3 = Command(("grade", "LAB=3", "ARCH=riscv64", "SMP=1"), ("riscv64/lab3",), "points.")
COMMANDS = [GRADE2, GRADE3, *(Command(words, builds) for words, builds in (
    (("LAB=3", "ARCH=riscv64"), ("riscv64/lab3",)),
    (("LAB=2",), ("riscv64/lab2", "arm64/lab2")),
    (("START=2", "ARCH=riscv64"), ("riscv64/lab2-start",)),
    (("HOOK=mcount", "ARCH=arm64"), ("arm64/lab3",)),
    (("TESTS=1", "ARCH=arm64"), (f"arm64/{FINISHED}-tests",)),
    (("run", "ARCH=arm64"), (f"arm64/{FINISHED}",)),
    (("host-tests-built",), ()),
))]


class AtOnce(unittest.TestCase):
    """Two commands in one tree, both from nothing. With EVERY=1 every pair; else those that once
    disturbed each other, and the same twice."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.tree = ROOT / "build/tests/at-once"
        cls.env = {
            name: value
            for name, value in os.environ.items()
            if name not in (*OF_MAKE, "QEMU_EXTRA") and not name.startswith(("MAKE", "MFLAGS"))
        }
        cls.env |= {"CCACHE_DIR": str(ROOT / "build/ccache"), "CCACHE_NOHASHDIR": "1"}

    def fresh(self) -> None:
        shutil.rmtree(self.tree, ignore_errors=True)
        (self.tree / "build").mkdir(parents=True)
        names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        subprocess.run([
            "cp", "-a", "--parents",
            *(name for name in names if (ROOT / name).exists() and not name.startswith("docs/")),
            self.tree
        ], cwd=ROOT, check=True)
        (self.tree / "build/.setup").touch()
        if (ROOT / "build/qemu-10").exists():
            (self.tree / "build/qemu-10").symlink_to(ROOT / "build/qemu-10")

    def begin(self, command: Command) -> subprocess.Popen[str]:
        """Start make. The console of a kernel that it runs has one command to do."""
        made = subprocess.Popen(["make", *command.words], cwd=self.tree, env=self.env, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        assert made.stdin
        made.stdin.write("poweroff\n")
        made.stdin.close()
        made.stdin = None
        return made

    def images(self, command: Command) -> dict[str, bytes]:
        return {
            name: (self.tree / "build" / name / "Image").read_bytes()
            for name in command.builds
        }

    def made_alone(self, command: Command) -> dict[str, bytes]:
        """The same kernels, of the tree that is tested."""
        words = [word for word in command.words if "=" in word and not word.startswith("SMP")]
        subprocess.run(["make", "-s", *words, *(f"build/{name}/Image" for name in command.builds)],
                       cwd=ROOT, env=self.env, check=True)
        return {name: (ROOT / "build" / name / "Image").read_bytes() for name in command.builds}

    def test_two_builds_in_one_tree_never_disturb_each_other(self) -> None:
        pairs = list(itertools.combinations_with_replacement(
            COMMANDS, 2)) if os.environ.get("EVERY") else [(GRADE2, GRADE3),
                                                           (COMMANDS[2], COMMANDS[2])]
        for pair in pairs:
            with self.subTest(" & ".join(map(str, pair))):
                right = [self.made_alone(command) for command in pair]
                self.fresh()
                for command, made, images in [(c, self.begin(c), i) for c, i in zip(pair, right)]:
                    said, _ = made.communicate()
                    if command.points and f"another grade writes its results into build/" in said:
                        self.assertNotRegex(said, r"(?m)^(CC|LD|HOSTCC|Another make)",
                                            "a refusal comes before anything is built")
                        continue
                    self.assertEqual(0, made.returncode, f"{command}: {said}")
                    self.assertIn(command.points, said)
                    self.assertEqual(self.images(command), images,
                                     f"{command} built another kernel than it does alone")


class Card(unittest.TestCase):
    """What make sdcard says of an OUT= that cannot be: one sentence, and nothing is left behind."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def refused(self, command: list[str | Path], sentence: str, **options: Any) -> None:
        """The command prints the sentence, no traceback, and leaves the folder as it was."""
        before = sorted(self.folder.rglob("*"))
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False,
                              **options)
        self.assertNotEqual(done.returncode, 0)
        said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
        self.assertEqual(said, [f"card: {sentence}"])
        self.assertEqual(sorted(self.folder.rglob("*")), before)

    def command(self, arch: str, out: Path) -> list[str | Path]:
        """As make runs it, but with the test's own folder of files: other tests read make's."""
        image = f"build/{arch}/{FINISHED}/Image"
        subprocess.run(["make", "-s", f"ARCH={arch}", image, f"build/{arch}/initrd.cpio"], cwd=ROOT,
                       check=True)
        return [
            "/usr/bin/python3", "boot/card.py", "--arch", arch, "--image", image, "--initrd",
            f"build/{arch}/initrd.cpio", "--folder", ROOT / f"build/tests/make-card-{arch}",
            "--out", out
        ]

    def test_a_name_that_cannot_be_a_file(self) -> None:
        nowhere, pipe = self.folder / "nowhere", self.folder / "pipe"
        os.mkfifo(pipe)
        for arch in ARCHES:
            for out, sentence in (
                (nowhere / "x.img", f"OUT={nowhere}/x.img: there is no folder {nowhere}"),
                (self.folder, f"OUT={self.folder} is a folder: name a file in it"),
                (pipe,
                 f"OUT={pipe} is no file: make a card's image in a file, and write that to the "
                 f"card with dd"
                 )):
                with self.subTest(arch, out=out):
                    self.refused(["make", "-s", "sdcard", f"ARCH={arch}", f"OUT={out}"], sentence)

    def test_a_file_that_cannot_be_written(self) -> None:
        out = self.folder / "x.img"
        for arch in ARCHES:
            with self.subTest(arch):
                self.refused(self.command(arch, Path("/proc/x.img")),
                             "/proc/x.img.new: No such file or directory")
                self.refused(
                    self.command(arch, out), f"{out} cannot be written: File too large",
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE,
                                                          (48 << 20, 48 << 20)))
                self.refused(self.command(arch, out), "mkimage is not installed: type make setup",
                             env={"PATH": "/nonexistent"})

    def test_a_name_may_have_quotes_and_spaces(self) -> None:
        for arch in ARCHES:
            with self.subTest(arch):
                out = self.folder / f"it's \"{arch}\".img"
                self.command(arch, out)
                recipe = subprocess.run(["make", "-n", "sdcard", f"ARCH={arch}", f"OUT={out}"],
                                        cwd=ROOT, capture_output=True, text=True,
                                        check=True).stdout.splitlines()[-1]
                self.assertIn(f"--folder build/{arch}/card ", recipe)
                recipe = recipe.replace(f"build/{arch}/card ", f"build/tests/make-card-{arch} ")
                subprocess.run(["sh", "-c", recipe], cwd=ROOT, env={**os.environ, "OUT": str(out)},
                               check=True)
                self.assertEqual(out.read_bytes()[510:512], b"\x55\xaa")


class Install(unittest.TestCase):
    """.ci/install with an apt-get that writes its arguments to a file."""

    def installed(self, apt_get: str) -> tuple[subprocess.CompletedProcess[str], str]:
        with tempfile.TemporaryDirectory() as name:
            bin_folder = Path(name, "bin")
            bin_folder.mkdir()
            for program, body in (("apt-get", f'echo "$*" >>{name}/told\n{apt_get}'),
                                  ("dpkg-query", "echo not-installed"), ("id", "echo 0"), ("sleep",
                                                                                           "")):
                (bin_folder / program).write_text(f"#!/bin/sh\n{body}\n")
                (bin_folder / program).chmod(0o755)
            done = subprocess.run([ROOT / ".ci/install", "one", "two"], cwd=name,
                                  capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
            return done, Path(name, "told").read_text()

    def test_it_waits_for_the_package_managers_locks(self) -> None:
        locked = ('[ "$(wc -l <../told)" -gt 3 ] || { echo "E: Could not get lock '
                  '/var/lib/apt/lists/lock."; exit 100; }')
        done, told = self.installed(f'cd "$(dirname "$0")"\n{locked}')
        self.assertEqual((0, 4), (done.returncode, told.count("update")), done.stdout)
        self.assertEqual(1, done.stdout.count("waiting for it"))
        self.assertRegex(told.splitlines()[-1], r"-o DPkg::Lock::Timeout=\d+ install .* one two$")

    def test_what_fails_is_said(self) -> None:
        done, told = self.installed('echo "E: no network"; exit 100')
        self.assertEqual((1, "update -qq\n"), (done.returncode, told))
        self.assertIn("E: no network\napt-get could not install them", done.stdout)


if __name__ == "__main__":
    unittest.main()

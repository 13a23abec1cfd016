"""Which QEMU is used, and the message if none is fit for a grade. Scripts replace QEMUs that are
not installed."""

from __future__ import annotations

import ctypes
import io
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from pathlib import Path
from unittest import mock

from grading.machine.machine import Run
from grading.tests.mutants import build as build_lab
from qemu import download, emulator, plugin
from qemu.emulator import ROOT, Unfit
from qemu.isa import ARCHES, ISAS
from qemu.machine import FINISHED, LAST_LAB, Machine

REAL = {arch: emulator.find(arch) for arch in ARCHES}
REFUSED = ("qemu: Could not load plugin: plugin requires API version 2147483647, but this QEMU "
           "supports only up to version {0}")


class Machines(unittest.TestCase):
    """A folder for unpacked QEMUs, one for installed QEMUs, and one for built observers."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="callsite-qemu-")
        self.addCleanup(folder.cleanup)
        self.here = Path(folder.name)
        self.path = self.here / "bin"
        self.path.mkdir()
        self.unpacked = self.here / "unpacked"
        self.change("PATH", f"{self.path}:{os.environ['PATH']}")
        self.change("QEMU_DIR", "")
        self.replace(emulator, "UNPACKED", self.unpacked)
        emulator.look.cache_clear()

    def replace(self, of: object, name: str, by: object) -> None:
        patch = mock.patch.object(of, name, by)
        patch.start()
        self.addCleanup(patch.stop)

    def change(self, name: str, value: str) -> None:
        patch = mock.patch.dict(os.environ, {name: value})
        patch.start()
        self.addCleanup(patch.stop)

    def script(self, file: Path, *lines: str) -> Path:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(["#!/bin/bash", *lines, ""]))
        file.chmod(0o755)
        return file

    def fake(self, folder: Path, version: str, says: str = REFUSED.format(4)) -> None:
        """Scripts for both architectures that print a version for --version, and one fixed text
        otherwise."""
        for name in (isa.emulator for isa in ISAS.values()):
            self.script(
                folder / name,
                f'[ "$1" = --version ] && echo "QEMU emulator version {version}" && exit 0',
                f"echo {says!r} >&2", "exit 1")

    def used(self) -> list[Path]:
        return [emulator.find(arch).path.parent for arch in ARCHES]

    def unfit(self, sentence: str, arch: str = "riscv64") -> None:
        with self.assertRaises(Unfit) as caught:
            plugin.build(arch)
        self.assertRegex(str(caught.exception), sentence)
        self.assertNotIn("\n", str(caught.exception))


class Found(Machines):
    def test_the_newest_of_the_unpacked_and_the_installed(self) -> None:
        for unpacked, installed, wanted in (("10.0.2", "7.2.22", 0), ("10.0.2", "10.0.13", 1),
                                            ("10.0.2", "10.0.2", 0), ("9.2", "10.0", 1)):
            self.fake(self.unpacked / "usr/bin", unpacked)
            self.fake(self.path, installed)
            emulator.look.cache_clear()
            self.assertEqual(self.used(), [(self.unpacked / "usr/bin", self.path)[wanted]] * 2,
                             (unpacked, installed))

    def test_one_that_does_not_run_here_is_not_used(self) -> None:
        self.fake(self.path, "7.2.22")
        for name in (isa.emulator for isa in ISAS.values()):
            self.script(self.unpacked / "usr/bin" / name,
                        "echo error while loading shared libraries: libslirp.so.0 >&2", "exit 127")
        self.assertEqual(self.used(), [self.path] * 2)
        with self.assertRaisesRegex(
                Unfit,
                "does not print its version, but: error while loading shared libraries: "
                "libslirp.so.0"
        ):
            emulator.look(self.unpacked / "usr/bin" / ISAS["arm64"].emulator)

    def test_none_is_a_sentence(self) -> None:
        self.change("PATH", "/nowhere")
        with self.assertRaisesRegex(Unfit,
                                    "^qemu-system-aarch64 is not installed: type make setup$"):
            emulator.find("arm64")

    def test_qemu_dir_chooses_even_an_older_one(self) -> None:
        self.fake(self.unpacked / "usr/bin", "99.0")
        for place in ("mine", "mine/bin", "mine/usr/bin"):
            self.fake(self.here / place, "8.0.1")
            self.change("QEMU_DIR", str(self.here / "mine"))
            self.assertEqual(self.used(), [self.here / place] * 2)
            shutil.rmtree(self.here / "mine")
        with self.assertRaisesRegex(Unfit, "^QEMU_DIR=.*/mine has no qemu-system-riscv64$"):
            emulator.find("riscv64")

    def test_firmware_is_that_of_the_same_folder(self) -> None:
        self.fake(self.unpacked / "usr/bin", "99.0")
        self.assertEqual(
            emulator.find("riscv64").command(),
            [str(self.unpacked / "usr/bin/qemu-system-riscv64")])
        (self.unpacked / "usr/share/qemu").mkdir(parents=True)
        self.assertEqual(
            emulator.find("riscv64").command()[1:],
            ["-L", str(self.unpacked / "usr/share/qemu")])

    def test_the_machines_are_started_with_it(self) -> None:
        self.fake(self.unpacked / "usr/bin", "99.0")
        (self.here / "Image").write_bytes(bytes(56) + b"RSC\x05" + bytes(4))
        for arch in ARCHES:
            command = Machine(arch, image=self.here / "Image").command([], self.here)
            self.assertEqual(command[0], str(self.unpacked / "usr/bin" / ISAS[arch].emulator))


class Installed(unittest.TestCase):
    """Debian's own QEMU, 7.2 on Debian 12, runs the kernel."""

    def test_it_boots_and_powers_off(self) -> None:
        build_lab(LAST_LAB)
        with mock.patch.dict(os.environ, {"QEMU_DIR": "/usr/bin"}):
            for arch in ARCHES:
                machine = Machine(arch, smp=2, image=ROOT / "build" / arch / FINISHED / "Image")
                with self.subTest(arch=arch), Run(machine, ROOT /
                                                  f"build/tests/installed-{arch}.log") as run:
                    run.console.wait_ready(60)
                    run.power_off()


class Plugins(Machines):
    """The observer is built for the QEMU that loads it, and only for a QEMU that is fit for a
    grade."""

    def setUp(self) -> None:
        super().setUp()
        self.replace(plugin, "ROOT", self.here)
        self.source = self.here / "observer.c"
        self.source.write_text("int version = PLUGIN_VERSION;\n")
        self.replace(plugin, "SOURCE", self.source)

    def version(self, built: Path) -> int:
        return ctypes.c_int.in_dll(ctypes.CDLL(str(built)), "version").value

    def test_the_qemu_says_its_plugin_interface(self) -> None:
        for number in (4, 5, 7):
            self.fake(self.path, f"1{number}.0", REFUSED.format(number))
            emulator.look.cache_clear()
            self.assertEqual(self.version(plugin.build("riscv64")), number)

    def test_a_real_qemu_says_it_too(self) -> None:
        with tempfile.TemporaryDirectory() as scratch:
            for real in REAL.values():
                self.assertGreaterEqual(plugin.interface(real, Path(scratch)), 4)

    def test_another_qemu_source_or_flag_makes_another_file(self) -> None:
        self.fake(self.path, "10.0.2")
        first = plugin.build("riscv64")
        made = first.stat().st_ino
        self.assertEqual(plugin.build("arm64"), first)
        self.assertEqual(first.stat().st_ino, made)  # nothing was built again
        self.source.write_text("int version = PLUGIN_VERSION + 100;\n")
        os.utime(self.source, (0, 0))  # older than the built file
        second = plugin.build("riscv64")
        self.assertEqual(self.version(second), 104)
        self.replace(plugin, "FLAGS", [*plugin.FLAGS, "-g"])
        third = plugin.build("riscv64")
        others = set()
        for version in ("10.0.3", "10.0.3 (v10.0.3-12-gabcdef)"):
            self.fake(self.path, version)
            emulator.look.cache_clear()
            others.add(plugin.build("riscv64"))
        self.assertEqual(len({first, second, third} | others), 5)

    def test_many_build_it_at_once_and_nobody_sees_half_of_it(self) -> None:
        self.fake(self.path, "10.0.2")
        compile_c, seen = plugin.compile_c, set[bytes]()

        def compiles(source: Path, out: Path, *flags: str) -> None:
            out.write_bytes(b"half")
            seen.update(file.read_bytes() for file in (self.here / "build/qemu").glob("*.so"))
            compile_c(source, out, *flags)

        self.replace(plugin, "compile_c", compiles)
        with ThreadPoolExecutor(8) as pool:
            built = set(pool.map(plugin.build, ARCHES * 4))
        self.assertEqual(set((self.here / "build/qemu").iterdir()), built)
        self.assertEqual(len(built), 1)
        self.assertNotIn(b"half", seen)

    def test_an_old_qemu(self) -> None:
        self.fake(self.path, "7.2.22")
        self.unfit(
            r"^a grade needs QEMU 10.0 or newer for riscv64, and this is QEMU 7.2.22 "
            r"\(.*/bin/qemu-system-riscv64\): type make setup, or"
        )
        self.change("QEMU_DIR", str(self.path))
        self.unfit("leave QEMU_DIR out$")

    def test_a_qemu_without_plugins(self) -> None:
        self.fake(self.path, "10.0.2", "qemu-system-riscv64: -plugin: invalid option")
        self.unfit(
            r"^QEMU 10.0.2 \(.*\) loads no plugins, which a grade needs: qemu-system-riscv64: "
            r"-plugin: invalid option$"
        )

    def test_an_older_interface(self) -> None:
        self.fake(self.path, "10.0.2", REFUSED.format(3))
        self.unfit(r"^QEMU 10.0.2 \(.*\) has plugin interface 3; a grade needs 4 or newer$")

    def test_no_compiler(self) -> None:
        self.fake(self.path, "10.0.2")
        self.change("PATH", str(self.path))
        self.script(self.path / "bash", 'exec /bin/bash "$@"')
        self.unfit("^the observer cannot be compiled, for there is no gcc .*: type make setup$")

    def test_a_source_that_does_not_compile_leaves_no_file(self) -> None:
        self.fake(self.path, "10.0.2")
        self.source.write_text("no C\n")
        with self.assertRaisesRegex(Unfit, "the observer does not compile:\n.*error"):
            plugin.build("riscv64")
        self.assertEqual(list((self.here / "build/qemu").iterdir()), [])


class Grades(Machines):
    """`make grade` without a fit QEMU: one sentence, status 3, no score."""

    def setUp(self) -> None:
        super().setUp()
        build_lab(1)
        for name in ("callsite.elf", "Image"):
            (self.here / "riscv64").mkdir(exist_ok=True)
            shutil.copy2(ROOT / "build/riscv64/lab1" / name, self.here / "riscv64")

    def grade(self, *sentences: str) -> str:
        command = [
            sys.executable, "-m", "grading", "--lab", "1", "--arch", "riscv64", "--smp", "1",
            "--kernels",
            str(self.here), "--out",
            str(self.here)
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False,
                              env={**os.environ, "QEMU_DIR": str(self.path)})
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, 3, said)
        for sentence in ("this is no score", *sentences):
            self.assertIn(sentence, said)
        self.assertNotRegex(said, r"Traceback|\d+ of \d+ points")
        return said

    def test_an_old_qemu(self) -> None:
        self.fake(self.path, "7.2.22")
        said = self.grade("a grade needs QEMU 10.0 or newer for riscv64, and this is QEMU 7.2.22")
        self.assertEqual(said.count("\n"), 1)

    def test_a_qemu_without_plugins(self) -> None:
        self.fake(self.path, "10.9.9", "qemu-system-riscv64: -plugin: invalid option")
        self.assertEqual(self.grade("loads no plugins, which a grade needs").count("\n"), 1)

    def test_a_plugin_that_was_not_loaded(self) -> None:
        real = " ".join(REAL["riscv64"].command())
        self.script(
            self.path / ISAS["riscv64"].emulator, "words=()", "while [ $# -gt 0 ]; do",
            '  case "$1" in -plugin) [[ $2 = *future.so ]] && words+=("$1" "$2"); shift 2;; *) '
            'words+=("$1"); shift;; esac',
            "done", f'exec {real} "${{words[@]}}"')
        self.grade("QEMU did not load the observer")

    def test_a_qemu_that_does_not_start(self) -> None:
        real = " ".join(REAL["riscv64"].command())
        self.script(self.path / ISAS["riscv64"].emulator,
                    f'[[ "$*" = *future.so || $1 = --version ]] && exec {real} "$@"',
                    "echo 'qemu-system-riscv64: no memory' >&2", "exit 1")
        self.grade("QEMU did not start: qemu-system-riscv64: no memory")


class Doctor(Machines):
    def doctor(self) -> tuple[int, str]:
        done = subprocess.run([sys.executable, "qemu/doctor.py"], cwd=ROOT, capture_output=True,
                              text=True, check=False)
        return done.returncode, done.stdout

    def test_it_names_the_qemu_and_says_why(self) -> None:
        self.fake(self.path, "99.0")
        status, said = self.doctor()
        self.assertEqual(status, 0, said)
        for arch in ARCHES:
            self.assertRegex(
                said,
                rf"{arch}: make run uses QEMU 99.0 \({self.path}/{ISAS[arch].emulator}\): (no "
                rf"older than QEMU|the only one here)"
            )
            self.assertIn(f"{arch}: make grade uses the same.", said)

    def test_it_says_what_a_grade_lacks(self) -> None:
        self.fake(self.path, "7.2.22")
        self.change("QEMU_DIR", str(self.path))
        status, said = self.doctor()
        self.assertEqual(status, 1)
        self.assertIn("): QEMU_DIR names it.", said)
        self.assertIn("arm64: a grade needs QEMU 10.0 or newer for arm64, and this is QEMU 7.2.22",
                      said)


class Download(Machines):
    """Scripts replace apt and dpkg, except where apt's own refusal is tested."""

    def setUp(self) -> None:
        super().setUp()
        self.fake(self.path, "7.2.22")
        self.replace(download, "release", lambda: "bookworm")

    def said(self, status: int) -> str:
        with redirect_stdout(io.StringIO()) as out:
            self.assertEqual(download.main(), status)
        return out.getvalue()

    def apt(self, uris: str, binary: str = "echo QEMU emulator version 10.0.2") -> None:
        """Make an apt-get with these sources and a dpkg that unpacks such a QEMU; apt-get's
        arguments are written to a file."""
        self.script(self.path / "apt-get", f'[[ "$*" = *--print-uris ]] && echo "{uris}" && exit 0',
                    f'cat "${{3%/*}}"/sources.list >{self.here}/told',
                    '[[ "$*" = *" download "* ]] && touch one.deb', "exit 0")
        make = [
            f'mkdir -p "$3/usr/bin"; printf "#!/bin/sh\\n{binary}\\n" >"$3/usr/bin/{name}"; chmod '
            f'+x "$3/usr/bin/{name}"'
            for name in (isa.emulator for isa in ISAS.values())
        ]
        self.script(self.path / "dpkg", *make)

    def test_it_comes_from_where_this_machine_takes_debian(self) -> None:
        self.apt(
            "'file:/security/dists/bookworm-security/InRelease' x "
            "0\n'file:/debian/dists/bookworm/InRelease' x 0"
        )
        self.assertIn("Fetching QEMU 10 from bookworm-backports", self.said(0))
        self.assertRegex((self.here / "told").read_text(),
                         r"^deb \[signed-by=\S+\] file:/debian bookworm-backports main\n$")
        self.assertEqual(self.used(), [self.unpacked / "usr/bin"] * 2)
        self.assertEqual(self.said(0), "")  # it is there already
        self.assertEqual(
            [f.name for f in self.here.iterdir() if f.name.startswith("qemu-download")], [])

    def test_nothing_is_fetched_where_it_is_not_needed(self) -> None:
        self.apt("'file:/debian/dists/bookworm/InRelease' x 0")
        self.fake(self.path, "10.0.13")
        emulator.look.cache_clear()
        self.assertEqual(self.said(0), "")
        self.fake(self.path, "9.2.4")
        emulator.look.cache_clear()
        self.replace(download, "release", lambda: "trixie")
        self.assertRegex(
            self.said(1),
            "^A grade needs QEMU 10.0, and this host has: QEMU 9.2.4 .* Build or install one, and "
            "set QEMU_DIR"
        )
        self.assertFalse(self.unpacked.exists())

    def test_why_it_could_not_be_fetched(self) -> None:
        self.apt("'file:/debian/dists/bookworm/InRelease' x 0",
                 "echo cannot open libslirp.so.0 >&2; exit 127")
        self.assertIn("could not be fetched: ", said := self.said(1))
        self.assertIn("cannot open libslirp.so.0", said)
        self.apt("'file:/debian/dists/trixie/InRelease' x 0")
        self.assertIn("could not be fetched: apt's sources do not name bookworm", self.said(1))
        self.script(self.path / "apt-get", "echo 'E: no network' >&2", "exit 100")
        self.assertIn(
            "could not be fetched: apt-get: E: no network. All but make grade works; to try again, "
            "type make setup.",
            self.said(1))
        self.assertFalse(self.unpacked.exists())

    def test_apt_refuses_what_debian_did_not_sign(self) -> None:
        if not Path(download.KEYRING).exists():
            self.skipTest("no keyring of Debian's")
        suite = self.here / "debian/dists/bookworm-backports"
        suite.mkdir(parents=True)
        (suite / "Release").write_text(
            "Origin: Debian Backports\nSuite: oldstable-backports\nCodename: bookworm-backports\n"
            "Date: Sat, 01 Nov 2025 00:00:00 UTC\nArchitectures: amd64 all\nComponents: "
            "main\nSHA256:\n"
        )
        self.replace(download, "mirror", lambda: f"file:{self.here}/debian")
        self.assertRegex(self.said(1),
                         "could not be fetched: apt-get: E: The repository .* is not signed")


if __name__ == "__main__":
    unittest.main()

"""The user's view of make: `make help` lists the variables that may be set, and an installation waits for apt's lock."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from grading.machine.machine import Run
from qemu.machine import ARCHES, FINISHED, ROOT, Machine

OURS = {"CI", "BENCH_SITES", "CURDIR", "MAKEFLAGS", "MAKECMDGOALS", "CCACHE_DIR"}  # .ci/run's, make bench's, make's, ccache's
FRAGMENTS = [ROOT / "Makefile", *ROOT.glob("labs/*.mk"), ROOT / "kern/ftrace/stages.mk"]


def may_be_set() -> set[str]:
    """The names that makefiles use and none sets, and those that programs take from the environment."""
    text = "\n".join(re.sub(r"^#.*", "", file.read_text(), flags=re.M) for file in FRAGMENTS)
    used = set(re.findall(r"\$\(([A-Z][A-Z_]*)\)|ifdef ([A-Z_]+)", text)) | {(name, "") for line in re.findall(r"^export (.*)", text, re.M) for name in line.split()}
    read = {name for file in [*ROOT.glob("qemu/*.py"), *ROOT.glob("kern/ftrace/tools/*.py")] for name in re.findall(r'environ\.get\("([A-Z_]+)"', file.read_text())}
    return {a or b for a, b in used} - set(re.findall(r"^([A-Z_]+) :?=", text, re.M)) | read


class Help(unittest.TestCase):
    def test_every_variable_is_in_the_help(self) -> None:
        said = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        told = set(re.findall(r"\b([A-Z_]+)=", said.partition("\n\n")[2]))
        names = may_be_set()
        self.assertLessEqual({"GIC", "EL", "QEMU_EXTRA", "SANDBOX", "STAFF"}, names)
        self.assertEqual(set(), names - told - OURS)


class Modules(unittest.TestCase):
    def test_a_file_of_the_users_own_is_built_as_a_module_for_both_architectures(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            source = Path(name, "of_test_make.c")
            source.write_text('#include "module.h"\nstatic int own_init(void)\n{\n\tprintk("hello from outside\\n");\n\treturn 0;\n}\nmodule_init(own_init);\n')
            objects = [f"build/{arch}/modules/of_test_make.ko" for arch in ARCHES]
            make = ["make", "-s", f"MODULE={source}"]
            try:
                subprocess.run([*make, *objects], cwd=ROOT, check=True)
                packed = subprocess.run([*make, "-n", "build/initrd.cpio"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
                for arch, ko in zip(ARCHES, objects):
                    with self.subTest(arch):
                        self.assertRegex(packed, f" {ko}[ ;]", "it goes into the initrd")
                        self.assertIn("hello from outside", self.loaded(arch, ROOT / ko, Path(name)))
            finally:
                for ko in objects:
                    for file in (ROOT / ko, (ROOT / ko).with_suffix(".d")):
                        file.unlink(missing_ok=True)
        refused = subprocess.run(["make", "-s", "MODULE=/nowhere/x.c", "help"], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertIn("MODULE=/nowhere/x.c: no such file", refused.stderr)

    @staticmethod
    def loaded(arch: str, ko: Path, folder: Path) -> str:
        """What insmod prints. The initrd is the test's own, because others use build/initrd.cpio meanwhile."""
        image = ROOT / "build" / arch / FINISHED / "Image"
        subprocess.run(["make", "-s", f"ARCH={arch}", str(image.relative_to(ROOT))], cwd=ROOT, check=True)
        into = folder / arch / "lib/modules" / arch
        into.mkdir(parents=True)
        shutil.copy(ko, into)
        initrd = folder / f"{arch}.cpio"
        files = "\n".join(str(file.relative_to(folder / arch)) for file in sorted((folder / arch).rglob("*")))
        with initrd.open("wb") as packed:
            subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=folder / arch, input=files.encode(), stdout=packed, check=True)
        with Run(Machine(arch, image=image, initrd=initrd), ROOT / f"build/tests/make-module-{arch}.log") as run:
            run.console.wait_ready(60)
            return run.console.command("insmod of_test_make")


class Install(unittest.TestCase):
    """.ci/install with an apt-get that writes its arguments to a file."""

    def installed(self, apt_get: str) -> tuple[subprocess.CompletedProcess[str], str]:
        with tempfile.TemporaryDirectory() as name:
            bin_folder = Path(name, "bin")
            bin_folder.mkdir()
            for program, body in (("apt-get", f'echo "$*" >>{name}/told\n{apt_get}'), ("dpkg-query", "echo not-installed"), ("id", "echo 0"), ("sleep", "")):
                (bin_folder / program).write_text(f"#!/bin/sh\n{body}\n")
                (bin_folder / program).chmod(0o755)
            done = subprocess.run([ROOT / ".ci/install", "one", "two"], cwd=name, capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"})
            return done, Path(name, "told").read_text()

    def test_it_waits_for_the_package_managers_locks(self) -> None:
        locked = '[ "$(wc -l <../told)" -gt 3 ] || { echo "E: Could not get lock /var/lib/apt/lists/lock."; exit 100; }'
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

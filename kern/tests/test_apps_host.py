"""The applications on the host, under sanitizers, compared with the host's own tools."""

from __future__ import annotations

import gzip
import hashlib
import os
import random
import subprocess
import tempfile
import unittest
from pathlib import Path

from kern.tests import app_host


def inputs(rng: random.Random) -> list[bytes]:
    """Inputs: empty, tiny, around every boundary, noise, repeated bytes, text with and without a
    last newline."""
    sizes = [0, 1, 2, 3, 55, 56, 57, 63, 64, 65, 119, 120, 4095, 4096, 4097, 70000]
    noise = [rng.randbytes(n) for n in sizes]
    runs = [bytes([rng.randrange(256)]) * n for n in (1, 3, 258, 259, 65535, 65536, 200000)]
    words = [
        b"".join(rng.choices([b"ab", b"c", b"\n", b"\n\n", b" ", b"dd\0"], k=n))
        for n in (5, 100, 60000)
    ]
    far = rng.randbytes(32768)
    return [*noise, *runs, *words, far + far, far + b"x" + far, bytes(range(256)) * 300]


class Apps(unittest.TestCase):
    """One build of each for all tests."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = Path(cls.folder.name)
        names = ("sha256", "sort", "gzip", "pipeline")
        cls.programs = {n: app_host.build(n, app_host.SANITIZE, cls.path / "bin") for n in names}
        cls.files = []
        for i, data in enumerate(inputs(random.Random(4))):
            cls.files.append(cls.path / f"input{i}")
            cls.files[-1].write_bytes(data)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def run_app(self, name: str, *words: str, cpus: int = 1) -> subprocess.CompletedProcess[bytes]:
        env = os.environ | {"HOST_CPUS": str(cpus)}
        done = subprocess.run([str(self.programs[name]), *words], capture_output=True, check=False,
                              env=env)
        self.assertEqual(done.stderr, b"", f"{name} {words}")
        return done

    def test_sha256_prints_what_sha256sum_prints(self) -> None:
        done = self.run_app("sha256", *map(str, self.files))
        expected = "".join(f"{hashlib.sha256(f.read_bytes()).hexdigest()}  {f}\n"
                           for f in self.files)
        self.assertEqual((done.returncode, done.stdout.decode()), (0, expected))

    def test_sort_gives_the_lines_in_the_order_of_their_bytes(self) -> None:
        for file in self.files:
            expected = subprocess.run(["sort", str(file)], env={**os.environ, "LC_ALL": "C"},
                                      capture_output=True, check=True).stdout
            self.assertEqual(self.run_app("sort", str(file)).stdout, expected, file)
            self.run_app("sort", str(file), "-o", str(self.path / "out"))
            self.assertEqual((self.path / "out").read_bytes(), expected, file)

    def test_gunzip_restores_what_gzip_compressed(self) -> None:
        out = self.path / "out.gz"
        for file in self.files:
            self.assertEqual(self.run_app("gzip", str(file), str(out)).returncode, 0)
            restored = subprocess.run(["gunzip", "-c", str(out)], capture_output=True,
                                      check=True).stdout
            self.assertEqual(restored, file.read_bytes(), file)
            self.assertLessEqual(out.stat().st_size, file.stat().st_size * 1.001 + 64)

    def test_gzip_makes_text_smaller_and_comes_near_the_hosts(self) -> None:
        subprocess.run([
            "/usr/bin/python3",
            str(app_host.ROOT / "kern/apps/initrd/make.py"),
            str(self.path / "initrd")
        ], check=True)
        for name in ("LICENSE", "README.md", "data/words.txt", "data/prose.txt",
                     "data/numbers.txt"):
            file, out = self.path / "initrd" / name, self.path / "out.gz"
            self.run_app("gzip", str(file), str(out))
            self.assertLess(out.stat().st_size, file.stat().st_size)
            self.assertLess(out.stat().st_size, 1.1 * len(gzip.compress(file.read_bytes())), name)

    def test_pipeline_counts_what_wc_counts_on_any_number_of_cpus(self) -> None:
        for file in [f for f in self.files if not set(f.read_bytes()) - set(b"abcdx \n\0")]:
            data = file.read_bytes()
            expected = f"{data.count(10)} lines, {len(data.split())} words, {len(data)} bytes;"
            for cpus in (1, 2, 4, 8):
                done = self.run_app("pipeline", str(file), cpus=cpus)
                self.assertEqual(done.returncode, 0)
                self.assertIn(expected.encode(), done.stdout)
                self.assertTrue(done.stdout.endswith(b"as in one pass\n"), done.stdout)

    def test_a_missing_file_or_word_is_a_sentence_and_a_status(self) -> None:
        gone = str(self.path / "gone")
        for name in self.programs:
            words = [gone, "out"] if name == "gzip" else [gone]
            done = self.run_app(name, *words)
            self.assertEqual((done.returncode, done.stdout.count(b"\n")), (1, 1), name)
            done = self.run_app(name)
            self.assertEqual((done.returncode, done.stdout[:6]), (2, b"usage:"), name)


class AppHeader(unittest.TestCase):
    """kern/app.h refuses programs that the kernel cannot run."""

    COMPILE = [
        "gcc", "-std=gnu11", "-ffreestanding", "-iquote",
        str(app_host.ROOT / "kern"), "-fsyntax-only"
    ]

    def compile(self, body: str) -> subprocess.CompletedProcess[str]:
        source = f'#include "app.h"\nint main(int argc, char **argv)\n{{\n{body}\n}}\n'
        return subprocess.run([*self.COMPILE, "-x", "c", "-"], input=source, capture_output=True,
                              text=True, check=False)

    def test_integers_compile(self) -> None:
        self.assertEqual(self.compile('return printf("%d %s", argc, argv[0]);').stderr, "")

    def test_a_copy_of_a_program_has_one_entry_in_the_table(self) -> None:
        """The build writes one for APP=, and the copy has its own APP()."""
        app = app_host.ROOT / "kern/apps"
        for first in ("app.h", "apps/lib/own.h"):
            done = subprocess.run([
                *self.COMPILE, "-include", app.parent / first, '-DAPP_NAME="my-cat"', app / "cat.c"
            ], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""), first)

    def test_a_float_is_an_error_that_says_so(self) -> None:
        for word in ("float", "double"):
            done = self.compile(f"{word} x = argc; return x > 1;")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(f"a Callsite program uses integers only: no {word}", done.stderr)


if __name__ == "__main__":
    unittest.main()

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


TEXT = ("cat", "head", "tail", "wc", "uniq", "cut", "grep")
# What the host's tools also know, with the same result.
COMMANDS = [
    "cat", "head", "head -n 0", "head -n3", "head -3", "tail -2", "tail", "tail -n 1",
    "tail -n 0", "tail -n 100000", "wc -l", "wc -w", "wc -c", "uniq", "uniq -c",
    "cut -f 2", "cut -f 1,3- -d b",
    "cut -f -2 -d a", "cut -f 2-3,1 -d c", "cut -c 2-", "cut -c 1,4-6", "sort", "sort -r",
    "sort -n", "sort -nr", "sort -k 2", "sort -rk2", "sort -n -k 2", "grep -c a", "grep -v ab",
    "grep -n b.c", "grep -i AB", "grep a*b", "grep ^ab", "grep c$", "grep ^$", "grep ^",
    "grep -F .", "grep [bc]c", "grep [^ab]", "grep -i [A-B]c", "grep \\\\.", "grep *",
    "grep []x]", "grep -c nowhere", "grep a.*b.*c$"
]


def lines_of_words(rng: random.Random) -> bytes:
    words = [b"ab", b"c", b"b", b"a", b" ", b"\t", b"-", b".", b"*", b"]", b"007", b"12", b"5",
             b"\n"]
    return b"".join(rng.choices(words, k=3000))


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
        names = ("sha256", "sort", "gzip", "pipeline", *TEXT)
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

    def both(self, command: str, data: bytes, by_name: bool) -> None:
        """The program gives what the host's tool gives, from a file or from standard input."""
        name, *words = command.split()
        file = self.path / "text"
        file.write_bytes(data)
        grep = ["-a"] if name == "grep" else []
        argument, given = ([str(file)], b"") if by_name else ([], data)
        want = subprocess.run([name, *grep, *words, *argument], input=given, check=False,
                              capture_output=True, env={**os.environ, "LC_ALL": "C"})
        got = subprocess.run([str(self.programs[name]), *words, *argument], input=given,
                             capture_output=True, check=False)
        self.assertEqual((got.returncode, got.stdout, got.stderr),
                         (want.returncode, want.stdout, b""), f"{command} {argument}")

    def test_programs_for_text_give_what_the_hosts_tools_give(self) -> None:
        rng = random.Random(7)
        words = lines_of_words(rng)
        for command in COMMANDS:
            # A last line without a newline gets one, as in most of these tools.
            end = b"" if command.split()[0] in ("head", "tail") else b"b" * 5000
            self.both(command, words + b"\n" + end, rng.random() < 0.5)
        for command in ("cat", "head", "tail", "wc -l", "uniq -c", "cut -c 2", "sort -n", "grep a"):
            self.both(command, b"", False)

    def test_bytes_that_are_no_text_go_through_whole(self) -> None:
        data = random.Random(8).randbytes(70000) + b"x" * 70000 + b" a\n" + b"y" * 5000
        for command in ("cat", "wc -c", "grep -v nowhere", "grep a$", "uniq -c", "cut -c 1-"):
            self.both(command, data, False)

    def test_wrong_arguments_get_the_usage_and_exit_status_2(self) -> None:
        for line in ("head -n", "head -n x", "head -x", "tail -n -1", "wc -x", "uniq a b", "cut",
                     "cut -f", "cut -f 0", "cut -f 3-2", "cut -f 1 -c 1", "cut -f 1 -d ab",
                     "cut -f 1,", "sort -k 0", "sort -x", "sort a b", "grep", "grep -E a",
                     "grep [a", "grep [", "grep []"):
            name, *words = line.split()
            done = self.run_app(name, *words)
            self.assertEqual(done.returncode, 2, line)
            self.assertRegex(done.stdout.decode(), "^(Usage|grep): ", line)

    def test_a_file_that_is_not_there_does_not_stop_the_others(self) -> None:
        file = str(self.files[-1])
        for command in ("cat", "head", "tail", "wc", "cut -c 1", "grep -c a"):
            name, *words = command.split()
            done = self.run_app(name, *words, "/nosuch", file)
            self.assertRegex(done.stdout.decode(errors="replace"),
                             f"(?s)^{name}: /nosuch: No such file or directory\n.", command)
            self.assertEqual(done.returncode, 2 if name == "grep" else 1, command)

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
        self.assertEqual(self.run_app("sort", gone).returncode, 1)
        for name in ("sha256", "gzip", "pipeline"):
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

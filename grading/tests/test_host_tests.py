"""The rung of the host tests: which output passes, and which objects may be linked with a test."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from grading.checks import host_tests
from kern.ftrace.tools.walls import Ended, Limits
from qemu.machine import ROOT

PASSED = """[==========] Running 2 tests from 1 test suite.
[ RUN      ] hash.finds
[       OK ] hash.finds (1 ms)
[ RUN      ] hash.grows
[       OK ] hash.grows (1 ms)
[==========] 2 tests from 1 test suite ran. (2 ms total)
[  PASSED  ] 2 tests.
"""
FAILED = PASSED.replace("""[       OK ] hash.grows (1 ms)
""", """a_test.cc:7: Failure
Value of: has(3)
  Actual: false
[  FAILED  ] hash.grows (1 ms)
""").replace("PASSED  ] 2", "PASSED  ] 1")


def told(output: str, status: int | None = 0, errors: str = "", over: str = "") -> tuple[str, str]:
    return host_tests.told(Ended(status, output.encode(), errors.encode(), over))


class HostTestsSay(unittest.TestCase):
    def test_all_passed(self) -> None:
        self.assertEqual(told(PASSED), ("", ""))

    def test_the_first_case_that_failed_says_why(self) -> None:
        case, why = "hash.grows", "a_test.cc:7: Value of: has(3) Actual: false"
        self.assertEqual(told(FAILED, 1), (case, why))
        self.assertEqual(told(FAILED, 0), (case, why))

    def test_only_its_first_message(self) -> None:
        more = FAILED.replace("[  FAILED", "a_test.cc:8: Failure\nmore\n[  FAILED", 1)
        self.assertEqual(told(more, 1)[1], "a_test.cc:7: Value of: has(3) Actual: false")

    def test_a_long_text_is_cut_between_words(self) -> None:
        _, why = told(FAILED.replace("false", "word " * 1000), 1)
        self.assertTrue(why.endswith(" word ..."))
        self.assertLess(len(why), 2 * host_tests.LONGEST)

    def test_one_that_ends_before_its_last_case(self) -> None:
        cut = PASSED[:PASSED.index("[       OK ] hash.grows")]
        self.assertEqual(told(cut), ("hash.grows",
                                     "it ended with status 0, before its last case"))
        self.assertEqual(told("", 0), ("", "it ended with status 0, before its last case"))

    def test_a_sanitizers_message(self) -> None:
        cut = PASSED[:PASSED.index("[       OK ] hash.grows")]
        for errors, why in (
                ("==1==ERROR: AddressSanitizer: ...\nSUMMARY: AddressSanitizer: heap-buffer-"
                 "overflow core/hash.c:48 in search\n==1==ABORTING\n",
                 "AddressSanitizer: heap-buffer-overflow core/hash.c:48 in search"),
                ("core/hash.c:48:7: runtime error: shift exponent 64 is too large\n",
                 "core/hash.c:48:7: runtime error: shift exponent 64 is too large")):
            self.assertEqual(told(cut, 1, errors), ("hash.grows", why))
        leak = "SUMMARY: AddressSanitizer: 8 byte(s) leaked in 1 allocation(s).\n"
        self.assertIn("8 byte(s) leaked", told(PASSED, 1, leak)[1])

    def test_a_limit(self) -> None:
        self.assertEqual(told("[ RUN      ] hash.finds\n", None, over="it took too long"),
                         ("hash.finds", "it took too long"))

    def test_fewer_cases_than_it_began_with(self) -> None:
        self.assertNotEqual(told(PASSED.replace("PASSED  ] 2", "PASSED  ] 1"))[1], "")


class OfAKernel(unittest.TestCase):
    """hash_test of lab 4, in a folder of its own, with objects of several kinds in hash.c's place.
    """

    @classmethod
    def setUpClass(cls) -> None:
        subprocess.run(["make", "-s", "-C", ROOT, "LAB=4", "build/host/hash_test"], check=True)

    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="callsite-")))
        self.kernel = SimpleNamespace(path=self.folder / "riscv64/callsite.elf", arch="riscv64")
        self.test = self.folder / "host/hash_test"
        (self.test.with_suffix(".d") / "kern/ftrace/core").mkdir(parents=True)
        shutil.copy2(ROOT / "build/host/hash_test", self.test)

    def said(self) -> str:
        found = host_tests.lost(self.kernel, 4, ["hash_test"])  # type: ignore[arg-type]
        return found.why if found else ""

    def object(self, text: str) -> None:
        source = self.folder / "hash.c"
        source.write_text(text)
        subprocess.run(["gcc", "-fno-builtin", "-fno-pie", "-c", "-o",
                        self.test.with_suffix(".d") / "kern/ftrace/core/hash.o", source],
                       check=True)

    def test_the_solution_passes(self) -> None:
        (self.test.with_suffix(".d") / "kern/ftrace/core/hash.o").symlink_to(
            ROOT / "build/host/hash_test.d/kern/ftrace/core/hash.o")
        self.assertEqual(self.said(), "")

    def test_one_that_was_not_built(self) -> None:
        self.test.unlink()
        with mock.patch.dict(os.environ, {"STAFF": "2,3"}):
            found = host_tests.lost(self.kernel, 4, ["hash_test"])  # type: ignore[arg-type]
        assert found
        self.assertEqual(found.why, "the host test hash_test was not built: do your files compile "
                                    "for it?")
        self.assertEqual(found.by_hand,
                         "make LAB=4 STAFF=2,3 build/host/hash_test && build/host/hash_test")

    def test_what_an_object_may_not_have(self) -> None:
        for text, why in (
                ("void exit(int); void ftrace_hash_free(void) { exit(0); }",
                 "kern/ftrace/core/hash.c refers to exit, which no header of the kernel declares"),
                ("int write(int, void *, long); void ftrace_hash_free(void) { write(1, 0, 0); }",
                 "refers to write"),
                ("void free(void *p) {}", "defines free"),
                ("int mine;", "defines mine"),
                ("__attribute__((constructor)) static void first(void) {}",
                 "has a section .init_array, which would run before main()"),
                ("__attribute__((destructor)) static void last(void) {}",
                 "has a section .fini_array"),
                ("static void f(void) {}\n__attribute__((section(\".preinit_array\")))\n"
                 "void (*const ftrace_hash_new)(void) = f;", "has a section .preinit_array")):
            with self.subTest(text):
                self.object(text)
                self.assertIn(why, self.said())

    def test_one_that_never_ends(self) -> None:
        self.test.write_text("#!/bin/sh\necho '[ RUN      ] hash.finds'\nwhile :; do :; done\n")
        with mock.patch.object(host_tests, "LIMITS", Limits(seconds=60, file=1 << 20,
                                                             processor=1)):
            self.assertIn("hash_test, hash.finds: it ended with status", self.said())


if __name__ == "__main__":
    unittest.main()

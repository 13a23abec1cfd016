"""A word that was executed and that memory did not hold makes a boot no evidence."""

from __future__ import annotations

import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from grading import session, stale
from grading.elf import Function, Site
from grading.evidence import Evidence, Spoilt
from grading.observer import Kind, Record
from grading.truth import Batch, Call
from grading.verdict import Verdict
from qemu.machine import ARCHES

TEXT, NOP, CALL = 0x1000, 0x13, 0xEF
SITES = [Site(TEXT + at, Function(name, TEXT + at, TEXT + at + 16), 0, 0) for at, name in ((0, "wl_a"), (16, "wl_b"))]


def text(*words: int) -> bytes:
    """With these words at the call sites."""
    return b"".join(word.to_bytes(4, "little") + bytes(12) for word in words)


class Stale(unittest.TestCase):
    def setUp(self) -> None:
        kernel = SimpleNamespace(text=(TEXT, TEXT + 32), sites=SITES, arch="riscv64")
        self.e = Evidence("riscv64", 6, 4, 0, kernel, Path())  # type: ignore[arg-type]
        self.seq = 0

    def read(self, *words: int) -> None:
        self.e.texts.append((self.seq + 1, text(*words)))

    def store(self, site: int) -> None:
        self.seq += 1
        self.e.truth.stores.append(Record(self.seq, TEXT + 16 * site, 0, 16 * site, Kind.STORE, 0, 4))

    def call(self, site: int, word: int, cpu: int = 1) -> None:
        self.seq += 1
        self.e.truth.calls.append(Call(self.seq, cpu, 7, 0, SITES[site], word))

    def test_what_memory_held(self) -> None:
        self.read(NOP, NOP)
        self.call(0, NOP)
        self.store(0)
        self.read(CALL, NOP)
        self.call(0, CALL)
        self.call(1, NOP)
        self.assertEqual(stale.word(self.e), "")

    def test_an_old_word_behind_a_standstill(self) -> None:
        self.store(0)
        self.read(CALL, NOP)
        self.call(0, NOP)
        self.assertIn("executed 00000013 at the call site of wl_a on CPU 1, where memory had held 000000ef", stale.word(self.e))

    def test_who_was_there_already_may_run_it_once(self) -> None:
        self.call(1, NOP)
        self.store(0)
        self.call(0, NOP)
        self.call(0, NOP, cpu=2)
        self.read(CALL, NOP)
        self.assertEqual(stale.word(self.e), "")

    def test_not_who_has_called_another_since(self) -> None:
        self.store(0)
        self.call(1, NOP)
        self.call(0, NOP)
        self.read(CALL, NOP)
        self.assertIn("wl_a", stale.word(self.e))

    def test_the_old_word_is_right_until_the_batch_ends(self) -> None:
        self.store(0)
        self.e.truth.batches.append(Batch(0, 0, 4, self.e.truth.stores[:]))
        self.call(1, NOP)
        self.call(0, NOP)
        self.read(CALL, NOP)
        self.assertEqual(stale.word(self.e), "")
        self.seq += 1
        self.call(0, NOP)
        self.assertIn("for 1 records", stale.word(self.e))

    def test_between_two_stores_nobody_knows(self) -> None:
        self.store(0)
        self.call(1, NOP)
        self.call(0, NOP)
        self.store(0)
        self.read(NOP, NOP)
        self.assertEqual(stale.word(self.e), "")

    def test_what_a_debugger_wrote_is_not_asked_for(self) -> None:
        self.read(NOP, NOP)
        self.e.spoilt = Spoilt(SITES[0], CALL, 0, first=self.seq + 1)
        self.call(0, CALL)
        self.assertEqual(stale.word(self.e), "")


class Repeated(unittest.TestCase):
    def boots(self, *wrong: str) -> Evidence:
        kernel = SimpleNamespace(path=Path("build/riscv64/lab6/callsite.elf"), arch=ARCHES[0])
        boot = session.Session(kernel, 6, 4, 0, Path())  # type: ignore[arg-type]
        with mock.patch.object(session.Session, "_boot", side_effect=wrong):
            return boot.run()

    def test_a_boot_that_is_no_evidence_is_repeated(self) -> None:
        e = self.boots("an old word", "")
        self.assertEqual((e.verdict, e.repeated), (Verdict.PASS, ["an old word"]))

    def test_not_for_ever(self) -> None:
        e = self.boots(*["an old word"] * session.BOOTS)
        self.assertEqual((e.verdict, e.why), (Verdict.HARNESS, "an old word, and such words in 3 boots"))


if __name__ == "__main__":
    unittest.main()

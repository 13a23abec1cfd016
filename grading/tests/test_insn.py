"""Encoders and decoders, compared with the assembler."""

from __future__ import annotations

import unittest

from qemu.isa import ARM64, RISCV64, Isa
from grading.tests.test_registers import HandMade

BASE = 0xFFFFFFFF80001000


class CallEncoding(unittest.TestCase):
    def test_riscv64_calls_come_back(self) -> None:
        for offset in (-(1 << 20), -2048, -4, 4, 2046, 4096, (1 << 20) - 2):
            word = RISCV64.call(BASE, BASE + offset, 5)
            self.assertEqual(RISCV64.jump(BASE, word), (BASE + offset, 5))
            self.assertIn(f"{(BASE + offset) & (1 << 64) - 1:x}",
                          HandMade("riscv64", "entry").disassemble(BASE, word))

    def test_arm64_calls_come_back(self) -> None:
        for offset in (-(1 << 27), -4, 4, 4096, (1 << 27) - 4):
            word = ARM64.call(BASE, BASE + offset, 30)
            self.assertEqual(ARM64.jump(BASE, word), (BASE + offset, 30))
            self.assertIn(f"{(BASE + offset) & (1 << 64) - 1:x}",
                          HandMade("arm64", "entry").disassemble(BASE, word))

    def test_out_of_reach_is_refused(self) -> None:
        far_away: list[tuple[Isa, int]] = [(RISCV64, 1 << 20), (RISCV64, -(1 << 20) - 2),
                                           (ARM64, 1 << 27), (ARM64, 2)]
        for isa, far in far_away:
            with self.assertRaises(ValueError):
                isa.call(BASE, BASE + far, 1)

    def test_a_far_call_is_found(self) -> None:
        # auipc ra, 0x1; jalr ra, -16(ra)
        self.assertEqual(RISCV64.far_call(BASE, 0x00001097, 0xFF0080E7), (BASE + 0x1000 - 16, 1))
        self.assertIsNone(RISCV64.far_call(BASE, 0x00001097, 0xFF0280E7))

    def test_which_stores_are_atomic(self) -> None:
        stores: list[tuple[Isa, int, str, bool]] = [
            (RISCV64, 0x00B5202F, "amoadd.w", True), (RISCV64, 0x18B6252F, "sc.w", True),
            (RISCV64, 0x00B52023, "sw", False), (ARM64, 0x88087D49, "stxr", True),
            (ARM64, 0x8808FD49, "stlxr", True), (ARM64, 0xB8200041, "ldadd", True),
            (ARM64, 0x88A07C41, "cas", True), (ARM64, 0x889FFC20, "stlr", False),
            (ARM64, 0xB9000020, "str", False), (ARM64, 0xB8226820, "str", False),
            (ARM64, 0xB81FC020, "stur", False)]
        for isa, word, name, atomic in stores:
            self.assertIn(name, HandMade(isa.name, "entry").disassemble(BASE, word))
            self.assertEqual(isa.is_atomic(word), atomic, name)

    def test_where_functions_end(self) -> None:
        lo, hi = BASE, BASE + 0x40
        self.assertTrue(RISCV64.leaves(BASE, RISCV64.ret, lo, hi))
        self.assertTrue(RISCV64.leaves(BASE, RISCV64.call(BASE, BASE + 0x80, 0), lo, hi))
        self.assertFalse(RISCV64.leaves(BASE, RISCV64.call(BASE, BASE + 0x20, 0), lo, hi))
        self.assertTrue(ARM64.leaves(BASE, ARM64.ret, lo, hi))
        self.assertTrue(ARM64.leaves(BASE, ARM64.call(BASE, BASE + 0x80, 0), lo, hi))
        self.assertFalse(ARM64.leaves(BASE, ARM64.call(BASE, BASE + 0x80, 30), lo, hi))


if __name__ == "__main__":
    unittest.main()

"""Encodes and decodes the few instructions that the grader must know.

Written from the architecture manuals and not from kern/ftrace/, so that a mistake
there is not repeated here.
"""

from __future__ import annotations

from collections.abc import Callable

MASK64 = (1 << 64) - 1


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


Words = tuple[int, int, int]  # of a trampoline
Way = Callable[[Words], Words]  # a way to overwrite a trampoline: from its words to others


def _flipped(word: int, bit: int) -> Way:
    """Change this bit of this word of a trampoline."""
    def changed(words: Words) -> Words:
        a, b, c = (w ^ (n == word) << bit for n, w in enumerate(words))
        return a, b, c
    return changed


class Riscv64Isa:
    """`address` is always the address of the instruction."""

    nop = 0x00000013
    ret = 0x00008067
    executed = 2  # words of a trampoline that a CPU executes

    def jump(self, address: int, word: int) -> tuple[int, int] | None:
        """The (target, link register or 0) of a direct jump or call; None: it is another instruction."""
        if word & 0x7F != 0x6F:
            return None
        imm = (word >> 31 << 20) | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11 | (word >> 21 & 0x3FF) << 1
        return (address + _signed(imm, 21)) & MASK64, word >> 7 & 31

    def call(self, address: int, target: int, link: int) -> int:
        imm = target - address
        if not -(1 << 20) <= imm < 1 << 20 or imm & 1:
            raise ValueError(f"jal from {address:#x} does not reach {target:#x}")
        return ((imm >> 20 & 1) << 31 | (imm >> 1 & 0x3FF) << 21 | (imm >> 11 & 1) << 20
                | (imm >> 12 & 0xFF) << 12 | link << 7 | 0x6F)

    def idle(self, number: int) -> int:
        """One of the instructions without effect that are not the nop."""
        return 0x13 | (1 + number % 2047) << 20

    def far_call(self, address: int, first: int, second: int) -> tuple[int, int] | None:
        """The (target, link) of the pair auipc rd; jalr link, lo(rd); None: it is no such pair."""
        register = first >> 7 & 31
        if first & 0x7F != 0x17 or second & 0x707F != 0x67 or second >> 15 & 31 != register:
            return None
        target = address + _signed(first & 0xFFFFF000, 32) + _signed(second >> 20, 12)
        return target & MASK64, second >> 7 & 31

    def trampoline(self, address: int, words: Words) -> int | None:
        """The target of auipc t1; jalr x0, lo(t1); ebreak. None: these words are no trampoline."""
        found = self.far_call(address, words[0], words[1])
        return found[0] if found and found[1] == 0 and words[0] >> 7 & 31 == 6 and words[2] == 0x00100073 else None

    def trampoline_to(self, address: int, target: int) -> Words:
        """The trampoline at this address that leads to the target."""
        off = target - address
        return 0x317 | (off + 0x800) & 0xFFFFF000, 0x30067 | (off & 0xFFF) << 20, 0x00100073

    def aside(self, by: int) -> Way:
        """Change a trampoline so that it leads `by` bytes, a small number, further ahead or back."""
        def changed(words: Words) -> Words:
            low = _signed(words[1] >> 20, 12)
            low += by if low + by < 2048 else -by
            return words[0], words[1] & 0xFFFFF | (low & 0xFFF) << 20, words[2]
        return changed

    flipped = staticmethod(_flipped)

    def leaves(self, address: int, word: int, lo: int, hi: int) -> bool:
        """Does this instruction leave the function in [lo, hi): is it a return, or a jump out of it without a link?"""
        if word & 0xFFF == 0x067:  # jalr x0: a return, or a far tail call
            return True
        jump = self.jump(address, word)
        return jump is not None and jump[1] == 0 and not lo <= jump[0] < hi


class Arm64Isa:
    """The same methods for arm64."""

    nop = 0xD503201F
    ret = 0xD65F03C0
    mov_x9_x30 = 0xAA1E03E9
    executed = 3

    def jump(self, address: int, word: int) -> tuple[int, int] | None:
        if word & 0x7C000000 != 0x14000000:
            return None
        link = 30 if word >> 31 else 0
        return (address + 4 * _signed(word & 0x3FFFFFF, 26)) & MASK64, link

    def call(self, address: int, target: int, link: int) -> int:
        imm = target - address
        if not -(1 << 27) <= imm < 1 << 27 or imm & 3:
            raise ValueError(f"bl from {address:#x} does not reach {target:#x}")
        return (0x94000000 if link else 0x14000000) | (imm >> 2 & 0x3FFFFFF)

    def idle(self, number: int) -> int:
        return 0xD503201F | (40 + number % 88) << 5

    def trampoline(self, address: int, words: Words) -> int | None:
        """adrp x16; add x16, x16, lo; br x16."""
        if words[0] & 0x9F00001F != 0x90000010 or words[1] & 0xFFC003FF != 0x91000210 or words[2] != 0xD61F0200:
            return None
        pages = _signed((words[0] >> 5 & 0x7FFFF) << 2 | words[0] >> 29 & 3, 21)
        return ((address & ~0xFFF) + (pages << 12) + (words[1] >> 10 & 0xFFF)) & MASK64

    def trampoline_to(self, address: int, target: int) -> Words:
        pages = (target >> 12) - (address >> 12)
        return 0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5, 0x91000210 | (target & 0xFFF) << 10, 0xD61F0200

    def aside(self, by: int) -> Way:
        def changed(words: Words) -> Words:
            low = words[1] >> 10 & 0xFFF
            low += by if low + by < 4096 else -by
            return words[0], words[1] & ~(0xFFF << 10) | low << 10, words[2]
        return changed

    flipped = staticmethod(_flipped)

    def leaves(self, address: int, word: int, lo: int, hi: int) -> bool:
        if word & 0xFFFFFC1F in (0xD65F0000, 0xD61F0000):  # ret, br
            return True
        jump = self.jump(address, word)
        return jump is not None and jump[1] == 0 and not lo <= jump[0] < hi


Isa = Riscv64Isa | Arm64Isa
RISCV64, ARM64 = Riscv64Isa(), Arm64Isa()
ISAS: dict[str, Isa] = {"riscv64": RISCV64, "arm64": ARM64}

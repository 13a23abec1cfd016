"""What both classes of qemu/isa/ use."""

from collections.abc import Callable

MASK64 = (1 << 64) - 1
MIB = 1 << 20

Words = tuple[int, int, int]  # of a trampoline
Way = Callable[[Words], Words]  # a way to overwrite a trampoline: from its words to others
Change = tuple[int, int, int]  # by a relocation: a word's address, the mask of the bits, the bits
Forms = tuple[tuple[int, int], ...]  # instructions, as (mask, value)
STORES, LOADS = 1, 2  # what a barrier orders: before it and after it
ARGUMENT_REGISTERS = 8


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) & 1 else value


def flipped(word: int, bit: int) -> Way:
    """Change this bit of this word of a trampoline."""
    def changed(words: Words) -> Words:
        a, b, c = (w ^ (n == word) << bit for n, w in enumerate(words))
        return a, b, c
    return changed


def is_one_of(word: int, forms: Forms) -> bool:
    return any(word & mask == value for mask, value in forms)

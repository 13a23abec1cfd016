"""arm64: see qemu/isa/riscv64.py, which says what each of these is."""

import re
from collections.abc import Iterable

from qemu.isa.common import (ARGUMENT_REGISTERS, LOADS, MASK64, STORES, Change, Forms, Way, Words,
                             flipped, signed)

# Relocations of an address's low 12 bits: the unit is 1 << n bytes.
UNITS = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4, 312: 3}
# Relocations of a distance in words: the field's width, and its lowest bit.
DISTANCES = {273: (19, 5), 279: (14, 5), 280: (19, 5), 282: (26, 0), 283: (26, 0)}


class Arm64Isa:
    """The same for arm64."""

    name = "arm64"

    # ---- tools ----

    cross = "aarch64-linux-gnu-"
    objdump_machine = "aarch64"
    elf_machine = "EM_AARCH64"
    fit = "arm64"

    # ---- machines ----

    emulator = "qemu-system-aarch64"
    ram = 0x40000000
    firmware = ""
    after_firmware = 0
    uboot = "/usr/lib/u-boot/qemu_arm64/u-boot.bin"
    uboot_option = "-bios"
    uboot_moves = False
    clock_ns = 16  # the counter runs at 62.5 MHz
    root_register = "TTBR1_EL1"
    trapped_pc = "ELR_EL1"
    vectors = 16
    in_firmware = "0"

    def virt(self, gic: int, el2: bool) -> list[str]:
        virtualization = "on" if el2 else "off"
        return ["-M", f"virt,gic-version={gic},virtualization={virtualization}",
                "-cpu", "cortex-a72"]

    def table_root(self, register: int) -> int:
        return register & 0xFFFFFFFFF000

    def table_entry(self, entry: int, last_level: bool) -> tuple[bool, bool, bool, int]:
        valid = entry & 3 == 3 or entry & 3 == 1 and not last_level
        return valid, last_level or not entry & 2, not entry & 0x80, entry & 0xFFFFFFFFF000

    def by_an_instruction(self, vector: int, cause: int) -> bool:
        return vector % 0x200 == 0  # the first vector of each group of four

    def access(self, cause: int) -> str:
        kind = cause >> 26 & 63  # of esr_el1
        if kind in (0x20, 0x21):
            return "execution"
        return "none" if kind not in (0x24, 0x25) else "write" if cause & 1 << 6 else "read"

    # ---- registers and the calling convention ----

    names = (*(f"x{n}" for n in range(31)), "sp", "DAIF (are interrupts masked?)", "tpidr_el1",
             "sp_el0")
    general = names[:31]
    sp, fp, link = 31, 29, 30
    arguments: tuple[int, ...] = (*range(9),)
    results: tuple[int, ...] = (*range(8),)
    reserved: tuple[int, ...] = (18,)
    static_chain = 18
    scratch: tuple[int, ...] = (*range(9, 18),)
    preserved: tuple[int, ...] = (*range(18, 30), *range(31, 35))
    asked = ()
    saved = "x", range(19, 29)
    frame_record = 0, 8
    regs = 9, 11, 12, 13
    entry_parent = "x9"
    resumed_by = "x9"
    own_alignment = False

    def link_register(self, hook: str) -> int:
        return 30

    def first_argument(self, result_by_reference: bool) -> int:
        return 0  # the address for a large result is in x8, which is no argument register

    def argument_place(self, free: int, words: int, aligned: bool) -> int:
        free += free & 1 if aligned else 0
        return ARGUMENT_REGISTERS if free < ARGUMENT_REGISTERS < free + words else free

    # ---- call sites ----

    nop = 0xD503201F
    mov_x9_x30 = 0xAA1E03E9
    reach = 1 << 27
    scattered = False
    pair = False
    distance_sign = 25
    entry_skip = 4
    word_before = {"entry": mov_x9_x30}
    island_step = 1 << 62  # none is needed
    executed = 3

    def jump(self, address: int, word: int) -> tuple[int, int] | None:
        if word & 0x7C000000 != 0x14000000:
            return None
        link = 30 if word >> 31 else 0
        return (address + 4 * signed(word & 0x3FFFFFF, 26)) & MASK64, link

    def call(self, address: int, target: int, link: int) -> int:
        imm = target - address
        if not -self.reach <= imm < self.reach or imm & 3:
            raise ValueError(f"bl from {address:#x} does not reach {target:#x}")
        return (0x94000000 if link else 0x14000000) | (imm >> 2 & 0x3FFFFFF)

    def mcount_call(self, address: int, before: int, word: int) -> tuple[int, int] | None:
        return self.jump(address, word)

    any_jump = mcount_call

    def mcount_words(self, address: int, target: int) -> list[int]:
        return [self.call(address, target, 30)]

    def almost_mcount(self) -> list[tuple[str, tuple[int, ...]]]:
        return [(f"not a bl: bit {n} is inverted", (1 << n,)) for n in range(26, 32)]

    def trampoline(self, address: int, words: Words) -> int | None:
        """adrp x16; add x16, x16, lo; br x16."""
        adrp, add, br = words
        if adrp & 0x9F00001F != 0x90000010 or add & 0xFFC003FF != 0x91000210 or br != 0xD61F0200:
            return None
        pages = signed((adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3, 21)
        return ((address & ~0xFFF) + (pages << 12) + (add >> 10 & 0xFFF)) & MASK64

    def trampoline_to(self, address: int, target: int) -> Words:
        pages = (target >> 12) - (address >> 12)
        return (0x90000010 | (pages & 3) << 29 | (pages >> 2 & 0x7FFFF) << 5,
                0x91000210 | (target & 0xFFF) << 10, 0xD61F0200)

    def aside(self, by: int) -> Way:
        def changed(words: Words) -> Words:
            low = words[1] >> 10 & 0xFFF
            low += by if low + by < 4096 else -by
            return words[0], words[1] & ~(0xFFF << 10) | low << 10, words[2]
        return changed

    flipped = staticmethod(flipped)

    # ---- other instructions ----

    ret = 0xD65F03C0
    brk = 0xD420A000
    assembly_ends = {0xD65F0120, ret, 0xD61F03C0}  # ret x9, ret, br x30
    system: Forms = ((0xFE000000, 0xD4000000), (0xFFDFF000, 0xD69F0000))
    # Also cache maintenance by address.
    permitted: Forms = (
        (0xFFFFF01F, 0xD503301F), *((0xFFFFFFE0, 0xD50B7020 | n << 8) for n in (5, 10, 11, 14)),
        (0xFFFFFBFF, 0xD508711F), (0xFFF00000, 0xD5300000), (0xFFFFF0DF, 0xD50340DF),
        (0xFFFFFFC0, 0xD51B4200), (0xFFFFF01F, 0xD503201F), (0xFFE0001F, 0xD4200000))
    # What sets x18: calculations with a constant, those with registers, loads.
    sets_reserved: Forms = ((0x1C00001F, 0x10000012), (0x0E00001F, 0x0A000012),
                            (0x0E40001F, 0x08400012), (0x3B00001F, 0x18000012))

    def beginnings(self, text: bytes, at: int, known: Iterable[int]) -> set[int]:
        return {*range(at + -at % 4, at + len(text), 4)}

    def idle(self, number: int) -> int:
        return 0xD503201F | (40 + number % 88) << 5

    def leaves(self, address: int, word: int, lo: int, hi: int) -> bool:
        if word & 0xFFFFFC1F in (0xD65F0000, 0xD61F0000):  # ret, br
            return True
        jump = self.jump(address, word)
        return jump is not None and jump[1] == 0 and not lo <= jump[0] < hi

    def returns(self, word: int) -> bool:
        """Is it a return: a jump that takes an entry from the return-address predictor?"""
        return word & 0xFFFFFC1F == 0xD65F0000

    def depends_on_pc(self, word: int) -> bool:
        return (word & 0x1F000000 == 0x10000000 or word & 0x7C000000 in (0x14000000, 0x34000000)
                or word & 0xFF000000 == 0x54000000 or word & 0xFE000000 == 0xD6000000)

    def plain(self, word: int) -> bool:
        return word >> 24 != 0xD5 and word & 0x3F000000 != 0x08000000

    def lowers_sp(self, word: int) -> int:
        """Of sub sp, sp, #n, or stp x29, x30, [sp, #-n]!."""
        if word & 0xFFE07FFF == 0xA9A07BFD:
            return 8 * (128 - (word >> 15 & 0x7F))
        return word >> 10 & 0xFFF if word & 0xFFC003FF == 0xD10003FF else 0

    # ---- barriers ----

    synchronising = "isb or eret"
    cache_line = 64  # of a cortex-a72

    def synchronises(self, word: int) -> bool:
        return word & 0xFFFFF0FF == 0xD50330DF or word == 0xD69F03E0

    def orders(self, word: int, kind: int) -> bool:
        if word & 0xFFFFF0FF not in (0xD50330BF, 0xD503309F):  # dmb, dsb
            return False
        domain, types = word >> 10 & 3, word >> 8 & 3  # types: 1 loads before it, 2 stores, 3 both
        right = types == 3 or (types, kind) in ((2, STORES), (1, LOADS))
        return domain in (2, 3) and right

    def releases(self, word: int) -> bool:
        return (word & 0x3FE08000 in (0x08808000, 0x08008000) or word & 0x3F600C00 == 0x38600000)

    def acquires(self, word: int) -> bool:
        return (word & 0x3FE08000 in (0x08C08000, 0x08408000) or word & 0x3FFFFC00 == 0x38BFC000)

    def is_atomic(self, word: int) -> bool:
        # stxr and its like; cas; ldadd, swp and their like
        return (word & 0x3FC00000 == 0x08000000 or word & 0x3FA07C00 == 0x08A07C00
                or word & 0x3B200C00 == 0x38200000)

    def cleans(self, word: int) -> bool:
        """Does it clean a data cache line to the point of unification, or further?"""
        return word & 0xFFFFF000 == 0xD50B7000 and word & 0xF00 in (0xA00, 0xB00, 0xE00)

    def invalidates(self, word: int) -> bool:
        """Does it invalidate an instruction cache line?"""
        return word & 0xFFFFFFE0 == 0xD50B7520

    def invalidates_all(self, word: int, cpus: int) -> bool:
        """The whole instruction cache, of every CPU? `ic iallu` is for the CPU's own."""
        return word == 0xD508711F or word == 0xD508751F and cpus == 1

    def completes(self, word: int) -> bool:
        """Does this dsb wait for cache maintenance on all CPUs? It must be one for loads and
        stores, and of the inner shareable domain or the system."""
        return (word & 0xFFFFF0FF == 0xD503309F and word >> 8 & 3 == 3 and word >> 10 & 3 in (2, 3))

    # ---- what objdump prints ----

    stores = ("str", "stp", "stur", "stlr", "stx", "stlx", "dmb", "dsb", "ic", "dc", "cas", "swp")
    jumps = re.compile(r"bl?|b\.\w+|cbn?z|tbn?z|blr|br")
    ends = {"b", "br", "ret", "eret", "brk", "udf"}
    resumes = "ret", "x9"

    # ---- relocations ----

    relocations = frozenset({*range(257, 287), 299})
    got: tuple[int, ...] = (311, 312)
    by_entry: tuple[int, ...] = (282, 283)  # JUMP26, CALL26
    upper: tuple[int, ...] = ()

    def relocated(self, kind: int, pc: int, value: int,
                  high: dict[int, int]) -> list[Change] | None:
        if kind in (274, 275, 276, 311):  # ADR_PREL_LO21, ADR_PREL_PG_HI21(_NC), ADR_GOT_PAGE
            off = value - pc if kind == 274 else (value >> 12) - (pc >> 12)
            return [(pc, 0x60FFFFE0, (off & 3) << 29 | (off >> 2 & 0x7FFFF) << 5)]
        if kind in UNITS:
            return [(pc, 0xFFF << 10, (value & 0xFFF) >> UNITS[kind] << 10)]
        if kind in DISTANCES:
            bits, shift = DISTANCES[kind]
            return [(pc, (1 << bits) - 1 << shift, value - pc >> 2 << shift)]
        return [] if kind in (0, 256) else None

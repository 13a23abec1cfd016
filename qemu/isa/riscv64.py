"""riscv64: see qemu/isa/__init__.py."""

import re
from collections.abc import Iterable

from qemu.isa.common import (ARGUMENT_REGISTERS, MASK64, MIB, Change, Forms, Way, Words, flipped,
                             signed)

# Jumps that hold the distance: (mask, value, bits of the distance, where these are). A run of bits
# is (lowest bit in the instruction, how many, lowest bit in the distance).
DIRECT_JUMPS = (
    (0x7F, 0x6F, 21, ((21, 10, 1), (20, 1, 11), (12, 8, 12), (31, 1, 20))),  # jal
    (0x7F, 0x63, 13, ((8, 4, 1), (25, 6, 5), (7, 1, 11), (31, 1, 12))),  # beq and the like
    (0xE003, 0xA001, 12, ((3, 3, 1), (11, 1, 4), (2, 1, 5), (7, 1, 6), (6, 1, 7), (9, 2, 8),
                          (8, 1, 10), (12, 1, 11))),  # c.j
    (0xC003, 0xC001, 9, ((3, 2, 1), (10, 2, 3), (2, 1, 5), (5, 2, 6), (12, 1, 8))))  # c.beqz, bnez


class Riscv64Isa:
    """`address` is always the address of the instruction."""

    name = "riscv64"

    # ---- tools ----

    cross = "riscv64-linux-gnu-"  # the prefix of binutils and gcc
    objdump_machine = "riscv:rv64"
    elf_machine = "EM_RISCV"
    fit = "riscv"  # mkimage's name

    # ---- machines ----

    emulator = "qemu-system-riscv64"
    ram = 0x80000000
    firmware = "opensbi-riscv64-generic-fw_dynamic.bin"  # with which QEMU begins; "": none
    after_firmware = 0x80000000 + 2 * MIB  # where the firmware jumps to; 0: there is none
    uboot = "/usr/lib/u-boot/qemu-riscv64_smode/u-boot.bin"
    uboot_option = "-kernel"  # QEMU's
    uboot_moves = True  # booti moves the image to RAM + text_offset
    clock_ns = 100  # the resolution of the clock: QEMU's timebase runs at 10 MHz
    root_register = "satp"  # of the page tables, as QEMU's stub and gdb name it
    trapped_pc = "sepc"  # after an interrupt: where the CPU was
    vectors = 1  # 128 bytes apart
    in_firmware = "$priv == 3"  # for gdb: M-mode, which has no page tables

    def virt(self, gic: int, el2: bool) -> list[str]:
        """QEMU's options for its machine `virt`."""
        return ["-M", "virt"]

    def table_root(self, register: int) -> int:
        return register << 12 & (1 << 56) - 1

    def table_entry(self, entry: int, last_level: bool) -> tuple[bool, bool, bool, int]:
        """Decode a page-table entry: is it valid, is it a leaf, is the leaf writable, and its
        physical address."""
        physical = entry >> 10 << 12 & (1 << 56) - 1
        return bool(entry & 1), bool(entry & 14), bool(entry & 4), physical

    def by_an_instruction(self, vector: int, cause: int) -> bool:
        """Was it an exception, and no interrupt? `vector`: its offset in the table of vectors."""
        return not cause >> 63

    def access(self, cause: int) -> str:
        """What an exception was caused by: "execution", "read", "write", or "none" for an undefined
        instruction or a breakpoint."""
        return {1: "execution", 12: "execution", 5: "read", 13: "read", 7: "write",
                15: "write"}.get(cause, "none")

    # ---- registers and the calling convention ----

    names = ("zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1",
             *(f"a{n}" for n in range(8)), *(f"s{n}" for n in range(2, 12)),
             *(f"t{n}" for n in range(3, 7)), "sstatus.SIE (are interrupts masked?)")
    general = (*names[:8], "fp", *names[9:32])  # gdb's names
    sp, fp, link = 2, 8, 1
    arguments: tuple[int, ...] = (*range(10, 18),)
    results: tuple[int, ...] = (10, 11)
    reserved: tuple[int, ...] = (3, 4)  # the tracer never changes them
    static_chain = 7  # where GCC's nested functions find the variables of the function around them
    scratch: tuple[int, ...] = (5, 6, 28, 29, 30, 31)  # the tracer may change them
    preserved: tuple[int, ...] = (2, 3, 4, 8, 9, *range(18, 28), 32)  # across a call
    # control registers and their bits that say that another CPU waits for this one, besides the
    # kernel's ipi_work: the firmware's own interrupt, for a remote fence
    asked = ("mip", 1 << 3),
    saved = "s", range(1, 12)  # when a thread leaves its CPU: their letter and numbers
    frame_record = -16, -8  # offsets from fp of the saved fp and of the return address
    regs = 10, 11, 12, 13  # words of struct ftrace_regs: sp, pc, fp, link
    entry_parent = "ra"  # HOOK=entry: at the call site, the function's return address
    resumed_by = "t0"  # the register by which ftrace_caller returns
    own_alignment = True  # of a structure counts when it is passed, and not only its members'

    def link_register(self, hook: str) -> int:
        """The register in which a site's call stores the return address."""
        return 5 if hook == "entry" else 1

    def first_argument(self, result_by_reference: bool) -> int:
        """The first argument register that a parameter may have, counted from 0."""
        return int(result_by_reference)

    def argument_place(self, free: int, words: int, aligned: bool) -> int:
        """Where an argument is if the places before @free are taken. From ARGUMENT_REGISTERS on it
        is on the stack. It may be half in the last register and half on the stack."""
        on_stack = free >= ARGUMENT_REGISTERS  # in registers only unnamed arguments are aligned
        return free + (free & 1) if aligned and on_stack else free

    # ---- call sites ----

    nop = 0x00000013
    reach = 1 << 20  # bytes, of a call
    scattered = True  # the bits of a call's distance are not in order
    pair = True  # the compiler's call of _mcount has two words
    distance_sign = 31  # the sign bit of the distance in its last word
    entry_skip = 0  # bytes from a function's entry to the word that is patched
    word_before = {"mcount": nop}  # by hook: the word before a site, if the kernel changes it
    island_step = reach - (1 << 16)  # bytes of text after which an island is needed
    executed = 2  # words of a trampoline that a CPU executes

    def jump(self, address: int, word: int) -> tuple[int, int] | None:
        """The (target, link register or 0) of a direct jump or call. None: another instruction."""
        if word & 0x7F != 0x6F:
            return None
        imm = ((word >> 31 << 20) | (word >> 12 & 0xFF) << 12 | (word >> 20 & 1) << 11
               | (word >> 21 & 0x3FF) << 1)
        return (address + signed(imm, 21)) & MASK64, word >> 7 & 31

    def call(self, address: int, target: int, link: int) -> int:
        imm = target - address
        if not -self.reach <= imm < self.reach or imm & 1:
            raise ValueError(f"jal from {address:#x} does not reach {target:#x}")
        return self._jal(imm) | link << 7 | 0x6F

    @staticmethod
    def _jal(imm: int) -> int:
        return ((imm >> 20 & 1) << 31 | (imm >> 1 & 0x3FF) << 21 | (imm >> 11 & 1) << 20
                | (imm >> 12 & 0xFF) << 12)

    def far_call(self, address: int, first: int, second: int) -> tuple[int, int] | None:
        """The (target, link) of the pair auipc rd; jalr link, lo(rd). None: it is no such pair."""
        register = first >> 7 & 31
        if first & 0x7F != 0x17 or second & 0x707F != 0x67 or second >> 15 & 31 != register:
            return None
        target = address + signed(first & 0xFFFFF000, 32) + signed(second >> 20, 12)
        return target & MASK64, second >> 7 & 31

    def mcount_call(self, address: int, before: int, word: int) -> tuple[int, int] | None:
        """jump() of a word that may be the last one of the compiler's call of _mcount. `before`:
        the word before it."""
        return self.far_call(address - 4, before, word)

    def any_jump(self, address: int, before: int, word: int) -> tuple[int, int] | None:
        """jump() of a single word, or of the last word of a pair."""
        return self.jump(address, word) or self.far_call(address - 4, before, word)

    def mcount_words(self, address: int, target: int) -> list[int]:
        """The words of a call as the compiler makes it with -pg."""
        high = (target - address + 0x800) >> 12
        return [(high & 0xFFFFF) << 12 | 0x97,
                (target - address - (high << 12) & 0xFFF) << 20 | 0x80E7]

    def almost_mcount(self) -> list[tuple[str, tuple[int, ...]]]:
        """Words that are almost such a call: what they are, and the bits in which they differ from
        it. There is one for each bit of the opcode."""
        found: list[tuple[str, tuple[int, ...]]] = [
            (f"a jalr after a word that is not an auipc ra: bit {n} is inverted", (1 << n, 0))
            for n in range(12)]
        found += [(f"an auipc ra before a word that is not a jalr ra, lo(ra): bit {n} is inverted",
                   (0, 1 << n)) for n in range(20)]
        for register, other in (("t0", 1 ^ 5), ("t1", 1 ^ 6)):
            found += [(f"an auipc {register}, and after it a jalr ra, lo({register})",
                       (other << 7, other << 15)),
                      (f"a pair with {register}, which the compiler never uses to call _mcount",
                       (other << 7, other << 15 | other << 7))]
        return found

    def trampoline(self, address: int, words: Words) -> int | None:
        """The target of auipc t1; jalr x0, lo(t1); ebreak. None: these words are no trampoline."""
        found = self.far_call(address, words[0], words[1])
        right = found and found[1] == 0 and words[0] >> 7 & 31 == 6 and words[2] == self.brk
        return found[0] if found and right else None

    def trampoline_to(self, address: int, target: int) -> Words:
        """The trampoline at this address that leads to the target."""
        off = target - address
        return 0x317 | (off + 0x800) & 0xFFFFF000, 0x30067 | (off & 0xFFF) << 20, self.brk

    def aside(self, by: int) -> Way:
        """Change a trampoline so that it leads `by` bytes, a small number, ahead or back."""
        def changed(words: Words) -> Words:
            low = signed(words[1] >> 20, 12)
            low += by if low + by < 2048 else -by
            return words[0], words[1] & 0xFFFFF | (low & 0xFFF) << 20, words[2]
        return changed

    flipped = staticmethod(flipped)

    # ---- other instructions ----

    ret = 0x00008067
    brk = 0x00100073
    assembly_ends = {0x00028067, 0x00008067, 0x00030067}  # jr t0, ret, jr t1
    # What a handed-in file may not have, as (mask, value): all that does more than calculate, load,
    # store and jump.
    system: Forms = ((0x7F, 0x73), (0x7F, 0x0F))
    # The exceptions: fences, reading a system register, masking interrupts, waiting, a breakpoint.
    permitted: Forms = ((0x707F, 0x0F), (0x707F, 0x100F), (0xFF07F, 0x2073),
                        (0xFFF0707F, 0x10002073), (0xFFFFE07F, 0x10016073),
                        (0xFFFFFFFF, 0x10500073), (0xFFFFFFFF, brk))
    # What sets gp or tp: a handed-in file in C may not have it either.
    sets_reserved: Forms = tuple(
        (0xFFF, number << 7 | opcode) for number in (3, 4)
        for opcode in (0x03, 0x13, 0x17, 0x1B, 0x2F, 0x33, 0x37, 0x3B, 0x67, 0x6F))

    def beginnings(self, text: bytes, at: int, known: Iterable[int]) -> set[int]:
        """
        The addresses in @text, which is at @at, where an instruction may begin. There may be
        compressed code, so these need not be multiples of 4.

        They are all multiples of 4, the @known ones, and from each of these the next instruction
        and the target of a direct jump. So the second half of an instruction is not among them,
        unless something leads there. What is missing is the target of a jump whose address was
        calculated, or of one between two texts that no relocation says. When a CPU goes there, the
        observer finds an instruction that is not a whole word of the text (is_ours() in
        qemu/observer.c).
        """
        found, todo = set[int](), [*range(at + -at % 4, at + len(text), 4), *known]
        while todo:
            address = todo.pop()
            offset = address - at
            if address % 2 or address in found or not 0 <= offset <= len(text) - 2:
                continue
            found.add(address)
            word = int.from_bytes(text[offset:offset + 4], "little")
            todo += [address + (4 if word & 3 == 3 else 2), *self._leads_to(address, word)]
        return found

    @staticmethod
    def _leads_to(address: int, word: int) -> list[int]:
        """The target of a direct jump."""
        for mask, value, bits, places in DIRECT_JUMPS:
            if word & mask == value:
                distance = sum((word >> low & (1 << count) - 1) << to for low, count, to in places)
                return [(address + signed(distance, bits)) & MASK64]
        return []

    def idle(self, number: int) -> int:
        """One of the instructions without effect that are not the nop."""
        return 0x13 | (1 + number % 2047) << 20

    def leaves(self, address: int, word: int, lo: int, hi: int) -> bool:
        """Does this instruction leave the function in [lo, hi): is it a return, or a jump out of it
        without a link?"""
        if word & 0xFFF == 0x067:  # jalr x0: a return, or a far tail call
            return True
        jump = self.jump(address, word)
        return jump is not None and jump[1] == 0 and not lo <= jump[0] < hi

    def returns(self, word: int) -> bool:
        """Is it a return: a jump that takes an entry from the return-address predictor?"""
        return word & 0xFFF == 0x067 and word >> 15 & 31 in (1, 5)

    def depends_on_pc(self, word: int) -> bool:
        """Is it a branch, a jump, a return, or an instruction that adds to pc? Any other does the
        same in a slot."""
        return word & 0x7F in (0x17, 0x63, 0x67, 0x6F)

    def plain(self, word: int) -> bool:
        """May it be probed wherever it is? It is no atomic or exclusive access, no fence and no
        system instruction, and sets neither sp nor tp by a jump."""
        sets = self.depends_on_pc(word) and word >> 7 & 31 in (2, 4)
        return word & 0x7F not in (0x73, 0x2F, 0x0F) and not sets

    def lowers_sp(self, word: int) -> int:
        """The n of addi sp, sp, -n. 0: another instruction."""
        return -signed(word >> 20, 12) if word & 0xFFFFF == 0x10113 else 0

    # ---- barriers ----

    synchronising = "fence.i"
    cache_line = 0  # bytes of the cache lines that must be maintained after a store into text

    def synchronises(self, word: int) -> bool:
        """Does this CPU's instruction fetch see earlier stores after it?"""
        return word & 0x707F == 0x100F

    def orders(self, word: int, kind: int) -> bool:
        """Does this barrier order stores (STORES), or loads (LOADS), or both, before it with the
        same after it, towards all other CPUs?"""
        return word & 0x707F == 0x0F and (word >> 24) & kind == kind and (word >> 20) & kind == kind

    def releases(self, word: int) -> bool:
        """Is it a store with release semantics, which comes after everything before it?"""
        return word & 0x7F == 0x2F and bool(word >> 25 & 1)

    def acquires(self, word: int) -> bool:
        """Is it a load with acquire semantics, which comes before everything after it?"""
        return word & 0x7F == 0x2F and bool(word >> 26 & 1)

    def is_atomic(self, word: int) -> bool:
        """If it stores, is this a part of one atomic read, change and write?"""
        return word & 0x7F == 0x2F

    # ---- what objdump prints ----

    stores = ("sb", "sh", "sw", "sd", "sc.", "amo", "fence")  # beginnings of mnemonics
    jumps = re.compile(r"j|jal|jalr|jr|b(eq|ne|lt|ge|le|gt)u?z?")  # all that may jump
    ends = {"j", "jr", "ret", "sret", "ebreak", "unimp"}  # the next instruction is not executed
    resumes = "jr", "t0"  # the return to the traced function

    # ---- relocations ----

    # Those that put an address into a word or an instruction. The others let the linker move code
    # or build a table.
    relocations = frozenset({1, 2, *range(16, 20), *range(23, 29), *range(33, 41), 57})
    got: tuple[int, ...] = (20,)  # through the table of addresses
    by_entry: tuple[int, ...] = ()  # a call that may go through an entry of the loader's
    upper: tuple[int, ...] = (20, 23)  # an auipc, to which other relocations refer by its address

    def relocated(self, kind: int, pc: int, value: int,
                  high: dict[int, int]) -> list[Change] | None:
        """The changes by a relocation at @pc. `high`: by the address of each auipc, the distance
        that it begins. None: this type is not known."""
        off = value - pc & MASK64
        if kind == 16:  # BRANCH
            bits = ((off >> 12 & 1) << 31 | (off >> 5 & 0x3F) << 25 | (off >> 1 & 15) << 8
                    | (off >> 11 & 1) << 7)
            return [(pc, 0xFE000F80, bits)]
        if kind == 17:  # JAL
            return [(pc, 0xFFFFF000, self._jal(off))]
        if kind in (18, 19):  # CALL, CALL_PLT
            return [self._upper(pc, off), self._lower(pc + 4, off)]
        if kind in (20, 23):  # GOT_HI20, PCREL_HI20
            return [self._upper(pc, high[pc])]
        if kind in (24, 25):  # PCREL_LO12_I, PCREL_LO12_S: the symbol is the auipc's label
            return [self._lower(pc, high[value], kind == 25)]
        if kind == 26:  # HI20
            return [self._upper(pc, value)]
        if kind in (27, 28):  # LO12_I, LO12_S
            return [self._lower(pc, value, kind == 28)]
        # NONE; ALIGN and RELAX, for a linker that makes text shorter
        return [] if kind in (0, 43, 51) else None

    @staticmethod
    def _upper(pc: int, value: int) -> Change:
        return pc, 0xFFFFF000, value + 0x800

    @staticmethod
    def _lower(pc: int, value: int, store: bool = False) -> Change:
        if store:
            return pc, 0xFE000F80, (value & 0xFE0) << 20 | (value & 0x1F) << 7
        return pc, 0xFFF00000, value << 20

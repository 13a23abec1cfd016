"""Links a module's file as the loader must (kern/loader/): places its sections, and applies the
relocations to its text.

The numbers and meanings of relocations are those of the RISC-V ELF psABI specification and of ELF
for the Arm 64-bit Architecture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.elf.elf import Kernel
from grading.verdict import Stopped, Verdict

PAGE = 4096
TEXT, RODATA, DATA = range(3)
ALLOC, WRITE, EXECUTED = 2, 1, 4  # section flags
ENTRY = 12  # bytes of an entry for a call of the kernel


class Rela(NamedTuple):
    section: int  # the section that it changes
    offset: int
    kind: int
    symbol: int
    addend: int


def up(number: int, to: int) -> int:
    return number + -number % max(1, to)


class Layout:
    """The loader's three regions: text, constants, data. Each has the sections of its kind in the
    file's order, but those of one name together."""

    def __init__(self, path: Path, kernel: Kernel) -> None:
        self._kernel, self._name = kernel, path.name
        with path.open("rb") as file:
            elf = ELFFile(file)
            self.sections = list(elf.iter_sections())
            self.bytes = [b"" if s["sh_type"] == "SHT_NOBITS" else s.data() for s in self.sections]
            self.symbols = list(elf.get_section_by_name(".symtab").iter_symbols())
            relas = [
                Rela(s["sh_info"], r["r_offset"], r["r_info_type"], r["r_info_sym"], r["r_addend"])
                for s in self.sections if s["sh_type"] == "SHT_RELA" for r in s.iter_relocations()]
        self.place: dict[int, tuple[int, int]] = {}  # by section: its region, and its offset there
        self._size = [0, 0, 0]
        for number in self._loaded():
            for same in (n for n in self._loaded() if n >= number and n not in self.place
                         and self._key(n) == self._key(number)):
                self._add(same)
        self.relas = [r for r in relas if r.section in self.place]
        self._entries = self._numbered(r.symbol for r in self.relas
                                       if r.kind in kernel.isa.by_entry and self._outside(r.symbol))
        self._gots = self._numbered(r.symbol for r in self.relas if r.kind in kernel.isa.got)
        self._entries_at, self._gots_at = up(self._size[TEXT], 4), up(self._size[RODATA], 8)
        self.text_size = self._entries_at + ENTRY * len(
            self._entries) if self._entries else self._size[TEXT]

    @staticmethod
    def _numbered(symbols: Iterator[int]) -> dict[int, int]:
        return {symbol: n for n, symbol in enumerate(dict.fromkeys(symbols))}

    def _loaded(self) -> list[int]:
        return [n for n, s in enumerate(self.sections)
                if s["sh_flags"] & ALLOC and s["sh_type"] != "SHT_NOTE" and s.name != ".eh_frame"]

    def _key(self, number: int) -> tuple[str, int]:
        flags = self.sections[number]["sh_flags"]
        return self.sections[
            number].name, TEXT if flags & EXECUTED else DATA if flags & WRITE else RODATA

    def _add(self, number: int) -> None:
        region, section = self._key(number)[1], self.sections[number]
        at = up(self._size[region], section["sh_addralign"])
        self.place[number], self._size[region] = (region, at), at + section["sh_size"]

    def _outside(self, symbol: int) -> bool:
        return self.symbols[symbol]["st_shndx"] in ("SHN_UNDEF", "SHN_ABS")

    def entries(self) -> list[int]:
        """The offsets in text of the functions with a call site, from the compiler's list."""
        return [self.place[symbol["st_shndx"]][1] + int(symbol["st_value"]) + r.addend
                for r in self.relas
                if self.sections[r.section].name == "__patchable_function_entries"
                for symbol in [self.symbols[r.symbol]]]

    def linked(self, base: int, end: int) -> bytes:
        """The text, with zeroes up to `end`, where constants begin."""
        return bytes(_Linker(self, self._kernel, base, end).text())

    def address(self, section: int, base: int, end: int) -> int:
        region, at = self.place[section]
        constants = self._gots_at + 8 * len(self._gots) if self._gots else self._size[RODATA]
        return (base, end, end + up(constants, PAGE))[region] + at

    def value(self, symbol: int, base: int, end: int) -> int:
        s = self.symbols[symbol]
        where, value = s["st_shndx"], int(s["st_value"])
        if where == "SHN_UNDEF" and not (value := self._kernel.address_of(s.name)):
            raise Stopped(Verdict.HARNESS,
                          f"{self._name} needs {s.name}, which this kernel does not have")
        return self.address(where, base, end) + value if where in self.place else value

    def entry(self, symbol: int) -> int:
        """The offset in text of the entry for calls of this symbol."""
        return self._entries_at + ENTRY * self._entries[symbol]

    def got(self, symbol: int) -> int:
        return self._gots_at + 8 * self._gots[symbol]

    def unknown(self, kind: int) -> Stopped:
        return Stopped(
            Verdict.HARNESS,
            f"{self._name} has a relocation of type {kind}, which grading/elf/link.py does not know"
        )


class _Linker:
    """Links the text at one address."""

    def __init__(self, layout: Layout, kernel: Kernel, base: int, end: int) -> None:
        self._layout, self._isa, self._base, self._end = layout, kernel.isa, base, end
        self._text = bytearray(end - base)
        for number, (region, at) in layout.place.items():
            if region == TEXT:
                self._text[at:at + len(layout.bytes[number])] = layout.bytes[number]

    def text(self) -> bytearray:
        relas = [r for r in self._layout.relas if self._layout.place[r.section][0] == TEXT]
        values = {r: self._layout.value(r.symbol, self._base, self._end) + r.addend for r in relas}
        # By the address of an auipc: what it and the instruction that names it must add to pc.
        high = {self._pc(r): self._target(r, values[r]) - self._pc(r) for r in relas
                if r.kind in self._isa.upper}
        for r in relas:
            self._apply(r, self._target(r, values[r]), high)
        return self._text

    def _pc(self, rela: Rela) -> int:
        return self._layout.address(rela.section, self._base, self._end) + rela.offset

    def _target(self, rela: Rela, value: int) -> int:
        return self._end + self._layout.got(rela.symbol) if rela.kind in self._isa.got else value

    def _put(self, pc: int, mask: int, bits: int) -> None:
        at = pc - self._base
        word = int.from_bytes(self._text[at:at + 4], "little")
        self._text[at:at + 4] = (word & ~mask | bits & mask).to_bytes(4, "little")

    def _apply(self, rela: Rela, value: int, high: dict[int, int]) -> None:
        """A call of a kernel symbol out of reach goes through an entry, where the architecture has
        entries; a symbol of the module itself must be in reach."""
        pc, isa = self._pc(rela), self._isa
        if rela.kind in isa.by_entry and not -isa.reach <= value - pc < isa.reach:
            entry = self._base + self._layout.entry(rela.symbol)
            for n, word in enumerate(isa.trampoline_to(entry, value)):
                self._put(entry + 4 * n, 0xFFFFFFFF, word)
            value = entry
        changes = isa.relocated(rela.kind, pc, value, high)
        if changes is None:
            raise self._layout.unknown(rela.kind)
        for change in changes:
            self._put(*change)

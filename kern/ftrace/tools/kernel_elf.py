"""Reads an ELF file, a kernel or an object: its symbols, its loaded sections, its call sites.

It imports no other program of this folder, so the harness can import it too.
"""
from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile  # type: ignore[import]
from elftools.elf.enums import ENUM_ST_INFO_TYPE, ENUM_ST_SHNDX  # type: ignore[import]

ENTRIES = "__patchable_function_entries"
ALLOC = 2  # section flag


class Symbol(NamedTuple):
    name: str  # of a section's symbol: the section's name
    value: int
    size: int
    kind: str  # STT_FUNC, ...
    local: bool
    section: str  # or SHN_UNDEF, SHN_ABS, ...


KINDS = {number: kind for kind, number in ENUM_ST_INFO_TYPE.items()}
PLACES = {number: place for place, number in ENUM_ST_SHNDX.items()}


def _symbols(table: Any, sections: list[str]) -> Iterator[Symbol]:
    """All symbols. pyelftools' iter_symbols() takes ten times as long, and every build and grade
    reads those of the kernel several times."""
    names = table.stringtable.data()
    for name_at, info, _, at, value, size in struct.iter_unpack("<IBBHQQ", table.data()):
        section = PLACES.get(at) or (sections[at] if at < len(sections) else str(at))
        kind = str(KINDS.get(info & 15, info & 15))
        name = section if kind == "STT_SECTION" else (
            names[name_at:names.index(0, name_at)].decode(errors="replace"))
        yield Symbol(name, value, size, kind, not info >> 4, section)


class Elf:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with open(path, "rb") as file:
            elf = ELFFile(file)
            sections = list(elf.iter_sections())
            names = [section.name for section in sections]
            self.table = list(_symbols(elf.get_section_by_name(".symtab"), names))
            self.loaded = [(int(s["sh_addr"]), bytes(s.data())) for s in sections
                           if s["sh_type"] == "SHT_PROGBITS" and s["sh_flags"] & ALLOC]
            # What ENTRIES holds: in a kernel the addresses; in an object each symbol and addend.
            # GCC 14 makes several sections of this name, one for each section of code.
            self.entries = [address for s in sections if s.name == ENTRIES
                            for (address,) in struct.iter_unpack("<Q", s.data()) if address]
            self.entry_places = [(self.table[r["r_info_sym"]], int(r["r_addend"])) for s in sections
                                 if s["sh_type"] == "SHT_RELA" and names[s["sh_info"]] == ENTRIES
                                 for r in s.iter_relocations()]
        self.symbols: dict[str, int] = {}  # of several with one name the first
        for symbol in self.table:
            if symbol.name and symbol.section != "SHN_UNDEF":
                self.symbols.setdefault(symbol.name, symbol.value)

    def symbol(self, name: str) -> int:
        """The symbol's address; 0 if there is none."""
        return self.symbols.get(name, 0)

    def read(self, address: int, size: int) -> bytes:
        for start, data in self.loaded:
            if start <= address and address + size <= start + len(data):
                return data[address - start:address - start + size]
        raise ValueError(f"{address:#x} is not in {self.path.name}")

    def records(self) -> list[tuple[int, bytes]]:
        """The kernel's table of call sites: (address, the other bytes of the record)."""
        count, table = self.symbol("ftrace_record_count"), self.symbol("ftrace_records")
        if not count or not table:
            return []
        data = self.read(table, 8 * struct.unpack("<I", self.read(count, 4))[0])
        base = self.symbol("_text")
        return [(base + offset, rest) for offset, rest in struct.iter_unpack("<I4s", data)]

"""Reads an ELF file, a kernel or an object: its symbols, its loaded sections, its call sites.

It imports no other program of this folder, so the harness can import it too.
"""
from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

from elftools.elf.elffile import ELFFile  # type: ignore[import]

ENTRIES = "__patchable_function_entries"
ALLOC = 2  # section flag


class Symbol(NamedTuple):
    name: str  # of a section's symbol: the section's name
    value: int
    size: int
    kind: str  # STT_FUNC, ...
    local: bool
    section: str  # or SHN_UNDEF, SHN_ABS, ...


def _symbol(entry: Any, sections: list[str]) -> Symbol:
    info, at = entry["st_info"], entry["st_shndx"]
    section = sections[at] if isinstance(at, int) and at < len(sections) else str(at)
    name = section if info["type"] == "STT_SECTION" else entry.name
    return Symbol(name, int(entry["st_value"]), int(entry["st_size"]), str(info["type"]),
                  info["bind"] == "STB_LOCAL", section)


class Elf:
    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with open(path, "rb") as file:
            elf = ELFFile(file)
            sections = list(elf.iter_sections())
            names = [section.name for section in sections]
            entries = elf.get_section_by_name(".symtab").iter_symbols()
            self.table = [_symbol(entry, names) for entry in entries]
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

"""Reads a module's object file: its functions, call sites and trampolines, at the address to which insmod moves it.

The loader (kern/module/elf.c) places the sections of text one after the other, then arm64's entries for calls of the kernel, then, at a
multiple of 16, room for a trampoline for each stub.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.elf.elf import Function, Kernel, Site
from grading.elf.insn import ISAS

PAGE = 4096
TRAMPOLINE = 12  # bytes of a trampoline, and of a stub
EXECUTABLE = 6  # SHF_ALLOC, SHF_EXECINSTR
CALLS = {"riscv64": (0, frozenset[int]()), "arm64": (12, frozenset({282, 283}))}  # bytes of an entry for a call of the kernel, relocations that need one


def stubs(kernel: Kernel) -> list[int]:
    """The kernel's stubs, in order, without those of islands."""
    return [kernel.symbol(name) for n in range(len(kernel.symbols)) if (name := f"ftrace_stub_{n}") in kernel.symbols]


@dataclass(frozen=True)
class Module:
    """A module at an address."""

    name: str
    base: int
    text: bytes  # as in the file; bytes that relocations change are in `relocated`
    relocated: frozenset[int] = field(repr=False)  # addresses of the words that the loader changes
    functions: tuple[Function, ...] = field(repr=False)  # each with " [module]" after its name, as the kernel prints it
    sites: tuple[Site, ...] = field(repr=False)
    room: int  # the address of the first trampoline
    stubs: int  # the number of trampolines that there is room for

    @property
    def end(self) -> int:
        """Where its text ends."""
        last = self.room + self.stubs * TRAMPOLINE
        return last + -last % PAGE

    def trampoline(self, number: int) -> int:
        return self.room + number * TRAMPOLINE

    def is_trampoline(self, address: int) -> bool:
        return self.room <= address < self.trampoline(self.stubs) and (address - self.room) % TRAMPOLINE == 0

    def named(self, part: str) -> str:
        """The full name of one of its functions."""
        return f"{self.name}_{part} [{self.name}]"

    @property
    def names(self) -> frozenset[str]:
        """Its functions that can be traced."""
        return frozenset(site.function.name for site in self.sites)

    def word(self, address: int) -> int:
        return int.from_bytes(self.text[address - self.base:address - self.base + 4], "little")


class ModuleFile:
    """One built module."""

    def __init__(self, path: Path, arch: str, stubs: int) -> None:
        self._arch, self._stubs, self._name = arch, stubs, path.stem
        self._text = b""
        self._place: dict[int, int] = {}  # by section: its offset in text
        self._relocated: set[int] = set()
        self._entries: list[int] = []
        with path.open("rb") as file:
            self._read(ELFFile(file))

    def _read(self, elf: ELFFile) -> None:
        sections = list(elf.iter_sections())
        for number, section in enumerate(sections):
            if section["sh_flags"] & EXECUTABLE == EXECUTABLE:
                self._text += bytes(-len(self._text) % max(1, section["sh_addralign"]))
                self._place[number] = len(self._text)
                self._text += section.data()
        table = elf.get_section_by_name(".symtab")
        self._functions = [(s.name, self._place[s["st_shndx"]] + int(s["st_value"]), int(s["st_size"])) for s in table.iter_symbols()
                           if s["st_info"]["type"] == "STT_FUNC" and s["st_shndx"] in self._place and s["st_info"]["bind"] == "STB_LOCAL"]
        called = set()
        for section in sections:
            for r in section.iter_relocations() if section["sh_type"] == "SHT_RELA" else ():
                symbol, kind = table.get_symbol(r["r_info_sym"]), r["r_info_type"]
                if section["sh_info"] in self._place:
                    at = self._place[section["sh_info"]] + r["r_offset"]
                    self._relocated |= {at, at + 4} if self._arch == "riscv64" else {at}
                if kind in CALLS[self._arch][1] and symbol["st_shndx"] == "SHN_UNDEF":
                    called.add(symbol.name)
                if sections[section["sh_info"]].name == "__patchable_function_entries":
                    self._entries.append(self._place[symbol["st_shndx"]] + symbol["st_value"] + r["r_addend"])
        end = len(self._text) + -len(self._text) % 4 + len(called) * CALLS[self._arch][0]
        self._room = end + -end % 16

    def at(self, base: int) -> Module:
        isa, skip = ISAS[self._arch], 4 if self._arch == "arm64" else 0  # mov x9, x30 comes before the word
        functions = tuple(Function(f"{name} [{self._name}]", base + at, base + at + size) for name, at, size in sorted(self._functions, key=lambda f: f[1]))
        of = {f.start: f for f in functions}
        sites = tuple(Site(base + e + skip, of[base + e], isa.nop, isa.nop) for e in self._entries)
        return Module(self._name, base, self._text, frozenset(base + at for at in self._relocated), functions, sites, base + self._room, self._stubs)

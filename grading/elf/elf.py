"""Reads a kernel's ELF file: its functions, its text, and the address of every call site.

Call sites are found from what the compiler made, never from the kernel's
own table, because that table is one of the things that are judged.
"""

from __future__ import annotations

import re
import struct
import subprocess
import tempfile
from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.elf.names import listed
from grading.verdict import Stopped, Verdict
from kern.ftrace.tools.kernel_elf import Elf
from qemu.isa import ISAS, Isa
from qemu.machine import ROOT

if TYPE_CHECKING:
    from grading.elf.module import Module

# A file that uses each structure, and that is in every tree as a source which nobody hands in: its
# debug information says how the structure is laid out.
DECLARED = {
    "ftrace_ops": "kern/apps/op", "ftrace_filter": "kern/apps/op", "fgraph_ops": "kern/apps/frames",
    "fgraph_single": "kern/apps/rare", "shadow_stack": "kern/apps/frames",
    "shadow_frame": "kern/apps/frames", "cpu": "kern/base/cpus"
}

LAYOUT = (ROOT / "kern/layout.h").read_text()
# Where the kernel is linked, and where the writable alias of its text is during a batch.
KERNEL_BASE, ALIAS_BASE = (int(re.findall(rf"^#define {name}_BASE (\w+)$", LAYOUT, re.M)[0], 16)
                           for name in ("KERNEL", "ALIAS"))


@dataclass(frozen=True)
class Function:
    name: str
    start: int
    end: int


@dataclass(frozen=True)
class Site:
    """A call site: the word that the tracer patches."""

    address: int
    function: Function
    linked: int  # the word as linked
    rest: int  # the word after boot, while no tracer is on


class Kernel(Elf):
    """One built kernel."""

    modules: tuple[Module, ...] = ()  # the modules that its boots load
    _any_name = False

    def __init__(self, path: Path, arch: str, any_name: bool = False) -> None:
        """`any_name`: a test asks it for functions on which no grade relies."""
        super().__init__(path)
        self._any_name = any_name
        self.arch = arch
        self.isa: Isa = ISAS[arch]
        self._members: dict[str, dict[str, int]] = {}
        named = [s for s in self.table if s.name and s.section != "SHN_UNDEF"]
        self._sizes = {s.name: s.size for s in reversed(named)}
        self._several = {s.name for s in named if self.symbols[s.name] != s.value}
        self.functions = sorted((Function(s.name, s.value, s.value + s.size) for s in self.table
                                 if s.kind == "STT_FUNC" and s.size), key=lambda f: f.start)
        self._starts = [f.start for f in self.functions]

    def symbol(self, name: str) -> int:
        """The symbol's address; 0 if this stage does not have it. Raises LookupError if the name is
        not in names.py."""
        return self.address_of(self.named(name))

    def named(self, name: str) -> str:
        """The name. Raises LookupError if it is not in names.py."""
        return name if self._any_name else listed(name)

    def address_of(self, name: str) -> int:
        """The same of any name, which comes from this kernel, a module or a log. A name that
        several symbols have is refused: a handed-in file could use it to make the grader take
        another address."""
        if name in self._several:
            raise Stopped(
                Verdict.FAIL,
                f"two symbols of this kernel are called {name}: choose another name for yours")
        return self.symbols.get(name, 0)

    @property
    def text(self) -> tuple[int, int]:
        return self.symbol("_text"), self.symbol("_etext")

    def is_in(self, image: bytes) -> bool:
        """Does this image, which is what a machine boots, have the bytes of this ELF file?"""
        base = min(start for start, _ in self.loaded)
        return all(image[start - base:start - base + len(data)] == data
                   for start, data in self.loaded)

    def word(self, address: int) -> int:
        return int.from_bytes(self.read(address, 4), "little")

    def text_bytes(self) -> bytes:
        lo, hi = self.text
        return self.read(lo, hi - lo)

    def rest_text(self, lab: int) -> bytes:
        """The text as it must be while no tracer is on."""
        text, before = bytearray(self.text_bytes()), self.isa.word_before.get(self.hook)
        words = [*([before] if before is not None else []), self.isa.nop]
        rest = b"".join(word.to_bytes(4, "little") for word in words)
        for site in self.sites if lab >= 3 else []:
            end = site.address - self.text[0] + 4
            text[end - len(rest):end] = rest
        return bytes(text)

    def differing(self, first: bytes, second: bytes) -> list[int]:
        """The addresses of the words in which two copies of text differ. A word that one copy lacks
        counts as different."""
        lo, most = self.text[0], max(len(first), len(second))
        return ([] if first == second else [lo + i for i in range(0, most, 4)
                                            if first[i : i + 4] != second[i : i + 4]])

    def place(self, modules: tuple[Module, ...]) -> None:
        """A boot loads these modules too, each at its address. If two have one address, the sites
        have the names of the last."""
        self.modules = tuple(dict.fromkeys((*self.modules, *modules)))
        self.__dict__.pop("site_at", None)

    def module_at(self, address: int) -> Module | None:
        return next((m for m in reversed(self.modules) if m.base <= address < m.end), None)

    def function_at(self, address: int) -> Function | None:
        if module := self.module_at(address):
            return next((f for f in module.functions if f.start <= address < f.end), None)
        i = bisect_right(self._starts, address) - 1
        while i >= 0 and self.functions[
                i].end <= address and address - self.functions[i].start < 0x10000:
            i -= 1  # skip a nested or zero-length function
        found = self.functions[i] if i >= 0 else None
        return found if found and found.start <= address < found.end else None

    def name_at(self, address: int) -> str:
        function = self.function_at(address)
        if not function:
            return f"{address:#x}"
        offset = address - function.start
        return function.name + (f"+{offset:#x}" if offset else "")

    def extent(self, name: str) -> tuple[int, int]:
        """[start, end) of a function by name; (0, 0) if there is none."""
        start = self.symbol(name)
        return (start, start + self._sizes.get(name, 0)) if start else (0, 0)

    @property
    def hook(self) -> str:
        return "entry" if self.entries else "mcount"

    @property
    def link_register(self) -> int:
        """The register in which a site's call stores the return address."""
        return self.isa.link_register(self.hook)

    @cached_property
    def sites(self) -> list[Site]:
        """Every call site that the compiler made, sorted by address."""
        found = self._entry_sites() if self.entries else self._mcount_sites()
        return sorted(found, key=lambda s: s.address)

    def _entry_sites(self) -> list[Site]:
        skip, nop = self.isa.entry_skip, self.isa.nop
        return [self._site(entry + skip, nop) for entry in self.entries]

    def _mcount_sites(self) -> list[Site]:
        lo, hi = self.text
        mcount = self.symbol("_mcount")
        words = struct.unpack(f"<{(hi - lo) // 4}I", self.text_bytes())
        sites = []
        for address, before, word in zip(range(lo, hi, 4), (0, *words), words):
            called = self.isa.mcount_call(address, before, word)
            if called and called[0] == mcount and called[1]:
                sites.append(
                    self._site(address, self.isa.nop if self.symbol("ftrace_caller") else word))
        return sites

    def _site(self, address: int, rest: int) -> Site:
        function = self.function_at(address) or Function(f"{address:#x}", address, address + 4)
        return Site(address, function, self.word(address), rest)

    @cached_property
    def site_at(self) -> dict[int, Site]:
        """The kernel's sites, and those of its modules."""
        return {s.address: s for s in (*self.sites, *(s for m in self.modules for s in m.sites))}

    @cached_property
    def _placed(self) -> list[tuple[str, str, int, int]]:
        """From the linker's map: (section, source without its suffix, address, size) of each
        object's text and debug information. A kernel that was not built here has no map."""
        linked = self.path.with_suffix(".map")
        lines = re.findall(
            r"^ (\.text|\.debug_info)\S*\s+0x(\w+)\s+0x(\w+) build/\w+/[^/\s]+/(\S+)\.o$",
            linked.read_text() if linked.exists() else "", re.M)
        return [(section, name, int(at, 16), int(size, 16)) for section, at, size, name in lines]

    def code_of(self, *sources: str) -> list[tuple[int, int]]:
        """[start, end) of each section of code that was compiled from these files. A function may
        have a section of its own."""
        names = {source.rpartition(".")[0] for source in sources}
        return [(at, at + size) for section, name, at, size in self._placed
                if section == ".text" and name in names and size]

    def code_with(self, address: int) -> list[tuple[int, int]]:
        """[start, end) of each section of code that was compiled from the same file as this
        address."""
        return self.code_of(*(f"{name}.c" for section, name, at, size in self._placed
                              if section == ".text" and at <= address < at + size))

    def members(self, structure: str) -> dict[str, int]:
        """The offsets of a structure's members, as declared in its file of DECLARED; the key "" has
        its size."""
        if structure not in self._members:
            self._members[structure] = self._read_members(structure)
        return self._members[structure]

    def _read_members(self, structure: str) -> dict[str, int]:
        unit = next((at for section, name, at, _ in self._placed
                     if (section, name) == (".debug_info", DECLARED[structure])), None)
        if unit is None:
            raise Stopped(Verdict.HARNESS, f"{DECLARED[structure]}.o has no debug information, "
                          f"which says how struct {structure} is laid out")
        with self.path.open("rb") as file:
            for die in ELFFile(file).get_dwarf_info().get_CU_at(unit).iter_DIEs():
                attributes = die.attributes
                name = attributes.get("DW_AT_name")
                if (die.tag == "DW_TAG_structure_type" and name
                        and name.value == structure.encode() and "DW_AT_byte_size" in attributes):
                    named = [c.attributes for c in die.iter_children()
                             if "DW_AT_name" in c.attributes]
                    found = {of["DW_AT_name"].value.decode():
                             int(of["DW_AT_data_member_location"].value) for of in named}
                    return {"": int(attributes["DW_AT_byte_size"].value), **found}
        raise ValueError(f"{self.path.name} does not say how struct {structure} is laid out")

    def exits(self, name: str) -> list[int]:
        """The addresses of the instructions that leave a function: returns and tail calls."""
        lo, hi = self.extent(name)
        return [a for a in range(lo, hi, 4) if self.isa.leaves(a, self.word(a), lo, hi)]

    def jumps_to(self, address: int) -> int:
        """The target of a jump of one or two words; 0: unknown."""
        jump = self.isa.any_jump(address, self.word(address - 4), self.word(address))
        return jump[0] if jump else 0

    def disassemble(self, address: int, word: int | None = None) -> str:
        """The instruction at this address, or `word` as if it were there, with the name of the
        function to which it jumps."""
        module = self.module_at(address)
        word = word if word is not None else module.word(address) if module else self.word(address)
        jump = self.isa.jump(address, word)
        text = disassemble(self.isa, address, word)
        return f"{text}  <{self.name_at(jump[0])}>" if jump else text


def disassemble(isa: Isa, address: int, word: int) -> str:
    """The instruction as objdump prints it."""
    with tempfile.NamedTemporaryFile(prefix="callsite-insn-") as scratch:
        scratch.write(word.to_bytes(4, "little"))
        scratch.flush()
        out = subprocess.run([f"{isa.cross}objdump", "-D", "-b", "binary",
                              "-m", isa.objdump_machine, f"--adjust-vma={address:#x}",
                              scratch.name], capture_output=True, text=True, check=False).stdout
    # the first one, of a compressed instruction and what follows it
    line = next((line for line in out.splitlines() if line.count("\t") > 1), "")
    return " ".join(line.split("\t")[2:]).strip() or f".word {word:#010x}"

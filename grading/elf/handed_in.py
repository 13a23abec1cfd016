"""Checks the object of each handed-in file: which names, sections, relocations and instructions it
may have.

The harness finds what it watches by the names in the kernel, so a handed-in
object must not be able to change them. It may define only the names that its
lab's rubric.toml lists, refer only to names that a header of the kernel
declares, use only ordinary sections, and have no instruction that only the
kernel's own files need. make checks this before it links; a grade checks it
again, with the instructions as they were linked.

    python3 -m grading.elf.handed_in ARCH FOLDER OBJECT ...

OBJECT ...: all objects of the kernel; those of handed-in files have the same path
under FOLDER as their sources in the tree. Exits with 1 and a message if an
object breaks a rule.
"""

import functools
import io
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading.elf import halves, names
from grading.elf.elf import Kernel, disassemble
from qemu.isa import ISAS
from qemu.isa.common import Forms, is_one_of
from qemu.machine import ROOT

LARGEST = 256 << 10  # bytes that an object may add to the kernel; the largest solution adds 6 KiB
LONGEST = 1 << 20  # bytes of its symbol table, and of each section's relocations
PAGE = 4096
WRITE, ALLOC, EXECUTE, MERGE, STRINGS = 1, 2, 4, 0x10, 0x20
# LAID: sections that become part of the kernel: names, flags, type. BESIDE: the other sections that
# an object may have.
LAID = [(re.compile(r"\.text(\.(?!low\b|irqentry\b)[\w.]+)?"), ALLOC | EXECUTE, "SHT_PROGBITS"),
        (re.compile(r"\.s?rodata(\.[\w.]+)?"), ALLOC, "SHT_PROGBITS"),
        (re.compile(r"\.s?data(\.[\w.]+)?"), ALLOC | WRITE, "SHT_PROGBITS"),
        (re.compile(r"\.s?bss(\.[\w.]+)?"), ALLOC | WRITE, "SHT_NOBITS")]
BESIDE = {
    "SHT_NULL": re.compile(""),
    "SHT_PROGBITS": re.compile(r"\.debug_(?!gdb)\w+|\.comment|\.note\.GNU-stack"),
    "SHT_SYMTAB": re.compile(r"\.symtab"),
    "SHT_STRTAB": re.compile(r"\.strtab|\.shstrtab"),
    # versions of pyelftools differ
    **dict.fromkeys(("SHT_RISCV_ATTRIBUTES", "1879048195"), re.compile(r"\.riscv\.attributes"))
}
NAME = re.compile(r"[A-Za-z_$][\w.$]*|")
MADE = re.compile(r"\.L[\w.$]*( |[\1\2]\d+)?|\$[dx][\w.]*|")  # local names that the assembler makes
PROGRAMS = "/kern/apps/"


class Broken(Exception):
    """A rule is broken; the message continues a sentence that begins with the file's name."""


@dataclass(frozen=True)
class Rule:
    """The rules of a lab's rubric.toml for one file."""

    source: str
    defines: list[str] = field(default_factory=list)
    # names that it may use although no header declares them
    refers: list[str] = field(default_factory=list)
    # linker-collected sections in which it may have one entry each
    tables: list[str] = field(default_factory=list)
    # the label of a patched word -> the function that must contain it
    inside: dict[str, str] = field(default_factory=dict)


# ---- what is allowed ---------------------------------------------------------------

def rules(arch: str) -> dict[str, Rule]:
    """The rules by the object's path in the kernel's build folder."""
    found = {}
    for rubric in sorted(ROOT.glob("labs/[0-9]-*/rubric.toml")):
        said = tomllib.loads(rubric.read_text())
        for source in (Path(name) for of_half in halves.files(rubric, (arch,)).values()
                       for name in of_half if name.endswith((".c", ".S"))):
            found[str(source.with_suffix(".o"))] = Rule(
                str(source), **said.get("object", {}).get(source.name, {}))
    return found


@functools.cache
def declared() -> frozenset[str]:
    """Every identifier in the kernel's headers, without app.h, which is for programs."""
    return identifiers(*(path for path in ROOT.glob("kern/**/*.h")
                         if path.name != "app.h" and "tests" not in path.relative_to(ROOT).parts))


def identifiers(*headers: Path) -> frozenset[str]:
    text = re.sub(r"/\*.*?\*/|//[^\n]*", "", "".join(path.read_text() for path in headers),
                  flags=re.S)
    return frozenset(re.findall(r"[A-Za-z_]\w*", text))


@dataclass(frozen=True)
class Definition:
    name: str
    everywhere: bool  # is it a global name?
    by: Path


def definitions(arch: str, objects: list[Path]) -> list[Definition]:
    out = subprocess.run([f"{ISAS[arch].cross}nm", "-A", "--defined-only", *objects],
                         capture_output=True, text=True, check=True).stdout
    found, path = (re.fullmatch(r"(.*):[0-9a-f]{16} (\w) ([A-Za-z_][\w.]*)", line)
                   for line in out.splitlines()), {str(o): o for o in objects}
    return [Definition(m[3], m[2].isupper(), path[m[1]]) for m in found if m]


def taken(trusted: list[Definition]) -> dict[str, Path]:
    """Names that no handed-in file may define: the kernel's global names and all names of its
    programs, except those of the C library."""
    common = identifiers(ROOT / "kern/app.h")
    return {d.name: d.by for d in trusted
            if d.name not in common and (d.everywhere or PROGRAMS in str(d.by))}


def forbidden(arch: str, text: bytes, at: int, known: Iterable[int],
              more: Forms = ()) -> tuple[int, str] | None:
    """The first forbidden instruction of this text: its address, and what objdump prints. @known:
    addresses to which something points; @more: what else is forbidden."""
    isa = ISAS[arch]
    for address in sorted(isa.beginnings(text, at, known)):
        word = text[address - at:address - at + 4]
        number = int.from_bytes(word, "little")
        if len(word) == 4 and is_one_of(number, (*isa.system, *more)) and not is_one_of(
                number, isa.permitted):
            return address, f"'{' '.join(disassemble(isa, address, number).split())}'"
    return None


# ---- one object ----------------------------------------------------------------------

def pointed_to(elf: Any, place: Callable[[Any], int | None]) -> set[int]:
    """Where an object's symbols point to, and the relocations of what it adds to the kernel.
    @place: of a symbol, or None if it does not matter."""
    [table] = [s for s in elf.iter_sections() if s["sh_type"] == "SHT_SYMTAB"]
    places = [place(symbol) for symbol in table.iter_symbols()]
    relocations = [(places[r["r_info_sym"]], r["r_addend"]) for s in elf.iter_sections()
                   if s["sh_type"] == "SHT_RELA" and elf.get_section(s["sh_info"])["sh_flags"]
                   & ALLOC for r in s.iter_relocations()]
    return {at + addend for at, addend in [*((at, 0) for at in places), *relocations]
            if at is not None}


def name_in(elf: Any, section: int, offset: int) -> str:
    """A place in an object's section, by the last name before it."""
    table = elf.get_section_by_name(".symtab")
    named = [(s["st_value"], s.name) for s in table.iter_symbols() if s["st_shndx"] == section
             and s["st_value"] <= offset and s.name and not MADE.fullmatch(s.name)]
    start, name = max(named, default=(0, elf.get_section(section).name))
    return f"{name}+{offset - start:#x}"


@dataclass
class Object:
    rule: Rule
    arch: str
    elf: Any
    taken: dict[str, Path]  # names that trusted objects define
    shared: set[str]  # names that handed-in files may define

    def __post_init__(self) -> None:
        self.sections = list(self.elf.iter_sections())

    def examine(self) -> None:
        if (self.elf["e_type"], self.elf["e_machine"]) != (
                "ET_REL", ISAS[self.arch].elf_machine) or len(self.sections) > 1000:
            raise Broken("its object is not one that a compiler makes")
        for section in self.sections:
            self._section(section)
        if (size := sum(s["sh_size"] for s in self.sections if s["sh_flags"] & ALLOC)) > LARGEST:
            raise Broken(f"it adds {size} bytes to the kernel, and may add {LARGEST} at most")
        tables = [s for s in self.sections if s["sh_type"] == "SHT_SYMTAB"]
        if len(tables) != 1:
            raise Broken("its object does not have exactly one symbol table")
        symbols = list(tables[0].iter_symbols())
        for symbol in symbols:
            self._symbol(symbol)
        self._places([s for s in symbols if isinstance(s["st_shndx"], int)])
        self._instructions()

    def _section(self, section: Any) -> None:
        name, flags, kind = section.name, section["sh_flags"], str(section["sh_type"])
        if kind == "SHT_SYMTAB" and section["sh_size"] > LONGEST:
            raise Broken(f"it has {section['sh_size'] // 24} symbols")
        if kind == "SHT_RELA":
            return self._relocations(section)
        if name in self.rule.tables:
            if section["sh_size"] != 8 or flags != ALLOC:
                raise Broken(f"section {name} may have only one entry")
        elif flags & ALLOC:
            if not any(form.fullmatch(name) and (flags & ~(MERGE | STRINGS), kind) == (wanted, of)
                       for form, wanted, of in LAID):
                raise Broken(f"it may not have a section {name!a} with flags {flags:#x}")
        elif not (kind in BESIDE and BESIDE[kind].fullmatch(name)) or flags & ~(MERGE | STRINGS):
            raise Broken(f"it may not have a section {name!a}")
        if section["sh_addralign"] > PAGE:
            raise Broken(f"section {name} is aligned to {section['sh_addralign']} bytes, and may "
                         "be aligned to a page at most")
        return None

    def _instructions(self) -> None:
        # in assembly the observer checks these registers before each instruction
        more = ISAS[self.arch].sets_reserved if self.rule.source.endswith(".c") else ()
        for number, section in enumerate(self.sections):
            if not section["sh_flags"] & EXECUTE:
                continue

            def place(symbol: Any, here: int = number) -> int | None:
                return symbol["st_value"] if symbol["st_shndx"] == here else None

            known = pointed_to(self.elf, place)
            if found := forbidden(self.arch, section.data(), 0, known, more):
                raise Broken(f"it may not have the instruction {found[1]}, at "
                             f"{name_in(self.elf, number, found[0])}: that is for the kernel's own "
                             f"files")

    def _relocations(self, section: Any) -> None:
        target = self.sections[section["sh_info"]]
        if section.name != f".rela{target.name}":
            raise Broken(f"it may not have a section {section.name!a}")
        if target["sh_flags"] & ALLOC and section["sh_size"] > LONGEST:
            raise Broken(f"{target.name} has {section['sh_size'] // 24} relocations")
        for entry in section.iter_relocations() if target["sh_flags"] & ALLOC else ():
            kind, at = entry["r_info_type"], entry["r_offset"]
            if kind not in ISAS[self.arch].relocations:
                raise Broken(f"{target.name}+{at:#x} has relocation {kind}, which a handed-in file "
                             "may not have")
            if at + 4 > target["sh_size"]:
                raise Broken(f"{section.name} reaches {at:#x}, outside of its section")

    def _symbol(self, symbol: Any) -> None:
        name, kind, bound = symbol.name, symbol["st_info"]["type"], symbol["st_info"]["bind"]
        place = symbol["st_shndx"]
        if kind == "STT_FILE" or (kind, bound) == ("STT_NOTYPE",
                                                   "STB_LOCAL") and MADE.fullmatch(name):
            if not NAME.fullmatch(name) and name != Path(
                    self.rule.source).name and kind == "STT_FILE":
                raise Broken(f"its object names {name!a} as its source")
            return
        if not NAME.fullmatch(name):
            raise Broken(f"{name!a} is not a valid name")
        if kind not in ("STT_NOTYPE", "STT_FUNC", "STT_OBJECT",
                        "STT_SECTION") or bound not in ("STB_LOCAL", "STB_GLOBAL"):
            raise Broken(f"{name} is {bound.removeprefix('STB_').lower()} and of "
                         f"type {kind.removeprefix('STT_').lower()}: only ordinary functions and "
                         "variables are allowed")
        if place == "SHN_UNDEF":
            self._refers(name)
        elif place == "SHN_ABS":
            raise Broken(f"{name} is an absolute symbol: use #define for a number, or a name that "
                         "begins with .L")
        elif not isinstance(place, int):
            raise Broken(f"{name} has no place in a section ({place})")
        else:
            self._defines(name, bound == "STB_GLOBAL")

    def _refers(self, name: str) -> None:
        if (name and name not in declared() and name not in self.shared
                and name not in self.rule.refers):
            raise Broken(f"it refers to {name}, which no header of the kernel declares")

    def _defines(self, name: str, everywhere: bool) -> None:
        if everywhere and name not in self.rule.defines:
            raise Broken(f"it defines {name} for other files, and none of them may use it: make it "
                         "local (in C: static)")
        if not everywhere and (name in self.taken or name in self.shared):
            whose = self.taken.get(name)
            raise Broken(
                f"{name} is a name of {whose.name if whose else 'another file of the labs'}: "
                "choose another name")
        if name not in self.rule.defines and self._watched(name):
            raise Broken(f"{name} is a name that the harness looks for: choose another name")

    def _watched(self, name: str) -> bool:
        stub = names.STUB.fullmatch(name) and not self.rule.source.endswith("/caller.S")
        return bool(name in names.WATCHED or name.startswith("wl_") or stub)

    def _places(self, symbols: list[Any]) -> None:
        """Each symbol lies within its section, and no two functions or objects overlap."""
        sized: list[tuple[int, int, int, str]] = []
        for s in symbols:
            start, end, section = s["st_value"], s["st_value"] + s["st_size"], s["st_shndx"]
            if section >= len(self.sections) or end > self.sections[section]["sh_size"]:
                raise Broken(
                    f"{s.name or 'a symbol'} is not within its section: {start:#x} to {end:#x}")
            if s["st_info"][
                    "type"] == "STT_FUNC" and not self.sections[section]["sh_flags"] & EXECUTE:
                raise Broken(f"{s.name} is a function outside of text")
            if s["st_info"]["type"] in ("STT_FUNC", "STT_OBJECT") and s["st_size"]:
                sized.append((section, start, end, s.name))
        for (section, _, end, name), (other, start, _, at) in pairwise(sorted(sized)):
            if section == other and start < end:
                raise Broken(f"{name} and {at} overlap")
        where = {s.name: s for s in symbols}
        for word, function in self.rule.inside.items():
            self._within(where.get(word), where.get(function), word, function)

    def _within(self, word: Any, function: Any, name: str, of: str) -> None:
        if not word or not function or word["st_shndx"] != function["st_shndx"] or word[
                "st_value"] % 4 or not (function["st_value"] <= word["st_value"] <
                                        function["st_value"] + function["st_size"]):
            raise Broken(f"{name} must be an instruction of {of}")


# ---- a kernel ------------------------------------------------------------------------

def refused(arch: str, folder: Path, objects: list[Path]) -> str:
    """A sentence about the first handed-in object that breaks a rule, or ''."""
    known = {folder / name: rule for name, rule in rules(arch).items()}
    handed = [path for path in objects if path in known]
    names = taken(definitions(arch, [path for path in objects if path not in known]))
    shared = {name for path in handed for name in known[path].defines}
    for path in handed:
        try:
            with path.open("rb") as file:
                Object(known[path], arch, ELFFile(file), names, shared).examine()
        except Broken as why:
            return f"{known[path].source}: {why}"
        except Exception as why:  # pyelftools may raise anything for a malformed file
            return f"{known[path].source}: its object cannot be read ({type(why).__name__})"
    return ""


TREE = "tree"  # beside a copy of a kernel: a link to the tree that it was built in


def tree_of(elf: Path) -> Path:
    """The tree that a kernel was built in."""
    link = elf.parent / TREE
    return link.resolve() if link.is_symlink() else next(
        (p.parent for p in elf.resolve().parents if p.name == "build"), ROOT)


@functools.cache
def linked(elf: Path) -> tuple[Path, list[Path]]:
    """From the linker's map beside a kernel: the folder of its objects, and the objects."""
    tree = tree_of(elf)
    with elf.with_suffix(".map").open() as lines:
        objects = [tree / line[5:].strip() for line in lines if re.fullmatch(r"LOAD .*\.o\n", line)]
    return tree.joinpath(*objects[0].relative_to(tree).parts[:3]), objects  # build/<arch>/<variant>


def broken(kernel: Kernel) -> str:
    """refused() for all objects of a kernel. A kernel that was not built here has no map and is not
    checked."""
    return refused(kernel.arch, *linked(kernel.path)) or _made_by_the_linker(
        kernel) if kernel.path.with_suffix(".map").exists() else ""


def _made_by_the_linker(kernel: Kernel) -> str:
    """A sentence about a forbidden instruction that no object contains and that a relocation, or
    two objects side by side, created, or ''."""
    known = rules(kernel.arch)
    placed: dict[str, dict[str, tuple[int, int]]] = {}
    for section, at, size, path, name in re.findall(
            r"^ (\.text\S*)\s+0x(\w+)\s+0x(\w+) (build/\w+/[^/\s]+/(\S+\.o))$",
            kernel.path.with_suffix(".map").read_text(), re.M):
        if name in known and int(size, 16):
            placed.setdefault(path, {})[section] = int(at, 16), int(size, 16)
    opened = {path: ELFFile(io.BytesIO((tree_of(kernel.path) / path).read_bytes()))
              for path in placed}
    pointed = set[int]()
    for path, elf in opened.items():
        def place(symbol: Any, elf: Any = elf, at: Any = placed[path]) -> int | None:
            if not isinstance(symbol["st_shndx"], int):
                return kernel.symbols.get(symbol.name)
            start, _ = at.get(elf.get_section(symbol["st_shndx"]).name, (None, 0))
            return None if start is None else start + symbol["st_value"]

        pointed |= pointed_to(elf, place)
    for path, elf in opened.items():
        for section, (at, size) in placed[path].items():
            # an instruction may begin in its last bytes
            text = next(data[at - start:at - start + size + 2] for start, data in kernel.loaded
                        if start <= at < start + len(data))
            if found := forbidden(kernel.arch, text, at, pointed):
                source = known[str(Path(*Path(path).parts[3:]))].source
                where = name_in(elf, elf.get_section_index(section), found[0] - at)
                return (f"{source}: the linker makes another instruction into {found[1]}, at "
                        f"{where}: that is for the kernel's own files")
    return ""


def main() -> int:
    arch, folder, *objects = sys.argv[1:]
    if why := refused(arch, Path(folder), [Path(name) for name in objects]):
        print(f"build failure: {why}", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())

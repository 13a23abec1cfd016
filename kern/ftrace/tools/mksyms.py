"""Make the kernel's own symbol table from its first link.

    mksyms.py ELF [--args]  assembly on standard output; kern/base/ksyms.c reads the table
    mksyms.py --empty       the same labels with nothing in them, for the first link

Functions only, sorted by address; of several names for one address the first
global one. --args: each name is followed by the function's parameters, from
DWARF; kern/ftrace/trace/trace_args.h describes the format.

Where an argument is follows from the calling convention: the RISC-V ELF psABI (integer
calling convention, LP64) or AAPCS64, sections 6.8 and 6.9. DWARF also has a location
of most parameters, which GCC writes for a function's first instruction too; if the two
differ, GCC's is right (a packed structure, for example, cannot be recognised in DWARF).
The arguments of a clone that the compiler made ("name.isra.0") are not those of the
source: there only the location counts. What is not known has the place "?".
"""
import gc
import io
import sys
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

from elftools.dwarf.compileunit import CompileUnit
from elftools.dwarf.die import DIE
from elftools.dwarf.locationlists import BaseAddressEntry, LocationEntry, LocationParser
from elftools.elf.elffile import ELFFile

# on a full disk Python 3.11 may write half of it, which is read the next time
sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[3]))
from kernel_elf import Elf, Symbol  # noqa: E402
from output import put  # noqa: E402
from qemu.isa import Isa, isa_of  # noqa: E402
from qemu.isa.common import ARGUMENT_REGISTERS as REGISTERS  # noqa: E402

SIGNED = (5, 6)  # DW_ATE_signed, DW_ATE_signed_char
INTEGERS = (*SIGNED, 2, 7, 8, 16)  # and boolean, unsigned, unsigned_char, UTF
OTHER_NAMES = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type",
               "DW_TAG_restrict_type", "DW_TAG_atomic_type", "DW_TAG_enumeration_type")
COMPOSITES = {"DW_TAG_structure_type": "s", "DW_TAG_union_type": "u"}
OP_REG, OP_BREG, OP_FBREG, OP_PIECE, OP_CALL_FRAME_CFA = 0x50, 0x70, 0x91, 0x93, 0x9C


def symbols(elf: Elf) -> tuple[int, int, dict[int, str]]:
    """The beginning and the end of text, and each function's name by its address."""
    base, end = elf.symbols["_text"], elf.symbols["_etext"]
    functions: dict[int, Symbol] = {}
    for symbol in elf.table:
        if symbol.kind == "STT_FUNC" and base <= symbol.value < end:
            known = functions.setdefault(symbol.value, symbol)
            if known.local and not symbol.local:
                functions[symbol.value] = symbol
    return base, end, {address: symbol.name for address, symbol in functions.items()}


def origin(die: DIE, attribute: str) -> DIE:
    """The DIE that has the attribute: for a function that was also inlined, its abstract instance.
    """
    while attribute not in die.attributes and "DW_AT_abstract_origin" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    return die


def type_of(die: DIE) -> DIE:
    """The type, without its other names and qualifiers; of an enumeration its integer type."""
    die = origin(die, "DW_AT_type").get_DIE_from_attribute("DW_AT_type")
    while die.tag in OTHER_NAMES and "DW_AT_type" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_type")
    return die


def number(die: DIE, attribute: str) -> int:
    return int(die.attributes[attribute].value) if attribute in die.attributes else 0


def alignment(die: DIE) -> int:
    """Of a type by its members alone: AAPCS64 leaves out an attribute of the structure itself."""
    if die.tag == "DW_TAG_array_type":
        return alignment(type_of(die))
    if die.tag not in COMPOSITES:
        return number(die, "DW_AT_byte_size") or 8
    return max((number(m, "DW_AT_alignment") or alignment(type_of(m))
                for m in die.iter_children() if m.tag == "DW_TAG_member"), default=1)


def parameters_of(function: DIE) -> list[DIE]:
    return [die for die in function.iter_children() if die.tag == "DW_TAG_formal_parameter"]


class Kind(NamedTuple):
    """How a value of a type is passed."""

    letter: str  # trace_args.h
    words: int = 1  # registers, or words of the stack
    aligned: bool = False  # to 16 bytes
    by_reference: bool = False


UNKNOWN = Kind("?", 0)


def kind_of(die: DIE, isa: Isa) -> Kind:
    size, encoding = number(die, "DW_AT_byte_size"), number(die, "DW_AT_encoding")
    if die.tag == "DW_TAG_pointer_type":
        return Kind("p")
    if die.tag in COMPOSITES:
        letter = COMPOSITES[die.tag]
        if size > 16:
            return Kind("p", by_reference=True)
        if size <= 8:
            return Kind(letter) if size else Kind("e", 0)
        own = number(die, "DW_AT_alignment") if isa.own_alignment else 0
        return Kind(letter.upper(), 2, max(alignment(die), own) > 8)
    if encoding not in INTEGERS or size > 16:
        return UNKNOWN
    letters = "bhilq" if encoding in SIGNED else "BHILQ"
    return Kind(letters[size.bit_length() - 1], 1 + (size > 8), size > 8)


class Unit:
    """
    One source file. A place is the number of an argument register, or, from 8 on, of a word of the
    stack at the function's entry.
    """

    def __init__(self, unit: CompileUnit, lists: LocationParser, isa: Isa) -> None:
        self.unit, self.lists, self.isa, self.top = unit, lists, isa, unit.get_top_DIE()
        self.clang = b"clang" in self.top.attributes["DW_AT_producer"].value
        self.kinds: dict[int, Kind] = {}

    def kind(self, die: DIE) -> Kind:
        found = type_of(die)
        if found.offset not in self.kinds:
            self.kinds[found.offset] = kind_of(found, self.isa)
        return self.kinds[found.offset]

    def expression(self, parameter: DIE, start: int, local: bool) -> list[int]:
        """The location at the instruction @start; []: DWARF has none."""
        location = parameter.attributes.get("DW_AT_location")
        if location is None or location.form == "DW_FORM_exprloc":
            # For the whole function. Clang writes this also if the value comes from the stack.
            return [] if location is None or (self.clang and not local) else list(location.value)
        base = number(self.top, "DW_AT_low_pc")
        slack = self.isa.entry_skip + 4 if self.clang else 0  # its locations begin after the nops
        for entry in self.lists.parse_from_attribute(location, self.unit["version"], parameter):
            if isinstance(entry, BaseAddressEntry):
                base = entry.base_address
            elif isinstance(entry, LocationEntry):
                begin = entry.begin_offset + (0 if entry.is_absolute else base)
                if begin <= start + slack and start < begin + entry.end_offset - entry.begin_offset:
                    return list(entry.loc_expr)
        return []

    def located(self, parameter: DIE, kind: Kind, function: DIE) -> int | None:
        """The place at the function's entry, as DWARF has it; None: it does not say."""
        start, base = number(function, "DW_AT_low_pc"), function.attributes.get("DW_AT_frame_base")
        match self.expression(parameter, start, self.may_be_changed(function)):
            case [op] if kind.words == 1 and not kind.by_reference:
                place = op - OP_REG - self.isa.arguments[0]
            case [op, 0] if kind.by_reference:
                place = op - OP_BREG - self.isa.arguments[0]
            case [op, 0x93, 8, second, 0x93, _] if kind.words == 2 and second == op + 1:  # OP_PIECE
                place = op - OP_REG - self.isa.arguments[0]
            case [0x91, *leb] if kind.words and base and base.value == [OP_CALL_FRAME_CFA]:
                offset = sum((byte & 0x7F) << 7 * i for i, byte in enumerate(leb))  # OP_FBREG
                return None if leb[-1] & 0x40 or offset % 8 else REGISTERS + offset // 8
            case _:
                return None
        return place if 0 <= place < REGISTERS else None

    def assigned(self, free: int, kind: Kind) -> int:
        """The place by the calling convention, if the places before @free are taken."""
        return self.isa.argument_place(free, kind.words, kind.aligned)

    def places(self, function: DIE, clone: bool) -> list[tuple[str, Kind, int | None]]:
        """The name, kind and place of each parameter; None: the place is not known."""
        dies = parameters_of(function)
        if clone:  # in the source's order, and also those that it does not have
            kept = {origin(die, "DW_AT_name").offset: die for die in dies}
            source = origin(function, "DW_AT_name")
            dies = [kept.get(die.offset, die) for die in parameters_of(source)]
        local = self.may_be_changed(function)
        # One word each: the calling convention leaves no doubt, and the locations need not be read.
        simple = not clone and not local and all(self.kind(die).words == 1 for die in dies)
        found: list[tuple[str, Kind, int | None]] = []
        free: int | None = self.isa.first_argument(self.result(function).by_reference)
        sure = 0  # the places before this parameter are confirmed by a location
        for die in dies:
            kind, name = self.kind(die), origin(die, "DW_AT_name").attributes.get("DW_AT_name")
            at = None if simple else self.located(die, kind, function)
            place = None if free is None else self.assigned(free, kind)
            free = None if place is None or kind == UNKNOWN else place + kind.words
            if at != place and at is not None and not clone:
                # Of Clang's locations it is not certain either that they are those at the entry.
                found[sure:] = [(n, k, None) for n, k, _ in found[sure:]]
                place, free = (None, None) if self.clang else (at, at + kind.words)
            elif clone or local:
                place = at
            sure = sure if at is None else len(found) + 1
            found.append((name.value.decode() if name else "", kind, place))
        return found

    def may_be_changed(self, function: DIE) -> bool:
        """Clang changes the arguments of a local function without a new name."""
        return self.clang and "DW_AT_external" not in origin(function, "DW_AT_external").attributes

    def result(self, function: DIE) -> Kind:
        function = origin(function, "DW_AT_type")
        return self.kind(function) if "DW_AT_type" in function.attributes else Kind("v", 0)

    def parameters(self, function: DIE, symbol: str) -> str:
        places = self.places(function, "." in symbol)
        registers = max((min(place + kind.words, REGISTERS) for _, kind, place in places
                         if place is not None and place < REGISTERS), default=0)
        result = self.result(function)
        # IPA-SRA, the split of a function, and Clang in a local function may remove the result.
        removed = ".isra." in symbol or ".part." in symbol or self.may_be_changed(function)
        letter = "v" if result.letter == "e" else "m" if result.by_reference else result.letter
        text = f"{registers}{'?' if removed and letter != 'v' else letter}"
        end = 0
        for name, kind, place in places:
            if place is None or kind == UNKNOWN:
                text += f"?{name},"
                continue
            text += f"{kind.letter}{place if place != end and kind.words else ''}{name},"
            end = place + kind.words
        return text


def functions_of(path: str) -> dict[int, tuple[Unit, DIE]]:
    with open(path, "rb") as f:
        elf = ELFFile(io.BytesIO(f.read()))
    dwarf, isa = elf.get_dwarf_info(), isa_of(elf["e_machine"])
    lists = LocationParser(dwarf.location_lists())
    units = [Unit(unit, lists, isa) for unit in dwarf.iter_CUs()]
    return {die.attributes["DW_AT_low_pc"].value: (unit, die)
            for unit in units for die in unit.top.iter_children()
            if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes}


def with_parameters(names: dict[int, str], path: str, end: int) -> dict[int, str]:
    """In DWARF a function may begin after its entry nops, but always before the next function."""
    found, ends = functions_of(path), dict(pairwise([*sorted(names), end]))
    text = {}
    for address, name in names.items():
        starts = (address, address + 4, address + 8)
        at = next((i for i in starts if i in found and i < ends[address]), 0)
        text[address] = f"{name}\0" + (found[at][0].parameters(found[at][1], name) if at else "")
    return text


def words(label: str, values: list[int]) -> list[str]:
    return [f"{label}:", *(f"\t.4byte {value}" for value in values)]


def assembly(base: int, end: int, names: dict[int, str]) -> str:
    addresses = sorted(names)
    ends = list(accumulate(len(names[address]) + 1 for address in addresses))
    return "\n".join([
        '\t.section .ksyms, "a"', "\t.balign 4",
        "\t.globl ksym_count, ksym_offsets, ksym_names, ksym_text",
        *words("ksym_count", [len(addresses)]),
        *words("ksym_offsets", [a - base for a in addresses] + [end - base]),
        *words("ksym_names", [0, *ends][:len(addresses)]), "ksym_text:",
        *('\t.asciz "' + names[address].replace("\0", "\\000") + '"' for address in addresses),
        "\t.balign 8", ""
    ])


def main() -> int:
    base, end, names = 0, 0, dict[int, str]()
    if sys.argv[1] != "--empty":
        gc.disable()  # it would take a third of the time and free nothing
        base, end, names = symbols(Elf(sys.argv[1]))
        if "--args" in sys.argv:
            names = with_parameters(names, sys.argv[1], end)
    return put(assembly(base, end, names))


if __name__ == "__main__":
    sys.exit(main())

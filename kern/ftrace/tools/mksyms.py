"""Make the kernel's own symbol table from its first link.

    mksyms.py ELF [--args]  assembly on standard output; kern/ksyms.c reads the table
    mksyms.py --empty       the same labels with nothing in them, for the first link

Functions only, sorted by address; of several names for one address the first
global one. --args: each name is followed by the function's parameters, from
DWARF; kern/ftrace/trace/trace_args.c describes the format. A function that the
compiler made from another ("name.isra.0") has no parameters in the table: its
arguments are not those of the source.
"""
import contextlib
import gc
import io
import struct
import sys
from itertools import pairwise

from elftools.dwarf.die import DIE
from elftools.elf.elffile import ELFFile

sys.dont_write_bytecode = True  # on a full disk Python 3.11 may write half of it, which is read the next time
from output import put  # noqa: E402

STT_FUNC, STB_LOCAL, SHT_SYMTAB = 2, 0, 2
SIGNED = (5, 6)  # DW_ATE_signed, DW_ATE_signed_char
NAMELESS = ("DW_TAG_typedef", "DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type",
            "DW_TAG_atomic_type")
ARGUMENT_REGISTERS = 8


def sections(elf: bytes) -> list[tuple[int, ...]]:
    (start,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    return [struct.unpack_from("<IIQQQQIIQQ", elf, start + i * size) for i in range(count)]


def name_at(elf: bytes, offset: int) -> str:
    return elf[offset:elf.index(b"\0", offset)].decode()


def symbols(elf: bytes) -> tuple[int, int, dict[int, str]]:
    """KERNEL_BASE, the end of text, and each function's name by its address."""
    headers = sections(elf)
    table = next(s for s in headers if s[1] == SHT_SYMTAB)
    strings = headers[table[6]][4]
    functions: dict[int, tuple[bool, str]] = {}
    marks: dict[str, int] = {}
    for at in range(table[4], table[4] + table[5], 24):
        name_offset, info, _, _, value, _ = struct.unpack_from("<IBBHQQ", elf, at)
        name = name_at(elf, strings + name_offset)
        if name in ("_text", "_etext"):
            marks[name] = value
        if info & 15 == STT_FUNC:
            local = info >> 4 == STB_LOCAL
            if value not in functions or (functions[value][0] and not local):
                functions[value] = (local, name)
    inside = {a: n for a, (_, n) in functions.items() if marks["_text"] <= a < marks["_etext"]}
    return marks["_text"], marks["_etext"], inside


def origin(die: DIE, attribute: str) -> DIE:
    """The DIE that has the attribute: for a function that was also inlined, its abstract instance."""
    while attribute not in die.attributes and "DW_AT_abstract_origin" in die.attributes:
        die = die.get_DIE_from_attribute("DW_AT_abstract_origin")
    return die


def type_of(die: DIE) -> DIE:
    return origin(die, "DW_AT_type").get_DIE_from_attribute("DW_AT_type")


def kind_of(die: DIE) -> str:
    """A parameter type as one letter; ".": one whose place is not known."""
    while die.tag in NAMELESS or die.tag == "DW_TAG_enumeration_type":
        die = type_of(die)
    size = die.attributes["DW_AT_byte_size"].value if "DW_AT_byte_size" in die.attributes else 0
    if die.tag == "DW_TAG_pointer_type" or size > 16:  # larger ones are passed by their address
        return "p"
    if die.tag == "DW_TAG_base_type" and size <= 8:
        return ("bhil" if die.attributes["DW_AT_encoding"].value in SIGNED else "BHIL")[size.bit_length() - 1]
    letter = {"DW_TAG_structure_type": "s", "DW_TAG_union_type": "u"}.get(die.tag, ".")
    return letter if size <= 8 else letter.upper()


def parameters(function: DIE) -> str:
    text, registers = "", 0
    for die in function.iter_children():
        if die.tag != "DW_TAG_formal_parameter":
            continue
        kind, named = kind_of(type_of(die)), origin(die, "DW_AT_name")
        if kind == "." or registers + 1 + (kind in "SU") > ARGUMENT_REGISTERS:
            text += ".,"
            break
        registers += 1 + (kind in "SU")
        text += f"{kind}{named.attributes['DW_AT_name'].value.decode() if 'DW_AT_name' in named.attributes else ''},"
    if "DW_AT_type" not in origin(function, "DW_AT_type").attributes:
        return chr(ord("@") + registers) + text
    return f"{registers}{text}" if text else ""


def all_parameters(path: str) -> dict[int, str]:
    with open(path, "rb") as f:
        return {die.attributes["DW_AT_low_pc"].value: parameters(die)
                for unit in ELFFile(f).get_dwarf_info().iter_CUs() for die in unit.get_top_DIE().iter_children()
                if die.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in die.attributes}


def with_parameters(names: dict[int, str], found: dict[int, str], end: int) -> dict[int, str]:
    """In DWARF a function may begin after its one or two entry nops, but always before the next function."""
    ends = dict(pairwise([*sorted(names), end]))
    return {a: f"{n}\0" + ("" if "." in n else next((found[i] for i in (a, a + 4, a + 8)
                                                     if i in found and i < ends[a]), ""))
            for a, n in names.items()}


def emit(base: int, end: int, names: dict[int, str]) -> None:
    addresses = sorted(names)
    text, starts = "", []
    for address in addresses:
        starts.append(len(text))
        text += names[address] + "\0"
    print('\t.section .ksyms, "a"\n\t.balign 4')
    print("\t.globl ksym_count, ksym_offsets, ksym_names, ksym_text")
    print(f"ksym_count:\n\t.4byte {len(addresses)}")
    words("ksym_offsets", [a - base for a in addresses] + [end - base])
    words("ksym_names", starts)
    print("ksym_text:")
    for address in addresses:
        print('\t.asciz "' + names[address].replace("\0", "\\000") + '"')
    print("\t.balign 8")


def words(label: str, values: list[int]) -> None:
    print(f"{label}:")
    for value in values:
        print(f"\t.4byte {value}")


def main() -> int:
    base, end, names = 0, 0, dict[int, str]()
    if sys.argv[1] != "--empty":
        with open(sys.argv[1], "rb") as f:
            base, end, names = symbols(f.read())
        if "--args" in sys.argv:
            gc.disable()  # it would take a third of the time and free nothing
            names = with_parameters(names, all_parameters(sys.argv[1]), end)
    with contextlib.redirect_stdout(io.StringIO()) as text:
        emit(base, end, names)
    return put(text.getvalue())


sys.exit(main())

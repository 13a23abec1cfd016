"""Make the kernel's own symbol table from its first link.

    mksyms.py ELF        assembly on standard output; kern/ksyms.c reads the table
    mksyms.py --empty    the same labels with nothing in them, for the first link

Functions alone, by address; of several names for one address the first global.
"""
import struct
import sys

STT_FUNC, STB_LOCAL, SHT_SYMTAB = 2, 0, 2


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
        print(f'\t.asciz "{names[address]}"')
    print("\t.balign 8")


def words(label: str, values: list[int]) -> None:
    print(f"{label}:")
    for value in values:
        print(f"\t.4byte {value}")


def main() -> None:
    if sys.argv[1] == "--empty":
        emit(0, 0, {})
    else:
        with open(sys.argv[1], "rb") as f:
            emit(*symbols(f.read()))


main()

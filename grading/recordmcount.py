"""The student's recordmcount, run over a file that is made here: its call sites come in an order that the seed chooses.

With -pg they are found in the order of their addresses, and nothing shows whether the table is sorted.
"""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from qemu.machine import ROOT

MKRECORDS = ROOT / "kern/ftrace/mkrecords.py"  # as in the build: in a sandbox, and believed nothing
BASE = 0xFFFFFFFF80000000
MACHINE = {"riscv64": 243, "arm64": 183}
NOP = {"riscv64": 0x13, "arm64": 0xD503201F}
TOGGLED = {"riscv64": 0, "arm64": 4}  # from an entry to the word that changes
PROGBITS, SYMTAB, STRTAB = 1, 2, 3


def entries(seed: int, count: int = 200) -> list[int]:
    """Where call sites are, as offsets in text, and in no order."""
    return [8 * n for n in random.Random(seed).sample(range(1, 20 * count), count)]


def _section(name: int, kind: int, flags: int, address: int, offset: int, size: int) -> bytes:
    link, info, entry = (4, 1, 24) if kind == SYMTAB else (0, 0, 0)
    return struct.pack("<IIQQQQIIQQ", name, kind, flags, address, offset, size, link, info, 8, entry)


def elf(arch: str, offsets: list[int]) -> bytes:
    """A linked kernel of HOOK=entry whose section of entries names these offsets of text, in this order."""
    text = struct.pack("<I", NOP[arch]) * (max(offsets) // 4 + 4)
    symbols, strings = bytes(24), b"\0"
    for name, value in (("_text", 0), ("__ftrace_text_start", 0), ("__ftrace_text_end", 4), ("_etext", len(text))):
        symbols += struct.pack("<IBBHQQ", len(strings), 0x10, 0, 1, BASE + value, 0)
        strings += name.encode() + b"\0"
    names = b"\0.text\0__patchable_function_entries\0.symtab\0.strtab\0.shstrtab\0"
    sections = [(".text", PROGBITS, 6, BASE, text),
                ("__patchable_function_entries", PROGBITS, 2, 0, b"".join(struct.pack("<Q", BASE + o) for o in offsets)),
                (".symtab", SYMTAB, 0, 0, symbols), (".strtab", STRTAB, 0, 0, strings), (".shstrtab", STRTAB, 0, 0, names)]
    body, headers = b"", bytes(64)
    for title, kind, flags, address, data in sections:
        at = names.index(b"\0" + title.encode() + b"\0") + 1
        headers += _section(at, kind, flags, address, 64 + len(body), len(data))
        body += data + bytes(-len(data) % 8)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2, MACHINE[arch], 1, BASE, 0, 64 + len(body), 0, 64, 56, 0,
                         64, 1 + len(sections), len(sections))
    return header + body + headers


def table(tool: Path, arch: str, offsets: list[int]) -> tuple[list[int], str]:
    """The offsets in the table that the tool writes for call sites in this order, and its complaint, if it has one."""
    with tempfile.NamedTemporaryFile(suffix=".elf") as file:
        file.write(elf(arch, offsets))
        file.flush()
        done = subprocess.run([sys.executable, MKRECORDS, tool, file.name], capture_output=True, text=True, check=False)
    lines = done.stdout.partition("ftrace_records:")[2].partition(".section")[0].splitlines()
    found = [int(line.split()[1], 0) & 0xFFFFFFFF for line in lines if line.strip().startswith(".quad 0x")]
    return found, done.stderr.strip() or (f"it ends with status {done.returncode}" if done.returncode else "")

"""Makes ELF files that no compiler makes, and runs the student's recordmcount on them.

One file is for HOOK=entry: its call sites come in a random order, whereas -pg's are found in the
order of their addresses. The other is for HOOK=mcount: it has calls of _mcount, and words that are
almost such a call.
"""

import os
import random
import shlex
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from elftools.elf.enums import ENUM_E_MACHINE  # type: ignore[import]

from grading.elf.elf import KERNEL_BASE
from qemu.isa import ISAS
from qemu.machine import ROOT, WITH_US

# it runs the tool as the build does, in a sandbox, and checks its output
MKRECORDS = ROOT / "kern/ftrace/tools/mkrecords.py"
CRASHED = 2  # its exit status if the tool ended with a signal
PROGBITS, SYMTAB, STRTAB = 1, 2, 3
# Text from here on has addresses on both sides of a multiple of 4 GiB: the lower halves of two of
# them may be in another order.
ACROSS = 0xFFFF_FFFF_0000_0000 - 0x4000


def entries(seed: int, count: int = 200) -> list[int]:
    """Offsets of call sites in text, in random order."""
    return [8 * n for n in random.Random(seed).sample(range(1, 20 * count), count)]


def entry_elf(arch: str, offsets: list[int], base: int = KERNEL_BASE) -> bytes:
    """The ELF file of a linked kernel for HOOK=entry, whose __patchable_function_entries has these
    offsets, in this order."""
    return elf(arch, [ISAS[arch].nop] * (max(offsets) // 4 + 4), entries=offsets, base=base)


@dataclass
class Calls:
    """Text with calls of _mcount, and with decoys: words that are almost such a call."""

    words: list[int]
    mcount: int  # offset of _mcount
    sites: list[int] = field(default_factory=list)  # offset of each call's last word
    # offset of each decoy's last word -> what the decoy is
    decoys: dict[int, str] = field(default_factory=dict)
    # decoys that are calls -> the distance of their target from _mcount
    beside: dict[int, int] = field(default_factory=dict)

    def elf(self, arch: str, more: int = 0, base: int = KERNEL_BASE, rest: bytes = b"") -> bytes:
        return elf(arch, self.words, {"_mcount": self.mcount}, (), more, base, rest)


def calls(arch: str, seed: int, count: int = 60) -> Calls:
    rng, slot, slots, isa = random.Random(seed), 4, 1 << 12, ISAS[arch]
    made = Calls([isa.nop] * (slot * slots), 4 * slot * rng.randrange(slots // 4, 3 * slots // 4))
    places = [4 * slot * n for n in rng.sample(range(1, slots - 1), count + 200)
              if 4 * slot * n != made.mcount]

    def put(at: int, words: list[int], decoy: str = "") -> int:
        made.words[at // 4:at // 4 + len(words)] = words
        last = at + 4 * len(words) - 4
        if decoy:
            made.decoys[last] = decoy
        else:
            made.sites.append(last)
        return last

    length = len(isa.mcount_words(0, 0))
    # also the first and last words of .text
    for at in [0, 4 * (len(made.words) - length), *(places.pop() for _ in range(count))]:
        put(at, isa.mcount_words(at, made.mcount))
    for what, bits in isa.almost_mcount():
        at = places.pop()
        put(at, [word ^ other for word, other in zip(isa.mcount_words(at, made.mcount), bits)],
            what)
    far = [1 << n for n in range(16, 32 if isa.pair else 28)]  # an upper bit of the offset
    for by in (-4096, -8, -4, 4, 8, 4096, *far):
        at = places.pop()
        by = -by if by in far and at <= made.mcount else by  # the other way, so that it is in reach
        made.beside[put(at, isa.mcount_words(at, made.mcount + by),
                        f"a call to _mcount{by:+d}")] = by
    if isa.pair:
        for start in (0, 4):  # the word from which the offset is counted
            at = places.pop()
            first, second = isa.mcount_words(at + start, made.mcount)
            put(at, [first, isa.nop, second],
                "an auipc ra and a jalr ra, lo(ra), with an instruction between")
    made.sites.sort()
    return made


def elf(arch: str, words: list[int], others: dict[str, int] | None = None,
        entries: Sequence[int] = (), more: int = 0, base: int = KERNEL_BASE,
        rest: bytes = b"") -> bytes:
    """The ELF file of a linked kernel with this text, the usual symbols and `others` at these
    offsets, and patchable entries at `entries`. `more`: bytes that text has by its section's header
    and the file does not have. `rest`: the last bytes of text, less than a word."""
    text = struct.pack(f"<{len(words)}I", *words) + rest
    symbols, strings = bytes(24), b"\0"
    for name, value in {"_text": 0, "__ftrace_text_start": 0, "__ftrace_text_end": 4,
                        "_etext": len(text), **(others or {})}.items():
        symbols += struct.pack("<IBBHQQ", len(strings), 0x10, 0, 1, base + value, 0)
        strings += name.encode() + b"\0"
    names = b"\0.text\0__patchable_function_entries\0.symtab\0.strtab\0.shstrtab\0"
    found = struct.pack(f"<{len(entries)}Q", *(base + at for at in entries))
    sections = [(".text", PROGBITS, 6, base, text),
                ("__patchable_function_entries", PROGBITS, 2, 0, found),
                (".symtab", SYMTAB, 0, 0, symbols), (".strtab", STRTAB, 0, 0, strings),
                (".shstrtab", STRTAB, 0, 0, names)]
    body, headers = b"", bytes(64)
    for title, kind, flags, address, data in sections:
        at = names.index(b"\0" + title.encode() + b"\0") + 1
        link, info, size = (4, 1, 24) if kind == SYMTAB else (0, 0, 0)
        headers += struct.pack("<IIQQQQIIQQ", at, kind, flags, address, 64 + len(body),
                               len(data) + more * (title == ".text"), link, info, 8, size)
        body += data + bytes(-len(data) % 8)
    header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 2,
                         ENUM_E_MACHINE[ISAS[arch].elf_machine], 1, base, 0, 64 + len(body),
                         0, 64, 56, 0, 64, 1 + len(sections), len(sections))
    return header + body + headers


def by_hand(tool: Path, kernel: Path) -> str:
    """The command that runs the tool on this file again."""
    return shlex.join([sys.executable, *(os.path.relpath(p) for p in (MKRECORDS, tool, kernel))])


def run(tool: Path, kernel: bytes, file: Path) -> subprocess.CompletedProcess[str]:
    """Run the tool on this kernel, which is kept as `file`, with the table beside it."""
    file.write_bytes(kernel)
    done = subprocess.run([*WITH_US, sys.executable, MKRECORDS, tool, file], capture_output=True,
                          text=True, check=False)
    file.with_suffix(".S").write_text(done.stdout)
    return done


def table(tool: Path, kernel: bytes, file: Path) -> tuple[list[int], str]:
    """The offsets in the table that the tool writes for this kernel, and its error message or ''.
    """
    done = run(tool, kernel, file)
    lines = done.stdout.partition("ftrace_records:")[2].partition(".section")[0].splitlines()
    found = [int(line.split()[1], 0) & 0xFFFFFFFF for line in lines
             if line.strip().startswith(".quad 0x")]
    return found, done.stderr.strip() or (f"it ended with status {done.returncode}"
                                          if done.returncode else "")

"""The observer's two files: the list of addresses that it is given, and its log."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from qemu.plugin import build

HEADER = 4096
RECORD = struct.Struct("<QQIBBH")
MAGIC = 0x31736243
KERNEL_BASE = 0xFFFFFFFF80000000
CAPACITY = 8_000_000


class Kind(IntEnum):
    START = 1
    SITE = 2
    POINT = 3
    MEM = 4
    RETURN = 5
    VECTOR = 6
    FENCE = 7
    STORE = 8


SITE = int(Kind.SITE)


class Record(NamedTuple):
    """One thing that happened; `seq` is its place in the order of the whole machine."""

    seq: int
    addr: int
    insns: int
    value: int
    kind: int
    vcpu: int
    size: int

    def pc(self) -> int:
        """A MEM record's instruction: its address is that which was touched."""
        return (KERNEL_BASE & ~0xFFFFFFFF) | self.value if self.kind == Kind.MEM else self.addr


@dataclass
class Config:
    """What to look at: virtual addresses, except the first three."""

    start: int
    text: int
    text_end: int
    sites: list[int] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    mems: list[int] = field(default_factory=list)
    mem_ranges: list[tuple[int, int]] = field(default_factory=list)
    probes: list[tuple[int, int]] = field(default_factory=list)
    returns: list[tuple[int, int]] = field(default_factory=list)
    vectors: list[int] = field(default_factory=list)
    fences: bool = True

    def text_form(self) -> str:
        lines = [f"start {self.start:x}", f"text {self.text:x} {self.text_end:x}"]
        lines += [f"site {a:x}" for a in self.sites]
        lines += [f"point {a:x}" for a in self.points]
        lines += [f"mem {a:x}" for a in self.mems]
        lines += [f"memrange {lo:x} {hi:x}" for lo, hi in self.mem_ranges]
        lines += [f"probe {lo:x} {hi:x}" for lo, hi in self.probes]
        lines += [f"returns {lo:x} {hi:x}" for lo, hi in self.returns]
        lines += [f"vector {a:x}" for a in self.vectors]
        return "\n".join(lines + (["fences"] if self.fences else [])) + "\n"


def parts(first: int, end: int, windows: list[tuple[int, int]]) -> Iterator[tuple[int, int, bool]]:
    """The log cut at its windows, each part with whether it is inside of one. They are sorted, and may overlap."""
    at = first
    for lo, hi in windows:
        lo, hi = max(lo, at), min(hi, end)
        if lo < hi:
            yield at, lo, False
            yield lo, hi, True
            at = hi
    yield at, end, False


class Observer:
    """The observer of one run: files in `directory`, the argument for QEMU, the log."""

    def __init__(self, arch: str, config: Config, directory: Path) -> None:
        self._config = directory / "observer.conf"
        self._log = directory / "observer.log"
        self._config.write_text(config.text_form())
        with self._log.open("wb") as log:
            log.truncate(HEADER + RECORD.size * CAPACITY)
        self._file = self._log.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), 0)
        self.plugin = f"{build(arch)},config={self._config},log={self._log}"

    def _word(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self._map, offset)[0])

    def loaded(self) -> bool:
        return bool(struct.unpack_from("<I", self._map, 0)[0] == MAGIC)

    def written(self) -> int:
        """Records so far; more than the file holds are counted, and lost."""
        return self._word(16)

    def lost(self) -> int:
        return max(0, self.written() - CAPACITY)

    def starts(self) -> int:
        return self._word(24)

    def insns(self) -> list[int]:
        """Instructions executed by each vCPU."""
        return [n for n in struct.unpack_from("<64Q", self._map, 32) if n]

    def records(self, first: int = 0, last: int | None = None, windows: list[tuple[int, int]] | None = None,
                always: frozenset[int] = frozenset(), often: frozenset[int] = frozenset()) -> Iterator[Record]:
        """In order; of the call sites, and of the points in `often`, only those in `windows`, if there are any, and those
        that are wanted always."""
        end = min(self.written() if last is None else last, CAPACITY)
        for lo, hi, inside in parts(first, end, windows or [(first, end)]):
            for seq, (addr, insns, value, kind, vcpu, size) in enumerate(RECORD.iter_unpack(self._bytes(lo, hi)), lo):
                if kind and (inside or kind > SITE and addr not in often or addr in always):
                    yield Record(seq, addr, insns, value, kind, vcpu, size)

    def _bytes(self, first: int, last: int) -> bytes:
        return self._map[HEADER + first * RECORD.size: HEADER + last * RECORD.size]

    def close(self) -> None:
        self._map.close()
        self._file.close()
        with self._log.open("r+b") as log:  # keep what was written, not the hole behind it
            header = log.read(HEADER)
            records = min(struct.unpack_from("<Q", header, 16)[0], CAPACITY)
            log.truncate(HEADER + RECORD.size * records)


def saved(log: Path, first: int = 0, last: int = CAPACITY) -> Iterator[Record]:
    """The records of a run that has ended."""
    with log.open("rb") as file:
        file.seek(HEADER + first * RECORD.size)
        data = file.read((last - first) * RECORD.size)
    for seq, (addr, insns, value, kind, vcpu, size) in enumerate(RECORD.iter_unpack(data), first):
        if kind:
            yield Record(seq, addr, insns, value, kind, vcpu, size)

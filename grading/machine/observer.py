"""The harness's side of the observer: writes its configuration and the text as linked, and decodes
its log."""

import mmap
import os
import shutil
import struct
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

from grading.verdict import Stopped, Verdict
from qemu import plugin
from qemu.disk import naming

HEADER = 4096
SLOT = struct.Struct("<BBBBHHIIQQQQQQ")
MAGIC = 0x32736243
MOST = 4  # additional slots of a record at most; they have words of registers or memory
WORDS = [struct.Struct(f"<{8 * slots}Q") for slots in range(MOST + 1)]
RESERVED, STARTS, RECORDING, INSNS = 16, 24, 32, 40  # offsets in the header
ORDERING = INSNS + 8 * 64
BETWEEN = ORDERING + 8


class Kind(IntEnum):
    START = 1
    SITE = 2  # mask of changed registers, parent, sp, frame pointer
    # mask of changed registers, first argument register, link register, sp; perhaps eight argument
    # registers
    BODY = 3
    EXIT = 4  # the return address, the return value, sp, frame pointer
    HOME = 5  # the same as BODY
    CALLBACK = 6  # its arguments; four frame records (frame below, return address); words of memory
    HIT = 7  # the first three argument registers and the link register
    POINT = 8  # the same as HIT
    VECTOR = 9  # the exception's cause, its pc, the faulting address, the link register
    FENCE = 10  # a cache operation's address
    STORE = 11  # offset in text, value, upper half of a 16-byte value
    LOOK = 12
    WORD = 13
    FOREIGN = 14  # sp
    SETTING = 15  # the new value of a system register
    MIDDLE = 16
    BELOW = 17  # sp
    WRITE = 18  # address, value, upper half of a 16-byte value
    READ = 19  # the same as WRITE
    BETWEEN = 20  # sp; sp where the registers were kept; mask of registers with wrong values


KINDS = len(Kind)


class Record(NamedTuple):
    """One event that the observer logged; `seq` is its place in the order of the whole machine."""

    seq: int
    kind: int
    vcpu: int
    level: int
    trap: int
    size: int  # of a store or a write; else the number of the recording
    word: int
    thread: int
    addr: int
    insns: int
    v: tuple[int, int, int, int]
    more: tuple[int, ...] = ()

    @property
    def after(self) -> int:
        """The slot after the record."""
        return self.seq + 1 + len(self.more) // 8

    @property
    def context(self) -> tuple[int, int, int]:
        """Identifies a thread, or one interrupt of a thread."""
        return self.thread, self.level, self.trap


@dataclass
class Config:
    """What the observer watches: the lines of its configuration (see qemu/observer.c), the text as
    linked, and the size of the log."""

    lines: list[str] = field(default_factory=list)
    image: bytes = b""
    # slots of the log; a graded boot of any lab's solution needs at most 200,000
    capacity: int = 1_000_000

    def add(self, role: str, *numbers: int) -> None:
        self.lines.append(" ".join((role, *(f"{n:x}" for n in numbers))))


class Observer:
    """
    The observer of one run: its files in `directory`, its argument for QEMU, its log.

    QEMU and the harness write the log through a mapping. In a file on a full disk that would end
    either of them by a signal, or would lose records later. So the log is in memory while QEMU
    runs, and close() writes it to `directory`.
    """

    def __init__(self, arch: str, config: Config, directory: Path) -> None:
        files = {name: directory / f"observer.{name}" for name in ("config", "image")}
        self._path = directory / "observer.log"
        self._capacity = config.capacity
        for name, data in (("config", "\n".join([*config.lines,
                                                 ""]).encode()), ("image", config.image)):
            with naming(files[name]):
                files[name].write_bytes(data)
        self._file = os.fdopen(os.memfd_create("observer.log"), "r+b")
        self._file.truncate(HEADER + SLOT.size * config.capacity)
        self._map = mmap.mmap(self._file.fileno(), 0)
        self._blocks = 0  # of both kinds
        self.plugin = ",".join([str(plugin.build(arch)),
                                *(f"{name}={path}" for name, path in files.items()),
                                f"log=/proc/self/fd/{self.fileno()}"])

    def fileno(self) -> int:
        """The log, which QEMU must inherit."""
        return self._file.fileno()

    def _word(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self._map, offset)[0])

    def loaded(self) -> bool:
        return bool(struct.unpack_from("<I", self._map, 0)[0] == MAGIC)

    def written(self) -> int:
        """The number of slots so far, including slots that did not fit and are lost."""
        return self._word(RESERVED)

    def lost(self) -> int:
        return max(0, self.written() - self._capacity)

    def starts(self) -> int:
        return self._word(STARTS)

    def recording(self) -> AbstractContextManager[None]:
        """Log call sites, their callbacks and their returns inside this block."""
        return self._logging(RECORDING)

    def ordering(self) -> AbstractContextManager[None]:
        """Log the stores and memory barriers of handed-in code inside this block."""
        return self._logging(ORDERING)

    @contextmanager
    def _logging(self, switch: int) -> Iterator[None]:
        self._blocks += 1  # registers kept in an earlier recording are not compared
        struct.pack_into("<Q", self._map, switch, self._blocks)
        try:
            yield
        finally:
            struct.pack_into("<Q", self._map, switch, 0)

    def checked(self) -> int:
        """The number of instructions at which sp and the reserved registers were checked."""
        return self._word(BETWEEN)

    def insns_of(self, cpus: int) -> list[int]:
        return list(struct.unpack_from(f"<{cpus}Q", self._map, INSNS))

    def insns(self) -> list[int]:
        """The instructions that each vCPU executed, updated every million."""
        return [n for n in struct.unpack_from("<64Q", self._map, INSNS) if n]

    def records(self, first: int = 0, last: int | None = None) -> Iterator[Record]:
        """The records in order, from slot `first` on."""
        return decoded(self._slots(first, last), first)

    def has(self, first: int, addresses: Collection[int]) -> bool:
        """Is one of these addresses that of a record from slot `first` on? The machine may run:
        what follows a record that a CPU has not finished writing does not count."""
        return has_one(self._slots(first), addresses)

    def _slots(self, first: int, last: int | None = None) -> bytes:
        end = min(self.written() if last is None else last, self._capacity)
        # reading the mapping would count its memory twice
        return os.pread(self.fileno(), max(0, end - first) * SLOT.size, HEADER + first * SLOT.size)

    def close(self) -> None:
        used = HEADER + min(self.written(), self._capacity) * SLOT.size
        self._map.close()
        with self._file, naming(self._path), self._path.open("wb") as log:
            self._file.truncate(used)
            shutil.copyfileobj(self._file, log)


def has_one(data: bytes, addresses: Collection[int]) -> bool:
    """Is one of these addresses that of a record? To find its bytes takes less than to read all
    records; they may also be among a record's words."""
    return any(struct.pack("<Q", address) in data for address in addresses) and any(
        r.addr in addresses for r in decoded(data, running=True))


def decoded(data: bytes, first: int = 0, running: bool = False) -> Iterator[Record]:
    """The records in these slots. `running`: another one may be finished later; they end before it.
    """
    at, end, new = 0, len(data) // SLOT.size, tuple.__new__
    while at < end:
        (kind, more, vcpu, level, trap, size, word, thread, addr, insns,
         a, b, c, d) = SLOT.unpack_from(data, at * SLOT.size)
        if running and not kind:
            return
        if kind > KINDS or more > MOST:
            raise Stopped(Verdict.HARNESS, f"the observer's log has garbage in slot {first + at:,}")
        if at + more >= end:
            return  # the record's words were cut off
        if kind:  # otherwise the record is unfinished
            words = WORDS[more].unpack_from(data, (at + 1) * SLOT.size) if more else ()
            yield new(Record, (first + at, kind, vcpu, level, trap, size, word, thread, addr, insns,
                               (a, b, c, d), words))
        at += 1 + more


def saved(log: Path, first: int = 0, last: int | None = None) -> Iterator[Record]:
    """The records of a run that has ended."""
    with log.open("rb") as file:
        file.seek(HEADER + first * SLOT.size)
        return decoded(file.read() if last is None else file.read((last - first) * SLOT.size),
                       first)

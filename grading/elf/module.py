"""Reads a module's object file: its functions, call sites and trampolines, at the address to which
insmod moves it.

The loader (kern/loader/elf.c) places the sections of text one after the other, then arm64's entries
for calls of the kernel, then, at a multiple of 16, room for a trampoline for each stub.
"""

from dataclasses import dataclass, field
from pathlib import Path

from grading.elf.elf import Function, Kernel, Site
from grading.elf.link import PAGE, TEXT, Layout, up

TRAMPOLINE = 12  # bytes of a trampoline, and of a stub


def stubs(kernel: Kernel) -> list[int]:
    """The addresses of the kernel's stubs, in order, without the entries of islands."""
    return [kernel.address_of(name) for n in range(len(kernel.symbols))
            if (name := f"ftrace_stub_{n}") in kernel.symbols]


@dataclass(frozen=True)
class Module:
    """A module at an address."""

    name: str
    base: int
    # as it must be while no tracer is on, with the trampolines, up to `end`
    text: bytes = field(repr=False)
    # each with " [module]" after its name, as the kernel prints it
    functions: tuple[Function, ...] = field(repr=False)
    sites: tuple[Site, ...] = field(repr=False)
    room: int  # the address of the first trampoline
    stubs: int  # the number of stubs, for each of which there is room for a trampoline

    @property
    def end(self) -> int:
        """The address after its text."""
        last = self.room + self.stubs * TRAMPOLINE
        return last + -last % PAGE

    def trampoline(self, number: int) -> int:
        return self.room + number * TRAMPOLINE

    def is_trampoline(self, address: int) -> bool:
        return self.has_trampoline(address) and (address - self.room) % TRAMPOLINE == 0

    def has_trampoline(self, address: int) -> bool:
        """Is this the address of a trampoline's word?"""
        return self.room <= address < self.trampoline(self.stubs)

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
    """The object file of a module, built for this kernel."""

    def __init__(self, path: Path, kernel: Kernel) -> None:
        self._kernel, self._name, self._layout = kernel, path.stem, Layout(path, kernel)
        place = {n: at for n, (region, at) in self._layout.place.items() if region == TEXT}
        own = [s for s in self._layout.symbols if s["st_info"]["type"] == "STT_FUNC"
               and s["st_shndx"] in place and s["st_info"]["bind"] == "STB_LOCAL"]
        self._functions = sorted(((s.name, place[s["st_shndx"]] + int(s["st_value"]),
                                   int(s["st_size"])) for s in own), key=lambda f: f[1])
        self._room = up(self._layout.text_size, 16)

    def last_near(self) -> int:
        """The last page from which all its sites reach all stubs, which lie below it."""
        top = max(self._layout.entries()) + self._kernel.isa.entry_skip
        last = stubs(self._kernel)[0] + self._kernel.isa.reach - top
        return last - last % PAGE

    def at(self, base: int) -> Module:
        kernel, known, room = self._kernel, stubs(self._kernel), base + self._room
        skip, before = kernel.isa.entry_skip, kernel.isa.word_before.get("entry")
        functions = tuple(Function(f"{name} [{self._name}]", base + at, base + at + size)
                          for name, at, size in self._functions)
        of = {f.start: f for f in functions}
        sites = tuple(Site(base + e + skip, of[base + e], kernel.isa.nop, kernel.isa.nop)
                      for e in self._layout.entries())
        last = room + len(known) * TRAMPOLINE
        text = bytearray(self._layout.linked(base, up(last, PAGE)))
        written: dict[int, tuple[int, ...]] = {s.address - 4: (before,) for s in sites if before}
        if not all(_reaches(kernel, s, stub) for s in sites for stub in (known[0], known[-1])):
            written |= {room + n * TRAMPOLINE: kernel.isa.trampoline_to(room + n * TRAMPOLINE, stub)
                        for n, stub in enumerate(known)}
        for at, words in written.items():
            text[at - base:at - base +
                 4 * len(words)] = b"".join(word.to_bytes(4, "little") for word in words)
        return Module(self._name, base, bytes(text), functions, sites, room, len(known))


def _reaches(kernel: Kernel, site: Site, stub: int) -> bool:
    try:
        kernel.isa.call(site.address, stub, kernel.link_register)
    except ValueError:
        return False
    return True

"""What the objects of the handed-in files may be made of.

The linker gathers tables (commands of the shell, files, tracers), call sites
and the first text from whoever has a section of the right name. What is handed
in has code and data of its own, and the table that its lab names.
"""

from __future__ import annotations

import re
from pathlib import Path

from elftools.elf.elffile import ELFFile  # type: ignore[import]

from grading import rubric
from grading.elf import Kernel

OWN = re.compile(r"\.(s?(text|rodata|data|bss)(\.(?!low|irqentry)[\w.]+)?|rela.*|debug_(?!gdb)\w+|comment|note.*|group|riscv\.attributes"
                 r"|symtab|strtab|shstrtab)|")
TABLES = {"graph.c": ".table.unwind_hook", "shadow_walk.c": ".table.unwind_hook"}


def foreign_section(kernel: Kernel, lab: int) -> str:
    """A sentence about a section that none of the lab's files may have, or ''. The objects lie beside the kernel."""
    for name in rubric.lab(lab).files:
        source = Path(name.replace("<arch>", kernel.arch))
        made = kernel.path.resolve().parent / source.with_suffix(".o")
        for section in _sections(made) if source.suffix in (".c", ".S") and made.exists() else []:
            if not OWN.fullmatch(section) and section != TABLES.get(source.name):
                return f"{source} may not have a section {section!a}"
    return ""


def _sections(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [section.name for section in ELFFile(file).iter_sections()]

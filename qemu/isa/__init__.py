"""All that depends on the architecture: a class for each, with the same names in the same order.

Python code outside of this folder asks one of them for what is different. It is written from the
manuals of the architectures and of QEMU and not from kern/, so that a mistake there is not repeated
in the judge. Registers are numbered as in instructions; the numbers after these are places in
`names`.
"""

from qemu.isa.arm64 import Arm64Isa
from qemu.isa.riscv64 import Riscv64Isa

Isa = Riscv64Isa | Arm64Isa
RISCV64, ARM64 = Riscv64Isa(), Arm64Isa()
ISAS: dict[str, Isa] = {RISCV64.name: RISCV64, ARM64.name: ARM64}
ARCHES = tuple(ISAS)


def isa_of(elf_machine: str) -> Isa:
    """The architecture of an ELF file, by pyelftools' name of e_machine."""
    return next(isa for isa in ISAS.values() if isa.elf_machine == elf_machine)

// needs: kern/module/elf.c kern/module/relocate.c kern/arch/riscv64/reloc.c -Ikern/ftrace/tests/host -Ikern/module/tests/riscv64
// seeds: riscv64
#include "elf_fuzz.h"

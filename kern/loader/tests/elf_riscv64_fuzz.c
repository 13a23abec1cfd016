// needs: kern/loader/elf.c kern/loader/relocate.c kern/arch/riscv64/reloc.c
// needs: -Ikern/ftrace/tests/host -Ikern/loader/tests/riscv64
// seeds: riscv64
#include "elf_fuzz.h"

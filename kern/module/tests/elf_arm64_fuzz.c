// needs: kern/module/elf.c kern/module/relocate.c kern/arch/arm64/reloc.c -Ikern/ftrace/tests/host -Ikern/module/tests/arm64
// seeds: arm64
#include "elf_fuzz.h"

// needs: kern/loader/elf.c kern/loader/relocate.c kern/arch/arm64/reloc.c -Ikern/ftrace/tests/host
// needs: -Ikern/loader/tests/arm64
// seeds: arm64
#include "elf_fuzz.h"

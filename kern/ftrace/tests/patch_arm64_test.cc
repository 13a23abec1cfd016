// needs: kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c kern/ftrace/core/ftrace.c
// needs: kern/ftrace/core/patch.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/arm64
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#define CROSS "aarch64-linux-gnu-"
#define AS_FLAGS ""
#define ASSEMBLE_CALL "bl"
#define ASSEMBLE_OTHERS "nop\nb .\nmov x9, x30\nblr x9\nret\ncbz x0, .\nadrp x0, .\nbrk #0\n"
#include "patch_test.h"

static std::vector<u32> compiler_leaves(unsigned long)
{
	return {INSN_NOP, INSN_NOP};
}

// needs: kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c kern/ftrace/core/ftrace.c
// needs: kern/ftrace/core/patch.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#define CROSS "riscv64-linux-gnu-"
#define AS_FLAGS "-march=rv64ima_zicsr_zifencei -mno-relax"
#define ASSEMBLE_CALL "jal t0,"
#define ASSEMBLE_OTHERS "nop\nj .\njal ra, .\njr t0\njalr t0, 0(t1)\nauipc t0, 1\nret\nbeqz t0, .\n"
#include "patch_test.h"

static std::vector<u32> compiler_leaves(unsigned long)
{
	return {INSN_NOP};
}

// needs: kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c kern/ftrace/core/ftrace.c
// needs: kern/ftrace/core/patch.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul -DHOOK_mcount=1
#define CROSS "riscv64-linux-gnu-"
#define AS_FLAGS "-march=rv64ima_zicsr_zifencei -mno-relax"
#define ASSEMBLE_CALL "jal ra,"
#define ASSEMBLE_OTHERS "nop\nj .\njal t0, .\njr t0\njalr t0, 0(t1)\nauipc t0, 1\nret\nbeqz t0, .\n"
#include "patch_test.h"

/* auipc ra, hi; jalr ra, lo(ra): hi carries when lo is negative. */
static std::vector<u32> far_call(unsigned long ip, unsigned long target)
{
	u32 off = target - ip, hi = (off + 0x800) & ~0xfffu;
	return {hi | 0x97, (off - hi) << 20 | 0x80e7};
}

static std::vector<u32> compiler_leaves(unsigned long ip)
{
	return far_call(ip - 4, (unsigned long)_mcount);
}

TEST(patch, a_far_call_is_what_the_assembler_writes)
{
	/* Symbols of the same section with relaxation off: the pair stays a pair. */
	expect_assembled("auipc ra, 0x12346\njalr ra, -56(ra)\n", far_call(0, 0x12345fc8));
}

TEST(patch, a_far_calls_target_is_read_back)
{
	for (long off :
	     {0l, 4l, 0x7fcl, 0x800l, 0xffcl, -4l, -0x800l, -0x804l, 0x12345fc8l, -0x12345fc8l}) {
		std::vector<u32> pair = far_call(0x40000000, 0x40000000 + off);
		unsigned long target = 0;
		ASSERT_TRUE(insn_far_call_target(0x40000000, pair[0], pair[1], &target));
		EXPECT_EQ(0x40000000 + off, (long)target);
	}
}

// needs: kern/ftrace/modules/ftrace_module.c kern/ftrace/modules/module_records.c
// needs: kern/ftrace/riscv64/trampoline.c kern/ftrace/filters/mod_filter.c
// needs: kern/ftrace/filters/filter.c kern/ftrace/files/functions.c kern/ftrace/ops/ops.c
// needs: kern/ftrace/core/hash.c kern/base/glob.c kern/ftrace/core/dynamic.c
// needs: kern/ftrace/core/records.c kern/ftrace/core/patch.c kern/ftrace/tests/fake_kernel.c
// needs: kern/ftrace/tests/fake_list.c kern/ftrace/core/table.c kern/ftrace/core/set.c
// needs: kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64
// needs: -DCONFIG_MODULES=1 -DCONFIG_KPROBES=1 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#include <string>
#include <vector>
static std::vector<unsigned> assemble_trampoline(unsigned long at, unsigned long target);
#define ASSEMBLED 2 /* words; the third is never reached */
#define DISASSEMBLED "auipc t1, "
#define ANOTHER_REGISTER "t0"
static void use_another_register(unsigned word[])
{
	word[0] ^= (6 ^ 5) << 7;
	word[1] ^= (6 ^ 5) << 15;
}
#include "module_test.h"

static std::vector<u32> assemble_trampoline(unsigned long at, unsigned long target)
{
	char command[512];
	snprintf(command, sizeof(command),
		 "d=$(mktemp -d) && cd $d && printf '.text\\ntail y\\n' > a.s && "
		 "riscv64-linux-gnu-as -march=rv64ima -mno-relax -o a.o a.s && "
		 "riscv64-linux-gnu-ld -Ttext=%#lx -e 0 --defsym=y=%#lx -o a a.o && "
		 "riscv64-linux-gnu-objcopy -O binary -j .text a /dev/stdout; rm -r $d",
		 at, target);
	u32 word[2] = {};
	FILE *f = popen(command, "r");
	EXPECT_EQ(2u, fread(word, 4, 2, f));
	pclose(f);
	return {word[0], word[1]};
}

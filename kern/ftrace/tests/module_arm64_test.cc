// needs: kern/ftrace/modules/ftrace_module.c kern/ftrace/modules/module_records.c
// needs: kern/ftrace/arm64/trampoline.c kern/ftrace/filters/mod_filter.c
// needs: kern/ftrace/filters/filter.c kern/ftrace/files/functions.c kern/ftrace/ops/ops.c
// needs: kern/ftrace/core/hash.c kern/base/glob.c kern/ftrace/core/dynamic.c
// needs: kern/ftrace/core/records.c kern/ftrace/core/patch.c kern/ftrace/tests/fake_kernel.c
// needs: kern/ftrace/tests/fake_list.c kern/ftrace/core/table.c kern/ftrace/core/set.c
// needs: kern/ftrace/core/ftrace.c -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/arm64
// needs: -DCONFIG_MODULES=1 -DCONFIG_KPROBES=1 -DKERNEL_BASE=0x10000000ul -DALIAS_BASE=0x30000000ul
#include <string>
#include <vector>
static std::vector<unsigned> assemble_trampoline(unsigned long at, unsigned long target);
#define ASSEMBLED 3
#define DISASSEMBLED "adrp x16, "
#define ANOTHER_REGISTER "x9"
static void use_another_register(unsigned word[])
{
	word[0] ^= 16 ^ 9;
	word[1] ^= (16 ^ 9) << 5 | (16 ^ 9);
	word[2] ^= (16 ^ 9) << 5;
}
#include "module_test.h"

static std::vector<u32> assemble_trampoline(unsigned long at, unsigned long target)
{
	char command[512];
	snprintf(command, sizeof(command),
		 "d=$(mktemp -d) && cd $d && printf '.text\\nadrp x16, y\\nadd x16, x16, "
		 ":lo12:y\\nbr x16\\n' > a.s && aarch64-linux-gnu-as -o a.o a.s && "
		 "aarch64-linux-gnu-ld -Ttext=%#lx -e 0 --defsym=y=%#lx -o a a.o && "
		 "aarch64-linux-gnu-objcopy -O binary -j .text a /dev/stdout; rm -r $d",
		 at, target);
	u32 word[3] = {};
	FILE *f = popen(command, "r");
	EXPECT_EQ(3u, fread(word, 4, 3, f));
	pclose(f);
	return {word[0], word[1], word[2]};
}

// needs: kern/ftrace/ops/single.c kern/ftrace/core/dynamic.c kern/ftrace/core/ftrace.c
// needs: kern/ftrace/tests/fake_kernel.c kern/ftrace/core/table.c kern/ftrace/core/set.c
// needs: -Ikern/ftrace/tests/host -Ikern/ftrace/tests/host/riscv64 -DKERNEL_BASE=0x10000000ul
// needs: -DALIAS_BASE=0x30000000ul
/* Lab 3's one tracer, on sites that cannot be patched. */
#include "fake_kernel.h"
#include "errno.h"

static std::vector<int> errors; /* one for each site, in their order: the result of patching it */

extern "C" {
int ftrace_make_call(const struct dyn_ftrace *rec, unsigned long addr)
{
	return errors[rec - ftrace_records];
}
int ftrace_make_nop(const struct dyn_ftrace *rec, unsigned long addr)
{
	return 0;
}
int ftrace_modify_call(const struct dyn_ftrace *rec, unsigned long old_addr, unsigned long addr)
{
	return 0;
}
int ftrace_update_ftrace_func(ftrace_func_t func)
{
	return 0;
}
int ftrace_init_nop(const struct dyn_ftrace *rec)
{
	return 0;
}
int insn_call(unsigned long ip, unsigned long addr, unsigned link, u32 *insn)
{
	return 0;
}
void ftrace_batch_begin(void)
{
}
void ftrace_batch_end(void)
{
}
void ftrace_check_records(struct ftrace_table table)
{
}
}

TEST(single, two_errors_do_not_make_a_third)
{
	errors = {-ENOSYS, 0, -EINVAL, -ENOSYS};
	fake_reset();
	for (u32 i = 0; i < errors.size(); i++)
		fake_record(64 + 64 * i, "function");
	EXPECT_EQ(register_ftrace_function(&global_ops), -ENOSYS);
	errors = {0, 0, 0, 0};
	fake_reset();
	for (u32 i = 0; i < errors.size(); i++)
		fake_record(64 + 64 * i, "function");
	EXPECT_EQ(register_ftrace_function(&global_ops), 0)
		<< "after an error no tracer may be registered";
	EXPECT_EQ(unregister_ftrace_function(&global_ops), 0);
}

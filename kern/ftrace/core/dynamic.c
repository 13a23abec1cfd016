/*
 * From records to text: which word must be at each site, and what happens if
 * another word is found there.
 *
 * The invariant: rec->calls says what the site calls. patch.c reads the word before
 * it writes, so a wrong record is found at the next change, and nothing is
 * overwritten.
 */
#include "asm-ftrace/hook.h"
#include "print.h"
#include "ftrace_internal.h"

/* Write into @buf which instruction @insn at @ip is: the nop, or which call. */
static void describe(char *buf, size_t size, unsigned long ip, u32 insn)
{
	unsigned long target;

	if (insn == INSN_NOP)
		snprintf(buf, size, "nop");
	else if (insn_call_target(ip, insn, HOOK_LINK, &target))
		snprintf(buf, size, "call %pS", (void *)target);
	else if (insn_call_target(ip, insn, CALL_LINK, &target))
		snprintf(buf, size, "plain call %pS", (void *)target);
	else
		snprintf(buf, size, "neither the nop nor a call");
}

unsigned long ftrace_call_addr(const struct dyn_ftrace *rec, unsigned calls)
{
	const struct ftrace_table *table = ftrace_table_of(rec);
	const struct ftrace_region *region = table->regions;

	while (region[1].first <= rec - table->records)
		region++;
	return ftrace_stub_addr(KERNEL_BASE + region->stubs, calls);
}

u32 ftrace_expected(const struct dyn_ftrace *rec)
{
	u32 insn = 0;

	if (!rec->calls)
		return INSN_NOP;
	insn_call(ftrace_ip(rec), ftrace_call_addr(rec, rec->calls), HOOK_LINK, &insn);
	return insn;
}

void ftrace_bug(int err, struct dyn_ftrace *rec, u32 expected)
{
	unsigned long ip = ftrace_ip(rec);
	u32 found = *(const u32 *)ip;
	char want[96], have[96];

	rec->flags |= FTRACE_FL_DISABLED;
	ftrace_disabled = true;
	describe(want, sizeof(want), ip, expected);
	describe(have, sizeof(have), ip, found);
	printk("ftrace: refused to write the call site of %ps at %#lx (error %d)\n"
	       "ftrace:   expected %08x  %s\n"
	       "ftrace:   found    %08x  %s\n"
	       "ftrace: the site is left alone and no further tracing is started\n",
	       (void *)ip, ip, err, expected, want, found, have);
}

int ftrace_refuse(struct dyn_ftrace *rec, int err)
{
	if (err == -ENOSYS) /* the site is right, but patching is not written yet */
		return err;
	ftrace_bug(err, rec, ftrace_expected(rec));
	return -ENODEV;
}

/* At boot, no other CPU running: every site becomes the nop that is toggled from now on. */
void ftrace_init(void)
{
	int err = 0;

	ftrace_check_records(ftrace_kernel_table);
	if (!HOOK_REWRITES)
		return;
	mutex_lock(&ftrace_lock);
	ftrace_batch_begin();
	for_each_ftrace_rec(rec) {
		if (err == -ENOSYS || rec->flags & FTRACE_FL_DISABLED)
			continue;
		err = ftrace_init_nop(rec);
		if (err && err != -ENOSYS)
			ftrace_bug(-EINVAL, rec, INSN_NOP);
	}
	ftrace_batch_end();
	mutex_unlock(&ftrace_lock);
	if (err == -ENOSYS)
		printk("ftrace: ftrace_init_nop() is not written yet: the call sites stay as the "
		       "compiler left them\n");
}

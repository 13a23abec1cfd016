/*
 * Changing text. Only this file writes it: call sites, and the words of text_write().
 *
 * A site is one aligned word. A CPU that executes it while it changes executes
 * either the old instruction or the new one. The nop and the call may be exchanged
 * while other CPUs run (riscv64: Ziccif; arm64: insn.h). So no CPU is stopped. Two
 * things remain to do: read the word before each write, and synchronise all CPUs
 * once, at the end of the batch.
 */
#include "asm-ftrace/hook.h"
#include "arch.h"
#include "ftrace_internal.h"

extern u32 ftrace_call[]; /* the call to the tracer in ftrace_caller */

unsigned long ftrace_syncs; /* number of synchronisations since boot */
/* sites below this offset may be written: in a batch the end of text, else 0 */
static u64 writable_end;

/* `jal link, addr` if insn.h defines INSN_JAL, else `bl addr`. */
inline int insn_call(unsigned long ip, unsigned long addr, unsigned link, u32 *insn)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long off = addr - ip;

	if (off + INSN_REACH >= 2 * INSN_REACH)
		return -ERANGE;
	if ((off | ip) & 3)
		return -EINVAL;
#ifdef INSN_JAL
	*insn = off >> 63 << 31 | (off & 0x7fe) << 20 | (off & 0x800) << 9 | (off & 0xff000) |
		link << 7 | INSN_JAL;
#else
	*insn = INSN_BL | (off >> 2 & 0x03ffffff);
#endif
	return 0;
#endif
}

void ftrace_batch_begin(void)
{
	mutex_assert_held(&ftrace_lock); /* it guards records and sites */
	preempt_disable(); /* text_alias_open() flushes only this CPU's TLB: stay on it */
#if LAB_START != 3
	text_alias_open();
#endif
	writable_end = ftrace_text_end - KERNEL_BASE;
}

/*
 * Close the alias before the synchronisation: when the other CPUs go on after it, text is not
 * writable.
 */
void ftrace_batch_end(void)
{
	writable_end = 0;
#if LAB_START != 3
	text_alias_close();
	arch_sync_all();
#endif
	ftrace_syncs++;
	preempt_enable();
}

/* Inline, because it runs for each site of a batch. */
static inline int patch_word(unsigned long ip, u32 expected, u32 insn)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	if (unlikely(*(const u32 *)ip != expected))
		return -EINVAL;
	*(volatile u32 *)text_alias(ip) = insn;
	arch_sync_line(ip, (unsigned long)text_alias(ip));
	return 0;
#endif
}

/* ---- Given: words that are no call sites ---- */

int text_write(const struct text_word *words, unsigned count)
{
	int err = 0;

	for (unsigned i = 0; i < count; i++)
		if (*(const volatile u32 *)words[i].ip != words[i].expected)
			return -EINVAL;
	for (unsigned i = 0; i < count && !err; i++)
		err = patch_word(words[i].ip, words[i].expected, words[i].insn);
	return err;
}

/* ---- Call sites ---- */

/*
 * The word before a site is written here, while one CPU runs, and never again: two
 * words cannot change together while other CPUs run.
 */
int ftrace_init_nop(const struct dyn_ftrace *rec)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long ip = ftrace_ip(rec);
	int err = 0;

	if (rec->offset >= writable_end)
		return -EFAULT;
	if (!hook_untouched((const u32 *)ip))
		return -EINVAL;
#ifdef HOOK_BEFORE
	if (HOOK_REWRITES)
		err = patch_word(ip - 4, ((const u32 *)ip)[-1], HOOK_BEFORE);
#endif
	return err ? err : patch_word(ip, *(const u32 *)ip, INSN_NOP);
#endif
}

int ftrace_make_call(const struct dyn_ftrace *rec, unsigned long addr)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long ip = ftrace_ip(rec);
	u32 call;
	int err = insn_call(ip, addr, HOOK_LINK, &call);

	if (unlikely(rec->offset >= writable_end))
		return -EFAULT;
	return err ? err : patch_word(ip, INSN_NOP, call);
#endif
}

int ftrace_make_nop(const struct dyn_ftrace *rec, unsigned long addr)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long ip = ftrace_ip(rec);
	u32 call;
	int err = insn_call(ip, addr, HOOK_LINK, &call);

	if (unlikely(rec->offset >= writable_end))
		return -EFAULT;
	return err ? err : patch_word(ip, call, INSN_NOP);
#endif
}

int ftrace_modify_call(const struct dyn_ftrace *rec, unsigned long old_addr, unsigned long addr)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long ip = ftrace_ip(rec);
	u32 old, call;
	int err = insn_call(ip, old_addr, HOOK_LINK, &old);

	if (!err)
		err = insn_call(ip, addr, HOOK_LINK, &call);
	if (unlikely(rec->offset >= writable_end))
		return -EFAULT;
	return err ? err : patch_word(ip, old, call);
#endif
}

/* There is one tracer at a time: the call at ftrace_call, in ftrace_caller, calls it. */
int ftrace_update_ftrace_func(ftrace_func_t func)
{
#if LAB_START == 3
	return -ENOSYS;
#else
	unsigned long ip = (unsigned long)ftrace_call, target;
	u32 call;
	int err = insn_call(ip, (unsigned long)func, CALL_LINK, &call);

	if (!writable_end)
		return -EFAULT;
	if (err)
		return err;
	if (!insn_call_target(ip, *ftrace_call, CALL_LINK, &target))
		return -EINVAL;
	return patch_word(ip, *ftrace_call, call);
#endif
}

/*
 * Kprobes and the kernel's text: where a probe may be, and the batch (riscv64) or the
 * stopped machine (arm64) in which core/patch.c writes the words.
 */
#include "asm-ftrace/hook.h"
#include "breakpoint.h"
#include "cpu.h"
#include "irq.h"
#include "kprobes.h"
#include "ksyms.h"
#include "module.h"
#include "stop.h"
#include "string.h"
#include "tracepoint.h"
#include "ftrace_internal.h"

/* In the tracer's text, so that a CPU is not preempted in a slot (in_tracer()). */
__attribute__((section(".text.kprobe_slots")))
__aligned(8) const u32 kprobe_slots[KPROBE_SLOTS][2] = {
	[0 ... KPROBE_SLOTS - 1] = {INSN_BREAK, INSN_BREAK}};

struct words {
	const struct text_word *first;
	unsigned count;
};

/* The other CPUs are stopped. Not a batch: its end would wait for them. */
static int write_stopped(void *arg)
{
	const struct words *words = arg;
	int err;

	preempt_disable();
	text_alias_open();
	err = text_write(words->first, words->count);
	text_alias_close();
	preempt_enable();
	return err;
}

int kprobe_write(const struct text_word *words, unsigned count)
{
	int err;

	mutex_assert_held(&ftrace_lock);
	if (PROBE_STOPS_CPUS)
		return stop_machine(write_stopped, &(struct words){words, count});
	ftrace_batch_begin();
	err = text_write(words, count);
	ftrace_batch_end();
	return err;
}

static bool is_excluded(unsigned long start, unsigned long size)
{
	TABLE_FOR_EACH(const unsigned long, kprobe_blacklist, function)
		if (*function - start < size)
			return true;
	return false;
}

int kprobe_function(unsigned long addr, unsigned long *offset, unsigned long *site)
{
	unsigned long size;
	const struct dyn_ftrace *rec;

	if (addr & 3 || !ksym_lookup(addr, offset, &size))
		return -EINVAL;
	rec = lookup_rec(addr - *offset + HOOK_ENTRY_OFFSET);
	if (!rec || rec->flags & FTRACE_FL_DISABLED || module_is_going(addr) || in_tracer(addr) ||
	    is_excluded(addr - *offset, size) || tracepoint_is_site(addr))
		return -EINVAL;
	*site = ftrace_ip(rec);
	return 0;
}

unsigned long kprobe_lookup_name(const char *name)
{
	for_each_ftrace_rec(rec)
		if (!strcmp(ftrace_name(rec), name))
			return ftrace_ip(rec) - HOOK_ENTRY_OFFSET;
	return 0;
}

/* Is @addr between the two instructions of an exclusive pair, in the order of addresses? */
static bool is_in_exclusive(unsigned long addr, unsigned long start)
{
	int kind = 0;

	while (!kind && addr > start)
		kind = probe_exclusive(*(const u32 *)(addr -= 4));
	return kind > 0;
}

enum probe_how kprobe_classify_at(unsigned long addr, unsigned long offset)
{
	static const char *const why[] = {
		[PROBE_REFUSED_EXCLUSIVE] = "it belongs to an exclusive pair",
		[PROBE_REFUSED_SYSTEM] = "it traps, or uses the machine's state",
		[PROBE_REFUSED_UNKNOWN] = "it is not known",
	};
	u32 insn = *(const u32 *)addr;
	enum probe_how how = probe_classify(insn);

	if (how <= PROBE_EMULATED && is_in_exclusive(addr, addr - offset))
		how = PROBE_REFUSED_EXCLUSIVE;
	if (how > PROBE_EMULATED)
		printk("kprobe: the instruction %08x at %pS cannot be probed: %s\n", insn,
		       (void *)addr, why[how]);
	return how;
}

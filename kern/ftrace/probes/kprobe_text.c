/*
 * Kprobes and the kernel's text: where a probe may be, and writing it. The writes
 * go through the text alias, as those of core/patch.c.
 */
#include "asm-ftrace/hook.h"
#include "breakpoint.h"
#include "cpu.h"
#include "irq.h"
#include "kprobes.h"
#include "ksyms.h"
#include "module.h"
#include "module/stop.h"
#include "string.h"
#include "tracer.h"

/* In the tracer's text, so that a CPU is not preempted in a slot (in_tracer()). */
__attribute__((section(".text.kprobe_slots"))) __aligned(8) const u32 kprobe_slots[KPROBE_SLOTS][2] = {
	[0 ... KPROBE_SLOTS - 1] = {INSN_BREAK, INSN_BREAK}};

struct write {
	const struct kprobe_word *words;
	unsigned count;
};

static int write_words(const struct write *w)
{
	for (unsigned i = 0; i < w->count; i++)
		if (*(const volatile u32 *)w->words[i].ip != w->words[i].expected)
			return -EINVAL;
	for (const struct kprobe_word *word = w->words; word < w->words + w->count; word++) {
		*(volatile u32 *)text_alias(word->ip) = word->insn;
		arch_sync_line(word->ip, (unsigned long)text_alias(word->ip));
	}
	return 0;
}

/* The other CPUs are stopped. Not a batch: its end would wait for them. */
static int write_stopped(void *w)
{
	int err;

	preempt_disable();
	text_alias_open();
	err = write_words(w);
	text_alias_close();
	preempt_enable();
	return err;
}

int kprobe_write(const struct kprobe_word *words, unsigned count)
{
	struct write w = {words, count};
	int err;

	mutex_assert_held(&ftrace_lock);
	if (PROBE_STOPS_CPUS)
		return stop_machine(write_stopped, &w);
	ftrace_batch_begin();
	err = write_words(&w);
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
	if (!rec || rec->flags & FTRACE_FL_DISABLED || module_is_going(addr) || in_tracer(addr) || is_excluded(addr - *offset, size))
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
		printk("kprobe: the instruction %08x at %pS cannot be probed: %s\n", insn, (void *)addr, why[how]);
	return how;
}

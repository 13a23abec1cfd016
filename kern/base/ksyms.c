/*
 * Symbols of text: the table that kern/ftrace/tools/mksyms.py makes from the first link.
 *
 * ksym_offsets[] holds each function's offset from KERNEL_BASE, sorted, and then
 * the end of the last function. ksym_names[i] is the offset of function i's name
 * in ksym_text. The tables of text that was loaded later are in a list (ksyms.h),
 * which is read here with interrupts masked. Panics and tracers read: no call site.
 */
#include "ksyms.h"

#include "arch.h"
#include "layout.h"

extern const u32 ksym_count, ksym_offsets[], ksym_names[];
extern const char ksym_text[];

struct ksym_table *ksym_tables;
unsigned long module_text_start = -1ul;

static notrace bool is_inside(unsigned long addr, unsigned long start, unsigned long end)
{
	return addr - start < end - start;
}

/* Context: interrupts masked, as long as the table is used. */
static notrace const struct ksym_table *table_of(unsigned long addr)
{
	const struct ksym_table *t = READ_ONCE(ksym_tables);

	while (t && !is_inside(addr, t->start, t->end))
		t = READ_ONCE(t->next);
	return t;
}

/* Number @i's end is the next symbol's start; the last one's is the end of text. */
static notrace const char *lookup_in(const struct ksym_table *t, unsigned long addr,
				     unsigned long *offset, unsigned long *size)
{
	u32 low = 0, high = t->count;

	if (!high || addr < t->symbol[0].addr)
		return NULL;
	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (t->symbol[middle].addr <= addr)
			low = middle;
		else
			high = middle;
	}
	if (offset)
		*offset = addr - t->symbol[low].addr;
	if (size)
		*size = (high < t->count ? t->symbol[high].addr : t->end) - t->symbol[low].addr;
	return t->symbol[low].name;
}

static notrace const char *lookup_later(unsigned long addr, unsigned long *offset,
					unsigned long *size)
{
	unsigned long flags = irq_save();
	const struct ksym_table *t = table_of(addr);
	const char *name = t ? lookup_in(t, addr, offset, size) : NULL;

	irq_restore(flags);
	return name;
}

notrace const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	u32 low = 0, high = ksym_count, want = addr - KERNEL_BASE;

	if (!high || addr < KERNEL_BASE + ksym_offsets[0] ||
	    addr >= KERNEL_BASE + ksym_offsets[high])
		return lookup_later(addr, offset, size);
	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (ksym_offsets[middle] <= want)
			low = middle;
		else
			high = middle;
	}
	if (offset)
		*offset = want - ksym_offsets[low];
	if (size)
		*size = ksym_offsets[low + 1] - ksym_offsets[low];
	return ksym_text + ksym_names[low];
}

notrace const char *ksym_module(unsigned long addr)
{
	unsigned long flags = irq_save();
	const struct ksym_table *t = table_of(addr);
	const char *module = t ? t->module : NULL;

	irq_restore(flags);
	return module;
}

notrace bool in_module_text(unsigned long pc)
{
	unsigned long flags = irq_save();
	const struct ksym_table *t = table_of(pc);
	bool in = t && !READ_ONCE(t->gone);

	irq_restore(flags);
	return in;
}

notrace bool in_module_tracer(unsigned long pc)
{
	unsigned long flags = irq_save();
	const struct ksym_table *t = table_of(pc);
	bool in = t && !READ_ONCE(t->gone) && is_inside(pc, t->tracer, t->tracer_end);

	irq_restore(flags);
	return in;
}

bool ksym_number(u64 n, unsigned long *addr, const char **name, const char **module)
{
	const struct ksym_table *t = ksym_tables;

	*module = NULL;
	if (n < ksym_count) {
		*addr = KERNEL_BASE + ksym_offsets[n];
		*name = ksym_text + ksym_names[n];
		return true;
	}
	for (n -= ksym_count; t && (t->gone || n >= t->count); t = t->next)
		n -= t->gone ? 0 : t->count;
	if (!t)
		return false;
	*addr = t->symbol[n].addr;
	*name = t->symbol[n].name;
	*module = t->module;
	return true;
}

bool ksym_next(struct ksym_place *at, unsigned long *addr, const char **name, const char **module)
{
	*module = NULL;
	if (!at->table && at->next < ksym_count) {
		*addr = KERNEL_BASE + ksym_offsets[at->next];
		*name = ksym_text + ksym_names[at->next++];
		return true;
	}
	if (!at->table || at->next == at->table->count) {
		at->table = at->table ? READ_ONCE(at->table->next) : READ_ONCE(ksym_tables);
		at->next = 0;
	}
	while (at->table && (READ_ONCE(at->table->gone) || !at->table->count))
		at->table = READ_ONCE(at->table->next);
	if (!at->table)
		return false;
	*module = at->table->module;
	*addr = at->table->symbol[at->next].addr;
	*name = at->table->symbol[at->next++].name;
	return true;
}

bool module_is_going(unsigned long addr)
{
	unsigned long flags = irq_save();
	const struct ksym_table *t = table_of(addr);
	bool going = t && !READ_ONCE(t->gone) && READ_ONCE(t->going);

	irq_restore(flags);
	return going;
}

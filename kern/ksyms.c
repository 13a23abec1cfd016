/*
 * Symbols of text: the table that kern/ftrace/tools/mksyms.py makes from the first link.
 *
 * ksym_offsets[] holds each function's offset from KERNEL_BASE, sorted, and then
 * the end of the last function. ksym_names[i] is the offset of function i's name
 * in ksym_text. The tables of text that was loaded later are in a list, which
 * readers walk with interrupts masked. Panics and tracers read: no call site.
 */
#include "ksyms.h"

#include "thread.h"

extern const u32 ksym_count, ksym_offsets[], ksym_names[];
extern const char ksym_text[];

static struct ksym_table *tables; /* the latest first; changed by writers under module_lock */
unsigned long module_text_start = -1ul;

/* ---- lookup ---- */

static notrace bool is_inside(unsigned long addr, unsigned long start, unsigned long end)
{
	return addr - start < end - start;
}

/* Context: interrupts masked, as long as the table is used. */
static notrace const struct ksym_table *table_of(unsigned long addr)
{
	const struct ksym_table *t = READ_ONCE(tables);

	while (t && !is_inside(addr, t->start, t->end))
		t = READ_ONCE(t->next);
	return t;
}

/* Number @i's end is the next symbol's start; the last one's is the end of text. */
static notrace const char *lookup_in(const struct ksym_table *t, unsigned long addr, unsigned long *offset,
				     unsigned long *size)
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

static notrace const char *lookup_later(unsigned long addr, unsigned long *offset, unsigned long *size)
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

/* ---- tables; module_lock held ---- */

struct ksym_table *ksym_table_new(u32 count)
{
	struct ksym_table *table = kzalloc(sizeof(*table) + count * sizeof(*table->symbol));

	if (table)
		table->count = count;
	return table;
}

/* Of the tables that are not gone. */
static void update_start(void)
{
	unsigned long start = -1ul;

	for (const struct ksym_table *t = tables; t; t = t->next)
		if (!t->gone)
			start = MIN(start, t->start);
	WRITE_ONCE(module_text_start, start);
}

/* The link to a gone table that overlaps @table, or the last link. */
static struct ksym_table **overlapped_by(const struct ksym_table *table)
{
	struct ksym_table **at = &tables;

	while (*at && !((*at)->gone && (*at)->start < table->end && table->start < (*at)->end))
		at = &(*at)->next;
	return at;
}

/* A reader may be in an unlinked table until the grace period is over; its next stays as it is. */
void ksym_add(struct ksym_table *table)
{
	struct ksym_table **at, *old;

	while ((old = *(at = overlapped_by(table)))) {
		WRITE_ONCE(*at, old->next);
		synchronize_sched();
		kfree(old);
	}
	table->next = tables;
	smp_wmb();
	WRITE_ONCE(tables, table);
	update_start();
}

/* Unlink the gone table that was added first, if there are KSYM_GONE_MAX beside @table. Return: it, or NULL. */
static struct ksym_table *unlink_oldest(const struct ksym_table *table)
{
	struct ksym_table **oldest = NULL, *old;
	unsigned count = 0;

	for (struct ksym_table **at = &tables; *at; at = &(*at)->next)
		if ((*at)->gone && *at != table) {
			oldest = at;
			count++;
		}
	if (count < KSYM_GONE_MAX)
		return NULL;
	old = *oldest;
	WRITE_ONCE(*oldest, old->next);
	return old;
}

void ksym_remove(struct ksym_table *table)
{
	struct ksym_table *old = unlink_oldest(table);

	WRITE_ONCE(table->gone, true);
	update_start();
	synchronize_sched();
	kfree(old);
}

bool ksym_number(u64 n, unsigned long *addr, const char **name, const char **module)
{
	const struct ksym_table *t = tables;

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

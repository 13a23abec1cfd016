/*
 * The tables of call sites: the kernel's, made by the build, and those of text that is
 * loaded later (modules/module_tables.c). Also the sets of records, by number (struct
 * ftrace_set).
 */
#include "errno.h"
#include "tracer.h"

struct ftrace_table ftrace_kernel_table = {
	ftrace_records, ftrace_records_end, ftrace_regions, (unsigned long)_text, (unsigned long)_etext};
struct ftrace_table *ftrace_tables = &ftrace_kernel_table;
unsigned long ftrace_text_end = (unsigned long)_etext;
u32 ftrace_removals;

const struct ftrace_table *ftrace_table_of(const struct dyn_ftrace *rec)
{
	const struct ftrace_table *table = ftrace_tables;

	while (table && (rec < table->records || rec >= table->end))
		table = table->next;
	return table;
}

u32 ftrace_number(const struct dyn_ftrace *rec)
{
	const struct ftrace_table *own = ftrace_table_of(rec);
	u32 number;

	if (!own)
		return FTRACE_NO_NUMBER;
	number = rec - own->records;
	for (const struct ftrace_table *table = ftrace_tables; table != own; table = table->next)
		number += ftrace_count(table);
	return number;
}

struct dyn_ftrace *ftrace_record(u64 number)
{
	for (const struct ftrace_table *table = ftrace_tables; table; table = table->next) {
		if (number < ftrace_count(table))
			return &table->records[number];
		number -= ftrace_count(table);
	}
	return NULL;
}

u32 ftrace_total(void)
{
	u32 total = 0;

	for (const struct ftrace_table *table = ftrace_tables; table; table = table->next)
		total += ftrace_count(table);
	return total;
}

/* Has @set a bit for record @number? */
static bool has_room(const struct ftrace_set *set, u32 number)
{
	return number < (set->removals == ftrace_removals ? set->records : ftrace_count(&ftrace_kernel_table));
}

bool ftrace_set_has(const struct ftrace_set *set, const struct dyn_ftrace *rec)
{
	u32 number = ftrace_number(rec);

	return has_room(set, number) && set->bits[number / 64] >> (number % 64) & 1;
}

int ftrace_set_put(struct ftrace_set *set, const struct dyn_ftrace *rec, bool in)
{
	u32 number = ftrace_number(rec);

	if (number == FTRACE_NO_NUMBER)
		return -ENOENT;
	if (!has_room(set, number) || ftrace_set_has(set, rec) == in)
		return 0;
	set->bits[number / 64] ^= 1ull << (number % 64);
	set->count += in ? 1 : -1;
	return 0;
}

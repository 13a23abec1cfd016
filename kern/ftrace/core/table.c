/*
 * The tables of call sites: the kernel's, made by the build, and those of text that is
 * loaded later. Also the numbers and the names of the records.
 */
#include "file.h"
#include "ksyms.h"
#include "ftrace_internal.h"

struct ftrace_table ftrace_kernel_table = {ftrace_records, ftrace_records_end, ftrace_regions,
					   (unsigned long)_text, (unsigned long)_etext};
struct ftrace_table *ftrace_tables = &ftrace_kernel_table;
unsigned long ftrace_text_end = (unsigned long)_etext;

void ftrace_add_table(struct ftrace_table *table)
{
	struct ftrace_table **link = &ftrace_tables;

	while (*link)
		link = &(*link)->next;
	WRITE_ONCE(ftrace_text_end, MAX(ftrace_text_end, table->text_end));
	smp_wmb();
	WRITE_ONCE(*link, table);
}

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

const char *ftrace_name(const struct dyn_ftrace *rec)
{
	const char *name = ksym_lookup(ftrace_ip(rec), NULL, NULL);

	return name ? name : "?";
}

void ftrace_show_name(struct seq *s, const struct dyn_ftrace *rec, const char *end)
{
	const char *module = ftrace_table_of(rec)->module;

	if (module)
		seq_printf(s, "%s [%s]%s", ftrace_name(rec), module, end);
	else
		seq_printf(s, "%s%s", ftrace_name(rec), end);
}

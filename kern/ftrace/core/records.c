/*
 * The call-site records: one for each traceable function. The build makes them
 * (recordmcount), sorted by address, so that a binary search finds one.
 *
 * The table may be wrong. So at boot each record is compared with the one before
 * it and with the word at its site.
 */
#include "asm-ftrace/hook.h"
#include "ftrace_internal.h"
#include "print.h"

/*
 * The index of the first record of @table whose site is at or after @ip; ftrace_count(@table):
 * there is none.
 */
static u32 first_at_or_after(const struct ftrace_table *table, unsigned long ip)
{
#if LAB_START == 2
	return ftrace_count(table);
#else
	u32 low = 0, high = ftrace_count(table);

	while (low < high) {
		u32 middle = low + (high - low) / 2;

		if (ftrace_ip(&table->records[middle]) < ip)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
#endif
}

struct dyn_ftrace *lookup_rec_range(unsigned long start, unsigned long end)
{
	for (const struct ftrace_table *table = ftrace_tables; table; table = table->next) {
		u32 i = first_at_or_after(table, start);

		if (i < ftrace_count(table) && ftrace_ip(&table->records[i]) < end)
			return &table->records[i];
	}
	return NULL;
}

struct dyn_ftrace *lookup_rec(unsigned long ip)
{
	return lookup_rec_range(ip, ip + 1);
}

/* What is wrong with @rec; NULL: nothing. */
static const char *record_fault(struct ftrace_table table, const struct dyn_ftrace *rec)
{
	unsigned long ip = ftrace_ip(rec);

	if (rec > table.records && rec->offset <= rec[-1].offset)
		return "is not after the one before it";
	if (ip & 3)
		return "is not 4-byte aligned";
	if (ip < table.text + 4 || ip >= table.text_end)
		return "lies outside of text";
	if (!hook_untouched((const u32 *)ip))
		return "does not hold what the compiler leaves there";
	return NULL;
}

void ftrace_check_records(struct ftrace_table table)
{
	u32 count = ftrace_count(&table), far = 0, bad = 0;

	if (!count) {
		printk("ftrace: the table of call sites is empty: no function can be named in a "
		       "filter, none is patched\n");
		return;
	}
	for (struct dyn_ftrace *rec = table.records; rec < table.end; rec++) {
		const char *fault = record_fault(table, rec);

		if (rec->flags & FTRACE_FL_DISABLED && far++ < 10)
			printk("ftrace: %pS is out of reach; it is never traced\n",
			       (void *)ftrace_ip(rec));
		if (!fault)
			continue;
		rec->flags |= FTRACE_FL_DISABLED;
		bad++;
		printk("ftrace: the call site at %pS %s; it is never written\n",
		       (void *)ftrace_ip(rec), fault);
	}
	printk("ftrace: %u call sites, %zu bytes of records\n", count,
	       count * sizeof(*table.records));
	if (far | bad)
		printk("ftrace: %u of them out of reach, %u faulty\n", far, bad);
}

/*
 * Files that list the functions that can be traced: available_filter_functions,
 * available_filter_functions_addrs, dyn_ftrace_total_info. The number n in a
 * filter is line n of the first. Functions with a disabled record (out of reach,
 * or the site was found corrupted) are not listed.
 */
#include "tracefs.h"
#include "ftrace_internal.h"

/* s->arg, the file's data, is not NULL if the file shows the addresses, too. */
static int functions_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec;

	mutex_lock(&ftrace_lock); /* a module may be removed between two lines, not during one */
	rec = ftrace_record(item);
	if (rec && !(rec->flags & FTRACE_FL_DISABLED)) {
		if (s->arg)
			seq_printf(s, "%lx ", ftrace_ip(rec));
		ftrace_show_name(s, rec, "\n");
	}
	mutex_unlock(&ftrace_lock);
	return !rec;
}

TEXT_OPS(functions_ops, functions_show, NULL);
TRACEFS_FILE(available_filter_functions, "available_filter_functions", 0444, &functions_ops, NULL);
TRACEFS_FILE(available_filter_functions_addrs, "available_filter_functions_addrs", 0444,
	     &functions_ops, (void *)1);

/* "pages" and "groups" describe the memory of the tables: each table is a group. */
static int total_show(struct seq *s, u64 item)
{
	unsigned long pages = 0, groups = 0;

	mutex_lock(&ftrace_lock);
	for (const struct ftrace_table *table = ftrace_tables; table; table = table->next) {
		pages += ALIGN_UP((char *)table->end - (char *)table->records, PAGE_SIZE) /
			 PAGE_SIZE;
		groups++;
	}
	seq_printf(s, "%u pages:%lu groups: %lu\n", ftrace_total(), pages, groups);
	mutex_unlock(&ftrace_lock);
	return 1;
}
TRACEFS_TEXT(dyn_ftrace_total_info, "dyn_ftrace_total_info", TRACEFS_TOP, total_show);

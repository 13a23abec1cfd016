/*
 * Files that list the functions that can be traced: available_filter_functions,
 * available_filter_functions_addrs, dyn_ftrace_total_info. The number n in a
 * filter is line n of the first. Functions with a disabled record (out of reach,
 * or the site was found corrupted) are not listed.
 */
#include "ksyms.h"
#include "tracefs.h"
#include "tracer.h"

const char *ftrace_name(const struct dyn_ftrace *rec)
{
	const char *name = ksym_lookup(ftrace_ip(rec), NULL, NULL);

	return name ? name : "?";
}

static int functions_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec = ftrace_record(item);

	if (rec && !(rec->flags & FTRACE_FL_DISABLED))
		seq_printf(s, "%s\n", ftrace_name(rec));
	return !rec;
}
TRACEFS_TEXT(available_filter_functions, "available_filter_functions", TRACEFS_TOP, functions_show);

static int addresses_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec = ftrace_record(item);

	if (rec && !(rec->flags & FTRACE_FL_DISABLED))
		seq_printf(s, "%lx %s\n", ftrace_ip(rec), ftrace_name(rec));
	return !rec;
}
TRACEFS_TEXT(available_filter_functions_addrs, "available_filter_functions_addrs", TRACEFS_TOP, addresses_show);

/* "pages" and "groups" describe the memory of the tables: each table is a group. */
static int total_show(struct seq *s, u64 item)
{
	unsigned long pages = 0, groups = 0;

	for (const struct ftrace_table *table = ftrace_tables; table; table = table->next) {
		pages += ALIGN_UP((char *)table->end - (char *)table->records, PAGE_SIZE) / PAGE_SIZE;
		groups++;
	}
	seq_printf(s, "%u pages:%lu groups: %lu\n", ftrace_total(), pages, groups);
	return 1;
}
TRACEFS_TEXT(dyn_ftrace_total_info, "dyn_ftrace_total_info", TRACEFS_TOP, total_show);

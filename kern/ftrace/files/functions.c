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

static bool is_listed(u64 item)
{
	return !(ftrace_records[item].flags & FTRACE_FL_DISABLED);
}

static int functions_show(struct seq *s, u64 item)
{
	if (item >= ftrace_record_count)
		return 1;
	if (is_listed(item))
		seq_printf(s, "%s\n", ftrace_name(&ftrace_records[item]));
	return 0;
}
TRACEFS_TEXT(available_filter_functions, "available_filter_functions", TRACEFS_TOP, functions_show);

static int addresses_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec = &ftrace_records[item];

	if (item >= ftrace_record_count)
		return 1;
	if (is_listed(item))
		seq_printf(s, "%lx %s\n", ftrace_ip(rec), ftrace_name(rec));
	return 0;
}
TRACEFS_TEXT(available_filter_functions_addrs, "available_filter_functions_addrs", TRACEFS_TOP, addresses_show);

/* "pages" and "groups" describe the memory of the table: here one group, made by the build. */
static int total_show(struct seq *s, u64 item)
{
	unsigned long bytes = ftrace_record_count * sizeof(*ftrace_records);

	if (item)
		return 1;
	seq_printf(s, "%u pages:%lu groups: 1\n", ftrace_record_count,
		   (bytes + PAGE_SIZE - 1) / PAGE_SIZE);
	return 0;
}
TRACEFS_TEXT(dyn_ftrace_total_info, "dyn_ftrace_total_info", TRACEFS_TOP, total_show);

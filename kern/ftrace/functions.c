/*
 * What can be traced, as files: available_filter_functions and its addresses,
 * dyn_ftrace_total_info. A filter's number n means line n of the first. What
 * can never be traced, out of reach or found corrupted, is not in the lists.
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
TRACEFS_TEXT_OPS(functions_ops, functions_show);
TRACEFS_FILE(available_filter_functions, "available_filter_functions", 0444, &functions_ops, NULL);

static int addresses_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec = &ftrace_records[item];

	if (item >= ftrace_record_count)
		return 1;
	if (is_listed(item))
		seq_printf(s, "%lx %s\n", ftrace_ip(rec), ftrace_name(rec));
	return 0;
}
TRACEFS_TEXT_OPS(addresses_ops, addresses_show);
TRACEFS_FILE(available_filter_functions_addrs, "available_filter_functions_addrs", 0444,
	     &addresses_ops, NULL);

/* "pages" and "groups" are of the table's memory: here one group, made by the build. */
static int total_show(struct seq *s, u64 item)
{
	unsigned long bytes = ftrace_record_count * sizeof(*ftrace_records);

	if (item)
		return 1;
	seq_printf(s, "%u pages:%lu groups: 1\n", ftrace_record_count,
		   (bytes + PAGE_SIZE - 1) / PAGE_SIZE);
	return 0;
}
TRACEFS_TEXT_OPS(total_ops, total_show);
TRACEFS_FILE(dyn_ftrace_total_info, "dyn_ftrace_total_info", 0444, &total_ops, NULL);

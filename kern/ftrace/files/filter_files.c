/*
 * Files of functions that are traced: an instance's filters (set_ftrace_filter,
 * set_ftrace_notrace), and enabled_functions.
 */
#include "filter.h"
#include "trace.h"
#include "tracefs.h"

static struct ftrace_filter *array_filter(const struct file *f)
{
	return &trace_array_of(f)->ops->filter;
}
TRACEFS_FILTER(set_ftrace_filter, "set_ftrace_filter", TRACEFS_INSTANCE, array_filter,
	       .commands = true);
TRACEFS_FILTER(set_ftrace_notrace, "set_ftrace_notrace", TRACEFS_INSTANCE, array_filter, true);

/*
 * A line in Linux's form: name, number of ops, then columns for R, I, D, O and M.
 * I: an op may change pc. R (full registers), D (direct calls), O (call ops) and M
 * (was modified before) are always blank here. A stub that a site calls for one op
 * is shown as Linux shows a trampoline: "\ttramp: <stub> (<callback>)". An island
 * between the site and the stub is not shown.
 */
static void show_enabled(struct seq *s, const struct dyn_ftrace *rec)
{
	const struct ftrace_ops *op = ftrace_only_op(rec);

	ftrace_show_name(s, rec, "");
	seq_printf(s, " (%u)  %s       ", rec->count,
		   rec->flags & FTRACE_FL_IPMODIFY ? " I" : "  ");
	if (op)
		seq_printf(s, "\ttramp: %pS (%pS)",
			   (void *)ftrace_stub_addr((unsigned long)ftrace_stubs, rec->calls),
			   (void *)op->func);
	seq_printf(s, "\n");
}

static int enabled_show(struct seq *s, u64 item)
{
	const struct dyn_ftrace *rec;

	mutex_lock(&ftrace_lock);
	rec = ftrace_record(item);
	if (rec && rec->calls)
		show_enabled(s, rec);
	mutex_unlock(&ftrace_lock);
	return !rec;
}
TRACEFS_TEXT(enabled_functions, "enabled_functions", TRACEFS_TOP, enabled_show);

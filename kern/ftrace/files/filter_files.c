/*
 * Files of functions that are traced: an instance's filters (set_ftrace_filter,
 * set_ftrace_notrace), enabled_functions, and /proc/sys/kernel/ftrace_enabled.
 */
#include "errno.h"
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

/* ---- /proc/sys/kernel/ftrace_enabled ---- */

static u64 on_get(const struct file *f)
{
	return !ftrace_disabled;
}

/* Linux can end all tracers and start them again. Here only what is true already can be written. */
static int on_set(struct file *f, u64 on)
{
	if (ftrace_disabled)
		return tracefs_refuse(f, -ENODEV, "tracing was ended by an error; see the console");
	return on ? 0
		  : tracefs_refuse(f, -EBUSY,
				   "tracers are ended one by one; see enabled_functions");
}
TRACEFS_U64(ftrace_enabled, "/proc/sys/kernel/ftrace_enabled", TRACEFS_TOP, on_get, on_set);

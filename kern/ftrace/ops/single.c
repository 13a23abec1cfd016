/*
 * Lab 3: one tracer at a time. Its filter is two flags in each record. Its
 * callback is the target of the call at ftrace_call, which is patched like a site.
 */

#include "errno.h"
#include "ftrace_internal.h"

/* _mcount is linked, and not called after boot. */
struct ftrace_ops *function_trace_op = &global_ops;
ftrace_func_t ftrace_trace_function = ftrace_stub;

static bool tracing;	       /* function_trace_op is registered */
static u32 filtered, notraced; /* records with the flag; 0: no filter, and no notrace list */

static bool selected(const struct dyn_ftrace *rec)
{
	if (rec->flags & (FTRACE_FL_DISABLED | FTRACE_FL_NOTRACE))
		return false;
	return !filtered || rec->flags & FTRACE_FL_FILTER;
}

/* Make each site a call or a nop, as its record's flags say, in one batch. 0, or the last error. */
static int update_sites(bool on)
{
	int err = 0;

	ftrace_batch_begin();
	for_each_ftrace_rec(rec) {
		unsigned calls = on && selected(rec) ? FTRACE_CALLS_LIST : FTRACE_CALLS_NOTHING;

		if (rec->calls == calls || rec->flags & FTRACE_FL_DISABLED)
			continue;
		rec->count = calls;
		err = ftrace_switch(rec, calls) ?: err;
	}
	ftrace_batch_end();
	return err;
}

/* Make the call in ftrace_caller call the tracer, before any site calls ftrace_caller. */
static int set_tracer(ftrace_func_t func)
{
	int err;

	ftrace_batch_begin();
	err = ftrace_update_ftrace_func(func);
	ftrace_batch_end();
	return err;
}

/*
 * Make every site a nop, wait until no CPU is in the callback, and let ftrace_caller call
 * ftrace_stub.
 */
static void stop_tracing(void)
{
	update_sites(false);
	synchronize_sched();
	set_tracer(ftrace_stub);
	tracing = false;
}

int register_ftrace_function(struct ftrace_ops *op)
{
	int err = -EBUSY;

	mutex_lock(&ftrace_lock);
	if (ftrace_disabled)
		err = -ENODEV;
	else if (!tracing) {
		function_trace_op = op;
		smp_wmb();
		err = set_tracer(ftrace_op_func(op));
		if (!err)
			err = update_sites(true);
		tracing = true;
		if (err)
			stop_tracing();
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

int unregister_ftrace_function(struct ftrace_ops *op)
{
	int err = -ENOENT;

	mutex_lock(&ftrace_lock);
	if (tracing && function_trace_op == op) {
		stop_tracing();
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

static u8 list_flag(bool notrace_list)
{
	return notrace_list ? FTRACE_FL_NOTRACE : FTRACE_FL_FILTER;
}

bool ftrace_filter_has(const struct ftrace_filter *filter, const struct dyn_ftrace *rec,
		       bool notrace_list)
{
	return rec->flags & list_flag(notrace_list);
}

u32 ftrace_filter_count(const struct ftrace_filter *filter, bool notrace_list)
{
	return notrace_list ? notraced : filtered;
}

int ftrace_filter_commit(struct ftrace_filter *filter, const struct ftrace_set *set,
			 bool notrace_list)
{
	u8 flag = list_flag(notrace_list);
	int err = 0;

	mutex_lock(&ftrace_lock);
	for_each_ftrace_rec(rec)
		if (set && ftrace_set_has(set, rec))
			rec->flags |= flag;
		else
			rec->flags &= ~flag;
	*(notrace_list ? &notraced : &filtered) = set ? set->count : 0;
	if (tracing)
		err = update_sites(true);
	mutex_unlock(&ftrace_lock);
	return err;
}

struct ftrace_ops *ftrace_only_op(const struct dyn_ftrace *rec)
{
	return rec->calls ? function_trace_op : NULL;
}

/*
 * Labs 1 and 2: every traced function calls _mcount, always, and _mcount asks
 * ftrace_trace_function. One tracer at a time; no filter.
 */
#include "errno.h"
#include "tracer.h"

/* What _mcount calls, and the third argument it passes. */
extern ftrace_func_t ftrace_trace_function;
extern struct ftrace_ops *function_trace_op;
ftrace_func_t ftrace_trace_function = ftrace_stub;
struct ftrace_ops *function_trace_op = &global_ops;

int register_ftrace_function(struct ftrace_ops *op)
{
	int err = -EBUSY;

	mutex_lock(&ftrace_lock);
	if (ftrace_trace_function == ftrace_stub) {
		/*
		 * Whoever sees the function must find its op. _mcount has no barrier
		 * between its two loads, so every CPU passes one before it can see.
		 */
		function_trace_op = op;
		synchronize_sched();
		WRITE_ONCE(ftrace_trace_function, ftrace_op_func(op));
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

int unregister_ftrace_function(struct ftrace_ops *op)
{
	int err = -ENOENT;

	mutex_lock(&ftrace_lock);
	if (function_trace_op == op && ftrace_trace_function != ftrace_stub) {
		WRITE_ONCE(ftrace_trace_function, ftrace_stub);
		synchronize_sched();
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

void ftrace_init(void)
{
	ftrace_check_records();
}

/*
 * Labs 1 and 2: every function with a call site always calls _mcount, and _mcount
 * calls the function that ftrace_trace_function points to. One tracer at a time,
 * no filter.
 */
#include "errno.h"
#include "ftrace_internal.h"

ftrace_func_t ftrace_trace_function = ftrace_stub;
struct ftrace_ops *function_trace_op = &global_ops;

int register_ftrace_function(struct ftrace_ops *op)
{
	int err = -EBUSY;

	mutex_lock(&ftrace_lock);
	if (ftrace_trace_function == ftrace_stub) {
		/*
		 * A CPU that loads the new function must also load its op. _mcount has no
		 * barrier between the two loads, so wait for a grace period between the stores.
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
#if STAGE == 2 /* lab 1 has no records */
	ftrace_check_records(ftrace_kernel_table);
#endif
}

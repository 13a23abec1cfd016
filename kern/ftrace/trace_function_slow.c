/*
 * The function tracer's long path: off, another clock, a new page, a time
 * extend, a recursion, a stack trace behind each event.
 *
 * It has frame records, which the short path does without: stack walks start
 * in it and pass through it.
 */
#include "asm-ftrace/regs.h"
#include "trace.h"
#include "unwind.h"

void function_trace_slow(struct ftrace_ops *op, unsigned long ip, unsigned long parent_ip,
			 struct ftrace_regs *regs)
{
	struct trace_write w;
	struct function_entry *e = trace_begin(op->private, TRACE_FN, sizeof(*e), &w);

	if (e) {
		put_address(e->ip, ip);
		if (regs)
			parent_ip = unwind_true_caller(current, parent_ip, regs->fp);
		put_address(e->parent_ip, parent_ip);
	}
	trace_end(&w, e);
}

/*
 * The function tracer's long path: recording is off, another clock, a new page,
 * a time extend, a recursion, a stack trace after each event (func_stack_trace).
 *
 * It is compiled with frame records, the short path without: a stack walk can
 * start in the long path and pass through it.
 */
#include "asm-ftrace/regs.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"

#define STACK_MAX 64
static unsigned long stacks[NR_CPUS][STACK_MAX]; /* interrupts masked */

/*
 * Save the traced function and its callers. With HOOK=mcount there are no registers of
 * the call site, so the walk first skips the tracer's own frames.
 */
static unsigned save_stack(unsigned long ip, unsigned long parent_ip,
			   const struct ftrace_regs *regs, unsigned long *entries)
{
	struct unwind u;
	unsigned count;

	if (regs) {
		entries[0] = ip + 4;
		unwind_start_at(&u, current, parent_ip, regs->fp, regs->sp);
		return 1 + unwind_save(&u, entries + 1, STACK_MAX - 1);
	}
	unwind_start_here(&u);
	while (in_tracer(u.pc))
		if (!unwind_next(&u))
			return 0;
	count = unwind_save(&u, entries, STACK_MAX);
	entries[0] = ip + 4;
	return count;
}

/* Write the stack event that follows the event with the common fields @ent. */
static void write_stack(struct trace_array *tr, struct trace_entry ent, unsigned long ip,
			unsigned long parent_ip, const struct ftrace_regs *regs)
{
	unsigned long *entries = stacks[this_cpu()->index];
	unsigned count = save_stack(ip, parent_ip, regs, entries);
	struct trace_write w;
	struct stack_entry *e = trace_reserve(tr, TRACE_STACK, sizeof(*e) + 8 * count, &w);

	if (e) {
		ent.type = TRACE_STACK;
		*e = (struct stack_entry){ent, count};
		for (unsigned i = 0; i < count; i++)
			put_address(e->caller[i], entries[i]);
	}
	trace_end(&w, e);
}

void function_trace_slow(struct ftrace_ops *op, unsigned long ip, unsigned long parent_ip,
			 struct ftrace_regs *regs)
{
	struct trace_array *tr = op->private;
	struct trace_write w;
	struct function_entry *e = trace_begin(tr, TRACE_FN, sizeof(*e), &w);

	if (e) {
		put_address(e->ip, ip);
		if (regs)
			parent_ip = unwind_true_caller(current, parent_ip, regs->fp);
		put_address(e->parent_ip, parent_ip);
	}
	if (e && tr->options & TRACE_ITER_FUNC_STACK) {
		rb_commit(w.rb, &w.reserved);
		write_stack(tr, e->ent, ip, parent_ip, regs);
		e = NULL;
	}
	trace_end(&w, e);
}

TRACE_FUNCTION_OPTIONS(TRACEFS_OPTION)

/*
 * The function tracer's long path: recording is off, another clock, a new page,
 * a time extend, a recursion, a stack trace after each event (func_stack_trace).
 *
 * It is compiled with frame records, the short path without: a stack walk can
 * start in the long path and pass through it.
 */
#include "asm-ftrace/regs.h"
#include "irq.h"
#include "trace_event.h"
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

/* With a shadow stack, @parent_ip may be return_to_handler. */
static __always_inline unsigned long true_parent(unsigned long parent_ip,
						 const struct ftrace_regs *regs)
{
	if (regs && current->ftrace)
		parent_ip = unwind_true_caller(current, parent_ip, regs->fp);
	return parent_ip;
}

static __always_inline void fill_stack(struct stack_entry *e, struct trace_entry ent,
				       const unsigned long *entries, unsigned count)
{
	ent.type = TRACE_STACK;
	*e = (struct stack_entry){ent, count};
	for (unsigned i = 0; i < count; i++)
		put_address(e->caller[i], entries[i]);
}

void trace_write_stack(struct trace_array *tr, unsigned long ip, unsigned long parent_ip,
		       const struct ftrace_regs *regs)
{
	unsigned long flags = irq_save(), *entries = stacks[this_cpu()->index];
	unsigned count = save_stack(ip, true_parent(parent_ip, regs), regs, entries);
	struct trace_write w;
	struct stack_entry *e = trace_reserve(tr, TRACE_STACK, sizeof(*e) + 8 * count, &w);

	if (e) { /* with the caller's flags: here interrupts are masked */
		trace_fill_entry((u32 *)e, TRACE_STACK, flags);
		fill_stack(e, e->ent, entries, count);
	}
	trace_end(&w, e);
	irq_restore(flags);
}

/*
 * Reserve and fill the stack event that follows the function event @w, which is committed and has
 * the common fields @ent. Both have the same time. Return: as rb_reserve().
 */
static void *begin_stack(struct trace_write *w, struct trace_entry ent, unsigned long ip,
			 unsigned long parent_ip, const struct ftrace_regs *regs)
{
	unsigned long *entries = stacks[w->cpu->index];
	unsigned count = save_stack(ip, parent_ip, regs, entries);
	struct stack_entry *e =
		rb_reserve(w->rb, w->reserved.now, sizeof(*e) + 8 * count, &w->reserved);

	if (e)
		fill_stack(e, ent, entries, count);
	return e;
}

void function_trace_slow(struct ftrace_ops *op, unsigned long ip, unsigned long parent_ip,
			 struct ftrace_regs *regs)
{
	struct trace_array *tr = op->private;
	struct trace_write w;
	struct function_entry *e;
	void *last;

	if (trace_pids_ignore(READ_ONCE(tr->function_pids), current->pid))
		return;
	last = e = trace_begin(tr, TRACE_FN, sizeof(*e), &w);
	if (e) {
		put_address(e->ip, ip);
		parent_ip = true_parent(parent_ip, regs);
		put_address(e->parent_ip, parent_ip);
	}
	if (e && tr->options & TRACE_ITER_FUNC_STACK) {
		rb_commit(w.rb, &w.reserved);
		last = begin_stack(&w, e->ent, ip, parent_ip, regs);
	}
	trace_end(&w, last);
}

TRACE_FUNCTION_OPTIONS(TRACEFS_OPTION)

/*
 * The function tracer: one event for each call of a traced function.
 *
 * function_trace_call() runs for every traced call. Its short path calls
 * nothing, so it needs no stack frame; in the rare cases it ends in a tail call
 * to function_trace_slow(). No function that it reaches has a call site.
 */
#include "trace_event.h"

#define WORDS EVENT_WORDS(struct function_entry)

void function_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			 struct ftrace_regs *regs)
{
	struct cpu *c = this_cpu();
	struct ring_buffer_cpu *rb = trace_buffer(op->private, c);
	unsigned long flags;
	u64 now, delta, end;
	struct rb_page *page;
	struct function_entry *e;

	if (unlikely(rb->slow)) {
		if (rb->slow & RB_NO_EVENTS)
			return;
		return function_trace_slow(op, ip, parent_ip, regs);
	}
	/*
	 * In a thread with a shadow stack @parent_ip may be return_to_handler, after a tail call.
	 */
	if (unlikely(current->ftrace))
		return function_trace_slow(op, ip, parent_ip, regs);
	flags = irq_save();
	/* It need not be set here: interrupts are masked, and nothing below has a call site. */
	if (unlikely(c->recursion & c->context_bit))
		goto slow;
	now = clock_ns();
	delta = now - rb->last_ts;
	page = rb->page;
	end = event_end(page, WORDS);
	if (unlikely(!event_fits(delta, end)))
		goto slow;
	e = event_start(rb, page, end, now, delta, TRACE_FN, WORDS, flags);
	put_address(e->ip, ip);
	put_address(e->parent_ip, parent_ip);
	event_commit(page, end);
	irq_restore(flags);
	return;
slow:
	irq_restore(flags);
	/* no shadow stack: @parent_ip is the real parent */
	return function_trace_slow(op, ip, parent_ip, NULL);
}

/*
 * The short path has no func_stack_trace and no set_ftrace_pid: RB_ASK sends every call to the long
 * path.
 */
static void function_options_changed(struct trace_array *tr)
{
	tracing_slow(tr, RB_ASK,
		     tr->options & TRACE_ITER_FUNC_STACK || trace_pids_used(tr->function_pids));
}

static int function_init(struct trace_array *tr)
{
	int err;

	function_options_changed(tr);
	tr->ops->func = function_trace_call;
	tr->ops->private = tr;
	err = register_ftrace_function(tr->ops);
	if (err)
		tracing_slow(tr, RB_ASK, false);
	return err;
}

static void function_reset(struct trace_array *tr)
{
	unregister_ftrace_function(tr->ops);
	tracing_slow(tr, RB_ASK, false);
}

static const struct tracer function_tracer = {
	.name = "function",
	.init = function_init,
	.reset = function_reset,
	.options = TRACE_ITER_FUNC_STACK,
	.options_changed = function_options_changed,
};
TRACER(function_tracer);

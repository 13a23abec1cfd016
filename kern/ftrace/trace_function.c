/*
 * The function tracer: one event for each call of a traced function.
 *
 * function_trace_call() is what every traced call pays for. Its short path
 * calls nothing, so that it needs no stack frame; whatever is rare leaves it
 * by a tail call. Nothing that it reaches has a call site.
 */
#include "trace.h"
#include "irq.h"

#define EVENT_SIZE (4 + sizeof(struct function_entry)) /* header word, then the entry */
#define EVENT_WORDS (sizeof(struct function_entry) / 4)
/* Not 0 if an event that ends at @end is too long for the page: a shift, where a comparison costs three. */
#define PAST_PAGE(end) (((end) + RB_PAGE_SIZE - 1 - RB_PAGE_DATA) >> 12)

/* What follows counts from @v: the compiler keeps that, and not what it was made of as well. */
#define ONE_REGISTER(v) __asm__("" : "+r"(v))

/* The long path: off, another clock, a new page, a time extend, a recursion. */
static void __noinline function_trace_slow(struct ftrace_ops *op, unsigned long ip,
					   unsigned long parent_ip)
{
	struct trace_write w;
	struct function_entry *e = trace_begin(op->private, TRACE_FN, sizeof(*e), &w);

	if (e) {
		put_address(e->ip, ip);
		put_address(e->parent_ip, parent_ip);
	}
	trace_end(&w, e);
}

void function_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			 struct ftrace_regs *regs)
{
	struct cpu *c = this_cpu();
	struct ring_buffer_cpu *rb = (void *)((char *)op->private + (unsigned long)c->ftrace);
	unsigned long flags;
	u64 recursion, now, delta, end;
	struct rb_page *page;
	u32 *e;

	if (unlikely(rb->slow)) {
		if (rb->slow & (RB_OFF | RB_STOPPED))
			return;
		return function_trace_slow(op, ip, parent_ip);
	}
	flags = irq_save();
	recursion = c->recursion;
	if (unlikely(recursion & c->context_bit))
		goto slow;
	now = clock_ns();
	delta = now - rb->last_ts;
	page = rb->page;
	end = page->commit + EVENT_SIZE;
	ONE_REGISTER(end);
	if (unlikely(delta >> RB_DELTA_BITS) || unlikely(PAST_PAGE(end)))
		goto slow;
	c->recursion = recursion | c->context_bit;
	rb->last_ts = now;
	rb->accepted++;
	e = (u32 *)((char *)page + end);
	ONE_REGISTER(e);
	e += ((int)offsetof(struct rb_page, data) - (int)EVENT_SIZE) / 4;
	e[0] = EVENT_WORDS | delta << 5;
	e[1] = (current->ctx | (u32)irqs_off(flags) << 16) | TRACE_FN;
	e[2] = current->pid;
	put_address(e + 3, ip);
	put_address(e + 5, parent_ip);
	smp_wmb();
	WRITE_ONCE(page->commit, end);
	c->recursion = recursion;
	irq_restore(flags);
	return;
slow:
	irq_restore(flags);
	return function_trace_slow(op, ip, parent_ip);
}

static int function_init(struct trace_array *tr)
{
	tr->ops->func = function_trace_call;
	tr->ops->private = tr;
	return register_ftrace_function(tr->ops);
}

static void function_reset(struct trace_array *tr)
{
	unregister_ftrace_function(tr->ops);
}

static const struct tracer function_tracer = {"function", function_init, function_reset, NULL};
TRACER(function_tracer);

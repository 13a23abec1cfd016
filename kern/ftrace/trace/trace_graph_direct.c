/*
 * The direct path of function_graph, used while this tracer is the only user.
 * Entry and return are one function each. It has no loop over users and makes
 * no call; it masks interrupts once and reads the clock once.
 *
 * Every other case ends in a tail call to the general code of fgraph.c, before
 * anything is changed. So the two may be mixed: a frame that is pushed here may
 * be popped there.
 */
#include "shadow.h"
#include "trace_graph_event.h"

/*
 * shadow_push_into() and shadow_pop() without the two calls, which cost 21 (riscv64) or 18
 * (arm64) instructions. shadow_frame.c is handed in, so nothing else is compiled from it.
 */
static inline void push(struct shadow_stack *s, unsigned long ip, const struct ftrace_regs *regs,
			u64 now, u64 users)
{
	struct shadow_frame *f = (struct shadow_frame *)s->free, *below = s->top;
	unsigned long link = regs->link, sp = regs->sp, fp = regs->fp;

	shadow_store(s->free, (unsigned long *)(f + 1));
	barrier();
	shadow_store(f->ret, link);
	shadow_store(f->func, ip);
	shadow_store(f->sp, sp);
	shadow_store(f->fp, fp);
	shadow_store(f->calltime, now);
	shadow_store(f->below, below);
	shadow_store(f->users, users);
	shadow_store(f->data_end, (unsigned long *)(f + 1));
	barrier();
	shadow_store(s->top, f);
	shadow_store(s->depth, s->depth + 1);
}

static inline void pop(struct shadow_stack *s, struct shadow_frame *f)
{
	shadow_store(s->depth, s->depth - 1);
	shadow_store(s->top, f->below);
	barrier();
	shadow_store(s->free, (unsigned long *)f);
}

static void trace_graph_direct_entry(unsigned long ip, unsigned long parent_ip,
				     struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct cpu *c = this_cpu();
	struct ring_buffer_cpu *rb = trace_buffer(op->private, c);
	struct shadow_stack *s = shadow_of(current);
	u64 users = READ_ONCE(fgraph_single.users), now;
	struct graph_event ev;
	unsigned long flags;

	if (unlikely(rb->slow)) {
		if (rb->slow & RB_NO_EVENTS)
			return;
		return ftrace_graph_func(ip, parent_ip, op, regs);
	}
	if (unlikely(!s))
		return;
	if (unlikely(!users)) /* another user is being registered */
		return ftrace_graph_func(ip, parent_ip, op, regs);
	flags = irq_save();
	if (unlikely(c->recursion & c->context_bit) || unlikely(shadow_is_full(s)))
		goto general;
	now = clock_ns();
	if (unlikely(!graph_event_open(&ev, rb, flags, now, TRACE_GRAPH_ENT, GRAPH_ENT_WORDS)))
		goto general;
	graph_fill_entry(ev.entry, ip, s->depth);
	event_commit(ev.page, ev.end);
	push(s, ip, regs, now, users);
	regs->link = (unsigned long)return_to_handler;
	irq_restore(flags);
	return;
general:
	irq_restore(flags);
	return ftrace_graph_func(ip, parent_ip, op, regs);
}

static void trace_graph_direct_return(struct ftrace_regs *regs, struct shadow_stack *s,
				      struct shadow_frame *f, void *private)
{
	struct cpu *c = this_cpu();
	struct ring_buffer_cpu *rb = trace_buffer(private, c);
	struct graph_event ev;
	unsigned long flags;
	u64 now;

	if (unlikely(rb->slow))
		return ftrace_graph_return(regs);
	flags = irq_save();
	now = clock_ns();
	if (unlikely(!graph_event_open(&ev, rb, flags, now, TRACE_GRAPH_RET, GRAPH_RET_WORDS))) {
		irq_restore(flags);
		return ftrace_graph_return(regs);
	}
	graph_fill_return(ev.entry, f->func, regs->arg[0], s->depth - 1, s->overrun, f->calltime,
			  now);
	event_commit(ev.page, ev.end);
	irq_restore(flags);
	regs->link = f->ret;
	barrier();
	pop(s, f);
}

const struct fgraph_direct trace_graph_direct = {trace_graph_direct_entry,
						 trace_graph_direct_return};

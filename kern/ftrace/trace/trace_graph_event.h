/*
 * function_graph's two events, written the short way (trace_event.h). Shared
 * by the handlers, which the general code calls, and by the direct path.
 */
#ifndef FTRACE_TRACE_GRAPH_EVENT_H
#define FTRACE_TRACE_GRAPH_EVENT_H

#include "cpu.h"
#include "fgraph.h"
#include "trace_event.h"

#define GRAPH_ENT_WORDS EVENT_WORDS(struct ftrace_graph_ent_entry)
#define GRAPH_RET_WORDS EVENT_WORDS(struct ftrace_graph_ret_entry)

static inline __attribute__((always_inline)) struct ring_buffer_cpu *
graph_buffer(const struct trace_array *tr, const struct cpu *c)
{
	return (void *)((char *)tr + (unsigned long)c->ftrace);
}

extern const struct fgraph_direct trace_graph_direct; /* trace_graph_direct.c; stage 5: none */

/* Counter ticks that the running thread has been on a CPU: for times without its sleep. */
static inline u64 ticks_on_cpu(void)
{
	return current->runtime + arch_counter() - this_cpu()->switched_at;
}

/*
 * Room for an event at time @now, interrupts masked: where it begins, to be
 * filled and committed. False: take the long way. So it is, too, if an
 * interrupt has written an event since @now: the delta is negative, too long
 * for an event. What is filled in is loaded afterwards, so that it does not
 * wait in registers.
 */
struct graph_event {
	struct rb_page *page;
	u64 end;
	void *entry;
};
static inline __attribute__((always_inline)) bool
graph_event_open(struct graph_event *ev, struct ring_buffer_cpu *rb, unsigned long flags, u64 now,
		 u16 type, unsigned words)
{
	u64 delta = now - rb->last_ts;

	ev->page = rb->page;
	ev->end = event_end(ev->page, words);
	if (unlikely(!event_fits(delta, ev->end)))
		return false;
	ev->entry = event_start(rb, ev->page, ev->end, now, delta, type, words, flags);
	return true;
}

static inline __attribute__((always_inline)) void
graph_fill_entry(struct ftrace_graph_ent_entry *e, unsigned long func, int depth)
{
	put_address(e->func, func);
	e->depth = depth;
}

static inline __attribute__((always_inline)) void
graph_fill_return(struct ftrace_graph_ret_entry *e, unsigned long func, unsigned long retval,
		  int depth, u32 overrun, u64 calltime, u64 rettime)
{
	put_address(e->func, func);
	put_address(e->retval, retval);
	e->depth = depth;
	e->overrun = overrun;
	put_address(e->calltime, calltime);
	put_address(e->rettime, rettime);
}

#endif

/*
 * function_graph's two events, written by the short path (trace_event.h). Used
 * by the handlers, which the general code calls, and by the direct path.
 */
#ifndef FTRACE_TRACE_GRAPH_EVENT_H
#define FTRACE_TRACE_GRAPH_EVENT_H

#include "fgraph.h"
#include "trace_event.h"

#define GRAPH_ENT_WORDS EVENT_WORDS(struct ftrace_graph_ent_entry)
#define GRAPH_RET_WORDS EVENT_WORDS(struct ftrace_graph_ret_entry)

extern const struct fgraph_direct trace_graph_direct; /* trace_graph_direct.c; none in lab 5 */

/* Counter ticks for which the running thread has been on a CPU: for times without sleep. */
static inline u64 ticks_on_cpu(void)
{
	return current->runtime + arch_counter() - this_cpu()->switched_at;
}

/*
 * Reserve room for an event at time @now, interrupts masked; the caller fills
 * and commits it. False: take the long path. That is also the result if an
 * interrupt has written an event since @now, because the negative delta is too
 * large for an event. The callers load the event's fields after this, so that
 * the fields occupy no registers here.
 */
struct graph_event {
	struct rb_page *page;
	u64 end;
	void *entry;
};
static __always_inline bool graph_event_open(struct graph_event *ev, struct ring_buffer_cpu *rb,
					     unsigned long flags, u64 now, u16 type, unsigned words)
{
	u64 delta = now - rb->last_ts;

	ev->page = rb->page;
	ev->end = event_end(ev->page, words);
	if (unlikely(!event_fits(delta, ev->end)))
		return false;
	ev->entry = event_start(rb, ev->page, ev->end, now, delta, type, words, flags);
	return true;
}

static __always_inline void graph_fill_entry(struct ftrace_graph_ent_entry *e, unsigned long func,
					     int depth)
{
	put_address(e->func, func);
	e->depth = depth;
}

static __always_inline void graph_fill_return(struct ftrace_graph_ret_entry *e, unsigned long func,
					      unsigned long retval, int depth, u32 overrun,
					      u64 calltime, u64 rettime)
{
	put_address(e->func, func);
	put_address(e->retval, retval);
	e->depth = depth;
	e->overrun = overrun;
	put_address(e->calltime, calltime);
	put_address(e->rettime, rettime);
}

#endif

/*
 * The function_graph tracer: an event when a function is entered, and one
 * with its times when it returns.
 */
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "memory.h"
#include "trace_graph_event.h"
#include "tracefs.h"

/* Set by what is linked: NULL, or the way for a tracer that is alone (trace_graph_direct.c). */
struct fgraph_direct trace_graph_direct;

/* The long way: another clock, a new page, a time extend. */
static int __noinline graph_entry_slow(struct ftrace_graph_ent *trace, struct trace_array *tr)
{
	struct trace_write w;
	struct ftrace_graph_ent_entry *e = trace_reserve(tr, TRACE_GRAPH_ENT, GRAPH_ENT_SIZE, &w);

	if (e) {
		put_address(e->func, trace->func);
		e->depth = trace->depth;
	}
	trace_end(&w, e);
	return e != NULL;
}

static int trace_graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			     struct ftrace_regs *regs)
{
	struct ring_buffer_cpu *rb = graph_buffer(gops->private, this_cpu());
	struct graph_event ev;
	unsigned long flags;
	u32 *e;

	if (unlikely(rb->slow))
		return graph_entry_slow(trace, gops->private);
	flags = irq_save();
	e = graph_event_open(&ev, rb, flags, clock_ns(), TRACE_GRAPH_ENT, GRAPH_ENT_WORDS);
	if (likely(e)) {
		graph_fill_entry(e, trace->func, trace->depth);
		event_commit(ev.page, ev.end);
	}
	irq_restore(flags);
	return likely(e) ? 1 : graph_entry_slow(trace, gops->private);
}

static void __noinline graph_return_slow(struct ftrace_graph_ret *trace, struct trace_array *tr)
{
	struct trace_write w;
	struct ftrace_graph_ret_entry *e = trace_reserve(tr, TRACE_GRAPH_RET, sizeof(*e), &w);

	if (e) {
		put_address(e->func, trace->func);
		put_address(e->retval, trace->retval);
		e->depth = trace->depth;
		e->overrun = trace->overrun;
		put_address(e->calltime, trace->calltime);
		put_address(e->rettime, trace->rettime);
	}
	trace_end(&w, e);
}

static void trace_graph_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			       struct ftrace_regs *regs)
{
	struct ring_buffer_cpu *rb = graph_buffer(gops->private, this_cpu());
	struct graph_event ev;
	unsigned long flags;
	u32 *e;

	if (unlikely(rb->slow))
		return graph_return_slow(trace, gops->private);
	flags = irq_save();
	e = graph_event_open(&ev, rb, flags, clock_ns(), TRACE_GRAPH_RET, GRAPH_RET_WORDS);
	if (likely(e)) {
		graph_fill_return(e, trace->func, trace->retval, trace->depth, trace->overrun,
				  trace->calltime, trace->rettime);
		event_commit(ev.page, ev.end);
	}
	irq_restore(flags);
	if (unlikely(!e))
		graph_return_slow(trace, gops->private);
}

/* Each instance is a user of its own: tr->graph. */
static int graph_init(struct trace_array *tr)
{
	struct fgraph_ops *user = kzalloc(sizeof(*user));
	int err;

	if (!user)
		return -ENOMEM;
	*user = (struct fgraph_ops){.entryfunc = trace_graph_entry,
				    .retfunc = trace_graph_return,
				    .filter = tr->ops,
				    .private = tr,
				    .direct = trace_graph_direct,
				    .idx = -1};
	err = register_ftrace_graph(user);
	if (err)
		kfree(user);
	else
		tr->graph = user;
	return err;
}

static void graph_reset(struct trace_array *tr)
{
	unregister_ftrace_graph(tr->graph);
	kfree(tr->graph);
	tr->graph = NULL;
}

static const struct tracer graph_tracer = {
	.name = "function_graph",
	.init = graph_init,
	.reset = graph_reset,
	.print = trace_graph_print,
	.print_header = trace_graph_print_header,
	.options = TRACE_ITER_GRAPH,
};
TRACER(graph_tracer);

/* ---- The binary form ---- */

TRACEFS_FORMAT("funcgraph_entry", "11",
	       TRACEFS_FIELD("unsigned long func", 8, 8, 0) TRACEFS_FIELD("int depth", 16, 4, 1),
	       "\"--> %ps (%d)\", (void *)REC->func, REC->depth", graph_entry);
TRACEFS_FORMAT("fgraph_retaddr_entry", "12",
	       TRACEFS_FIELD("unsigned long func", 8, 8, 0) TRACEFS_FIELD("int depth", 16, 4, 1)
	       TRACEFS_FIELD("unsigned long retaddr", 20, 8, 0),
	       "\"--> %ps (%d) <- %ps\", (void *)REC->func, REC->depth, (void *)REC->retaddr",
	       graph_retaddr_entry);
TRACEFS_FORMAT("funcgraph_exit", "10",
	       TRACEFS_FIELD("unsigned long func", 8, 8, 0)
	       TRACEFS_FIELD("unsigned long retval", 16, 8, 0) TRACEFS_FIELD("int depth", 24, 4, 1)
	       TRACEFS_FIELD("unsigned int overrun", 28, 4, 0)
	       TRACEFS_FIELD("unsigned long long calltime", 32, 8, 0)
	       TRACEFS_FIELD("unsigned long long rettime", 40, 8, 0),
	       "\"<-- %ps (%d) (start: %llx  end: %llx) over: %u retval: %lx\", "
	       "(void *)REC->func, REC->depth, REC->calltime, REC->rettime, REC->overrun, REC->retval",
	       graph_exit);

TRACE_GRAPH_OPTIONS(TRACEFS_OPTION)

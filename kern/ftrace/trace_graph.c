/*
 * The function_graph tracer: an event when a function is entered, and one
 * with its times when it returns.
 */
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "memory.h"
#include "trace.h"

static int trace_graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			     struct ftrace_regs *regs)
{
	struct trace_write w;
	struct ftrace_graph_ent_entry *e =
		trace_reserve(gops->private, TRACE_GRAPH_ENT, GRAPH_ENT_SIZE, &w);

	if (e) {
		put_address(e->func, trace->func);
		e->depth = trace->depth;
	}
	trace_end(&w, e);
	return e != NULL;
}

static void trace_graph_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			       struct ftrace_regs *regs)
{
	struct trace_write w;
	struct ftrace_graph_ret_entry *e =
		trace_reserve(gops->private, TRACE_GRAPH_RET, sizeof(*e), &w);

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

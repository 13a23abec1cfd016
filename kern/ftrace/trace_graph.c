/*
 * The function_graph tracer: an event when a function is entered, and one
 * with its times when it returns.
 */
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "memory.h"
#include "trace.h"

struct graph_entry {
	struct trace_entry ent;
	u32 func[2];
	s32 depth;
};
struct graph_exit {
	struct trace_entry ent;
	u32 func[2], retval[2];
	s32 depth;
	u32 overrun;
	u32 calltime[2], rettime[2];
};

static int trace_graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			     struct ftrace_regs *regs)
{
	struct trace_write w;
	struct graph_entry *e = trace_reserve(gops->private, TRACE_GRAPH_ENT, sizeof(*e), &w);

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
	struct graph_exit *e = trace_reserve(gops->private, TRACE_GRAPH_RET, sizeof(*e), &w);

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

static int graph_print(struct seq *s, struct trace_array *tr, const void *event)
{
	const struct trace_entry *e = event;

	if (e->type == TRACE_GRAPH_ENT)
		seq_printf(s, "%*s%ps() {\n", 2 * ((const struct graph_entry *)event)->depth, "",
			   (void *)get_address(((const struct graph_entry *)event)->func));
	else if (e->type == TRACE_GRAPH_RET)
		seq_printf(s, "%*s}\n", 2 * ((const struct graph_exit *)event)->depth, "");
	else
		return 0;
	return 1;
}

static const struct tracer graph_tracer = {"function_graph", graph_init, graph_reset, graph_print};
TRACER(graph_tracer);

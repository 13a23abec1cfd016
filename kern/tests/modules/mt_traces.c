/* For module_kt.c: a tracer whose callback, or whose return handler, has a call site. */
#include "fgraph.h"
#include "module.h"
#include "ftrace_internal.h"

static bool graph;
module_param(graph, bool);

static void see_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		     struct ftrace_regs *regs)
{
}
static notrace int see_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			     struct ftrace_regs *regs)
{
	return 1;
}
static void see_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
		       struct ftrace_regs *regs)
{
}
static struct ftrace_ops op = {.func = see_call, .slot = -1};
static struct fgraph_ops gops = {.entryfunc = see_entry, .retfunc = see_return, .idx = -1};

static int traces_init(void)
{
	return graph ? register_ftrace_graph(&gops) : register_ftrace_function(&op);
}
module_init(traces_init);

/*
 * What function_graph costs, in instructions, entry and return together: see
 * bench_kt.c. One user has a way of its own (trace_graph_direct.c); what a
 * second one adds is counted from what the general code takes for one.
 */
#include "fgraph.h"
#include "kt.h"
#include "bench.h"
#include "trace_graph_event.h"
#include "tracefs.h"

static notrace int second_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs)
{
	return 1;
}
static notrace void second_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			  struct ftrace_regs *regs)
{
	*(u64 *)gops->private += 1;
}

/* With a second user: its own filter, handlers without an event. */
static u64 cost_with_second_user(void)
{
	static struct ftrace_ops filter = {.slot = -1};
	static u64 returns;
	static struct fgraph_ops second = {
		second_entry, second_return, &filter, &returns, .idx = -1};
	u64 both;

	ftrace_set_filter(&filter, "kt_bench_traced", 15, true, false);
	register_ftrace_graph(&second);
	both = bench_cost_of_events();
	unregister_ftrace_graph(&second);
	return both;
}

static u64 cost_with_second_instance(void)
{
	u64 both;

	file_mkdir(file_root(), TRACEFS "instances/second");
	kt_echo("kt_bench_traced", "instances/second/set_ftrace_filter", false);
	kt_echo("function_graph", "instances/second/current_tracer", false);
	both = bench_cost_of_events();
	kt_echo("nop", "instances/second/current_tracer", false);
	file_remove(file_root(), TRACEFS "instances/second");
	return both;
}

void bench_graph(u64 nop)
{
	const struct fgraph_direct direct = trace_graph_direct;
	u64 on, off, after, general, two, instances;

	kt_echo("function_graph", "current_tracer", false);
	on = bench_cost_of_events();
	kt_echo("0", "tracing_on", false);
	off = bench_cost_of_events();
	kt_echo("1", "tracing_on", false);
	kt_echo("nop", "current_tracer", false);
	after = bench_cost_of_events();
	trace_graph_direct = (struct fgraph_direct){NULL};
	kt_echo("function_graph", "current_tracer", false);
	general = bench_cost_of_events();
	two = cost_with_second_user();
	instances = cost_with_second_instance();
	kt_echo("nop", "current_tracer", false);
	trace_graph_direct = direct;
	bench_report("graph", on - nop);
	bench_report("graph_general", general - nop);
	bench_report("graph_off", after > nop ? after - nop : 0);
	bench_report("graph_tracing_off", off - nop);
	bench_report("graph_second_user", two - general);
	bench_report("graph_second_instance", instances - general);
}

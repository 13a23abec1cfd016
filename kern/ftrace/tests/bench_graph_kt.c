/*
 * What function_graph costs, in instructions, entry and return together: see
 * bench_kt.c.
 */
#include "errno.h"
#include "fgraph.h"
#include "kt.h"
#include "bench.h"
#include "trace.h"

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

/* What a second user adds: its own filter, handlers without an event. */
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

	if (kt_echo("kt_bench_traced", "instances/second/set_ftrace_filter", false))
		return 0;
	kt_echo("function_graph", "instances/second/current_tracer", false);
	both = bench_cost_of_events();
	kt_echo("nop", "instances/second/current_tracer", false);
	return both;
}

void bench_graph(u64 nop)
{
	u64 on, off, two, instances, after;

	kt_echo("function_graph", "current_tracer", false);
	on = bench_cost_of_events();
	kt_echo("0", "tracing_on", false);
	off = bench_cost_of_events();
	kt_echo("1", "tracing_on", false);
	two = cost_with_second_user();
	instances = cost_with_second_instance();
	kt_echo("nop", "current_tracer", false);
	after = bench_cost_of_events();
	bench_report("graph", on - nop);
	bench_report("graph_off", after - nop);
	bench_report("graph_tracing_off", off - nop);
	bench_report("graph_second_user", two - on);
	if (instances)
		bench_report("graph_second_instance", instances - on);
}

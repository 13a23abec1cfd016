/*
 * The cost of function_graph in instructions, entry and return together; see
 * bench_kt.c. A single user has the direct path (trace_graph_direct.c), which is
 * not used while there is a second user, even one of other functions. The cost
 * of a second user of the same function is counted from that figure.
 */
#include "fgraph.h"
#include "kt.h"
#include "bench.h"
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

/* Users with filters of their own, whose handlers write no event. */
static u64 returns;
static struct ftrace_filter filters[2];
static struct fgraph_ops second = {second_entry, second_return, &filters[0], &returns, .idx = -1},
			 elsewhere = {second_entry, second_return, &filters[1], &returns,
				      .idx = -1};

static void register_user(struct fgraph_ops *user, bool notrace_list)
{
	ftrace_filter_edit(user->filter, "kt_bench_traced", 15, true, notrace_list);
	register_ftrace_graph(user);
}

static u64 cost_with_second_user(void)
{
	u64 both;

	register_user(&second, false);
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
	u64 on, off, after, general, two, instances;

	kt_echo("function_graph", "current_tracer", false);
	on = bench_cost_of_events();
	kt_echo("0", "tracing_on", false);
	off = bench_cost_of_events();
	kt_echo("1", "tracing_on", false);
	register_user(&elsewhere, true);
	general = bench_cost_of_events();
	two = cost_with_second_user();
	instances = cost_with_second_instance();
	unregister_ftrace_graph(&elsewhere);
	kt_echo("nop", "current_tracer", false);
	after = bench_cost_of_events();
	bench_report("graph", on - nop);
	bench_report("graph_general", general - nop);
	bench_report("graph_off", after > nop ? after - nop : 0);
	bench_report("graph_tracing_off", off - nop);
	bench_report("graph_second_user", two - general);
	bench_report("graph_second_instance", instances - general);
#if STAGE >= 8
	bench_probes(nop);
	bench_kprobes(nop);
#endif
}

/*
 * A small tracer: it shows how often each CPU calls some functions, and how long
 * the calls take.
 *
 *	insmod latency functions=schedule		the glob of the functions
 *	cat /proc/latency				calls by CPU, then a histogram of
 *							nanoseconds
 *
 * An op counts the calls. A user of function_graph measures them: it keeps nothing,
 * because the tracer hands it the time of the entry with the return. Both run in
 * any context, so they only add to counters, each CPU to its own.
 */
#include "cpu.h"
#include "fgraph.h"
#include "file.h"
#include "module.h"
#include "string.h"

#define BUCKETS 32 /* bucket n: 2^n to 2^(n+1) - 1 ns */

static const char *functions = "schedule";
module_param(functions, charp);

static struct {
	u64 calls, bucket[BUCKETS];
} counts[NR_CPUS];

/*
 * An interrupt that is traced too may come between the load and the store of ++, so it is one
 * atomic addition.
 */
static notrace void add_one(u64 *count)
{
	__atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static notrace void count_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			       struct ftrace_regs *regs)
{
	add_one(&counts[this_cpu()->index].calls);
}

static notrace int begin(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			 struct ftrace_regs *regs)
{
	return 1;
}

static notrace void end(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs)
{
	u64 ns = trace->rettime - trace->calltime;
	unsigned bucket = 0;

	while (ns >>= 1)
		bucket += bucket < BUCKETS - 1;
	add_one(&counts[this_cpu()->index].bucket[bucket]);
}

static struct ftrace_ops counter = {.func = count_call, .slot = -1};
static struct fgraph_ops timer = {
	.entryfunc = begin, .retfunc = end, .filter = &counter.filter, .idx = -1};
static struct node *node;

static u64 calls_in(unsigned bucket)
{
	u64 sum = 0;

	for (unsigned cpu = 0; cpu < nr_cpus; cpu++)
		sum += READ_ONCE(counts[cpu].bucket[bucket]);
	return sum;
}

/* Items 0 to nr_cpus - 1: a CPU's calls; then a bucket each. */
static int show(struct seq *s, u64 item)
{
	u64 calls;

	if (item < nr_cpus) {
		seq_printf(s, "cpu%lu %lu calls\n", item, READ_ONCE(counts[item].calls));
		return 0;
	}
	item -= nr_cpus;
	if (item == BUCKETS)
		return 1;
	calls = calls_in(item);
	if (calls)
		seq_printf(s, "%10lu ns and more: %lu\n", 1ul << item, calls);
	return 0;
}

static int latency_open(struct file *f)
{
	return seq_open(f, show, NULL);
}

static const struct file_ops ops = {.open = latency_open, .read = seq_read, .release = seq_release};

/*
 * The file comes last: if init fails, nothing calls the module any more, and a file that is open
 * cannot be removed.
 */
static int latency_init(void)
{
	int err = ftrace_set_filter(&counter, functions, strlen(functions), true, false);

	if (err)
		return err;
	err = register_ftrace_function(&counter);
	if (err)
		goto forget;
	err = register_ftrace_graph(&timer);
	if (err)
		goto unregister;
	node = file_make("/proc/latency", 0444, &ops, NULL);
	if (node)
		return 0;
	err = -EEXIST;
	unregister_ftrace_graph(&timer);
unregister:
	unregister_ftrace_function(&counter);
forget:
	ftrace_filter_free(&counter.filter);
	return err;
}
module_init(latency_init);

static void latency_exit(void)
{
	file_unmake(node);
	unregister_ftrace_graph(&timer);
	unregister_ftrace_function(&counter);
	ftrace_filter_free(&counter.filter);
}
module_exit(latency_exit);

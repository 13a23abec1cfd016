/*
 * The function profiler: how often each function was called, and how long it
 * took. function_profile_enabled, trace_stat/function<cpu>.
 *
 * A user of function_graph like any other, with set_ftrace_filter as its
 * filter and no events. Each CPU has an entry for each record, with the calls
 * that began there. A call may end on another CPU, and an interrupt may come
 * between a load and a store, so each addition is atomic.
 */
#include "errno.h"
#include "irq.h"
#include "strerror.h"
#include "string.h"
#include "trace_graph_event.h"
#include "trace.h"
#include "tracefs.h"
#include "ftrace_internal.h"

struct profile {
	u64 hits, time, squared, squared_high; /* time in ns; the squares' sum in ns^2, 128 bits */
};
static struct profile *profiles[NR_CPUS]; /* indexed by record number; allocated when enabled */
/* records that have an entry; profile_forget_modules() reduces it */
static u32 profiled;
static bool profile_enabled; /* under trace_lock */

/* ---- The handlers ---- */

/*
 * Entry data. The thread's variable is the time taken by the calls that its
 * innermost traced function has made, and by interrupts; `before` keeps the
 * caller's value until the return. The clock is read next to each change of
 * the variable, so an interrupt inside a handler is either counted in both or
 * in neither.
 */
struct call {
	struct profile *profile; /* of the CPU where the call began */
	u64 before;
	u64 time;  /* clock_ns() */
	u64 ticks; /* ticks_on_cpu() */
};

/* NULL: it is in a table that was added later, or has no record. */
static struct profile *profile_of(unsigned long func)
{
	u32 number = ftrace_number(lookup_rec(func));

	return number < profiled ? &profiles[this_cpu()->index][number] : NULL;
}

static inline u64 add(u64 *to, u64 n)
{
	return __atomic_add_fetch(to, n, __ATOMIC_RELAXED);
}

/*
 * A module is removed, so the numbers of other modules' records change: no module is profiled until
 * the next start.
 */
void profile_forget_modules(void)
{
	WRITE_ONCE(profiled, MIN(profiled, ftrace_count(&ftrace_kernel_table)));
}

static int profile_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			 struct ftrace_regs *regs)
{
	struct call *call = fgraph_reserve_data(gops->idx, sizeof(*call));
	struct profile *p = profile_of(trace->func);

	if (!p)
		return 0;
	add(&p->hits, 1);
	if (!call)
		return 0;
	call->profile = p;
	call->ticks = ticks_on_cpu();
	call->time = clock_ns();
	call->before = __atomic_exchange_n(fgraph_get_task_var(gops), 0, __ATOMIC_RELAXED);
	return 1;
}

static void profile_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			   struct ftrace_regs *regs)
{
	const struct call *call = fgraph_retrieve_data(gops->idx, NULL);
	u32 options = READ_ONCE(global_trace.options);
	u64 *inner = fgraph_get_task_var(gops), made = READ_ONCE(*inner);
	u64 time = trace->rettime - trace->calltime, taken = clock_ns() - call->time, carry;
	unsigned __int128 square;

	if (!(options & TRACE_ITER_SLEEP_TIME)) {
		taken = ticks_to_ns(ticks_on_cpu() - call->ticks);
		time = MIN(time, taken);
	}
	add(inner, call->before + taken - made);
	if (!(options & TRACE_ITER_GRAPH_TIME))
		time = taken - MIN(taken, made);
	square = (unsigned __int128)time * time;
	add(&call->profile->time, time);
	carry = add(&call->profile->squared, square) < (u64)square;
	add(&call->profile->squared_high, (u64)(square >> 64) + carry);
}

/*
 * It is not known when the program jumped out of the call, so its time is not added. Calls
 * that it made and that returned count as the caller's.
 */
static void profile_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops)
{
	const struct call *call = fgraph_retrieve_data(gops->idx, NULL);

	add(fgraph_get_task_var(gops), call->before);
}

static struct fgraph_ops profiler = {profile_entry, profile_return, &global_ops.filter,
				     .gonefunc = profile_gone, .idx = -1};

/* ---- function_profile_enabled ---- */

/*
 * Allocate an entry for each record and CPU. Return: 0; without memory, the bytes that each CPU
 * needs. ftrace_lock held.
 */
static size_t make_profiles(void)
{
	u32 count = ftrace_total();
	size_t size = count * sizeof(struct profile);

	profiled = 0;
	for (unsigned i = 0; i < nr_cpus; i++) {
		kfree(profiles[i]);
		profiles[i] = kzalloc(size);
		if (!profiles[i])
			return size;
	}
	profiled = count;
	return 0;
}

static int profile_start(struct file *f)
{
	size_t missing;
	int err;

	mutex_lock(&ftrace_lock);
	missing = make_profiles();
	mutex_unlock(&ftrace_lock);
	if (missing)
		return tracefs_refuse(f, -ENOMEM, "no memory for %zu bytes for each CPU", missing);
	err = register_ftrace_graph(&profiler);
	return err ? tracefs_refuse(f, err, "function_graph cannot take another user: %s",
				    strerror(-err))
		   : 0;
}

static u64 enabled_get(const struct file *f)
{
	return profile_enabled;
}

static int enabled_set(struct file *f, u64 on)
{
	int err = 0;

	if (!!on != profile_enabled)
		err = on ? profile_start(f) : unregister_ftrace_graph(&profiler);
	if (!err)
		profile_enabled = on;
	return err;
}
TRACEFS_U64(function_profile_enabled, "function_profile_enabled", TRACEFS_TOP, enabled_get,
	    enabled_set);

/* ---- trace_stat/function<cpu> ---- */

/*
 * The content of an open file: the functions that were called on this CPU, the longest time first.
 */
struct row {
	const char *name; /* it stays valid when its module is removed */
	struct profile p; /* no hits: the end */
};

/* Functions with equal times are in reverse order, as on Linux. */
static struct row *sorted_rows(const struct profile *p)
{
	struct row *rows = kzalloc((profiled + 1) * sizeof(*rows));
	u32 count = 0;

	for (u32 i = 0; rows && p && i < profiled; i++) {
		struct row row = {ftrace_name(ftrace_record(i)), p[i]};
		u32 at = count;

		if (!row.p.hits)
			continue;
		for (count++; at && row.p.time >= rows[at - 1].p.time; at--)
			rows[at] = rows[at - 1];
		rows[at] = row;
	}
	return rows;
}

/* Bit by bit: the kernel has no library function for 128-bit division. */
static unsigned __int128 divide(unsigned __int128 a, u64 by)
{
	u64 rest = 0;

	for (int i = 0; i < 128; i++) {
		rest = rest << 1 | (u64)(a >> 127);
		a = a << 1 | (rest >= by);
		rest -= rest >= by ? by : 0;
	}
	return a;
}

/*
 * s^2 = (sum of squares - (sum)^2 / n) / (n - 1), rounded down once; in us^2, printed in the format
 * of a time in ns.
 */
static u64 variance(const struct profile *p)
{
	unsigned __int128 squares = (unsigned __int128)p->squared_high << 64 | p->squared;
	unsigned __int128 square = (unsigned __int128)p->time * p->time;

	if (p->hits < 2)
		return 0;
	square = divide(square + p->hits - 1, p->hits);
	return divide(squares - MIN(square, squares), (p->hits - 1) * 1000);
}

static int stat_show(struct seq *s, u64 item)
{
	const struct row *row = (const struct row *)s->arg + item;

	if (!item)
		seq_printf(s, "  Function                               Hit    Time            Avg "
			      "            s^2\n"
			      "  --------                               ---    ----            --- "
			      "            ---\n");
	if (!row->p.hits)
		return 1;
	seq_printf(s, "  %-30.30s  %10lu    ", row->name, row->p.hits);
	trace_print_duration(s, row->p.time);
	seq_printf(s, "    ");
	trace_print_duration(s, row->p.time / row->p.hits);
	seq_printf(s, "    ");
	trace_print_duration(s, variance(&row->p));
	seq_printf(s, "\n");
	return 0;
}

static int stat_open(struct file *f)
{
	struct row *rows;
	int err;

	mutex_lock(&trace_lock);
	mutex_lock(&ftrace_lock);
	rows = sorted_rows(profiles[(unsigned long)f->node->data]);
	mutex_unlock(&ftrace_lock);
	mutex_unlock(&trace_lock);
	err = rows ? seq_open(f, stat_show, rows) : -ENOMEM;
	if (err)
		kfree(rows);
	return err;
}

static int stat_release(struct file *f)
{
	kfree(((struct seq *)f->private)->arg);
	return seq_release(f);
}

static const struct file_ops stat_ops = {stat_open, seq_read, NULL, stat_release};
TRACEFS_ENTRY(trace_stat, "trace_stat/function%u", 0444, TRACEFS_EACH_CPU, &stat_ops, NULL);

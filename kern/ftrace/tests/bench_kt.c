/*
 * The cost of tracing in instructions: exact on one CPU under -icount.
 *
 * A figure is the difference between two loops of the same calls through a
 * pointer, interrupts masked, that differ only in the thing that is measured.
 */
#include "bench.h"
#include "kt.h"
#include "cpu.h"
#include "thread.h"
#include "file.h"
#include "ftrace.h"
#include "irq.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"
#include "ftrace_internal.h"

void kt_bench_other(void);
void kt_bench_untraced(void);

__noinline void kt_bench_traced(void)
{
	barrier();
}
__noinline void kt_bench_other(void)
{
	barrier();
}
__noinline notrace void kt_bench_untraced(void)
{
	barrier();
}

static notrace __noinline u64 cost_of(void (*fn)(void))
{
	unsigned long flags = irq_save();
	u64 start = kt_instructions(), end;

	for (int i = 0; i < BENCH_CALLS; i++)
		fn();
	end = kt_instructions();
	irq_restore(flags);
	return end - start;
}

/*
 * Begins with an empty buffer, so the page switches are the same each time; the least of three
 * runs, because the clock has steps.
 */
u64 bench_cost_of(void (*fn)(void))
{
	u64 least = ~0ull;

	for (int i = 0; i < 3; i++) {
		kt_echo("", "trace", false);
		least = MIN(least, cost_of(fn));
	}
	return least;
}

u64 bench_cost_of_events(void)
{
	return bench_cost_of(kt_bench_traced);
}

/* "bench KEY n.nnn", per call. */
static void report(const char *key, u64 instructions, u64 per)
{
	u64 milli = (instructions * 1000 + per / 2) / per;

	out_printf("bench %s %lu.%03lu\n", key, (unsigned long)(milli / 1000),
		   (unsigned long)(milli % 1000));
}

void bench_report(const char *key, u64 instructions)
{
	report(key, instructions, BENCH_CALLS);
}

static notrace void other_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
}

/* The frames of a call of bench_cost_of_events() by this function's caller. */
static __noinline unsigned frames_of_an_event(void)
{
	unsigned long entries[64];
	struct unwind u;

	unwind_start_here(&u);
	/* this function and its callers; in its place, three functions and the traced one */
	return unwind_save(&u, entries, ARRAY_SIZE(entries)) - 1 + 4;
}

static void bench_events(void)
{
	static struct ftrace_ops other = {
		.func = other_callback, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};
	u64 bare = cost_of(kt_bench_untraced), nop, on, stack, off, beside;

	kt_echo("kt_bench_traced", "set_ftrace_filter", false);
	nop = cost_of(kt_bench_traced);
	kt_echo("function", "current_tracer", false);
	on = bench_cost_of_events();
	kt_echo("1", "options/func_stack_trace", false);
	stack = bench_cost_of_events();
	kt_echo("0", "options/func_stack_trace", false);
	kt_echo("0", "tracing_on", false);
	off = cost_of(kt_bench_traced);
	kt_echo("1", "tracing_on", false);
	ftrace_set_filter(&other, "kt_bench_other", 14, true, false);
	register_ftrace_function(&other);
	beside = bench_cost_of_events();
	unregister_ftrace_function(&other);
	kt_echo("nop", "current_tracer", false);
	report("untraced_call", nop - bare, BENCH_CALLS);
	report("function", on - nop, BENCH_CALLS);
	report("function_stack", (stack - on) * 10 / frames_of_an_event(), BENCH_CALLS);
	report("function_off", off - nop, BENCH_CALLS);
	report("function_other_op", beside > on ? beside - on : 0, BENCH_CALLS);
	bench_graph(nop);
	kt_echo("", "set_ftrace_filter", false);
}

static u64 cost_of_write(const char *tracer)
{
	struct file *f;
	u64 start, end;

	if (file_open(file_root(), TRACEFS "current_tracer", O_WRONLY | O_TRUNC, &f))
		return 0;
	start = kt_instructions();
	file_write(f, tracer, strlen(tracer));
	end = kt_instructions();
	file_close(f);
	return end - start;
}

static void bench_patching(void)
{
	unsigned long syncs;
	u64 on, off;

	cost_of_write("function"); /* the buffers grow at the first use */
	cost_of_write("nop");
	syncs = ftrace_syncs;
	on = cost_of_write("function");
	syncs = ftrace_syncs - syncs;
	off = cost_of_write("nop");
	report("patch_site", on, ftrace_record_count);
	report("unpatch_site", off, ftrace_record_count);
	report("syncs_per_batch", syncs, 1);
}

static int bench_command(int argc, char **argv)
{
	set_cpu_affinity(this_cpu()->index);
	bench_events();
	bench_patching();
	report("record_bytes", sizeof(ftrace_records[0]), 1);
	report("boot", (prompt_counter - boot_counter) * 1000000000 / clock_hz,
	       1); /* ns: instructions */
	set_cpu_affinity(-1);
	return 0;
}
SHELL_COMMAND("bench", bench_command, "",
	      "instructions per traced call (run it with -icount shift=0)");

static int bench_sites_command(int argc, char **argv)
{
	bench_patching();
	return 0;
}
SHELL_COMMAND("bench_sites", bench_sites_command, "", "instructions per patched site");

/*
 * The cost of an event while every CPU traces: on each CPU the observer counts the
 * instructions between these two. kern/ftrace/tests/bench.py reads its log.
 */
void kt_bench_begin(void);
void kt_bench_end(void);

__noinline notrace void kt_bench_begin(void)
{
	barrier();
}
__noinline notrace void kt_bench_end(void)
{
	barrier();
}

static u32 bench_ready;

static notrace int bench_cpu(void *unused)
{
	unsigned long flags;

	__atomic_add_fetch(&bench_ready, 1, __ATOMIC_SEQ_CST);
	while (READ_ONCE(bench_ready) < nr_cpus)
		yield();
	flags = irq_save();
	kt_bench_begin();
	for (int i = 0; i < BENCH_CALLS; i++)
		kt_bench_traced();
	kt_bench_end();
	irq_restore(flags);
	return 0;
}

static void bench_every_cpu(void)
{
	struct thread *threads[NR_CPUS] = {NULL};

	bench_ready = 0;
	for (unsigned i = 0; i < nr_cpus; i++)
		threads[i] = kthread_run(bench_cpu, NULL, i, "bench");
	for (unsigned i = 0; i < nr_cpus; i++)
		if (threads[i])
			thread_join(threads[i]);
}

static int bench_cpus_command(int argc, char **argv)
{
	kt_echo("kt_bench_traced", "set_ftrace_filter", false);
	bench_every_cpu();
	kt_echo("function", "current_tracer", false);
	bench_every_cpu();
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	return 0;
}
SHELL_COMMAND("bench_cpus", bench_cpus_command, "",
	      "traced calls on every CPU at once, for the observer");

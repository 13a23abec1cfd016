/*
 * Hostile: one thread changes tracers and filters at random while
 * threads on the other CPUs run traced functions as fast as they can.
 *
 * Afterwards: no wrong result, every event accounted for, text as it was.
 */
#include "kt.h"
#include "cpu.h"
#include "irq.h"
#include "string.h"
#include "trace.h"

u64 kt_mix(u64 x);
u64 kt_step(u64 x, u32 depth);
u64 kt_tail(u64 x);
u64 kt_calm(u64 x);

/* The result of the traced functions, computed by one function that is not traced. */
static notrace u64 expected(u64 x, u32 depth)
{
	for (; depth; depth--)
		x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9 + depth;
	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9 + 1;
}

__noinline u64 kt_mix(u64 x)
{
	barrier();
	return (x ^ x >> 29) * 0xbf58476d1ce4e5b9;
}
__noinline u64 kt_tail(u64 x)
{
	return kt_mix(x) + 1;
}
__noinline u64 kt_step(u64 x, u32 depth)
{
	return depth ? kt_step(kt_mix(x) + depth, depth - 1) : kt_tail(x);
}
__noinline u64 kt_calm(u64 x)
{
	barrier();
	return x + 1;
}

static volatile bool stop_hammers;
static struct {
	u64 rounds, wrong;
} __aligned(64) hammers[NR_CPUS];

static int hammer(void *number)
{
	unsigned long me = (unsigned long)number;
	u64 x = me + 1;

	while (!stop_hammers) {
		u32 depth = x % 6;

		if (kt_step(x, depth) != expected(x, depth))
			hammers[me].wrong++;
		hammers[me].rounds++;
		x = x * 6364136223846793005 + 1442695040888963407;
	}
	return 0;
}

#define CALM_CALLS 1000
static int calm(void *unused)
{
	u64 x = 0;

	for (int i = 0; i < CALM_CALLS; i++)
		x = kt_calm(x);
	return x == CALM_CALLS ? 0 : 1;
}

static unsigned hammer_count(void)
{
	return nr_cpus > 1 ? nr_cpus - 1 : 1;
}

/*
 * Start a thread on each CPU but the first, on which the changes are made; with one CPU they share
 * it.
 */
static void on_every_cpu(int (*fn)(void *), struct thread **threads)
{
	memset(threads, 0, NR_CPUS * sizeof(*threads));
	for (unsigned long cpu = nr_cpus > 1; cpu < nr_cpus; cpu++)
		threads[cpu] = kthread_run(fn, (void *)cpu, cpu, "hammer");
}

static int join_all(struct thread **threads)
{
	int bad = 0;

	for (unsigned cpu = nr_cpus > 1; cpu < nr_cpus; cpu++)
		bad += !threads[cpu] || thread_join(threads[cpu]);
	return bad;
}

/* Make one random change. Return: 0, or the error of the write. */
static int change(u64 dice)
{
	static const char *const globs[] = {"kt_*",  "*lock*", "kt_mix",   "kt_t?il", "!kt_step",
					    "!kt_*", "*",      "kt_[sm]*", "1"};
	const char *glob = globs[(dice >> 8) % ARRAY_SIZE(globs)];
	int err;

	switch (dice % 8) {
	case 0:
	case 1:
		return kt_echo("function", "current_tracer", false);
	case 2:
		return kt_echo("nop", "current_tracer", false);
	case 3:
	case 4:
		err = kt_echo(glob, "set_ftrace_filter", dice >> 16 & 1);
		return err;
	case 5:
		return kt_echo(dice >> 16 & 1 ? glob : "", "set_ftrace_notrace", dice >> 17 & 1);
	case 6:
		return kt_echo(dice >> 16 & 1 ? "1" : "0", "tracing_on", false);
	default:
		return kt_echo("kt_*", "set_ftrace_filter", false);
	}
}

static void restore(void)
{
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	kt_echo("", "set_ftrace_notrace", false);
	kt_echo("1", "tracing_on", false);
}

/* Count the events in the buffers; the number must be that of the counters. */
static void account(void)
{
	for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
		struct ring_buffer_cpu *rb = &global_trace.cpu[cpu];
		u64 found = kt_events(rb);

		kt_promise(found == rb_entries(rb),
			   "CPU %u: %lu events written, %lu overrun, %lu in the buffer", cpu,
			   (unsigned long)rb->accepted, (unsigned long)rb->overrun,
			   (unsigned long)found);
	}
}

/* With one traced function and a known number of calls there must be exactly as many events. */
static void calm_phase(void)
{
	struct thread *threads[NR_CPUS];
	u64 events = 0;

	/*
	 * QEMU with a thread for each CPU may have translated the old word of a site again between
	 * its invalidation and the store, and executes it until the site is written once more:
	 * write all of them, while nobody calls.
	 */
	kt_echo("function", "current_tracer", false);
	kt_echo("nop", "current_tracer", false);
	kt_echo("kt_calm", "set_ftrace_filter", false);
	kt_echo("function", "current_tracer", false);
	on_every_cpu(calm, threads);
	kt_promise(!join_all(threads), "results are right");
	for (unsigned cpu = 0; cpu < nr_cpus; cpu++)
		events += global_trace.cpu[cpu].accepted + global_trace.cpu[cpu].dropped;
	kt_promise(events == CALM_CALLS * hammer_count(),
		   "%u calls on each of %u CPUs are %lu events", CALM_CALLS, hammer_count(),
		   (unsigned long)events);
}

static void hostile_phase(u64 seconds, u64 seed)
{
	struct thread *threads[NR_CPUS];
	u64 until = clock_ns() + seconds * 1000000000, changes = 0, bad = 0, rounds = 0, wrong = 0;

	set_cpu_affinity(0);
	memset(hammers, 0, sizeof(hammers));
	stop_hammers = false;
	on_every_cpu(hammer, threads);
	while (clock_ns() < until) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		bad += change(seed >> 20) != 0;
		changes++;
	}
	stop_hammers = true;
	join_all(threads);
	for (unsigned cpu = 0; cpu < nr_cpus; cpu++) {
		rounds += hammers[cpu].rounds;
		wrong += hammers[cpu].wrong;
	}
	kt_promise(changes && !bad, "%lu changes, %lu refused", (unsigned long)changes,
		   (unsigned long)bad);
	kt_promise(rounds && !wrong, "%lu rounds, %lu wrong", (unsigned long)rounds,
		   (unsigned long)wrong);
}

static int hostile_command(int argc, char **argv)
{
	u64 seconds = 10, seed = 1, text = kt_text_hash();

	if ((argc > 1 && kstrtou64(argv[1], 0, &seconds)) ||
	    (argc > 2 && kstrtou64(argv[2], 0, &seed))) {
		out_printf("usage: hostile [SECONDS [SEED]]\n");
		return 1;
	}
	kt_begin();
	hostile_phase(seconds, seed);
	kt_echo("0", "tracing_on", false); /* another tracer would empty the buffers */
	synchronize_sched(); /* no CPU is writing an event */
	account();
	restore();
	calm_phase();
	restore();
	kt_promise(!ftrace_disabled, "no site was refused");
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	set_cpu_affinity(-1);
	return kt_end();
}
SHELL_COMMAND("hostile", hostile_command, "[SECONDS [SEED]]",
	      "change tracers at random under load");

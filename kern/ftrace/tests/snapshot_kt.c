/*
 * Snapshots under fire: threads on the other CPUs run a traced function as fast as they can, one
 * takes snapshots, one consumes the events of both sets of buffers. Each call is one event, counted
 * in one of the two: none is lost by an exchange, and none is there twice.
 */
#include "cpu.h"
#include "event_write.h"
#include "kt.h"
#include "tracefs.h"

#define CALLS 1000000u /* of each thread */
long kt_snap(long x);

__noinline long kt_snap(long x)
{
	barrier();
	return x + 1;
}

static unsigned ended;

static int caller(void *unused)
{
	long x = 0;

	while (x < CALLS)
		x = kt_snap(x);
	__atomic_fetch_add(&ended, 1, __ATOMIC_RELEASE);
	return 0;
}

static unsigned callers(void)
{
	return nr_cpus > 1 ? nr_cpus - 1 : 1;
}

static struct ring_buffer_cpu *buffer(unsigned cpu, bool spare)
{
	return spare ? &global_trace.snapshot->cpu[cpu] : &global_trace.cpu[cpu];
}

static u64 consumed;

static int consumer(void *unused)
{
	struct rb_event ev;

	for (unsigned n = 0; READ_ONCE(ended) < callers(); n++) {
		struct ring_buffer_cpu *rb = buffer(n / 2 % nr_cpus, n % 2);

		rb_lock(rb);
		for (unsigned i = 0; i < 100 && rb_peek(rb, &ev); i++, consumed++)
			rb_consume(rb);
		rb_unlock(rb);
		yield();
	}
	return 0;
}

/* Run the threads, and take snapshots until the calls have ended. Return: the number of them. */
static u64 fire(void)
{
	struct thread *threads[NR_CPUS] = {0}, *reads;
	u64 taken = 0;

	ended = 0;
	consumed = 0;
	for (unsigned cpu = nr_cpus > 1; cpu < nr_cpus; cpu++)
		threads[cpu] = kthread_run(caller, NULL, cpu, "caller");
	reads = kthread_run(consumer, NULL, 0, "consumer");
	for (; READ_ONCE(ended) < callers(); taken++) {
		tracing_snapshot(&global_trace, taken % 3 ? -1 : (int)(taken % nr_cpus));
		yield();
	}
	for (unsigned cpu = 0; cpu < nr_cpus; cpu++)
		if (threads[cpu])
			thread_join(threads[cpu]);
	thread_join(reads);
	return taken;
}

static void account(u64 taken)
{
	u64 events = 0, read = 0, swaps = 0;
	bool right = true;

	for (unsigned i = 0; i < 2 * nr_cpus; i++) {
		struct ring_buffer_cpu *rb = buffer(i / 2, i % 2);

		right &= kt_events(rb) == rb_entries(rb);
		events += rb->accepted + rb->dropped;
		read += rb->read;
		swaps += rb->swaps;
	}
	kt_promise(taken && swaps, "%lu snapshots, %lu exchanges", (unsigned long)taken,
		   (unsigned long)swaps / 2);
	kt_promise(events == (u64)CALLS * callers(), "%u calls are %lu events", CALLS * callers(),
		   (unsigned long)events);
	kt_promise(read == consumed, "%lu were consumed, each once", (unsigned long)read);
	kt_promise(right, "what is in a buffer is what its counters say");
}

static int snapshot_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	set_cpu_affinity(0);
	kt_echo("kt_snap", "set_ftrace_filter", false);
	kt_echo("function", "current_tracer", false);
	kt_promise(!kt_echo("1", "snapshot", false), "the spare buffers are made");
	account(fire());
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	kt_echo("0", "snapshot", false);
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	set_cpu_affinity(-1);
	return kt_end();
}
SHELL_COMMAND("test-snapshot", snapshot_command, "", "snapshots under load");

/*
 * The ring buffers inside the kernel: every CPU writes, with interrupts that
 * write too, into buffers full, tiny, stopped, consumed and resized
 * meanwhile. No event may be changed, repeated or lost without being counted.
 */
#include "kt.h"
#include "trace.h"

#define CALLS 60000
#define THREAD_IP 0x1000 /* what stands in ip: who wrote it */
#define IRQ_IP 0x2000

static struct ftrace_ops op = {.private = &global_trace};
static const char *wrong; /* the first thing that was */
static volatile bool stop;
static u64 irq_calls[NR_CPUS];
static u64 last_seen[NR_CPUS];

static void expect(bool ok, const char *what)
{
	if (!ok && !wrong)
		wrong = what;
}

/* CALLS events, numbered from 1 in parent_ip. */
static int hammer(void *unused)
{
	for (unsigned long i = 1; i <= CALLS; i++)
		function_trace_call(THREAD_IP, i, &op, NULL);
	return 0;
}

static void irq_hammer(void *unused)
{
	for (unsigned i = 0; i < 50; i++)
		function_trace_call(IRQ_IP, 0, &op, NULL);
	irq_calls[this_cpu()->index] += 50;
}

/* An event of CPU @cpu, @lost before it: is it the next of its thread? */
static void check_event(unsigned cpu, const struct rb_event *ev, bool exact)
{
	const struct function_entry *e = ev->data;
	u64 number = get_address(e->parent_ip);

	expect(e->ent.type == TRACE_FN && ev->len == sizeof(*e), "an event is damaged");
	if (get_address(e->ip) == IRQ_IP) {
		expect(e->ent.flags & TRACE_FLAG_HARDIRQ, "an interrupt's event without its flag");
		return;
	}
	expect(get_address(e->ip) == THREAD_IP && number <= CALLS, "an event is damaged");
	expect(number > last_seen[cpu], "an event came twice or out of order");
	expect(!exact || number - last_seen[cpu] - 1 == ev->lost, "a gap was not counted");
	last_seen[cpu] = number;
}

static u64 count_unread(unsigned cpu, bool exact)
{
	struct rb_page *copy = page_alloc(0);
	struct rb_event ev;
	struct rb_iter it;
	u64 n = 0;

	rb_iter_start(&it, &global_trace.cpu[cpu], copy);
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it), n++)
		check_event(cpu, &ev, exact && n);
	page_free(copy, 0);
	return n;
}

/* @written: what CPU @cpu tried to write, if that is known. */
static void check_accounts(unsigned cpu, u64 written, bool exact)
{
	struct ring_buffer_cpu *rb = &global_trace.cpu[cpu];
	u64 unread = count_unread(cpu, exact);

	expect(unread == rb_entries(rb), "entries is not what is in the buffer");
	expect(rb->read + unread + rb->overrun + rb->dropped == written,
	       "read + in buffer + overrun + dropped is not what was written");
	expect(!rb->recursed, "a call counted as a recursion");
}

static void start(struct thread **t)
{
	tracing_reset(&global_trace, -1);
	for (unsigned i = 0; i < nr_cpus; i++) {
		last_seen[i] = irq_calls[i] = 0;
		t[i] = kthread_run(hammer, NULL, i, "hammer");
		expect(t[i], "no memory for a thread");
	}
}

static void join(struct thread **t)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		if (t[i])
			thread_join(t[i]);
}

static void set_up(unsigned long bytes, bool overwrite)
{
	mutex_lock(&trace_lock);
	tracing_set_tracer(&global_trace, "nop");
	tracing_set_option(&global_trace, TRACE_OPTION_OVERWRITE, overwrite);
	expect(!tracing_resize(&global_trace, bytes, -1), "the buffer could not be resized");
	mutex_unlock(&trace_lock);
}

static void run_and_check(unsigned long bytes, bool overwrite)
{
	struct thread *t[NR_CPUS];

	set_up(bytes, overwrite);
	start(t);
	join(t);
	for (unsigned i = 0; i < nr_cpus; i++) {
		struct ring_buffer_cpu *rb = &global_trace.cpu[i];

		check_accounts(i, CALLS, true);
		expect(overwrite ? rb->overrun && !rb->dropped : rb->dropped && !rb->overrun,
		       "the wrong end of the buffer was lost");
	}
}

static void test_full(void)
{
	run_and_check(TRACE_BUFFER_SIZE, true);
}

static void test_tiny(void)
{
	run_and_check(1, true);
}

static void test_stopped(void)
{
	run_and_check(1, false);
}

static void consume(unsigned cpu, bool exact)
{
	struct ring_buffer_cpu *rb = &global_trace.cpu[cpu];
	struct rb_event ev;

	mutex_lock(&rb->reader);
	for (unsigned i = 0; i < 500 && rb_peek(rb, &ev); i++) {
		check_event(cpu, &ev, exact);
		rb_consume(rb);
	}
	mutex_unlock(&rb->reader);
}

static int consumer(void *unused)
{
	while (!stop)
		for (unsigned i = 0; i < nr_cpus; i++)
			consume(i, true);
	return 0;
}

static void test_consumed(void)
{
	struct thread *t[NR_CPUS], *reader;

	set_up(KiB(32), true);
	stop = false;
	start(t);
	reader = kthread_run(consumer, NULL, -1, "consumer");
	join(t);
	stop = true;
	thread_join(reader);
	for (unsigned i = 0; i < nr_cpus; i++)
		check_accounts(i, CALLS, false);
}

static void test_interrupted(void)
{
	struct thread *t[NR_CPUS];

	set_up(KiB(64), true);
	start(t);
	for (unsigned n = 0; n < 200; n++)
		for (unsigned i = 0; i < nr_cpus; i++)
			smp_call(i, irq_hammer, NULL);
	join(t);
	for (unsigned i = 0; i < nr_cpus; i++)
		check_accounts(i, CALLS + irq_calls[i], false);
}

/* What is called while recording is stopped is not written: the buffer itself says how much was. */
static void test_resized(void)
{
	struct thread *t[NR_CPUS];

	set_up(KiB(64), true);
	start(t);
	for (unsigned n = 0; n < 30; n++) {
		mutex_lock(&trace_lock);
		expect(!tracing_resize(&global_trace, KiB(4 + n * 37 % 200), -1), "resize failed");
		mutex_unlock(&trace_lock);
		consume(n % nr_cpus, false);
	}
	join(t);
	for (unsigned i = 0; i < nr_cpus; i++)
		check_accounts(i, global_trace.cpu[i].accepted, false);
}

static int test_buffer(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {{"full", test_full},	  {"tiny", test_tiny},
		     {"stopped", test_stopped},	  {"consumed", test_consumed},
		     {"interrupted", test_interrupted}, {"resized", test_resized}};

	kt_begin();
	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
		wrong = NULL;
		tests[i].fn();
		kt_promise(!wrong, "buffer %s: %s", tests[i].name, wrong ?: "every event accounted for");
	}
	set_up(TRACE_BUFFER_SIZE, true);
	tracing_reset(&global_trace, -1);
	return kt_end();
}
SHELL_COMMAND("test-buffer", test_buffer, "", "ring buffers: exact accounts under fire");

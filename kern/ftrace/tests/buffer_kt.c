/*
 * The ring buffers inside the kernel: every CPU writes, and interrupts write, too,
 * while the buffers are full, tiny, stopped, consumed or resized. No event may be
 * changed, repeated, or lost without being counted.
 */
#include "errno.h"
#include "kt.h"
#include "trace.h"
#include "tracefs.h"

#define CALLS 60000
#define THREAD_IP 0x1000 /* the ip of events that a thread writes */
#define IRQ_IP 0x2000

static struct ftrace_ops op = {.private = &global_trace};
static const char *wrong; /* the first thing that was wrong */
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

/*
 * What must hold for a CPU's events: nothing; their order; their order, and every gap is counted.
 */
enum known { ANY, ORDER, GAPS };

static void check_event(unsigned cpu, const struct rb_event *ev, enum known known)
{
	const struct function_entry *e = ev->data;
	u64 number = get_address(e->parent_ip);

	if (known == ANY) {
		expect(e->ent.type == TRACE_FN || e->ent.type == TRACE_PRINT,
		       "an event is damaged");
		return;
	}
	expect(e->ent.type == TRACE_FN && ev->len == sizeof(*e), "an event is damaged");
	if (get_address(e->ip) == IRQ_IP) {
		expect(e->ent.flags & TRACE_FLAG_HARDIRQ, "an interrupt's event without its flag");
		return;
	}
	expect(get_address(e->ip) == THREAD_IP && number <= CALLS, "an event is damaged");
	expect(number > last_seen[cpu], "an event came twice or out of order");
	expect(known != GAPS || number - last_seen[cpu] - 1 == ev->lost, "a gap was not counted");
	last_seen[cpu] = number;
}

static u64 count_unread(unsigned cpu, enum known known)
{
	struct rb_page *copy = page_alloc(0);
	struct rb_event ev;
	struct rb_iter it;
	u64 n = 0;

	rb_iter_start(&it, &global_trace.cpu[cpu], copy);
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it), n++)
		check_event(cpu, &ev, known == GAPS && !n ? ORDER : known);
	page_free(copy, 0);
	return n;
}

/* @written: the number of events that CPU @cpu tried to write, if it is known. */
static void check_accounts(unsigned cpu, u64 written, enum known known)
{
	struct ring_buffer_cpu *rb = &global_trace.cpu[cpu];
	u64 unread = count_unread(cpu, known);

	expect(unread == rb_entries(rb), "the number of entries is wrong");
	expect(rb->read + unread + rb->overrun + rb->dropped == written,
	       "read + in buffer + overrun + dropped is not what was written");
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
	expect(!tracing_resize(&global_trace, -1, bytes), "the buffer could not be resized");
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

		check_accounts(i, CALLS, GAPS);
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

static void consume(unsigned cpu, enum known known)
{
	struct ring_buffer_cpu *rb = &global_trace.cpu[cpu];
	struct rb_event ev;

	rb_lock(rb);
	for (unsigned i = 0; i < 500 && rb_peek(rb, &ev); i++) {
		check_event(cpu, &ev, known);
		rb_consume(rb);
	}
	rb_unlock(rb);
}

static int consumer(void *unused)
{
	while (!stop)
		for (unsigned i = 0; i < nr_cpus; i++)
			consume(i, GAPS);
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
		check_accounts(i, CALLS, ORDER);
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
		check_accounts(i, CALLS + irq_calls[i], ORDER);
}

/*
 * Calls made while recording is stopped are not written, so the number of events is taken from the
 * buffer itself.
 */
static void test_resized(void)
{
	struct thread *t[NR_CPUS];

	set_up(KiB(64), true);
	start(t);
	for (unsigned n = 0; n < 30; n++) {
		mutex_lock(&trace_lock);
		expect(!tracing_resize(&global_trace, -1, KiB(4 + n * 37 % 200)), "resize failed");
		mutex_unlock(&trace_lock);
		consume(n % nr_cpus, ORDER);
	}
	join(t);
	for (unsigned i = 0; i < nr_cpus; i++)
		check_accounts(i, global_trace.cpu[i].accepted, ORDER);
}

/* A traced function, and threads that only call it. */
static __noinline void called(void)
{
	__asm__ volatile("" : : : "memory");
}

static int caller(void *unused)
{
	while (!stop)
		called();
	return 0;
}

static void look(const char *path, size_t limit)
{
	static char text[2000];
	struct file *f;
	ssize_t n = 1;

	if (file_open(file_root(), path, O_RDONLY | O_NONBLOCK, &f)) {
		expect(false, "a file could not be opened");
		return;
	}
	for (size_t sum = 0; sum < limit && n > 0; sum += n)
		n = file_read(f, text, sizeof(text));
	expect(n >= 0 || n == -EAGAIN, "a file could not be read");
	file_close(f);
}

static void disturb(unsigned n)
{
	static const struct {
		const char *text, *file;
	} writes[] = {
		{"100", "buffer_size_kb"},
		{"counter", "trace_clock"},
		{"nop", "current_tracer"},
		{"8", "buffer_size_kb"},
		{"function", "current_tracer"},
		{"0", "options/overwrite"},
		{"", "trace"},
		{"0", "tracing_on"},
		{"1", "options/overwrite"},
		{"hello", "trace_marker"},
		{"1", "tracing_on"},
		{"local", "trace_clock"},
		{"", "per_cpu/cpu0/trace"},
		{"function", "current_tracer"},
	};
	unsigned i = n * 7 % ARRAY_SIZE(writes);
	int err = kt_echo(writes[i].text, writes[i].file, false);

	expect(err >= 0 || err == -EBADF, "a write was refused");
	if (n % 3 == 0)
		look(TRACEFS "trace", 20000);
	if (n % 3 == 1)
		look(TRACEFS "trace_pipe", 8000);
	if (n % 3 == 2)
		look(TRACEFS "per_cpu/cpu0/trace_pipe_raw", 40000);
}

/* All changes at once, through the files; afterwards each buffer's counts must still add up. */
static void test_disturbed(void)
{
	struct thread *t[NR_CPUS];

	set_up(KiB(64), true);
	stop = false;
	for (unsigned i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(caller, NULL, i, "caller");
	kt_echo("function", "current_tracer", false);
	for (unsigned n = 0; n < 120; n++)
		disturb(n);
	stop = true;
	join(t);
	tracing_slow(&global_trace, RB_OFF, true);
	synchronize_sched();
	for (unsigned i = 0; i < nr_cpus; i++)
		check_accounts(i, global_trace.cpu[i].accepted + global_trace.cpu[i].dropped, ANY);
}

/* All free memory, linked through the first words of its pages. */
struct hoard {
	void **pages, **objects;
};

static struct hoard take_memory(void)
{
	struct hoard h = {NULL, NULL};
	void **p;

	while ((p = page_alloc(0))) {
		*p = h.pages;
		h.pages = p;
	}
	for (size_t size = 2048; size >= 16; size /= 2)
		while ((p = kmalloc(size))) {
			*p = h.objects;
			h.objects = p;
		}
	return h;
}

static void give_memory(struct hoard h)
{
	void **p;

	while ((p = h.objects)) {
		h.objects = *p;
		kfree(p);
	}
	while ((p = h.pages)) {
		h.pages = *p;
		page_free(p, 0);
	}
}

/* An event that cannot be printed stays in the buffer. */
static void test_without_memory(void)
{
	unsigned i = this_cpu()->index;
	static char text[4000];
	struct hoard hoard;
	struct file *f;
	ssize_t n;

	set_up(KiB(64), true);
	set_cpu_affinity(i);
	kt_echo("nop", "current_tracer", false);
	tracing_slow(&global_trace, RB_OFF, false);
	for (int k = 0; k < 20; k++)
		kt_echo("hello", "trace_marker", false);
	if (file_open(file_root(), TRACEFS "trace_pipe", O_RDONLY | O_NONBLOCK, &f))
		return expect(false, "trace_pipe could not be opened");
	hoard = take_memory();
	n = file_read(f, text, sizeof(text));
	give_memory(hoard);
	expect(n == -ENOMEM, "a read without memory did not say so");
	expect(rb_entries(&global_trace.cpu[i]) == 20, "an unread event is missing");
	n = file_read(f, text, sizeof(text));
	expect(n > 0 && rb_entries(&global_trace.cpu[i]) == 0,
	       "a later read with memory did not return the events");
	file_close(f);
	set_cpu_affinity(-1);
}

static int test_buffer(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {{"full", test_full},	  {"tiny", test_tiny},
		     {"stopped", test_stopped},	  {"consumed", test_consumed},
		     {"interrupted", test_interrupted}, {"resized", test_resized},
		     {"disturbed", test_disturbed}, {"without memory", test_without_memory}};

	kt_begin();
	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++) {
		wrong = NULL;
		tests[i].fn();
		kt_promise(!wrong, "buffer %s: %s", tests[i].name,
			   wrong ?: "every event accounted for");
	}
	set_up(TRACE_BUFFER_SIZE, true);
	tracing_reset(&global_trace, -1);
	tracing_slow(&global_trace, RB_OFF, false);
	kt_echo("local", "trace_clock", false);
	return kt_end();
}
SHELL_COMMAND("test-buffer", test_buffer, "", "ring buffers: exact accounts under fire");

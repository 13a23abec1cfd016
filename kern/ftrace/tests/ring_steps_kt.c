/*
 * One writer and one reader of a ring buffer: test_ring_steps.py stops each of
 * them in front of any of its steps while the other one goes on.
 *
 * kt_ring pipe|raw|trace overwrite|stop thread|irq FILL AHEAD WRITES ROUNDS
 *
 * In each round FILL events are written and AHEAD of them read. Then the writer
 * writes WRITES more, as a thread on CPU 1 or in an interrupt of the reader's
 * CPU, while the reader reads all events that it finds, as the named file does.
 * Then the rest is read. An event's number and time depend only on the number of
 * events accepted before it, so all rounds take the same path.
 */
#include "errno.h"
#include "kt.h"
#include "string.h"
#include "trace_event.h"
#include "tracefs.h"

#define WORDS EVENT_WORDS(struct function_entry)
#define NOIPA __attribute__((noipa))
#define ENOUGH 100000 /* events; more mean that the buffer repeats an event for ever */

static struct ring_buffer_cpu *rb;
static struct rb_page *page;
static u64 fill, ahead, writes, rounds;
static bool in_irq;
/* numbers: of the event before the round's first, and of the last that was read */
static u64 before, tried, last, consumed;
static const char *wrong;

static void expect(bool ok, const char *what)
{
	if (!ok && !wrong)
		wrong = what;
}

/* ---- The writer ---- */

/* Writes as function_trace_call() does, by the short path or the long path. */
NOIPA static void write_one(void)
{
	u64 number = before + rb->accepted + 1, now = 10 * number, end = event_end(rb->page, WORDS);
	bool fits = event_fits(now - rb->last_ts, end);
	struct rb_page *p = rb->page;
	struct function_entry *e;
	struct rb_reserved r;

	tried++;
	if (fits)
		e = (void *)event_start(rb, p, end, now, now - rb->last_ts, TRACE_FN, WORDS, 0);
	else
		e = rb_reserve(rb, now, sizeof(*e), &r);
	if (!e)
		return;
	put_address(e->ip, number);
	put_address(e->parent_ip, ~number);
	if (fits)
		event_commit(p, end);
	else
		rb_commit(rb, &r);
}

NOIPA static void ring_write(void *number)
{
	for (u64 i = 0; i < *(u64 *)number; i++)
		write_one();
}

NOIPA static int ring_writer(void *unused)
{
	unsigned long flags;

	if (in_irq) {
		smp_call(0, ring_write, &writes);
		return 0;
	}
	flags = irq_save();
	ring_write(&writes);
	irq_restore(flags);
	return 0;
}

/* ---- The reader ---- */

/*
 * @lost: events that are known to be missing before this one; @number: of the one before. Return:
 * its number.
 */
static u64 check(const struct rb_event *ev, u64 number, u64 lost)
{
	const struct function_entry *e = ev->data;
	u64 n = ev->len == sizeof(*e) ? get_address(e->ip) : 0;

	expect(n && get_address(e->parent_ip) == ~n && ev->ts == 10 * n, "an event is damaged");
	expect(n > number, "an event came twice or out of order");
	expect(n == number + 1 + lost,
	       "events are missing, and the reader got another number of them");
	return n;
}

static void consume(u64 most)
{
	struct rb_event ev;

	rb_lock(rb);
	for (; most-- && !wrong && rb_peek(rb, &ev); consumed++) {
		last = check(&ev, last, ev.lost);
		rb_consume(rb);
	}
	rb_unlock(rb);
}

/* One page of trace_pipe_raw. False: there was none. */
static bool consume_page(void)
{
	u64 n = rb_read_page(rb, page), lost = 0, ts = page->time_stamp;
	u32 size = page->commit & (RB_MISSED_STORED - 1), offset = 0;

	if (page->commit & RB_MISSED_STORED)
		memcpy(&lost, page->data + size, sizeof(lost));
	for (u64 i = 0; i < n && !wrong; i++, lost = 0) {
		const u32 *e = (const u32 *)(page->data + offset);
		struct rb_event ev = {.ts = ts + (*e >> 5), .data = e + 1, .len = 4 * (*e & 31)};

		ts = ev.ts;
		if (!i &&
		    (page->commit & (RB_MISSED_EVENTS | RB_MISSED_STORED)) == RB_MISSED_EVENTS)
			lost = get_address(((struct function_entry *)ev.data)->ip) - last - 1;
		last = check(&ev, last, lost);
		offset += 4 + ev.len;
	}
	expect(!n || offset == size, "a page's events do not fill it");
	consumed += n;
	return n;
}

/* The number of events before the first is not known. */
static void look(void)
{
	struct rb_iter it;
	struct rb_event ev;
	u64 number = 0;

	rb_iter_start(&it, rb, page);
	for (u64 i = 0; i < ENOUGH && !wrong && rb_iter_peek(&it, &ev); i++, rb_iter_next(&it)) {
		u64 n = ev.len == sizeof(struct function_entry)
				? get_address(((struct function_entry *)ev.data)->ip)
				: 0;

		expect(i || n > last, "an event was shown that had been read");
		number = check(&ev, i ? number : n - 1, i ? ev.lost : 0);
	}
}

static void consume_pages(void)
{
	rb_lock(rb);
	while (!wrong && consume_page())
		;
	rb_unlock(rb);
}

NOIPA static void ring_read(char how)
{
	if (how == 't')
		look();
	else if (how == 'p')
		consume(ENOUGH);
	else
		consume_pages();
	barrier(); /* so that none of these calls is a tail call, and each returns to here */
}

/* ---- Rounds ---- */

static void account(void)
{
	consume(ENOUGH);
	expect(!rb_entries(rb) && !rb_bytes(rb),
	       "the buffer was read to its end, and still counts entries");
	expect(rb->read == consumed, "the number of events that were read is wrong");
	expect(rb->read + rb->overrun + rb->dropped == tried,
	       "read + in buffer + overrun + dropped is not what was written");
	expect(rb->accepted == last - before, "the last event is missing");
}

static void play(char how)
{
	struct thread *writer;

	rb_reset(rb);
	tried = consumed = 0;
	last = before;
	smp_call(in_irq ? 0 : 1, ring_write, &fill);
	consume(ahead);
	writer = kthread_run(ring_writer, NULL, 1, "writer");
	if (!writer)
		return expect(false, "no memory for a thread");
	ring_read(how);
	thread_join(writer);
	account();
}

static int set_up(unsigned long bytes, bool overwrite)
{
	int err;

	mutex_lock(&trace_lock);
	tracing_set_tracer(&global_trace, "nop");
	tracing_set_option(&global_trace, TRACE_OPTION_OVERWRITE, overwrite);
	err = tracing_resize(&global_trace, -1, bytes);
	mutex_unlock(&trace_lock);
	return err;
}

static int kt_ring(int argc, char **argv)
{
	u64 n = 0;

	if (argc != 8 || nr_cpus < 2 || kstrtou64(argv[4], 0, &fill) ||
	    kstrtou64(argv[5], 0, &ahead) || kstrtou64(argv[6], 0, &writes) ||
	    kstrtou64(argv[7], 0, &rounds))
		return 2;
	kt_begin();
	in_irq = argv[3][0] == 'i';
	rb = &global_trace.cpu[in_irq ? 0 : 1];
	page = page_alloc(0);
	wrong = page && !set_up(1, argv[2][0] == 'o') ? NULL : "no memory";
	for (before = 0; n < rounds && !wrong; n++, before += 1 << 20)
		play(argv[1][0]);
	kt_promise(!wrong, "%llu rounds: %s", (unsigned long long)n,
		   wrong ?: "every event accounted for");
	page_free(page, 0);
	set_up(TRACE_BUFFER_SIZE, true);
	tracing_reset(&global_trace, -1);
	return kt_end();
}
SHELL_COMMAND("kt_ring", kt_ring, "how mode who fill ahead writes rounds",
	      "one reader and one writer, for test_ring_steps.py");

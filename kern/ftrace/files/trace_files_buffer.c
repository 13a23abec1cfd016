/*
 * The tracefs files for events: trace (reads them without consuming), trace_pipe
 * and trace_pipe_raw (consume them), trace_marker (writes one) and stats; one set
 * for all CPUs, and one for each CPU under per_cpu/.
 */
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

/* The buffers that a file shows: one CPU's, or those of all CPUs merged by time. */
struct view {
	struct trace_array *tr;
	int cpu; /* -1: all */
#define NO_CPU NR_CPUS
};

static struct view view_of(const struct file *f)
{
	return (struct view){trace_array_of(f), (long)f->node->data};
}

static bool in_view(const struct view *v, unsigned cpu)
{
	return v->cpu < 0 || v->cpu == (int)cpu;
}

/*
 * An event of at most this size is copied while the next event of its CPU is
 * peeked at: the two may be printed as one line.
 */
#define HELD_MAX 128

/* The next event of a CPU: that of @it or, if @it is NULL, the one to consume next. */
static bool peek(struct ring_buffer_cpu *rb, struct rb_iter *it, struct rb_event *ev)
{
	return it ? rb_iter_peek(it, ev) : rb_peek(rb, ev);
}

/*
 * Find the oldest of the view's next events. @its: an iterator for each CPU, or NULL,
 * as for peek(). Return: its CPU, and the event in *@ev; -1 if no event is left.
 */
static int oldest_event(const struct view *v, struct rb_iter *its, struct rb_event *ev)
{
	struct rb_event e;
	int next = -1;

	for (unsigned i = 0; i < nr_cpus; i++)
		if (in_view(v, i) && peek(&v->tr->cpu[i], its ? &its[i] : NULL, &e) &&
		    (next < 0 || e.ts < ev->ts)) {
			*ev = e;
			next = i;
		}
	return next;
}

/* Advance past the event just peeked at: in @it, or by consuming the event if @it is NULL. */
static void advance(struct ring_buffer_cpu *rb, struct rb_iter *it)
{
	if (it)
		rb_iter_next(it);
	else
		rb_consume(rb);
}

/*
 * Print @ev, which was just peeked at, or @ev and the next event together, and advance past them.
 */
static void print_line(struct seq *s, struct trace_printer *p, unsigned cpu, struct rb_iter *it,
		       struct rb_event *ev)
{
	struct ring_buffer_cpu *rb = &p->tr->cpu[cpu];
	char held[HELD_MAX] __aligned(8);
	struct rb_event next;
	bool more;

	if (ev->len > HELD_MAX) {
		trace_print_event(s, p, cpu, ev, NULL);
		advance(rb, it);
		return;
	}
	ev->data = memcpy(held, ev->data, ev->len); /* the next peek may overwrite the original */
	advance(rb, it);
	more = peek(rb, it, &next);
	if (trace_print_event(s, p, cpu, ev, more ? &next : NULL) > 1)
		advance(rb, it);
}

/* ---- trace ---- */

struct listing {
	struct view view;
	struct trace_printer printer;
	unsigned printed, started; /* number of events; a bit for each CPU with a printed event */
	/* events are missing: mark the first event of each CPU (common form only) */
	bool annotate;
	bool paused; /* it is one of tr->pauses */
	struct rb_iter cpu[NR_CPUS];
};

static void listing_free(struct listing *t)
{
	for (unsigned i = 0; t && i < nr_cpus; i++)
		if (t->cpu[i].copy)
			page_free(t->cpu[i].copy, 0);
	kfree(t);
}

static struct listing *listing_make(const struct view *v)
{
	struct listing *t = kzalloc(sizeof(*t));

	for (unsigned i = 0; t && i < nr_cpus; i++) {
		struct rb_page *copy;

		if (v->tr->cpu[i].overrun && !v->tr->tracer->print_header)
			t->annotate = v->tr->options & TRACE_ITER_ANNOTATE;
		if (!in_view(v, i))
			continue;
		copy = page_alloc(0);
		rb_iter_start(&t->cpu[i], &v->tr->cpu[i], copy);
		if (!copy) {
			listing_free(t);
			return NULL;
		}
	}
	if (t) {
		t->view = *v;
		t->printer.tr = v->tr;
	}
	return t;
}

/* Start at tr->since, and count the events from there on. */
static void skip_old(struct listing *t)
{
	struct trace_array *tr = t->view.tr;
	struct rb_event ev;

	if (!tr->since)
		return;
	if (t->view.cpu < 0)
		t->view.cpu = tr->since_cpu;
	else if (tr->since_cpu >= 0 && t->view.cpu != tr->since_cpu)
		t->view.cpu = NO_CPU;
	tr->shown = 0;
	for (unsigned i = 0; i < nr_cpus; i++) {
		struct rb_iter *it = &t->cpu[i];
		bool more = in_view(&t->view, i);

		while (more && (more = rb_iter_peek(it, &ev)) && ev.ts < tr->since)
			rb_iter_next(it);
		tr->shown += more ? it->end - it->seq : 0;
	}
}

static int listing_show(struct seq *s, u64 item)
{
	struct listing *t = s->arg;
	struct rb_event ev;
	int cpu;

	if (!item) {
		skip_old(t);
		trace_print_header(s, t->view.tr);
		/* show exactly the events that the header counts */
		for (unsigned i = 0; i < nr_cpus; i++)
			t->cpu[i].end = READ_ONCE(t->view.tr->cpu[i].accepted);
		return 0;
	}
	cpu = oldest_event(&t->view, t->cpu, &ev);
	if (cpu < 0)
		return 1;
	if (t->annotate && t->printed && !(t->started & 1u << cpu))
		seq_printf(s, "##### CPU %d buffer started ####\n", cpu);
	t->started |= 1u << cpu;
	t->printed++;
	print_line(s, &t->printer, cpu, &t->cpu[cpu], &ev);
	return 0;
}

/*
 * A file that stops the recording into @tr is opened or closed: with the option pause-on-trace, or
 * because it shows the spare buffers of a latency tracer, which then stay as they are. trace_lock
 * held.
 */
static void pause(struct trace_array *tr, int change)
{
	tr->pauses += change;
	tracing_slow(tr, RB_PAUSED, tr->pauses);
	synchronize_sched();
}

int trace_open_events(struct file *f, struct trace_array *tr, int cpu)
{
	const struct view v = {tr, cpu};
	bool paused = tr->tracer->print_max || tr->options & TRACE_ITER_PAUSE_ON_TRACE;
	struct listing *t;
	int err;

	if (paused)
		pause(tr, 1);
	t = listing_make(&v);
	err = t ? seq_open(f, listing_show, t) : -ENOMEM;
	if (!err) {
		t->paused = paused;
		return 0;
	}
	listing_free(t);
	if (paused)
		pause(tr, -1);
	return err;
}

static int trace_open(struct file *f)
{
	struct trace_array *tr = trace_array_of(f);
	int cpu = view_of(f).cpu, err = 0;

	mutex_lock(&trace_lock);
	if (tr->tracer->print_max)
		tr = tracing_spare(tr);
	if ((f->flags & O_ACCMODE) != O_RDONLY && (f->flags & O_TRUNC))
		tracing_reset(tr, cpu);
	if ((f->flags & O_ACCMODE) != O_WRONLY)
		err = trace_open_events(f, tr, cpu);
	mutex_unlock(&trace_lock);
	return err;
}

/* The open call has emptied the buffer; the written text is ignored. */
static ssize_t trace_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return n;
}

int trace_release(struct file *f)
{
	struct seq *s = f->private;
	struct listing *t = s ? s->arg : NULL;

	if (!s)
		return 0;
	if (t && t->paused) {
		mutex_lock(&trace_lock);
		pause(t->view.tr, -1);
		mutex_unlock(&trace_lock);
	}
	listing_free(t);
	return seq_release(f);
}
static const struct file_ops trace_ops = {trace_open, seq_read, trace_write, trace_release};

/* ---- Waiting for events ---- */

#define POLL_NS 10000000

/* Lock or unlock the buffers of the view. */
static void each_reader(const struct view *v, void (*act)(struct ring_buffer_cpu *))
{
	for (unsigned i = 0; i < nr_cpus; i++)
		if (in_view(v, i))
			act(&v->tr->cpu[i]);
}

static bool view_empty(const struct view *v)
{
	struct rb_event ev;
	int cpu;

	each_reader(v, rb_lock);
	cpu = oldest_event(v, NULL, &ev);
	each_reader(v, rb_unlock);
	return cpu < 0;
}

/*
 * Wait until there is an event, by polling: the writer cannot wake a reader,
 * because it may be inside wake_up() itself. Return: 1 if there is an event; 0
 * at the end of the file (@begun: an event was read before, and recording is
 * off now); -EAGAIN or -EINTR.
 */
static int view_wait(struct file *f, const struct view *v, bool begun)
{
	while (view_empty(v)) {
		if (f->flags & O_NONBLOCK)
			return -EAGAIN;
		if (begun && !tracing_is_on(v->tr))
			/* an event that came between the two checks is the last one */
			return !view_empty(v);
		if (interrupted())
			return -EINTR;
		sleep_ns(POLL_NS);
	}
	return 1;
}

/* ---- trace_pipe ---- */

struct pipe {
	struct view view;
	struct trace_printer printer;
	bool begun;
	struct seq out; /* lines not yet read */
};

static unsigned view_mask(const struct view *v)
{
	return v->cpu < 0 ? (1u << nr_cpus) - 1 : 1u << v->cpu;
}

static int pipe_open(struct file *f)
{
	const struct view v = view_of(f);
	struct pipe *p = kzalloc(sizeof(*p));
	bool busy;

	if (!p)
		return -ENOMEM;
	p->view = v;
	p->printer.tr = v.tr;
	mutex_lock(&trace_lock);
	busy = v.tr->pipe_readers & view_mask(&v);
	if (!busy)
		v.tr->pipe_readers |= view_mask(&v);
	mutex_unlock(&trace_lock);
	if (busy) {
		kfree(p);
		return -EBUSY;
	}
	f->private = p;
	return 0;
}

static int pipe_release(struct file *f)
{
	struct pipe *p = f->private;

	mutex_lock(&trace_lock);
	p->view.tr->pipe_readers &= ~view_mask(&p->view);
	mutex_unlock(&trace_lock);
	kfree(p->out.buf);
	kfree(p);
	return 0;
}

/*
 * The largest text of an event with @len bytes: the columns, and a symbol for each address in it.
 */
#define LINE_ROOM(len) (1024 + 16 * (len))

/*
 * Print and consume the oldest event. Return: 1; 0 if there is none; -ENOMEM, and the event stays
 * in the buffer.
 */
static int pipe_line(struct pipe *p)
{
	struct rb_event ev;
	int cpu = oldest_event(&p->view, NULL, &ev);

	if (cpu < 0)
		return 0;
	if (seq_room(&p->out, LINE_ROOM(ev.len)))
		return -ENOMEM;
	print_line(&p->out, &p->printer, cpu, NULL, &ev);
	return 1;
}

static ssize_t pipe_take(struct pipe *p, char *buf, size_t n)
{
	size_t have = p->out.len - p->out.sent;

	n = MIN(n, have);
	memcpy(buf, p->out.buf + p->out.sent, n);
	p->out.sent += n;
	if (p->out.sent == p->out.len)
		p->out.sent = p->out.len = 0;
	return n;
}

static ssize_t pipe_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	struct pipe *p = f->private;

	while (!p->out.len) {
		int err = view_wait(f, &p->view, p->begun);

		if (err <= 0)
			return err;
		each_reader(&p->view, rb_lock);
		while (p->out.len < n && (err = pipe_line(p)) > 0)
			p->begun = true;
		each_reader(&p->view, rb_unlock);
		if (err < 0 && !p->out.len)
			return err;
	}
	return pipe_take(p, buf, n);
}
static const struct file_ops pipe_ops = {pipe_open, pipe_read, NULL, pipe_release};

bool trace_dump_line(struct trace_printer *p, int cpu, struct seq *s)
{
	const struct view v = {p->tr, cpu};
	struct rb_event ev;
	int next = oldest_event(&v, NULL, &ev);

	if (next < 0)
		return false;
	if (s->size < LINE_ROOM(ev.len)) {
		seq_printf(s, "# an event of %u bytes is not shown\n", ev.len);
		advance(&p->tr->cpu[next], NULL);
	} else {
		print_line(s, p, next, NULL, &ev);
	}
	return true;
}

/* ---- trace_pipe_raw ---- */

struct raw {
	struct view view;
	bool begun;
	size_t sent; /* of page */
	struct rb_page page;
};

static int raw_open(struct file *f)
{
	struct raw *r = kzalloc(sizeof(*r));

	if (!r)
		return -ENOMEM;
	r->view = view_of(f);
	r->sent = RB_PAGE_SIZE;
	f->private = r;
	return 0;
}

static int raw_release(struct file *f)
{
	kfree(f->private);
	return 0;
}

static ssize_t raw_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	struct raw *r = f->private;
	struct ring_buffer_cpu *rb = &r->view.tr->cpu[r->view.cpu];

	while (r->sent == RB_PAGE_SIZE) {
		int err = view_wait(f, &r->view, r->begun);

		if (err <= 0)
			return err;
		rb_lock(rb);
		if (rb_read_page(rb, &r->page))
			r->sent = 0;
		rb_unlock(rb);
		r->begun = true;
	}
	n = MIN(n, RB_PAGE_SIZE - r->sent);
	memcpy(buf, (char *)&r->page + r->sent, n);
	r->sent += n;
	return n;
}
static const struct file_ops raw_ops = {raw_open, raw_read, NULL, raw_release};

/* ---- stats ---- */

static int stats_show(struct seq *s, u64 item)
{
	const struct view v = view_of(s->file);
	struct ring_buffer_cpu *rb = &v.tr->cpu[v.cpu];
	const struct trace_clock *clock = v.tr->clock;

	rb_lock(rb);
	seq_printf(s, "entries: %lu\noverrun: %lu\ncommit overrun: 0\nbytes: %lu\noldest event ts:",
		   rb_entries(rb), rb->overrun, rb_bytes(rb));
	trace_print_time(s, clock, rb_oldest_ts(rb), 0);
	seq_printf(s, "\nnow ts:");
	trace_print_time(s, clock, clock->read ? clock->read() : clock_ns(), 0);
	seq_printf(s, "\ndropped events: %lu\nread events: %lu\n", rb->dropped, rb->read);
	rb_unlock(rb);
	return 1;
}
TRACEFS_TEXT(cpu_stats, "per_cpu/cpu%u/stats", TRACEFS_CPU, stats_show);

/* ---- trace_marker ---- */

#define MARKER_MAX (RB_EVENT_MAX - sizeof(struct print_entry) - 2) /* with "\n" and NUL */

static ssize_t tracing_mark_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	struct trace_array *tr = trace_array_of(f);
	struct print_entry *e;
	struct trace_write w;

	if (!(tr->options & TRACE_ITER_MARKERS))
		return tracefs_refuse(f, -EINVAL, "the option markers is off");
	if (!n)
		return 0;
	if (tr->dir && !READ_ONCE(tr->expanded)) {
		mutex_lock(&trace_lock);
		tracing_expand(tr);
		mutex_unlock(&trace_lock);
	}
	n = MIN(n, MARKER_MAX);
	e = trace_begin(tr, TRACE_PRINT, sizeof(*e) + n + 2, &w);
	if (e) {
		put_address(e->ip, (unsigned long)tracing_mark_write);
		memcpy(e->buf, buf, n);
		if (buf[n - 1] != '\n')
			e->buf[n] = '\n';
		e->buf[n + (buf[n - 1] != '\n')] = 0;
	}
	trace_end(&w, e);
	if (e)
		return n;
	return tracefs_refuse(f, -EBADF, "the text is not recorded: %s",
			      tr->options & TRACE_ITER_LAST_BOOT
				      ? "the events are those of the boot before; `echo > trace` "
					"empties the buffers"
				      : "recording is off or paused, or the buffer is full");
}
static const struct file_ops marker_ops = {NULL, NULL, tracing_mark_write, NULL};

/* ---- The files ---- */

#define ALL_CPUS ((void *)-1l)
TRACEFS_INSTANCE_FILE(trace, "trace", 0644, &trace_ops, ALL_CPUS);
TRACEFS_INSTANCE_FILE(trace_pipe, "trace_pipe", 0444, &pipe_ops, ALL_CPUS);
TRACEFS_INSTANCE_FILE(trace_marker, "trace_marker", 0222, &marker_ops, NULL);
TRACEFS_CPU_FILE(cpu_trace, "per_cpu/cpu%u/trace", 0644, &trace_ops);
TRACEFS_CPU_FILE(cpu_trace_pipe, "per_cpu/cpu%u/trace_pipe", 0444, &pipe_ops);
TRACEFS_CPU_FILE(cpu_trace_pipe_raw, "per_cpu/cpu%u/trace_pipe_raw", 0444, &raw_ops);

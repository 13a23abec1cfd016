/*
 * The trace array: per-CPU buffers, one tracer at a time, a clock, options.
 * To change a buffer: stop recording, wait for a grace period, change it, wait
 * for another grace period, continue recording.
 */
#include "trace_event.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "init.h"
#include "string.h"

/* ---- Clocks ---- */

static u64 counter_clock(void)
{
	static u64 counter;

	return __atomic_add_fetch(&counter, 1, __ATOMIC_RELAXED);
}

static u64 uptime_clock(void)
{
	return clock_ns() / 10000000;
}

/* The machine has one counter, the same on every CPU: local, global and mono are that clock. */
const struct trace_clock trace_clocks[] = {
	{"local", NULL, true},		{"global", NULL, true},	  {"counter", counter_clock, false},
	{"uptime", uptime_clock, false}, {"mono", NULL, true},	  {"mono_raw", NULL, true},
	{"boot", NULL, true},
};
const unsigned trace_clock_count = ARRAY_SIZE(trace_clocks);

const struct tracer nop_tracer = {"nop"};

struct trace_array global_trace = {
	.ops = &global_ops,
	.options = TRACE_ITER_DEFAULT,
};

/* ---- Stop, change, go on ---- */

void tracing_slow_cpu(struct trace_array *tr, unsigned cpu, u64 reasons, bool on)
{
	if (on)
		__atomic_fetch_or(&tr->cpu[cpu].slow, reasons, __ATOMIC_RELAXED);
	else
		__atomic_fetch_and(&tr->cpu[cpu].slow, ~reasons, __ATOMIC_RELEASE);
}

void tracing_slow(struct trace_array *tr, u64 reasons, bool on)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		tracing_slow_cpu(tr, i, reasons, on);
}

static void stop_recording(struct trace_array *tr)
{
	tracing_slow(tr, RB_STOPPED, true);
	synchronize_sched();
}

/*
 * A callback that read the buffer's old fields before it saw RB_STOPPED must return before
 * RB_STOPPED is cleared. With events of the boot before, recording stays stopped: the times of this
 * boot are earlier.
 */
static void go_on(struct trace_array *tr)
{
	synchronize_sched();
	if (!(tr->options & TRACE_ITER_LAST_BOOT))
		tracing_slow(tr, RB_STOPPED, false);
}

void tracing_reset(struct trace_array *tr, int cpu)
{
	stop_recording(tr);
	for (int i = 0; i < (int)nr_cpus; i++) {
		if (cpu >= 0 && i != cpu)
			continue;
		rb_lock(&tr->cpu[i]);
		rb_reset(&tr->cpu[i]);
		rb_unlock(&tr->cpu[i]);
	}
	if (cpu < 0)
		tr->options &= ~TRACE_ITER_LAST_BOOT;
	go_on(tr);
}

/*
 * Resize the buffer of @cpu, or (-1) those of all CPUs, with their spare ones, or none. They are
 * locked.
 */
static int resize_locked(struct trace_array *tr, int cpu, unsigned long pages)
{
	struct trace_array *spare = tr->snapshot && tr->snapshot->expanded ? tr->snapshot : NULL;
	struct ring_buffer_cpu *buffers[2 * NR_CPUS];
	struct rb_resize resize[2 * NR_CPUS];
	unsigned count = 0, done;

	for (unsigned i = 0; i < nr_cpus; i++) {
		if (cpu >= 0 && i != (unsigned)cpu)
			continue;
		buffers[count++] = &tr->cpu[i];
		if (spare)
			buffers[count++] = &spare->cpu[i];
	}
	for (done = 0; done < count; done++) {
		int err = rb_resize_prepare(buffers[done], pages, &resize[done]);

		if (!err)
			continue;
		while (done-- > 0)
			rb_resize_cancel(&resize[done]);
		return err;
	}
	for (done = 0; done < count; done++)
		rb_resize_apply(buffers[done], &resize[done]);
	return 0;
}

static int resize(struct trace_array *tr, int cpu, unsigned long bytes)
{
	int err;

	for (unsigned i = 0; i < nr_cpus; i++)
		rb_lock(&tr->cpu[i]); /* and its spare */
	err = resize_locked(tr, cpu, rb_pages_for(bytes));
	for (unsigned i = 0; i < nr_cpus; i++)
		rb_unlock(&tr->cpu[i]);
	return err;
}

int tracing_resize(struct trace_array *tr, int cpu, unsigned long bytes)
{
	int err;

	stop_recording(tr);
	err = resize(tr, cpu, bytes);
	tr->expanded |= !err && !tr->cpu[0].live;
	go_on(tr);
	return err;
}

void tracing_expand(struct trace_array *tr)
{
	unsigned long size = TRACE_BUFFER_SIZE;

	if (tr->expanded)
		return;
	while (tracing_resize(tr, -1, size) == -ENOMEM && size > KiB(8))
		size /= 2;
	if (size != TRACE_BUFFER_SIZE)
		printk("tracing: memory for buffers of %lu KiB only\n", size >> 10);
}

struct trace_array *tracing_spare(struct trace_array *tr)
{
	struct trace_array *spare = tr->snapshot;

	if (!spare || !spare->expanded)
		return NULL;
	spare->tracer = tr->tracer;
	spare->clock = tr->clock;
	spare->options = tr->options;
	return spare;
}

/* ---- Choosing ---- */

static const struct tracer *find_tracer(const char *name)
{
	TABLE_FOR_EACH(const struct tracer *const, tracer, t)
		if (!strcmp((*t)->name, name))
			return *t;
	return strcmp(nop_tracer.name, name) ? NULL : &nop_tracer;
}

int tracing_set_tracer(struct trace_array *tr, const char *name)
{
	const struct tracer *t = find_tracer(name), *old = tr->tracer;
	int err;

	if (!t)
		return -EINVAL;
	if (t == old)
		return 0;
	if (t != &nop_tracer)
		tracing_expand(tr);
	if (old->reset)
		old->reset(tr);
	tr->tracer = &nop_tracer;
	tracing_reset(tr, -1);
	err = t->init ? t->init(tr) : 0;
	if (!err)
		tr->tracer = t;
	return err;
}

int tracing_set_clock(struct trace_array *tr, const char *name)
{
	for (unsigned i = 0; i < trace_clock_count; i++) {
		if (strcmp(trace_clocks[i].name, name))
			continue;
		tracing_slow(tr, RB_STOPPED, true);
		tr->clock = &trace_clocks[i];
		tracing_slow(tr, RB_CLOCK, tr->clock->read);
		if (tr->kept_clock)
			*tr->kept_clock = i;
		/* Times of two clocks do not mix. */
		if (tr->snapshot)
			tracing_reset(tr->snapshot, -1);
		tracing_reset(tr, -1);
		return 0;
	}
	return -EINVAL;
}

void tracing_options_changed(struct trace_array *tr)
{
	tracing_slow(tr, RB_ASK_EVENT,
		     tr->options & TRACE_ITER_STACKTRACE || trace_pids_used(tr->event_pids));
	if (tr->tracer->options_changed)
		tr->tracer->options_changed(tr);
}

void tracing_set_option(struct trace_array *tr, int option, bool on)
{
	u32 bit = 1u << option;

	tr->options = on ? tr->options | bit : tr->options & ~bit;
	if (option == TRACE_OPTION_OVERWRITE)
		for (unsigned i = 0; i < nr_cpus; i++)
			WRITE_ONCE(tr->cpu[i].overwrite, on);
	tracing_options_changed(tr);
}

/* ---- The long path, for every event type ---- */

/* Interrupts are masked; w->irq is their earlier state, w->cpu is this CPU. */
static void *__noinline reserve_entry(struct trace_array *tr, u16 type, size_t size,
				      struct trace_write *w)
{
	u64 (*read)(void), slow;
	u32 *ent;

	w->rb = trace_buffer(tr, w->cpu);
	slow = READ_ONCE(w->rb->slow);
	if (slow & RB_NO_EVENTS)
		return NULL;
	if (slow & RB_SWAP)
		rb_swap_pending(w->rb);
	read = READ_ONCE(tr->clock)->read;
	ent = rb_reserve(w->rb, read ? read() : clock_ns(), size, &w->reserved);
	if (ent)
		trace_fill_entry(ent, type, w->irq);
	return ent;
}

void *trace_reserve(struct trace_array *tr, u16 type, size_t size, struct trace_write *w)
{
	w->irq = irq_save();
	w->cpu = this_cpu();
	w->recursion = w->cpu->recursion;
	return reserve_entry(tr, type, size, w);
}

void *trace_begin(struct trace_array *tr, u16 type, size_t size, struct trace_write *w)
{
	struct cpu *c;

	w->irq = irq_save();
	w->cpu = c = this_cpu();
	w->recursion = c->recursion;
	c->recursion |= c->context_bit;
	return w->recursion & c->context_bit ? NULL : reserve_entry(tr, type, size, w);
}

void trace_end(struct trace_write *w, void *entry)
{
	if (entry)
		rb_commit(w->rb, &w->reserved);
	w->cpu->recursion = w->recursion;
	irq_restore(w->irq);
}

/* The directory of an instance has its trace array as data. */
struct trace_array *trace_array_of(const struct file *f)
{
	for (const struct node *n = f->node->parent; n; n = n->parent)
		if (n->data)
			return n->data;
	return &global_trace;
}

int trace_array_init(struct trace_array *tr, unsigned long bytes)
{
	tr->tracer = &nop_tracer;
	tr->clock = trace_clocks;
	for (unsigned i = 0; i < nr_cpus; i++) {
		tr->cpu[i].overwrite = tr->options & TRACE_ITER_OVERWRITE;
		tr->cpu[i].cpu = i;
	}
	tracing_options_changed(tr);
	return resize(tr, -1, bytes);
}

void trace_array_free(struct trace_array *tr)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		rb_free(&tr->cpu[i]);
	if (tr->snapshot) {
		trace_array_free(tr->snapshot);
		page_free(tr->snapshot, 0);
	}
	kfree(tr->function_pids);
	kfree(tr->event_pids);
}

static int trace_init(void)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		cpu_of(i)->ftrace = (void *)(i * sizeof(struct ring_buffer_cpu));
	return trace_array_init(&global_trace, 0);
}
INITCALL(trace_init);

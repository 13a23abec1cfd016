/*
 * The latency tracers. Each keeps the events of the longest section of its kind, in which
 *
 *	irqsoff		interrupts are masked on a CPU
 *	preemptoff	preemption is off: preempt_disable()
 *	preemptirqsoff	one of the two
 *	wakeup		a thread was woken and does not run yet
 *
 * A section belongs to one CPU. It begins and ends at tracepoints (irqflags.h, sched.c, fault.c);
 * between them every traced function that the CPU calls is an event, with the option
 * function-trace. At the end of a section that is longer than the longest before it, the CPU's
 * buffer and its spare one change places (ring_buffer.h): `trace` shows the spare one, from the
 * section's begin on, and recording goes on. While a file `trace` is open nothing is kept.
 *
 * wakeup watches one thread at a time: the next one that is woken, until it runs. Its functions are
 * those of the CPU for which the thread waits. The buffers of all CPUs change places: another CPU
 * may have recorded the wake-up.
 *
 * The state, and the contexts that change it:
 * - sections[]: each CPU its own. They are emptied before the sites are patched, when no hit runs.
 * - longest, ->max_latency, the spare's ->since: with longest_lock held and interrupts masked.
 * - watched: set in the same way, and NULL again by the CPU on which the thread runs. Its CPU is
 *   changed under the lock of its run queue.
 * - latency_kinds: with trace_lock held, while the sites are nops.
 * - latency_tr: the same, set after the sites are jumps, so that their patching is not measured;
 *   NULL again before they are nops. Then synchronize_sched(): a hit that read it has ended.
 */
#include "errno.h"
#include "event_write.h"
#include "irq.h"
#include "print.h"
#include "static_event.h"
#include "string.h"
#include "tracefs.h"

enum { IRQS = 1, PREEMPT = 2, WAKEUP = 4 };

static struct trace_array *latency_tr; /* NULL: no latency tracer is in use */
static unsigned latency_kinds;
static bool had_snapshot; /* it has spare buffers for another reason, too */

static struct section {
	bool running;
	u64 began;
	unsigned long place; /* where it began */
} sections[NR_CPUS];

/* What the tracer wakeup waits for; or NULL. */
static const struct thread *watched;
static struct section watched_section;
static unsigned watched_cpu;

static struct {
	u64 length;
	unsigned long started, ended;
	unsigned cpu;
	int pid;
	char comm[16];
} longest;
static struct spinlock longest_lock;

/* ---- A section ---- */

static __noinline u64 latency_time(const struct trace_array *tr)
{
	u64 (*read)(void) = READ_ONCE(tr->clock)->read;

	return read ? read() : clock_ns();
}

/* The trace array, if an event of this CPU is recorded now. The caller cannot leave the CPU. */
static struct trace_array *recording(const struct cpu *cpu)
{
	struct trace_array *tr = READ_ONCE(latency_tr);

	if (!tr || cpu->recursion & cpu->context_bit ||
	    READ_ONCE(trace_buffer(tr, cpu)->slow) & RB_NO_EVENTS)
		return NULL;
	return tr;
}

/*
 * A section begins in the function of @ip, called from @parent. The header shows @place: @ip, or
 * @parent if the function only disables preemption, or masks interrupts, for its caller. Either
 * interrupts are masked here, or preemption is off and an interrupt may begin a section of its own:
 * this one replaces it.
 */
static __noinline void section_begin(unsigned long ip, unsigned long parent, unsigned long place)
{
	const struct cpu *cpu = this_cpu();
	struct section *s = &sections[cpu->index];
	struct trace_array *tr = s->running ? NULL : recording(cpu);

	if (!tr)
		return;
	s->began = latency_time(tr);
	s->place = place;
	barrier(); /* an interrupt of this CPU sees a whole section */
	s->running = true;
	function_trace_call(ip, parent, tr->ops, NULL);
}

/* With tracing_thresh, each section of at least that time replaces the one before. */
static bool is_longest(const struct trace_array *tr, u64 length)
{
	u64 thresh = READ_ONCE(tr->thresh_us) * 1000ul;

	return thresh ? length >= thresh : length > READ_ONCE(tr->max_latency);
}

/* With wakeup the section is that of all CPUs: the others follow before their next events. */
static int swap_others(struct trace_array *tr, unsigned cpu)
{
	for (unsigned i = 0; i < nr_cpus; i++)
		if (i != cpu && cpu_of(i)->online)
			tracing_slow_cpu(tr, i, RB_SWAP, true);
	return -1;
}

static void keep(struct trace_array *tr, unsigned cpu, const struct section *s,
		 const struct thread *t, unsigned long place, u64 length)
{
	unsigned long flags = irq_save();

	spin_lock(&longest_lock);
	if (is_longest(tr, length) && !(READ_ONCE(tr->snapshot->cpu[cpu].slow) & RB_PAUSED) &&
	    rb_swap(&tr->cpu[cpu])) {
		WRITE_ONCE(tr->max_latency, length);
		tr->snapshot->since_cpu = latency_kinds & WAKEUP ? swap_others(tr, cpu) : (int)cpu;
		WRITE_ONCE(tr->snapshot->since, s->began);
		longest.length = length;
		longest.started = s->place;
		longest.ended = place;
		longest.cpu = cpu;
		longest.pid = t->pid;
		strlcpy(longest.comm, t->comm, sizeof(longest.comm));
	}
	spin_unlock(&longest_lock);
	irq_restore(flags);
}

/* The section @s, of the thread @t, ends on this CPU. */
static void finish(struct trace_array *tr, const struct section *s, const struct thread *t,
		   unsigned long ip, unsigned long parent, unsigned long place)
{
	struct cpu *cpu = this_cpu();
	u64 length = latency_time(tr) - s->began, recursion = cpu->recursion;

	if (!is_longest(tr, length))
		return;
	function_trace_call(ip, parent, tr->ops, NULL);
	cpu->recursion = recursion | cpu->context_bit;
	trace_write_stack(tr, ip - 4, parent, NULL);
	cpu->recursion = recursion;
	keep(tr, cpu->index, s, t, place, length);
}

/* It runs until the end, so that an interrupt begins none. */
static __noinline void section_end(unsigned long ip, unsigned long parent, unsigned long place)
{
	const struct cpu *cpu = this_cpu();
	struct section *s = &sections[cpu->index];
	struct trace_array *tr = s->running ? recording(cpu) : NULL;

	if (tr)
		finish(tr, s, current, ip, parent, place);
	s->running = false;
}

/* ---- wakeup ---- */

/* Two threads: the one that wakes or is switched from, and the one that is woken or switched to. */
#define CTX_FIELDS(_)                                                                         \
	_(field, unsigned int, prev_pid) _(field, unsigned int, next_pid)                     \
	_(field, unsigned int, next_cpu) _(field, unsigned char, prev_prio)                   \
	_(field, unsigned char, prev_state) _(field, unsigned char, next_prio)                \
	_(field, unsigned char, next_state)
TRACE_ENTRY(ctx_switch_entry, CTX_FIELDS);

static void print_ctx(const struct trace_line *l)
{
	const struct ctx_switch_entry *e = (const void *)l->ent;
	char comm[16];

	trace_find_comm(l->options, e->next_pid, comm);
	seq_printf(l->s, " %7d:%3d:%c %s [%03u] %7d:%3d:R %s\n", e->prev_pid, e->prev_prio,
		   "RSDTtXZPI"[MIN(e->prev_state, 8)], e->ent.type == TRACE_CTX ? "==>" : "  +",
		   e->next_cpu, e->next_pid, e->next_prio, comm);
}
#define CTX_EVENT(id, name, arrow)                                                            \
	TRACE_EVENT(id, name, CTX_FIELDS, NULL, .print = print_ctx,                           \
		    .print_fmt = "\"%u:%u:%u  " arrow " %u:%u:%u [%03u]\", REC->prev_pid, "   \
				 "REC->prev_prio, REC->prev_state, REC->next_pid, "           \
				 "REC->next_prio, REC->next_state, REC->next_cpu")
CTX_EVENT(TRACE_CTX, context_switch, "==>");
CTX_EVENT(TRACE_WAKE, wakeup, "==+");

static void record_ctx(struct trace_array *tr, u16 type, const struct thread *next)
{
	struct trace_write w;
	struct ctx_switch_entry *e = trace_begin(tr, type, sizeof(*e), &w);

	if (e) {
		e->prev_pid = current->pid;
		e->prev_prio = e->next_prio = PRIO;
		e->prev_state = current->state == THREAD_SLEEPING ? 1
				: current->state == THREAD_DEAD	  ? 6
								  : 0;
		e->next_pid = next->pid;
		e->next_state = 0;
		e->next_cpu = next->cpu;
	}
	trace_end(&w, e);
}

/* A thread that runs is woken, too, if it is about to sleep: it waits for no CPU. */
void latency_wakeup(const struct thread *t, unsigned long ip)
{
	struct trace_array *tr = recording(this_cpu());

	if (!tr || !(latency_kinds & WAKEUP) || !t->queued || READ_ONCE(watched))
		return;
	spin_lock(&longest_lock);
	if (!watched) {
		watched_section = (struct section){true, latency_time(tr), ip};
		WRITE_ONCE(watched_cpu, t->cpu);
		WRITE_ONCE(watched, t);
		record_ctx(tr, TRACE_WAKE, t);
	}
	spin_unlock(&longest_lock);
}

/* The lock of @t's run queue orders this after its wake-up. */
void latency_migrate(const struct thread *t, unsigned to)
{
	if (READ_ONCE(watched) == t)
		WRITE_ONCE(watched_cpu, to);
}

/*
 * The next thread is watched when this section has been kept: an exchange that is asked for here
 * would take the line of its wake-up away from where the exchange for its own section finds it.
 */
void latency_switch(const struct thread *t, unsigned long ip)
{
	struct trace_array *tr;

	if (READ_ONCE(watched) != t)
		return;
	tr = recording(this_cpu());
	if (tr) {
		record_ctx(tr, TRACE_CTX, t);
		finish(tr, &watched_section, t, ip, ip, ip);
	}
	__atomic_store_n(&watched, NULL, __ATOMIC_RELEASE);
}

/* ---- The tracepoints ---- */

static unsigned preempt_depth(void)
{
	return current->ctx / CTX_PREEMPT;
}

static void irq_disable_hit(bool were_on, unsigned long ip, unsigned long parent,
			    unsigned long place)
{
	if (were_on)
		section_begin(ip, parent, place);
}

static void irq_enable_hit(bool will_be_on, unsigned long ip, unsigned long parent,
			   unsigned long place)
{
	if (will_be_on && !(READ_ONCE(latency_kinds) & PREEMPT && preempt_depth()))
		section_end(ip, parent, place);
}

static void preempt_disable_hit(unsigned long ip, unsigned long parent)
{
	if (preempt_depth() == 1)
		section_begin(ip, parent, parent);
}

static void preempt_enable_hit(unsigned long ip, unsigned long parent)
{
	if (preempt_depth() == 1 && !(READ_ONCE(latency_kinds) & IRQS && irqs_disabled()))
		section_end(ip, parent, parent);
}

static int latency_points_init(void)
{
	tracepoint_irq_disable = irq_disable_hit;
	tracepoint_irq_enable = irq_enable_hit;
	tracepoint_preempt_disable = preempt_disable_hit;
	tracepoint_preempt_enable = preempt_enable_hit;
	return 0;
}
INITCALL(latency_points_init);

/* ---- The tracers ---- */

static void latency_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			       struct ftrace_regs *regs)
{
	unsigned cpu = this_cpu()->index;

	if (sections[cpu].running || (READ_ONCE(watched) && READ_ONCE(watched_cpu) == cpu))
		function_trace_call(ip, parent_ip, op, regs);
}

/* Call latency_trace_call(), or call it no longer. 0 or -errno: then nothing has changed. */
static int trace_functions(struct trace_array *tr)
{
	static bool functions;
	bool on = latency_kinds && tr->options & TRACE_ITER_FUNCTION;
	int err = 0;

	tracing_slow(tr, RB_ASK, latency_kinds && trace_pids_used(tr->function_pids));
	if (on != functions)
		err = on ? register_ftrace_function(tr->ops) : unregister_ftrace_function(tr->ops);
	if (!err)
		functions = on;
	return err;
}

static void latency_options_changed(struct trace_array *tr)
{
	if (trace_functions(tr))
		printk("%s: no stub is free to trace functions\n", tr->tracer->name);
}

/* The tracepoints of wakeup are those of events. */
static int aim(struct trace_array *tr, bool on)
{
	static const char *const events[] = {"sched_switch", "sched_migrate_task", "sched_wakeup",
					     "sched_wakeup_new"};
	int err = 0;

	mutex_lock(&events_lock);
	for (unsigned i = 0; i < ARRAY_SIZE(events); i++) {
		struct trace_probe_event *e = event_find("sched", events[i]);

		err = event_aim(event_file_of(e, tr), on ? 1 : -1) ?: err;
	}
	mutex_unlock(&events_lock);
	return err;
}

/* Patch the sites of @kinds. */
static int arm(struct trace_array *tr, unsigned kinds, bool on)
{
	int err = 0;

	if (kinds & IRQS)
		err = tracepoint_arm(&tracepoint_irq_enable, on)
			      ?: tracepoint_arm(&tracepoint_irq_disable, on);
	if (kinds & PREEMPT)
		err = err	?: tracepoint_arm(&tracepoint_preempt_enable, on)
				?: tracepoint_arm(&tracepoint_preempt_disable, on);
	if (kinds & WAKEUP)
		err = aim(tr, on);
	return err;
}

static void latency_reset(struct trace_array *tr)
{
	WRITE_ONCE(latency_tr, NULL);
	arm(tr, latency_kinds, false);
	latency_kinds = 0;
	trace_functions(tr);
	synchronize_sched(); /* the sites of events may still be jumps */
	tr->snapshot->since = 0;
	if (had_snapshot)
		tracing_reset(tr->snapshot, -1);
	else
		tracing_free_snapshot(tr);
}

static int latency_init(struct trace_array *tr, unsigned kinds)
{
	bool had = tracing_spare(tr);
	int err = latency_kinds ? -EBUSY : tracing_alloc_snapshot(tr);

	if (err)
		return err;
	had_snapshot = had;
	tracing_reset(tr->snapshot, -1);
	memset(sections, 0, sizeof(sections));
	watched = NULL;
	tr->max_latency = tr->snapshot->since = 0;
	tr->ops->func = latency_trace_call;
	tr->ops->private = tr;
	latency_kinds = kinds;
	err = trace_functions(tr) ?: arm(tr, kinds, true);
	if (err)
		latency_reset(tr);
	else
		WRITE_ONCE(latency_tr, tr);
	return err;
}

static int irqsoff_init(struct trace_array *tr)
{
	return latency_init(tr, IRQS);
}
static int preemptoff_init(struct trace_array *tr)
{
	return latency_init(tr, PREEMPT);
}
static int preemptirqsoff_init(struct trace_array *tr)
{
	return latency_init(tr, IRQS | PREEMPT);
}
static int wakeup_init(struct trace_array *tr)
{
	return latency_init(tr, WAKEUP);
}

/* ---- The text ---- */

static void print_legend(struct seq *s)
{
	seq_printf(s, "#                    _------=> CPU#            \n"
		      "#                   / _-----=> irqs-off/BH-disabled\n"
		      "#                  | / _----=> need-resched    \n"
		      "#                  || / _---=> hardirq/softirq \n"
		      "#                  ||| / _--=> preempt-depth   \n"
		      "#                  |||| / _-=> migrate-disable \n"
		      "#                  ||||| /     delay           \n"
		      "#  cmd     pid     |||||| time  |   caller     \n"
		      "#     \\   /        ||||||  \\    |    /       \n");
}

static void latency_print_header(struct seq *s, struct trace_array *tr)
{
	if (!tr->since)
		return;
	seq_printf(s, "# %s latency trace v1.1.5 on Callsite\n"
		      "# ------------------------------------------------------------------"
		      "--\n"
		      "# latency: %lu us, #%lu/%lu, CPU#%u | (M:preempt VP:0, KP:0, SP:0 HP:0 "
		      "#P:%u)\n",
		   tr->tracer->name, (longest.length + 500) / 1000, tr->shown, tr->shown,
		   longest.cpu, nr_cpus);
	seq_printf(s, "#    -----------------\n"
		      "#    | task: %s-%d (uid:0 nice:0 policy:0 rt_prio:0)\n"
		      "#    -----------------\n#  => started at: ",
		   longest.comm, longest.pid);
	trace_print_symbol(s, tr->options, longest.started);
	seq_printf(s, "\n#  => ended at:   ");
	trace_print_symbol(s, tr->options, longest.ended);
	seq_printf(s, "\n#\n#\n");
	print_legend(s);
}

/* The time since the section's begin, in microseconds; and a mark if the next event is late. */
static bool latency_print(const struct trace_line *l)
{
	char comm[16];

	if (!(l->options & TRACE_ITER_CONTEXT_INFO))
		return false;
	trace_find_comm(l->options, l->ent->pid, comm);
	seq_printf(l->s, "%8.8s-%-7d %3u", comm, l->ent->pid, l->cpu);
	trace_print_flags(l->s, l->ent);
	seq_printf(l->s, " %4lu", (l->ev->ts - l->tr->since + 500) / 1000);
	if (l->tr->clock->in_ns)
		seq_printf(l->s, "us%c", l->next ? trace_mark(l->next->ts - l->ev->ts) : ' ');
	seq_printf(l->s, ": ");
	trace_print_text(l);
	return true;
}

#define LATENCY_TRACER(id)                                                                    \
	static const struct tracer id##_tracer = {                                            \
		.name = #id,                                                                  \
		.init = id##_init,                                                            \
		.reset = latency_reset,                                                       \
		.print_other = latency_print,                                                 \
		.print_header = latency_print_header,                                         \
		.options = TRACE_ITER_FUNCTION,                                               \
		.options_changed = latency_options_changed,                                   \
		.print_max = true,                                                            \
	};                                                                                    \
	TRACER(id##_tracer)
LATENCY_TRACER(irqsoff);
LATENCY_TRACER(preemptoff);
LATENCY_TRACER(preemptirqsoff);
LATENCY_TRACER(wakeup);
TRACE_LATENCY_OPTIONS(TRACEFS_OPTION)

/* ---- tracing_max_latency: microseconds ---- */

static u64 max_latency_get(const struct file *f)
{
	return (READ_ONCE(trace_array_of(f)->max_latency) + 500) / 1000;
}

static int max_latency_set(struct file *f, u64 us)
{
	if (us > (u64)-1 / 1000)
		return tracefs_refuse(f, -EINVAL, "too many microseconds");
	WRITE_ONCE(trace_array_of(f)->max_latency, us * 1000);
	return 0;
}
TRACEFS_U64(tracing_max_latency, "tracing_max_latency", TRACEFS_INSTANCE, max_latency_get,
	    max_latency_set);

/*
 * What is done with an event that was made in memory, for probes (probe_fetch.c) and static
 * events (static_event.c): each trace array's triggers act on it, and it is written to those
 * that have it enabled and accept it. Context: interrupts masked, this CPU's recursion bit set.
 */
#ifndef FTRACE_EVENT_WRITE_H
#define FTRACE_EVENT_WRITE_H

#include "trace_event.h"
#include "trace_probe.h"

#define INLINE inline __attribute__((always_inline))
#define ENTRY_WORDS (sizeof(struct trace_entry) / 4)

struct made_event {
	u16 id;
	unsigned long flags; /* as irq_save() returned them in the traced code */
	u8 *bytes;	     /* 8-aligned; the struct trace_entry in front is filled later */
	u32 size;
};

/*
 * Begin an event on the short path (trace_event.h). Return: the place of its fields; NULL: take the
 * long path. *@id and *@flags are read late, so that they occupy no registers before.
 */
static INLINE u32 *event_begin(struct ring_buffer_cpu *rb, const u16 *id,
			       const unsigned long *flags, u32 words, u64 *end)
{
	u64 now = clock_ns(), delta = now - rb->last_ts;

	*end = event_end(rb->page, words);
	if (unlikely(rb->slow) || unlikely(!event_fits(delta, *end)))
		return NULL;
	return (u32 *)event_start(rb, rb->page, *end, now, delta, *id, words, *flags) +
	       ENTRY_WORDS;
}

void event_write(const struct made_event *m, struct trace_array *tr);
/* Do set_event_pid and set_event_notrace_pid say that it is not recorded? */
bool event_is_ignored(const struct made_event *m, const struct trace_array *tr);
/* event_trigger.c: write the stack from the function of the event on */
void event_write_stack(const struct made_event *m, struct trace_array *tr);
/* event_trigger.c: let those triggers of @f act that do so before (after) the event is written. */
void event_pull_triggers(struct trace_event_file *f, const struct made_event *m, bool after);

/*
 * snapshot.c. tracing_alloc_snapshot(): make the spare buffers, if there are none. trace_lock held.
 * 0, -ENOMEM; -EBUSY: the buffers are those of last_boot=, or a latency tracer uses the spare
 * ones. tracing_snapshot(): take a snapshot of one CPU or (-1) of all. The spare buffers were made.
 * Any context, but not inside an event.
 */
int tracing_alloc_snapshot(struct trace_array *tr);
int tracing_free_snapshot(struct trace_array *tr); /* trace_lock held */
void tracing_snapshot(struct trace_array *tr, int cpu);

/*
 * Do what the event's file in one trace array says: act on its triggers, and write the event if it
 * is enabled and accepted.
 */
static INLINE void event_take(const struct made_event *m, struct trace_event_file *f)
{
	bool enabled = __atomic_load_n(&f->enabled, __ATOMIC_ACQUIRE); /* before its filter */
	const struct event_filter *filter = READ_ONCE(f->filter);
	bool pulled = READ_ONCE(f->triggers);

	if (unlikely(pulled))
		event_pull_triggers(f, m, false);
	if (enabled && (!filter || event_filter_match(filter, m->bytes)))
		event_write(m, f->tr);
	if (unlikely(pulled) && !event_is_ignored(m, f->tr))
		event_pull_triggers(f, m, true);
}

#endif

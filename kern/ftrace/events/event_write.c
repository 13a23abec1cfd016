/* Events that were made in memory, into the buffers; and what their triggers do. */
#include "event_write.h"

static __noinline void write_slowly(const struct made_event *m, struct trace_array *tr, u32 size)
{
	struct trace_write w;
	struct trace_entry *ent = trace_reserve(tr, m->id, size, &w);

	if (ent) {
		ent->flags &= ~TRACE_FLAG_IRQS_OFF;
		ent->flags |= irqs_off(m->flags) ? TRACE_FLAG_IRQS_OFF : 0;
		memcpy(ent + 1, m->bytes + sizeof(*ent), size - sizeof(*ent));
	}
	trace_end(&w, ent);
}

void event_write(const struct made_event *m, struct trace_array *tr)
{
	struct ring_buffer_cpu *rb = trace_buffer(tr, this_cpu());
	const u32 *from = (const u32 *)m->bytes + ENTRY_WORDS;
	u32 words = (m->size + 3) / 4;
	u64 end;
	u32 *to = words <= RB_TYPE_MAX_WORDS ? event_begin(rb, m->id, m->flags, words, &end) : NULL;

	if (unlikely(!to))
		return write_slowly(m, tr, 4 * words);
	for (words -= ENTRY_WORDS; words; words--)
		*to++ = *from++;
	event_commit(rb->page, end);
}

/*
 * As on Linux, a trigger without a filter acts before the event (@event is NULL), so the event
 * at which traceoff acts is not recorded. A trigger with a filter acts after the event. A count
 * stops at 0.
 */
void event_pull_triggers(struct trace_event_file *f, const u8 *event)
{
	for (unsigned i = 0; i < ARRAY_SIZE(f->trigger); i++) {
		struct event_trigger *t = &f->trigger[i];
		bool set = __atomic_load_n(&t->set, __ATOMIC_ACQUIRE);
		const struct event_filter *filter = READ_ONCE(t->filter);
		long left = READ_ONCE(t->left);

		if (!set || !left || t->on == tracing_is_on(f->tr))
			continue;
		if (!filter != !event || (filter && !event_filter_match(filter, event)))
			continue;
		if (left > 0 && !__atomic_compare_exchange_n(&t->left, &left, left - 1, false,
							     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
			continue; /* another CPU does it */
		tracing_slow(f->tr, RB_OFF, !t->on);
	}
}

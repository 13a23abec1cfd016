/* Events that were made in memory are written into the buffers. */
#include "event_write.h"
#include "static_event.h"

bool event_is_ignored(const struct made_event *m, const struct trace_array *tr)
{
	const struct trace_pids *pids = READ_ONCE(tr->event_pids);

	return trace_pids_ignore(pids, current->pid) &&
	       trace_pids_ignore(pids, static_event_pid(m->id, m->bytes));
}

static __noinline void write_slowly(const struct made_event *m, struct trace_array *tr, u32 size)
{
	struct trace_write w;
	struct trace_entry *ent;

	if (event_is_ignored(m, tr))
		return;
	ent = trace_reserve(tr, m->id, size, &w);
	if (ent) {
		ent->flags &= ~TRACE_FLAG_IRQS_OFF;
		ent->flags |= irqs_off(m->flags) ? TRACE_FLAG_IRQS_OFF : 0;
		memcpy(ent + 1, m->bytes + sizeof(*ent), size - sizeof(*ent));
	}
	trace_end(&w, ent);
	if (ent && tr->options & TRACE_ITER_STACKTRACE)
		event_write_stack(m, tr);
}

void event_write(const struct made_event *m, struct trace_array *tr)
{
	struct ring_buffer_cpu *rb = trace_buffer(tr, this_cpu());
	const u32 *from = (const u32 *)m->bytes + ENTRY_WORDS;
	u32 words = (m->size + 3) / 4;
	u32 *to = NULL;
	u64 end;

	if (words <= RB_TYPE_MAX_WORDS)
		to = event_begin(rb, &m->id, &m->flags, words, &end);
	if (unlikely(!to))
		return write_slowly(m, tr, 4 * words);
	for (words -= ENTRY_WORDS; words; words--)
		*to++ = *from++;
	event_commit(rb->page, end);
}

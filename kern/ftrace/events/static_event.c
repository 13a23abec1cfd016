/* Static events: their hits, and their sites. static_event.h says how they are declared. */
#include "static_event.h"

#include "asm-ftrace/hook.h"
#include "errno.h"
#include "event_write.h"
#include "ftrace_internal.h"
#include "init.h"
#include "print.h"

/* ---- A hit ---- */

static __noinline void lose(struct trace_probe_event *event, const struct cpu *cpu)
{
	for_each_event_file(f, event)
		if (READ_ONCE(f->enabled))
			trace_buffer(f->tr, cpu)->dropped++;
}

static __noinline void take_in_all(struct trace_probe_event *event, const struct made_event *m,
				   struct cpu *cpu)
{
	u64 recursion = cpu->recursion;

	cpu->recursion = recursion | cpu->context_bit;
	for (struct trace_event_file *f = &event->top; f; f = READ_ONCE(f->next))
		event_take(m, f);
	cpu->recursion = recursion;
}

/* Write an event that global_trace alone wants, on the short path. False: it is not written. */
static INLINE bool write_plain(const struct cpu *cpu, const u16 *id, unsigned long flags,
			       const void *bytes, u32 size)
{
	struct ring_buffer_cpu *rb = trace_buffer(&global_trace, cpu);
	const u32 *from = (const u32 *)bytes + ENTRY_WORDS;
	const u32 *last = (const u32 *)((const u8 *)bytes + size);
	u64 end;
	u32 *to = event_begin(rb, id, &flags, (size + 3) / 4, &end);

	if (unlikely(!to))
		return false;
	while (from < last)
		*to++ = *from++;
	event_commit(rb->page, end);
	return true;
}

void static_event_hit(struct trace_probe_event *event, void *bytes, u32 size)
{
	unsigned long flags = irq_save();
	struct cpu *cpu = this_cpu();

	if (unlikely(cpu->recursion & cpu->context_bit))
		lose(event, cpu);
	else if (unlikely(!READ_ONCE(event->plain)) ||
		 unlikely(!write_plain(cpu, &event->id, flags, bytes, size)))
		take_in_all(event, &(struct made_event){event->id, flags, bytes, size}, cpu);
	irq_restore(flags);
}

/* ---- Its sites ---- */

#define SITES_MAX 100 /* of one tracepoint */

/* The words of the tracepoint's sites. Return: their number, or -errno. */
static int find_words(const void *point, bool on, struct text_word *words)
{
	int count = 0;

	TABLE_FOR_EACH(const struct tracepoint_site, tracepoint_site, site) {
		u32 call;
		int err;

		if (site->point != point)
			continue;
		err = count == SITES_MAX ? -ENOSPC
					 : insn_call(site->ip, site->target, CALL_LINK, &call);
		if (err)
			return err;
		words[count++] = (struct text_word){site->ip, on ? INSN_NOP : insn_jump_of(call),
						    on ? insn_jump_of(call) : INSN_NOP};
	}
	return count;
}

int tracepoint_arm(const void *point, bool on)
{
	struct text_word words[SITES_MAX];
	int count, err;

	mutex_lock(&ftrace_lock);
	count = on && ftrace_disabled ? -ENODEV : find_words(point, on, words);
	err = MIN(count, 0);
	if (!err) {
		ftrace_batch_begin();
		err = text_write(words, count);
		ftrace_batch_end();
	}
	mutex_unlock(&ftrace_lock);
	if (!err && !on)
		synchronize_sched();
	return err;
}

int static_event_arm(struct trace_probe_event *event, bool on)
{
	int err = event->armed == on ? 0 : tracepoint_arm(event->fixed->point, on);

	if (err)
		printk("events: the sites of %s cannot be changed: %d\n", event->def->event, err);
	else
		event->armed = on;
	return err;
}

/* Set the tracepoints' pointers, and make the events' files. */
static int static_events_init(void)
{
	int err = 0;

	mutex_lock(&events_lock);
	TABLE_FOR_EACH(const struct static_event, static_event, s) {
		struct trace_probe_event **link = &events_by_id;

		*(void (**)(void))s->point = s->hit;
		while (*link && (*link)->id < s->event->id)
			link = &(*link)->next;
		s->event->next = *link;
		*link = s->event;
		err = err ?: probe_event_files(s->event);
	}
	mutex_unlock(&events_lock);
	return err;
}
INITCALL(static_events_init);

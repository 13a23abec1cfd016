/*
 * The short path that writes an event of a fixed size, for the callbacks that
 * every traced call pays for: no call, no loop, one clock.
 *
 *	if (rb->slow) take the long path: trace_reserve()
 *	irq_save(), now = clock_ns()
 *	if not event_fits(delta, end): irq_restore(), take the long path
 *	e = event_start(...); fill the fields of e; event_commit(...)
 *	irq_restore()
 *
 * Context: the CPU of the buffer, interrupts masked from the reading of the
 * clock to the commit, so that the times in a buffer never go back.
 */
#ifndef FTRACE_TRACE_EVENT_H
#define FTRACE_TRACE_EVENT_H

#include "irq.h"
#include "trace.h"

static __always_inline struct ring_buffer_cpu *trace_buffer(const struct trace_array *tr,
							    const struct cpu *c)
{
	return (struct ring_buffer_cpu *)((char *)tr + (unsigned long)c->ftrace);
}

#define EVENT_WORDS(type) (sizeof(type) / 4)

/* Hide how @v was computed, so that the compiler keeps @v in a register and none of its inputs. */
#define ONE_REGISTER(v) __asm__("" : "+r"(v))

/* The end of the page's data with an event of @words: the commit value to store. */
static __always_inline u64 event_end(const struct rb_page *page, unsigned words)
{
	u64 end = page->commit + 4 + 4 * words;

	ONE_REGISTER(end);
	return end;
}

/* Non-zero if @end is past the page. One instruction, where a comparison costs three. */
#define PAST_PAGE(end) (((end) + RB_PAGE_SIZE - 1 - RB_PAGE_DATA) >> 12)

static __always_inline bool event_fits(u64 delta, u64 end)
{
	return likely(!(delta >> RB_DELTA_BITS)) && likely(!PAST_PAGE(end));
}

/* Write the struct trace_entry at @ent, in two words. @flags: as irq_save() returned them. */
static __always_inline void trace_fill_entry(u32 *ent, u16 type, unsigned long flags)
{
	ent[0] = (current->ctx | this_cpu()->resched | (u32)irqs_off(flags) << 16) + type;
	ent[1] = current->pid;
}

/*
 * Write the event's header and its struct trace_entry. Return: the place of the fields that follow.
 */
static __always_inline void *event_start(struct ring_buffer_cpu *rb, struct rb_page *page, u64 end,
					 u64 now, u64 delta, u16 type, unsigned words,
					 unsigned long flags)
{
	u32 *e = (u32 *)((char *)page + end);

	rb->last_ts = now;
	rb->accepted++;
	ONE_REGISTER(e);
	e += (int)(offsetof(struct rb_page, data) / 4) - (int)(1 + words);
	e[0] = words | delta << 5;
	trace_fill_entry(e + 1, type, flags);
	return e + 1;
}

static __always_inline void event_commit(struct rb_page *page, u64 end)
{
	smp_wmb();
	WRITE_ONCE(page->commit, end);
}

#endif

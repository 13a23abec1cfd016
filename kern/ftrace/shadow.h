/*
 * The shadow stack: what a thread still owes its callers. 4 KiB a thread,
 * only while there is a user of function_graph.
 *
 *	words[]: grows up
 *	| frame | data | data | frame | frame | data | ...
 *	                                ^top            ^free
 *
 *	a frame: | ret | func | sp | fp | calltime | below | users 16, stamp 48 | data end |
 *	a datum: | slot, words | word | word | ...
 *
 * Push: take the room (free), fill the frame, then show it (top). Pop: hide
 * it (top), then give the room back (free). An interrupt between any two of
 * these stores works above `free` and puts `top` and `free` back as it found
 * them: it can neither see a half frame, because only what `top` leads to is
 * a frame, nor overwrite one, because it starts at `free`. So frames need not
 * touch each other, and each knows the one below.
 *
 * Only the thread and its own interrupts write; so barrier() orders enough.
 * Data: the room is taken and filled first, then the frame's `data_end` shows it.
 */
#ifndef FTRACE_SHADOW_H
#define FTRACE_SHADOW_H

#include "shadow_layout.h"

/*
 * One frame more and one frame less; see above for the order. @now: the
 * calltime. shadow_push_into: there is room. shadow_push: NULL if there is
 * none, counted.
 */
static inline struct shadow_frame *shadow_push_into(struct shadow_stack *s, unsigned long ip,
						   const struct ftrace_regs *regs, u64 now,
						   u64 stamp)
{
#if LAB_START == 5
	return NULL;
#else
	struct shadow_frame *f = (struct shadow_frame *)s->free;

	shadow_store(s->free, (unsigned long *)(f + 1));
	barrier();
	shadow_store(f->ret, regs->link);
	shadow_store(f->func, ip);
	shadow_store(f->sp, regs->sp);
	shadow_store(f->fp, regs->fp);
	shadow_store(f->calltime, now);
	shadow_store(f->below, s->top);
	shadow_store(f->users, stamp);
	shadow_store(f->data_end, (unsigned long *)(f + 1));
	barrier();
	shadow_store(s->top, f);
	shadow_store(s->depth, s->depth + 1);
	return f;
#endif
}

static inline struct shadow_frame *shadow_push(struct shadow_stack *s, unsigned long ip,
					      const struct ftrace_regs *regs, u64 now, u64 stamp)
{
	if (likely(!shadow_is_full(s)))
		return shadow_push_into(s, ip, regs, now, stamp);
	__atomic_fetch_add(&s->overrun, 1, __ATOMIC_RELAXED); /* an interrupt counts too */
	return NULL;
}

static inline void shadow_pop(struct shadow_stack *s, struct shadow_frame *f)
{
#if LAB_START != 5
	shadow_store(s->depth, s->depth - 1);
	shadow_store(s->top, f->below);
	barrier();
	shadow_store(s->free, (unsigned long *)f);
#endif
}

#endif

/*
 * Lab 5: push and pop a frame, with stores in such an order that an interrupt
 * between any two of them may push and pop frames, too (shadow.h).
 */
#include "shadow.h"

struct shadow_frame *shadow_push_into(struct shadow_stack *s, unsigned long ip,
				      const struct ftrace_regs *regs, u64 now, u64 stamp)
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

void shadow_pop(struct shadow_stack *s, struct shadow_frame *f)
{
#if LAB_START != 5
	shadow_store(s->depth, s->depth - 1);
	shadow_store(s->top, f->below);
	barrier();
	shadow_store(s->free, (unsigned long *)f);
#endif
}

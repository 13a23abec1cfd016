/*
 * Walking a stack: where a walk begins and that it ends. One step is the
 * architecture's: unwind_step().
 */
#include "unwind.h"

#include "cpu.h"

static notrace void set_stack(struct unwind *u, const struct thread *t)
{
	u->low = (unsigned long)t->stack;
	u->high = u->low + THREAD_SIZE;
}

__noinline notrace void unwind_start_here(struct unwind *u)
{
	*u = (struct unwind){
		.pc = (unsigned long)unwind_start_here,
		.fp = (unsigned long)__builtin_frame_address(0),
		.sp = (unsigned long)__builtin_frame_address(0),
	};
	set_stack(u, current);
	unwind_step(u);
	barrier(); /* no tail call: the step reads our own frame */
}

notrace void unwind_start_regs(struct unwind *u, struct trap_frame *regs)
{
	*u = (struct unwind){regs_pc(regs), regs_fp(regs), regs_sp(regs), .regs = regs};
	set_stack(u, current);
}

/* A step goes up the stack, except out of a leaf that an interrupt met. */
notrace bool unwind_next(struct unwind *u)
{
	unsigned long sp = u->sp;
	bool exact = u->regs != NULL;

	return unwind_step(u) && (u->sp > sp || (exact && u->sp == sp));
}

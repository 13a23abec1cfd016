/*
 * Walking the frame records of the running thread: from here, or from a trap
 * frame.
 *
 * A walk never leaves the thread's stack and always ends. Across an
 * interrupt it gives the interrupted pc, then its caller: from the trap
 * frame's link register when the interrupted function had not yet (or no
 * longer, or, a riscv64 leaf, never) stored it in its frame.
 */
#ifndef KERN_UNWIND_H
#define KERN_UNWIND_H

#include "thread.h"

struct unwind {
	unsigned long pc, fp, sp;
	unsigned long low, high; /* the stack */
	struct trap_frame *regs; /* pc comes from here: it is exact, not a return address */
	bool link_pending;       /* pc was the traced function; its caller is still in regs */
};
void unwind_start_here(struct unwind *u);                        /* the caller of this function */
void unwind_start_regs(struct unwind *u, struct trap_frame *regs);
bool unwind_next(struct unwind *u);                              /* false at the end */

/*
 * <arch>/unwind.c: one step, from u to its caller: new pc, fp, sp, and regs when
 * the step crosses a trap frame. False at an entry point (thread_start_asm,
 * head.S) or when a record lies outside [low, high). It reads only inside the
 * stack and inside text.
 */
bool unwind_step(struct unwind *u);

#endif

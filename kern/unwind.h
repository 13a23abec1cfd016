/*
 * Walking a stack along its frame records: of the running thread, from here,
 * from a trap frame or out of a tracer's callback, or of a thread that is off
 * its CPU.
 *
 * A walk never leaves the thread's stack and always ends. Across an
 * interrupt it gives the interrupted pc, then its caller: from the trap
 * frame's link register when the interrupted function had not yet (or no
 * longer, or, a riscv64 leaf, never) stored it in its frame. A return address
 * that a tracer replaced is given as it was: see UNWIND_HOOK.
 *
 * Context: any, interrupts masked (what an interrupted function has done so
 * far is worked out in memory of the CPU's).
 */
#ifndef KERN_UNWIND_H
#define KERN_UNWIND_H

#include "thread.h"

struct unwind {
	unsigned long pc, fp, sp; /* sp: of the function at pc, where it made its last call */
	struct thread *thread;
	unsigned long low, high; /* its stack */
	struct trap_frame *regs; /* pc comes from here: it is exact, not a return address */
	bool link_pending;       /* pc was the traced function; its caller is still in regs */
};
void unwind_start_here(struct unwind *u);                        /* the caller of this function */
void unwind_start_regs(struct unwind *u, struct trap_frame *regs);
/* @pc is true (unwind_true_caller()). @t is the running thread, or off its CPU and kept there. */
void unwind_start_at(struct unwind *u, struct thread *t, unsigned long pc, unsigned long fp,
		     unsigned long sp);
bool unwind_next(struct unwind *u);                              /* false at the end */

/* The address behind an instruction: a call's, so a return address, or the interrupted one's. */
static inline unsigned long unwind_entry(const struct unwind *u)
{
	return u->regs && !u->link_pending ? u->pc + 4 : u->pc;
}
/* Up to @max of these, from @u on. Return: how many. */
unsigned unwind_save(struct unwind *u, unsigned long *entries, unsigned max);

/*
 * The stack of any thread: one off its CPU is kept there while it is walked, a
 * running one is interrupted. Return: entries; 0 when no thread has that pid
 * (0: CPU @cpu's idle thread). Context: thread, interrupts on, no spinlock held.
 */
unsigned stack_trace_save_pid(int pid, unsigned cpu, unsigned long *entries, unsigned max);

/*
 * A tracer that replaces return addresses links in a hook: fn(t, pc, fp) is
 * what @pc, read from @t's stack or link register, was before; @fp is the
 * frame pointer of the function that it lies in. Any context.
 */
struct unwind_hook {
	unsigned long (*fn)(struct thread *t, unsigned long pc, unsigned long fp);
};
#define UNWIND_HOOK(f) TABLE_ENTRY(const struct unwind_hook, unwind_hook, f##_hook) = {f}
/* What the hooks make of it. */
unsigned long unwind_true_caller(struct thread *t, unsigned long pc, unsigned long fp);

/*
 * <arch>/unwind.c: one step, from u to its caller, new pc, fp and sp: by the record
 * that fp points to; from an interrupted function. False at an entry point
 * (thread_start_asm, head.S) or when a record lies outside [low, high). They read
 * only inside the stack and inside text.
 */
bool unwind_record(struct unwind *u);
bool unwind_from_regs(struct unwind *u);

/* ---- For <arch>/unwind.c ---- */

/*
 * What the instructions of a function did to sp, the link register and fp.
 * Places are offsets from what sp was at the call; depth: how far below it is.
 */
struct frame_state {
	bool known, ra_stored, fp_stored, fp_set;
	s32 depth, ra_at, fp_at;
	s32 fp_is, fp_from_sp; /* what fp was set to; the same from where sp was then */
};
/* @reg was put where it is now, or taken from there: @at from sp. */
void unwind_moved(struct frame_state *s, bool is_fp, s32 at, bool load);
/* To the caller by what the code stored; without a record of its own. @link: if ra is not stored. */
bool unwind_by_code(struct unwind *u, const struct frame_state *s, unsigned long link);
/* The architecture's: note in @s what @insn does; where it may go, as an offset in *to. */
enum flow { FLOW_ON, FLOW_BRANCH, FLOW_JUMP, FLOW_AWAY, FLOW_RETURN };
enum flow unwind_track(struct frame_state *s, u32 insn, long *to);

/*
 * The state at @pc of the function that contains it, before the instruction
 * there. @name: the function's, or NULL; all zero, and a NULL name, outside of text.
 */
struct frame_state unwind_state(unsigned long pc, const char **name);

static inline bool in_text(unsigned long pc)
{
	return pc >= (unsigned long)_text && pc < (unsigned long)_etext;
}
static inline bool unwind_in_vector(unsigned long pc)
{
	return pc >= (unsigned long)exception_vector && pc < (unsigned long)exception_vector_end;
}
bool unwind_read(const struct unwind *u, unsigned long at, unsigned long *value);
/* Is @name code between a call site and the callback, or back? */
bool unwind_in_tracer_entry(const char *name);

#endif

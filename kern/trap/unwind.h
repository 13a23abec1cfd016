/*
 * Stack walks along the frame records: of the running thread (from the caller,
 * from a trap frame or from a tracer's callback), or of a thread that is not
 * running.
 *
 * A walk never leaves the thread's stack and always ends. Across an interrupt it
 * gives the interrupted pc, then its caller. The caller comes from the trap
 * frame's link register if the interrupted function has not stored it (not yet,
 * or no longer; a riscv64 leaf never does). For a return address that a tracer
 * replaced, the walk gives the original one: see UNWIND_HOOK.
 *
 * Context: any, interrupts masked (unwind_state() uses per-CPU memory).
 */
#ifndef TRAP_UNWIND_H
#define TRAP_UNWIND_H

#include "thread.h"

struct unwind {
	unsigned long pc, fp, sp; /* sp: of the function at pc, where it made its last call */
	struct thread *thread;
	unsigned long low, high; /* the thread's stack */
	struct trap_frame *regs; /* not NULL: pc is its interrupted pc, not a return address */
	bool link_pending;       /* pc was the traced function; its caller is still in regs */
};
void unwind_start_here(struct unwind *u);                        /* the caller of this function */
void unwind_start_regs(struct unwind *u, struct trap_frame *regs);
/*
 * @pc is the original address (unwind_true_caller()). @t is the running thread, or cannot start
 * running.
 */
static inline notrace void unwind_start_at(struct unwind *u, struct thread *t, unsigned long pc,
					   unsigned long fp, unsigned long sp)
{
	unsigned long low = (unsigned long)t->stack;

	*u = (struct unwind){pc, fp, sp, t, low, low + THREAD_SIZE};
}
bool unwind_next(struct unwind *u);                              /* false at the end */

/*
 * The address after the frame's current instruction: the return address of a call, or the
 * interrupted pc + 4.
 */
static inline unsigned long unwind_entry(const struct unwind *u)
{
	return u->regs && !u->link_pending ? u->pc + 4 : u->pc;
}
/* Store up to @max of these addresses, from @u on. Return: their number. */
unsigned unwind_save(struct unwind *u, unsigned long *entries, unsigned max);

/*
 * The stack of any thread: a running one is interrupted; another one cannot start
 * running during the walk. @pid 0: CPU @cpu's idle thread. Return: the number of
 * entries; 0 when no thread has that pid. Context: thread, interrupts on, no
 * spinlock held.
 */
unsigned stack_trace_save_pid(int pid, unsigned cpu, unsigned long *entries, unsigned max);

/*
 * Print a stack trace, one stack_line() for each address and then stack_lines_end(). If up to
 * STACK_PERIOD_MAX lines repeat, as in a recursion, print() is told how often instead.
 */
#define STACK_PERIOD_MAX 4
#define STACK_FRAMES_MAX (THREAD_SIZE / 16) /* a frame record has 16 bytes */
struct stack_lines {
	/* exact: an interrupted pc, not a return address */
	void (*line)(unsigned long pc, bool exact);
	int (*print)(const char *fmt, ...);
	const char *indent; /* of what is printed by print() */
	unsigned printed; /* lines */
	/* The rest is zero at the start, and private. */
	/* the next @period lines are like the last ones, @skipped times so far */
	unsigned period, skipped;
	unsigned long seen[STACK_PERIOD_MAX]; /* the newest address first */
};
void stack_line(struct stack_lines *l, unsigned long pc, bool exact);
void stack_lines_end(struct stack_lines *l);

/*
 * A tracer that replaces return addresses links in a hook: for @pc, read from
 * @t's stack or link register, fn(t, pc, fp) returns the original address; @fp is
 * the frame pointer of the function that contains @pc. Any context.
 */
struct unwind_hook {
	unsigned long (*fn)(struct thread *t, unsigned long pc, unsigned long fp);
};
#define UNWIND_HOOK(f) TABLE_ENTRY(const struct unwind_hook, unwind_hook, f##_hook) = {f}
/* The original address of @pc, by the hooks. */
unsigned long unwind_true_caller(struct thread *t, unsigned long pc, unsigned long fp);

/*
 * <arch>/unwind.c: set u's pc, fp and sp to the caller's: from the frame record
 * at fp; from u->regs. False at an entry point (thread_start_asm, head.S) or when
 * a record is outside [low, high). Both read only inside the stack and inside text.
 */
bool unwind_record(struct unwind *u);
bool unwind_from_regs(struct unwind *u);

/* ---- For <arch>/unwind.c ---- */

/*
 * The interrupted pc. In the copy of an instruction that a probe executes, it is the instruction's
 * own address.
 */
unsigned long unwind_true_pc(const struct trap_frame *regs);

/*
 * What a function's instructions have done to sp, the link register and fp. The
 * offsets count from the sp at the function's entry; depth: how far sp is below it.
 */
struct frame_state {
	bool known, ra_stored, fp_stored, fp_set;
	s32 depth, ra_at, fp_at;
	/* fp's value as an offset; the same relative to sp at that instruction */
	s32 fp_is, fp_from_sp;
};
/* fp (@is_fp) or the link register was stored at sp + @at, or loaded from there (@load). */
void unwind_moved(struct frame_state *s, bool is_fp, s32 at, bool load);
/*
 * Go to the caller of a function without a frame record, by @s. @link: the caller's address if it
 * is not stored.
 */
bool unwind_by_code(struct unwind *u, const struct frame_state *s, unsigned long link);
/*
 * <arch>/unwind.c: record the effect of @insn in @s. Return: where it continues; *to: a branch's
 * offset.
 */
enum flow { FLOW_ON, FLOW_BRANCH, FLOW_JUMP, FLOW_AWAY, FLOW_RETURN };
enum flow unwind_track(struct frame_state *s, u32 insn, long *to);

/*
 * The state of the function that contains @pc, before the instruction at @pc.
 * *name: the function's name. Outside of text: all zero, and a NULL name.
 */
struct frame_state unwind_state(unsigned long pc, const char **name);

static inline bool in_kernel_text(unsigned long pc)
{
	return pc >= (unsigned long)_text && pc < (unsigned long)_etext;
}
/* Text of the kernel, or of a module: it can be read until the CPU next goes through schedule(). */
static inline bool in_text(unsigned long pc)
{
	return likely(in_kernel_text(pc)) || (may_be_in_module(pc) && in_module_text(pc));
}
static inline bool unwind_in_vector(unsigned long pc)
{
	return pc >= (unsigned long)exception_vector && pc < (unsigned long)exception_vector_end;
}
bool unwind_read(const struct unwind *u, unsigned long at, unsigned long *value);
/* Is @name a function that runs between a call site and the callback? */
bool unwind_in_tracer_entry(const char *name);

#endif

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

#include "asm-ftrace/regs.h"
#include "thread.h"
#include "types.h"

struct shadow_frame {
	unsigned long ret;  /* where the function really returns to */
	unsigned long func; /* the call site */
	unsigned long sp;   /* at the call: must be the same at the return */
	unsigned long fp;   /* the caller's: by it a stack walk finds the frame */
	u64 calltime;
	struct shadow_frame *below;
	u64 users; /* stamp << 16 | bit per user that said yes */
	unsigned long *data_end; /* behind its last datum */
};

#define SHADOW_SIZE 4096
#define SHADOW_VARS 16

struct shadow_stack {
	struct shadow_frame *top; /* the newest whole frame, or NULL */
	unsigned long *free;	  /* the first free word */
	unsigned long depth;	  /* frames out */
	unsigned long overrun;	  /* pushes and reservations that found no room */
	unsigned long *last;	  /* where the last frame could begin */
	unsigned long var[SHADOW_VARS]; /* fgraph_get_task_var() */
	u64 var_owner[SHADOW_VARS];     /* the birth of the user that var[] belongs to */
	unsigned long words[SHADOW_SIZE / 8 - 5 - 2 * SHADOW_VARS];
};

/*
 * Every store to a shadow stack. The tests put an interrupt before and after
 * each: they define shadow_hook(). Stores keep their order only across a
 * barrier().
 */
#ifdef SHADOW_HOOK
void shadow_hook(void);
#else
static inline void shadow_hook(void) {}
#endif
#define shadow_store(place, value)                                                            \
	do {                                                                                  \
		shadow_hook();                                                                \
		(place) = (value);                                                            \
		shadow_hook();                                                                \
	} while (0)

static inline struct shadow_stack *shadow_of(const struct thread *t)
{
	return (struct shadow_stack *)READ_ONCE(t->ftrace);
}

/* An empty one, of zeroed memory. */
static inline void shadow_init(struct shadow_stack *s)
{
	s->free = s->words;
	s->last = (unsigned long *)((char *)s + SHADOW_SIZE - sizeof(struct shadow_frame));
}

static inline bool shadow_is_full(const struct shadow_stack *s)
{
	return s->free > s->last;
}

/*
 * Shadow stacks for all threads, present and to come: shadow_users_begin()
 * before the first user's sites are patched (-ENOMEM: none is left behind),
 * shadow_users_end() after the last user's sites are nops again and a grace
 * period has passed. A thread that is still inside a traced function keeps
 * its stack until it has left. Context: thread, ftrace_lock held.
 */
int shadow_users_begin(void);
void shadow_users_end(void);

/*
 * One frame more and one frame less (shadow_frame.c); see above for the order.
 * @now: the calltime. shadow_push_into: there is room. shadow_push: NULL if
 * there is none, counted. @f is the newest frame.
 */
struct shadow_frame *shadow_push_into(struct shadow_stack *s, unsigned long ip,
				      const struct ftrace_regs *regs, u64 now, u64 stamp);
void shadow_pop(struct shadow_stack *s, struct shadow_frame *f);

static inline struct shadow_frame *shadow_push(struct shadow_stack *s, unsigned long ip,
					      const struct ftrace_regs *regs, u64 now, u64 stamp)
{
	if (likely(!shadow_is_full(s)))
		return shadow_push_into(s, ip, regs, now, stamp);
	__atomic_fetch_add(&s->overrun, 1, __ATOMIC_RELAXED); /* an interrupt counts too */
	return NULL;
}

#endif

/*
 * What a shadow stack is made of (shadow.h says how it is used), for whoever
 * looks at one and must not be told otherwise: shadow.h is handed in.
 */
#ifndef FTRACE_SHADOW_LAYOUT_H
#define FTRACE_SHADOW_LAYOUT_H

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

#endif

/*
 * The shadow stack: the return addresses of a thread that function_graph has
 * replaced. 4 KiB for each thread, only while function_graph has a user.
 *
 *	words[]: grows up
 *	| frame | data | data | frame | frame | data | ...
 *	                                ^top            ^free
 *
 *	a frame: | ret | func | sp | fp | calltime | below | users 16, stamp 48 | data end |
 *	a datum: | slot, words | word | word | ...
 *
 * Push: (1) reserve the room (free), (2) fill the frame, (3) publish it (top).
 * Pop: (1) unpublish it (top), (2) release the room (free). An interrupt between
 * any two of these stores works above `free` and restores `top` and `free`. It
 * cannot see a half-filled frame, because only frames that `top` leads to count,
 * and it cannot overwrite a frame, because it starts at `free`. So there may be
 * gaps between frames, and each frame has a pointer to the frame below.
 *
 * Only the thread and its own interrupts write, so barrier() is enough to order
 * the stores. Entry data: reserve the room, fill it, publish it (`data_end`).
 *
 * If the program jumps out of a function (longjmp()), the function's frame stays. A
 * stack grows down, so all frames above that of a function that returns belong to such
 * calls: they are popped then. Until then they do no harm: a return, and a stack walk,
 * find the newest frame that fits, and a call in progress is newer than those that were
 * left where it is now. When the stack is full, such frames are searched (shadow_make_room()).
 */
#ifndef FTRACE_SHADOW_H
#define FTRACE_SHADOW_H

#include "asm-ftrace/regs.h"
#include "thread.h"
#include "types.h"

struct shadow_frame {
	unsigned long ret;  /* where the function really returns to */
	unsigned long func; /* the call site */
	unsigned long sp;   /* at the call; must be the same at the return */
	unsigned long fp;   /* the caller's; a stack walk finds the frame by it */
	u64 calltime;
	struct shadow_frame *below;
	u64 users; /* stamp << 16 | a bit for each user whose entry handler returned non-zero */
	unsigned long *data_end; /* the end of the frame's last datum */
};

#define SHADOW_SIZE 4096
#define SHADOW_VARS 16

struct shadow_stack {
	struct shadow_frame *top; /* the newest whole frame, or NULL */
	unsigned long *free;	  /* the first free word */
	unsigned long depth;	  /* number of frames */
	/* pushes and reservations that found no room, and calls that were left by a jump */
	unsigned long overrun;
	/* the highest address at which a frame fits; NULL: shadow_drop_soon() */
	unsigned long *last;
	unsigned long var[SHADOW_VARS]; /* fgraph_get_task_var() */
	u64 var_owner[SHADOW_VARS];     /* the birth of the user that var[] belongs to */
	unsigned long words[SHADOW_SIZE / 8 - 5 - 2 * SHADOW_VARS];
};

/*
 * shadow_store(): every store to a shadow stack uses it. The tests define
 * shadow_hook() and call an interrupt before and after each store. Stores keep
 * their order only across a barrier().
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

static inline unsigned long *shadow_last(struct shadow_stack *s)
{
	return (unsigned long *)((char *)s + SHADOW_SIZE - sizeof(struct shadow_frame));
}

/* Make zeroed memory an empty shadow stack. */
static inline void shadow_init(struct shadow_stack *s)
{
	s->free = s->words;
	s->last = shadow_last(s);
}

static inline bool shadow_is_full(const struct shadow_stack *s)
{
	return s->free > s->last;
}

/*
 * Give shadow stacks to all threads, and to all new ones: call shadow_users_begin()
 * before the first user's sites are patched. Return: 0; -ENOMEM, and then no
 * thread has one. Take them back: call shadow_users_end() after the last user's
 * sites are nops again and a grace period has passed. A thread that is inside a
 * traced function keeps its stack until it has left the function.
 * Context: thread, ftrace_lock held.
 */
int shadow_users_begin(void);
void shadow_users_end(void);

/*
 * Push and pop a frame (shadow_frame.c), in the order above. trace/trace_graph_direct.c has a copy
 * of the push, which must make the same stores in the same order.
 *
 * @now: the calltime.
 * @stamp: the frame's users word at first. shadow_push_into(): the caller has
 * checked that there is room. shadow_push(): NULL if there is none and none can be
 * made, counted in `overrun`. shadow_pop(): @f is the newest frame.
 */
struct shadow_frame *shadow_push_into(struct shadow_stack *s, unsigned long ip,
				      const struct ftrace_regs *regs, u64 now, u64 stamp);
void shadow_pop(struct shadow_stack *s, struct shadow_frame *f);

/* Atomic: an interrupt may count, too. */
static inline void shadow_count_overrun(struct shadow_stack *s)
{
	__atomic_fetch_add(&s->overrun, 1, __ATOMIC_RELAXED);
}

/*
 * Let the next push of the thread drop the frames of calls that were left, though there is room for
 * a frame.
 */
static inline void shadow_drop_soon(struct shadow_stack *s)
{
	shadow_store(s->last, NULL);
}

/* Entry data found no room: count it. */
static inline void shadow_no_room(struct shadow_stack *s)
{
	shadow_count_overrun(s);
	shadow_drop_soon(s);
}

/*
 * Before a push, with the recursion bit set: @s is full. Drop the frames of calls that were
 * left, as far as @regs, the registers of the call, show them. Return: is there room now?
 */
bool shadow_make_room(struct shadow_stack *s, const struct ftrace_regs *regs);

static inline struct shadow_frame *shadow_push(struct shadow_stack *s, unsigned long ip,
					      const struct ftrace_regs *regs, u64 now, u64 stamp)
{
	if (likely(!shadow_is_full(s)) || shadow_make_room(s, regs))
		return shadow_push_into(s, ip, regs, now, stamp);
	shadow_count_overrun(s);
	return NULL;
}

#endif

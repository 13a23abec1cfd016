/*
 * A point: an instruction with probes. kprobes.c (registration, entries) and
 * kprobe_hit.c (breakpoints) share this header; beside them only their tests and the
 * program for grading include it.
 *
 * Points are found by address without a lock. They change under ftrace_lock, in
 * the order of stores that kprobes.h gives.
 */
#ifndef FTRACE_KPROBE_POINT_H
#define FTRACE_KPROBE_POINT_H

#include "breakpoint.h"
#include "kprobes.h"
#include "lock.h"
#include "ftrace_internal.h"

#define EXCEPTION_BIT 4 /* cpu->context_bit in an exception */
/*
 * A point's key is its address. At an entry, probes that may change pc have a point
 * of their own, with this bit, because they belong to the op that may change pc.
 */
#define KEY_MODIFY 1ul

struct probe_point {
	unsigned long key;
	struct kprobe *probes;
	struct probe_point *next; /* in its bucket */
	bool entry;		  /* the call site of a function; else a breakpoint: */
	bool armed;
	u32 insn;		  /* the one that was replaced */
	unsigned long resume;	  /* its slot; 0: it is emulated */
};

#define KPROBE_BUCKETS 64
extern struct probe_point *kprobe_buckets[KPROBE_BUCKETS];
extern struct probe_point *kprobe_slot_owner[KPROBE_SLOTS]; /* NULL: the slot is free */

static inline struct probe_point **bucket_of(unsigned long key)
{
	return &kprobe_buckets[(u32)((u32)(key >> 2) * 0x9e3779b1u) >> 26];
}

/* NULL: there is none. */
static inline struct probe_point *find_point(unsigned long key)
{
	struct probe_point *pt = READ_ONCE(*bucket_of(key));

	while (pt && pt->key != key)
		pt = READ_ONCE(pt->next);
	return pt;
}

/* The point in whose slot @pc is; NULL: in none. */
static inline struct probe_point *slot_point(unsigned long pc)
{
	unsigned long offset = pc - (unsigned long)kprobe_slots;

	return offset < sizeof(kprobe_slots)
		       ? READ_ONCE(kprobe_slot_owner[offset / sizeof(kprobe_slots[0])])
		       : NULL;
}

/* Call the handlers before the instruction, of all enabled probes. Return: pc was changed. */
static __always_inline bool run_pre(const struct probe_point *pt, struct kprobe_regs *regs)
{
	bool moved = false;

	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next))
		if (p->pre_handler && !(READ_ONCE(p->flags) & KPROBE_FLAG_DISABLED))
			moved |= p->pre_handler(p, regs) && p->flags & KPROBE_FLAG_IPMODIFY;
	return moved;
}

/* Call the handlers after the instruction. */
static __always_inline void run_post(const struct probe_point *pt, struct kprobe_regs *regs)
{
	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next))
		if (p->post_handler && !(READ_ONCE(p->flags) & KPROBE_FLAG_DISABLED))
			p->post_handler(p, regs);
}

/* Count a hit for which no handler is called. */
static inline void count_missed(const struct probe_point *pt)
{
	for (struct kprobe *p = READ_ONCE(pt->probes); p; p = READ_ONCE(p->next))
		if (!(READ_ONCE(p->flags) & KPROBE_FLAG_DISABLED))
			__atomic_add_fetch(&p->nmissed, 1, __ATOMIC_RELAXED);
}

/* ---- kprobes.c, for kprobe_hit.c: ftrace_lock is held ---- */

/*
 * Start or stop calling the probes of an entry, and set @pt->armed. Return: 0; or an error of the
 * op, only if @on.
 */
int kprobe_arm_entry(struct probe_point *pt, bool on);

/* ---- kprobe_hit.c, for kprobes.c ---- */

/* register_kprobe() stores it in break_hook. */
extern const struct break_hook kprobe_hook;
/*
 * Write into text what the point's probes need now: its slot, if it has one, and
 * then its breakpoint or its call site. A point whose probes are all disabled, or
 * that has none, needs no breakpoint. Return: 0, or the error of kprobe_write() or
 * kprobe_arm_entry().
 * Context: thread, ftrace_lock held.
 */
int kprobe_update_point(struct probe_point *pt);
/*
 * A probe of @pt was unlinked. Return when no CPU uses the probe. @unused: the
 * point has no probe left and is not armed; unlink it, and free it and its slot
 * after the last CPU has left them. Context: thread, ftrace_lock held.
 */
void kprobe_wait_and_free(struct probe_point *pt, bool unused);

#endif

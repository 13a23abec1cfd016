/*
 * Spinlocks. A lock that interrupt handlers also take is always taken with
 * spin_lock_irqsave(), which first masks interrupts on this CPU. With interrupts
 * masked there is no preemption either.
 */
#ifndef BASE_LOCK_H
#define BASE_LOCK_H

#include "irqflags.h"

struct spinlock {
	u32 locked;
};

static inline void spin_lock(struct spinlock *l)
{
	while (__atomic_exchange_n(&l->locked, 1, __ATOMIC_ACQUIRE))
		while (READ_ONCE(l->locked))
			cpu_relax();
}
static inline void spin_unlock(struct spinlock *l)
{
	__atomic_store_n(&l->locked, 0, __ATOMIC_RELEASE);
}
static inline unsigned long spin_lock_irqsave(struct spinlock *l)
{
	unsigned long flags = local_irq_save();

	spin_lock(l);
	return flags;
}
static inline void spin_unlock_irqrestore(struct spinlock *l, unsigned long flags)
{
	spin_unlock(l);
	local_irq_restore(flags);
}

#endif

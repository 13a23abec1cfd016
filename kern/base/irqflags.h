/*
 * Mask and unmask interrupts on this CPU, in sight of the latency tracers (events/latency.c).
 *
 * irq_save() and the like (arch.h) do the same unseen. The tracer uses those, and the idle loop,
 * which waits with interrupts masked. What a function of one family masks, one of the same family
 * unmasks.
 *
 * A module has no tracepoints: it calls two functions of the kernel's.
 */
#ifndef BASE_IRQFLAGS_H
#define BASE_IRQFLAGS_H

#include "arch.h"
#include "tracepoint.h"

#define THIS_IP                                                                               \
	({                                                                                    \
		__label__ here;                                                               \
	here:                                                                                 \
		(unsigned long)&&here;                                                        \
	})
#define CALLER ((unsigned long)__builtin_return_address(0))

unsigned long irq_save_from(unsigned long parent);
void irq_restore_from(unsigned long flags, unsigned long parent);

static __always_inline unsigned long local_irq_save(void)
{
#ifdef MODULE
	return irq_save_from(CALLER);
#else
	unsigned long flags = irq_save();

	TRACE(irq_disable, !irqs_off(flags), THIS_IP, CALLER);
	return flags;
#endif
}
static __always_inline void local_irq_restore(unsigned long flags)
{
#ifdef MODULE
	irq_restore_from(flags, CALLER);
#else
	TRACE(irq_enable, !irqs_off(flags), THIS_IP, CALLER);
	irq_restore(flags);
#endif
}

#endif

/*
 * Mask and unmask interrupts on this CPU, in sight of the latency tracers (events/latency.c).
 *
 * irq_save() and the like (arch.h) do the same unseen. The tracer uses those, and the idle loop,
 * which waits with interrupts masked. What a function of one family masks, one of the same family
 * unmasks.
 *
 * A module has no tracepoints: it calls two functions of the kernel that have.
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

unsigned long _local_irq_save(void);
void _local_irq_restore(unsigned long flags);

static __always_inline unsigned long local_irq_save(void)
{
#ifdef MODULE
	return _local_irq_save();
#else
	unsigned long flags = irq_save();

	TRACE(irq_disable, !irqs_off(flags), THIS_IP, CALLER, THIS_IP);
	return flags;
#endif
}
static __always_inline void local_irq_restore(unsigned long flags)
{
#ifdef MODULE
	_local_irq_restore(flags);
	barrier(); /* no tail call: its caller is what the tracer shows */
#else
	TRACE(irq_enable, !irqs_off(flags), THIS_IP, CALLER, THIS_IP);
	irq_restore(flags);
#endif
}

#endif

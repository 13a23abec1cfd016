/*
 * Tracepoints: places in the kernel's functions that report to a static event of the tracer.
 *
 *	TRACE(sched_migrate_task, t, cpu);
 *
 * is one nop in text while the event is off: the arguments are not computed. While it is on, the
 * nop is a jump to code after the function's own, which computes the arguments and calls
 * *tracepoint_sched_migrate_task. kern/ftrace/events/static_event.c sets that pointer at boot and
 * patches the nop; static_events.c has the function, and its fields and text.
 *
 * So a room calls the tracer without knowing it. Context: any; the function masks interrupts.
 * A tracepoint exists only in the finished kernel: TRACE() is nothing in those of earlier labs.
 *
 * irq_disable and the three after it are no events: events/latency.c has their functions.
 */
#ifndef BASE_TRACEPOINT_H
#define BASE_TRACEPOINT_H

#include "types.h"

struct thread;

#define TRACEPOINTS(_)                                                                        \
	_(sched_switch, bool preempted, const struct thread *prev, const struct thread *next) \
	_(sched_waking, const struct thread *t)                                               \
	_(sched_wakeup, const struct thread *t)                                               \
	_(sched_wakeup_new, const struct thread *t)                                           \
	_(sched_migrate_task, const struct thread *t, int to)                                 \
	_(sched_process_fork, const struct thread *parent, const struct thread *child)        \
	_(sched_process_exit, const struct thread *t)                                         \
	_(irq_handler_entry, int irq, void (*handler)(void))                                  \
	_(irq_handler_exit, int irq, bool handled)                                            \
	_(ipi_entry, int ipi)                                                                 \
	_(ipi_exit, int ipi)                                                                  \
	_(timer_expire_entry, const void *timer, void (*function)(void), u64 deadline)        \
	_(timer_expire_exit, const void *timer)                                               \
	_(kmalloc, const void *call_site, const void *p, size_t wanted, size_t size)          \
	_(kfree, const void *call_site, const void *p)                                        \
	_(module_load, const char *name)                                                      \
	_(module_free, const char *name)                                                      \
	_(irq_disable, bool were_on, unsigned long ip, unsigned long parent,                  \
	  unsigned long place)                                                                \
	_(irq_enable, bool will_be_on, unsigned long ip, unsigned long parent,                \
	  unsigned long place)                                                                \
	_(preempt_disable, unsigned long ip, unsigned long parent)                            \
	_(preempt_enable, unsigned long ip, unsigned long parent)

#define TRACEPOINT_POINTER(name, ...) extern void (*tracepoint_##name)(__VA_ARGS__);
TRACEPOINTS(TRACEPOINT_POINTER)

/* A nop in text: the address to which it jumps while the event of @point is on. */
struct tracepoint_site {
	unsigned long ip, target;
	const void *point; /* &tracepoint_NAME */
};
bool tracepoint_is_site(unsigned long ip); /* no call site */

#if STAGE >= 8 && !defined(MODULE)
static __always_inline bool tracepoint_is_on(const void *point)
{
	asm goto("1:	nop\n"
		 ".pushsection .table.tracepoint_site, \"a\"\n"
		 "	.balign 8\n"
		 "	.quad 1b, %l[on], %0\n"
		 ".popsection" ::"i"(point)::on);
	return false;
on:
	return true;
}
#define TRACE(name, ...)                                                                      \
	do {                                                                                  \
		if (unlikely(tracepoint_is_on(&tracepoint_##name)))                           \
			tracepoint_##name(__VA_ARGS__);                                       \
	} while (0)
#else
#define TRACE(name, ...) ((void)0)
#endif

#endif

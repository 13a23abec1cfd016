/*
 * Interrupts: one handler for each number, IPIs as work bits, the clock.
 */
#ifndef SCHED_IRQ_H
#define SCHED_IRQ_H

#include "arch.h"

/* Handlers run with interrupts masked, in hardirq context. */
int request_irq(unsigned irq, void (*handler)(void));
/* irqchip.c calls these from trap entry, after irq_enter(). */
void handle_irq(unsigned irq);
void handle_ipi(void);
void handle_timer(void);

/* Called in each timer interrupt, before the scheduler: what later rooms do then. */
struct tick_hook {
	void (*fn)(void);
};
#define TICK_HOOK(f) TABLE_ENTRY(const struct tick_hook, tick_hook, f##_hook) = {f}

enum { IPI_RESCHEDULE, IPI_CALL, IPI_STOP };
void ipi_send(unsigned cpu_index, int what);
/* for panics: the other CPUs call park_cpu(); waits for them, but not for ever */
void ipi_stop_others(void);
void __noreturn park_cpu(void); /* wait forever, interrupts masked */

/*
 * The clock: nanoseconds since the counter started. It never goes back on one
 * CPU. No call site; any context. The product fits 128 bits:
 * ns = ((u128)(counter << 10) * clock_mult) >> 64.
 */
extern u64 clock_mult;
extern u64 clock_hz;
extern u64 boot_counter, prompt_counter; /* arch_counter() at head.S and before the first prompt */
void clock_init(const void *fdt);
static __always_inline u64 clock_ns(void)
{
	return ((unsigned __int128)(arch_counter() << 10) * clock_mult) >> 64;
}
static inline u64 ns_to_ticks(u64 ns)
{
	return ns / 1000000000 * clock_hz + ns % 1000000000 * clock_hz / 1000000000;
}
static inline u64 ticks_to_ns(u64 ticks)
{
	return ticks / clock_hz * 1000000000 + ticks % clock_hz * 1000000000 / clock_hz;
}

#endif

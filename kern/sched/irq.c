/*
 * Interrupts by number, interrupts between CPUs, and the clock.
 *
 * An IPI carries no message: the sender first sets a bit of the receiver's ipi_work,
 * and sends the IPI only if that bit was not set before. It does both with interrupts
 * masked. Otherwise stop_machine() could stop the sender between the two: it finds the
 * bit set, sends no IPI of its own, and waits for a receiver that gets none.
 */
#include "irq.h"
#include "cpu.h"
#include "errno.h"
#include "print.h"

#define MAX_HANDLERS 16
/* longer than a UART of 115200 baud takes for the longest line of console_write() */
#define PARK_NS 100000000

static struct {
	unsigned irq;
	void (*handler)(void);
} handlers[MAX_HANDLERS];
static unsigned handler_count;

u64 clock_hz, clock_mult;

int request_irq(unsigned irq, void (*handler)(void))
{
	if (handler_count == MAX_HANDLERS)
		return -ENOSPC;
	handlers[handler_count].irq = irq;
	handlers[handler_count].handler = handler;
	__atomic_store_n(&handler_count, handler_count + 1, __ATOMIC_RELEASE);
	irqchip_enable(irq);
	return 0;
}

void handle_irq(unsigned irq)
{
	static bool reported;

	for (unsigned i = 0; i < handler_count; i++) {
		if (handlers[i].irq == irq) {
			TRACE(irq_handler_entry, irq, handlers[i].handler);
			handlers[i].handler();
			TRACE(irq_handler_exit, irq, true);
			return;
		}
	}
	if (!reported)
		printk("Interrupt %u has no handler (reported only once).\n", irq);
	reported = true;
}

void handle_timer(void)
{
	TRACE(timer_expire_entry, &this_cpu()->timer, handle_timer, this_cpu()->timer);
	TABLE_FOR_EACH(const struct tick_hook, tick_hook, hook)
		hook->fn();
	watchdog_tick();
	sched_tick();
	TRACE(timer_expire_exit, &this_cpu()->timer);
}

unsigned long _local_irq_save(void)
{
	unsigned long flags = irq_save();

	TRACE(irq_disable, !irqs_off(flags), THIS_IP, CALLER, CALLER);
	return flags;
}

void _local_irq_restore(unsigned long flags)
{
	TRACE(irq_enable, !irqs_off(flags), THIS_IP, CALLER, CALLER);
	irq_restore(flags);
}

void ipi_send(unsigned cpu_index, int what)
{
	unsigned long flags = local_irq_save();
	u64 bit = 1ul << what;

	if (!(__atomic_fetch_or(&cpu_of(cpu_index)->ipi_work, bit, __ATOMIC_SEQ_CST) & bit) &&
	    irqchip_send_ipi(1ul << cpu_index))
		panic("the firmware refuses an IPI to CPU %u", cpu_index);
	local_irq_restore(flags);
}

static u32 parked; /* CPUs in park_cpu() */

notrace void park_cpu(void)
{
	irq_disable();
	__atomic_fetch_add(&parked, 1, __ATOMIC_RELEASE);
	for (;;)
		cpu_idle_wait();
}

/* IPI_RESCHEDULE needs no work here: the sender has set `resched`, which irq_exit() reads. */
void handle_ipi(void)
{
	u64 work = __atomic_exchange_n(&this_cpu()->ipi_work, 0, __ATOMIC_SEQ_CST);

	if (work & 1 << IPI_STOP)
		park_cpu();
	if (work & 1 << IPI_RESCHEDULE) {
		TRACE(ipi_entry, IPI_RESCHEDULE);
		TRACE(ipi_exit, IPI_RESCHEDULE);
	}
	if (work & 1 << IPI_CALL) {
		TRACE(ipi_entry, IPI_CALL);
		smp_run_calls();
		TRACE(ipi_exit, IPI_CALL);
	}
}

/* A CPU that prints a line parks after it: so the line is not printed among those of a panic. */
notrace void ipi_stop_others(void)
{
	unsigned long mask = other_cpus();
	u64 end = arch_counter() + ns_to_ticks(PARK_NS);
	u32 others = 0;

	for (unsigned i = 0; i < NR_CPUS; i++) {
		if (!(mask >> i & 1))
			continue;
		__atomic_fetch_or(&cpu_of(i)->ipi_work, 1 << IPI_STOP, __ATOMIC_SEQ_CST);
		others++;
	}
	if (mask)
		irqchip_send_ipi(mask); /* if it is refused, they run on */
	while (__atomic_load_n(&parked, __ATOMIC_ACQUIRE) < others && arch_counter() < end)
		cpu_relax();
}

/*
 * clock_mult = 2^54 * 10^9 / hz, divided in two steps (34 bits, then 20): there is no 128-bit
 * division.
 */
void clock_init(const void *fdt)
{
	u64 first = 1000000000ul << 34;

	clock_hz = timer_frequency(fdt);
	if (clock_hz < 1000000)
		panic("a timer of %lu Hz is too slow: 1 MHz is the least", (unsigned long)clock_hz);
	clock_mult = (first / clock_hz << 20) + (first % clock_hz << 20) / clock_hz;
}

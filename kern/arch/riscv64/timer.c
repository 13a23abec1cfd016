/*
 * The per-CPU timer, riscv64: one compare register for each hart, set through
 * SBI. The interrupt is pending while the time is past the deadline; setting a
 * new deadline clears it.
 */
#include "fdt.h"
#include "irq.h"
#include "print.h"

u64 timer_frequency(const void *fdt)
{
	u32 hz = 0;

	if (fdt_u32(fdt, fdt_path(fdt, "/cpus"), "timebase-frequency", &hz) || !hz)
		panic("The device tree has no /cpus/timebase-frequency: time cannot be measured");
	return hz;
}

void timer_init_cpu(void)
{
	timer_set(TIMER_NEVER);
}

/*
 * The timer cannot be disarmed. TIMER_NEVER masks its interrupt and sets it to
 * many hours from now. With a deadline in the past, or with the largest number,
 * QEMU -icount uses a whole host CPU while the guest is idle.
 */
#define TIMER_FAR (1ull << 40) /* ticks */

void timer_set(u64 deadline)
{
	if (deadline == TIMER_NEVER) {
		csr_clear(sie, SIE_TIMER);
		deadline = arch_counter() + TIMER_FAR;
	} else {
		csr_set(sie, SIE_TIMER);
	}
	sbi_call(SBI_TIME, 0, deadline, 0, 0, 0);
}

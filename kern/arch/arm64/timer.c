/*
 * The per-CPU timer, arm64: the generic timer's virtual timer, also when the
 * kernel was entered at EL2 (head.S sets its offset to 0). The interrupt is
 * pending while the counter is past the deadline.
 */
#include "fdt.h"
#include "irq.h"
#include "print.h"

#define CTL_ENABLE 1
#define VIRTUAL_TIMER 2 /* index in `interrupts`: secure, physical, virtual, hypervisor */
#define PPI_BASE 16

unsigned timer_irq;

u64 timer_frequency(const void *fdt)
{
	static const char *const names[] = {"arm,armv8-timer", "arm,armv7-timer", NULL};
	u32 hz = sysreg_read(cntfrq_el0);
	int node = fdt_find_device(fdt, names);
	u32 cell[3];
	int controller = fdt_interrupt(fdt, node, VIRTUAL_TIMER, cell);

	if (controller < 0)
		panic("The device tree has no arm,armv8-timer: time cannot be measured");
	timer_irq = fdt_compatible(fdt, controller, "brcm,bcm2836-l1-intc") ? cell[0]
									    : cell[1] + PPI_BASE;
	fdt_u32(fdt, node, "clock-frequency", &hz);
	if (!hz)
		panic("Neither cntfrq_el0 nor the device tree has the timer's frequency");
	return hz;
}

void timer_init_cpu(void)
{
	sysreg_write(cntv_ctl_el0, 0);
	irqchip_enable(timer_irq);
}

/* TIMER_NEVER turns the timer off: the largest value would be a deadline too (riscv64/timer.c). */
void timer_set(u64 deadline)
{
	sysreg_write(cntv_cval_el0, deadline);
	sysreg_write(cntv_ctl_el0, deadline == TIMER_NEVER ? 0 : CTL_ENABLE);
	isb();
}

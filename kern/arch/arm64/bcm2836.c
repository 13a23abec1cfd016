/*
 * The two interrupt controllers of the BCM2836 and BCM2837 (Raspberry Pi 2 and 3):
 * the cores' own (BCM2836 ARM-local peripherals, QA7 rev 3.4, chapter 4), and the
 * devices' (BCM2835 ARM Peripherals), which is one source of the first.
 * There is no GIC. Numbers: 0-31 are a core's sources, 32 and on the devices'.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"

#define DEVICE_BASE 32
#define DEVICES 64

#define DEVICE_ROUTE 0x0c /* the core that handles devices: bits 1:0 */
#define TIMER_CONTROL(core) (0x40 + 4 * (core))
#define MAILBOX_CONTROL(core) (0x50 + 4 * (core))
#define SOURCE(core) (0x60 + 4 * (core))
#define MAILBOX_SET(core) (0x80 + 16 * (core))
#define MAILBOX_CLEAR(core) (0xc0 + 16 * (core))
#define SOURCE_MAILBOX (1 << 4) /* mailbox 0, for IPIs */
#define SOURCE_DEVICE (1 << 8)

/* Of the devices' controller, for 32 devices each. */
#define PENDING(bank) (0x04 + 4 * (bank))
#define ENABLE(bank) (0x10 + 4 * (bank))
#define DISABLE(bank) (0x1c + 4 * (bank))

static char *local, *devices; /* devices: NULL if the device tree has none */
static int local_node, devices_node;

static char *find(const void *fdt, const char *compatible, int *node)
{
	*node = fdt_find_device(fdt, (const char *const[]){compatible, NULL});
	return fdt_iomap(fdt, *node, 0);
}

static notrace unsigned core_of(const struct cpu *cpu)
{
	return cpu->hwid & 3;
}

int bcm2836_init(const void *fdt)
{
	local = find(fdt, "brcm,bcm2836-l1-intc", &local_node);
	if (!local)
		return -ENODEV;
	devices = find(fdt, "brcm,bcm2836-armctrl-ic", &devices_node);
	for (unsigned bank = 0; devices && bank < DEVICES / 32; bank++)
		write32(~0u, devices + DISABLE(bank));
	write32(core_of(this_cpu()), local + DEVICE_ROUTE);
	return 0;
}

void bcm2836_init_cpu(void)
{
	unsigned core = core_of(this_cpu());

	write32(0, local + TIMER_CONTROL(core));
	write32(~0u, local + MAILBOX_CLEAR(core));
	write32(1, local + MAILBOX_CONTROL(core));
}

/*
 * <number flags> of the cores' controller, <bank number> of the devices'; bank 0 has no device that
 * Callsite knows.
 */
int bcm2836_map(int controller, const u32 cell[3], unsigned *irq)
{
	if (!devices || controller != devices_node || !cell[0] || cell[0] > DEVICES / 32 ||
	    cell[1] > 31)
		return -ENODEV;
	*irq = DEVICE_BASE + 32 * (cell[0] - 1) + cell[1];
	return 0;
}

void bcm2836_enable(unsigned irq)
{
	unsigned core = core_of(this_cpu());

	if (irq < DEVICE_BASE)
		write32(read32(local + TIMER_CONTROL(core)) | 1u << irq,
			local + TIMER_CONTROL(core));
	else
		write32(1u << irq % 32, devices + ENABLE(irq / 32 - 1));
}

static void handle_devices(void)
{
	for (unsigned bank = 0; devices && bank < DEVICES / 32; bank++) {
		u32 pending = read32(devices + PENDING(bank));

		if (pending)
			handle_irq(DEVICE_BASE + 32 * bank + __builtin_ctz(pending));
	}
}

/*
 * The read makes sure that the mailbox is cleared before handle_ipi() looks for work. So a later
 * IPI is a new interrupt.
 */
void bcm2836_handle(void)
{
	unsigned core = core_of(this_cpu());
	u32 source;

	while ((source = read32(local + SOURCE(core)) &
			 (SOURCE_MAILBOX | SOURCE_DEVICE | 1u << timer_irq))) {
		if (source & SOURCE_MAILBOX) {
			write32(~0u, local + MAILBOX_CLEAR(core));
			read32(local + SOURCE(core));
			handle_ipi();
		} else if (source & SOURCE_DEVICE) {
			handle_devices();
		} else {
			sysreg_write(cntv_ctl_el0, 0);
			isb();
			handle_timer();
		}
	}
}

notrace void bcm2836_send_ipi(unsigned long mask)
{
	for (; mask; mask &= mask - 1)
		write32(1, local + MAILBOX_SET(core_of(cpu_of(__builtin_ctzl(mask)))));
}

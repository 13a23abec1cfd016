/*
 * The firmware, riscv64: what SBI is asked for (firmware_call.c), to start harts, to end the
 * machine, and to synchronise the other harts after text changed.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

#define SBI_PUTCHAR 1
#define SBI_GETCHAR 2
#define SBI_BASE 0x10
#define BASE_PROBE 3
#define HSM_START 0
#define RFENCE_FENCE_I 0
#define RESET_SHUTDOWN 0
#define RESET_COLD_REBOOT 1
#define RESET_WARM_REBOOT 2 /* more likely to keep memory, for last_boot= */
#define RESET_NO_REASON 0
#define RESET_SYSTEM_FAILURE 1

static bool sbi_has(unsigned long ext)
{
	return sbi_call(SBI_BASE, BASE_PROBE, ext, 0, 0, 0).value != 0;
}

/* The legacy console: each of its functions is an extension, and returns its value as the error. */
bool firmware_has_console(void)
{
	return sbi_has(SBI_PUTCHAR) && sbi_has(SBI_GETCHAR);
}

notrace void firmware_putchar(u8 c)
{
	sbi_call(SBI_PUTCHAR, 0, c, 0, 0, 0);
}

notrace int firmware_getchar(void)
{
	long c = sbi_call(SBI_GETCHAR, 0, 0, 0, 0, 0).error;

	return c < 0 ? -1 : (int)c;
}

static bool only_one; /* an extension that several CPUs need is missing */

void firmware_init(const void *fdt)
{
	static const struct {
		unsigned long ext;
		const char *name, *without;
		bool for_several;
	} wanted[] = {
		{SBI_TIME, "TIME", "there is no timer"},
		{SBI_IPI, "IPI", "only one CPU is used", true},
		{SBI_RFENCE, "RFENCE", "only one CPU is used", true},
		{SBI_HSM, "HSM", "only one CPU is used", true},
		{SBI_RESET, "SRST", "the machine cannot be turned off"},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (sbi_has(wanted[i].ext))
			continue;
		printk("The firmware has no SBI %s: %s.\n", wanted[i].name, wanted[i].without);
		only_one |= wanted[i].for_several;
	}
}

int firmware_cpu_start(struct cpu *cpu, unsigned long entry)
{
	struct sbi_result r;

	if (only_one)
		return -ENODEV;
	r = sbi_call(SBI_HSM, HSM_START, cpu->hwid, entry, image_to_pa(cpu), 0);
	return r.error ? -ENODEV : 0;
}

notrace void firmware_poweroff(bool failure)
{
	if (failure) {
		sbi_call(SBI_RESET, 0, RESET_WARM_REBOOT, RESET_SYSTEM_FAILURE, 0, 0);
		sbi_call(SBI_RESET, 0, RESET_COLD_REBOOT, RESET_SYSTEM_FAILURE, 0, 0);
	}
	sbi_call(SBI_RESET, 0, RESET_SHUTDOWN, RESET_NO_REASON, 0, 0);
	printk("The machine cannot be turned off: it is halted.\n");
	ipi_stop_others();
	park_cpu();
}

notrace void arch_sync_all(void)
{
	unsigned long flags = irq_save();

	sbi_fence_others(RFENCE_FENCE_I);
	__asm__ volatile("fence.i" : : : "memory");
	irq_restore(flags);
}

/*
 * The firmware, riscv64: SBI calls (RISC-V Supervisor Binary Interface
 * Specification 1.0), to start harts, to end the machine, and to synchronise
 * the other harts after page tables or text changed.
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
#define RFENCE_SFENCE_VMA 1
#define RESET_SHUTDOWN 0
#define RESET_COLD_REBOOT 1
#define RESET_WARM_REBOOT 2 /* more likely to keep memory, for last_boot= */
#define RESET_NO_REASON 0
#define RESET_SYSTEM_FAILURE 1

notrace struct sbi_result sbi_call(unsigned long ext, unsigned long fid, unsigned long arg0,
				   unsigned long arg1, unsigned long arg2, unsigned long arg3)
{
	register unsigned long a0 __asm__("a0") = arg0;
	register unsigned long a1 __asm__("a1") = arg1;
	register unsigned long a2 __asm__("a2") = arg2;
	register unsigned long a3 __asm__("a3") = arg3;
	register unsigned long a6 __asm__("a6") = fid;
	register unsigned long a7 __asm__("a7") = ext;

	__asm__ volatile("ecall" : "+r"(a0), "+r"(a1) : "r"(a2), "r"(a3), "r"(a6), "r"(a7) : "memory");
	return (struct sbi_result){(long)a0, a1};
}

static notrace u64 lowest_hart(unsigned long mask)
{
	u64 lowest = ~0ul;

	for (unsigned i = 0; i < NR_CPUS; i++)
		if (mask >> i & 1 && cpus[i].hwid < lowest)
			lowest = cpus[i].hwid;
	return lowest;
}

/*
 * SBI takes a mask of 64 harts from a base id on: sparse ids need several calls.
 * The base is the id of a hart that we run on, because OpenSBI 1.4 and 1.5 refuse
 * any other base, such as 0 when hart 0 is disabled.
 *
 * Return: 0, or the last SBI error.
 */
notrace long sbi_call_harts(unsigned long ext, unsigned long fid, unsigned long mask)
{
	long error = 0;

	while (mask) {
		u64 base = lowest_hart(mask);
		unsigned long harts = 0;

		for (unsigned i = 0; i < NR_CPUS; i++) {
			if (!(mask >> i & 1) || cpus[i].hwid - base >= 64)
				continue;
			harts |= 1ul << (cpus[i].hwid - base);
			mask &= ~(1ul << i);
		}
		error = sbi_call(ext, fid, harts, base, 0, 0).error ?: error;
	}
	return error;
}

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

int firmware_cpu_start(struct cpu *cpu)
{
	struct sbi_result r;

	if (only_one)
		return -ENODEV;
	r = sbi_call(SBI_HSM, HSM_START, cpu->hwid, image_to_pa(secondary_start), image_to_pa(cpu), 0);
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

/* Make earlier stores visible, then let the other harts discard fetched instructions or translations. */
static notrace void fence_others(unsigned long fid)
{
	unsigned long mask = other_cpus();

	io_mb();
	if (mask && sbi_call_harts(SBI_RFENCE, fid, mask))
		panic("the firmware refuses a fence on other CPUs");
}

notrace void arch_sync_all(void)
{
	unsigned long flags = irq_save();

	fence_others(RFENCE_FENCE_I);
	__asm__ volatile("fence.i" : : : "memory");
	irq_restore(flags);
}

notrace void arch_tlb_flush(void)
{
	__asm__ volatile("sfence.vma" : : : "memory");
}

notrace void arch_tlb_flush_all(void)
{
	unsigned long flags = irq_save();

	arch_tlb_flush();
	fence_others(RFENCE_SFENCE_VMA);
	irq_restore(flags);
}

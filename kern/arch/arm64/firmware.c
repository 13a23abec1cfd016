/*
 * The firmware, arm64: what PSCI is asked for (firmware_call.c), to start CPUs and to end the
 * machine; without PSCI, CPUs that wait for their entry's address in memory (spin-table).
 * Also the synchronisation of all CPUs after text changed, for which arm64 needs no
 * firmware: cache maintenance is broadcast, and an IPI is a context
 * synchronisation event.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"
#include "string.h"

#define PSCI_CPU_ON 0xc4000003
#define PSCI_SYSTEM_OFF 0x84000008
#define PSCI_SYSTEM_RESET 0x84000009

bool firmware_has_console(void)
{
	return false;
}

notrace void firmware_putchar(u8 c)
{
}

notrace int firmware_getchar(void)
{
	return -1;
}

/*
 * The CPU waits, with its caches off, for a nonzero word at cpu-release-addr
 * (Devicetree Specification 0.4, 3.8), and enters there.
 */
static int release_cpu(int node, unsigned long entry)
{
	int len;
	unsigned prot;
	unsigned long pa;
	const char *cells = fdt_prop(boot_fdt, node, "cpu-release-addr", &len);
	u64 *release;

	if (!cells || len != 8)
		return -EINVAL;
	release = phys_to_virt((u64)fdt_be32(cells) << 32 | fdt_be32(cells + 4));
	if (mmu_lookup((unsigned long)release, &pa, &prot))
		return -EFAULT;
	WRITE_ONCE(*release, entry);
	__asm__ volatile("dc civac, %0\n\tdsb sy\n\tsev" : : "r"(release) : "memory");
	return 0;
}

/* head.S finds @cpu by its hwid. */
int firmware_cpu_start(struct cpu *cpu, unsigned long entry)
{
	const char *method;
	u64 hwid = FDT_NO_HWID;
	int node = -1;

	do
		node = fdt_next_cpu(boot_fdt, node, &hwid);
	while (node >= 0 && hwid != cpu->hwid);
	method = fdt_string(boot_fdt, node, "enable-method");
	if (method && !strcmp(method, "spin-table"))
		return release_cpu(node, entry);
	return psci_call(PSCI_CPU_ON, cpu->hwid, entry, image_to_pa(cpu))
		       ? -ENODEV
		       : 0;
}

/*
 * A reset empties the caches: write back what the next boot is to find. The instruction reaches the
 * lines of all CPUs.
 */
static notrace void clean_last_boot(void)
{
	/* DminLine: the smallest line of a data cache, in words */
	unsigned long line = 4ul << (sysreg_read(ctr_el0) >> 16 & 15);

	for (unsigned long pa = last_boot_ram.start; pa < last_boot_ram.end; pa += line)
		__asm__ volatile("dc civac, %0" : : "r"(phys_to_virt(pa)) : "memory");
	dsb(sy);
}

notrace void firmware_poweroff(bool failure)
{
	if (failure) {
		clean_last_boot();
		psci_call(PSCI_SYSTEM_RESET, 0, 0, 0);
	}
	psci_call(PSCI_SYSTEM_OFF, 0, 0, 0);
	printk("The machine cannot be turned off: it is halted.\n");
	ipi_stop_others();
	park_cpu();
}

static notrace void synchronise_context(void *unused)
{
	isb();
}

void arch_sync_all(void)
{
	dsb(ish);
	isb();
	smp_call_others(synchronise_context, NULL);
}

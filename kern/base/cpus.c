/*
 * The table of CPUs, from the device tree. The first one runs the boot: its thread and its
 * stack are here, too.
 */
#include "current.h"
#include "fdt.h"
#include "layout.h"
#include "print.h"

unsigned long boot_hwid;
char boot_stack[THREAD_SIZE] __aligned(THREAD_SIZE);

struct thread boot_thread = {
	.comm = "swapper/0",
	.on_cpu = true,
	.stack = boot_stack,
};

struct cpu cpus[NR_CPUS] = {
	[0] = {
		.running = &boot_thread,
		.context_bit = 1,
		.online = true,
	},
};
unsigned nr_cpus = 1;

void cpus_init(const void *fdt)
{
	const char *only_one = "The device tree does not list the boot CPU";
	unsigned found = 0;
	u64 hwid;

	cpu_of(0)->hwid = boot_hwid;
	for (int node = -1; (node = fdt_next_cpu(fdt, node, &hwid)) >= 0; found++) {
		if (hwid == FDT_NO_HWID) {
			only_one = "The device tree has a CPU without an id (reg)";
			break;
		}
		if (hwid == boot_hwid) {
			only_one = NULL;
		} else if (nr_cpus < NR_CPUS) {
			cpu_of(nr_cpus)->index = nr_cpus;
			cpu_of(nr_cpus++)->hwid = hwid;
		}
	}
	if (only_one) {
		printk("%s: only the boot CPU (%lx) is used.\n", only_one, boot_hwid);
		nr_cpus = 1;
	} else if (found > NR_CPUS) {
		printk("The device tree has %u CPUs: Callsite uses %u, the most that it "
		       "supports.\n",
		       found, NR_CPUS);
	}
}

notrace unsigned long other_cpus(void)
{
	unsigned long mask = 0;

	for (unsigned i = 0; i < NR_CPUS; i++)
		if (cpu_of(i)->online && cpu_of(i) != this_cpu())
			mask |= 1ul << i;
	return mask;
}

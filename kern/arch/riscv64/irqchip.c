/*
 * The PLIC (RISC-V Platform-Level Interrupt Controller Specification): one
 * priority for each source; for each context an enable bit for each source, and
 * a claim register. The device tree says which context is a hart's S-mode: the
 * n-th pair of interrupts-extended is context n. Without a PLIC: aia.c.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

#define PRIORITY(irq) (4 * (irq))
#define ENABLE(context, irq) (0x2000 + 0x80 * (context) + 4 * ((irq) / 32))
#define THRESHOLD(context) (0x200000 + 0x1000 * (context))
#define CLAIM(context) (THRESHOLD(context) + 4)
#define S_EXTERNAL 9

static char *plic; /* NULL: aia.c has the interrupt controller */
static int plic_node, hart_list; /* hart_list: the node whose interrupts-extended lists the harts */
static u32 source_count;
static int cpu_context[NR_CPUS];

int irqchip_init(const void *fdt)
{
	static const char *const names[] = {"sifive,plic-1.0.0", "riscv,plic0", "thead,c900-plic",
					    NULL};

	hart_list = plic_node = fdt_find_device(fdt, names);
	if (plic_node < 0)
		return aia_init(fdt, &hart_list);
	fdt_u32(fdt, plic_node, "riscv,ndev", &source_count);
	source_count = MIN(source_count, 1023); /* the most that there can be */
	plic = fdt_iomap(fdt, plic_node, 0);
	if (!plic)
		return -ENODEV;
	for (u32 irq = 1; irq <= source_count; irq++)
		write32(0, plic + PRIORITY(irq));
	return 0;
}

/* The hart whose interrupt controller has @phandle: its parent is the CPU's node. */
static u64 hart_of(const void *fdt, u32 phandle)
{
	u64 hwid, unused;
	int cpu = fdt_parent(fdt, fdt_by_phandle(fdt, phandle));

	return fdt_reg(fdt, cpu, 0, &hwid, &unused) ? FDT_NO_HWID : hwid;
}

int plic_context(const void *fdt, int node, u64 hwid)
{
	int len = 0;
	const char *pairs = fdt_prop(fdt, node, "interrupts-extended", &len);

	for (int i = 0; pairs && i < len / 8; i++)
		if (fdt_be32(pairs + 8 * i + 4) == S_EXTERNAL &&
		    hart_of(fdt, fdt_be32(pairs + 8 * i)) == hwid)
			return i;
	return -ENOENT;
}

void irqchip_init_cpu(void)
{
	struct cpu *cpu = this_cpu();
	int context;

	context = plic_context(boot_fdt, hart_list, cpu->hwid);
	cpu_context[cpu->index] = context;
	if (context < 0) {
		printk("The interrupt controller has no S-mode context for hart %lu.\n",
		       cpu->hwid);
		return;
	}
	if (!plic) {
		aia_init_cpu(context);
		return;
	}
	for (u32 irq = 0; irq <= source_count; irq += 32)
		write32(0, plic + ENABLE(context, irq));
	write32(0, plic + THRESHOLD(context));
}

int irqchip_map(const void *fdt, int node, unsigned *irq)
{
	u32 cell[3];
	int controller = fdt_interrupt(fdt, node, 0, cell);

	if (controller < 0)
		return controller;
	if (!plic)
		return aia_map(controller, cell, irq);
	if (controller != plic_node)
		return -ENODEV;
	*irq = cell[0];
	return 0;
}

/* A source is routed to the calling CPU. */
void irqchip_enable(unsigned irq)
{
	int context = cpu_context[this_cpu()->index];
	char *enable;

	if (context < 0)
		return;
	if (!plic) {
		aia_enable(irq, context);
		return;
	}
	if (irq > source_count)
		return;
	enable = plic + ENABLE(context, irq);
	write32(1, plic + PRIORITY(irq));
	write32(read32(enable) | 1u << irq % 32, enable);
}

void handle_external(void)
{
	int context = cpu_context[this_cpu()->index];
	u32 irq;

	if (!plic) {
		aia_handle(context);
		return;
	}
	while ((irq = read32(plic + CLAIM(context)))) {
		handle_irq(irq);
		write32(irq, plic + CLAIM(context));
	}
}

int irqchip_send_ipi(unsigned long mask)
{
	io_mb();
	return sbi_call_harts(SBI_IPI, 0, mask) ? -EIO : 0;
}

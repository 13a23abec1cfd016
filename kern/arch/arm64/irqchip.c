/*
 * The GIC, versions 2 and 3 (Arm IHI 0048, IHI 0069). Numbers: 0-15 are
 * interrupts between CPUs (SGI; we use one), 16-31 each CPU's own (PPI; we use
 * the timer's), from 32 on the devices' (SPI; all go to the boot CPU).
 *
 * The distributor routes interrupts to CPUs. In version 2 each CPU has a CPU
 * interface; in version 3 a redistributor, found by the CPU's affinity, and
 * system registers.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

#define SGI_IPI 0
#define PPI_BASE 16
#define SPI_BASE 32
#define IRQ_NONE 1020 /* this number or a larger one: no interrupt is pending */
#define PRIORITY 0xa0
#define PRIORITY_MASK 0xf0

/* Distributor; SGI_FRAME of a redistributor has the same layout for 0-31. */
#define D_CTLR 0x0
#define D_CTLR_ENABLE 1
#define D_CTLR_V3 0x13 /* affinity routing, group 1 in either security state's view */
#define D_CTLR_PENDING (1u << 31)
#define D_TYPER 0x4
#define D_GROUP(irq) (0x80 + (irq) / 32 * 4)
#define D_ENABLE(irq) (0x100 + (irq) / 32 * 4)
#define D_DISABLE(irq) (0x180 + (irq) / 32 * 4)
#define D_PRIORITY(irq) (0x400 + (irq))
#define D_TARGET(irq) (0x800 + (irq))
#define D_CONFIG(irq) (0xc00 + (irq) / 16 * 4)
#define D_SGI 0xf00
#define D_ROUTE(irq) (0x6000 + 8 * (irq))

/* Version 2's CPU interface. */
#define C_CTLR 0x0
#define C_PRIORITY_MASK 0x4
#define C_ACKNOWLEDGE 0xc
#define C_END 0x10

/* Version 3's redistributor: two frames of 64 KiB, four where virtual LPIs exist. */
#define R_TYPER 0x8
#define R_TYPER_VLPI 2
#define R_TYPER_LAST 16
#define R_WAKER 0x14
#define R_WAKER_SLEEP 2
#define R_WAKER_ASLEEP 4
#define R_SGI_FRAME 0x10000
#define R_FRAME 0x20000

/* ICC_* system registers, by numbers: older assemblers do not know the names. */
#define ICC_PMR_EL1 S3_0_C4_C6_0
#define ICC_SGI1R_EL1 S3_0_C12_C11_5
#define ICC_IAR1_EL1 S3_0_C12_C12_0
#define ICC_EOIR1_EL1 S3_0_C12_C12_1
#define ICC_BPR1_EL1 S3_0_C12_C12_3
#define ICC_CTLR_EL1 S3_0_C12_C12_4
#define ICC_SRE_EL1 S3_0_C12_C12_5
#define ICC_IGRPEN1_EL1 S3_0_C12_C12_7

#define NO_GIC 0 /* the version where bcm2836.c has the interrupt controller */

static int gic_node, version;
static char *distributor, *cpu_interface;
static char *redistributor[NR_CPUS];
static u8 interface_bit[NR_CPUS]; /* version 2: which target each CPU is */

static void wait_for_distributor(void)
{
	while (version == 3 && read32(distributor + D_CTLR) & D_CTLR_PENDING)
		cpu_relax();
}

static void init_distributor(void)
{
	unsigned lines = 32 * ((read32(distributor + D_TYPER) & 31) + 1);

	write32(0, distributor + D_CTLR);
	wait_for_distributor();
	for (unsigned irq = SPI_BASE; irq < MIN(lines, IRQ_NONE); irq += 4) {
		write32(PRIORITY * 0x01010101u, distributor + D_PRIORITY(irq));
		write32(0, distributor + D_CONFIG(irq)); /* by level */
		write32(~0u, distributor + D_DISABLE(irq));
		if (version == 3)
			write32(~0u, distributor + D_GROUP(irq));
	}
	wait_for_distributor();
	write32(version == 3 ? D_CTLR_V3 : D_CTLR_ENABLE, distributor + D_CTLR);
	wait_for_distributor();
}

int irqchip_init(const void *fdt)
{
	static const char *const names[] = {"arm,gic-v3", "arm,cortex-a15-gic", "arm,gic-400",
					    "arm,cortex-a9-gic", NULL};

	gic_node = fdt_find_device(fdt, names);
	if (gic_node < 0) {
		version = NO_GIC;
		return bcm2836_init(fdt);
	}
	version = fdt_compatible(fdt, gic_node, "arm,gic-v3") ? 3 : 2;
	distributor = fdt_iomap(fdt, gic_node, 0);
	if (version == 2)
		cpu_interface = fdt_iomap(fdt, gic_node, 1);
	if (!distributor || (version == 2 && !cpu_interface)) {
		printk("The GIC's registers cannot be mapped.\n");
		return -ENODEV;
	}
	init_distributor();
	return 0;
}

/* Each redistributor region is mapped once, when the first CPU searches for its redistributor. */
static char *redistributor_region(unsigned index)
{
	static char *regions[NR_CPUS];

	if (!regions[index])
		regions[index] = fdt_iomap(boot_fdt, gic_node, 1 + index);
	return regions[index];
}

static char *find_redistributor(u64 hwid)
{
	u32 affinity = (hwid >> 8 & 0xff000000) | (hwid & 0xffffff), regions = 1;

	fdt_u32(boot_fdt, gic_node, "#redistributor-regions", &regions);
	for (unsigned i = 0; i < MIN(regions, NR_CPUS); i++) { /* at most one for each CPU */
		char *r = redistributor_region(i);
		u64 type;

		if (!r)
			continue;
		do {
			type = read64(r + R_TYPER);
			if (type >> 32 == affinity)
				return r;
			r += type & R_TYPER_VLPI ? 2 * R_FRAME : R_FRAME;
		} while (!(type & R_TYPER_LAST));
	}
	return NULL;
}

/*
 * Numbers 0-31 of the running CPU: @base is the distributor, or the redistributor's second frame.
 */
static void init_private(char *base)
{
	write32(~0u, base + D_DISABLE(0));
	for (unsigned irq = 0; irq < SPI_BASE; irq += 4)
		write32(PRIORITY * 0x01010101u, base + D_PRIORITY(irq));
	if (version == 3)
		write32(~0u, base + D_GROUP(0));
	write32(1u << SGI_IPI, base + D_ENABLE(0));
}

static void init_cpu_v2(struct cpu *cpu)
{
	/* Each CPU reads its own bit. With one CPU the register reads 0: the CPU is bit 0. */
	interface_bit[cpu->index] = read32(distributor + D_TARGET(0)) ?: 1;
	init_private(distributor);
	write32(PRIORITY_MASK, cpu_interface + C_PRIORITY_MASK);
	write32(1, cpu_interface + C_CTLR);
}

static void init_cpu_v3(struct cpu *cpu)
{
	char *r = find_redistributor(cpu->hwid);

	if (!r)
		panic("The GIC has no redistributor for CPU %lx", (unsigned long)cpu->hwid);
	redistributor[cpu->index] = r;
	write32(read32(r + R_WAKER) & ~R_WAKER_SLEEP, r + R_WAKER);
	while (read32(r + R_WAKER) & R_WAKER_ASLEEP)
		cpu_relax();
	init_private(r + R_SGI_FRAME);
	sysreg_write(ICC_SRE_EL1, sysreg_read(ICC_SRE_EL1) | ICC_SRE_SRE);
	isb();
	if (!(sysreg_read(ICC_SRE_EL1) & ICC_SRE_SRE))
		panic("EL1 cannot access the GIC's system registers");
	sysreg_write(ICC_PMR_EL1, PRIORITY_MASK);
	sysreg_write(ICC_BPR1_EL1, 0);
	sysreg_write(ICC_CTLR_EL1, 0);
	sysreg_write(ICC_IGRPEN1_EL1, 1);
	isb();
}

void irqchip_init_cpu(void)
{
	if (version == NO_GIC)
		bcm2836_init_cpu();
	else if (version == 3)
		init_cpu_v3(this_cpu());
	else
		init_cpu_v2(this_cpu());
}

/* <type number flags>: type 0 is an SPI, 1 a PPI. */
int irqchip_map(const void *fdt, int node, unsigned *irq)
{
	u32 cell[3];
	int controller = fdt_interrupt(fdt, node, 0, cell);

	if (controller < 0)
		return controller;
	if (version == NO_GIC)
		return bcm2836_map(controller, cell, irq);
	if (controller != gic_node)
		return -ENODEV;
	*irq = cell[1] + (cell[0] ? PPI_BASE : SPI_BASE);
	return 0;
}

/* A device's interrupt is routed to the calling CPU; 0-31 are enabled on the calling CPU. */
void irqchip_enable(unsigned irq)
{
	struct cpu *cpu = this_cpu();
	char *base = distributor;

	if (version == NO_GIC) {
		bcm2836_enable(irq);
		return;
	}
	if (irq < SPI_BASE && version == 3)
		base = redistributor[cpu->index] + R_SGI_FRAME;
	else if (version == 3)
		write64(cpu->hwid, distributor + D_ROUTE(irq));
	else if (irq >= SPI_BASE)
		write8(interface_bit[cpu->index], distributor + D_TARGET(irq));
	write32(1u << irq % 32, base + D_ENABLE(irq));
}

/* The dsb completes the acknowledgement before the handler runs. */
static u32 acknowledge(void)
{
	u32 ack;

	if (version == 2)
		return read32(cpu_interface + C_ACKNOWLEDGE);
	ack = sysreg_read(ICC_IAR1_EL1);
	dsb(sy);
	return ack;
}

static void end_of_interrupt(u32 ack)
{
	if (version == 2) {
		write32(ack, cpu_interface + C_END);
	} else {
		sysreg_write(ICC_EOIR1_EL1, ack);
		isb();
	}
}

/*
 * An IPI is ended before its handler runs: an IPI that arrives meanwhile is a
 * new interrupt. The timer is stopped before its handler, which may set it again.
 */
void handle_external(void)
{
	if (version == NO_GIC) {
		bcm2836_handle();
		return;
	}
	for (;;) {
		u32 ack = acknowledge(), irq = ack & 0x3ff;

		if (irq >= IRQ_NONE)
			return;
		if (irq == SGI_IPI) {
			end_of_interrupt(ack);
			handle_ipi();
			continue;
		}
		if (irq == timer_irq) {
			sysreg_write(cntv_ctl_el0, 0);
			isb();
			handle_timer();
		} else {
			handle_irq(irq);
		}
		end_of_interrupt(ack);
	}
}

static void send_ipi_v3(u64 hwid)
{
	u64 target = 1ul << (hwid & 15) | (hwid >> 4 & 15) << 44;

	target |= (hwid >> 8 & 255) << 16 | (hwid >> 16 & 255) << 32 | (hwid >> 32 & 255) << 48;
	sysreg_write(ICC_SGI1R_EL1, target | SGI_IPI << 24);
}

notrace int irqchip_send_ipi(unsigned long mask)
{
	u32 targets = 0;

	io_mb();
	if (version == NO_GIC) {
		bcm2836_send_ipi(mask);
		return 0;
	}
	for (; mask; mask &= mask - 1) {
		struct cpu *cpu = cpu_of(__builtin_ctzl(mask));

		if (version == 3)
			send_ipi_v3(cpu->hwid);
		targets |= interface_bit[cpu->index];
	}
	if (version == 2)
		write32(targets << 16 | SGI_IPI, distributor + D_SGI);
	else
		isb();
	return 0;
}

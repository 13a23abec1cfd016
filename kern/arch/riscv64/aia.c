/*
 * The Advanced Interrupt Architecture (RISC-V AIA 1.0): the APLIC
 * collects the devices' interrupts. It delivers them to a hart itself, or as
 * messages to the hart's IMSIC, which is read through CSRs. A machine
 * has one APLIC for each privilege mode; ours leads to S-mode's external interrupt.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"

#define DOMAINCFG 0x0
#define DOMAINCFG_ENABLE (1 << 8)
#define DOMAINCFG_MESSAGES (1 << 2)
#define SOURCECFG(irq) (4 * (irq))
enum { SOURCE_OFF, SOURCE_RISING = 4, SOURCE_FALLING, SOURCE_HIGH, SOURCE_LOW };
#define SETIPNUM 0x1cdc
#define SETIENUM 0x1edc
#define CLRIE(word) (0x1f00 + 4 * (word))
#define TARGET(irq) (0x3000 + 4 * (irq))
#define TARGET_HART(index) ((index) << 18)
#define TARGET_PRIORITY 1
/* For each hart, when the APLIC delivers itself. */
#define DELIVERY(index) (0x4000 + 32 * (index))
#define THRESHOLD(index) (0x4008 + 32 * (index))
#define CLAIM(index) (0x401c + 32 * (index))

/*
 * The IMSIC's registers: siselect names one, sireg accesses it. Each EIE register enables 64
 * numbers; on RV64 only the even ones exist.
 */
enum { IMSIC_DELIVERY = 0x70, IMSIC_THRESHOLD = 0x72, IMSIC_EIE = 0xc0 };

static char *aplic;
static int aplic_node;
static u32 source_count;
static bool messages;

static int find_node(const void *fdt, int *hart_list)
{
	u32 phandle;
	int n = -1;

	while ((n = fdt_find_compatible(fdt, n, "riscv,aplic")) >= 0) {
		*hart_list =
			fdt_u32(fdt, n, "msi-parent", &phandle) ? n : fdt_by_phandle(fdt, phandle);
		if (fdt_available(fdt, n) && plic_context(fdt, *hart_list, boot_hwid) >= 0)
			break;
	}
	return n;
}

int aia_init(const void *fdt, int *hart_list)
{
	aplic_node = find_node(fdt, hart_list);
	aplic = fdt_iomap(fdt, aplic_node, 0);
	if (!aplic)
		return -ENODEV;
	messages = *hart_list != aplic_node;
	fdt_u32(fdt, aplic_node, "riscv,num-sources", &source_count);
	source_count = MIN(source_count, 1023); /* the most that there can be */
	for (u32 irq = 1; irq <= source_count; irq++)
		write32(SOURCE_OFF, aplic + SOURCECFG(irq));
	for (u32 word = 0; word <= source_count / 32; word++)
		write32(~0u, aplic + CLRIE(word));
	write32(DOMAINCFG_ENABLE | (messages ? DOMAINCFG_MESSAGES : 0), aplic + DOMAINCFG);
	return 0;
}

static unsigned long imsic_read(unsigned long reg)
{
	csr_write(0x150, reg); /* siselect */
	/* cppcheck-suppress uninitvar */
	return csr_read(0x151); /* sireg */
}

static void imsic_write(unsigned long reg, unsigned long value)
{
	csr_write(0x150, reg);
	csr_write(0x151, value);
}

void aia_init_cpu(int index)
{
	if (messages) {
		imsic_write(IMSIC_DELIVERY, 1);
		imsic_write(IMSIC_THRESHOLD, 0);
	} else {
		write32(0, aplic + THRESHOLD(index));
		write32(1, aplic + DELIVERY(index));
	}
}

/* <number flags>; flags are those of the device tree's interrupt types. */
int aia_map(int controller, const u32 cell[3], unsigned *irq)
{
	static const u8 modes[] = {
		[1] = SOURCE_RISING, [2] = SOURCE_FALLING, [4] = SOURCE_HIGH, [8] = SOURCE_LOW};

	if (controller != aplic_node)
		return -ENODEV;
	if (!cell[0] || cell[0] > source_count || cell[1] >= ARRAY_SIZE(modes) || !modes[cell[1]])
		return -EINVAL;
	*irq = cell[0];
	write32(modes[cell[1]], aplic + SOURCECFG(*irq));
	return 0;
}

/* In a message the source's number is the interrupt's identity. */
void aia_enable(unsigned irq, int index)
{
	unsigned reg = IMSIC_EIE + irq / 64 * 2;

	if (messages)
		imsic_write(reg, imsic_read(reg) | 1ul << irq % 64);
	write32(TARGET_HART(index) | (messages ? irq : TARGET_PRIORITY), aplic + TARGET(irq));
	write32(irq, aplic + SETIENUM);
}

/* Reading the number claims the interrupt. */
static u32 claim(int index)
{
	unsigned long top;

	if (!messages)
		return read32(aplic + CLAIM(index)) >> 16;
	__asm__ volatile("csrrw %0, 0x15c, zero" : "=r"(top) : : "memory"); /* stopei */
	/* cppcheck-suppress uninitvar */
	return top >> 16;
}

/* A message is sent once, so a level that is still active must be sent again. */
void aia_handle(int index)
{
	u32 irq;

	while ((irq = claim(index))) {
		handle_irq(irq);
		if (messages && read32(aplic + SOURCECFG(irq)) >= SOURCE_HIGH)
			write32(irq, aplic + SETIPNUM);
	}
}

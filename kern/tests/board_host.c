/*
 * Runs kernel_main() up to the first interrupt with a device tree, and notes the registers and
 * instructions that it would use.
 */
#include "board_host.h"

#include "console.h"
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"
#include "string.h"
#include "uart.h"

int setjmp(void *);
void longjmp(void *, int);

static unsigned long parked[64];
static u8 low_memory[PAGE_SIZE];
static struct cpu *running;
static struct decisions *now;
static char insn[8];
static u64 last_write, released, ioremapped[4];
static unsigned ioremaps;
static int last_bytes;

u64 clock_hz, clock_mult;

int host_insn(const char *text)
{
	/* what was written for a CPU without caches */
	static const char cleans[] = "\"dc civac, %0\\n\\tdsb sy\\n\\tsev\"";
	static const char cleans_line[] = "\"dc civac, %0\" ";

	if (!strncmp(text, "\"smc", 4) || !strncmp(text, "\"hvc", 4))
		memcpy(insn, text + 1, 3);
	now->cleaned += !insn[0] && !strncmp(text, cleans_line, strlen(cleans_line));
	if (!strncmp(text, cleans, strlen(cleans)) && *(u64 *)(low_memory + released % PAGE_SIZE))
		strlcpy(insn, "civac", sizeof(insn));
	return 0;
}
unsigned long host_register(const char *name)
{
	if (!strcmp(name, "ctr_el0"))
		return 0x84448004; /* a Cortex-A53's: lines of 64 bytes */
	return strcmp(name, "cntfrq_el0") ? 0 : 54000000;
}
u8 host_read8(const volatile void *addr)
{
	return 0;
}
u32 host_read32(const volatile void *addr)
{
	return 0;
}
void host_write(u32 value, volatile void *addr, int bytes)
{
	last_write = (unsigned long)addr;
	last_bytes = bytes;
}
void *fdt_iomap(const void *fdt, int node, int index)
{
	u64 pa, size;

	if (fdt_reg(fdt, node, index, &pa, &size))
		return NULL;
	if (ioremaps < ARRAY_SIZE(ioremapped))
		ioremapped[ioremaps++] = pa;
	return (void *)pa;
}
struct sbi_result sbi_call(unsigned long ext, unsigned long fid, unsigned long a0, unsigned long a1,
			   unsigned long a2, unsigned long a3)
{
	return (struct sbi_result){0};
}
long sbi_call_harts(unsigned long ext, unsigned long fid, unsigned long mask)
{
	return 0;
}
struct cpu *this_cpu(void)
{
	return running;
}
struct thread *get_current(void)
{
	return &boot_thread;
}
void watchdog_touch(void)
{
}

void printk_to(void (*write)(const char *s, size_t n))
{
}
void console_input(void)
{
}
int request_irq(unsigned irq, void (*handler)(void))
{
	now->uart_irq = irq;
	return 0;
}
/* What firmware's spin tables are in; other memory is not touched. */
void *phys_to_virt(unsigned long pa)
{
	released = pa;
	return low_memory + pa % PAGE_SIZE;
}
int mmu_lookup(unsigned long va, unsigned long *pa, unsigned *prot)
{
	for (unsigned i = 0; i < ram.count; i++)
		if (ram.range[i].start == 0)
			return 0;
	return -EFAULT;
}
void park_cpu(void)
{
	longjmp(parked, 1);
	__builtin_unreachable();
}
void panic(const char *fmt, ...)
{
	printk("panic: %s", fmt);
	longjmp(parked, 1);
	__builtin_unreachable();
}
void ipi_send(unsigned cpu_index, int what)
{
}
void ipi_stop_others(void)
{
	now->stops_others = true;
}
void handle_irq(unsigned irq)
{
}
void handle_ipi(void)
{
}
void handle_timer(void)
{
}
void preempt_disable(void)
{
}
void preempt_enable(void)
{
}

#ifdef BOARD_ARM64
static void firmware(const void *fdt)
{
	firmware_init(fdt);
	for (unsigned i = 0; i < nr_cpus; i++) {
		insn[0] = '\0';
		released = 0;
		if (i)
			firmware_cpu_start(cpu_of(i), kernel_pa);
		memcpy(now->starts[i], insn, sizeof(insn));
		now->release[i] = released;
	}
	insn[0] = '\0';
	last_boot_ram = (struct range){0x48000000, 0x48000000 + PAGE_SIZE};
	if (!setjmp(parked))
		firmware_poweroff(true);
	memcpy(now->resets, insn, sizeof(insn));
}
static void interrupts(const void *fdt)
{
	irqchip_init(fdt);
	irqchip_init_cpu();
	now->gic = ioremapped[0];
	now->gic_cpu = ioremapped[1];
	now->timer_irq = timer_irq;
}
#else
bool firmware_has_console(void)
{
	return false;
}
void firmware_putchar(u8 c)
{
}
int firmware_getchar(void)
{
	return -1;
}
int firmware_cpu_start(struct cpu *cpu, unsigned long entry)
{
	return -ENODEV;
}
static void firmware(const void *fdt)
{
}
static void interrupts(const void *fdt)
{
	irqchip_init(fdt);
	now->plic = ioremapped[0];
	now->sources = (last_write - now->plic) / 4; /* the last one's priority */
	for (unsigned i = 0; i < nr_cpus; i++) {
		running = cpu_of(i);
		irqchip_init_cpu(); /* writes the context's threshold last */
		now->context[i] = (last_write - now->plic - 0x200000) / 0x1000;
	}
	running = cpu_of(0);
}
#endif

static void console(const void *fdt)
{
	uart_init(fdt);
	now->uart = ioremapped[0];
	ioremaps = 0;
}

static void console_input_on(const void *fdt)
{
	if (!uart_present())
		return;
	uart_enable_input(fdt);
	now->uart_bytes = last_bytes;
	now->uart_last = last_write - now->uart;
}

void decide(const void *fdt, u64 hwid, struct decisions *d)
{
	*d = (struct decisions){0};
	now = d;
	boot_fdt = fdt;
	boot_hwid = hwid;
	ram.count = taken.count = ioremaps = 0;
	running = cpu_of(0);
	console(fdt);
	cpus_init(fdt);
	d->cpu_count = nr_cpus;
	for (unsigned i = 0; i < nr_cpus; i++)
		d->hwid[i] = cpu_of(i)->hwid;
	d->hz = timer_frequency(fdt);
	d->memory_error = memory_init(fdt);
	firmware(fdt);
	interrupts(fdt);
	console_input_on(fdt);
}

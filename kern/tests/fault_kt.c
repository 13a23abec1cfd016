/*
 * Mistakes that must end in a panic which names them: run_qemu.py makes each
 * and reads what the panic says.
 */
#include "cpu.h"
#include "irq.h"
#include "memory.h"
#include "print.h"
#include "shell.h"
#include "string.h"

#define __noipa __attribute__((noipa))

/* The compiler must not see where it points. */
static __noipa volatile u32 *at(const void *p)
{
	return (volatile u32 *)p;
}

static void write_text(void)
{
	*at(write_text) = 0;
}
/* W^X holds for the memory: its other address is read-only too. */
static void write_text_in_linear_map(void)
{
	*at(phys_to_virt(image_to_pa((void *)write_text))) = 0;
}
static void write_rodata(void)
{
	*at(_rodata) = 0;
}
static void read_null(void)
{
	(void)*at((void *)8);
}
static void read_unmapped(void)
{
	(void)*at((void *)(KERNEL_BASE - PAGE_SIZE));
}
static void execute_data(void)
{
	static u32 word;
	void (*fn)(void) = (void (*)(void))&word;

	fn();
}
/* All zeros is no instruction, on both architectures. */
static void illegal_instruction(void)
{
	__asm__ volatile(".word 0");
}
static void break_point(void)
{
#ifdef __riscv
	__asm__ volatile("ebreak");
#else
	__asm__ volatile("brk #0");
#endif
}

static __noipa u64 overflow_stack(u64 n)
{
	volatile u64 words[64];

	words[n % 64] = n;
	if (!n)
		return 0;
	return overflow_stack(n + 1) + words[n % 64];
}
static void stack_overflow(void)
{
	overflow_stack(1);
}

/*
 * Ways to recurse: alone, or two functions in turn. Small frames, of which a stack has room for
 * hundreds.
 */
static volatile u64 depth;
static void (*volatile at_depth)(void);
static __noipa u64 recurse(u64 n)
{
	if (!n)
		at_depth();
	return n ? recurse(n - 1) + depth : 0;
}
static u64 recurse_even(u64 n);
static __noipa u64 recurse_odd(u64 n)
{
	return recurse_even(n - 1) + depth;
}
static __noipa u64 recurse_even(u64 n)
{
	if (!n)
		at_depth();
	return n ? recurse_odd(n - 1) + depth : 0;
}
static void panic_now(void)
{
	panic("at depth");
}
static void sleep_now(void)
{
	sleep_ns(3600000000000);
}
static void deep_panic(void)
{
	at_depth = panic_now;
	recurse(300);
}
static void deep_panic_of_two(void)
{
	at_depth = panic_now;
	recurse_even(200);
}
static int deep_thread(void *unused)
{
	at_depth = sleep_now;
	return recurse(300);
}
static void deep_sleep(void)
{
	kthread_run(deep_thread, NULL, -1, "deep");
}

/* A leaf without a frame record of its own, met by the interrupt that panics. */
static volatile bool in_leaf;
static __noipa u64 spinning_leaf(u64 n)
{
	for (; n & 1; n += 2)
		in_leaf = true;
	return n;
}
static __noipa int spinning_thread(void *unused)
{
	return spinning_leaf(1) + 1;
}
static void panic_here(void *unused)
{
	panic("in an interrupt");
}
static void interrupted_leaf(void)
{
	unsigned cpu = nr_cpus - 1;

	set_cpu_affinity(0);
	kthread_run(spinning_thread, NULL, cpu, "spinner");
	while (!in_leaf)
		sleep_ns(1000000);
	smp_call(cpu, panic_here, NULL);
}

/* An image address but for the upper bits, which the page tables' indices leave out. */
static void execute_far(void)
{
	((void (*)(void))((unsigned long)execute_far & ~(1ul << 40)))();
}

/* Longer than the watchdog waits: two seconds more. */
static void spin(void *unused)
{
	u64 end = clock_ns() + (WATCHDOG_S + 2) * 1000000000ul;

	while (clock_ns() < end) /* in an emulator, a look at the clock takes long */
		for (int i = 0; i < 1000; i++)
			barrier();
}
static void stuck_call(void)
{
	set_cpu_affinity(0); /* a CPU that serves its own call does not wait */
	smp_call(nr_cpus - 1, spin, NULL);
}
static int spin_unpreemptible(void *unused)
{
	preempt_disable();
	in_leaf = true;
	spin(NULL);
	preempt_enable();
	return 0;
}
static void stuck_thread(void)
{
	struct thread *t;

	set_cpu_affinity(0);
	t = kthread_run(spin_unpreemptible, NULL, nr_cpus - 1, "spinner");
	while (!READ_ONCE(in_leaf))
		sleep_ns(1000000);
	synchronize_sched();
	thread_join(t);
}

/* Nobody waits for it, and this CPU is idle meanwhile. */
static bool released;
static int spin_masked(void *unused)
{
	unsigned long flags = irq_save();

	while (!READ_ONCE(released))
		;
	irq_restore(flags);
	return 0;
}
static void stuck_masked(void)
{
	struct cpu *cpu = cpu_of(nr_cpus - 1);
	struct thread *t = kthread_run(spin_masked, NULL, cpu->index, "spinner");

	set_cpu_affinity(0);
	for (int i = 0; i < WATCHDOG_S + 2 && !READ_ONCE(cpu->reports); i++)
		sleep_ns(1000000000);
	WRITE_ONCE(released, true);
	thread_join(t);
}
/* Not stuck: a thread that does not give up its CPU, and a CPU that is idle. */
static void busy_thread(void)
{
	spin(NULL);
}

static void yield_unpreemptible(void)
{
	preempt_disable();
	yield();
	preempt_enable();
}
static void move_unpreemptible(void)
{
	preempt_disable();
	set_cpu_affinity((this_cpu()->index + 1) % nr_cpus);
	preempt_enable();
}

static void serve_nothing(void *unused)
{
}
/*
 * The console's registers are mapped first, then the interrupt controller's. The panic can neither
 * print nor stop other CPUs.
 */
static void unmap_devices(void)
{
	mmu_unmap(MMIO_BASE, KiB(64));
	printk("the console is not mapped\n");
}
static void call_nobody(void)
{
	smp_call(nr_cpus, serve_nothing, NULL);
}

static const struct {
	const char *name;
	void (*fn)(void);
} faults[] = {
	{"text", write_text},
	{"linear-text", write_text_in_linear_map},
	{"rodata", write_rodata},
	{"null", read_null},
	{"unmapped", read_unmapped},
	{"execute", execute_data},
	{"far", execute_far},
	{"stuck", stuck_call},
	{"stuck-thread", stuck_thread},
	{"stuck-masked", stuck_masked},
	{"busy-thread", busy_thread},
	{"illegal", illegal_instruction},
	{"break", break_point},
	{"overflow", stack_overflow},
	{"recursion", deep_panic},
	{"recursion-of-two", deep_panic_of_two},
	{"deep-thread", deep_sleep},
	{"leaf", interrupted_leaf},
	{"yield", yield_unpreemptible},
	{"move", move_unpreemptible},
	{"call", call_nobody},
	{"devices", unmap_devices},
};

static int test_fault(int argc, char **argv)
{
	for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
		if (argc == 2 && !strcmp(argv[1], faults[i].name)) {
			faults[i].fn();
			return 0;
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(faults); i++)
		out_printf("%s\n", faults[i].name);
	return 1;
}
SHELL_COMMAND("test-fault", test_fault, "KIND", "a mistake that must end in a panic");

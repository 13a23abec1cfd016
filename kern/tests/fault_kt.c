/*
 * Mistakes that must end in a panic which names them: run_qemu.py makes each
 * and reads what the panic says.
 */
#include "cpu.h"
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
	{"illegal", illegal_instruction},
	{"break", break_point},
	{"overflow", stack_overflow},
	{"leaf", interrupted_leaf},
	{"yield", yield_unpreemptible},
	{"move", move_unpreemptible},
	{"call", call_nobody},
};

static int test_fault(int argc, char **argv)
{
	for (unsigned i = 0; i < ARRAY_SIZE(faults); i++) {
		if (argc == 2 && !strcmp(argv[1], faults[i].name)) {
			faults[i].fn();
			return 0;
		}
		out_printf("%s\n", faults[i].name);
	}
	return 1;
}
SHELL_COMMAND("test-fault", test_fault, "KIND", "a mistake that must end in a panic");

/*
 * The other CPUs: their start, by the boot CPU, and their first function.
 */
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "sched.h"

#define START_TRIES 50
#define START_TIMEOUT_NS 5000000000 /* an emulator on a busy host may not run a CPU for a second */

static bool comes_online(struct cpu *cpu)
{
	u64 end = clock_ns() + START_TIMEOUT_NS / START_TRIES;

	while (!READ_ONCE(cpu->online) && clock_ns() < end)
		cpu_relax();
	return READ_ONCE(cpu->online);
}

static notrace bool claim(struct cpu *cpu)
{
	return !__atomic_exchange_n(&cpu->claimed, true, __ATOMIC_RELAXED);
}

/*
 * The call is repeated, because OpenSBI 1.1 may start a hart before it has stored
 * the entry address. The hart then enters at the image's first instruction, and
 * head.S stops it.
 */
static int start_cpu(struct cpu *cpu)
{
	struct thread *idle = cpu->idle ?: alloc_thread("swapper");

	if (!idle)
		return -ENOMEM;
	init_idle(idle, cpu);
	smp_mb();
	for (int i = 0; i < START_TRIES; i++) {
		int err = firmware_cpu_start(cpu, image_to_pa(secondary_start));

		if (err && i == 0)
			return err;
		if (comes_online(cpu))
			return 0;
	}
	if (claim(cpu))
		return -ETIMEDOUT;
	while (!READ_ONCE(cpu->online))
		cpu_relax();
	return 0;
}

/*
 * Indices must be contiguous. The index of a CPU that firmware refused to start is
 * given to the last CPU, which is not running yet. A CPU that was started but is not
 * online may still come, so it keeps its struct cpu, and nr_cpus is reduced to its
 * index.
 */
static void give_up(unsigned index, int err)
{
	struct cpu *cpu = cpu_of(index);

	printk("CPU %u (%lx) does not start (error %d) and is not used.\n", index,
	       (unsigned long)cpu->hwid, -err);
	if (err != -ETIMEDOUT) {
		cpu->hwid = cpu_of(--nr_cpus)->hwid;
		return;
	}
	if (index + 1 < nr_cpus)
		printk("It may still come, so no further CPU is started.\n");
	nr_cpus = index;
}

void smp_init(void)
{
	for (unsigned i = 1; i < nr_cpus;) {
		int err = start_cpu(cpu_of(i));

		if (err)
			give_up(i, err);
		else
			i++;
	}
}

/*
 * A CPU that comes after smp_init() has stopped waiting for it has no index and
 * no ring buffer, and no grace period waits for it. It must not call a traced
 * function: it waits forever.
 */
notrace void secondary_main(void)
{
	struct cpu *cpu = this_cpu();

	while (!claim(cpu))
		cpu_idle_wait();
	arch_init_cpu();
	irqchip_init_cpu();
	timer_init_cpu();
	__atomic_store_n(&cpu->online, true, __ATOMIC_RELEASE);
	irq_enable();
	do_idle();
}

/*
 * The CPUs: finding them, starting the secondary ones, calls between CPUs.
 *
 * A call is a request on the caller's stack, pushed on the target's list. The
 * caller waits with interrupts on, so two CPUs that call each other do not deadlock.
 */
#include "cpu.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "print.h"
#include "sched.h"
#include "string.h"

#define START_TRIES 50
#define START_TIMEOUT_NS 5000000000 /* an emulator on a busy host may not run a CPU for a second */

struct cpu cpus[NR_CPUS] = {
	[0] = {
		.running = &boot_thread,
		.context_bit = 1,
		.online = true,
	},
};
unsigned nr_cpus = 1;

/* Give the boot CPU its index in the device tree. */
static void move_boot_cpu(unsigned index)
{
	struct cpu *to = cpu_of(index);

	if (index) {
		*to = cpus[0];
		memset(&cpus[0], 0, sizeof(cpus[0]));
	}
	to->index = index;
	to->hwid = boot_hwid;
	set_this_cpu(to);
}

static unsigned list_cpus(const void *fdt, u64 *hwids, int *boot)
{
	unsigned count = 0, more = 0;
	u64 hwid;

	for (int node = -1; (node = fdt_next_cpu(fdt, node, &hwid)) >= 0;) {
		/* The last entry is reserved for the boot CPU until it is found. */
		if (count == NR_CPUS || (count == NR_CPUS - 1 && *boot < 0 && hwid != boot_hwid)) {
			more++;
			continue;
		}
		if (hwid == boot_hwid)
			*boot = count;
		hwids[count++] = hwid;
	}
	if (more)
		printk("%u more CPUs are not started: Callsite supports %u.\n", more, NR_CPUS);
	return count;
}

void cpus_init(const void *fdt)
{
	u64 hwids[NR_CPUS];
	int boot = -1;
	unsigned count = list_cpus(fdt, hwids, &boot);

	if (boot < 0) {
		printk("The device tree does not list the boot CPU (%lx): only the boot CPU is used.\n",
		       boot_hwid);
		count = 1;
		boot = 0;
		hwids[0] = boot_hwid;
	}
	move_boot_cpu(boot);
	for (unsigned i = 0; i < count; i++) {
		cpu_of(i)->index = i;
		cpu_of(i)->hwid = hwids[i];
	}
	nr_cpus = count;
}

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
		int err = firmware_cpu_start(cpu);

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
 * Indices must be contiguous. The index of a CPU that firmware refused to start
 * is given to the last CPU. A CPU that was started but is not online may still
 * come, so it keeps its struct cpu, and nr_cpus is reduced to its index.
 */
static bool close_gap(unsigned index, int err)
{
	if (err != -ETIMEDOUT && cpu_of(nr_cpus - 1) != this_cpu()) {
		cpu_of(index)->hwid = cpu_of(--nr_cpus)->hwid;
		return index < nr_cpus;
	}
	if (this_cpu()->index < index)
		nr_cpus = index;
	return false;
}

void smp_init(void)
{
	for (unsigned i = 0; i < nr_cpus; i++) {
		struct cpu *cpu = cpu_of(i);
		int err = cpu == this_cpu() ? 0 : start_cpu(cpu);

		if (!err)
			continue;
		printk("CPU %u (%lx) does not start (error %d) and is not used.\n", i,
		       (unsigned long)cpu->hwid, -err);
		if (close_gap(i, err))
			i--;
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

notrace unsigned long other_cpus(void)
{
	unsigned long mask = 0;

	for (unsigned i = 0; i < NR_CPUS; i++)
		if (cpu_of(i)->online && cpu_of(i) != this_cpu())
			mask |= 1ul << i;
	return mask;
}

void smp_push_call(struct cpu *cpu, struct smp_call *call)
{
	call->next = READ_ONCE(cpu->calls);
	while (!__atomic_compare_exchange_n(&cpu->calls, &call->next, call, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
	ipi_send(cpu->index, IPI_CALL);
}

/* In interrupt context. A request must not be accessed after `done` is set: it is on its caller's stack. */
void smp_run_calls(void)
{
	struct smp_call *call = __atomic_exchange_n(&this_cpu()->calls, NULL, __ATOMIC_ACQUIRE);

	while (call) {
		struct smp_call *next = call->next;

		WRITE_ONCE(this_cpu()->called, call->fn);
		call->fn(call->arg);
		__atomic_store_n(&call->done, 1, __ATOMIC_RELEASE);
		call = next;
	}
	WRITE_ONCE(this_cpu()->called, NULL);
}

/* Context: preemption off. */
static void call_each(unsigned long mask, void (*fn)(void *), void *arg)
{
	struct smp_call calls[NR_CPUS];

	for (unsigned i = 0; i < NR_CPUS; i++) {
		calls[i] = (struct smp_call){fn, arg, .done = !(mask >> i & 1)};
		if (!calls[i].done)
			smp_push_call(cpu_of(i), &calls[i]);
	}
	for (unsigned i = 0; i < NR_CPUS; i++)
		while (!__atomic_load_n(&calls[i].done, __ATOMIC_ACQUIRE)) {
			watchdog_touch();
			cpu_relax();
		}
}

void smp_call(unsigned index, void (*fn)(void *), void *arg)
{
	if (index >= nr_cpus || !cpu_of(index)->online)
		panic("smp_call(): CPU %u is not online", index);
	preempt_disable();
	call_each(1ul << index, fn, arg);
	preempt_enable();
}

void smp_call_others(void (*fn)(void *), void *arg)
{
	preempt_disable();
	call_each(other_cpus(), fn, arg);
	preempt_enable();
}

/*
 * Names the CPUs that are stuck. cpu.h says what that is, and who stores what.
 */
#include "cpu.h"
#include "irq.h"
#include "print.h"
#include "sched.h"
#include "string.h"

#define LOOK_NS 1000000000

/* not 0: then it would be in .bss, which the boot clears after a debugger may have written it */
u64 watchdog_due = 1;

static struct {
	u64 passes; /* at the last look */
	unsigned same; /* looks since they changed */
} looks[NR_CPUS];

/* No call site: loops call it. */
notrace void watchdog_touch(void)
{
	struct cpu *cpu = this_cpu();

	WRITE_ONCE(cpu->touched, cpu->touched + 1);
}

/* A CPU with masked interrupts cannot report its pc, only what it runs. */
static void report(struct cpu *cpu, unsigned seconds)
{
	const struct thread *t = READ_ONCE(cpu->running);
	void *in = (void *)READ_ONCE(cpu->called) ?: (void *)t->fn ?: (void *)do_idle;
	char comm[sizeof(t->comm)];
	int pid = t->pid;

	/* the thread may end, and be freed, while printk() waits for another CPU's line */
	strlcpy(comm, t->comm, sizeof(comm));
	WRITE_ONCE(cpu->reports, cpu->reports + 1);
	printk("\nwatchdog: CPU %u has been stuck for %u s, in %pS [%s:%d]\n", cpu->index, seconds,
	       in, comm, pid);
}

static void look_at(struct cpu *cpu)
{
	u64 passes = READ_ONCE(cpu->grace) + READ_ONCE(cpu->touched);
	unsigned same = passes == looks[cpu->index].passes ? looks[cpu->index].same + 1 : 0;

	looks[cpu->index].passes = passes;
	looks[cpu->index].same = same;
	if (same && same % WATCHDOG_S == 0)
		report(cpu, same);
	resched_curr(cpu);
}

void watchdog_tick(void)
{
	u64 now = arch_counter(), due = READ_ONCE(watchdog_due);

	if (now < due ||
	    !__atomic_compare_exchange_n(&watchdog_due, &due, now + ns_to_ticks(LOOK_NS), false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	for (unsigned i = 0; i < nr_cpus; i++)
		if (cpu_of(i)->online)
			look_at(cpu_of(i));
}

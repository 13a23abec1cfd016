/*
 * One struct cpu per CPU that we use, indexed 0..nr_cpus-1 in the order of
 * the device tree; the hardware's id (hartid, MPIDR) is a field, never an
 * index. The boot CPU may have any index: it is cpus[0] until cpus_init() has
 * read the device tree, and may then move; nobody keeps a pointer before.
 */
#ifndef KERN_CPU_H
#define KERN_CPU_H

#include "arch.h"
#include "lock.h"
#include "thread.h"

#define NR_CPUS 8

struct cpu {
	struct thread *running; /* first: `current`, which riscv64 reads through tp */
	u64 recursion;          /* tracer: contexts that are inside a callback; own CPU, irqs masked */
	u64 context_bit;        /* 1 thread, 2 interrupt, 4 exception: set by trap entry and exit */
	void *ftrace;           /* the tracer's own per-CPU data */
	u32 index;
	u32 resched;            /* 0 or CTX_NEED_RESCHED; set by anyone, cleared by schedule() */
	u64 hwid;               /* hartid, MPIDR affinity */
	u32 claimed; /* set by the CPU when it arrives, or by smp_init() when it stops waiting; the second one to come gives way */
	bool online;
	struct thread *idle;
	struct thread *runqueue;     /* under rq_lock, which is held across __switch_to() */
	struct thread **runqueue_end; /* the link behind the last one */
	struct thread *sleepers;     /* under rq_lock: with a time-out, soonest first */
	struct spinlock rq_lock;
	u64 grace;              /* passes through schedule(); synchronize_sched() */
	u64 next_tick;          /* counter value */
	u64 timer;              /* what the timer is set to; ~0: nothing */
	u64 switched_at;        /* when current began to run */
	u64 ipi_work;           /* bits 1 << IPI_*, atomically set by the sender */
	struct smp_call *calls; /* pushed by senders, taken as a whole by IPI_CALL */
	void (*called)(void *); /* of these calls, the one that runs; NULL */
	unsigned long switches;
	void *boot_stack; /* top of the idle thread's stack: where secondary_start puts sp */
};

extern struct cpu cpus[NR_CPUS];
extern unsigned nr_cpus; /* found, started and online after smp_init() */

static inline struct cpu *cpu_of(unsigned index)
{
	return &cpus[index];
}

/* Read /cpus of the device tree: indices, nr_cpus; before the interrupt controller. */
void cpus_init(const void *fdt);
/* Make @t the thread that runs on @cpu when no other does; before the CPU's first interrupt. */
void init_idle(struct thread *t, struct cpu *cpu);
/* Start the others, name those that do not come; afterwards 0..nr_cpus-1 are online. */
void smp_init(void);
/* Where head.S's secondary_start arrives, in C, on the new CPU's idle stack. */
void secondary_main(void);

unsigned long other_cpus(void); /* those online but the running one, bits: index; preemption off */

/*
 * Run fn(arg) on CPU @index, which is online, in interrupt context and wait for it.
 * So it does on the calling CPU too: by an IPI to itself. smp_call_others runs
 * it on all others. Context: thread, interrupts on, no spinlock held.
 */
void smp_call(unsigned index, void (*fn)(void *), void *arg);
void smp_call_others(void (*fn)(void *), void *arg);
void smp_run_calls(void); /* IPI_CALL */

/*
 * Whoever waits for CPU @index sets a u64 to WATCHDOG_LIMIT and gives it to
 * watchdog() again and again. When the wait is that long, the CPU is named, once.
 */
#define WATCHDOG_S 8
#define WATCHDOG_LIMIT (clock_ns() + WATCHDOG_S * 1000000000ul)
void watchdog(unsigned index, u64 *limit);

#endif

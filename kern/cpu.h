/*
 * One struct cpu for each CPU in use, indexed 0..nr_cpus-1 in the order of the
 * device tree; the hardware's id (hartid, MPIDR) is a field, never an index.
 * The boot CPU is cpus[0] until cpus_init() has read the device tree, which may
 * give it another index: keep no pointer to it from before.
 */
#ifndef KERN_CPU_H
#define KERN_CPU_H

#include "arch.h"
#include "lock.h"
#include "thread.h"

#define NR_CPUS 8

struct unwind;

struct cpu {
	struct thread *running; /* first: `current`, which riscv64 reads through tp */
	u64 recursion;          /* tracer: context bits of the running callbacks; accessed by this CPU, irqs masked */
	u64 context_bit;        /* 1 thread, 2 interrupt, 4 exception: set by trap entry and exit */
	void *ftrace;           /* the tracer's own per-CPU data */
	u32 index;
	u32 resched;            /* 0 or CTX_NEED_RESCHED; set by any CPU, cleared by schedule() */
	u64 hwid;               /* hartid, MPIDR affinity */
	u32 claimed; /* set by the CPU when it starts, or by smp_init() when it stops waiting: the first one decides */
	bool online;
	struct thread *idle;
	struct thread *runqueue;     /* under rq_lock, which is held across __switch_to() */
	struct thread **runqueue_end; /* the last thread's link */
	struct thread *sleepers;     /* under rq_lock: threads with a time-out, soonest first */
	struct spinlock rq_lock;
	u64 grace;              /* counts passes through schedule(), for synchronize_sched() */
	u64 next_tick;          /* counter value */
	u64 timer;              /* counter value that the timer is set to; ~0: none */
	u64 switched_at;        /* when current began to run */
	u64 ipi_work;           /* bits 1 << IPI_*, atomically set by the sender */
	struct smp_call *calls; /* pushed by senders; IPI_CALL takes the whole list */
	void (*called)(void *); /* the function of the running call, or NULL */
	const struct unwind *stopped; /* where its stack was when stop_machine() stopped it; NULL: it runs */
	unsigned long switches;
	void *boot_stack; /* top of the idle thread's stack: where secondary_start puts sp */
};

extern struct cpu cpus[NR_CPUS];
extern unsigned nr_cpus; /* found, started and online after smp_init() */

static inline struct cpu *cpu_of(unsigned index)
{
	return &cpus[index];
}

/* Read /cpus of the device tree; sets indices and nr_cpus. Before irqchip_init(). */
void cpus_init(const void *fdt);
/* Make @t the idle thread of @cpu; before the CPU's first interrupt. */
void init_idle(struct thread *t, struct cpu *cpu);
/* Start the other CPUs and print which do not start; afterwards 0..nr_cpus-1 are online. */
void smp_init(void);
/* Called by head.S's secondary_start on the new CPU's idle stack. */
void secondary_main(void);

unsigned long other_cpus(void); /* all online CPUs except the running one, bits: index; preemption off */

/*
 * Run fn(arg) in interrupt context on the online CPU @index and wait for it. The
 * calling CPU may be @index: it sends the IPI to itself. smp_call_others() runs
 * fn on all other CPUs. Context: thread, interrupts on, no spinlock held.
 */
void smp_call(unsigned index, void (*fn)(void *), void *arg);
void smp_call_others(void (*fn)(void *), void *arg);
void smp_run_calls(void); /* IPI_CALL */

/*
 * Run fn(arg) on this CPU while every other online CPU waits: (1) an interrupt brings each
 * other CPU into a handler, where it waits with interrupts masked; (2) this CPU masks its
 * interrupts and runs fn(arg), which sees all that the others have stored; (3) the others
 * go on, and see all that fn has stored. So no CPU is inside a section that masks
 * interrupts during (2), and the spinlocks of such sections are free.
 *
 * fn must not sleep and not wait for another CPU: no smp_call(), no arch_sync_all() (it
 * makes calls on arm64); arch_tlb_flush_all() is allowed. Calls that other CPUs make
 * meanwhile are run after (3). One caller at a time; a second one sleeps until then.
 * Context: thread, interrupts on, no spinlock held. Return: what fn returned; -ETIMEDOUT
 * if a CPU has not come within WATCHDOG_S seconds, after watchdog()'s sentence: fn was not called.
 */
int stop_machine(int (*fn)(void *), void *arg);

/*
 * A loop that waits for CPU @index first sets *@w to WATCHDOG_START, then calls
 * watchdog() in each turn, which reports once, after WATCHDOG_S seconds, that the
 * CPU is stuck; @limit is WATCHDOG_TOLD then. If more than a second passes between two turns, the
 * whole machine stood still (its host stopped it), and the time does not count.
 */
#define WATCHDOG_S 8
#define WATCHDOG_TOLD (~0ul)
struct watchdog {
	u64 limit, seen; /* when it is told; the last turn */
};
#define WATCHDOG_START {clock_ns() + WATCHDOG_S * 1000000000ul, clock_ns()}
void watchdog(unsigned index, struct watchdog *w);

#endif

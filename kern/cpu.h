/*
 * One struct cpu for each CPU in use, indexed 0..nr_cpus-1: the boot CPU, then the
 * others in the order of the device tree. The hardware's id (hartid, MPIDR) is a
 * field, never an index.
 */
#ifndef KERN_CPU_H
#define KERN_CPU_H

#include "arch.h"
#include "lock.h"
#include "thread.h"

#define NR_CPUS 8

struct cpu {
	struct thread *running; /* first: `current`, which riscv64 reads through tp */
	u64 recursion;          /* tracer: context bits of the running callbacks; accessed by this CPU alone, and an interrupt leaves it as it was */
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
	u64 touched;            /* counts calls of watchdog_touch() */
	u32 reports;            /* counts the watchdog's reports about this CPU */
	u64 next_tick;          /* counter value */
	u64 timer;              /* counter value that the timer is set to; ~0: none */
	u64 switched_at;        /* when current began to run */
	u64 ipi_work;           /* bits 1 << IPI_*, atomically set by the sender */
	struct smp_call *calls; /* pushed by senders; IPI_CALL takes the whole list */
	void (*called)(void *); /* the function of the running call, or NULL */
	unsigned long switches;
	void *boot_stack; /* top of the idle thread's stack: where secondary_start puts sp */
};

extern struct cpu cpus[NR_CPUS];
extern unsigned nr_cpus; /* found, started and online after smp_init() */

static inline struct cpu *cpu_of(unsigned index)
{
	return &cpus[index];
}

/*
 * Read /cpus of the device tree; sets indices and nr_cpus. Before irqchip_init().
 * Only the boot CPU is used, and the console says so, if the tree does not list it
 * or has a CPU without an id: firmware has read the same tree, and OpenSBI then
 * sends an IPI to the wrong hart, and may never return. A tree with more than
 * NR_CPUS is said, too.
 */
void cpus_init(const void *fdt);
/* Make @t the idle thread of @cpu; before the CPU's first interrupt. */
void init_idle(struct thread *t, struct cpu *cpu);
/*
 * Start the other CPUs and print which do not start; afterwards 0..nr_cpus-1 are
 * online and have an idle thread. A CPU that does not start may thus change the
 * index of another.
 */
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
 * The same in two steps, for a caller that does not wait, or not for ever: ask @cpu to
 * run call->fn(call->arg). `done` becomes 1 when it has returned; until then *@call stays
 * as it is. Context: any.
 */
struct smp_call {
	void (*fn)(void *);
	void *arg;
	struct smp_call *next;
	u32 done;
};
void smp_push_call(struct cpu *cpu, struct smp_call *call);

/*
 * The watchdog. A CPU is stuck when it neither passes through schedule() nor waits for another
 * CPU: it masks interrupts, stays in a handler, or has turned preemption off. watchdog_tick()
 * reports it WATCHDOG_S to WATCHDOG_S + 1 seconds later, and again every WATCHDOG_S seconds.
 *
 * Each second the first CPU with a timer interrupt looks at all online CPUs, itself too. An idle
 * CPU gets a timer interrupt for that, unless it is the only one. In this order:
 * (1) It moves @watchdog_due on by compare-and-exchange. The CPU that succeeds makes this look.
 * (2) For each CPU it compares `grace` + `touched`, which that CPU alone increments, with their
 *     sum at the last look; after WATCHDOG_S looks with the same sum it increments `reports`.
 * (3) It requests a reschedule of that CPU. So a CPU that is idle, or that has only one thread,
 *     passes through schedule() before the next look.
 * Looks are counted, not seconds: while the host stops the whole machine the clock goes on, but
 * afterwards only one look is due. Which CPUs look does not matter, if the looks do not overlap:
 * each sees what the one before it stored, through @watchdog_due (acquire and release).
 *
 * A debugger that holds a single CPU stores TIMER_NEVER to @watchdog_due, and 0 afterwards.
 */
#define WATCHDOG_S 8
extern u64 watchdog_due; /* counter value of the next look */
void watchdog_tick(void); /* timer interrupt */
void watchdog_touch(void); /* in each turn of a loop that waits for another CPU without schedule() */

#endif

/*
 * The CPUs at work: their start, calls from one to another, and the watchdog, which names
 * those that are stuck. base/current.h has struct cpu.
 */
#ifndef SCHED_CPU_H
#define SCHED_CPU_H

#include "current.h"
#include "lock.h"
#include "thread.h"

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
/* in each turn of a loop that waits for another CPU without schedule() */
void watchdog_touch(void);

#endif

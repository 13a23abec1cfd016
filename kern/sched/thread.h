/*
 * The room sched/: which thread runs, on which CPU, and for how long.
 *
 *	thread.c	a thread's creation, its stack, its exit
 *	sched.c		the run queues, the switch, sleeping and waking
 *	mutex.c		wait queues and the mutex
 *	irq.c, irq.h	interrupts by number, interrupts between CPUs, the clock
 *	smp.c, cpu.h	calls from one CPU to another
 *	watchdog.c	names the CPUs that are stuck
 *	<arch>/		switch.S, timer.c; irqchip.c and other interrupt controllers; firmware.c
 *
 * The trap's entry (trap/) calls irq_enter(), a handler of irq.c, and irq_exit(), which may
 * switch threads. All later rooms create threads, wait and lock here. This room calls base/ and
 * mm/. The tracer (THREAD_HOOK) and the console (TICK_HOOK) are called through the linker's tables.
 */

/*
 * Preemptive kernel threads: at most 4,095 pids, one run queue for each CPU,
 * round robin with a 10 ms tick. A thread wakes up on its last CPU; an idle CPU
 * steals threads that are not pinned. A thread that an interrupt wakes, and whose
 * last turn was shorter than 1 ms, runs at once: so the shell's prompt responds
 * while other threads loop.
 *
 * State is changed under the run-queue lock of the thread's CPU. Only the thread
 * itself stores THREAD_SLEEPING, and THREAD_RUNNING after its wait, without the lock.
 * So a CPU that wakes it, and has found it asleep, may store THREAD_RUNNING later, over
 * a new THREAD_SLEEPING: each wait tests its condition again. THREAD_DEAD is stored
 * under the lock, because that CPU must not store THREAD_RUNNING over it. A thread is
 * "on CPU" until __switch_to() has left its stack; only then may another CPU
 * run it (on_cpu, cleared by finish_task_switch()).
 */
#ifndef SCHED_THREAD_H
#define SCHED_THREAD_H

#include "arch.h"
#include "current.h"
#include "ksyms.h"
#include "lock.h"
#include "memory.h"
#include "print.h"
#include "tracepoint.h"

/*
 * Hooks, which the tracer links in. They are called when @prev creates @next; at
 * each switch from @prev to @next (irqs masked, still on prev's stack); when @prev
 * exits, by itself; and before @prev's memory is freed, by the thread that frees it.
 */
enum thread_event { THREAD_BORN, THREAD_SWITCH, THREAD_DIES, THREAD_FREED };
struct thread_hook {
	void (*fn)(enum thread_event event, struct thread *prev, struct thread *next);
};
#define THREAD_HOOK(f) TABLE_ENTRY(const struct thread_hook, thread_hook, f##_hook) = {f}

/*
 * Create a thread that runs fn(arg) and make it runnable. @cpu: pin it there,
 * or -1. NULL when there is no memory or no pid. The creator must join it, if it ends.
 */
struct thread *kthread_run(int (*fn)(void *), void *arg, int cpu, const char *name);
int thread_join(struct thread *t); /* waits for its exit, frees it, returns its exit code */
/*
 * Wait until it has exited (return true), until Ctrl-C, or, if @main, until its program's main()
 * has returned.
 */
bool thread_wait(struct thread *t, bool main);
bool thread_done(struct thread *t);
void thread_main_returned(void); /* of the running thread's program: see thread_wait() */

/*
 * A program that is interrupted ends at a safe point. Each of its threads that is flagged calls
 * current->end:
 * - in end_if_interrupted(), which thread_join() and app.c's functions call where nothing is held;
 * - instead of returning from an interrupt of the program's own text (_apps). There the thread is
 *   in no kernel function, and irq_exit() has checked that it is in no callback of the tracer, has
 *   preemption on, and holds no mutex.
 * A thread that holds a mutex goes on until it has unlocked it. The program's main thread ends
 * last: it waits for the others and frees their memory, because one thread may use another one's
 * stack.
 */
void end_if_interrupted(void);
unsigned process_threads(const void *process); /* that have not exited */
/* wait until the others of current->process have exited (return true), or until Ctrl-C (false) */
bool process_wait(void);
void process_interrupt(void); /* the others of current->process */
void process_join(void); /* all others of current->process */
void __noreturn thread_exit(int code);

/*
 * The boot flow of control is the boot CPU's idle thread (pid 0) from the
 * first instruction: boot_thread on boot_stack. kernel_main() ends in do_idle().
 */
void __noreturn do_idle(void);
void schedule(void);            /* give up the CPU; current->state decides whether it runs again */
void yield(void);
/* Context: any except a tracer's callback, which may run under the run-queue lock. */
void wake_up_process(struct thread *t);
void sleep_ns(u64 ns); /* ends early when interrupted */
void thread_interrupt(struct thread *t); /* Ctrl-C: flag it and wake it */
static inline bool interrupted(void)
{
	return READ_ONCE(current->interrupted);
}
void sched_tick(void);          /* timer interrupt */
void set_cpu_affinity(int cpu); /* pin the running thread; unpin it if @cpu is -1 or offline */

/*
 * Call fn(t, arg) while @t can neither start nor stop running: with its run-queue lock held,
 * interrupts masked.
 */
void task_call_func(struct thread *t, void (*fn)(struct thread *t, void *arg), void *arg);
/* Counter ticks for which @t has run, with its current turn. Context: as wake_up_process(). */
u64 thread_runtime(struct thread *t);
/* Call @fn for each thread, threads_lock held. */
void threads_for_each(void (*fn)(struct thread *t, void *arg), void *arg);
/* And then for the idle thread of each CPU, the last CPU's first. */
void threads_and_idle_for_each(void (*fn)(struct thread *t, void *arg), void *arg);

/*
 * Wait for a grace period: until every CPU has passed through schedule() once. No
 * CPU then still uses an op, a trampoline or data that the caller had unpublished
 * before the call. An idle CPU may be in a traced interrupt handler, so it must
 * pass as well: it gets a reschedule interrupt. One pass is enough, because
 * irq_exit() never schedules inside a callback. Context: thread, may sleep.
 */
void synchronize_sched(void);

/* Number of stacks mapped since boot: in use, or free for new threads. */
unsigned thread_stacks(void);

void preempt_enable(void); /* reschedules if needed; preempt_disable() is in base/current.h */

/*
 * Trap entry calls these around a hardware interrupt, interrupts masked.
 * irq_exit() reschedules if needed, but not if the interrupted pc is in the tracer's
 * text (the table ftrace_text: its section and its islands; a module's trampolines),
 * and not inside a callback. An event must stay on the CPU that executed its call
 * site.
 */
void irq_enter(void);
void irq_exit(struct trap_frame *regs);

/* A thread waits in one queue at a time. */
struct wait_queue {
	struct spinlock lock;
	struct thread *waiters; /* linked by wait_next, in the order of arrival */
};
/*
 * wait_event(wq, condition): sleep until the condition holds. Code that makes
 * the condition true must call wake_up(wq) afterwards. Context: thread.
 */
void prepare_to_wait(struct wait_queue *wq);
void finish_wait(struct wait_queue *wq);
void wake_up(struct wait_queue *wq); /* all waiters; any context */
#define wait_event(wq, condition)                                                             \
	do {                                                                                  \
		for (;;) {                                                                    \
			prepare_to_wait(wq);                                                  \
			if (condition)                                                        \
				break;                                                        \
			schedule();                                                           \
		}                                                                             \
		finish_wait(wq);                                                              \
	} while (0)

struct mutex {
	struct thread *owner;
	struct wait_queue waiters;
};
#define MUTEX_INIT {0}
void mutex_lock(struct mutex *m);
bool mutex_trylock(struct mutex *m);
void mutex_unlock(struct mutex *m);
/*
 * For functions that need @m held. A macro, so that a panic's stack trace starts with that
 * function.
 */
#define mutex_assert_held(m)                                                                       \
	do {                                                                                       \
		if (unlikely((m)->owner != current))                                               \
			panic("this thread does not hold the mutex: mutex_lock(%s) first", #m);    \
	} while (0)

#endif

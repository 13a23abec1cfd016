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
#ifndef KERN_THREAD_H
#define KERN_THREAD_H

#include "arch.h"
#include "lock.h"
#include "memory.h"
#include "print.h"

/*
 * current->ctx: the context bits of a trace event, in their place in the event's
 * first word: flags in bits 16-23 (Linux's TRACE_FLAG_*), the preemption depth
 * in 24-31. Changed only by the thread itself, and by interrupts, which restore
 * it: plain loads and stores are enough.
 */
#define CTX_NEED_RESCHED (0x24u << 16) /* TRACE_FLAG_NEED_RESCHED | _PREEMPT_RESCHED: 'N' */
#define CTX_HARDIRQ (0x08u << 16)      /* TRACE_FLAG_HARDIRQ: 'h' */
#define CTX_PREEMPT (1u << 24)         /* one preempt_disable() */

enum thread_state { THREAD_RUNNING, THREAD_SLEEPING, THREAD_DEAD };

struct thread {
	struct context context; /* first: __switch_to() */
	u32 ctx;
	int pid; /* 0 on every idle thread, named swapper/N */
	char comm[16];
	enum thread_state state;
	bool on_cpu;
	bool queued;      /* on the run queue of its CPU */
	bool interrupted; /* after Ctrl-C: sleeps, reads and loops end early, with -EINTR */
	bool main_returned; /* other threads of its program run on: the shell no longer waits for it */
	bool end_is_due; /* sched.c: an interrupt found it interrupted */
	u32 mutexes; /* that it holds */
	bool *faulted; /* not NULL: a fault ends only this thread, and stores true there; panic_regs() */
	struct wait_queue *waits_in; /* from prepare_to_wait() to finish_wait() */
	s8 pinned; /* CPU index, or -1 */
	u8 cpu;    /* current or last CPU */
	int (*fn)(void *);
	void *arg;
	int exit_code;
	void *stack; /* THREAD_SIZE, aligned to it; lowest word STACK_END_MAGIC */
	u64 wake_at; /* sleeping with a time-out: counter value */
	u64 runtime; /* counter ticks on a CPU, for `ps` and `time` */
	u64 turn;    /* counter ticks of its last turn on a CPU */
	struct thread *next;      /* run queue */
	struct thread *wait_next; /* wait queue */
	struct thread *sleep_next; /* its CPU's sleepers, by wake_at */
	struct thread *all_next;  /* every thread, under threads_lock */
	struct file *out;         /* standard output; NULL: the console. Inherited */
	int out_error;            /* the first write to it that failed; 0 */
	struct node *cwd;         /* inherited */
	void *ftrace; /* the tracer's own per-thread data; thread hooks */
	void *process; /* app.c: the application that it belongs to, or NULL. Inherited */
	void (*end)(void); /* a program's thread: ends it when it is interrupted; does not return. Inherited */
};
#define STACK_END_MAGIC 0x57ac6e9d57ac6e9dul

extern struct thread boot_thread; /* head.S starts it on boot_stack; sched.c */

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
/* Wait until it has exited (return true), until Ctrl-C, or, if @main, until its program's main() has returned. */
bool thread_wait(struct thread *t, bool main);
bool thread_done(struct thread *t);
void thread_main_returned(void); /* of the running thread's program: see thread_wait() */

/*
 * A program that is interrupted ends at a safe point. Each of its threads that is flagged calls current->end:
 * - in end_if_interrupted(), which thread_join() and app.c's functions call where nothing is held;
 * - instead of returning from an interrupt of the program's own text (_apps). There the thread is in no kernel
 *   function, and irq_exit() has checked that it is in no callback of the tracer, has preemption on, and holds no
 *   mutex.
 * A thread that holds a mutex goes on until it has unlocked it. The program's main thread ends last: it waits for the
 * others and frees their memory, because one thread may use another one's stack.
 */
void end_if_interrupted(void);
unsigned process_threads(const void *process); /* that have not exited */
bool process_wait(void); /* wait until the others of current->process have exited (return true), or until Ctrl-C (false) */
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

/* Call fn(t, arg) while @t can neither start nor stop running: with its run-queue lock held, interrupts masked. */
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

static inline void preempt_disable(void)
{
	current->ctx += CTX_PREEMPT;
	barrier();
}
void preempt_enable(void); /* reschedules if needed */
static inline bool preemptible(void)
{
	return (current->ctx & ~0xffffu) == 0;
}

/*
 * Trap entry calls these around a hardware interrupt, interrupts masked.
 * irq_exit() reschedules if needed, but not if the interrupted pc is in the tracer's
 * text (the table ftrace_text: its section and its islands; a module's trampolines),
 * and not inside a callback. An event must stay on the CPU that executed its call
 * site. in_tracer(): no call site, any context.
 */
void irq_enter(void);
void irq_exit(struct trap_frame *regs);
struct text_range {
	unsigned long start, end;
};
static inline __attribute__((always_inline)) bool in_kernel_tracer(unsigned long pc)
{
	TABLE_FOR_EACH(const struct text_range, ftrace_text, r)
		if (pc >= r->start && pc < r->end)
			return true;
	return false;
}

/*
 * Modules' text is above the kernel's, from this address on; the highest address while
 * no module is loaded. So one comparison is enough for the kernel's addresses. The two
 * functions (ksyms.c) look at each module's table, and in_module_text() is false for a
 * module that is gone. No call site, any context.
 */
extern unsigned long module_text_start;
bool in_module_text(unsigned long pc);
bool in_module_tracer(unsigned long pc);

static inline __attribute__((always_inline)) bool may_be_in_module(unsigned long pc)
{
	return unlikely(pc >= READ_ONCE(module_text_start));
}
static inline __attribute__((always_inline)) bool in_tracer(unsigned long pc)
{
	return in_kernel_tracer(pc) || (may_be_in_module(pc) && in_module_tracer(pc));
}

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
/* For functions that need @m held. A macro, so that a panic's stack trace starts with that function. */
#define mutex_assert_held(m)                                                                       \
	do {                                                                                       \
		if (unlikely((m)->owner != current))                                               \
			panic("this thread does not hold the mutex: mutex_lock(%s) first", #m);    \
	} while (0)

#endif

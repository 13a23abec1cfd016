/*
 * The CPUs, and the thread that each of them runs: what an interrupt, a lock or the tracer
 * must know of them. sched/ has what is done with them.
 */
#ifndef BASE_CURRENT_H
#define BASE_CURRENT_H

#include "arch.h"
#include "lock.h"

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
	/* other threads of its program run on: the shell no longer waits for it */
	bool main_returned;
	bool end_is_due; /* sched.c: an interrupt found it interrupted */
	u32 mutexes; /* that it holds */
	/* not NULL: a fault ends only this thread, and stores true there; panic_regs() */
	bool *faulted;
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
	struct file *in, *out;    /* standard input and output; NULL: the console. Inherited */
	int out_error;            /* the first write to it that failed; 0 */
	struct node *cwd;         /* inherited */
	void *ftrace; /* the tracer's own per-thread data; thread hooks */
	void *process; /* app.c: the application that it belongs to, or NULL. Inherited */
	/* a program's thread: ends it when it is interrupted; does not return. Inherited */
	void (*end)(void);
};
#define STACK_END_MAGIC 0x57ac6e9d57ac6e9dul

extern struct thread boot_thread; /* head.S starts it on boot_stack */

void preempt_disable(void); /* sched/thread.h has preempt_enable() */
static inline bool preemptible(void)
{
	return (current->ctx & ~0xffffu) == 0;
}

/*
 * One struct cpu for each CPU in use, indexed 0..nr_cpus-1: the boot CPU, then the
 * others in the order of the device tree. The hardware's id (hartid, MPIDR) is a
 * field, never an index.
 */
#define NR_CPUS 8

struct cpu {
	struct thread *running; /* first: `current`, which riscv64 reads through tp */
	/*
	 * tracer: context bits of the running callbacks; accessed by this CPU alone, and an
	 * interrupt leaves it as it was
	 */
	u64 recursion;
	u64 context_bit;        /* 1 thread, 2 interrupt, 4 exception: set by trap entry and exit */
	void *ftrace;           /* the tracer's own per-CPU data */
	u32 index;
	u32 resched;            /* 0 or CTX_NEED_RESCHED; set by any CPU, cleared by schedule() */
	u64 hwid;               /* hartid, MPIDR affinity */
	/*
	 * set by the CPU when it starts, or by smp_init() when it stops waiting: the first one
	 * decides
	 */
	u32 claimed;
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
/* all online CPUs except the running one, bits: index; preemption off */
unsigned long other_cpus(void);

#endif

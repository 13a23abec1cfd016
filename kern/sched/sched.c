/*
 * The scheduler: one run queue for each CPU, round robin, idle CPUs steal.
 *
 * The run-queue lock is held from the choice of the next thread until that thread
 * runs finish_task_switch(). So a CPU that holds the lock of a thread's CPU never
 * sees the thread in the middle of a switch: it is queued, running, or has left
 * its stack. Two CPUs never use one stack.
 */
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "sched.h"
#include "string.h"

#define TICK_NS 10000000
#define SHORT_TURN_NS 1000000
/*
 * far longer than an interrupt, even in a slow emulator: the thread must make progress between two
 */
#define RETRY_NS 1000000
#define SLEEP_NS_MAX (1ul << 60) /* 36 years: the deadline does not overflow */

notrace void run_thread_hooks(enum thread_event event, struct thread *prev, struct thread *next)
{
	TABLE_FOR_EACH(const struct thread_hook, thread_hook, hook)
		hook->fn(event, prev, next);
}

/* ---- the run queue: rq_lock held in all of these ---- */

static void enqueue_task(struct cpu *cpu, struct thread *t, bool first)
{
	struct thread **at = first ? &cpu->runqueue : cpu->runqueue_end;

	t->next = *at;
	*at = t;
	if (!t->next)
		cpu->runqueue_end = &t->next;
	t->queued = true;
	t->cpu = cpu->index;
}

/* The link to the first thread of the queue; @steal: to the first that is not pinned. */
static struct thread **first_task(struct cpu *cpu, bool steal)
{
	struct thread **at = &cpu->runqueue;

	while (*at && steal && (*at)->pinned >= 0)
		at = &(*at)->next;
	return at;
}

static struct thread *dequeue_task(struct cpu *cpu, bool steal)
{
	struct thread **at = first_task(cpu, steal), *t = *at;

	if (!t)
		return NULL;
	*at = t->next;
	if (!t->next)
		cpu->runqueue_end = at;
	t->queued = false;
	return t;
}

static void enqueue_sleeper(struct cpu *cpu, struct thread *t)
{
	struct thread **at = &cpu->sleepers;

	while (*at && (*at)->wake_at <= t->wake_at)
		at = &(*at)->sleep_next;
	t->sleep_next = *at;
	*at = t;
}

static void dequeue_sleeper(struct cpu *cpu, struct thread *t)
{
	struct thread **at = &cpu->sleepers;

	while (*at && *at != t)
		at = &(*at)->sleep_next;
	if (*at)
		*at = t->sleep_next;
	t->wake_at = 0;
}

static u64 next_deadline(struct cpu *cpu, struct thread *runs, u64 now)
{
	u64 deadline = nr_cpus > 1 ? READ_ONCE(watchdog_due) : TIMER_NEVER;

	if (runs != cpu->idle) {
		if (cpu->next_tick <= now)
			cpu->next_tick = now + ns_to_ticks(TICK_NS);
		deadline = MIN(deadline, cpu->next_tick);
	}
	if (cpu->sleepers && cpu->sleepers->wake_at < deadline)
		deadline = cpu->sleepers->wake_at;
	return deadline;
}

/*
 * Only an earlier deadline is set. A deadline that is no longer needed still fires once, without
 * effect.
 */
static void update_timer(struct cpu *cpu, struct thread *next, u64 now)
{
	u64 deadline = next_deadline(cpu, next, now);

	if (deadline < cpu->timer) {
		cpu->timer = deadline;
		timer_set(deadline);
	}
}

void resched_curr(struct cpu *cpu)
{
	__atomic_store_n(&cpu->resched, CTX_NEED_RESCHED, __ATOMIC_RELEASE);
	if (cpu != this_cpu())
		ipi_send(cpu->index, IPI_RESCHEDULE);
}

/* Wake a CPU for @cpu's queue: @cpu itself if it is idle, else an idle CPU that can steal. */
static void kick_for(struct cpu *cpu)
{
	if (cpu->running == cpu->idle) {
		resched_curr(cpu);
		return;
	}
	if (!*first_task(cpu, true))
		return;
	smp_mb(); /* queue the thread before reading which CPUs are idle; pairs with pull_task() */
	for (unsigned i = 0; i < nr_cpus; i++) {
		struct cpu *other = cpu_of(i);

		if (other->online && READ_ONCE(other->running) == other->idle && !other->resched) {
			resched_curr(other);
			return;
		}
	}
}

/* Make a woken thread runnable; thread.h says which threads run at once. */
static void activate_task(struct cpu *cpu, struct thread *t)
{
	t->state = THREAD_RUNNING;
	if (current->ctx & CTX_HARDIRQ && t->turn < ns_to_ticks(SHORT_TURN_NS)) {
		enqueue_task(cpu, t, true);
		resched_curr(cpu);
	} else {
		enqueue_task(cpu, t, false);
		kick_for(cpu);
	}
}

/* ---- the switch ---- */

/*
 * @t is not on a queue and the lock of its CPU is held: task_rq_lock() on another CPU reads t->cpu
 * again.
 */
static void give_to_cpu(struct thread *t, unsigned to)
{
	t->queued = true; /* until join_queue(): a wake-up must not queue it */
	t->cpu = to;
}

/* Queue @t on the CPU that give_to_cpu() chose. */
static void join_queue(struct thread *t)
{
	struct cpu *cpu = cpu_of(t->cpu);

	spin_lock(&cpu->rq_lock);
	enqueue_task(cpu, t, false);
	kick_for(cpu);
	spin_unlock(&cpu->rq_lock);
}

static void put_prev_task(struct cpu *cpu, struct thread *prev, bool preempted)
{
	if (prev == cpu->idle)
		return;
	if (prev->state == THREAD_RUNNING || preempted) {
		if (prev->pinned >= 0 && prev->pinned != cpu->index) {
			TRACE(sched_migrate_task, prev, prev->pinned);
			give_to_cpu(prev, prev->pinned);
		} else {
			enqueue_task(cpu, prev, false);
		}
	} else if (prev->state == THREAD_SLEEPING && prev->wake_at) {
		enqueue_sleeper(cpu, prev);
	}
}

/* Runs on the next thread's stack; prev's stack is no longer in use. */
static void finish_task_switch(struct thread *prev)
{
	struct cpu *cpu = this_cpu();
	bool leaves = prev->cpu != cpu->index;

	/* Before the unlock: after it another CPU may run prev and set on_cpu to true. */
	__atomic_store_n(&prev->on_cpu, false, __ATOMIC_RELEASE);
	spin_unlock(&cpu->rq_lock);
	if (leaves)
		join_queue(prev);
}

static void context_switch(struct cpu *cpu, struct thread *prev, struct thread *next, u64 now)
{
	if (unlikely(*(u64 *)prev->stack != STACK_END_MAGIC))
		panic("thread %d (%s) overran its stack", prev->pid, prev->comm);
	prev->turn = now - cpu->switched_at;
	prev->runtime += prev->turn;
	cpu->switched_at = now;
	cpu->switches++;
	next->on_cpu = true;
	update_timer(cpu, next, now);
	run_thread_hooks(THREAD_SWITCH, prev, next);
	finish_task_switch(__switch_to(prev, next));
}

/* Interrupts masked. A preempted thread stays runnable, whatever its state is. */
static void __schedule(bool preempted)
{
	struct cpu *cpu = this_cpu();
	struct thread *prev = current, *next;
	u64 now;

	spin_lock(&cpu->rq_lock);
	cpu->resched = 0;
	smp_mb(); /* other CPUs see this CPU's earlier accesses before they see the pass */
	WRITE_ONCE(cpu->grace, cpu->grace + 1);
	/* later loads come after the pass: they read what was published before the grace period */
	smp_mb();
	now = arch_counter();
	put_prev_task(cpu, prev, preempted);
	next = dequeue_task(cpu, false) ?: cpu->idle;
	if (next != prev) {
		TRACE(sched_switch, preempted, prev, next);
		context_switch(cpu, prev, next, now);
		return;
	}
	update_timer(cpu, next, now);
	spin_unlock(&cpu->rq_lock);
}

/* Inlined, so that stack traces show only schedule() or yield() above the caller. */
static __always_inline void leave_cpu(bool preempted)
{
	unsigned long flags = local_irq_save();

	if (unlikely(!preemptible()))
		panic("schedule() in a context that may not sleep (%08x)", current->ctx);
	__schedule(preempted);
	local_irq_restore(flags);
}

void schedule(void)
{
	leave_cpu(false);
}

void yield(void)
{
	leave_cpu(true);
}

void preempt_disable(void)
{
	current->ctx += CTX_PREEMPT;
	barrier();
	TRACE(preempt_disable, THIS_IP, CALLER);
}

void preempt_enable(void)
{
	TRACE(preempt_enable, THIS_IP, CALLER);
	barrier();
	current->ctx -= CTX_PREEMPT;
	if (unlikely(this_cpu()->resched) && preemptible() && !irqs_disabled())
		yield();
}

void thread_start(struct thread *prev)
{
	finish_task_switch(prev);
	TRACE(irq_enable, true, THIS_IP, CALLER, THIS_IP);
	irq_enable();
	thread_exit(current->fn(current->arg));
}

/* ---- interrupts ---- */

/* No call site: the flag must be set before the handler's first event. */
notrace void irq_enter(void)
{
	current->ctx |= CTX_HARDIRQ;
}

/*
 * The tracer does not check for a deferred reschedule: each event would pay for it. A thread that
 * mainly calls traced functions is inside the tracer at nearly every tick: without this early timer
 * it keeps its CPU for a second. The times between two retries differ: a loop that fits a whole
 * number of times into one time would be at the same instruction at each retry.
 */
static void retry_soon(struct cpu *cpu)
{
	static u8 spread;
	u64 soon = arch_counter() + ns_to_ticks(RETRY_NS + 100 * spread);

	WRITE_ONCE(spread, spread + 37);
	if (soon < cpu->timer) {
		cpu->timer = soon;
		timer_set(soon);
	}
}

/*
 * After Ctrl-C: end a program's thread instead of returning from this interrupt (thread.h). False:
 * it cannot end here, or this is the first such interrupt: a program that ends by itself after
 * Ctrl-C, as `sleep` does, gets time for it.
 */
static notrace bool end_program(struct trap_frame *regs)
{
	bool own = regs->pc >= (unsigned long)_apps && regs->pc < (unsigned long)_etext;
	bool first = !current->end_is_due;

	current->end_is_due = true;
	if (first || !own || current->mutexes || current->ctx >= CTX_PREEMPT)
		return false;
	regs->x[REG_LINK] = regs->pc; /* as if it had called end() */
	regs->pc = (unsigned long)current->end;
	return true;
}

notrace void irq_exit(struct trap_frame *regs)
{
	struct cpu *cpu = this_cpu();
	bool due = READ_ONCE(cpu->resched); /* once: another CPU may set it at any moment */
	bool ends = unlikely(interrupted()) && current->end;
	bool traces = (due || ends) && (cpu->recursion || in_tracer(regs->pc));
	bool deferred = due && traces;

	if (deferred || (ends && (traces || !end_program(regs))))
		retry_soon(cpu);
	current->ctx &= ~CTX_HARDIRQ;
	if (due && !deferred && preemptible())
		__schedule(true);
}

static void wake_sleepers(struct cpu *cpu, u64 now)
{
	while (cpu->sleepers && cpu->sleepers->wake_at <= now) {
		struct thread *t = cpu->sleepers;

		TRACE(sched_waking, t);
		dequeue_sleeper(cpu, t);
		activate_task(cpu, t);
		TRACE(sched_wakeup, t);
	}
}

void sched_tick(void)
{
	struct cpu *cpu = this_cpu();
	u64 now = arch_counter();

	spin_lock(&cpu->rq_lock);
	wake_sleepers(cpu, now);
	if (cpu->running != cpu->idle && cpu->next_tick <= now && cpu->runqueue) {
		kick_for(cpu);
		cpu->resched = CTX_NEED_RESCHED;
	}
	cpu->timer = next_deadline(cpu, cpu->running, now);
	timer_set(cpu->timer);
	spin_unlock(&cpu->rq_lock);
}

/* ---- waking and sleeping ---- */

/* Take the run-queue lock of @t's CPU; @t may move to another CPU during the wait for the lock. */
static struct cpu *task_rq_lock(struct thread *t)
{
	for (;;) {
		struct cpu *cpu = cpu_of(READ_ONCE(t->cpu));

		spin_lock(&cpu->rq_lock);
		if (cpu->index == t->cpu)
			return cpu;
		spin_unlock(&cpu->rq_lock);
	}
}

void task_call_func(struct thread *t, void (*fn)(struct thread *t, void *arg), void *arg)
{
	unsigned long flags = local_irq_save();
	struct cpu *cpu = task_rq_lock(t);

	fn(t, arg);
	spin_unlock(&cpu->rq_lock);
	local_irq_restore(flags);
}

/*
 * During a migration t->cpu is the new CPU, which runs another thread: t->runtime is complete then.
 */
static void add_up(struct thread *t, void *ticks)
{
	const struct cpu *cpu = cpu_of(t->cpu);
	s64 slice = arch_counter() - cpu->switched_at;

	*(u64 *)ticks = t->runtime + (cpu->running == t && slice > 0 ? slice : 0);
}

u64 thread_runtime(struct thread *t)
{
	u64 ticks;

	task_call_func(t, add_up, &ticks);
	return ticks;
}

void wake_up_process(struct thread *t)
{
	unsigned long flags = local_irq_save();
	struct cpu *cpu = task_rq_lock(t);

	if (t->state == THREAD_SLEEPING) {
		TRACE(sched_waking, t);
		if (cpu->running == t || t->queued) {
			t->state = THREAD_RUNNING;
		} else {
			if (t->wake_at)
				dequeue_sleeper(cpu, t);
			activate_task(cpu, t);
		}
		TRACE(sched_wakeup, t);
	}
	spin_unlock(&cpu->rq_lock);
	local_irq_restore(flags);
}

static struct cpu *select_task_rq(const struct thread *t)
{
	struct cpu *here = this_cpu();

	if (t->pinned >= 0)
		return cpu_of(t->pinned);
	for (unsigned i = 0; i < nr_cpus; i++) {
		struct cpu *cpu = cpu_of((here->index + i) % nr_cpus);

		if (cpu->online && READ_ONCE(cpu->running) == cpu->idle &&
		    !READ_ONCE(cpu->runqueue))
			return cpu;
	}
	return here;
}

void wake_up_new_task(struct thread *t)
{
	unsigned long flags = local_irq_save();
	struct cpu *cpu = task_rq_lock(t);

	give_to_cpu(t, select_task_rq(t)->index);
	TRACE(sched_wakeup_new, t);
	spin_unlock(&cpu->rq_lock);
	join_queue(t);
	local_irq_restore(flags);
}

void sleep_ns(u64 ns)
{
	u64 end = arch_counter() + ns_to_ticks(MIN(ns, SLEEP_NS_MAX)) + 1;

	for (;;) {
		current->state = THREAD_SLEEPING;
		smp_mb(); /* store state before reading the flag; pairs with thread_interrupt() */
		if (interrupted() || arch_counter() >= end)
			break;
		current->wake_at = end;
		schedule();
	}
	current->wake_at = 0;
	current->state = THREAD_RUNNING;
}

void thread_interrupt(struct thread *t)
{
	WRITE_ONCE(t->interrupted, true);
	smp_mb();
	wake_up_process(t);
}

void set_cpu_affinity(int cpu)
{
	current->pinned = cpu >= 0 && cpu_of(cpu)->online ? cpu : -1;
	if (current->pinned >= 0)
		yield();
}

void synchronize_sched(void)
{
	u64 seen[NR_CPUS] = {0};

	smp_mb(); /* the caller's earlier stores come before the first read of `grace` */
	for (unsigned i = 0; i < nr_cpus; i++) {
		seen[i] = READ_ONCE(cpu_of(i)->grace);
		if (cpu_of(i)->online)
			resched_curr(cpu_of(i));
	}
	yield();
	for (unsigned i = 0; i < nr_cpus; i++)
		while (cpu_of(i)->online && READ_ONCE(cpu_of(i)->grace) == seen[i])
			yield();
	smp_mb();
}

/* ---- the idle threads ---- */

void init_idle(struct thread *t, struct cpu *cpu)
{
	snprintf(t->comm, sizeof(t->comm), "swapper/%u", cpu->index);
	t->pinned = t->cpu = cpu->index;
	t->on_cpu = true;
	cpu->switched_at = arch_counter();
	*(u64 *)t->stack = STACK_END_MAGIC;
	cpu->idle = cpu->running = t;
	cpu->runqueue_end = &cpu->runqueue;
	cpu->timer = TIMER_NEVER;
	cpu->context_bit = 1;
	cpu->boot_stack = (char *)t->stack + THREAD_SIZE;
}

static struct thread *steal_from(struct cpu *other, struct cpu *to)
{
	struct thread *t;

	spin_lock(&other->rq_lock);
	t = dequeue_task(other, true);
	if (t) {
		TRACE(sched_migrate_task, t, to->index);
		give_to_cpu(t, to->index);
	}
	spin_unlock(&other->rq_lock);
	return t;
}

/*
 * Steal a thread from another busy CPU. Other CPUs see this CPU as idle already:
 * a CPU that queues a thread after the check here calls kick_for().
 */
static void pull_task(struct cpu *cpu)
{
	struct thread *t = NULL;

	smp_mb();
	for (unsigned i = 1; i < nr_cpus && !t; i++) {
		struct cpu *other = cpu_of((cpu->index + i) % nr_cpus);

		if (READ_ONCE(other->runqueue) && READ_ONCE(other->running) != other->idle)
			t = steal_from(other, cpu);
	}
	if (t)
		join_queue(t);
}

/* Waits with interrupts masked, so that no interrupt comes between the test and the wait. */
void do_idle(void)
{
	for (;;) {
		struct cpu *cpu = this_cpu();

		irq_disable();
		pull_task(cpu);
		if (!READ_ONCE(cpu->resched))
			cpu_idle_wait();
		irq_enable();
		schedule();
	}
}

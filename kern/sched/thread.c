/*
 * Creation, exit and pids of threads. A thread's memory is freed when it is joined.
 */
#include "errno.h"
#include "print.h"
#include "sched.h"
#include "string.h"

#define PID_MAX 4096
#define STACK_ORDER 2
_Static_assert(PAGE_SIZE << STACK_ORDER == THREAD_SIZE, "a stack is 2^STACK_ORDER pages");

static struct thread *all_threads; /* under threads_lock */
static struct spinlock threads_lock;
static int last_pid;
static struct wait_queue exits;

/*
 * Below each stack is an unmapped gap of the same size: an overflow faults before
 * it overwrites other memory. A stack is never unmapped; unused stacks are linked
 * through their lowest words.
 */
static void *free_stacks; /* under stacks_lock */
static struct spinlock stacks_lock;
static unsigned long next_stack = STACK_BASE + THREAD_SIZE;

static bool pid_in_use(int pid)
{
	for (struct thread *t = all_threads; t; t = t->all_next)
		if (t->pid == pid)
			return true;
	return false;
}

/* Pids increase until they wrap, so that a dead thread's pid is not reused soon. */
static bool publish(struct thread *t)
{
	unsigned long flags = spin_lock_irqsave(&threads_lock);
	int tries = PID_MAX;

	do
		last_pid = last_pid % (PID_MAX - 1) + 1;
	while (pid_in_use(last_pid) && --tries);
	if (tries) {
		/* under the lock: process_interrupt() does not miss it */
		t->interrupted = t->process && interrupted();
		t->pid = last_pid;
		t->all_next = all_threads;
		all_threads = t;
	}
	spin_unlock_irqrestore(&threads_lock, flags);
	return tries;
}

static void unpublish(struct thread *t)
{
	unsigned long flags = spin_lock_irqsave(&threads_lock);
	struct thread **at = &all_threads;

	while (*at != t)
		at = &(*at)->all_next;
	*at = t->all_next;
	spin_unlock_irqrestore(&threads_lock, flags);
}

void threads_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
	unsigned long flags = spin_lock_irqsave(&threads_lock);

	for (struct thread *t = all_threads; t; t = t->all_next)
		fn(t, arg);
	spin_unlock_irqrestore(&threads_lock, flags);
}

void threads_and_idle_for_each(void (*fn)(struct thread *t, void *arg), void *arg)
{
	threads_for_each(fn, arg);
	for (unsigned i = nr_cpus; i--;)
		fn(cpu_of(i)->idle, arg);
}

static void *map_stack(void)
{
	void *pages = page_alloc(STACK_ORDER);
	unsigned long va;

	if (!pages)
		return NULL;
	va = __atomic_fetch_add(&next_stack, 2 * THREAD_SIZE, __ATOMIC_RELAXED);
	if (mmu_map(va, virt_to_phys(pages), THREAD_SIZE, PROT_READ | PROT_WRITE)) {
		page_free(pages, STACK_ORDER);
		return NULL;
	}
	arch_tlb_flush_all(); /* a CPU may have cached that the address was not mapped */
	return (void *)va;
}

unsigned thread_stacks(void)
{
	return (READ_ONCE(next_stack) - STACK_BASE) / (2 * THREAD_SIZE);
}

static void *alloc_stack(void)
{
	unsigned long flags = spin_lock_irqsave(&stacks_lock);
	void **stack = free_stacks;

	if (stack)
		free_stacks = *stack;
	spin_unlock_irqrestore(&stacks_lock, flags);
	return stack ? stack : map_stack();
}

static void free_stack(void **stack)
{
	unsigned long flags = spin_lock_irqsave(&stacks_lock);

	*stack = free_stacks;
	free_stacks = stack;
	spin_unlock_irqrestore(&stacks_lock, flags);
}

struct thread *alloc_thread(const char *name)
{
	struct thread *t = kzalloc(sizeof(*t));

	if (!t)
		return NULL;
	t->stack = alloc_stack();
	if (!t->stack) {
		kfree(t);
		return NULL;
	}
	*(u64 *)t->stack = STACK_END_MAGIC;
	strlcpy(t->comm, name, sizeof(t->comm));
	t->pinned = -1;
	return t;
}

static void free_thread(struct thread *t)
{
	run_thread_hooks(THREAD_FREED, t, NULL);
	free_stack(t->stack);
	kfree(t);
}

static struct thread *kernel_clone(int (*fn)(void *), void *arg, int cpu, const char *name)
{
	struct thread *t;

	if (cpu >= 0 && !cpu_of(cpu)->online)
		return NULL;
	t = alloc_thread(name);
	if (!t)
		return NULL;
	t->fn = fn;
	t->arg = arg;
	t->pinned = cpu;
	t->in = current->in;
	t->out = current->out;
	t->cwd = current->cwd;
	t->process = current->process;
	t->end = current->end;
	t->context.pc = (unsigned long)thread_start_asm;
	t->context.sp = (unsigned long)t->stack + THREAD_SIZE;
	if (!publish(t)) {
		free_thread(t);
		return NULL;
	}
	run_thread_hooks(THREAD_BORN, current, t);
	TRACE(sched_process_fork, current, t);
	wake_up_new_task(t);
	return t;
}

struct thread *kthread_run(int (*fn)(void *), void *arg, int cpu, const char *name)
{
	return kernel_clone(fn, arg, cpu, name);
}

static void set_dead(struct thread *t, void *unused)
{
	__atomic_store_n(&t->state, THREAD_DEAD, __ATOMIC_RELEASE);
}

void thread_exit(int code)
{
	TRACE(sched_process_exit, current);
	run_thread_hooks(THREAD_DIES, current, NULL);
	current->exit_code = code;
	local_irq_save();
	task_call_func(current, set_dead, NULL);
	wake_up(&exits);
	schedule();
	panic("a dead thread was scheduled");
}

bool thread_done(struct thread *t)
{
	return __atomic_load_n(&t->state, __ATOMIC_ACQUIRE) == THREAD_DEAD;
}

bool thread_wait(struct thread *t, bool main)
{
	wait_event(&exits,
		   thread_done(t) || (main && READ_ONCE(t->main_returned)) || interrupted());
	return thread_done(t);
}

void thread_main_returned(void)
{
	WRITE_ONCE(current->main_returned, true);
	wake_up(&exits);
}

/* ---- the threads of a program ---- */

void end_if_interrupted(void)
{
	if (unlikely(interrupted()) && current->end && !current->mutexes)
		current->end();
}

struct others {
	const void *process;
	unsigned running;
	struct thread *one;
};

static void note_other(struct thread *t, void *arg)
{
	struct others *others = arg;

	if (t == current || t->process != others->process)
		return;
	others->running += !thread_done(t);
	others->one = t;
}

static struct others others_of(const void *process)
{
	struct others others = {process};

	threads_for_each(note_other, &others);
	return others;
}

unsigned process_threads(const void *process)
{
	return process ? others_of(process).running + (current->process == process) : 0;
}

bool process_wait(void)
{
	wait_event(&exits, process_threads(current->process) == 1 || interrupted());
	return process_threads(current->process) == 1;
}

static void interrupt_other(struct thread *t, void *process)
{
	if (t != current && t->process == process)
		thread_interrupt(t);
}

void process_interrupt(void)
{
	threads_for_each(interrupt_other, current->process);
}

void process_join(void)
{
	struct thread *t;

	wait_event(&exits, process_threads(current->process) == 1);
	while ((t = others_of(current->process).one))
		thread_join(t);
}

int thread_join(struct thread *t)
{
	int code;

	wait_event(&exits, thread_done(t) || (interrupted() && current->end));
	/*
	 * Ctrl-C ended @t, and ends this thread next, unless it holds a mutex: others may still use
	 * @t's stack
	 */
	if (current->end && !t->end)
		wait_event(&exits, interrupted());
	end_if_interrupted();
	wait_event(&exits, thread_done(t));
	while (__atomic_load_n(&t->on_cpu, __ATOMIC_ACQUIRE))
		yield();
	code = t->exit_code;
	unpublish(t);
	free_thread(t);
	return code;
}

/*
 * Stop the machine: each other CPU waits in a call that this CPU sends to it. Also
 * walks every thread's stack while the machine is stopped.
 */
#include "stop.h"

#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "unwind.h"

/* Not on the caller's stack: a CPU that takes the call too late still finds its request. */
static struct mutex stop_lock;
static struct smp_call stop_calls[NR_CPUS]; /* fn is NULL: never sent */
static bool stopping;
static const struct unwind *stopped[NR_CPUS]; /* where the CPU's stack was; NULL: it runs */

/*
 * In smp_call's interrupt. A CPU that takes the call after the caller has given up goes on at
 * once. Each IPI ends cpu_idle_wait(): that of let_others_go(), and one a second of the watchdog.
 * While any other interrupt is pending, which this CPU cannot take here, the loop is busy.
 */
static notrace void wait_while_stopping(void *unused)
{
	struct unwind here;

	unwind_start_here(&here);
	__atomic_store_n(&stopped[this_cpu()->index], &here, __ATOMIC_RELEASE);
	while (__atomic_load_n(&stopping, __ATOMIC_ACQUIRE)) {
		watchdog_touch();
		cpu_idle_wait();
	}
	WRITE_ONCE(stopped[this_cpu()->index], NULL);
}

static bool is_stopped(unsigned index)
{
	return __atomic_load_n(&stopped[index], __ATOMIC_ACQUIRE);
}

static bool has_gone_on(unsigned index)
{
	return !stop_calls[index].fn || __atomic_load_n(&stop_calls[index].done, __ATOMIC_ACQUIRE);
}

/*
 * Wait until is_so() is true for each CPU of @mask. Return: -1; or the index of a CPU for which it
 * is not true, and that the watchdog has reported.
 */
static int wait_for_each(unsigned long mask, bool (*is_so)(unsigned index))
{
	for (unsigned i = 0; i < NR_CPUS; i++) {
		u32 reports = READ_ONCE(cpu_of(i)->reports);

		while (mask >> i & 1 && !is_so(i)) {
			if (READ_ONCE(cpu_of(i)->reports) != reports)
				return i;
			watchdog_touch();
			cpu_relax();
		}
	}
	return -1;
}

/*
 * Interrupts stay on during the wait: a CPU that waits for this one to run a call can go on, and
 * then stops.
 */
static int stop_others(unsigned long mask)
{
	WRITE_ONCE(stopping, true);
	for (unsigned i = 0; i < NR_CPUS; i++)
		if (mask >> i & 1) {
			stop_calls[i] = (struct smp_call){wait_while_stopping, NULL};
			smp_push_call(cpu_of(i), &stop_calls[i]);
		}
	return wait_for_each(mask, is_stopped);
}

static void let_others_go(unsigned long mask)
{
	__atomic_store_n(&stopping, false, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < NR_CPUS; i++)
		if (mask >> i & 1)
			ipi_send(i, IPI_RESCHEDULE);
}

int stop_machine(int (*fn)(void *), void *arg)
{
	int result = -ETIMEDOUT, late;
	unsigned long others;

	mutex_lock(&stop_lock);
	preempt_disable();
	others = other_cpus();
	late = wait_for_each(others, has_gone_on); /* also a CPU that took the last call too late */
	if (late < 0) {
		late = stop_others(others);
		if (late < 0) {
			unsigned long flags = local_irq_save();

			result = fn(arg);
			local_irq_restore(flags);
		}
		let_others_go(others);
	}
	preempt_enable();
	mutex_unlock(&stop_lock);
	if (late >= 0)
		printk("stop_machine: CPU %d does not stop\n", late);
	return result;
}

/* ---- Which threads are inside a range of text ---- */

struct inside {
	unsigned long start, size;
	bool own;
	unsigned count;
	struct thread *one;
};

static bool has(const struct inside *range, unsigned long pc)
{
	return pc - range->start < range->size;
}

/* The CPU that runs @t, or NULL. Every CPU is stopped. */
static const struct cpu *runs_on(const struct thread *t)
{
	for (unsigned i = 0; i < NR_CPUS; i++)
		if (cpu_of(i)->online && cpu_of(i)->running == t)
			return cpu_of(i);
	return NULL;
}

static void start_at_top(struct unwind *u, struct thread *t)
{
	const struct cpu *cpu = runs_on(t);

	if (!cpu)
		unwind_start_at(u, t, t->context.pc, t->context.fp, t->context.sp);
	else if (stopped[cpu->index])
		*u = *stopped[cpu->index];
	else
		unwind_start_here(u);
}

/* A return address may be the first one after the range: its call is inside. */
static void count_if_inside(struct thread *t, void *arg)
{
	struct inside *range = arg;
	bool inside = has(range, (unsigned long)t->fn);
	struct unwind u;

	if (thread_done(t) || (inside && !range->own))
		return;
	start_at_top(&u, t);
	do
		inside = inside || has(range, unwind_entry(&u) - 1);
	while (!inside && unwind_next(&u));
	range->count += inside;
	if (inside)
		range->one = t;
}

unsigned threads_inside(unsigned long start, unsigned long end, bool own, struct thread **one)
{
	struct inside range = {start, end - start, own};

	threads_and_idle_for_each(count_if_inside, &range);
	if (one)
		*one = range.one;
	return range.count;
}

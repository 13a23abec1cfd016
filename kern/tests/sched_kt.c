/*
 * What thread.h and cpu.h promise, promise by promise: `test-sched`. smp_kt.c
 * has everything at once.
 */
#include "cpu.h"
#include "ftrace/tests/kt.h"
#include "irq.h"
#include "print.h"
#include "shell.h"
#include "string.h"

#define MS 1000000ul
#define MANY 64
/*
 * A thread that is not there by then never comes. The clock goes on while the host does not run a
 * CPU, often for half a second.
 */
#define PATIENCE (10000 * MS)

static u32 stop;
static u64 spins[2];

static int spin(void *arg)
{
	u64 *count = arg;

	while (!READ_ONCE(stop))
		WRITE_ONCE(*count, *count + 1);
	return 7;
}

static bool share_alike(void)
{
	u64 a = READ_ONCE(spins[0]), b = READ_ONCE(spins[1]);

	return a / 8 < b && b / 8 < a;
}

static void preemption(void)
{
	u64 end = clock_ns() + PATIENCE;
	struct thread *a, *b;

	stop = spins[0] = spins[1] = 0;
	a = kthread_run(spin, &spins[0], 0, "spin-a");
	b = kthread_run(spin, &spins[1], 0, "spin-b");
	do
		sleep_ns(200 * MS);
	while (!share_alike() && clock_ns() < end);
	WRITE_ONCE(stop, 1);
	kt_promise(thread_join(a) == 7 && thread_join(b) == 7, "a join returns the exit code");
	kt_promise(share_alike(), "two loops on one CPU share it: %lu, %lu",
		   (unsigned long)spins[0], (unsigned long)spins[1]);
}

static void affinity(void)
{
	unsigned right = 0;

	for (unsigned i = 0; i < 3 * nr_cpus; i++) {
		set_cpu_affinity(i % nr_cpus);
		for (int j = 0; j < 3; j++)
			yield();
		preempt_disable();
		right += this_cpu()->index == i % nr_cpus;
		preempt_enable();
	}
	set_cpu_affinity(-1);
	kt_promise(right == 3 * nr_cpus, "a pinned thread runs on its CPU only: %u of %u times",
		   right, 3 * nr_cpus);
}

static u64 loops_on[NR_CPUS]; /* the bit of the CPU where each loop ran last; 0: it has not begun */

static int where(void *mine)
{
	while (!READ_ONCE(stop))
		WRITE_ONCE(*(u64 *)mine, 1ul << READ_ONCE(current->cpu));
	return 0;
}

static bool everyone_loops(unsigned first)
{
	for (unsigned i = first; i < nr_cpus; i++)
		if (!READ_ONCE(loops_on[i]))
			return false;
	return true;
}

static unsigned long cpus_with_loops(void)
{
	unsigned long mask = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		mask |= READ_ONCE(loops_on[i]);
	return mask;
}

/* As many loops as CPUs, all made on one CPU and not pinned: each CPU must get one. */
static void stealing(void)
{
	struct thread *t[NR_CPUS];
	u64 end = clock_ns() + PATIENCE;
	bool all;

	stop = 0;
	memset(loops_on, 0, sizeof(loops_on));
	for (unsigned i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(where, &loops_on[i], -1, "where");
	do {
		sleep_ns(MS);
		all = everyone_loops(0) &&
		      __builtin_popcountl(cpus_with_loops()) + 1 >= (int)nr_cpus;
	} while (!all && clock_ns() < end);
	WRITE_ONCE(stop, 1);
	for (unsigned i = 0; i < nr_cpus; i++)
		thread_join(t[i]);
	kt_promise(all, "idle CPUs take work: mask %lx", cpus_with_loops());
}

/*
 * A CPU that leaves its last thread is held where it has found nothing to do and
 * is not idle yet. A thread that is queued on another CPU meanwhile must be
 * taken without that CPU's help: its interrupts are masked, so it has no tick.
 */
static struct thread *leaver;
static u32 held, arrived;

static notrace void hold_at_switch(enum thread_event event, struct thread *prev,
				   struct thread *next)
{
	u64 end = clock_ns() + PATIENCE;

	if (event != THREAD_SWITCH || prev != READ_ONCE(leaver) || next != this_cpu()->idle)
		return;
	WRITE_ONCE(held, 1);
	while (READ_ONCE(leaver) && clock_ns() < end)
		cpu_relax();
}
THREAD_HOOK(hold_at_switch);

static int leave(void *arg)
{
	while (READ_ONCE(leaver) != current)
		cpu_relax();
	return 0;
}

static int arrive(void *arg)
{
	WRITE_ONCE(arrived, 1);
	return 0;
}

static bool becomes(u32 *flag)
{
	u64 end = clock_ns() + PATIENCE;

	while (!READ_ONCE(*flag) && clock_ns() < end)
		cpu_relax();
	return READ_ONCE(*flag);
}

/* As if it were in a callback, so that the idle thread itself schedules, not its interrupt. */
static void leave_by_schedule(void *recursion)
{
	this_cpu()->recursion = (unsigned long)recursion;
}

static bool taken_from_masked_cpu(void)
{
	struct thread *leaves, *comes;
	unsigned long flags;
	bool taken;

	smp_call(1, leave_by_schedule, (void *)1);
	leaves = kthread_run(leave, NULL, 1, "leaves");
	flags = irq_save();
	WRITE_ONCE(leaver, leaves);
	taken = becomes(&held);
	comes = kthread_run(arrive, NULL, -1, "comes");
	WRITE_ONCE(leaver, NULL);
	taken &= becomes(&arrived);
	irq_restore(flags);
	smp_call(1, leave_by_schedule, (void *)0);
	thread_join(leaves);
	thread_join(comes);
	return taken;
}

static int move(void *arg)
{
	while (READ_ONCE(leaver) != current)
		cpu_relax();
	set_cpu_affinity(2);
	return 0;
}

/* Held on its way to a CPU that has been idle for long: that is not its time. */
static void runtimes(void)
{
	struct thread *t;
	u64 born, ran, lived;

	if (nr_cpus < 3)
		return;
	set_cpu_affinity(0);
	sleep_ns(50 * MS);
	held = 0;
	born = arch_counter();
	t = kthread_run(move, NULL, 1, "moves");
	WRITE_ONCE(leaver, t);
	becomes(&held);
	ran = thread_runtime(t);
	lived = arch_counter() - born;
	WRITE_ONCE(leaver, NULL);
	thread_join(t);
	set_cpu_affinity(-1);
	kt_promise(
		ran && ran <= lived, "a thread that changed CPUs ran %lu us, in a life of %lu us",
		(unsigned long)ticks_to_ns(ran) / 1000, (unsigned long)ticks_to_ns(lived) / 1000);
}

static void going_idle(void)
{
	struct thread *busy[NR_CPUS];
	bool taken;

	if (nr_cpus < 2)
		return;
	stop = held = arrived = 0;
	memset(loops_on, 0, sizeof(loops_on));
	set_cpu_affinity(0);
	for (unsigned i = 2; i < nr_cpus; i++)
		busy[i] = kthread_run(where, &loops_on[i], i, "busy");
	do
		sleep_ns(MS);
	while (!everyone_loops(2));
	taken = taken_from_masked_cpu();
	WRITE_ONCE(stop, 1);
	for (unsigned i = 2; i < nr_cpus; i++)
		thread_join(busy[i]);
	set_cpu_affinity(-1);
	kt_promise(taken, "a CPU that is about to idle runs a thread that was just queued");
}

/*
 * While a CPU holds the run-queue lock of a thread's CPU, the thread stays on
 * that CPU. Here the thread is new, and its creator waits until another CPU has
 * the lock.
 */
static struct thread *newborn;
static u32 creating, looks, stayed;

static void look_at_cpu(struct thread *t, void *unused)
{
	u64 end = clock_ns() + 50 * MS;
	u8 cpu = t->cpu;

	WRITE_ONCE(looks, 1);
	while (READ_ONCE(t->cpu) == cpu && clock_ns() < end)
		cpu_relax();
	stayed = t->cpu == cpu;
}

static int look(void *unused)
{
	while (!READ_ONCE(newborn))
		yield();
	task_call_func(newborn, look_at_cpu, NULL);
	return 0;
}

static notrace void wait_for_look(enum thread_event event, struct thread *prev, struct thread *next)
{
	if (event != THREAD_BORN || !READ_ONCE(creating))
		return;
	WRITE_ONCE(newborn, next);
	while (!READ_ONCE(looks))
		cpu_relax();
}
THREAD_HOOK(wait_for_look);

static void new_threads_cpu(void)
{
	struct thread *looker, *t;

	if (nr_cpus < 2)
		return;
	newborn = NULL;
	looks = stayed = 0;
	set_cpu_affinity(0);
	looker = kthread_run(look, NULL, 1, "looks");
	WRITE_ONCE(creating, 1);
	t = kthread_run(arrive, NULL, 1, "newborn");
	WRITE_ONCE(creating, 0);
	thread_join(looker);
	thread_join(t);
	set_cpu_affinity(-1);
	kt_promise(stayed, "a new thread does not change its CPU while that CPU's lock is held");
}

static struct mutex lock;
static u64 guarded;

static int count_guarded(void *arg)
{
	for (int i = 0; i < 500; i++) {
		mutex_lock(&lock);
		u64 seen = READ_ONCE(guarded);

		if (i % 50 == 0)
			yield();
		WRITE_ONCE(guarded, seen + 1);
		mutex_unlock(&lock);
	}
	return 0;
}

static void mutexes(void)
{
	struct thread *t[8];

	guarded = 0;
	for (int i = 0; i < 8; i++)
		t[i] = kthread_run(count_guarded, NULL, -1, "guarded");
	for (int i = 0; i < 8; i++)
		thread_join(t[i]);
	kt_promise(guarded == 4000, "a mutex admits one at a time: %lu of 4000",
		   (unsigned long)guarded);
	mutex_lock(&lock);
	kt_promise(!mutex_trylock(&lock), "mutex_trylock() of a held mutex fails");
	mutex_unlock(&lock);
}

static struct wait_queue queue;
static u32 event;

static int wake_later(void *arg)
{
	sleep_ns(20 * MS);
	WRITE_ONCE(event, 1);
	wake_up(&queue);
	return 0;
}

static void wait_queues(void)
{
	struct thread *t;

	event = 0;
	t = kthread_run(wake_later, NULL, -1, "waker");
	wait_event(&queue, READ_ONCE(event));
	kt_promise(event, "a wait ends when it is woken");
	thread_join(t);
}

static u64 slept(u64 ns)
{
	u64 began = clock_ns();

	sleep_ns(ns);
	return clock_ns() - began;
}

#define NOT_LATE (200 * MS)

/*
 * A length whose end came late is tried again: the host may have had no time for the CPU just then.
 */
static void sleeping(void)
{
	u64 least = ~0ul, most = 0;

	for (int i = 1; i <= 20; i++) {
		u64 want = i * MS / 2, late = ~0ul;

		for (int tries = 0; tries < 20 && late >= NOT_LATE; tries++) {
			u64 took = slept(want);

			least = MIN(least, took * 1000 / want);
			late = took - want;
		}
		most = MAX(most, late);
	}
	kt_promise(least >= 1000, "a sleep is never short: the shortest was %lu of 1000",
		   (unsigned long)least);
	kt_promise(most < NOT_LATE, "a sleep is not long: the longest was %lu us late",
		   (unsigned long)most / 1000);
}

static int sleep_long(void *arg)
{
	sleep_ns(60000 * MS);
	return interrupted();
}

static void interruption(void)
{
	u64 began = clock_ns();
	struct thread *t = kthread_run(sleep_long, NULL, -1, "sleeper");

	sleep_ns(10 * MS);
	thread_interrupt(t);
	kt_promise(thread_join(t) == 1 && clock_ns() - began < PATIENCE,
		   "an interruption ends a sleep");
}

static u64 served[NR_CPUS];

static void serve(void *arg)
{
	u64 *count = arg;

	if (current->ctx & CTX_HARDIRQ)
		(*count)++;
}

static int call_across(void *arg)
{
	unsigned to = (unsigned long)arg;

	for (int i = 0; i < 50; i++)
		smp_call(to, serve, &served[to]);
	return 0;
}

static void calls(void)
{
	struct thread *t[NR_CPUS];
	u64 sum = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		served[i] = 0;
	for (unsigned long i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(call_across, (void *)((i + 1) % nr_cpus), i, "caller");
	for (unsigned i = 0; i < nr_cpus; i++)
		thread_join(t[i]);
	for (unsigned i = 0; i < nr_cpus; i++)
		sum += served[i];
	kt_promise(sum == 50 * nr_cpus,
		   "every call between CPUs is served, in an interrupt: %lu of %u",
		   (unsigned long)sum, 50 * nr_cpus);
}

static u64 *published, value_before, value_after;
static u64 stale;

/* Reads through `published` without being preempted; what was unpublished must not change. */
static int reader(void *arg)
{
	while (!READ_ONCE(stop)) {
		preempt_disable();
		u64 *p = READ_ONCE(published), first = READ_ONCE(*p);

		for (int i = 0; i < 500; i++)
			if (READ_ONCE(*p) != first)
				__atomic_fetch_add(&stale, 1, __ATOMIC_RELAXED);
		preempt_enable();
	}
	return 0;
}

static void passes_of_idle_cpus(void)
{
	u64 before[NR_CPUS] = {0};
	unsigned passed = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		before[i] = cpu_of(i)->grace;
	synchronize_sched();
	for (unsigned i = 0; i < nr_cpus; i++)
		passed += cpu_of(i)->grace != before[i];
	kt_promise(passed == nr_cpus,
		   "a grace period ends when each CPU, idle or not, has passed through schedule() "
		   "(%u of %u)",
		   passed, nr_cpus);
}

static void grace(void)
{
	struct thread *t[NR_CPUS];

	stop = stale = 0;
	published = &value_before;
	for (unsigned i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(reader, NULL, i, "reader");
	for (int i = 0; i < 30; i++) {
		u64 *old = published;

		WRITE_ONCE(published, old == &value_before ? &value_after : &value_before);
		synchronize_sched();
		WRITE_ONCE(*old, i + 1000);
	}
	WRITE_ONCE(stop, 1);
	for (unsigned i = 0; i < nr_cpus; i++)
		thread_join(t[i]);
	kt_promise(!stale, "after a grace period no CPU reads the old value: %lu did",
		   (unsigned long)stale);
	passes_of_idle_cpus();
}

static unsigned put_off_and_forgotten;

/* Does an interrupt at @pc switch threads, when a switch is due? */
static bool interrupt_switches(unsigned long pc)
{
	struct trap_frame regs = {.pc = pc};
	unsigned long flags = irq_save();
	struct cpu *cpu = this_cpu(); /* its caller is pinned */
	u64 passes = cpu->grace;
	bool switched;

	irq_enter();
	cpu->resched = CTX_NEED_RESCHED;
	cpu->timer = TIMER_NEVER;
	irq_exit(&regs);
	/* another CPU may have set `resched` again: the watchdog does each second */
	switched = cpu->grace != passes;
	put_off_and_forgotten += !switched && cpu->timer == TIMER_NEVER;
	irq_restore(flags);
	return switched;
}

static void tracer_is_not_preempted(void)
{
	unsigned texts = 0, right = 0;

	set_cpu_affinity(this_cpu()->index);
	TABLE_FOR_EACH(const struct text_range, ftrace_text, r) {
		texts++;
		right += interrupt_switches(r->start - 4) && !interrupt_switches(r->start) &&
			 !interrupt_switches(r->end - 4) && interrupt_switches(r->end);
	}
	set_cpu_affinity(-1);
	kt_promise(texts && right == texts,
		   "an interrupt switches threads, but not in the tracer's text: %u of %u", right,
		   texts);
	kt_promise(!put_off_and_forgotten,
		   "a switch that the tracer put off is tried again soon: %u forgotten",
		   put_off_and_forgotten);
}

static int name_pid(void *arg)
{
	return current->pid & 0xff;
}

static void births(void)
{
	struct thread *t[MANY];
	unsigned long pages = pages_free_count(), left, kept = thread_stacks();
	unsigned right = 0;

	for (int i = 0; i < MANY; i++)
		t[i] = kthread_run(name_pid, NULL, -1, "many");
	for (int i = 0; i < MANY; i++) {
		int pid = t[i]->pid;

		right += pid > 0 && thread_join(t[i]) == (pid & 0xff);
	}
	kt_promise(right == MANY, "threads have pids and end with their codes: %u of %u", right,
		   MANY);
	left = pages_free_count();
	kept = (thread_stacks() - kept) * (THREAD_SIZE / PAGE_SIZE);
	kt_promise(left + kept + 32 >= pages,
		   "the threads' memory is free again: %lu pages before, %lu after, %lu kept for "
		   "stacks",
		   pages, left, kept);
}

/*
 * ---- `test-sched dying N`: threads exit while they are woken up. run_qemu.py forces the
 * interleavings. ----
 */

static __noinline notrace void about_to_die(void)
{
	barrier();
}

static int dies(void *unused)
{
	irq_disable(); /* a tick would wait for a lock that a held CPU has */
	prepare_to_wait(&queue);
	about_to_die(); /* its state is THREAD_SLEEPING */
	finish_wait(&queue);
	return 0;
}

static __noinline int wake_dying_threads(u64 n)
{
	set_cpu_affinity(0);
	while (n--) {
		struct thread *t = kthread_run(dies, NULL, 1, "dies");

		wake_up_process(t);
		kt_promise(!thread_join(t), "a thread that exits while it is woken up");
	}
	set_cpu_affinity(-1);
	return kt_end();
}

static int test_sched(int argc, char **argv)
{
	static void (*const tests[])(void) = {
		preemption,
		affinity,
		runtimes,
		stealing,
		going_idle,
		new_threads_cpu,
		mutexes,
		wait_queues,
		sleeping,
		interruption,
		calls,
		grace,
		tracer_is_not_preempted,
		births,
	};

	u64 n;

	kt_begin();
	if (argc == 3 && !kstrtou64(argv[2], 10, &n))
		return wake_dying_threads(n);
	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++)
		tests[i]();
	return kt_end();
}
SHELL_COMMAND("test-sched", test_sched, "[dying N]",
	      "threads, mutexes, waits, sleeps, calls, grace periods");

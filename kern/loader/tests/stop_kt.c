/*
 * stop_machine(): while its function runs, no other CPU executes anything. Also
 * threads_inside(), which is called there.
 */
#include "cpu.h"
#include "errno.h"
#include "ftrace/tests/kt.h"
#include "ksyms.h"
#include "stop.h"
#include "string.h"
#include "unwind.h"

#define __noipa __attribute__((noipa))

static volatile bool stop;
static volatile u64 counters[NR_CPUS];

static int count_up(void *cpu)
{
	while (!stop)
		counters[(unsigned long)cpu]++;
	return 0;
}

static void spin_ns(u64 ns)
{
	u64 end = clock_ns() + ns;

	while (clock_ns() < end)
		cpu_relax();
}

/* How many counters changed in 2 ms, of threads that this CPU does not run. */
static int count_changed(void *unused)
{
	u64 before[NR_CPUS] = {0};
	int changed = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		before[i] = counters[i];
	spin_ns(2000000);
	for (unsigned i = 0; i < nr_cpus; i++)
		changed += before[i] != counters[i];
	return irqs_disabled() ? changed : 1000;
}

static void test_nobody_runs(void)
{
	struct thread *t[NR_CPUS];
	int changed = 0, free = 0;
	u64 end = clock_ns() + 10000000000ul;

	stop = false;
	for (unsigned long i = 1; i < nr_cpus; i++)
		t[i] = kthread_run(count_up, (void *)i, i, "counter");
	for (int n = 0; n < 20 || (nr_cpus > 1 && !free && clock_ns() < end); n++) {
		changed += stop_machine(count_changed, NULL);
		preempt_disable();
		unsigned long flags = irq_save();
		free += count_changed(NULL);
		irq_restore(flags);
		preempt_enable();
	}
	stop = true;
	for (unsigned i = 1; i < nr_cpus; i++)
		thread_join(t[i]);
	kt_promise(!changed, "no other CPU counts on while the machine is stopped (%d do)",
		   changed);
	kt_promise(nr_cpus == 1 || free, "they do otherwise");
	kt_promise(!irqs_disabled() && preemptible(),
		   "afterwards interrupts and preemption are on");
}

/* How often the loops of the stopped CPUs go round in 1 ms. */
static int count_touches(void *unused)
{
	u64 before = 0, after = 0;

	for (unsigned i = 1; i < nr_cpus; i++)
		before += READ_ONCE(cpu_of(i)->touched);
	spin_ns(1000000);
	for (unsigned i = 1; i < nr_cpus; i++)
		after += READ_ONCE(cpu_of(i)->touched);
	return after - before;
}

/* In most stops: a tick or an IPI that came just before keeps a CPU awake. */
static void test_stopped_cpus_sleep(void)
{
	int polled = 0;

	for (int n = 0; n < 50; n++) {
		sleep_ns(1000000);
		polled += stop_machine(count_touches, NULL) > 10;
	}
	kt_promise(
		polled < 15,
		"stopped CPUs wait for an interrupt, and do not poll (they did in %d of 50 stops)",
		polled);
}

/* ---- with calls between CPUs, and with itself ---- */

#define ROUNDS 20
static u64 stops, inside, called;

static int add_stop(void *unused)
{
	inside++; /* not atomic: no other CPU runs */
	stops++;
	return 7;
}

static void add_call(void *unused)
{
	__atomic_fetch_add(&called, 1, __ATOMIC_RELAXED);
}

static int stopper(void *arg)
{
	int wrong = 0;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		wrong += stop_machine(add_stop, NULL) != 7;
		smp_call((i + (unsigned long)arg) % nr_cpus, add_call, NULL);
		arch_sync_all();
		smp_call_others(add_call, NULL);
		arch_tlb_flush_all();
	}
	return wrong;
}

static void test_with_others(void)
{
	struct thread *t[NR_CPUS];
	int wrong = 0;

	stops = inside = called = 0;
	for (unsigned long i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(stopper, (void *)i, i, "stopper");
	for (unsigned i = 0; i < nr_cpus; i++)
		wrong += thread_join(t[i]);
	kt_promise(!wrong && stops == ROUNDS * nr_cpus && inside == stops,
		   "each call runs its function once, alone, and returns its value (%lu of %u)",
		   (unsigned long)stops, ROUNDS * nr_cpus);
	kt_promise(called == ROUNDS * nr_cpus * nr_cpus,
		   "calls between CPUs go on beside it (%lu of %u)", (unsigned long)called,
		   ROUNDS * nr_cpus * nr_cpus);
}

static int caller(void *unused)
{
	while (!stop)
		smp_call(2, add_call, NULL);
	return 0;
}

/* CPU 1 is about to send CPU 2 an IPI when this CPU stops both; run_qemu.py holds CPU 1 there. */
static void test_crossing(void)
{
	struct thread *t;

	stop = false;
	set_cpu_affinity(0);
	t = kthread_run(caller, NULL, 1, "caller");
	while (!(READ_ONCE(cpu_of(2)->ipi_work) & 1 << IPI_CALL))
		cpu_relax();
	kt_promise(
		stop_machine(add_stop, NULL) == 7,
		"a CPU that is about to send an IPI does not keep the machine from being stopped");
	stop = true;
	thread_join(t);
	set_cpu_affinity(-1);
}

/* ---- threads_inside() ---- */

static __noipa void nap_here(void)
{
	while (!stop)
		sleep_ns(1000000000);
	barrier();
}
static __noipa void spin_here(void)
{
	while (!stop)
		counters[0]++;
	barrier();
}
static __noipa int never_returns_to_me(void *unused)
{
	nap_here();
	barrier();
	return 0;
}
static __noipa int spinner(void *unused)
{
	spin_here();
	barrier();
	return 0;
}
static __noipa int ends_at_once(void *unused)
{
	return 0;
}
static __noipa void unused_here(void)
{
	barrier();
}

struct question {
	void *function;
	struct thread *one;
};

static int ask(void *arg)
{
	struct question *q = arg;
	unsigned long size = 0, start = (unsigned long)q->function;

	ksym_lookup(start, NULL, &size);
	return threads_inside(start, start + size, true, &q->one);
}

/* From CPU @cpu: the number of threads inside @function is @want, and @t is one of them. */
static bool finds(unsigned cpu, void *function, int want, struct thread *t)
{
	struct question q = {function};
	int found;

	set_cpu_affinity(cpu);
	found = stop_machine(ask, &q);
	set_cpu_affinity(-1);
	if (found != want)
		out_printf("%ps: %d inside, %s\n", function, found, q.one ? q.one->comm : "none");
	return found == want && (!t || q.one == t);
}

static __noipa void ask_from_here(void)
{
	kt_promise(finds(0, ask_from_here, 1, current),
		   "a thread that asks about the function that it is in itself is found");
	barrier();
}

static void test_inside(void)
{
	unsigned last = nr_cpus - 1;
	struct thread *naps, *spins, *ended;

	stop = false;
	counters[0] = 0;
	naps = kthread_run(never_returns_to_me, NULL, last, "naps");
	spins = kthread_run(spinner, NULL, last, "spins");
	ended = kthread_run(ends_at_once, NULL, last, "ends");
	while (READ_ONCE(naps->state) != THREAD_SLEEPING || !counters[0] || !thread_done(ended))
		sleep_ns(1000000);
	for (unsigned cpu = 0; cpu < nr_cpus; cpu += MAX(last, 1)) {
		kt_promise(finds(cpu, nap_here, 1, naps), "a sleeping thread is found, from CPU %u",
			   cpu);
		kt_promise(finds(cpu, spin_here, 1, spins),
			   "a running or preempted thread is found, from CPU %u", cpu);
		kt_promise(finds(cpu, never_returns_to_me, 1, naps) &&
				   finds(cpu, spinner, 1, spins),
			   "so are their callers");
		kt_promise(finds(cpu, ends_at_once, 0, NULL), "a thread that has ended is not");
		kt_promise(finds(cpu, unused_here, 0, NULL),
			   "no thread is in a function that nobody calls");
	}
	ask_from_here();
	stop = true;
	thread_interrupt(naps);
	thread_join(naps);
	thread_join(spins);
	thread_join(ended);
	kt_promise(finds(0, nap_here, 0, NULL) && finds(0, spin_here, 0, NULL),
		   "threads that have left are not found");
	unused_here();
}

/* ---- a CPU that does not stop ---- */

static bool masked;

static int mask_interrupts(void *unused)
{
	unsigned long flags = irq_save();

	WRITE_ONCE(masked, true);
	spin_ns((WATCHDOG_S + 2) * 1000000000ul);
	irq_restore(flags);
	return 0;
}

static void test_late(void)
{
	struct thread *t;

	masked = false;
	t = kthread_run(mask_interrupts, NULL, 1, "late");
	set_cpu_affinity(0);
	kt_wait(READ_ONCE(masked));
	stops = 0;
	kt_promise(stop_machine(add_stop, NULL) == -ETIMEDOUT && !stops,
		   "if a CPU does not come, the function is not called");
	kt_promise(stop_machine(add_stop, NULL) == 7 && stops == 1, "the next call waits for it");
	thread_join(t);
	kt_promise(stop_machine(add_stop, NULL) == 7 && stops == 2, "and all is as before");
	set_cpu_affinity(-1);
}

static int test_stop(int argc, char **argv)
{
	kt_begin();
	if (argc > 1 && !strcmp(argv[1], "late")) {
		test_late();
		return kt_end();
	}
	if (argc > 1 && !strcmp(argv[1], "crossing")) {
		test_crossing();
		return kt_end();
	}
	test_nobody_runs();
	test_stopped_cpus_sleep();
	test_with_others();
	test_inside();
	return kt_end();
}
SHELL_COMMAND("test-stop", test_stop, "[late|crossing]",
	      "stop all other CPUs; find the threads inside a function");

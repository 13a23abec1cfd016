/*
 * Every CPU busy with everything at once: threads that move from CPU to CPU,
 * contend for a mutex, sleep, hand a token around by wake-ups, and call other
 * CPUs, while the tick preempts them. What must hold is counted.
 */
#include "cpu.h"
#include "ftrace/tests/kt.h"

#define WORKERS 16
#define ROUNDS 40

static struct mutex lock;
static u64 guarded, calls_served;
static struct wait_queue token_wait;
static u32 token;
static unsigned wrong_cpu;

static u64 next_random(u64 *state)
{
	*state = *state * 6364136223846793005 + 1442695040888963407;
	return *state >> 33;
}

static void serve_call(void *cpu)
{
	if ((unsigned long)cpu != this_cpu()->index)
		__atomic_fetch_add(&wrong_cpu, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&calls_served, 1, __ATOMIC_RELAXED);
}

static void move_to(unsigned long cpu)
{
	set_cpu_affinity(cpu);
	preempt_disable();
	if (this_cpu()->index != cpu)
		__atomic_fetch_add(&wrong_cpu, 1, __ATOMIC_RELAXED);
	preempt_enable();
	set_cpu_affinity(-1);
}

static void add_guarded(void)
{
	mutex_lock(&lock);
	u64 before = READ_ONCE(guarded);

	for (int i = 0; i < 200; i++)
		barrier();
	WRITE_ONCE(guarded, before + 1);
	mutex_unlock(&lock);
}

static int worker(void *arg)
{
	u64 random = (unsigned long)arg + 1;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned long cpu = next_random(&random) % nr_cpus;

		switch (next_random(&random) % 4) {
		case 0:
			move_to(cpu);
			break;
		case 1:
			sleep_ns(next_random(&random) % 200000);
			break;
		case 2:
			yield();
			break;
		}
		smp_call(cpu, serve_call, (void *)cpu);
		add_guarded();
	}
	return 0;
}

/* The token goes round: each waits for its number and passes the next one on. */
static int passer(void *arg)
{
	u32 me = (unsigned long)arg;

	for (u32 lap = 0; lap < ROUNDS; lap++) {
		wait_event(&token_wait, READ_ONCE(token) == lap * WORKERS + me);
		WRITE_ONCE(token, token + 1);
		wake_up(&token_wait);
	}
	return 0;
}

static unsigned run_all(void)
{
	struct thread *threads[2 * WORKERS];
	unsigned missing = 0;

	for (unsigned long i = 0; i < WORKERS; i++) {
		threads[2 * i] = kthread_run(worker, (void *)i, -1, "worker");
		threads[2 * i + 1] = kthread_run(passer, (void *)i, -1, "passer");
	}
	for (unsigned i = 0; i < 2 * WORKERS; i++) {
		if (threads[i])
			thread_join(threads[i]);
		else
			missing++;
	}
	return missing;
}

static int test_smp(int argc, char **argv)
{
	unsigned all = WORKERS * ROUNDS, missing;

	kt_begin();
	guarded = calls_served = token = wrong_cpu = 0;
	missing = run_all();
	kt_promise(!missing, "every thread is created (%u are not)", missing);
	kt_promise(!wrong_cpu, "a pinned thread and a call run on the right CPU (%u do not)",
		   wrong_cpu);
	kt_promise(guarded == all, "a mutex lets one in at a time (%lu of %u)",
		   (unsigned long)guarded, all);
	kt_promise(calls_served == all, "each call is made once (%lu of %u)",
		   (unsigned long)calls_served, all);
	kt_promise(token == all, "no wake-up is lost (%u of %u)", token, all);
	return kt_end();
}
SHELL_COMMAND("test-smp", test_smp, "",
	      "threads, mutexes, wake-ups, moves and calls on every CPU at once");

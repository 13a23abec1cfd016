/*
 * kt_lives: threads that sleep, move, wait, take turns and exit inside calls that
 * are traced. test_graph_threads.py compares the text of function_graph with what
 * was executed; here each thread only has to exit with its own code.
 *
 * Each wave of threads gets the memory of the wave before. No function ends in a
 * tail call that the test does not know.
 */
#include "cpu.h"
#include "irq.h"
#include "kt.h"

#define WAVES 3
#define LIVES 8
#define STEPS 4
#define MS 1000000ul
#define LONGER_THAN_A_TURN (12 * MS)

static struct mutex room;

void kt_life_sleep(u64 x);
void kt_life_move(u64 x);
void kt_life_turn(u64 x);
void kt_life_hold(u64 x);
void kt_life_spin(void);
u64 kt_life_call(u64 x, unsigned deep);
void kt_life_end(int code, unsigned deep);
int kt_life(void *arg);

__noinline void kt_life_sleep(u64 x)
{
	sleep_ns(MS / 10 + x % (MS / 2));
	barrier();
}
/* Pins the thread, or lets any idle CPU take it. */
__noinline void kt_life_move(u64 x)
{
	set_cpu_affinity(x % nr_cpus);
	if (x & 16)
		set_cpu_affinity(-1);
	barrier();
}
__noinline void kt_life_turn(u64 x)
{
	for (x %= 3; x < 3; x++)
		yield();
}
/* Sleeps with the mutex held, so that other threads wait for it. */
__noinline void kt_life_hold(u64 x)
{
	mutex_lock(&room);
	kt_life_sleep(x);
	mutex_unlock(&room);
	barrier();
}
/* Takes so long that other threads have their turns meanwhile. */
__noinline void kt_life_spin(void)
{
	u64 end = clock_ns() + LONGER_THAN_A_TURN;

	while (clock_ns() < end)
		barrier();
}
__noinline u64 kt_life_call(u64 x, unsigned deep)
{
	x = x * 0x9e3779b97f4a7c15 + deep;
	x ^= x >> 29;
	if (x & 1)
		kt_life_sleep(x >> 8);
	if (x & 2)
		kt_life_move(x >> 8);
	if (x & 4)
		kt_life_turn(x >> 8);
	if ((x & 0x18) == 0x18)
		kt_life_hold(x >> 8);
	if (deep)
		x += kt_life_call(x, deep - 1);
	barrier();
	return x;
}
/* None of these calls returns; the compiler warns of that. */
#pragma GCC diagnostic ignored "-Winfinite-recursion"
__noinline void kt_life_end(int code, unsigned deep)
{
	if (deep)
		kt_life_end(code, deep - 1);
	else
		thread_exit(code);
	barrier();
}
__noinline int kt_life(void *arg)
{
	unsigned long number = (unsigned long)arg;
	u64 x = number;

	for (unsigned i = 0; i < STEPS; i++)
		x = kt_life_call(x, i % 3 + 1);
	if (number % 4 == 1)
		kt_life_spin();
	if (number % 3)
		kt_life_end(number, number % 7);
	return number;
}

static int lives_command(int argc, char **argv)
{
	struct thread *t[LIVES];
	unsigned long number = 1;

	kt_begin();
	for (unsigned wave = 0; wave < WAVES; wave++) {
		for (unsigned i = 0; i < LIVES; i++)
			t[i] = kthread_run(kt_life, (void *)(number + i), -1, "life");
		for (unsigned i = 0; i < LIVES; i++, number++)
			kt_promise(t[i] && thread_join(t[i]) == (int)number,
				   "a thread exits with its own code");
	}
	return kt_end();
}
SHELL_COMMAND("kt_lives", lives_command, "",
	      "threads that sleep, move and die inside traced calls");

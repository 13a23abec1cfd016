/*
 * calls CPU: a thread on this CPU makes a traced call whenever the harness has
 * increased calls_wanted through the debugger; until `calls off`. The harness
 * chooses what other CPUs do between two instructions of a call.
 */
#include "app.h"

#define EINVAL 22

APP("cpu|off", "make traced calls on one CPU when the harness wants them, for grading");

/* ns between two reads of calls_wanted: each costs a timer interrupt, which is logged */
#define LOOK 2000000

static volatile bool on;
volatile uint64_t calls_wanted; /* total number; written by the harness */
volatile uint64_t calls_made;

__attribute__((noipa)) static uint64_t calls_traced(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
						    uint64_t e, uint64_t f, uint64_t g, uint64_t h)
{
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}

/* In kernels with live patches: the second function that `probe patch` replaces. */
__attribute__((noipa, unused)) static uint64_t calls_second(uint64_t a)
{
	return a + 1;
}

static int calls_thread(void *unused)
{
	for (; on; sleep_ns(LOOK)) {
		while (calls_made != calls_wanted) {
			uint64_t n = calls_made;

			calls_traced(n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6, n + 7);
			if (STAGE >= 8)
				calls_second(n);
			calls_made = n + 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t cpu = argc == 2 && argv[1][0] >= '0' && argv[1][0] <= '9'
			       ? strtoull(argv[1], NULL, 0)
			       : 0;
	thread_t thread;
	int err;

	if (argc != 2 || (strcmp(argv[1], "off") && cpu >= (uint64_t)cpu_count()))
		return complain(argv[0], argc == 2 ? argv[1] : "usage: calls cpu|off", EINVAL);
	on = strcmp(argv[1], "off");
	if (!on)
		return 0;
	err = thread_create_on(&thread, cpu, calls_thread, NULL);
	return err ? complain(argv[0], "thread_create_on", -err) : thread_join(thread);
}

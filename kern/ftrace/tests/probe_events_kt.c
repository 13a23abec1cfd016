/* kt_probe_events: probe events come and go while threads on every CPU call what they probe. */
#include "cpu.h"
#include "kt.h"
#include "probe_event.h"
#include "string.h"

#define ROUNDS 8

long kt_event_target(long a, const char *s, const void *p);
__noinline long kt_event_target(long a, const char *s, const void *p)
{
	barrier();
	return a * 3 + *s;
}

static volatile bool stop;
static unsigned long calls, wrong;

static int hammer(void *unused)
{
	static const char *const texts[] = {"", "x", "a longer text that is copied into the event"};
	unsigned long mine = 0;

	for (; !stop; mine++) {
		const char *s = texts[mine % ARRAY_SIZE(texts)];

		if (kt_event_target(mine, s, (void *)(mine * 0x123456789abcdef)) != (long)mine * 3 + *s)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
	}
	__atomic_add_fetch(&calls, mine, __ATOMIC_RELAXED);
	return 0;
}

static const char *const lines[] = {
	"p:kt/e kt_event_target", "p:kt/e kt_event_target a s=+0(s):string bad=+0(p):string far=+8(+0(p)):u64 me=$comm",
	"p:kt/e kt_event_target+8 $stack", "r:kt/e kt_event_target a $retval:s32", "f:kt/e kt_event_target s=+0(s):char[2]",
	"f:kt/e kt_event_target%return $retval"};

/* Create, enable, change and remove an event. Return: the number of steps that failed. */
static unsigned come_and_go(unsigned round)
{
	const char *line = lines[round % ARRAY_SIZE(lines)];
	unsigned bad = kt_echo(line, "dynamic_events", true) != 0;

	bad += kt_echo("1", "events/kt/e/enable", false) != 0;
	bad += kt_echo("common_pid > 1 && comm ~ \"ham*\"", "events/kt/e/filter", false) != 0;
	bad += kt_echo("traceon:3", "events/kt/e/trigger", false) != 0;
	if (round % 3 == 0)
		sleep_ns(300000);
	bad += kt_echo("0", "events/kt/e/filter", false) != 0;
	bad += kt_echo("!traceon", "events/kt/e/trigger", false) != 0;
	if (round % 4 == 0)
		sleep_ns(300000);
	bad += kt_echo("0", "events/kt/e/enable", false) != 0;
	return bad + (kt_echo("-:kt/e", "dynamic_events", true) != 0);
}

static void under_fire(void)
{
	struct thread *threads[2 * NR_CPUS] = {NULL};
	unsigned bad = 0;

	stop = false;
	calls = wrong = 0;
	for (unsigned i = 0; i < 2 * nr_cpus; i++)
		threads[i] = kthread_run(hammer, NULL, i / 2, "hammer");
	for (unsigned i = 0; i < ROUNDS; i++)
		bad += come_and_go(i);
	stop = true;
	for (unsigned i = 0; i < 2 * nr_cpus; i++)
		if (threads[i])
			thread_join(threads[i]);
	kt_promise(calls && !wrong && !bad, "%lu calls while %u events come and go: %lu wrong, %u steps refused", calls, ROUNDS, wrong, bad);
	kt_promise(!event_probes && !events_by_id, "no event is left");
}

/* Every hit is counted, and has its event. */
static void counted(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++) {
		u64 before = 0, after = 0, hits;

		kt_echo(lines[i], "dynamic_events", true);
		kt_echo("1", "events/kt/e/enable", false);
		for (unsigned c = 0; c < nr_cpus; c++)
			before += rb_entries(&global_trace.cpu[c]);
		for (int n = 0; n < 100; n++)
			kt_event_target(n, "text", NULL);
		kt_echo("0", "events/kt/e/enable", false);
		for (unsigned c = 0; c < nr_cpus; c++)
			after += rb_entries(&global_trace.cpu[c]);
		hits = event_probes ? event_probes->hits : 0;
		kt_promise(hits == 100 && after - before == 100 && !probe_missed(event_probes), "%s: 100 calls, %llu hits, %llu events", lines[i],
			   (unsigned long long)hits, (unsigned long long)(after - before));
		kt_echo("-:kt/e", "dynamic_events", true);
	}
}

static void no_memory_is_lost(void)
{
	unsigned long pages;

	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
		come_and_go(i);
	synchronize_sched();
	pages = pages_free_count();
	for (unsigned i = 0; i < 12; i++) {
		come_and_go(i);
		kt_echo("p:kt/x kt_event_target $nothing", "dynamic_events", true);
		kt_echo("p:kt/x function_trace_call", "dynamic_events", true);
	}
	kt_promise(pages_free_count() >= pages, "36 lines later no memory is lost: %lu pages, then %lu", pages, pages_free_count());
}

/* An address that cannot be read gives no value, whatever it is. */
static void reads_of_any_address(void)
{
	kt_echo("p:kt/e kt_event_target a=+0(p):u64 b=+0(p):string c=+3(p):u32 d=+0(+0(p)):string", "dynamic_events", true);
	kt_echo("1", "events/kt/e/enable", false);
	for (int bit = 0; bit < 64; bit++)
		for (long near = -9; near <= 9; near++)
			kt_event_target(1, "", (void *)((1ul << bit) + near));
	kt_echo("0", "events/kt/e/enable", false);
	kt_promise(event_probes && event_probes->hits == 64 * 19, "1216 addresses are read, or not");
	kt_echo("-:kt/e", "dynamic_events", true);
}

static int probe_events_test(int argc, char **argv)
{
	kt_begin();
	counted();
	reads_of_any_address();
	under_fire();
	no_memory_is_lost();
	return kt_end();
}
SHELL_COMMAND("kt_probe_events", probe_events_test, "", "probe events keep their promises");

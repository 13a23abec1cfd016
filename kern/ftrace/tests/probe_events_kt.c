/*
 * kt_probe_events: probe events are made and removed while threads on every CPU call the probed
 * functions.
 */
#include "cpu.h"
#include "errno.h"
#include "kt.h"
#include "trace_probe.h"
#include "string.h"
#include "tracefs.h"
#include "ftrace_internal.h"

#define ROUNDS 6
#define INSTANCE TRACEFS "instances/kt"
/*
 * turns of a loop, about as long as an event: a thread that is always in the tracer is hardly ever
 * preempted (irq_exit())
 */
#define ELSEWHERE 2000

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

		if (kt_event_target(mine, s, (void *)(mine * 0x123456789abcdef)) !=
		    (long)mine * 3 + *s)
			__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
		for (int i = 0; i < ELSEWHERE; i++)
			barrier();
	}
	__atomic_add_fetch(&calls, mine, __ATOMIC_RELAXED);
	return 0;
}

static const char *const lines[] = {
	"p:kt/e kt_event_target",
	"p:kt/e kt_event_target a s=+0(s):string bad=+0(p):string far=+8(+0(p)):u64 me=$comm",
	"p:kt/e kt_event_target+8 $stack",
	"r:kt/e kt_event_target a $retval:s32",
	"f:kt/e kt_event_target s=+0(s):char[2]",
	"f:kt/e kt_event_target%return $retval"};

static unsigned enable_in_instance(void)
{
	unsigned bad = kt_echo("comm ~ \"*mm*\"", "instances/kt/events/kt/e/filter", false) != 0;

	bad += kt_echo("1", "instances/kt/events/kt/e/enable", false) != 0;
	return bad + (kt_echo("traceoff:1 if common_pid == 1", "instances/kt/events/kt/e/trigger",
			      false) != 0);
}

/*
 * Create, enable, change and remove an event; in odd rounds in an instance too, which goes while it
 * is enabled there: before it is disabled in TRACEFS, or after. Return: the number of steps that
 * failed.
 */
static unsigned come_and_go(unsigned round)
{
	const char *line = lines[round % ARRAY_SIZE(lines)];
	unsigned bad = kt_echo(line, "dynamic_events", true) != 0;

	if (round % 2)
		bad += file_mkdir(NULL, INSTANCE) != 0;
	bad += kt_echo("1", "events/kt/e/enable", false) != 0;
	if (round % 2)
		bad += enable_in_instance();
	bad += kt_echo("common_pid > 1 && comm ~ \"ham*\"", "events/kt/e/filter", false) != 0;
	bad += kt_echo("traceon:3", "events/kt/e/trigger", false) != 0;
	if (round % 3 == 0)
		sleep_ns(300000);
	bad += kt_echo("0", "events/kt/e/filter", false) != 0;
	bad += kt_echo("!traceon", "events/kt/e/trigger", false) != 0;
	if (round % 4 == 0)
		sleep_ns(300000);
	if (round % 4 == 1)
		bad += file_remove(NULL, INSTANCE) != 0;
	bad += kt_echo("0", "events/kt/e/enable", false) != 0;
	if (round % 4 == 3)
		bad += (kt_echo("-:kt/e", "dynamic_events", true) != -EBUSY) +
		       (file_remove(NULL, INSTANCE) != 0);
	return bad + (kt_echo("-:kt/e", "dynamic_events", true) != 0);
}

static unsigned events_of_probes(void)
{
	unsigned count = 0;

	for (struct trace_probe_event *e = events_by_id; e; e = e->next)
		count += !e->fixed;
	return count;
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
	kt_promise(calls && !wrong && !bad,
		   "%lu calls while %u events come and go: %lu wrong, %u steps refused", calls,
		   ROUNDS, wrong, bad);
	kt_promise(!trace_probes && !events_of_probes(), "no event is left");
}

static unsigned long entries(const struct trace_array *tr)
{
	unsigned long sum = 0;

	for (unsigned c = 0; c < nr_cpus; c++)
		sum += rb_entries(&tr->cpu[c]);
	return sum;
}

/*
 * Every hit is counted, and has its event in each trace array that has enabled it: @in, by bits 1
 * for TRACEFS, 2 for the instance.
 */
static void count_hits(const char *line, const struct trace_array *instance, unsigned in)
{
	unsigned long top, other;
	u64 hits;

	kt_echo(line, "dynamic_events", true);
	kt_echo(in & 1 ? "1" : "0", "events/kt/e/enable", false);
	kt_echo(in & 2 ? "1" : "0", "instances/kt/events/kt/e/enable", false);
	top = entries(&global_trace);
	other = entries(instance);
	for (int n = 0; n < 100; n++)
		kt_event_target(n, "text", NULL);
	kt_echo("0", "events/kt/e/enable", false);
	kt_echo("0", "instances/kt/events/kt/e/enable", false);
	top = entries(&global_trace) - top;
	other = entries(instance) - other;
	hits = trace_probes ? trace_probes->hits : 0;
	kt_promise(hits == 100 && top == (in & 1 ? 100 : 0) && other == (in & 2 ? 100 : 0) &&
			   !probe_missed(trace_probes),
		   "%s: 100 calls, %llu hits, %lu events, in the instance %lu (%u)", line,
		   (unsigned long long)hits, top, other, in);
	kt_echo("-:kt/e", "dynamic_events", true);
}

static void counted(void)
{
	int err = file_mkdir(NULL, INSTANCE);

	for (unsigned i = 0; !err && i < ARRAY_SIZE(lines); i++)
		for (unsigned in = 1; in < 4; in++)
			count_hits(lines[i], file_lookup(NULL, INSTANCE)->data, in);
	kt_promise(!err && !file_remove(NULL, INSTANCE), "an instance is made and removed");
}

static void no_memory_is_lost(void)
{
	/* with more CPUs each change waits for all of them */
	unsigned rounds = nr_cpus == 1 ? 334 : 12;
	unsigned long pages;

	for (unsigned i = 0; i < ARRAY_SIZE(lines); i++)
		come_and_go(i);
	synchronize_sched();
	pages = pages_free_count();
	for (unsigned i = 0; i < rounds; i++) {
		come_and_go(i);
		kt_echo("p:kt/x kt_event_target $nothing", "dynamic_events", true);
		kt_echo("p:kt/x function_trace_call", "dynamic_events", true);
	}
	kt_promise(pages_free_count() >= pages,
		   "%u lines later no memory is lost: %lu pages, then %lu", 3 * rounds, pages,
		   pages_free_count());
}

/* An address that cannot be read gives no value, whatever it is. */
static void reads_of_any_address(void)
{
	kt_echo("p:kt/e kt_event_target a=+0(p):u64 b=+0(p):string c=+3(p):u32 d=+0(+0(p)):string",
		"dynamic_events", true);
	kt_echo("1", "events/kt/e/enable", false);
	for (int bit = 0; bit < 64; bit++)
		for (long near = -9; near <= 9; near++)
			kt_event_target(1, "", (void *)((1ul << bit) + near));
	kt_echo("0", "events/kt/e/enable", false);
	kt_promise(trace_probes && trace_probes->hits == 64 * 19,
		   "1216 addresses are read, or not");
	kt_echo("-:kt/e", "dynamic_events", true);
}

/* Register ops until no slot is free. @op: FTRACE_OPS_MAX of them. Return: how many. */
static unsigned take_all_slots(struct ftrace_ops *op)
{
	unsigned count = 0;

	for (; count < FTRACE_OPS_MAX; count++) {
		op[count] = (struct ftrace_ops){
			.func = ftrace_stub, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};
		ftrace_set_filter(&op[count], "file_mkdir", 10, true, false);
		if (register_ftrace_function(&op[count]))
			break;
	}
	if (count < FTRACE_OPS_MAX)
		ftrace_filter_free(&op[count].filter);
	return count;
}

static void free_slots(struct ftrace_ops *op, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		unregister_ftrace_function(&op[i]);
		ftrace_filter_free(&op[i].filter);
	}
}

/* The probe at the entry needs an op, and no slot is free. The one in the body needs none. */
static void one_probe_cannot_start(void)
{
	static struct ftrace_ops ops[FTRACE_OPS_MAX];
	unsigned count;
	int appended, set, enabled;

	kt_echo("p:kt/e kt_event_target+8", "dynamic_events", true);
	kt_echo("1", "events/kt/e/enable", false);
	count = take_all_slots(ops);
	appended = kt_echo("p:kt/e kt_event_target", "dynamic_events", true);
	kt_event_target(1, "", NULL);
	kt_promise(appended == -ENOSPC && trace_probes->hits == 1,
		   "a probe that cannot be added (%d) does not stop the event's others: %llu hits",
		   appended, (unsigned long long)trace_probes->hits);
	kt_echo("0", "events/kt/e/enable", false);
	kt_echo("p:kt/e kt_event_target", "dynamic_events", true);
	set = kt_echo("traceon", "events/kt/e/trigger", false);
	enabled = kt_echo("1", "events/kt/e/enable", false);
	kt_event_target(1, "", NULL);
	kt_promise(
		set == -ENOSPC && enabled == -ENOSPC && trace_probes->hits == 1,
		"an event that cannot be enabled (%d, by a trigger %d) starts no probe: %llu hits",
		enabled, set, (unsigned long long)trace_probes->hits);
	free_slots(ops, count);
	kt_echo("1", "events/kt/e/enable", false);
	kt_event_target(1, "", NULL);
	kt_echo("0", "events/kt/e/enable", false);
	kt_promise(trace_probes->hits == 2 && trace_probes->next->hits == 1,
		   "when slots are free, it can");
	kt_echo("-:kt/e", "dynamic_events", true);
}

static int probe_events_test(int argc, char **argv)
{
	kt_begin();
	counted();
	reads_of_any_address();
	one_probe_cannot_start();
	under_fire();
	no_memory_is_lost();
	return kt_end();
}
SHELL_COMMAND("kt_probe_events", probe_events_test, "", "probe events keep their promises");

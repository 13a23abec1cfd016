/*
 * kt_static_events: static events are enabled and disabled on every CPU while their sites are
 * executed there. Each hit is recorded where it must be, or is counted as dropped.
 */
#include "asm-ftrace/hook.h"
#include "cpu.h"
#include "errno.h"
#include "kprobes.h"
#include "kt.h"
#include "static_event.h"
#include "tracefs.h"
#include "ftrace_internal.h"

#define INSTANCE TRACEFS "instances/kt"
#define ROUNDS 12
#define HERE ((void *)0x1234) /* a call_site that no other hit has */
#define ONLY_HERE "call_site == 0x1234"

static volatile bool stop;
static unsigned long work, refused;

static int allocate_and_yield(void *unused)
{
	unsigned long n = 0;

	for (; !stop; n++) {
		kfree(kmalloc(16 + n % 3000));
		if (n % 8 == 0)
			yield();
	}
	__atomic_add_fetch(&work, n, __ATOMIC_RELAXED);
	return 0;
}

static const char *const toggled[] = {"sched/sched_switch", "kmem/kfree", "kmem/kmalloc",
				      "sched/sched_wakeup", "ipi", "kmem"};

/* The events of one CPU's thread are those of others, too. */
static int toggle(void *first)
{
	char file[64];

	for (unsigned long i = 0; i < ROUNDS; i++)
		for (int on = 1; on >= 0; on--) {
			snprintf(file, sizeof(file), "events/%s/enable",
				 toggled[((unsigned long)first + i) % ARRAY_SIZE(toggled)]);
			if (kt_echo(on ? "1" : "0", file, false))
				__atomic_add_fetch(&refused, 1, __ATOMIC_RELAXED);
		}
	return 0;
}

static bool all_sites_are_nops(void)
{
	TABLE_FOR_EACH(const struct tracepoint_site, tracepoint_site, site)
		if (*(const volatile u32 *)site->ip != INSN_NOP)
			return false;
	return true;
}

static void under_fire(void)
{
	struct thread *busy[NR_CPUS], *togglers[NR_CPUS];
	u64 before = kt_text_hash();

	stop = false;
	work = refused = 0;
	for (unsigned long i = 0; i < nr_cpus; i++) {
		busy[i] = kthread_run(allocate_and_yield, NULL, i, "busy");
		togglers[i] = kthread_run(toggle, (void *)i, i, "toggle");
	}
	for (unsigned i = 0; i < nr_cpus; i++)
		if (togglers[i])
			thread_join(togglers[i]);
	stop = true;
	for (unsigned i = 0; i < nr_cpus; i++)
		if (busy[i])
			thread_join(busy[i]);
	kt_echo("0", "events/enable", false);
	kt_promise(work && !refused, "%lu allocations while events are switched: %lu refusals",
		   work, refused);
	kt_promise(all_sites_are_nops() && kt_text_hash() == before,
		   "then text is as it was linked");
}

static unsigned long sum(const struct trace_array *tr, bool dropped)
{
	unsigned long n = 0;

	for (unsigned c = 0; c < nr_cpus; c++)
		n += dropped ? tr->cpu[c].dropped : rb_entries(&tr->cpu[c]);
	return n;
}

static void reach(unsigned times)
{
	while (times--)
		TRACE(kfree, HERE, NULL);
}

/* @in: bits 1 for TRACEFS, 2 for the instance. */
static void count_events(const struct trace_array *instance, unsigned in)
{
	unsigned long top, other;

	kt_echo(in & 1 ? "1" : "0", "events/kmem/kfree/enable", false);
	kt_echo(in & 2 ? "1" : "0", "instances/kt/events/kmem/kfree/enable", false);
	top = sum(&global_trace, false);
	other = sum(instance, false);
	reach(100);
	top = sum(&global_trace, false) - top;
	other = sum(instance, false) - other;
	kt_promise(top == (in & 1 ? 100 : 0) && other == (in & 2 ? 100 : 0),
		   "100 hits: %lu events, in the instance %lu (%u)", top, other, in);
}

static void counted(void)
{
	int err = file_mkdir(NULL, INSTANCE);

	kt_echo(ONLY_HERE, "events/kmem/kfree/filter", false);
	kt_echo(ONLY_HERE, "instances/kt/events/kmem/kfree/filter", false);
	for (unsigned in = 0; !err && in < 4; in++)
		count_events(file_lookup(NULL, INSTANCE)->data, in);
	kt_promise(!err && !file_remove(NULL, INSTANCE),
		   "the instance goes while the event is enabled in it");
	kt_echo("0", "events/kmem/kfree/enable", false);
	kt_promise(all_sites_are_nops(), "the sites are nops when no trace array needs them");
}

void kt_static_target(void);
__noinline void kt_static_target(void)
{
	barrier();
}

static bool allocate_inside(struct kprobe *p, struct kprobe_regs *regs)
{
	kfree(kmalloc(100));
	return false;
}

/* A probe's handler runs inside the tracer. */
static void inside_the_tracer(void)
{
	struct kprobe p = {.symbol_name = "kt_static_target", .pre_handler = allocate_inside};
	unsigned long dropped, events;
	int err = register_kprobe(&p);

	kt_echo("common_pid == 0", "events/kmem/kfree/filter", false);
	kt_echo("1", "events/kmem/kfree/enable", false);
	dropped = sum(&global_trace, true);
	events = sum(&global_trace, false);
	for (int i = 0; i < 50; i++)
		kt_static_target();
	dropped = sum(&global_trace, true) - dropped;
	events = sum(&global_trace, false) - events;
	kt_echo("0", "events/kmem/kfree/enable", false);
	kt_echo("0", "events/kmem/kfree/filter", false);
	unregister_kprobe(&p);
	kt_promise(!err && dropped == 50 && !events,
		   "50 hits inside the tracer: %lu events, %lu dropped", events, dropped);
}

/* Two writers of one word would each find the other's. */
static void no_probe_at_a_site(void)
{
	unsigned sites = 0, taken = 0;

	TABLE_FOR_EACH(const struct tracepoint_site, tracepoint_site, site) {
		struct kprobe p = {.addr = site->ip, .pre_handler = allocate_inside};

		sites++;
		if (!register_kprobe(&p)) {
			taken++;
			unregister_kprobe(&p);
		}
	}
	kt_promise(sites && !taken, "no probe at one of %u sites (%u)", sites, taken);
}

static int static_events_test(int argc, char **argv)
{
	kt_begin();
	no_probe_at_a_site();
	counted();
	inside_the_tracer();
	under_fire();
	return kt_end();
}
SHELL_COMMAND("kt_static_events", static_events_test, "",
	      "the tests of static events, with all CPUs");

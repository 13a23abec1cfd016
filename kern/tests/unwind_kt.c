/*
 * Walks from interrupts that arrive anywhere in a function: in its prologue,
 * its epilogue, in a leaf without a record. One CPU runs a chain of calls, an
 * interrupt walks it many thousand times, and each walk must name each
 * function of the chain once and in order.
 */
#include "cpu.h"
#include "ftrace/tests/kt.h"
#include "ksyms.h"
#include "print.h"
#include "string.h"
#include "unwind.h"

#define __noipa __attribute__((noipa))

static volatile bool stop;
static volatile u64 sink;

static __noipa u64 chain_leaf(u64 n)
{
	return (n ^ n >> 3) * 0x9e3779b97f4a7c15;
}
/* Shrink-wrapped by the compiler: the early return has no frame. */
static __noipa u64 chain_early(u64 n)
{
	if (n & 1)
		return n;
	return chain_leaf(n) + chain_leaf(n + 2);
}
static __noipa u64 chain_many(u64 a, u64 b, u64 c, u64 d)
{
	u64 x = chain_early(a), y = chain_early(b), z = chain_early(c);

	return x * a + y * b + z * c + d;
}
/* Ends in a tail call: chain_many then returns to the caller of this. */
static __noipa u64 chain_tail(u64 n)
{
	sink += chain_leaf(n);
	return chain_many(n, n + 1, n + 2, n + 3);
}
static __noipa int chain_top(void *unused)
{
	u64 n = 0;

	while (!stop)
		sink += chain_tail(n++);
	return 0;
}

/* Who may be named after whom; "" is the end. */
static const struct {
	const char *function, *callers;
} expected[] = {
	{"chain_leaf", " chain_early chain_tail "},
	{"chain_early", " chain_many "},
	{"chain_many", " chain_top "},
	{"chain_tail", " chain_top "},
	{"chain_top", " thread_start "},
};

struct walk {
	unsigned long pc[32];
	unsigned count;
};

static void walk_here(void *arg)
{
	struct walk *w = arg;
	struct unwind u;

	unwind_start_here(&u);
	w->count = 0;
	do
		w->pc[w->count++] = u.regs ? u.pc : u.pc - 1;
	while (w->count < ARRAY_SIZE(w->pc) && unwind_next(&u));
}

static bool may_call(const char *caller, const char *function)
{
	char word[40];

	scnprintf(word, sizeof(word), " %s ", caller);
	for (unsigned i = 0; i < ARRAY_SIZE(expected); i++)
		if (!strcmp(expected[i].function, function))
			return strstr(expected[i].callers, word);
	return true;
}

static bool walk_is_right(const struct walk *w)
{
	const char *name = NULL;
	bool in_chain = false, reached_top = false;

	for (unsigned i = 0; i < w->count; i++) {
		const char *caller = ksym_lookup(w->pc[i], NULL, NULL);

		if (!caller || (name && !may_call(caller, name)))
			return false;
		/* chain_top was entered before the tracer was on: what it calls must stand between. */
		if (name && !strncmp(name, "ftrace_", 7) && !strcmp(caller, "chain_top"))
			return false;
		in_chain |= !strncmp(caller, "chain_", 6);
		reached_top |= !strcmp(caller, "chain_top");
		name = caller;
	}
	return !in_chain || reached_top;
}

static void print_walk(const struct walk *w)
{
	for (unsigned i = 0; i < w->count; i++)
		out_printf("  %pS\n", (void *)w->pc[i]);
}

static unsigned walk_many(unsigned cpu, unsigned walks, struct walk *w)
{
	unsigned wrong = 0;

	for (unsigned i = 0; i < walks && !wrong; i++) {
		smp_call(cpu, walk_here, w);
		wrong = !walk_is_right(w);
	}
	return wrong;
}

static int test_unwind(int argc, char **argv)
{
	unsigned cpu = nr_cpus - 1, wrong;
	struct thread *t;
	struct walk w = {};

	kt_begin();
	stop = false;
	t = kthread_run(chain_top, NULL, cpu, "chain");
	if (!kt_promise(t, "a thread that calls"))
		return kt_end();
	wrong = walk_many(cpu, 600, &w);
	kt_echo("function", "current_tracer", false);
	wrong = wrong ?: walk_many(cpu, 600, &w);
	kt_echo("nop", "current_tracer", false);
	stop = true;
	thread_join(t);
	if (!kt_promise(!wrong, "a walk from an interrupt names each caller once, traced or not"))
		print_walk(&w);
	return kt_end();
}
SHELL_COMMAND("test-unwind", test_unwind, "", "walk a chain of calls from interrupts");

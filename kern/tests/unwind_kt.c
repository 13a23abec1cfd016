/*
 * Walks from interrupts that arrive anywhere: in a prologue, an epilogue, a
 * leaf without a record, on the tracer's way in and out. One CPU runs a chain
 * of calls, an interrupt walks it many thousand times, and each walk must name
 * each function of the chain once and in order, whatever traces it.
 *
 * `test-unwind all` goes on until each instruction of the assembly on both ways
 * was interrupted: a debugger holds the CPU at one after the other, and lets its
 * interrupts come (run_qemu.py, which reads unwind_hits[]).
 */
#include "asm-ftrace/hook.h"
#include "cpu.h"
#include "ftrace.h"
#include "ftrace/tests/kt.h"
#include "ksyms.h"
#include "print.h"
#include "string.h"
#include "unwind.h"

#define __noipa __attribute__((noipa))

static volatile bool stop, begun;
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
/* Recursive: a walk must find as many of its calls as are in progress. */
static volatile unsigned level;
static __noipa u64 chain_deep(u64 n)
{
	u64 sum;

	level++;
	sum = n ? chain_deep(n - 1) + 1 : 0;
	level--;
	return sum;
}
static __noipa int chain_top(void *unused)
{
	u64 n = 0;

	begun = true;
	while (!stop) {
		sink += chain_tail(n);
		sink += chain_deep(n++ % 8);
	}
	return 0;
}

/* Which function may be named after which. */
static const struct {
	const char *function, *callers;
} expected[] = {
	{"chain_leaf", " chain_early chain_tail "},
	{"chain_early", " chain_many "},
	{"chain_many", " chain_top "},
	{"chain_tail", " chain_top "},
	{"chain_deep", " chain_top chain_deep "},
	{"chain_top", " thread_start "},
	{"thread_start", " thread_start_asm "},
	/* Between a call site and the callback, and between the return and its handlers. */
	{"ftrace_caller", " chain_leaf chain_early chain_many chain_tail chain_deep "},
	{"return_to_handler", " chain_early chain_many chain_tail chain_deep chain_top "},
};

struct walk {
	unsigned long pc[48];
	bool exact[48];
	unsigned count, interrupted; /* the index of what the interrupt met */
	unsigned level;
};

static void walk_here(void *arg)
{
	struct walk *w = arg;
	struct unwind u;

	w->level = level;
	w->count = w->interrupted = 0;
	unwind_start_here(&u);
	do {
		if (u.regs && !u.link_pending)
			w->interrupted = w->count;
		w->exact[w->count] = u.regs;
		w->pc[w->count++] = u.pc;
	} while (w->count < ARRAY_SIZE(w->pc) && unwind_next(&u));
}

static const char *name_of(const struct walk *w, unsigned i)
{
	return ksym_lookup(w->exact[i] ? w->pc[i] : w->pc[i] - 1, NULL, NULL) ?: "?";
}

/* The tracer's own, between its two ends. */
static bool is_inner(const char *name, unsigned long pc)
{
	return in_tracer(pc) && strcmp(name, "ftrace_caller") && strcmp(name, "return_to_handler");
}

static bool contains(const char *text, const char *word)
{
	while (*text && strncmp(text, word, strlen(word)))
		text++;
	return *text;
}

/* A stub goes on in ftrace_caller: the traced function is its caller, too. */
static bool may_call(const char *caller, const char *function)
{
	char word[40];

	if (!strncmp(function, "ftrace_stub", 11))
		function = "ftrace_caller";
	scnprintf(word, sizeof(word), " %s ", caller);
	for (unsigned i = 0; i < ARRAY_SIZE(expected); i++)
		if (!strcmp(expected[i].function, function))
			return contains(expected[i].callers, word);
	return false;
}

static bool is_start_of(unsigned long pc, const char *function)
{
	unsigned long offset;
	const char *name = ksym_lookup(pc, &offset, NULL);

	return name && !offset && !strcmp(name, function);
}

/* Does the walk name what the thread was doing, from the interrupted instruction to its first? */
static const char *fault_of(const struct walk *w)
{
	unsigned deep = 0, i = w->interrupted;
	const char *name = name_of(w, i);

	for (unsigned n = 0; n < w->count; n++)
		if (!w->exact[n] && is_start_of(w->pc[n], "return_to_handler"))
			return "it has return_to_handler in the place of a caller";
	if (!i || !w->exact[i])
		return "it ends at the interrupt";
	for (; i + 1 < w->count; i++) {
		const char *caller = name_of(w, i + 1);

		deep += !strcmp(name, "chain_deep");
		if (!is_inner(name, w->pc[i]) && !may_call(caller, name))
			return "a wrong caller";
		name = caller;
	}
	if (strcmp(name, "thread_start_asm"))
		return "it does not reach the thread's first instruction";
	return deep == w->level || deep == w->level + 1 ? NULL
							: "its number of chain_deep is wrong";
}

/* The tracer's way in and out. */
static struct {
	const char *name;
	unsigned size; /* instructions; 0: not seen yet */
} ways[] = {
	{"ftrace_caller"},
	{"return_to_handler"},
#if STAGE == 5
	{"ftrace_graph_caller"},
#endif
};
/* which of its instructions were interrupted, a bit each */
static volatile u64 unwind_hits[ARRAY_SIZE(ways)];

static unsigned long without_padding(unsigned long start, unsigned long size)
{
	const u32 *end = (const u32 *)(start + size);

	while (end[-1] == 0 || end[-1] == INSN_NOP)
		end--;
	return (unsigned long)end - start;
}

static void note_hit(const struct walk *w)
{
	unsigned long offset, size;
	const char *name = ksym_lookup(w->pc[w->interrupted], &offset, &size);

	for (unsigned i = 0; name && i < ARRAY_SIZE(ways); i++)
		if (!strcmp(ways[i].name, name)) {
			unwind_hits[i] |= 1ull << offset / 4;
			ways[i].size = without_padding(w->pc[w->interrupted] - offset, size) / 4;
		}
}

static bool is_hit(unsigned way)
{
	return ways[way].size && unwind_hits[way] + 1 == 1ull << ways[way].size;
}

static bool all_hit(void)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++)
		if (!is_hit(i))
			return false;
	return true;
}

static void print_walk(const struct walk *w)
{
	out_printf("  %u out\n", w->level);
	for (unsigned i = 0; i < w->count; i++)
		out_printf(w->exact[i] ? "  %pS\n" : "  %pB\n", (void *)w->pc[i]);
}

static bool walk_many(unsigned cpu, unsigned walks, bool all, const char *tracer)
{
	static struct walk w;
	const char *fault = NULL;
	unsigned i;

	for (i = 0; (i < walks || (all && !all_hit())) && !fault; i++) {
		smp_call(cpu, walk_here, &w);
		fault = nr_cpus > 1 ? fault_of(&w) : NULL;
		note_hit(&w);
	}
	if (kt_promise(!fault, "%s: each walk from an interrupt names each caller once%s%s",
		       tracer ?: "off", fault ? ", but: " : "", fault ?: ""))
		return true;
	print_walk(&w);
	return false;
}

static struct thread *start_chain(void)
{
	struct thread *t;

	stop = begun = false;
	t = kthread_run(chain_top, NULL, nr_cpus - 1, "chain");
	kt_promise(t, "a thread that makes calls is created");
	while (t && !begun)
		sleep_ns(1000000);
	return t;
}

static void stop_chain(struct thread **t)
{
	stop = true;
	if (*t)
		thread_join(*t);
	*t = NULL;
}

/* While each of the tracers is on; others that trace the chain may be on already. */
static int test_unwind(int argc, char **argv)
{
	bool all = argc > 1 && !strcmp(argv[1], "all");
	struct thread *t;

	kt_begin();
	set_cpu_affinity(0);
	t = start_chain();
	if (!t)
		return kt_end();
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++)
		unwind_hits[i] = ways[i].size = 0;
	walk_many(nr_cpus - 1, 600, false, NULL);
	for (int i = 1 + all; i < argc; i++) {
		if (all && i == argc - 1) /* the thread is held there, and not the interrupt */
			kt_echo("chain_*", "set_ftrace_filter", false);
		if (!kt_promise(!kt_echo(argv[i], "current_tracer", false), "%s starts", argv[i]))
			break;
		walk_many(nr_cpus - 1, 1000, all && i == argc - 1, argv[i]);
		kt_echo("nop", "current_tracer", false);
	}
	stop_chain(&t);
	set_cpu_affinity(-1);
	kt_echo("", "set_ftrace_filter", false);
	for (unsigned i = 0; all && i < ARRAY_SIZE(ways); i++)
		kt_promise(is_hit(i), "each instruction of %s was interrupted (%lx)", ways[i].name,
			   (unsigned long)unwind_hits[i]);
	return kt_end();
}
SHELL_COMMAND("test-unwind", test_unwind, "[all] [tracer ...]",
	      "walk a chain of calls from interrupts");

/*
 * kt_jump: functions that are left by __builtin_longjmp() while function_graph traces them.
 * Tests the promises of fgraph.h for such calls, and kretprobe.h's. The program's own
 * results are checked too, whatever tracer the shell has switched on.
 */
#include "cpu.h"
#include "fgraph.h"
#include "kt.h"
#include "shadow.h"
#include "string.h"
#include "thread.h"
#include "unwind.h"
#if STAGE >= 8
#include "kretprobe.h"
#endif

#define NOIPA __attribute__((noipa))
#define MOST 40	  /* traced frames that one jump leaves */
#define LOOPS 200 /* more jumps than a shadow stack has frames */

static void *out[5]; /* __builtin_setjmp() */

long kt_jump_down(long n);
long kt_jump_tail(long n);
long kt_jump_leaf(long n);
long kt_jump_over(long (*down)(long), long n);
long kt_jump_loop(long (*down)(long), long n, long times);
long kt_jump_outer(long (*down)(long), long n, long times);

NOIPA long kt_jump_leaf(long n)
{
	barrier();
	return n + 1;
}
/* Jumps out of n traced calls. */
NOIPA long kt_jump_down(long n)
{
	long r;

	if (kt_jump_leaf(n) == 2)
		__builtin_longjmp(out, 1);
	r = kt_jump_down(n - 1);
	barrier();
	return r;
}
NOIPA long kt_jump_tail(long n)
{
	return kt_jump_down(n);
}
/* Return: 1, after the jump. */
NOIPA long kt_jump_over(long (*down)(long), long n)
{
	if (!__builtin_setjmp(out)) {
		down(n);
		return 0;
	}
	return kt_jump_leaf(0);
}
NOIPA long kt_jump_loop(long (*down)(long), long n, long times)
{
	volatile long i = 0, jumps = 0;

	for (; i < times; i++)
		if (!__builtin_setjmp(out))
			down(n);
		else
			jumps += kt_jump_leaf(0);
	return jumps;
}
NOIPA long kt_jump_outer(long (*down)(long), long n, long times)
{
	long jumps = kt_jump_loop(down, n, times);

	barrier();
	return jumps + 1000;
}

/* ---- A user that checks that calls nest. ---- */

struct call {
	unsigned long func;
	int depth;
};
/* Entered, and neither returned nor gone; the newest last. Each has a frame of the shadow stack. */
static struct call calls[SHADOW_SIZE / sizeof(unsigned long)];
static unsigned open, entries, returns, gone, wrong, refused;
static u32 overrun;
static bool stacks; /* walk the stack, too */
static unsigned lost_walks;

/*
 * The walk must reach this file's command through the calls in progress, and through no other
 * address.
 */
static notrace void jump_walk(void)
{
	unsigned long entries[3 * MOST] = {0};
	struct unwind u;
	unsigned n;

	unwind_start_here(&u);
	n = unwind_save(&u, entries, ARRAY_SIZE(entries));
	for (unsigned i = 0; i < n; i++)
		lost_walks += entries[i] - (unsigned long)return_to_handler < 8;
}

static notrace int jump_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	u64 *kept = fgraph_reserve_data(gops->idx, sizeof(*kept));

	if (kept)
		*kept = trace->func;
	else
		refused++;
	entries++;
	if (open < ARRAY_SIZE(calls))
		calls[open++] = (struct call){trace->func, trace->depth};
	if (stacks)
		jump_walk();
	return 1;
}
static notrace void jump_close(unsigned long func, int depth, const u64 *kept)
{
	wrong += !open || calls[open - 1].func != func || calls[open - 1].depth != depth ||
		 (kept && *kept != func);
	open -= !!open;
}
static notrace void jump_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	returns++;
	overrun = trace->overrun;
	jump_close(trace->func, trace->depth, fgraph_retrieve_data(gops->idx, NULL));
}
static notrace void jump_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops)
{
	gone++;
	jump_close(trace->func, trace->depth, fgraph_retrieve_data(gops->idx, NULL));
}

static struct ftrace_filter filter;
static struct fgraph_ops user = {jump_entry, jump_return, &filter, .gonefunc = jump_gone,
				 .idx = -1};

static bool begin(const char *names)
{
	open = entries = returns = gone = wrong = refused = lost_walks = 0;
	ftrace_filter_edit(&filter, names, strlen(names), true, false);
	return kt_promise(!register_ftrace_graph(&user), "a user is registered for %s", names);
}

static void end(const char *what)
{
	unregister_ftrace_graph(&user);
	ftrace_filter_free(&filter);
	kt_promise(!ftrace_graph_dead, "%s: graph tracing goes on", what);
	kt_promise(!wrong,
		   "%s: each return, and each call that was left, is told in the right order",
		   what);
	kt_promise(entries == returns + gone + open, "%s: each entry is told once more", what);
	kt_promise(!lost_walks, "%s: a stack walk finds each return address", what);
}

/* ---- The promises. ---- */

static const struct {
	const char *name;
	long (*down)(long);
	unsigned more; /* traced calls beside n of kt_jump_down */
} ways[] = {{"calls", kt_jump_down, 0}, {"a tail call", kt_jump_tail, 1}};

/* The program alone, under whatever tracer the shell has switched on. */
static void results(void)
{
	static const long deep[] = {1, 3, MOST};

	for (unsigned w = 0; w < ARRAY_SIZE(ways); w++)
		for (unsigned i = 0; i < ARRAY_SIZE(deep); i++) {
			kt_promise(kt_jump_over(ways[w].down, deep[i]) == 1,
				   "%s: a jump out of %ld calls arrives", ways[w].name, deep[i]);
			kt_promise(kt_jump_outer(ways[w].down, deep[i], LOOPS) == LOOPS + 1000,
				   "%s: %u jumps out of %ld calls arrive", ways[w].name, LOOPS,
				   deep[i]);
		}
}

/* Everything is traced: what is left is told as soon as a function around it returns. */
static void told_at_the_return(unsigned w, long n)
{
	const char *name = ways[w].name;
	unsigned left = n + ways[w].more;
	struct shadow_stack *s;
	struct shadow_frame *top;
	unsigned long depth;
	u32 counted;

	if (!begin("kt_jump_*"))
		return;
	s = shadow_of(current);
	top = s->top, depth = s->depth, counted = s->overrun;
	stacks = true;
	kt_promise(kt_jump_over(ways[w].down, n) == 1, "%s: a jump out of %ld traced calls arrives",
		   name, n);
	stacks = false;
	kt_promise(gone == left && !open, "%s: %u calls were left, and the user is told of %u",
		   name, left, gone);
	kt_promise(s->top == top && s->depth == depth, "%s: their frames are popped", name);
	kt_promise(s->overrun - counted == left, "%s: they are counted", name);
	kt_jump_leaf(1);
	kt_promise(overrun - counted == left, "%s: the count is shown at a return", name);
	end(name);
}

/*
 * Frames of calls that were left fill the shadow stack. They are dropped at a call by the function
 * to which the program has jumped. Until then a call may find no room: that is counted.
 */
static void many(unsigned w, long n, const char *names, bool around)
{
	/* kt_jump_down and kt_jump_leaf, n times each, kt_jump_leaf once more */
	unsigned all = LOOPS * (2 * n + ways[w].more + 1) + (around ? 2 : 0);
	struct shadow_stack *s;
	unsigned long counted;

	if (!begin(names))
		return;
	s = shadow_of(current);
	counted = s->overrun;
	kt_promise(kt_jump_outer(ways[w].down, n, LOOPS) == LOOPS + 1000,
		   "%s: %u jumps out of %ld traced calls arrive", ways[w].name, LOOPS, n);
	counted = s->overrun - counted;
	kt_promise(entries + (counted - gone - refused) == all,
		   "%s, %ld deep, %s: all %u calls are traced, or counted: %u and %ld",
		   ways[w].name, n, names, all, entries, (long)(counted - gone - refused));
	kt_promise(entries >= all / 2, "%s, %ld deep: most calls are traced", ways[w].name, n);
	kt_promise(!around || !open, "%s, %ld deep: each call is told once more", ways[w].name, n);
	kt_promise(s->depth < SHADOW_SIZE / sizeof(struct shadow_frame),
		   "the frames are on the shadow stack");
	end(names);
}

#if STAGE >= 8
static unsigned hits;
static notrace int jump_probe(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	hits++;
	return 0;
}

/* With @names a graph user traces a function around the probed one. */
static void instances(const char *names)
{
	struct kretprobe kr = {
		.kp = {.symbol_name = "kt_jump_down"}, .handler = jump_probe, .maxactive = 8};
	unsigned long calls = 3 * LOOPS;

	hits = 0;
	if (!kt_promise(!register_kretprobe(&kr), "a kretprobe is registered") ||
	    (names && !begin(names)))
		return;
	kt_promise(kt_jump_outer(kt_jump_down, 3, LOOPS) == LOOPS + 1000,
		   "a probed function is left by jumps");
	kt_promise(!hits, "a call that never returns has no return handler");
	kt_promise(kr.nmissed <= calls / 4,
		   "instances of calls that were left are used again: of %lu calls %lu found none",
		   calls, kr.nmissed);
	kt_promise(kr.active <= kr.maxactive && (!names || !kr.active),
		   "and given back: %d of %d are out", kr.active, kr.maxactive);
	if (names)
		end(names);
	unregister_kretprobe(&kr);
}
#endif

static int all_told(void *arg)
{
	for (unsigned w = 0; w < ARRAY_SIZE(ways); w++) {
		told_at_the_return(w, 1);
		told_at_the_return(w, 3);
		told_at_the_return(w, MOST);
		many(w, 1, "kt_jump_*", true);
		many(w, 3, "kt_jump_*", true);
		many(w, MOST / 2, "kt_jump_*", true);
	}
	return 0;
}
static int none_around(void *arg)
{
	many((unsigned long)arg, 3, "kt_jump_*[nfl]", false);
	return 0;
}
#if STAGE >= 8
static int kretprobes(void *arg)
{
	instances(arg);
	return 0;
}
#endif

/* In a thread of its own: its shadow stack may keep frames of calls that were left. */
static void run(int (*test)(void *), const void *arg)
{
	struct thread *t = kthread_run(test, (void *)arg, -1, "jump");

	kt_promise(t && thread_join(t) == 0, "the thread ends");
}

static int jump_command(int argc, char **argv)
{
	kt_begin();
	results();
	if (argc == 1) {
		run(all_told, NULL);
		for (unsigned long w = 0; w < ARRAY_SIZE(ways); w++)
			run(none_around, (void *)w);
#if STAGE >= 8
		run(kretprobes, NULL);
		run(kretprobes, "kt_jump_outer");
#endif
	}
	return kt_end();
}
SHELL_COMMAND("kt_jump", jump_command, "[results]",
	      "functions that are left by longjmp(); results: without users of its own");

/*
 * function_graph inside the kernel: tests the promises of fgraph.h for one user,
 * which are the same in lab 5 and in lab 6.
 */
#include "errno.h"
#include "fgraph.h"
#include "kt.h"
#include "shadow.h"
#include "string.h"
#include "ftrace_internal.h"

/* ---- The functions that are traced. ---- */

struct kt_pair {
	long first, second;
};

long kt_graph_leaf(long x);
long kt_graph_outer(long x);
long kt_graph_tail(long x);
long kt_graph_deep(long n);
long kt_graph_body(long x);
struct kt_pair kt_graph_pair(long x);

static long (*volatile deep)(long) = kt_graph_deep; /* no loop instead of the recursion */
static void (*graph_body)(void); /* what kt_graph_body() calls */

__noinline long kt_graph_leaf(long x)
{
	barrier();
	return 2 * x;
}
__noinline long kt_graph_outer(long x)
{
	return kt_graph_leaf(x) + kt_graph_leaf(x + 1);
}
/* GCC makes a tail call of it: the leaf returns to our caller. */
__noinline long kt_graph_tail(long x)
{
	return kt_graph_leaf(x + 1);
}
__noinline long kt_graph_deep(long n)
{
	return n ? deep(n - 1) + 1 : 0;
}
__noinline struct kt_pair kt_graph_pair(long x)
{
	barrier();
	return (struct kt_pair){x + 1, x + 2};
}
__noinline long kt_graph_body(long x)
{
	graph_body();
	return x + 3;
}

static long (*volatile leaf)(long) = kt_graph_leaf;
static long (*volatile outer)(long) = kt_graph_outer;
static long (*volatile tail)(long) = kt_graph_tail;
static long (*volatile body)(long) = kt_graph_body;
static struct kt_pair (*volatile pair)(long) = kt_graph_pair;

/* ---- The user: it notes the calls of its handlers. ---- */

struct heard {
	unsigned long func, retval;
	int depth;
	bool returned;
};
static struct heard heard[512];
static unsigned heard_count, heard_overrun;
static bool heard_refuses;

static notrace void hear(struct heard h)
{
	if (heard_count < ARRAY_SIZE(heard))
		heard[heard_count++] = h;
}
static notrace int hear_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	hear((struct heard){trace->func, 0, trace->depth, false});
	return !heard_refuses;
}
static notrace void hear_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	hear((struct heard){trace->func, trace->retval, trace->depth, true});
	heard_overrun = trace->overrun;
}

static struct ftrace_filter kt_filter;
static struct fgraph_ops kt_user = {
	.entryfunc = hear_entry, .retfunc = hear_return, .filter = &kt_filter, .idx = -1};

static bool start(const char *filter)
{
	heard_count = heard_overrun = 0;
	heard_refuses = false;
	return !ftrace_filter_edit(&kt_filter, filter, strlen(filter), true, false) &&
	       !register_ftrace_graph(&kt_user);
}

static void stop(void)
{
	unregister_ftrace_graph(&kt_user);
	ftrace_filter_edit(&kt_filter, "", 0, true, false);
}

static bool is_event(unsigned i, const void *function, int depth, bool returned, long retval)
{
	const struct heard *h = &heard[i];

	return i < heard_count && h->func - (unsigned long)function <= 4 && h->depth == depth &&
	       h->returned == returned && (!returned || h->retval == retval);
}

/* ---- The promises. ---- */

static void calls_are_heard(void)
{
	if (!kt_promise(start("kt_graph_*"), "a user is registered"))
		return;
	kt_promise(outer(5) == 22, "tracing changes no result");
	kt_promise(heard_count == 6, "three calls are six events, not %u", heard_count);
	kt_promise(is_event(0, kt_graph_outer, 0, false, 0) &&
			   is_event(1, kt_graph_leaf, 1, false, 0) &&
			   is_event(2, kt_graph_leaf, 1, true, 10) &&
			   is_event(3, kt_graph_leaf, 1, false, 0) &&
			   is_event(4, kt_graph_leaf, 1, true, 12) &&
			   is_event(5, kt_graph_outer, 0, true, 22),
		   "each entry and return in its place, with its depth and its result");
	stop();
	leaf(1);
	kt_promise(heard_count == 6, "after unregister no handler is called");
}

static void every_result_comes_back(void)
{
	struct kt_pair p;

	start("kt_graph_*");
	p = pair(40);
	kt_promise(p.first == 41 && p.second == 42, "a result in two registers is right");
	heard_count = 0;
	kt_promise(tail(3) == 8, "a tail call returns to the first caller");
	kt_promise(heard_count == 4 && is_event(2, kt_graph_leaf, 1, true, 8) &&
			   is_event(3, kt_graph_tail, 0, true, 8),
		   "both functions return, the last one first");
	heard_count = 0;
	heard_refuses = true;
	kt_promise(outer(1) == 6 && heard_count == 3,
		   "if an entry handler returns 0, the return handler is not called");
	stop();
}

static void too_deep_is_counted(void)
{
	start("kt_graph_*");
	kt_promise(deep(200) == 200, "200 calls deep, the result is right");
	kt_promise(heard_count < 2 * 201 && heard_count > 40 &&
			   heard_overrun == 201 - heard_count / 2,
		   "calls that found no room are counted: %u events, %u lost", heard_count,
		   heard_overrun);
	heard_count = 0;
	outer(1);
	kt_promise(heard_count == 6, "after these calls the shadow stack has room again");
	stop();
}

static void leave(void)
{
	unregister_ftrace_graph(&kt_user);
}
static void leave_and_come_back(void)
{
	unregister_ftrace_graph(&kt_user);
	register_ftrace_graph(&kt_user);
}

static void a_user_leaves_meanwhile(void)
{
	start("kt_graph_body");
	graph_body = leave;
	kt_promise(body(4) == 7,
		   "the user is unregistered during a call: the function returns to its caller");
	kt_promise(heard_count == 1, "the return handler of that user is not called");
	kt_promise(start("kt_graph_body"), "the user is registered again");
	graph_body = leave_and_come_back;
	kt_promise(body(5) == 8 && heard_count == 1, "a user that was unregistered and registered "
						     "again is not called: the frame is older");
	stop();
}

static void registered_once(void)
{
	start("kt_graph_leaf");
	kt_promise(register_ftrace_graph(&kt_user) == -EBUSY, "registered twice: -EBUSY");
	stop();
	kt_promise(unregister_ftrace_graph(&kt_user) == -ENOENT, "unregistered twice: -ENOENT");
}

static int graph_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	calls_are_heard();
	every_result_comes_back();
	too_deep_is_counted();
	a_user_leaves_meanwhile();
	registered_once();
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_graph", graph_command, "", "function_graph: results, nesting, depth, leaving");

/* No frame has the sp with which the function returns. */
static void spoil_the_frame(void)
{
	shadow_of(current)->top->sp -= 16;
}

/* Afterwards graph tracing is off for good, so the machine is of no use for other tests. */
static int bad_frame_command(int argc, char **argv)
{
	kt_begin();
	start("kt_graph_*");
	graph_body = spoil_the_frame;
	kt_promise(body(6) == 9, "a frame that does not fit: the function returns to its caller");
	kt_promise(ftrace_graph_dead, "graph tracing has stopped");
	kt_promise(outer(5) == 22 && heard_count == 1, "no handler is called any more");
	stop();
	kt_promise(register_ftrace_graph(&kt_user) == -ENODEV,
		   "no user can be registered: -ENODEV");
	return kt_end();
}
SHELL_COMMAND("kt_graph_bad_frame", bad_frame_command, "",
	      "function_graph: a frame that does not fit");

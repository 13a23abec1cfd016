/*
 * Stack walks that start in function_graph's handlers, with two users, and walks of
 * threads that wait for a CPU inside traced calls. Each walk must show the callers,
 * and never return_to_handler in their place.
 */
#include "fgraph.h"
#include "cpu.h"
#include "file.h"
#include "kt.h"
#include "ksyms.h"
#include "string.h"
#include "ftrace_internal.h"
#include "tracefs.h"
#include "unwind.h"

long kt_stack_leaf(long x);
long kt_stack_tail(long x);
long kt_stack_top(long x);
int kt_stack_spin(void *unused);

__noinline long kt_stack_leaf(long x)
{
	barrier();
	return x + 1;
}
__noinline long kt_stack_tail(long x)
{
	return kt_stack_leaf(2 * x);
}
__noinline long kt_stack_top(long x)
{
	return kt_stack_tail(x) + 3;
}

static volatile bool stop;
static unsigned begun;
__noinline int kt_stack_spin(void *unused)
{
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELAXED);
	while (!stop)
		barrier();
	return 0;
}

static notrace bool names_chain(const unsigned long *entries, unsigned count,
				const char *const *chain)
{
	for (; *chain; chain++, entries++, count--) {
		const char *name = count ? ksym_lookup(*entries - 1, NULL, NULL) : NULL;

		if (!name || strncmp(name, *chain, strlen(*chain)))
			return false;
	}
	return true;
}

static unsigned walks, wrong;

/* A walk from the handler, after the tracer's own frames. */
static notrace void walk_handler(const char *const *chain)
{
	unsigned long entries[8], flags = irq_save();
	struct unwind u;
	unsigned count;

	walks++;
	unwind_start_here(&u);
	/* This handler is a test's, and so does not lie in the tracer's text. */
	while (!in_tracer(u.pc) && unwind_next(&u))
		;
	while (in_tracer(u.pc) && unwind_next(&u))
		;
	count = unwind_save(&u, entries, ARRAY_SIZE(entries));
	if (!names_chain(entries, count, chain))
		wrong++;
	irq_restore(flags);
}

/* The callers of each function, by name: a tail call leaves its caller out. */
static const char *const after_top[] = {"walks_from_handlers", NULL};
static const char *const in_leaf[] = {"kt_stack_leaf", "kt_stack_top", "walks_from_handlers", NULL};
static const char *const in_tail[] = {"kt_stack_tail", "kt_stack_top", "walks_from_handlers", NULL};
static const char *const in_top[] = {"kt_stack_top", "walks_from_handlers", NULL};

static notrace bool is_in(unsigned long ip, long (*fn)(long))
{
	return ip - (unsigned long)fn < 8;
}

static notrace int walk_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	if (is_in(trace->func, kt_stack_leaf))
		walk_handler(in_leaf);
	else if (is_in(trace->func, kt_stack_tail))
		walk_handler(in_tail);
	else if (is_in(trace->func, kt_stack_top))
		walk_handler(in_top);
	return 1;
}
static notrace void walk_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	if (is_in(trace->func, kt_stack_leaf) || is_in(trace->func, kt_stack_tail))
		walk_handler(in_top);
	else if (is_in(trace->func, kt_stack_top))
		walk_handler(after_top);
}

static struct ftrace_filter filters[2];
static struct fgraph_ops users[2] = {
	{walk_entry, walk_return, &filters[0], .idx = -1},
	{walk_entry, walk_return, &filters[1], .idx = -1},
};

static bool start_users(void)
{
	bool ok = true;

	for (unsigned i = 0; i < 2; i++)
		ok &= !ftrace_filter_edit(&filters[i], "kt_stack_*", 10, true, false) &&
		      !register_ftrace_graph(&users[i]);
	return ok;
}

static void stop_users(void)
{
	for (unsigned i = 0; i < 2; i++) {
		unregister_ftrace_graph(&users[i]);
		ftrace_filter_edit(&filters[i], "", 0, true, false);
	}
}

static __noinline void walks_from_handlers(void)
{
	long (*volatile top)(long) = kt_stack_top;

	walks = wrong = 0;
	kt_promise(top(2) == 8, "tracing changes no result");
	kt_promise(walks == 12 && !wrong, "%u walks from handlers, %u wrong", walks, wrong);
}

/* The start of the file trace, as text. */
static const char *read_trace(void)
{
	static char text[4096];
	size_t n = 0;
	ssize_t got;
	struct file *f;

	if (file_open(file_root(), TRACEFS "trace", O_RDONLY, &f))
		return "";
	while ((got = file_read(f, text + n, sizeof(text) - 1 - n)) > 0)
		n += got;
	file_close(f);
	text[n] = 0;
	return text;
}

/* The command stacktrace at a function that is tail-called: its return address is the tracer's. */
static __noinline void walk_of_a_command(void)
{
	long (*volatile top)(long) = kt_stack_top;
	static const char stack[] =
		"*\n => kt_stack_leaf\n => kt_stack_top\n => walk_of_a_command\n*";

	kt_echo("", "trace", false);
	kt_promise(!kt_echo("kt_stack_leaf:stacktrace", "set_ftrace_filter", true) && top(2) == 8,
		   "the command stacktrace at a function that is tail-called");
	kt_echo("!kt_stack_leaf:stacktrace", "set_ftrace_filter", true);
	kt_promise(glob_match(stack, sizeof(stack) - 1, read_trace()),
		   "its stack names the callers");
}

/* Two threads on one CPU: one of them is always queued. */
static void walks_of_queued_threads(void)
{
	static const char *const spinning[] = {"kt_stack_spin", "thread_start", "thread_start_asm",
					       NULL};
	struct thread *t[2];
	unsigned long entries[16];
	unsigned good = 0;

	stop = false;
	begun = 0;
	for (unsigned i = 0; i < 2; i++)
		t[i] = kthread_run(kt_stack_spin, NULL, nr_cpus - 1, "spin");
	while (READ_ONCE(begun) < 2)
		sleep_ns(1000000);
	for (unsigned n = 0; n < 40; n++) {
		unsigned count = stack_trace_save_pid(t[n % 2]->pid, 0, entries,
						      ARRAY_SIZE(entries)),
			 i = 0;

		while (i < count && !names_chain(entries + i, count - i, spinning))
			i++;
		good += i + 3 == count;
		sleep_ns(2000000);
	}
	stop = true;
	for (unsigned i = 0; i < 2; i++)
		thread_join(t[i]);
	kt_promise(good == 40, "40 walks of threads that run or are queued, %u right", good);
}

static int unwind_graph_command(int argc, char **argv)
{
	kt_begin();
	if (kt_promise(start_users(), "two users are registered")) {
		walks_from_handlers();
		walk_of_a_command();
		walks_of_queued_threads();
	}
	stop_users();
	return kt_end();
}
SHELL_COMMAND("test-unwind-graph", unwind_graph_command, "",
	      "walk out of function_graph's handlers");

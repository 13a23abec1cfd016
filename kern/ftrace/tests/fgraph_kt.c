/*
 * function_graph's users inside the kernel: tests the promises of fgraph.h with
 * threads that sleep, move, exit and recurse inside traced functions.
 */
#include "fgraph.h"
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "kt.h"
#include "shadow.h"
#include "string.h"
#include "thread.h"
#include "trace.h"

/* ---- The functions that are traced. ---- */

long kt_graph_leaf(long x);
long kt_graph_nest(long x);
long kt_graph_tail(long x);
long kt_graph_deep(long x);
void kt_graph_sleep(void);
void kt_graph_move(int cpu);
void kt_graph_exit(void);

__noinline long kt_graph_leaf(long x)
{
	barrier();
	return 3 * x + 1;
}
__noinline long kt_graph_nest(long x)
{
	return kt_graph_leaf(x) + kt_graph_leaf(x + 1);
}
__noinline long kt_graph_tail(long x)
{
	return kt_graph_leaf(x + 10);
}
__noinline long kt_graph_deep(long x)
{
	/* so that the compiler does not make a loop of the recursion */
	static long (*volatile deeper)(long) = kt_graph_deep;

	return x ? deeper(x - 1) + 1 : 0;
}

static struct wait_queue bed;
static bool awake;
static unsigned asleep;
__noinline void kt_graph_sleep(void)
{
	__atomic_fetch_add(&asleep, 1, __ATOMIC_RELEASE);
	wait_event(&bed, READ_ONCE(awake));
}
__noinline void kt_graph_move(int cpu)
{
	set_cpu_affinity(cpu);
}
__noinline void kt_graph_exit(void)
{
	thread_exit(7);
}

/* ---- A user that notes the calls of its handlers. ---- */

struct note {
	unsigned long func;
	unsigned long value; /* of a return: the returned value */
	int depth;
	bool entry;
	u8 user, cpu;
};
static struct note notes[64];
static unsigned noted;

struct user {
	struct fgraph_ops ops;
	struct ftrace_filter filter;
	u8 id;
	unsigned entries, returns;
};

static notrace void note(const struct user *u, unsigned long func, int depth, bool entry,
			 unsigned long value)
{
	unsigned i = __atomic_fetch_add(&noted, 1, __ATOMIC_RELAXED);

	if (i < ARRAY_SIZE(notes))
		notes[i] = (struct note){func, value, depth, entry, u->id, this_cpu()->index};
}
static notrace int note_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	struct user *u = gops->private;

	__atomic_fetch_add(&u->entries, 1, __ATOMIC_RELAXED);
	note(u, trace->func, trace->depth, true, 0);
	return 1;
}
static notrace void note_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	struct user *u = gops->private;

	__atomic_fetch_add(&u->returns, 1, __ATOMIC_RELAXED);
	note(u, trace->func, trace->depth, false, regs->arg[0]);
}
/* Takes so long that interrupts, which are traced, too, come inside the handler. */
static notrace void slow_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
	u64 end = clock_ns() + 25000000;

	while (clock_ns() < end)
		cpu_relax();
	note_return(trace, gops, regs);
}

static int join(struct user *u, u8 id, const char *functions)
{
	*u = (struct user){
		.ops = {note_entry, note_return, &u->filter, u, .idx = -1},
		.id = id,
	};
	if (ftrace_filter_edit(&u->filter, functions, strlen(functions), true, false))
		return -EINVAL;
	return register_ftrace_graph(&u->ops);
}

/* Returns when no CPU can call @u any more: @u may be on the stack. */
static void leave(struct user *u)
{
	unregister_ftrace_graph(&u->ops);
	ftrace_filter_edit(&u->filter, "", 0, true, false);
}

static bool is_note(unsigned i, u8 user, bool entry, long (*fn)(long), int depth)
{
	unsigned long at = notes[i].func - (unsigned long)fn;

	return i < noted && notes[i].user == user && notes[i].entry == entry && at < 16 &&
	       notes[i].depth == depth;
}

/* ---- Promises ---- */

static void nesting(void)
{
	long (*volatile nest)(long) = kt_graph_nest;
	struct user a;
	long sum;

	noted = 0;
	kt_promise(!join(&a, 1, "kt_graph_*"), "a user is registered");
	sum = nest(4);
	leave(&a);
	kt_promise(sum == 29, "tracing changes no result");
	kt_promise(is_note(0, 1, true, kt_graph_nest, 0) && is_note(1, 1, true, kt_graph_leaf, 1) &&
			   is_note(2, 1, false, kt_graph_leaf, 1) &&
			   is_note(3, 1, true, kt_graph_leaf, 1) &&
			   is_note(4, 1, false, kt_graph_leaf, 1) &&
			   is_note(5, 1, false, kt_graph_nest, 0) && noted == 6,
		   "entries and returns nest as the calls did");
	kt_promise(notes[2].value == 13 && notes[4].value == 16 && notes[5].value == 29,
		   "the return handler sees what was returned");
	noted = 0;
	nest(1);
	kt_promise(!noted, "after unregister no handler is called");
}

static void order(void)
{
	long (*volatile leaf)(long) = kt_graph_leaf;
	struct user u[3];

	noted = 0;
	for (int i = 0; i < 3; i++)
		join(&u[i], i, i == 1 ? "kt_graph_l*" : "kt_graph_*");
	leaf(1);
	kt_promise(noted == 6 && notes[0].user == 0 && notes[1].user == 1 && notes[2].user == 2,
		   "entry handlers run in order");
	kt_promise(notes[3].user == 2 && notes[4].user == 1 && notes[5].user == 0,
		   "return handlers run in reverse");
	for (int i = 0; i < 3; i++)
		leave(&u[i]);
}

static void tail_call(void)
{
	long (*volatile tail)(long) = kt_graph_tail;
	struct user a;

	noted = 0;
	join(&a, 1, "kt_graph_*");
	kt_promise(tail(1) == 34, "a tail call comes back");
	leave(&a);
	kt_promise(is_note(0, 1, true, kt_graph_tail, 0) && is_note(1, 1, true, kt_graph_leaf, 1) &&
			   is_note(2, 1, false, kt_graph_leaf, 1) &&
			   is_note(3, 1, false, kt_graph_tail, 0),
		   "and both functions' returns are heard, the inner first");
}

static void seventeen(void)
{
	static struct user u[FGRAPH_USERS + 1];
	long (*volatile leaf)(long) = kt_graph_leaf;
	bool all = true, once = true;

	for (int i = 0; i < FGRAPH_USERS; i++)
		all &= !join(&u[i], i, "kt_graph_leaf");
	kt_promise(all, "sixteen users are registered");
	kt_promise(join(&u[FGRAPH_USERS], 16, "kt_graph_leaf") == -ENOSPC, "the 17th: -ENOSPC");
	kt_promise(register_ftrace_graph(&u[3].ops) == -EBUSY, "registered twice: -EBUSY");
	leaf(1);
	for (int i = 0; i < FGRAPH_USERS; i++) {
		once &= u[i].entries == 1 && u[i].returns == 1;
		leave(&u[i]);
	}
	kt_promise(once, "each of sixteen is called once");
}

static int sleeper(void *arg)
{
	kt_graph_sleep();
	return 5;
}

/* Slot 0 gets many users, one after the other, while a frame with its bit is on a shadow stack. */
static void sleeper_in_a_slot(unsigned times)
{
	struct user first, next;
	struct thread *t;
	unsigned wrong = 0, heard = 0;

	awake = false;
	asleep = 0;
	join(&first, 1, "kt_graph_sleep");
	t = kthread_run(sleeper, NULL, -1, "sleeper");
	while (!__atomic_load_n(&asleep, __ATOMIC_ACQUIRE))
		yield();
	leave(&first);
	kt_promise(first.entries == 1, "a thread sleeps inside a traced function");
	for (unsigned i = 0; i < times; i++) {
		wrong += join(&next, 2, "kt_graph_leaf") != 0 || next.ops.idx != 0;
		kt_graph_leaf(i);
		heard += next.returns;
		leave(&next);
	}
	join(&next, 2, "kt_graph_sleep");
	WRITE_ONCE(awake, true);
	wake_up(&bed);
	kt_promise(thread_join(t) == 5, "the thread wakes, and the function returns to its caller");
	leave(&next);
	kt_promise(!wrong && heard == times, "%u times a new user got the slot and was called",
		   times);
	kt_promise(!next.returns && !first.returns, "no user is called for the sleeper's return: "
						    "one was unregistered, one registered later");
}

static int mover(void *arg)
{
	for (int i = 0; i < 50; i++)
		for (unsigned cpu = 0; cpu < nr_cpus; cpu++)
			kt_graph_move(cpu);
	set_cpu_affinity(-1);
	return 0;
}

static void migration(void)
{
	struct user a;

	join(&a, 1, "kt_graph_move");
	noted = 0;
	thread_join(kthread_run(mover, NULL, 0, "mover"));
	leave(&a);
	kt_promise(a.entries == 50 * nr_cpus && a.returns == a.entries,
		   "a thread that changes its CPU inside a traced function returns on the new CPU");
	kt_promise(nr_cpus == 1 || notes[2].cpu != notes[3].cpu,
		   "its entry and its return are on different CPUs");
}

static int exiter(void *arg)
{
	kt_graph_exit();
	return 0;
}

static notrace void return_at_once(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
	regs->arg[0] = 77;
	regs->pc = regs->link;
}

/*
 * The op that was registered last is called first: function_graph replaces link after an op has set
 * pc to it.
 */
static void replaced(void)
{
	struct ftrace_ops op = {.func = return_at_once,
				.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION,
				.slot = -1};
	long (*volatile leaf)(long) = kt_graph_leaf;
	struct user a;
	long value;

	join(&a, 1, "kt_graph_leaf");
	ftrace_set_filter(&op, "kt_graph_leaf", 13, true, false);
	kt_promise(!register_ftrace_function(&op), "an op lets the function return at once");
	value = leaf(1);
	unregister_ftrace_function(&op);
	ftrace_filter_free(&op.filter);
	leave(&a);
	kt_promise(value == 77 && a.entries == 1 && a.returns == 1 && !ftrace_graph_dead,
		   "and function_graph sees it return: %u entries, %u returns", a.entries,
		   a.returns);
}

static void exits(void)
{
	struct user a;
	bool codes = true;

	join(&a, 1, "*");
	for (int i = 0; i < 20; i++)
		codes &= thread_join(kthread_run(exiter, NULL, -1, "exiter")) == 7;
	leave(&a);
	kt_promise(codes, "threads exit inside traced functions");
}

static void overflow(void)
{
	unsigned room =
		sizeof(((struct shadow_stack *)NULL)->words) / (sizeof(struct shadow_frame));
	unsigned long before, after;
	struct user a;
	long depth;

	join(&a, 1, "kt_graph_deep");
	before = shadow_of(current)->overrun;
	depth = kt_graph_deep(99);
	after = shadow_of(current)->overrun;
	leave(&a);
	kt_promise(depth == 99, "100 calls deep: the result is right");
	kt_promise(a.entries == room && a.returns == room, "%u of them fit and are traced", room);
	kt_promise(after - before == 100 - room, "the calls that do not fit are counted");
}

static void interrupted_handler(void)
{
	long (*volatile leaf)(long) = kt_graph_leaf;
	struct user slow, all;

	join(&slow, 1, "kt_graph_leaf");
	slow.ops.retfunc = slow_return;
	join(&all, 2, "*");
	leaf(1);
	leave(&slow);
	leave(&all);
	kt_promise(slow.entries == 1 && slow.returns == 1,
		   "interrupts inside a handler are traced, and the handler continues");
	kt_promise(all.entries - all.returns < 100,
		   "every traced function returned, but those still in progress");
}

/*
 * An event of another kind after the frame's time, as an interrupt may write one before the
 * tracer's.
 */
static notrace void write_event(u64 after)
{
	struct trace_write w;
	struct function_entry *e;

	while (clock_ns() == after)
		cpu_relax();
	e = trace_reserve(&global_trace, TRACE_FN, sizeof(*e), &w);
	if (e) {
		put_address(e->ip, (unsigned long)kt_graph_nest);
		put_address(e->parent_ip, (unsigned long)kt_graph_nest);
	}
	trace_end(&w, e);
}
static notrace int writing_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
				 struct ftrace_regs *regs)
{
	write_event(trace->calltime);
	return 1;
}
static notrace void writing_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				   struct ftrace_regs *regs)
{
	write_event(trace->rettime);
}

/*
 * The types of this CPU's events as hexadecimal digits; 0 for an event that is later than the next
 * event or than now.
 */
static unsigned types_in_time(void)
{
	static struct rb_page page;
	struct rb_iter it;
	struct rb_event ev;
	unsigned types = 0;
	u64 last = 0, now = clock_ns();

	rb_iter_start(&it, &global_trace.cpu[this_cpu()->index], &page);
	for (; rb_iter_peek(&it, &ev); rb_iter_next(&it)) {
		types = types << 4 |
			(ev.ts < last || ev.ts > now ? 0 : ((struct trace_entry *)ev.data)->type);
		last = ev.ts;
	}
	return types;
}

static void events_in_time(void)
{
	long (*volatile leaf)(long) = kt_graph_leaf;
	struct user first, last;

	set_cpu_affinity(this_cpu()->index);
	join(&first, 1, "kt_graph_leaf");
	first.ops.entryfunc = writing_entry;
	kt_echo("kt_graph_leaf", "set_ftrace_filter", false);
	kt_echo("function_graph", "current_tracer", false);
	join(&last, 2, "kt_graph_leaf");
	last.ops.retfunc = writing_return;
	kt_echo("", "trace", false);
	leaf(1);
	leave(&last);
	leave(&first);
	kt_promise(types_in_time() == (TRACE_FN << 12 | TRACE_GRAPH_ENT << 8 | TRACE_FN << 4 |
				       TRACE_GRAPH_RET),
		   "an event written between a frame's time and the frame's event has the earlier "
		   "time");
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	set_cpu_affinity(-1);
}

static int graph_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	nesting();
	order();
	tail_call();
	seventeen();
	sleeper_in_a_slot(300);
	migration();
	exits();
	replaced();
	overflow();
	interrupted_handler();
	events_in_time();
	kt_promise(kt_wait(!shadow_of(current)), "the shadow stack is freed with the last user");
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_graph", graph_command, "", "function_graph: users, order, sleepers, tail calls");

/* ---- A frame that does not fit: graph tracing ends with it. ---- */

long kt_graph_spoil(long x);

/* No frame has the sp with which this function returns. */
__noinline long kt_graph_spoil(long x)
{
	shadow_of(current)->top->sp -= 16;
	return x + 1;
}

static int bad_frame_command(int argc, char **argv)
{
	struct user a;

	kt_begin();
	join(&a, 1, "kt_graph_*");
	kt_promise(kt_graph_spoil(3) == 4,
		   "a frame that does not fit: the function returns to its caller");
	kt_promise(ftrace_graph_dead, "the check at the return stops graph tracing");
	leave(&a);
	kt_promise(join(&a, 1, "kt_graph_*") == -ENODEV,
		   "no user can be registered any more: -ENODEV");
	kt_promise(kt_echo("function", "current_tracer", false) == 0,
		   "functions can still be traced");
	kt_echo("nop", "current_tracer", false);
	return kt_end();
}
SHELL_COMMAND("kt_graph_bad_frame", bad_frame_command, "", "a return that fits no call: once");

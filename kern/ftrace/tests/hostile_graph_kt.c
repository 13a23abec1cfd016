/*
 * Hostile to function_graph: users, tracers and instances are made and removed
 * at random, while threads call, recurse, sleep, move, exit and are interrupted
 * inside traced functions.
 *
 * Each user keeps entry data, and its return handler checks that they are its own;
 * a user that was unregistered counts every call as wrong. Afterwards: no wrong
 * result, as many returns as entries, no shadow stack left, text as it was.
 */
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "fgraph.h"
#include "file.h"
#include "irq.h"
#include "kt.h"
#include "shadow.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"

u64 kt_graph_work(u64 x, u32 depth);
u64 kt_graph_end(u64 x);
void kt_graph_nap(u64 x);
void kt_graph_die(u64 x);

static notrace u64 expected(u64 x, u32 depth)
{
	for (; depth; depth--)
		x = x * 0x9e3779b97f4a7c15 + depth;
	return x ^ x >> 31;
}

__noinline u64 kt_graph_end(u64 x)
{
	barrier();
	return x ^ x >> 31;
}
__noinline u64 kt_graph_work(u64 x, u32 depth)
{
	return depth ? kt_graph_work(x * 0x9e3779b97f4a7c15 + depth, depth - 1) : kt_graph_end(x);
}
/* Sleeps, or moves to another CPU, or both. */
__noinline void kt_graph_nap(u64 x)
{
	if (x & 1)
		sleep_ns(x % 3000000);
	if (x & 2)
		set_cpu_affinity((x >> 8) % nr_cpus);
	if (x & 4)
		yield();
}
__noinline void kt_graph_die(u64 x)
{
	kt_graph_nap(x);
	thread_exit(x & 0x7f);
}

/* ---- Users ---- */

#define USERS (FGRAPH_USERS + 3)
static struct hostile_user {
	struct fgraph_ops ops;
	struct ftrace_filter filter;
	bool in;
	u64 entries, returns;
} users[USERS];
static u64 wrong_data, calls_after;

struct kept {
	u64 func, thread, check[];
};

/*
 * Now and then a handler takes so long that its user would be unregistered before it ends, if
 * unregistering did not wait.
 */
static inline void linger(struct fgraph_ops *gops)
{
	struct hostile_user *u = gops->private;
	u64 birth = gops->birth, now = clock_ns(), end = now + 30000;

	if ((now >> 7) % 64 == 0)
		while (clock_ns() < end)
			cpu_relax();
	if (!READ_ONCE(u->in) || READ_ONCE(gops->birth) != birth)
		__atomic_fetch_add(&calls_after, 1, __ATOMIC_RELAXED);
}

static notrace int hostile_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
				 struct ftrace_regs *regs)
{
	struct hostile_user *u = gops->private;
	unsigned words = (trace->func >> 4) % 4;
	struct kept *kept;

	linger(gops);
	if ((trace->func >> 6) % 8 == (unsigned)gops->idx % 8)
		return 0;
	kept = fgraph_reserve_data(gops->idx, sizeof(*kept) + 8 * words);
	if (!kept)
		return 0;
	kept->func = trace->func;
	kept->thread = (u64)current;
	for (unsigned i = 0; i < words; i++)
		kept->check[i] = gops->birth + i;
	__atomic_fetch_add(&u->entries, 1, __ATOMIC_RELAXED);
	return 1;
}

static notrace void hostile_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				   struct ftrace_regs *regs)
{
	struct hostile_user *u = gops->private;
	int size = 0;
	struct kept *kept = fgraph_retrieve_data(gops->idx, &size);
	bool right = kept && kept->func == trace->func && kept->thread == (u64)current &&
		     trace->calltime <= trace->rettime;

	for (int i = 0; right && i < (size - (int)sizeof(*kept)) / 8; i++)
		right = kept->check[i] == gops->birth + i;
	if (!right)
		__atomic_fetch_add(&wrong_data, 1, __ATOMIC_RELAXED);
	linger(gops);
	__atomic_fetch_add(&u->returns, 1, __ATOMIC_RELAXED);
}

static int user_comes(struct hostile_user *u, const char *functions)
{
	u->ops = (struct fgraph_ops){hostile_entry, hostile_return, &u->filter, u, .idx = -1};
	u->entries = u->returns = 0;
	u->in = true;
	if (ftrace_filter_edit(&u->filter, functions, strlen(functions), true, false) ||
	    register_ftrace_graph(&u->ops))
		u->in = false;
	return 0; /* the 17th may be refused */
}

static int user_leaves(struct hostile_user *u)
{
	int err = unregister_ftrace_graph(&u->ops);

	WRITE_ONCE(u->in, false);
	return err;
}

/* ---- Threads ---- */

#define WORKERS 12
static struct thread *workers[WORKERS];
static volatile bool stop_work;
static u64 rounds, wrong_results;

static int dying(void *x)
{
	kt_graph_die((u64)x);
	return 0;
}

static int worker(void *number)
{
	u64 x = (u64)number + 1;
	struct thread *t;

	while (!stop_work) {
		u32 depth = x >> 33 & 63;

		if (kt_graph_work(x, depth) != expected(x, depth))
			__atomic_fetch_add(&wrong_results, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
		if ((x >> 40) % 16 == 0)
			kt_graph_nap(x >> 20);
		if ((x >> 44) % 256 == 0) {
			t = kthread_run(dying, (void *)(x >> 24), -1, "dying");
			if (t && thread_join(t) != (int)(x >> 24 & 0x7f))
				__atomic_fetch_add(&wrong_results, 1, __ATOMIC_RELAXED);
		}
		x = x * 6364136223846793005 + 1442695040888963407;
	}
	return 0;
}

/* ---- Changes ---- */

static bool instance_there;

static int change_instance(u64 dice)
{
	int err = 0;

	if (!instance_there)
		err = file_mkdir(file_root(), TRACEFS "instances/hostile");
	else if (dice & 1)
		return kt_echo(dice & 2 ? "function_graph" : dice & 4 ? "function" : "nop",
			       "instances/hostile/current_tracer", false);
	else if (dice & 8)
		return kt_echo(dice & 16 ? "kt_*" : "*lock*", "instances/hostile/set_ftrace_filter",
			       false);
	else
		err = file_remove(file_root(), TRACEFS "instances/hostile");
	if (!err)
		instance_there = !instance_there;
	return err;
}

/* Change function_graph's settings while its calls are in progress. */
static int change_questions(u64 dice)
{
	static const struct {
		const char *file, *yes, *no;
	} questions[] = {
		{"set_graph_function", "kt_graph_work", ""},
		{"set_graph_notrace", "kt_graph_end", ""},
		{"max_graph_depth", "3", "0"},
		{"tracing_on", "0", "1"},
		{"buffer_size_kb", "40", "1408"},
		{"function_profile_enabled", "1", "0"},
	};
	unsigned i = (dice >> 1) % ARRAY_SIZE(questions);

	return kt_echo(dice & 1 ? questions[i].yes : questions[i].no, questions[i].file, false);
}

static u64 walks, lost_walks;

/* Walk a worker's stack at any moment: return_to_handler must not be in it. */
static int walk(u64 dice)
{
	unsigned long entries[48];
	unsigned n =
		stack_trace_save_pid(workers[dice % WORKERS]->pid, 0, entries, ARRAY_SIZE(entries));

	walks++;
	for (unsigned i = 0; i < n; i++)
		lost_walks += entries[i] == (unsigned long)return_to_handler;
	return 0;
}

static int change_graph(u64 dice)
{
	static const char *const globs[] = {"kt_*", "*", "kt_graph_nap", "*lock*",
					    "kt_graph_[we]*"};
	static const char *const tracers[] = {"function_graph", "function", "nop",
					      "function_graph"};
	struct hostile_user *u = &users[(dice >> 8) % USERS];

	switch (dice % 10) {
	case 0:
		return kt_echo(tracers[dice >> 16 & 3], "current_tracer", false);
	case 1:
		return kt_echo(globs[(dice >> 16) % ARRAY_SIZE(globs)], "set_ftrace_filter", false);
	case 2:
		return change_instance(dice >> 16);
	case 3:
		if (u->in)
			return ftrace_filter_edit(&u->filter, "kt_graph_w*", 11, dice >> 16 & 1,
						  false);
		return 0;
	case 4:
		return change_questions(dice >> 16);
	case 5:
		return walk(dice >> 16);
	default:
		return u->in ? user_leaves(u)
			     : user_comes(u, globs[(dice >> 16) % ARRAY_SIZE(globs)]);
	}
}

static void everybody_leaves(void)
{
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	for (u64 i = 0; i < 2 * 6; i += 2)
		change_questions(i);
	if (instance_there)
		file_remove(file_root(), TRACEFS "instances/hostile");
	instance_there = false;
	for (unsigned i = 0; i < USERS; i++) {
		if (users[i].in)
			user_leaves(&users[i]);
		ftrace_filter_edit(&users[i].filter, "", 0, true, false);
	}
}

static void hostile_graph_phase(u64 seconds, u64 seed)
{
	u64 until = clock_ns() + seconds * 1000000000, changes = 0;
	int bad = 0;

	walks = lost_walks = wrong_data = calls_after = rounds = wrong_results = 0;
	stop_work = false;
	for (u64 i = 0; i < WORKERS; i++)
		workers[i] = kthread_run(worker, (void *)i, -1, "worker");
	/* a busy host may leave time for few changes */
	while ((clock_ns() < until || !walks) && !bad) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		bad = change_graph(seed >> 20);
		changes++;
	}
	stop_work = true;
	for (unsigned i = 0; i < WORKERS; i++)
		bad |= !workers[i] || thread_join(workers[i]);
	kt_promise(changes && !bad, "%lu changes, none refused (%d)", (unsigned long)changes, bad);
	kt_promise(rounds && !wrong_results, "%lu rounds, %lu wrong results", (unsigned long)rounds,
		   (unsigned long)wrong_results);
	kt_promise(!wrong_data, "%lu returns found another user's entry data",
		   (unsigned long)wrong_data);
	kt_promise(walks && !lost_walks, "%lu walks, %lu wrong", (unsigned long)walks,
		   (unsigned long)lost_walks);
	kt_promise(!calls_after, "%lu calls of users that were unregistered",
		   (unsigned long)calls_after);
}

/*
 * A user that is registered from before the threads' first call until after their last sees a
 * return for every entry.
 */
static void balance(void)
{
	user_comes(&users[0], "kt_graph_[wen]*");
	stop_work = false;
	for (u64 i = 0; i < WORKERS; i++)
		workers[i] = kthread_run(worker, (void *)i, -1, "worker");
	do
		sleep_ns(300000000);
	while (!READ_ONCE(users[0].entries));
	stop_work = true;
	for (unsigned i = 0; i < WORKERS; i++)
		thread_join(workers[i]);
	user_leaves(&users[0]);
	kt_promise(users[0].entries && users[0].entries - users[0].returns <= rounds / 64,
		   "%lu entries, %lu returns: only calls of threads that exited inside are missing",
		   (unsigned long)users[0].entries, (unsigned long)users[0].returns);
}

static void count_shadow(struct thread *t, void *count)
{
	*(unsigned *)count += t->ftrace != NULL;
}

static unsigned shadow_stacks(void)
{
	unsigned count = 0;

	threads_for_each(count_shadow, &count);
	return count;
}

static int hostile_graph_command(int argc, char **argv)
{
	u64 seconds = 10, seed = 1, text = kt_text_hash();

	if ((argc > 1 && kstrtou64(argv[1], 0, &seconds)) ||
	    (argc > 2 && kstrtou64(argv[2], 0, &seed))) {
		out_printf("usage: hostile_graph [SECONDS [SEED]]\n");
		return 1;
	}
	kt_begin();
	hostile_graph_phase(seconds, seed);
	everybody_leaves();
	balance();
	everybody_leaves();
	kt_wait(!shadow_stacks());
	kt_promise(!shadow_stacks(), "%u shadow stacks are left", shadow_stacks());
	kt_promise(!ftrace_disabled && !ftrace_graph_dead,
		   "no site was refused, every frame fitted");
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("hostile_graph", hostile_graph_command, "[SECONDS [SEED]]",
	      "change function_graph's users at random under load");

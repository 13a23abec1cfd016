/*
 * Live patches inside the kernel: tests the promises of livepatch.h while every
 * CPU calls the patched functions.
 */
#include "livepatch.h"

#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "fprobe.h"
#include "kt.h"
#include "string.h"
#include "thread.h"

/* ---- The functions that are patched: each version's result says which it is. ---- */

long kt_patch_first(long x);
long kt_patch_second(long x);
long kt_patch_sleep(long x);
long kt_new_first(long x);
long kt_new_second(long x);
long kt_newer_first(long x);
long kt_new_sleep(long x);

/* At the start of text: its call site is written long before that of kt_patch_second. */
__noinline __attribute__((section(".text.low.kt_patch"))) long kt_patch_first(long x)
{
	barrier();
	return 10 * x + 1;
}
__noinline long kt_patch_second(long x)
{
	barrier();
	return 10 * x + 1;
}
__noinline long kt_new_first(long x)
{
	barrier();
	return 10 * x + 2;
}
__noinline long kt_new_second(long x)
{
	barrier();
	return 10 * x + 2;
}
__noinline long kt_newer_first(long x)
{
	barrier();
	return 10 * x + 3;
}

static struct wait_queue bed;
static bool awake, asleep;
__noinline long kt_patch_sleep(long x)
{
	WRITE_ONCE(asleep, true);
	wait_event(&bed, READ_ONCE(awake));
	return 10 * x + 1;
}
__noinline long kt_new_sleep(long x)
{
	WRITE_ONCE(asleep, true);
	wait_event(&bed, READ_ONCE(awake));
	return 10 * x + 2;
}

static long (*volatile first)(long) = kt_patch_first;
static long (*volatile second)(long) = kt_patch_second;

#define PATCH(name, ...) \
	struct klp_func name##_funcs[] = {__VA_ARGS__, {}}; \
	struct klp_patch name = {name##_funcs}

/*
 * Which versions of the two functions run, a digit for each: 1 the old, 2 the new, 3 the newer one.
 */
static int versions(void)
{
	return first(1) % 10 * 10 + second(1) % 10;
}

/* ---- Promises ---- */

static void there_and_back(void)
{
	PATCH(p, {"kt_patch_first", .new_func = kt_new_first},
	      {.old_addr = (unsigned long)kt_patch_second, .new_func = kt_new_second});

	kt_promise(versions() == 11, "before a patch both functions are the old ones");
	kt_promise(!klp_enable_patch(&p), "a patch of two functions is enabled");
	kt_promise(versions() == 22 && first(7) == 72,
		   "calls run the new functions, with their arguments");
	kt_promise(kt_new_first(1) == 12, "a new function can be called itself");
	kt_promise(klp_enable_patch(&p) == -EBUSY, "enabled twice: -EBUSY");
	kt_promise(!klp_disable_patch(&p) && versions() == 11,
		   "disabled, calls run the old functions");
	kt_promise(klp_disable_patch(&p) == -EINVAL, "disabled twice: -EINVAL");
	kt_promise(!klp_enable_patch(&p) && versions() == 22 && !klp_disable_patch(&p) &&
			   versions() == 11,
		   "it can be enabled and disabled again");
}

static void stacked(bool upper_first)
{
	PATCH(lower, {"kt_patch_first", .new_func = kt_new_first},
	      {"kt_patch_second", .new_func = kt_new_second});
	PATCH(upper, {"kt_patch_first", .new_func = kt_newer_first});

	klp_enable_patch(&lower);
	kt_promise(!klp_enable_patch(&upper) && versions() == 32,
		   "of two patches of a function the newer one wins");
	if (upper_first) {
		klp_disable_patch(&upper);
		kt_promise(versions() == 22, "without the upper one, the lower one shows");
		klp_disable_patch(&lower);
	} else {
		klp_disable_patch(&lower);
		kt_promise(versions() == 31, "without the lower one, the upper one is as it was");
		klp_enable_patch(&lower);
		kt_promise(versions() == 22, "enabled again, it is the newest");
		klp_disable_patch(&upper);
		kt_promise(versions() == 22, "and stays, when the other is disabled");
		klp_disable_patch(&lower);
	}
	kt_promise(versions() == 11, "without both, the functions are the old ones");
}

static notrace void other_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
}

static void conflicts(void)
{
	struct ftrace_ops op = {
		.func = other_callback, .flags = FTRACE_OPS_FL_IPMODIFY, .slot = -1};
	PATCH(p, {"kt_patch_first", .new_func = kt_new_first},
	      {"kt_patch_second", .new_func = kt_new_second});

	ftrace_set_filter(&op, "kt_patch_second", 15, true, false);
	kt_promise(!register_ftrace_function(&op) && klp_enable_patch(&p) == -EBUSY,
		   "an op that may change pc has the second function: the patch gets -EBUSY");
	kt_promise(versions() == 11, "and its first function is not patched");
	unregister_ftrace_function(&op);
	kt_promise(!klp_enable_patch(&p) && register_ftrace_function(&op) == -EBUSY,
		   "the other way round, the op gets it");
	klp_disable_patch(&p);
	kt_promise(!register_ftrace_function(&op), "a disabled patch has no function");
	unregister_ftrace_function(&op);
	op.flags = 0;
	klp_enable_patch(&p);
	kt_promise(!register_ftrace_function(&op) && versions() == 22,
		   "an op that leaves pc alone may have the function too");
	unregister_ftrace_function(&op);
	klp_disable_patch(&p);
	ftrace_filter_free(&op.filter);
}

static void wrong_patches(void)
{
	struct klp_func end = {};
	struct klp_patch none = {NULL}, empty = {&end};
	PATCH(unknown, {"kt_patch_first", .new_func = kt_new_first},
	      {"kt_patch_none", .new_func = kt_new_second});
	PATCH(nothing, {"kt_patch_first"});
	PATCH(both, {"kt_patch_first", (unsigned long)kt_patch_first, kt_new_first});
	PATCH(blind, {.old_addr = (unsigned long)other_callback, .new_func = kt_new_first});

	kt_promise(klp_enable_patch(&unknown) == -ENOENT && versions() == 11,
		   "a name that no function has: -ENOENT, and nothing is patched");
	kt_promise(klp_enable_patch(&blind) == -ENOENT, "a function without a call site: -ENOENT");
	kt_promise(klp_enable_patch(&nothing) == -EINVAL && klp_enable_patch(&both) == -EINVAL &&
			   klp_enable_patch(&none) == -EINVAL &&
			   klp_enable_patch(&empty) == -EINVAL,
		   "no new function, a name and an address, no functions: -EINVAL");
	kt_promise(klp_disable_patch(&unknown) == -EINVAL,
		   "a patch that was refused is not enabled");
}

static int sleeper(void *unused)
{
	long (*volatile one)(long) = kt_patch_sleep;

	return one(1);
}

static struct thread *sleep_inside(void)
{
	struct thread *t;

	awake = asleep = false;
	t = kthread_run(sleeper, NULL, -1, "sleeper");
	while (!READ_ONCE(asleep))
		yield();
	return t;
}

static int wake(struct thread *t)
{
	WRITE_ONCE(awake, true);
	wake_up(&bed);
	return thread_join(t);
}

static void in_progress(void)
{
	PATCH(p, {"kt_patch_sleep", .new_func = kt_new_sleep});
	struct thread *t = sleep_inside();

	klp_enable_patch(&p);
	kt_promise(wake(t) == 11, "a call that began in the old function finishes in it");
	t = sleep_inside();
	klp_disable_patch(&p);
	kt_promise(wake(t) == 12, "a call that began in the new function finishes in it, after the "
				  "patch was disabled");
}

static unsigned exits;
static int calling_enter(struct fprobe *fp, unsigned long ip, unsigned long ret,
			 struct ftrace_regs *regs, void *data)
{
	*(long *)data = second(regs->arg[0]);
	return 0;
}
static notrace void see_exit(struct fprobe *fp, unsigned long ip, unsigned long ret,
			     struct ftrace_regs *regs, void *data)
{
	exits += regs->arg[0] == 72 && *(long *)data == 72;
}

/* function_graph's op and the patch's are called one after the other, in either order. */
static void with_a_probe(bool probe_first)
{
	struct fprobe fp = {calling_enter, see_exit, .entry_data_size = 8};
	PATCH(p, {"kt_patch_first", .new_func = kt_new_first},
	      {"kt_patch_second", .new_func = kt_new_second});

	exits = 0;
	if (!probe_first)
		klp_enable_patch(&p);
	register_fprobe(&fp, "kt_patch_first", NULL);
	if (probe_first)
		klp_enable_patch(&p);
	kt_promise(first(7) == 72 && exits == 1,
		   "an fprobe that came %s sees the new function's result, and its handler calls "
		   "the new ones",
		   probe_first ? "before the patch" : "later");
	unregister_fprobe(&fp);
	klp_disable_patch(&p);
}

/* ---- While every CPU calls. ---- */

/*
 * number: odd while the patch is changed; 1 and 2 while and after it is enabled, 3
 * and 4 while and after it is disabled, 5 and 6 while and after it is enabled again.
 */
static struct {
	u64 number;
	long version; /* that must run while number is even */
} now;
static volatile bool stop_work;
static u64 rounds, certain, wrong, torn;

static void count(u64 *what)
{
	__atomic_fetch_add(what, 1, __ATOMIC_RELAXED);
}

static void call_both(long x)
{
	u64 before = __atomic_load_n(&now.number, __ATOMIC_ACQUIRE), after,
	    phase = (before - 1) / 2;
	long must = READ_ONCE(now.version), a = first(x) - 10 * x, b = second(x) - 10 * x;

	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	after = READ_ONCE(now.number);
	count(&rounds);
	if (a < 1 || a > 2 || b < 1 || b > 2)
		count(&wrong);
	if (phase == (after - 1) / 2 && (phase & 1 ? a < b : a > b))
		count(&torn);
	if (before & 1 || after != before)
		return;
	count(&certain);
	if (a != must || b != must)
		count(&wrong);
}

static int caller(void *number)
{
	for (long x = (long)number; !stop_work; x++)
		call_both(x);
	return 0;
}

static int change(struct klp_patch *p, bool on)
{
	int err;

	__atomic_store_n(&now.number, now.number + 1, __ATOMIC_SEQ_CST);
	err = on ? klp_enable_patch(p) : klp_disable_patch(p);
	now.version = on ? 2 : 1;
	__atomic_store_n(&now.number, now.number + 1, __ATOMIC_SEQ_CST);
	sleep_ns(2000000);
	return err;
}

static void under_load(void)
{
	PATCH(p, {"kt_patch_first", .new_func = kt_new_first},
	      {"kt_patch_second", .new_func = kt_new_second});
	struct thread *t[NR_CPUS];
	int err = 0;

	stop_work = false;
	rounds = certain = wrong = torn = 0;
	now.number = 0;
	now.version = 1;
	for (unsigned i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(caller, (void *)(long)i, i, "caller");
	for (int i = 0; i < 10; i++) {
		err |= change(&p, true);
		err |= change(&p, false);
	}
	stop_work = true;
	for (unsigned i = 0; i < nr_cpus; i++)
		thread_join(t[i]);
	kt_promise(!err && certain && !wrong,
		   "enabled and disabled 10 times while %u CPUs call: %lu rounds, %lu between two "
		   "changes, %lu of the wrong version",
		   nr_cpus, (unsigned long)rounds, (unsigned long)certain, (unsigned long)wrong);
	kt_promise(
		!torn,
		"both change at once: %lu calls of the two were of two versions in the wrong order",
		(unsigned long)torn);
}

static int livepatch_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	there_and_back();
	stacked(true);
	stacked(false);
	conflicts();
	wrong_patches();
	in_progress();
	with_a_probe(true);
	with_a_probe(false);
	under_load();
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_livepatch", livepatch_command, "",
	      "live patches: stacked, in conflict, under load");

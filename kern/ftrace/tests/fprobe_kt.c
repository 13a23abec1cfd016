/*
 * fprobe and kretprobe inside the kernel: tests the promises of fprobe.h and
 * kretprobe.h with calls that nest, recurse, sleep, and exit.
 */
#include "kretprobe.h"

#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "kt.h"
#include "shadow.h"
#include "string.h"
#include "thread.h"

/* ---- The functions that are probed. ---- */

long kt_probe_add(long a, long b);
long kt_probe_tail(long a);
long kt_probe_deep(long x);
long kt_probe_sleep(long x);
void kt_probe_exit(void);
long kt_probe_other(long x);

__noinline long kt_probe_add(long a, long b)
{
	barrier();
	return a + b;
}
__noinline long kt_probe_tail(long a)
{
	return kt_probe_add(a, 1);
}
__noinline long kt_probe_deep(long x)
{
	static long (*volatile deeper)(long) = kt_probe_deep;

	return x ? deeper(x - 1) + 1 : 100;
}
__noinline long kt_probe_other(long x)
{
	barrier();
	return x;
}

static struct wait_queue bed;
static bool awake;
static unsigned asleep;
__noinline long kt_probe_sleep(long x)
{
	__atomic_fetch_add(&asleep, 1, __ATOMIC_RELEASE);
	wait_event(&bed, READ_ONCE(awake));
	return x + 1;
}
__noinline void kt_probe_exit(void)
{
	thread_exit(7);
}

static long (*volatile add)(long, long) = kt_probe_add;
static long (*volatile tail)(long) = kt_probe_tail;
static long (*volatile deep)(long) = kt_probe_deep;
static long (*volatile other)(long) = kt_probe_other;

/* ---- Probes that note the calls of their handlers. ---- */

struct note {
	unsigned long ip, ret, value; /* the first argument or the result */
	u64 kept;		      /* the first word of the data */
	u8 probe;
	bool entry;
};
static struct note notes[64];
static unsigned noted;

struct probe {
	struct fprobe fp;
	u8 id;
	unsigned entries, exits;
};

static notrace void note(const struct fprobe *fp, bool entry, unsigned long ip, unsigned long ret,
			 const struct ftrace_regs *regs, const u64 *data)
{
	const struct probe *p = container_of(fp, const struct probe, fp);
	unsigned i = __atomic_fetch_add(&noted, 1, __ATOMIC_RELAXED);

	if (i < ARRAY_SIZE(notes))
		notes[i] = (struct note){ip,	ret,  regs->arg[0], fp->entry_data_size ? *data : 0,
					 p->id, entry};
}
static notrace int note_enter(struct fprobe *fp, unsigned long ip, unsigned long ret,
			      struct ftrace_regs *regs, void *data)
{
	for (int i = 0; i < fp->entry_data_size / 8; i++)
		((u64 *)data)[i] = 1000 * container_of(fp, struct probe, fp)->id + regs->arg[0] + i;
	__atomic_fetch_add(&container_of(fp, struct probe, fp)->entries, 1, __ATOMIC_RELAXED);
	note(fp, true, ip, ret, regs, data);
	return 0;
}
static notrace void note_exit(struct fprobe *fp, unsigned long ip, unsigned long ret,
			      struct ftrace_regs *regs, void *data)
{
	__atomic_fetch_add(&container_of(fp, struct probe, fp)->exits, 1, __ATOMIC_RELAXED);
	note(fp, false, ip, ret, regs, data);
}

static struct probe make(u8 id, int size)
{
	return (struct probe){.fp = {note_enter, note_exit, .entry_data_size = size}, .id = id};
}

static bool is_note(unsigned i, u8 probe, bool entry, unsigned long value, u64 kept)
{
	return i < noted && notes[i].probe == probe && notes[i].entry == entry &&
	       notes[i].value == value && notes[i].kept == kept;
}

static bool is_at(unsigned i, const void *fn)
{
	return notes[i].ip - (unsigned long)fn < 8;
}

/* ---- fprobe ---- */

static __noinline void entry_and_exit(void)
{
	struct probe a = make(1, 16);
	long sum;

	noted = 0;
	kt_promise(!register_fprobe(&a.fp, "kt_probe_add", NULL), "an fprobe is registered");
	sum = add(30, 4);
	kt_promise(!unregister_fprobe(&a.fp), "and unregistered");
	kt_promise(sum == 34, "a probe changes no result");
	kt_promise(noted == 2 && is_note(0, 1, true, 30, 1030) && is_note(1, 1, false, 34, 1030),
		   "the entry handler sees the argument, the exit handler the result and the data");
	kt_promise(is_at(0, kt_probe_add) && notes[1].ip == notes[0].ip, "ip is the call site");
	kt_promise(notes[0].ret - (unsigned long)entry_and_exit < 0x400 &&
			   notes[1].ret == notes[0].ret,
		   "ret_ip is in the caller");
	add(1, 2);
	kt_promise(noted == 2, "after unregister no handler is called");
}

static void nesting(void)
{
	struct probe a = make(1, 8);
	bool nested = true;

	noted = 0;
	register_fprobe(&a.fp, "kt_probe_*", "kt_probe_[so]*");
	kt_promise(deep(9) == 109, "ten calls deep: the result is right");
	for (int i = 0; i < 10; i++)
		nested &= is_note(i, 1, true, 9 - i, 1009 - i) &&
			  is_note(10 + i, 1, false, 100 + i, 1000 + i);
	kt_promise(nested && noted == 20, "each level of a recursion has its own data");
	noted = 0;
	kt_promise(tail(5) == 6, "a tail call comes back");
	kt_promise(noted == 4 && is_at(0, kt_probe_tail) && is_at(1, kt_probe_add) &&
			   is_at(2, kt_probe_add) && is_at(3, kt_probe_tail),
		   "both functions' exits are seen, the inner first");
	kt_promise(notes[1].ret == notes[0].ret && notes[2].ret == notes[0].ret &&
			   notes[3].ret == notes[0].ret,
		   "ret_ip is the caller of the first, in all four");
	noted = 0;
	other(1);
	kt_promise(!noted, "the functions of notfilter are not probed");
	unregister_fprobe(&a.fp);
}

static void several(void)
{
	struct probe a = make(1, 8), b = make(2, 24), c = make(3, 0), first = make(4, 0);

	first.fp.exit_handler = NULL;
	noted = 0;
	register_fprobe(&a.fp, "kt_probe_add", NULL);
	register_fprobe(&b.fp, "kt_probe_*", NULL);
	register_fprobe(&c.fp, "kt_probe_a*", NULL);
	add(1, 2);
	kt_promise(noted == 6 && is_note(0, 1, true, 1, 1001) && is_note(1, 2, true, 1, 2001) &&
			   is_note(2, 3, true, 1, 0),
		   "three fprobes on one function: the entry handlers run in the order of "
		   "registration");
	kt_promise(is_note(3, 3, false, 3, 0) && is_note(4, 2, false, 3, 2001) &&
			   is_note(5, 1, false, 3, 1001),
		   "the exit handlers run in reverse, each with its own data");
	unregister_fprobe(&b.fp);
	noted = 0;
	register_fprobe(&first.fp, "kt_probe_add", NULL);
	add(1, 2);
	kt_promise(noted == 5 && first.entries == 1 && a.exits == 2 && c.exits == 2 && b.exits == 1,
		   "one leaves, and one that has no exit handler comes: each is called");
	unregister_fprobe(&a.fp);
	unregister_fprobe(&c.fp);
	noted = 0;
	kt_wait(!shadow_of(current));
	add(1, 2);
	kt_promise(noted == 1 && is_note(0, 4, true, 1, 0) && !shadow_of(current),
		   "alone, it is called, and no thread has a shadow stack");
	unregister_fprobe(&first.fp);
}

static void many(void)
{
	static struct probe p[40];
	bool once = true;
	int err = 0;

	for (int i = 0; i < ARRAY_SIZE(p); i++) {
		p[i] = make(i, 0);
		err |= register_fprobe(&p[i].fp, i & 1 ? "kt_probe_add" : "kt_probe_o*", NULL);
	}
	add(1, 2);
	other(1);
	for (int i = 0; i < ARRAY_SIZE(p); i++) {
		unregister_fprobe(&p[i].fp);
		once &= p[i].fp.nmissed + p[i].exits == 1 && p[i].entries == p[i].exits;
	}
	kt_promise(!err && once, "%u fprobes: each is called once", (unsigned)ARRAY_SIZE(p));
}

static notrace int skip(struct fprobe *fp, unsigned long ip, unsigned long ret,
			struct ftrace_regs *regs, void *data)
{
	note_enter(fp, ip, ret, regs, data);
	return regs->arg[0] == 1;
}

static void skipped_and_disabled(void)
{
	struct probe a = make(1, 8);

	a.fp.entry_handler = skip;
	register_fprobe(&a.fp, "kt_probe_add", NULL);
	add(1, 1);
	kt_promise(a.entries == 1 && !a.exits,
		   "an entry handler's 1: no exit handler for this call");
	add(2, 1);
	kt_promise(a.entries == 2 && a.exits == 1, "the next call has it");
	a.fp.flags = FPROBE_FL_DISABLED;
	add(2, 1);
	a.fp.flags = 0;
	kt_promise(a.entries == 2 && a.exits == 1, "a disabled fprobe's handlers are not called");
	unregister_fprobe(&a.fp);
}

static notrace int change_enter(struct fprobe *fp, unsigned long ip, unsigned long ret,
				struct ftrace_regs *regs, void *data)
{
	regs->arg[1] = 1000;
	return 0;
}
static notrace void change_exit(struct fprobe *fp, unsigned long ip, unsigned long ret,
				struct ftrace_regs *regs, void *data)
{
	regs->arg[0] += 20000;
}

static void registers_are_changed(void)
{
	struct fprobe fp = {change_enter, change_exit};

	register_fprobe(&fp, "kt_probe_add", NULL);
	kt_promise(add(1, 1) == 21001, "handlers change an argument and the result");
	unregister_fprobe(&fp);
}

/* Calls a probed function: the build's proof does not know this handler. */
static int calling_enter(struct fprobe *fp, unsigned long ip, unsigned long ret,
			 struct ftrace_regs *regs, void *data)
{
	other(7);
	return note_enter(fp, ip, ret, regs, data);
}
static void calling_exit(struct fprobe *fp, unsigned long ip, unsigned long ret,
			 struct ftrace_regs *regs, void *data)
{
	other(7);
	note_exit(fp, ip, ret, regs, data);
}

static void handlers_are_not_probed(void)
{
	struct probe a = make(1, 0), b = make(2, 0), c = make(3, 0);

	a.fp.entry_handler = calling_enter;
	a.fp.exit_handler = calling_exit;
	c.fp.entry_handler = calling_enter;
	c.fp.exit_handler = NULL;
	register_fprobe(&a.fp, "kt_probe_add", NULL);
	register_fprobe(&b.fp, "kt_probe_other", NULL);
	register_fprobe(&c.fp, "kt_probe_add", NULL);
	add(1, 2);
	kt_promise(a.exits == 1 && c.entries == 1 && !b.entries,
		   "what a handler calls is not probed");
	other(1);
	kt_promise(b.exits == 1, "and the guard is off again");
	unregister_fprobe(&a.fp);
	unregister_fprobe(&b.fp);
	unregister_fprobe(&c.fp);
}

static void no_room(void)
{
	struct probe a = make(1, FPROBE_DATA_MAX), b = make(2, FPROBE_DATA_MAX), c = make(3, 0);

	register_fprobe(&a.fp, "kt_probe_add", NULL);
	register_fprobe(&b.fp, "kt_probe_add", NULL);
	for (int i = 0; i < 5; i++)
		add(i, 1);
	kt_promise(a.exits == 5 && !a.fp.nmissed && !b.entries && b.fp.nmissed == 5,
		   "two fprobes want more than there is room for: the second misses each call, %lu",
		   b.fp.nmissed);
	unregister_fprobe(&b.fp);
	unregister_fprobe(&a.fp);
	a = make(1, 200);
	register_fprobe(&a.fp, "kt_probe_deep", NULL);
	register_fprobe(&c.fp, "kt_probe_add", NULL);
	deep(30);
	kt_promise(a.entries == a.exits && a.exits < 31 && a.exits > 5,
		   "the shadow stack is full: %u of 31 calls are seen", a.exits);
	kt_promise(a.fp.nmissed + a.exits == 31, "each of the others is counted as missed: %lu",
		   a.fp.nmissed);
	kt_promise(add(1, 2) == 3 && c.exits == 1, "and the next one is seen");
	unregister_fprobe(&a.fp);
	a = make(1, 0);
	register_fprobe(&a.fp, "kt_probe_deep", NULL);
	deep(99);
	kt_promise(a.exits < 100 && a.fp.nmissed + a.exits == 100,
		   "so is each that has no room for its frame: %u are seen, %lu missed", a.exits,
		   a.fp.nmissed);
	unregister_fprobe(&a.fp);
	unregister_fprobe(&c.fp);
}

static void listed(void)
{
	const char *const names[] = {"kt_probe_add", "kt_probe_other"}, *const wrong[] = {
										"kt_probe_add",
										"kt_probe_none"};
	unsigned long addrs[] = {(unsigned long)kt_probe_add, 0, (unsigned long)kt_probe_add};
	struct probe a = make(1, 0), b = make(2, 0), none = {};

	kt_promise(!register_fprobe_syms(&a.fp, names, 2), "two names");
	add(1, 2);
	other(1);
	addrs[1] = notes[0].ip;
	kt_promise(!register_fprobe_ips(&b.fp, addrs, 3),
		   "the same function three times, by address and by call site");
	add(1, 2);
	kt_promise(a.entries == 3 && b.entries == 1, "are called once a call");
	kt_promise(register_fprobe(&a.fp, "kt_probe_add", NULL) == -EEXIST,
		   "registered twice: -EEXIST");
	unregister_fprobe(&a.fp);
	unregister_fprobe(&b.fp);
	kt_promise(unregister_fprobe(&a.fp) == -EINVAL, "unregistered twice: -EINVAL");
	kt_promise(register_fprobe_syms(&a.fp, wrong, 2) == -ENOENT,
		   "a name that no function has: -ENOENT");
	kt_promise(register_fprobe(&a.fp, "kt_probe_none*", NULL) == -ENOENT,
		   "a glob that matches nothing: -ENOENT");
	kt_promise(register_fprobe(&a.fp, "kt_probe_add", "*") == -ENOENT,
		   "or nothing that notfilter leaves");
	addrs[1] = (unsigned long)note_enter;
	kt_promise(register_fprobe_ips(&a.fp, addrs, 2) == -ENOENT,
		   "a function without a call site: -ENOENT");
	addrs[1] = (unsigned long)kt_probe_add + 12;
	kt_promise(register_fprobe_ips(&a.fp, addrs, 2) == -ENOENT,
		   "an address inside a function: -ENOENT");
	kt_promise(register_fprobe(&a.fp, NULL, NULL) == -EINVAL &&
			   register_fprobe_ips(&a.fp, addrs, 0) == -EINVAL &&
			   register_fprobe(&none.fp, "kt_probe_add", NULL) == -EINVAL,
		   "nothing to probe, or no handler: -EINVAL");
	a.fp.entry_data_size = FPROBE_DATA_MAX + 1;
	kt_promise(register_fprobe(&a.fp, "kt_probe_add", NULL) == -E2BIG, "too much data: -E2BIG");
}

static int sleeper(void *x)
{
	return kt_probe_sleep((long)x);
}

static void sleep_with(struct thread **t, unsigned n)
{
	awake = false;
	asleep = 0;
	for (unsigned i = 0; i < n; i++)
		t[i] = kthread_run(sleeper, (void *)(long)i, -1, "sleeper");
	while (__atomic_load_n(&asleep, __ATOMIC_ACQUIRE) < n)
		yield();
}

static bool wake_all(struct thread **t, unsigned n)
{
	bool right = true;

	WRITE_ONCE(awake, true);
	wake_up(&bed);
	for (unsigned i = 0; i < n; i++)
		right &= thread_join(t[i]) == (int)i + 1;
	return right;
}

/*
 * The frame of a sleeping thread outlasts one fprobe, and the registration of another one in the
 * same memory.
 */
static void unregistered_meanwhile(void)
{
	struct probe leaves = make(1, 8), stays = make(2, 8);
	struct thread *t;

	noted = 0;
	register_fprobe(&leaves.fp, "kt_probe_sleep", NULL);
	register_fprobe(&stays.fp, "kt_probe_sleep", NULL);
	sleep_with(&t, 1);
	kt_promise(leaves.entries == 1 && stays.entries == 1,
		   "a thread sleeps inside a function that two fprobes probe");
	unregister_fprobe(&leaves.fp);
	leaves = make(1, 8);
	register_fprobe(&leaves.fp, "kt_probe_sleep", NULL);
	kt_promise(wake_all(&t, 1),
		   "one is unregistered, and registered again; the function returns to its caller");
	kt_promise(!leaves.exits,
		   "the exit handler of the one that was unregistered is not called");
	kt_promise(stays.exits == 1 && is_note(2, 2, false, 1, 2000),
		   "that of the other is, with its data");
	sleep_with(&t, 1);
	unregister_fprobe(&leaves.fp);
	unregister_fprobe(&stays.fp);
	register_fprobe(&leaves.fp, "kt_probe_add", NULL);
	wake_all(&t, 1);
	unregister_fprobe(&leaves.fp);
	kt_promise(!leaves.exits && stays.exits == 1,
		   "all leave meanwhile, and one comes: no exit handler is called");
}

/* ---- kretprobe ---- */

static struct {
	unsigned entries, handled;
	unsigned long ret, value;
	u64 kept;
} seen;

static notrace int see_enter(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	*(u64 *)ri->data = regs->arg[0];
	__atomic_fetch_add(&seen.entries, 1, __ATOMIC_RELAXED);
	return regs->arg[0] == 99;
}
static notrace int see_return(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	seen.kept = *(u64 *)ri->data;
	seen.value = regs->arg[0];
	seen.ret = ri->ret_addr;
	__atomic_fetch_add(&seen.handled, 1, __ATOMIC_RELAXED);
	return 0;
}

static struct kretprobe make_kretprobe(const char *name, int maxactive)
{
	memset(&seen, 0, sizeof(seen));
	return (struct kretprobe){{name}, see_return, see_enter, 8, maxactive};
}

static __noinline void kretprobe_handlers(void)
{
	struct kretprobe rp = make_kretprobe("kt_probe_add", 0);

	kt_promise(!register_kretprobe(&rp), "a kretprobe is registered");
	kt_promise(rp.maxactive == MAX(10, 2 * (int)nr_cpus), "maxactive is %d", rp.maxactive);
	add(30, 4);
	kt_promise(seen.handled == 1 && seen.value == 34 && seen.kept == 30 &&
			   seen.ret - (unsigned long)kretprobe_handlers < 0x400,
		   "the handler sees the result, the entry handler's data, and the return address");
	for (int i = 0; i < 100; i++)
		add(99, 1);
	kt_promise(seen.entries == 101 && seen.handled == 1 && !rp.active,
		   "calls that the entry handler drops are not in flight");
	unregister_kretprobe(&rp);
	unregister_kretprobe(&rp);
	add(1, 1);
	kt_promise(seen.entries == 101, "after unregister it is not called");
}

static void at_most(void)
{
	struct kretprobe rp = make_kretprobe("kt_probe_sleep", 3);
	struct thread *t[8];

	register_kretprobe(&rp);
	sleep_with(t, 8);
	kt_promise(rp.active == 3 && rp.nmissed == 5,
		   "eight calls in flight, maxactive is 3: %lu are missed", rp.nmissed);
	kt_promise(wake_all(t, 8) && seen.handled == 3 && seen.entries == 3,
		   "three have handlers, all return to their callers");
	sleep_with(t, 3);
	kt_promise(wake_all(t, 3) && seen.handled == 6 && rp.nmissed == 5 && !rp.active,
		   "then there is room for three more");
	sleep_with(t, 2);
	unregister_kretprobe(&rp);
	kt_promise(wake_all(t, 2) && seen.handled == 6,
		   "unregistered while two are in flight: the handler is not called");
	rp = make_kretprobe("kt_probe_deep", 10);
	register_kretprobe(&rp);
	kt_promise(deep(29) == 129 && seen.handled == 10 && rp.nmissed == 20,
		   "a recursion: the outer ten have handlers");
	unregister_kretprobe(&rp);
}

static int exiter(void *unused)
{
	kt_probe_exit();
	return 0;
}

static void exits_inside(void)
{
	struct kretprobe rp = make_kretprobe("kt_probe_exit", 2),
			 last = make_kretprobe("schedule", 100);
	bool codes = true;
	unsigned entered;
	int active;

	register_kretprobe(&rp);
	kt_promise(!register_kretprobe(&last), "a kretprobe on schedule()");
	for (int i = 0; i < 50; i++)
		codes &= thread_join(kthread_run(exiter, NULL, -1, "exiter")) == 7;
	entered = seen.entries;
	active = READ_ONCE(last.active);
	unregister_kretprobe(&last);
	unregister_kretprobe(&rp);
	kt_promise(codes && !rp.active && !rp.nmissed,
		   "50 threads exit inside: each gives its instance back");
	kt_promise(active < 25, "their last schedule() is not in flight (%u calls, %d in flight)",
		   entered, active);
}

static void wrong_kretprobes(void)
{
	struct kretprobe rp = make_kretprobe("kt_probe_none", 0), none = {{"kt_probe_add"}};

	kt_promise(register_kretprobe(&rp) == -ENOENT, "a name that no function has: -ENOENT");
	rp.kp.addr = (unsigned long)kt_probe_add;
	kt_promise(register_kretprobe(&rp) == -EINVAL, "a name and an address: -EINVAL");
	rp.kp.symbol_name = NULL;
	kt_promise(!register_kretprobe(&rp) && register_kretprobe(&rp) == -EEXIST,
		   "an address; registered twice: -EEXIST");
	unregister_kretprobe(&rp);
	rp.kp.addr = 0;
	kt_promise(register_kretprobe(&rp) == -EINVAL && register_kretprobe(&none) == -EINVAL,
		   "neither, or no handler: -EINVAL");
	rp.kp.symbol_name = "kt_probe_add";
	rp.data_size = KRETPROBE_DATA_MAX + 1;
	kt_promise(register_kretprobe(&rp) == -E2BIG, "too much data: -E2BIG");
}

/* ---- Probes are registered and unregistered while every CPU calls. ---- */

static volatile bool stop_work;
static u64 rounds, wrong_results;

static int worker(void *number)
{
	for (long x = (long)number; !stop_work; x++) {
		if (add(x, 5) != x + 5 || tail(x) != x + 1 || deep(x % 5) != 100 + x % 5)
			__atomic_fetch_add(&wrong_results, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
		if (x % 64 == 0)
			yield(); /* a grace period needs each CPU's scheduler */
	}
	return 0;
}

static void under_load(void)
{
	static const char *const globs[] = {"kt_probe_add", "kt_probe_*", "kt_probe_[td]*",
					    "*lock*"};
	struct probe stays = make(1, 16), p[4];
	struct kretprobe rp = make_kretprobe("kt_probe_add", 100);
	struct thread *t[NR_CPUS];
	int err = 0;

	stop_work = false;
	rounds = wrong_results = 0;
	register_fprobe(&stays.fp, "kt_probe_[atd]*", NULL);
	for (unsigned i = 0; i < nr_cpus; i++)
		t[i] = kthread_run(worker, (void *)(long)i, i, "worker");
	for (int i = 0; i < 20; i++) {
		struct probe *q = &p[i % 4];

		if (i >= 4)
			err |= unregister_fprobe(&q->fp);
		*q = make(i % 4, 8 * (i % 3));
		if (i % 4 == 3) {
			q->fp.exit_handler = NULL;
			q->fp.entry_data_size = 0;
		}
		err |= register_fprobe(&q->fp, globs[i % 7 % 4], NULL);
		if (i % 10 == 5)
			err |= register_kretprobe(&rp);
		if (i % 10 == 9)
			unregister_kretprobe(&rp);
	}
	stop_work = true;
	for (unsigned i = 0; i < nr_cpus; i++)
		thread_join(t[i]);
	for (int i = 0; i < 4; i++)
		err |= unregister_fprobe(&p[i].fp);
	unregister_fprobe(&stays.fp);
	kt_promise(!err && rounds && !wrong_results,
		   "20 probes come and go: %lu rounds, %lu wrong results", (unsigned long)rounds,
		   (unsigned long)wrong_results);
	kt_promise(stays.entries && stays.entries == stays.exits,
		   "one that stays: %u entries, %u exits", stays.entries, stays.exits);
	kt_promise(!rp.nmissed, "no kretprobe is short of instances");
}

static int fprobe_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	entry_and_exit();
	nesting();
	several();
	many();
	skipped_and_disabled();
	registers_are_changed();
	handlers_are_not_probed();
	no_room();
	listed();
	unregistered_meanwhile();
	kretprobe_handlers();
	at_most();
	exits_inside();
	wrong_kretprobes();
	under_load();
	kt_promise(kt_wait(!shadow_of(current)), "the shadow stack is freed with the last fprobe");
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_fprobe", fprobe_command, "",
	      "fprobe, kretprobe: handlers, data, sleepers, limits");

static int ignore(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		  struct ftrace_regs *regs, void *data)
{
	return 0;
}

/*
 * Registers an fprobe on the functions that match a glob, and unregisters it. A test may hold it
 * meanwhile.
 */
static int glob_command(int argc, char **argv)
{
	static struct fprobe fp = {.entry_handler = ignore};
	int err = argc == 2 ? register_fprobe(&fp, argv[1], NULL) : -EINVAL;

	if (err)
		return complain("kt_fprobe_glob", argc == 2 ? argv[1] : "name a glob", -err);
	out_printf("%u functions\n", fp.count);
	return unregister_fprobe(&fp) != 0;
}
SHELL_COMMAND("kt_fprobe_glob", glob_command, "glob", "register an fprobe, and unregister it");

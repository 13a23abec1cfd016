/*
 * A module is loaded or removed by one thread, the mover, while another thread, the
 * actor, uses it. test_module_steps.py stops the mover in front of any of its steps
 * and makes it call steps_park() there: the mover waits, as if it had been preempted,
 * until the actor has done what it may do, or waits for a lock that the mover holds.
 *
 * kt_modsteps load|remove ACTION FAR ROUNDS
 *
 * In each round module mt_steps is loaded or removed once. FAR is 1: it is placed out
 * of reach of the stubs. After each round everything is checked, and nothing of the
 * module may be left. `kt_modsteps where` prints the addresses of its functions.
 */
#include "cpu.h"
#include "errno.h"
#include "file.h"
#include "ftrace.h"
#include "hash.h"
#include "ksyms.h"
#include "kt.h"
#include "module.h"
#include "loader/loader.h"
#include "loader/module_memory.h"
#include "string.h"
#include "tracefs.h"
#include "ftrace_internal.h"
#include "unwind.h"

#define NOIPA __attribute__((noipa))
#define NAME "mt_steps"
#define MAX_SITES 8
#define PARKED_ACTED 1   /* the actor has done all, or sleeps or spins inside */
#define PARKED_WAITS 2   /* the actor waits for module_lock */
#define PARKED_WAITS_2 3 /* the actor waits for ftrace_lock */
/* the mover has stopped all other CPUs: the actor runs as soon as it lets them go */
#define PARKED_STOPPED 4

int kt_steps_wait(int x);
int kt_steps_traced(int x);
static int (*call)(int x, int (*through)(int)), (*tail)(int x, int (*through)(int)), (*leaf)(int x);
static struct thread *mover, *actor;
static int mover_pid;
static struct wait_queue go;
static int stage;	     /* what the actor may do; steps_park() raises it */
static bool over;	     /* the mover has ended */
static bool is_late;	     /* the actor could not run while the mover was stopped */
static bool acted, inside; /* the actor has ended; it sleeps or spins inside until stage 2 */
static const char *wrong;    /* the first thing that was wrong */
static bool loading;
static unsigned pages_before;
static u64 kernel_symbols; /* in kallsyms */
static struct {
	unsigned long ip;
	u32 nop;
} site[MAX_SITES]; /* of the module, where it is now */
static unsigned sites;
static unsigned long spin_ip; /* the site whose callback the actor is in */

static void expect(bool ok, const char *what)
{
	if (!ok && !wrong)
		wrong = what;
}

/* ---- Reading ---- */

static void *contents(const char *path, size_t *size)
{
	struct node copy;
	struct file *f;
	void *data;

	if (file_stat(file_root(), path, &copy) || file_open(file_root(), path, O_RDONLY, &f))
		return NULL;
	data = kmalloc(copy.size + 1);
	*size = file_read(f, data, copy.size);
	file_close(f);
	return data;
}

/* Reads the whole file: has it @word? */
static bool file_has(const char *path, const char *word)
{
	/* one for each thread: the new text, after the end of the text read before */
	static char text[2][KiB(4) + 64];
	char *at = text[current == actor];
	size_t len = strlen(word), kept = 0;
	bool found = false;
	struct file *f;
	ssize_t n;

	if (file_open(file_root(), path, O_RDONLY, &f))
		return false;
	while ((n = file_read(f, at + kept, KiB(4))) > 0) {
		size_t all = kept + n;

		for (size_t i = 0; i + len <= all && !found; i++)
			found = !memcmp(at + i, word, len);
		kept = MIN(all, len - 1);
		memmove(at, at + all - kept, kept);
	}
	file_close(f);
	return found;
}

static void *find(const char *name)
{
	struct module *owner;
	void *value;

	mutex_lock(&module_lock);
	value = (void *)module_find_export(name, &owner);
	mutex_unlock(&module_lock);
	return value;
}

static bool is_loaded(void)
{
	for (const struct module *m = modules; m; m = m->next)
		if (!strcmp(m->name, NAME))
			return true;
	return false;
}

/* ---- What must hold at each moment ---- */

static bool is_mapped(unsigned long va)
{
	unsigned long pa;
	unsigned prot;

	return !mmu_lookup(va, &pa, &prot);
}

static bool is_text(unsigned long va)
{
	unsigned long pa;
	unsigned prot;

	return !mmu_lookup(va, &pa, &prot) && prot & PROT_EXEC;
}

static bool all_nops(void)
{
	for (unsigned i = 0; i < sites; i++)
		if (is_text(site[i].ip) && *(const u32 *)site[i].ip != site[i].nop)
			return false;
	return true;
}

/* ---- Actions ---- */

/* A kernel function that is traced: it sleeps until its stage. */
__noinline int kt_steps_wait(int x)
{
	wait_event(&go, READ_ONCE(stage) >= x);
	return x;
}

/* The mover is at a step. False: it has ended, and was never stopped. */
static bool is_time(void)
{
	kt_steps_wait(1);
	return !READ_ONCE(over);
}

static int plain(int x)
{
	return x;
}

static int sleep_inside(int x)
{
	WRITE_ONCE(inside, true);
	wait_event(&go, READ_ONCE(stage) >= 2);
	return x;
}

static int run_inside(int x)
{
	WRITE_ONCE(inside, true);
	while (READ_ONCE(stage) < 2)
		cpu_relax();
	return x;
}

static int sleep_first(int x)
{
	kt_steps_wait(1);
	return x;
}

static void read_node(void)
{
	struct file *f;
	char c = 0;

	if (file_open(file_root(), "/mt_steps", O_RDONLY, &f))
		return;
	expect(file_read(f, &c, 1) == 1 && c == 'b', "the module's file reads wrong");
	file_close(f);
}

/*
 * While the module is being loaded, only its file can be found: module_lock is free while init
 * runs, but the module is not live.
 */
static void call_coming(void)
{
	struct module *owner;

	read_node();
	if (!mutex_trylock(&module_lock))
		return;
	expect(!module_find_export("mt_steps_call", &owner),
	       "an export is found before init has returned");
	mutex_unlock(&module_lock);
}

static void act_call(void)
{
	if (!is_time())
		return;
	if (loading)
		call_coming();
	else
		expect(call(5, plain) == 7 && leaf(1) == 2, "a call has a wrong result");
}

/* Either the module cannot be found, or it is found and live. */
static void act_find(void)
{
	kt_steps_wait(1);
	expect(!find("mt_steps_call"), "an export is found that nobody may call");
	read_node();
}

static void act_enter(void)
{
	if (!is_time())
		return;
	expect(call(5, sleep_inside) == 7, "a call that slept has a wrong result");
}

/*
 * Nothing of the module is on the stack: its function has jumped to sleep_inside(). But its return
 * is patched.
 */
static void act_tail(void)
{
	if (!is_time())
		return;
	expect(tail(5, sleep_inside) == 5, "a tail call that slept has a wrong result");
}

static void act_run(void)
{
	if (!is_time())
		return;
	expect(call(5, run_inside) == 7, "a call that ran long has a wrong result");
}

static void act_return(void)
{
	if (loading)
		expect(kt_steps_wait(1) == 1, "a return has a wrong value");
	else
		expect(call(5, sleep_first) == 7, "a patched return has a wrong value");
}

static void act_batch(void)
{
	kt_steps_wait(1);
	expect(!kt_echo("nop", "current_tracer", false) &&
		       !kt_echo("function_graph", "current_tracer", false) &&
		       !kt_echo("function", "current_tracer", false),
	       "a tracer cannot be switched");
}

static void act_filter(void)
{
	int err;

	kt_steps_wait(1);
	err = kt_echo("mt_steps_leaf", "set_ftrace_filter", true);
	expect(!err || err == -EINVAL, "a filter is refused for a wrong reason");
	expect(!kt_echo("schedule mt_*:mod:mt_steps", "set_ftrace_filter", false),
	       ":mod: is refused");
	err = kt_echo("!mt_steps_leaf", "set_ftrace_filter", true);
	expect(!err || err == -EINVAL, "a removal from a filter is refused for a wrong reason");
	expect(!kt_echo(":mod:mt_steps kt_steps_wait", "set_ftrace_filter", false),
	       ":mod: is refused");
}

static void act_read(void)
{
	unsigned long entries[16];
	char text[64];
	unsigned n;

	kt_steps_wait(1);
	n = stack_trace_save_pid(mover_pid, 0, entries, ARRAY_SIZE(entries));
	for (unsigned i = 0; i < n; i++)
		expect(snprintf(text, sizeof(text), "%pS", (void *)entries[i]) > 0,
		       "a stack cannot be printed");
	expect(n || is_late, "the mover has no stack");
	expect(file_has(TRACEFS "trace", "TASK"), "trace cannot be read");
	expect(file_has(TRACEFS "enabled_functions", "kt_steps_wait"),
	       "enabled_functions cannot be read");
	expect(file_has(TRACEFS "available_filter_functions", "kt_steps_wait"),
	       "available_filter_functions cannot be read");
	expect(!file_has("/proc/kallsyms", " ?\t"), "a symbol has no name");
	file_has("/proc/modules", NAME);
}

/* The actor spins in a callback, which is not preempted: no grace period ends meanwhile. */
static notrace void spin_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				  struct ftrace_regs *regs)
{
	if (READ_ONCE(stage) != 1 || READ_ONCE(inside))
		return;
	spin_ip = ip;
	WRITE_ONCE(inside, true);
	while (READ_ONCE(stage) < 2)
		cpu_relax();
}
static struct ftrace_ops spin_op = {.func = spin_callback, .slot = -1};

/* It selects all functions that are loaded later. */
static unsigned long all_calls;
static notrace void count_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
	all_calls++;
}
static struct ftrace_ops all_op = {.func = count_callback, .slot = -1};

__noinline int kt_steps_traced(int x)
{
	barrier();
	return x + 1;
}

/* The module's own function, while its site calls the callback; later one of the kernel. */
static void act_spin(void)
{
	if (!is_time())
		return;
	expect(all_nops() || loading ? kt_steps_traced(1) == 2 : leaf(1) == 2,
	       "a call has a wrong result");
	expect(inside, "a call was not traced");
}

static void act_none(void)
{
}

static const struct action {
	const char *name;
	void (*act)(void);
	const char *tracer;
} actions[] = {
	{"none", act_none, "function"},
	{"call", act_call, "function"},
	{"find", act_find, "function"},
	{"enter", act_enter, "function_graph"},
	{"run", act_run, "function"},
	{"tail", act_tail, "function_graph"},
	{"return", act_return, "function_graph"},
	{"batch", act_batch, "function"},
	{"filter", act_filter, "function"},
	{"read", act_read, "function"},
	{"spin", act_spin, "function"},
};
static const struct action *action;

static int actor_main(void *unused)
{
	action->act();
	WRITE_ONCE(acted, true);
	wake_up(&go);
	return 0;
}

/* ---- The mover ---- */

/*
 * A call site that is patched has a record, a name, and text that a stack walk may read. The mover
 * waits, so nothing changes.
 */
static void look(void)
{
	if (!all_nops())
		for (unsigned i = 0; i < sites; i++) {
			expect(lookup_rec(site[i].ip), "a patched site has no record");
			expect(ksym_lookup(site[i].ip, NULL, NULL) && in_text(site[i].ip),
			       "a patched site has no name");
			expect(module_of(site[i].ip), "a patched site has no module");
		}
	if (action->act == act_spin && READ_ONCE(inside) && !READ_ONCE(acted))
		expect(lookup_rec(spin_ip), "a callback runs for a site that has no record");
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next) {
		unsigned long ip = ftrace_ip(t->records);

		if (t->module)
			expect(ksym_lookup(ip, NULL, NULL) && in_text(ip) && module_of(ip),
			       "a record has no name or no module");
	}
}

static bool is_waiting_for(struct mutex *m)
{
	unsigned long flags = spin_lock_irqsave(&m->waiters.lock);
	bool waits = false;

	for (const struct thread *t = m->waiters.waiters; t; t = t->wait_next)
		waits |= t == actor;
	spin_unlock_irqrestore(&m->waiters.lock, flags);
	return waits && m->owner == mover && READ_ONCE(actor->state) == THREAD_SLEEPING;
}

/* Return: PARKED_*; 0: the actor is still running. */
static int settled(void)
{
	bool stays = READ_ONCE(inside) && stage < 2 &&
		     (action->act == act_spin || action->act == act_run ||
		      READ_ONCE(actor->state) == THREAD_SLEEPING);

	if (READ_ONCE(acted) || stays)
		return PARKED_ACTED;
	if (is_waiting_for(&module_lock))
		return PARKED_WAITS;
	return is_waiting_for(&ftrace_lock) ? PARKED_WAITS_2 : 0;
}

void steps_change(void);
void steps_park(void);
void steps_parked(long how);
void steps_changed(long err);

/* test_module_steps.py stops here, and continues the step. */
NOIPA notrace void steps_parked(long how)
{
	barrier();
}
NOIPA notrace void steps_changed(long err)
{
	barrier();
}

/* Inside a batch preemption is off: then the mover's CPU handles interrupts, and no more. */
NOIPA notrace void steps_park(void)
{
	int how = irqs_disabled() ? PARKED_STOPPED : 0;

	look();
	is_late |= how;
	__atomic_add_fetch(&stage, 1, __ATOMIC_SEQ_CST);
	wake_up(&go);
	while (!how && !(how = settled())) {
		if (preemptible())
			yield();
		else
			cpu_relax();
	}
	if (how != PARKED_STOPPED)
		look();
	steps_parked(how);
	barrier();
}

static void *file;
static size_t file_size;

/*
 * Near or far, and each time at the addresses of the first load, where the harness has its
 * breakpoints.
 */
static int load(unsigned long at)
{
	static unsigned long first[2];
	int err = module_load(NAME, file, file_size, first[at] ?: at, 0, NULL);

	for (const struct module *m = modules; m && !err; m = m->next)
		if (!strcmp(m->name, NAME))
			first[at] = m->base;
	return err;
}

static int mover_main(void *at)
{
	int err;

	steps_change();
	err = loading ? load((unsigned long)at) : module_unload(NAME);
	steps_changed(err);
	return err;
}
NOIPA notrace void steps_change(void)
{
	barrier();
}

/* ---- Rounds ---- */

/* The module is loaded, and no tracer is on. */
static void note_sites(void)
{
	call = find("mt_steps_call");
	tail = find("mt_steps_tail");
	leaf = find("mt_steps_leaf");
	sites = 0;
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		for (const struct dyn_ftrace *rec = t->records;
		     t->module && rec < t->end && sites < MAX_SITES; rec++) {
			site[sites].ip = ftrace_ip(rec);
			site[sites++].nop = *(const u32 *)ftrace_ip(rec);
		}
	expect(call && tail && leaf && sites >= 5, "the module has no exports or no sites");
}

static void trace_off(void)
{
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	kt_echo("", "trace", false);
}

static void trace_on(void)
{
	expect(!kt_echo(":mod:mt_steps kt_steps_wait", "set_ftrace_filter", false),
	       ":mod: is refused");
	expect(!kt_echo(action->tracer, "current_tracer", false), "a tracer cannot be switched on");
	expect(!register_ftrace_function(&all_op), "an op is refused");
	if (action->act != act_spin)
		return;
	expect(loading || !ftrace_set_filter(&spin_op, "mt_steps_leaf", 13, true, false),
	       "a filter is refused");
	expect(!ftrace_set_filter(&spin_op, "kt_steps_traced", 15, loading, false) &&
		       !register_ftrace_function(&spin_op),
	       "an op is refused");
}

static unsigned counted(unsigned long ip)
{
	return ftrace_filter_test(&global_ops.filter, ip) +
	       (spin_op.slot >= 0 && ftrace_ops_test(&spin_op, ip)) +
	       (all_op.slot >= 0 && ftrace_ops_test(&all_op, ip));
}

/*
 * Each site has the word of its record, and is traced if and only if it is selected by the tracer
 * that is on, or by an op.
 */
static void check_sites(void)
{
	mutex_lock(&ftrace_lock);
	for_each_ftrace_rec(rec) {
		expect(*(const u32 *)ftrace_ip(rec) == ftrace_expected(rec),
		       "a site is unlike its record");
		expect(rec->flags & FTRACE_FL_DISABLED || !!rec->calls == !!rec->count,
		       "a site is traced and its record counts none, or it is not and its record "
		       "counts some");
		expect(rec->count == counted(ftrace_ip(rec)),
		       "a record counts other tracers than select it");
	}
	mutex_unlock(&ftrace_lock);
}

static void check_gone(void)
{
	const char *name, *module;
	unsigned long addr;

	check_sites();
	expect(!is_loaded() && !find("mt_steps_call") && !file_has("/proc/modules", NAME),
	       "a removed module is listed");
	expect(!ftrace_tables->next && !file_has(TRACEFS "enabled_functions", NAME),
	       "records of a removed module are left");
	expect(!file_has(TRACEFS "set_ftrace_filter", "mt_steps_"),
	       "a filter has functions of a removed module");
	mutex_lock(&module_lock);
	expect(!ksym_number(kernel_symbols, &addr, &name, &module),
	       "kallsyms lists a removed module");
	mutex_unlock(&module_lock);
	for (unsigned i = 0; i < sites; i++) {
		expect(!ftrace_filter_test(&global_ops.filter, site[i].ip),
		       "a filter selects where a removed module was");
		expect(!in_text(site[i].ip) && !is_mapped(site[i].ip) && !module_of(site[i].ip),
		       "text of a removed module is left");
		expect(ksym_lookup(site[i].ip, NULL, NULL), "an old event loses its name");
	}
	expect(module_pages_free() == pages_before, "pages of a removed module are not free");
}

static void check_loaded(void)
{
	expect(find("mt_steps_call") == call, "the module has other addresses than before");
	check_sites();
	expect(!all_nops(), "the tracer that was on does not trace the module");
	expect(call(5, plain) == 7 && leaf(1) == 2, "a call has a wrong result");
	read_node();
}

static void start_threads(unsigned long at)
{
	stage = 0;
	acted = inside = over = is_late = false;
	actor = kthread_run(actor_main, NULL, 0, "actor");
	while (!acted && (READ_ONCE(actor->state) != THREAD_SLEEPING || actor->on_cpu))
		yield();
	mover = kthread_run(mover_main, (void *)at, 1, "mover");
	mover_pid = mover->pid;
}

static int join_threads(void)
{
	int err = thread_join(mover);

	WRITE_ONCE(over, true);
	__atomic_store_n(&stage, 2, __ATOMIC_RELEASE);
	wake_up(&go);
	thread_join(actor);
	return err;
}

/* One round. Return: what the change returned. */
static int play(unsigned long at)
{
	int err;

	pages_before = module_pages_free();
	expect(!load(at), "the module cannot be loaded");
	note_sites();
	if (loading)
		expect(!module_unload(NAME), "the module cannot be removed");
	trace_on();
	start_threads(at);
	err = join_threads();
	expect(!err || (!loading && err == -EBUSY), "the change has a wrong result");
	if (!err && !loading)
		check_sites();
	if (err || loading)
		check_loaded();
	expect(!unregister_ftrace_function(&all_op), "an op cannot be taken away");
	if (spin_op.slot >= 0)
		expect(!unregister_ftrace_function(&spin_op), "an op cannot be taken away");
	if (err || loading)
		expect(!module_unload(NAME), "the module cannot be removed afterwards");
	check_gone();
	trace_off();
	ftrace_filter_free(&spin_op.filter);
	return err;
}

/* The addresses of the steps that lie in the module. */
static int print_places(void)
{
	const char *name, *module;
	unsigned long addr;

	for (int far = 0; far < 2; far++) {
		load(far ? MODULE_FAR : MODULE_NEAR);
		mutex_lock(&module_lock);
		for (u64 n = 0; ksym_number(n, &addr, &name, &module); n++)
			if (module)
				out_printf("%d %s %lx\n", far, name, addr);
		mutex_unlock(&module_lock);
		module_unload(NAME);
	}
	return 0;
}

static bool find_action(const char *name)
{
	action = NULL;
	for (unsigned i = 0; i < ARRAY_SIZE(actions); i++)
		if (!strcmp(actions[i].name, name))
			action = &actions[i];
	return action;
}

static void count_symbols(void)
{
	const char *name, *module;
	unsigned long addr;

	mutex_lock(&module_lock);
	for (kernel_symbols = 0; ksym_number(kernel_symbols, &addr, &name, &module);)
		kernel_symbols++;
	mutex_unlock(&module_lock);
}

static int play_all(unsigned long at, u64 rounds)
{
	u64 n = 0;

	kt_begin();
	wrong = NULL;
	count_symbols();
	expect(!ftrace_set_filter(&all_op, "*", 1, true, true), "a notrace list is refused");
	for (; n < rounds && !wrong; n++)
		out_printf("round %lu: %d\n", (unsigned long)n, play(at));
	ftrace_filter_free(&all_op.filter);
	kt_promise(!wrong, "%lu rounds: %s", (unsigned long)n,
		   wrong ?: "nothing is left, and all results are right");
	return kt_end();
}

static int modsteps_command(int argc, char **argv)
{
	u64 far, rounds;
	int err = 2;

	file = contents("/lib/modules/" ARCH_NAME "/" NAME ".ko", &file_size);
	if (!file)
		return 2;
	trace_off();
	if (argc == 2)
		err = print_places();
	else if (argc == 5 && nr_cpus > 1 && find_action(argv[2]) && !kstrtou64(argv[3], 0, &far) &&
		 !kstrtou64(argv[4], 0, &rounds)) {
		loading = argv[1][0] == 'l';
		err = play_all(far ? MODULE_FAR : MODULE_NEAR, rounds);
	}
	kfree(file);
	return err;
}
SHELL_COMMAND("kt_modsteps", modsteps_command, "change action far rounds",
	      "one module, two threads, for test_module_steps.py");

/*
 * Loading and removing modules. module.h says what is promised; loader.h says which
 * file does which step.
 *
 * A load makes a module ready while no other CPU can see it: its pages are not
 * executable, and no list has it. Then it is published in this order: names, list of
 * modules, call sites. So a patched call site always has a name and an owner. A
 * removal takes back the call sites, waits until nothing leads into the module, and
 * takes back the rest in reverse order. It waits for a grace period before it frees
 * memory.
 */
#include "module.h"

#include "cpu.h"
#include "file.h"
#include "fprobe.h"
#include "ftrace_module.h"
#include "irq.h"
#include "kprobes.h"
#include "ksyms.h"
#include "livepatch.h"
#include "loader.h"
#include "loader/module_memory.h"
#include "stop.h"
#include "string.h"

struct mutex module_lock;
struct module *modules;

const struct module *module_of(unsigned long addr)
{
	const struct module *m = READ_ONCE(modules);

	while (m && !module_has_text(m, addr))
		m = READ_ONCE(m->next);
	return m;
}

/* Nothing new may be set in a module that is going: module_is_going(). */
static void set_state(struct module *m, enum module_state state)
{
	m->state = state;
	WRITE_ONCE(m->symbols->going, state == MODULE_GOING);
}

static struct module **link_of(const char *name)
{
	struct module **link = &modules;

	while (*link && strcmp((*link)->name, name))
		link = &(*link)->next;
	return link;
}

static int check_name(const char *name)
{
	struct module *same;

	for (const char *p = name; *p; p++)
		if (!((*p | 32) >= 'a' && (*p | 32) <= 'z') && !(*p >= '0' && *p <= '9') &&
		    *p != '_' && *p != '-')
			name = "";
	if (!*name || strlen(name) >= sizeof(same->name)) {
		printk("module: a module's name has 1 to %zu letters, digits, '_' or '-'\n",
		       sizeof(same->name) - 1);
		return -EINVAL;
	}
	same = *link_of(name);
	if (same)
		printk("module %s: it is loaded already\n", name);
	return same ? -EEXIST : 0;
}

/*
 * Room for the file's regions, and in text for the tracer's trampolines, which begin at m->base +
 * *room.
 */
static int place(struct module *m, struct module_elf *elf, unsigned long at, size_t *room)
{
	size_t size[MODULE_REGIONS];
	int err;

	memcpy(size, elf->size, sizeof(size));
	*room = ALIGN_UP(size[MODULE_TEXT], 16);
	size[MODULE_TEXT] = *room + ftrace_module_room();
	err = module_memory_alloc(m, size, at);
	if (err)
		return err;
	m->files = (struct file_range){m->base, m->end[MODULE_DATA] - m->base, NULL};
	elf->base[MODULE_TEXT] = m->base;
	elf->base[MODULE_RODATA] = m->end[MODULE_TEXT];
	elf->base[MODULE_DATA] = m->end[MODULE_RODATA];
	for (int i = 0; i < MODULE_REGIONS; i++)
		elf->memory[i] = (u8 *)elf->base[i];
	return 0;
}

static int check_export(const struct module *m, const struct export *e)
{
	struct module *owner;

	if (!module_has_name(m, e->name)) {
		printk("module %s: a pointer in section .table.export leads out of the module\n",
		       m->name);
		return -ENOEXEC;
	}
	if (module_find_export(e->name, &owner) || owner) {
		printk("module %s: it exports '%s', as %s does\n", m->name, e->name,
		       owner ? owner->name : "the kernel");
		return -EEXIST;
	}
	for (const struct export *other = m->exports; other < e; other++)
		if (!strcmp(other->name, e->name)) {
			printk("module %s: it exports '%s' twice\n", m->name, e->name);
			return -EEXIST;
		}
	return 0;
}

static int find_parts(struct module *m, const struct module_elf *elf)
{
	const void *start, *end;
	int err = module_table(elf, ".table.export", sizeof(struct export), &start, &end);

	m->exports = start;
	m->exports_end = end;
	for (const struct export *e = start; !err && e < m->exports_end; e++)
		err = check_export(m, e);
	m->init = (int (*)(void))module_elf_symbol(elf, "init_module");
	m->exit = (void (*)(void))module_elf_symbol(elf, "cleanup_module");
	return err;
}

static int prepare_sites(struct module *m, const struct module_elf *elf, size_t room)
{
	const void *start, *end;
	int err = module_table(elf, "__patchable_function_entries", sizeof(unsigned long), &start,
			       &end);

	return err
		       ?: ftrace_module_prepare(m, start,
						(const unsigned long *)end -
							(const unsigned long *)start,
						m->base + room);
}

/* Do everything that comes before the module is published. */
static int make(struct module *m, struct module_elf *elf, unsigned long at, int count,
		char **params)
{
	size_t room;
	int err = place(m, elf, at, &room);

	if (err)
		return err;
	module_elf_copy(elf);
	err = module_resolve(m, elf);
	err = err ?: module_elf_relocate(elf);
	err = err ?: find_parts(m, elf);
	err = err ?: module_set_params(m, elf, count, params);
	err = err ?: module_name_functions(m, elf, room);
	err = err ?: prepare_sites(m, elf, room);
	return err ?: module_memory_protect(m);
}

static void publish(struct module *m)
{
	struct module **link = &modules;

	ksym_add(m->symbols);
	while (*link)
		link = &(*link)->next;
	smp_wmb();
	WRITE_ONCE(*link, m);
	ftrace_module_enable(m);
	TRACE(module_load, m->name);
}

/* Free what a load has made so far. Nobody else sees @m. */
static void discard(struct module *m)
{
	ftrace_module_release(m);
	module_drop_uses(m);
	if (m->base)
		module_memory_free(m);
	kfree(m->words);
	kfree(m);
}

/* ---- what leads into a module ---- */

#define ROUND_NS 10000000
#define ROUNDS 100 /* a second */

/* Why a module cannot be freed yet. */
struct reason {
	char text[80]; /* empty: it can */
	bool unknown;  /* a CPU does not stop; each look costs the machine many seconds */
};

struct inside {
	const struct module *m;
	bool own; /* its own threads count too */
	int pid;  /* of a thread that is inside; -1: none */
	char comm[sizeof(((struct thread *)NULL)->comm)];
};

/* With all other CPUs stopped: is a thread in the module, or will one return to it? */
static int look_inside(void *arg)
{
	struct inside *inside = arg;
	unsigned long start = inside->m->base, end = inside->m->end[MODULE_TEXT];
	struct thread *t;

	if (threads_inside(start, end, inside->own, &t)) {
		inside->pid = t->pid;
		memcpy(inside->comm, t->comm, sizeof(inside->comm));
		return 1;
	}
	return ftrace_returns_through(start, end);
}

static int look_nowhere(void *unused)
{
	return 0;
}

/* Return: what @look returned; or -ETIMEDOUT, with the reason. */
static int look_stopped(int (*look)(void *), void *arg, struct reason *r)
{
	int found = stop_machine(look, arg);

	r->unknown = found < 0;
	if (r->unknown)
		strlcpy(r->text, "a CPU does not stop, so it is not known whether it is inside",
			sizeof(r->text));
	return found;
}

static void find_inside(const struct module *m, bool own, struct reason *r)
{
	struct inside inside = {m, own, -1, ""};
	int found = look_stopped(look_inside, &inside, r);

	if (found < 0)
		return;
	if (found && inside.pid >= 0)
		snprintf(r->text, sizeof(r->text), "thread %d (%s) is inside", inside.pid,
			 inside.comm);
	else if (found)
		strlcpy(r->text, "a traced call will return through it", sizeof(r->text));
}

/* Which probes or patches are in its text after the MODULE_HOOKs were called. */
static void find_probes(struct module *m, struct reason *r)
{
	const char *why = "";

	if (HAS_PROBES && kprobe_within(m->base, m->end[MODULE_TEXT], false))
		why = "a kprobe is in it";
	else if (HAS_PROBES && fprobe_within(m->base, m->end[MODULE_TEXT], false))
		why = "an fprobe or a kretprobe has one of its functions";
	else if (ftrace_module_replaced(m))
		why = "a live patch, or another op that may change pc, has one of its functions";
	strlcpy(r->text, why, sizeof(r->text));
}

/* Also a CPU that does not stop, because a grace period would wait for it while locks are held. */
static void find_hindrance(struct module *m, struct reason *r)
{
	find_probes(m, r);
	if (!*r->text)
		look_stopped(look_nowhere, NULL, r);
}

/* What the module has registered. */
static void find_registered(const struct module *m, struct reason *r)
{
	unsigned long start = m->base, end = m->end[MODULE_DATA];
	const char *why = "";

	if (HAS_PROBES && (kprobe_within(start, end, true) || fprobe_within(start, end, true)))
		why = "a probe of it is registered";
	else if (HAS_PROBES && klp_within(start, end))
		why = "a live patch of it is enabled";
	else if (ftrace_module_registered(m))
		why = "an op or a user of function_graph of it is registered";
	strlcpy(r->text, why, sizeof(r->text));
}

/*
 * In this order. A file that is in use may be read, and its read may start a thread; but no other
 * file is opened. A thread that is inside may register something; a callback starts no thread.
 */
static void find_ways_in(struct module *m, struct reason *r)
{
	if (file_ops_forget(&m->files))
		strlcpy(r->text, "one of its files is in use", sizeof(r->text));
	if (!*r->text)
		find_inside(m, true, r);
	if (!*r->text)
		find_registered(m, r);
}

static int stays(const struct module *m, const char *why)
{
	printk("module %s: it stays, because %s; try `rmmod %s` again when that has ended\n",
	       m->name, why, m->name);
	return interrupted() ? -EINTR : -EBUSY;
}

/*
 * Wait, without module_lock, until find() gives no reason. Or give up after a message. -EINTR:
 * after Ctrl-C; -EBUSY: a CPU does not stop; or the module has faulted, so nobody takes back what
 * it has registered, and a second has passed.
 */
static int wait_until_none(struct module *m, void (*find)(struct module *m, struct reason *r))
{
	for (unsigned rounds = 1;; rounds++) {
		struct reason r = {""};

		find(m, &r);
		if (!*r.text)
			return 0;
		if (r.unknown || interrupted() || (m->faulted && rounds == ROUNDS))
			return stays(m, r.text);
		if (rounds == ROUNDS)
			printk("module %s: waiting, because %s; Ctrl-C ends the wait\n",
			       m->name, r.text);
		sleep_ns(ROUND_NS);
	}
}

/* ---- init and exit, each in a thread of its own ---- */

static void notify(const struct module *m, bool coming)
{
	TABLE_FOR_EACH(const struct module_hook, module_hook, hook)
		hook->fn(m, coming);
}

static int run_init(void *arg)
{
	struct module *m = arg;
	int err;

	current->faulted = &m->faulted;
	err = m->init();
	current->faulted = NULL;
	if (err)
		printk("module %s: its init returned %d\n", m->name, err);
	return err;
}

static int run_exit(void *arg)
{
	struct module *m = arg;

	current->faulted = &m->faulted;
	m->exit();
	current->faulted = NULL;
	return 0;
}

static const char *called(const struct module *m)
{
	return m->state == MODULE_COMING ? "init" : "exit";
}

/* A fault ends that thread only, and this thread need not wait for ever. */
static int begin_call(struct module *m, int (*run)(void *), const char *name)
{
	m->thread = kthread_run(run, m, current->pinned, name);
	if (m->thread)
		return 0;
	printk("module %s: no memory for the thread of its %s\n", m->name, called(m));
	return -ENOMEM;
}

/* Ctrl-C reaches this thread, so the first one is passed on; after the second one the wait ends. */
static bool wait_for_call(const struct module *m)
{
	if (thread_wait(m->thread, false))
		return true;
	WRITE_ONCE(current->interrupted, false);
	thread_interrupt(m->thread);
	printk("module %s: its %s was interrupted; Ctrl-C again ends the wait for it\n", m->name,
	       called(m));
	thread_wait(m->thread, false);
	WRITE_ONCE(current->interrupted, true); /* for the caller, and for the shell */
	return thread_done(m->thread);
}

/* *@result: what init returned; 0 for exit. -EINTR after a message: it still runs. */
static int end_call(struct module *m, int *result)
{
	char why[32];

	if (!wait_for_call(m)) {
		snprintf(why, sizeof(why), "its %s still runs", called(m));
		return stays(m, why);
	}
	*result = thread_join(m->thread);
	m->thread = NULL;
	if (m->faulted)
		printk("module %s: its %s faulted\n", m->name, called(m));
	return 0;
}

static void init_ended(struct module *m, int err)
{
	mutex_lock(&module_lock);
	set_state(m, err ? MODULE_GOING : MODULE_LIVE);
	if (err)
		file_ops_forget(&m->files);
	mutex_unlock(&module_lock);
	if (err)
		notify(m, false);
}

/* ---- removing ---- */

/* Nothing leads into the module. */
static void withdraw(struct module *m)
{
	struct module **link = link_of(m->name);

	TRACE(module_free, m->name);
	file_ops_forget(&m->files); /* those that its last thread has made; none was opened */
	file_ops_end(&m->files);
	WRITE_ONCE(*link, m->next);
	ksym_remove(m->symbols); /* its grace period is also the one after which nobody uses @m */
	m->symbols = NULL;
	discard(m);
}

/*
 * @m is MODULE_GOING, and neither init nor exit runs. Return: 0, and @m is freed; or
 * wait_until_none()'s errors, and another call goes on from there.
 */
static int take_out(struct module *m)
{
	int err = wait_until_none(m, find_hindrance);

	if (err)
		return err;
	mutex_lock(&module_lock);
	ftrace_module_release(m);
	mutex_unlock(&module_lock);
	err = wait_until_none(m, find_ways_in);
	if (err)
		return err;
	mutex_lock(&module_lock);
	withdraw(m);
	mutex_unlock(&module_lock);
	return 0;
}

static int refuse(const struct module *m, const char *why)
{
	printk("module %s: %s\n", m->name, why);
	return -EBUSY;
}

static int check_unused(struct module *m)
{
	if (m->users)
		return refuse(m, "another module uses its exports");
	if (!m->exit && m->init)
		return refuse(m, "it has no module_exit()");
	if (file_ops_going(&m->files))
		return refuse(m, "one of its files or directories is in use");
	return 0;
}

/* The module is marked as going, so nobody can enter it by a new probe, patch or open file. */
static int check_left(struct module *m)
{
	struct reason r = {""};

	find_probes(m, &r);
	if (!*r.text)
		find_inside(m, false, &r);
	return *r.text ? refuse(m, r.text) : 0;
}

/* The module stays: everything as before. */
static void keep_module(struct module *m)
{
	mutex_lock(&module_lock);
	file_ops_end(&m->files);
	set_state(m, MODULE_LIVE);
	mutex_unlock(&module_lock);
	notify(m, true);
}

/* @m is live. Call its exit. */
static int call_exit(struct module *m)
{
	int err, unused;

	mutex_lock(&module_lock);
	err = check_unused(m);
	if (!err)
		set_state(m, MODULE_GOING);
	mutex_unlock(&module_lock);
	if (err)
		return err;
	notify(m, false);
	err = check_left(m);
	if (!err && m->exit)
		err = begin_call(m, run_exit, "rmmod");
	if (err)
		keep_module(m);
	return err ?: m->thread ? end_call(m, &unused) : 0;
}

/* Go on from where insmod or an earlier rmmod has given up. */
static int unload(struct module *m)
{
	int result, err = m->thread ? end_call(m, &result) : 0;

	if (err)
		return err;
	if (m->state == MODULE_COMING)
		init_ended(m, result);
	if (m->state == MODULE_LIVE)
		err = call_exit(m);
	return err ?: take_out(m);
}

/* From now on only this thread loads or removes the module, until let_go(). */
static struct module *take_hold(const char *name, int *err)
{
	struct module *m;

	mutex_lock(&module_lock);
	m = *link_of(name);
	*err = !m ? -ENOENT : m->held ? refuse(m, "it is being loaded or removed") : 0;
	if (!m)
		printk("module %s: it is not loaded\n", name);
	if (!*err)
		m->held = true;
	mutex_unlock(&module_lock);
	return m;
}

static void let_go(struct module *m)
{
	mutex_lock(&module_lock);
	m->held = false;
	mutex_unlock(&module_lock);
}

int module_unload(const char *name)
{
	int err;
	struct module *m = take_hold(name, &err);

	if (err)
		return err;
	err = unload(m);
	if (err)
		let_go(m);
	return err;
}

/* ---- loading ---- */

/* Call init without the lock: it may load another module, or read /proc/modules. */
static int start(struct module *m)
{
	int err, result;

	notify(m, true);
	result = m->init ? begin_call(m, run_init, "insmod") : 0;
	err = m->thread ? end_call(m, &result) : 0;
	if (!err)
		init_ended(m, result);
	if (err || !result || take_out(m))
		let_go(m);
	return err ?: result <= 0 ? result : -EINVAL;
}

static int load(struct module *m, const void *file, size_t size, unsigned long at, int count,
		char **params)
{
	struct ksym_names names = ksym_names_mark();
	struct module_elf elf;
	int err = module_elf_open(&elf, m->name, file, size);

	err = err ?: make(m, &elf, at, count, params);
	module_elf_close(&elf);
	if (err) {
		kfree(m->symbols);
		ksym_names_forget(names);
		discard(m);
	} else {
		publish(m);
	}
	return err;
}

int module_load(const char *name, const void *file, size_t size, unsigned long at, int count,
		char **params)
{
	struct module *m = NULL;
	int err;

	mutex_lock(&module_lock);
	err = check_name(name);
	if (!err) {
		m = kzalloc(sizeof(*m));
		err = m ? 0 : -ENOMEM;
		if (err)
			printk("module %s: no memory\n", name);
	}
	if (!err) {
		strlcpy(m->name, name, sizeof(m->name));
		m->state = MODULE_COMING;
		m->held = true;
		err = load(m, file, size, at, count, params);
	}
	mutex_unlock(&module_lock);
	return err ?: start(m);
}

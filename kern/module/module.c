/*
 * Loading and removing modules. module.h says what is promised; loader.h says which
 * file does which step.
 *
 * A load makes a module ready while no other CPU can see it: its pages are not
 * executable, and no list has it. Then it is published in this order: names, list of
 * modules, call sites. So a patched call site always has a name and an owner. A
 * removal does the same in reverse order, and waits for a grace period before it
 * frees memory.
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
#include "module/memory.h"
#include "module/stop.h"
#include "string.h"

struct mutex module_lock;
struct module *modules;
void (*module_notify)(const struct module *m, bool coming);

const struct module *module_of(unsigned long addr)
{
	const struct module *m = READ_ONCE(modules);

	while (m && !module_has_text(m, addr))
		m = READ_ONCE(m->next);
	return m;
}

bool module_is_going(unsigned long addr)
{
	const struct module *m;
	bool going;

	preempt_disable(); /* a removed one is freed after a grace period */
	m = module_of(addr);
	going = m && READ_ONCE(m->state) == MODULE_GOING;
	preempt_enable();
	return going;
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
		if (!((*p | 32) >= 'a' && (*p | 32) <= 'z') && !(*p >= '0' && *p <= '9') && *p != '_' && *p != '-')
			name = "";
	if (!*name || strlen(name) >= sizeof(same->name)) {
		printk("module: a module's name has 1 to %zu letters, digits, '_' or '-'\n", sizeof(same->name) - 1);
		return -EINVAL;
	}
	same = *link_of(name);
	if (same)
		printk("module %s: it is loaded already\n", name);
	return same ? -EEXIST : 0;
}

/* Room for the file's regions, and in text for the tracer's trampolines, which begin at m->base + *room. */
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
		printk("module %s: a pointer in section .table.export leads out of the module\n", m->name);
		return -ENOEXEC;
	}
	if (module_find_export(e->name, &owner) || owner) {
		printk("module %s: it exports '%s', as %s does\n", m->name, e->name, owner ? owner->name : "the kernel");
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
	int err = module_table(elf, "__patchable_function_entries", sizeof(unsigned long), &start, &end);

	return err ?: ftrace_module_prepare(m, start, (const unsigned long *)end - (const unsigned long *)start, m->base + room);
}

/* Do everything that comes before the module is published. */
static int make(struct module *m, struct module_elf *elf, unsigned long at, int count, char **params)
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

/* ---- removing ---- */

struct inside {
	const struct module *m;
	bool own;		 /* its own threads count too */
	struct thread *thread; /* one of those that are inside */
};

/* With all other CPUs stopped: is a thread in the module, or will one return to it? */
static int look_inside(void *arg)
{
	struct inside *in = arg;
	unsigned long start = in->m->base, end = in->m->end[MODULE_TEXT];

	return threads_inside(start, end, in->own, &in->thread) || ftrace_returns_through(start, end);
}

/* Return: 0, 1, or -ETIMEDOUT: a CPU did not stop. */
static int is_inside(const struct module *m, bool own, struct thread **thread)
{
	struct inside in = {m, own, NULL};
	int is = stop_machine(look_inside, &in);

	*thread = in.thread;
	return is;
}

/* Wait for threads that were already executing the module when it was withdrawn. */
static void wait_until_left(const struct module *m)
{
	struct thread *thread;

	for (unsigned rounds = 1; is_inside(m, true, &thread); rounds++) {
		if (rounds % 1000 == 0)
			printk("module %s: thread %d is still inside; rmmod waits\n", m->name, thread ? thread->pid : -1);
		sleep_ns(10000000);
	}
}

/* Remove everything that leads into @m. When this returns, no CPU is inside it. */
static void withdraw(struct module *m)
{
	struct module **link = link_of(m->name);

	ftrace_module_release(m);
	WRITE_ONCE(*link, m->next);
	synchronize_sched();
	wait_until_left(m);
	ksym_remove(m->symbols);
	m->symbols = NULL;
}

static int refuse(const struct module *m, const char *why)
{
	printk("module %s: %s\n", m->name, why);
	return -EBUSY;
}

static int check_nobody_inside(const struct module *m)
{
	struct thread *thread;
	int is = is_inside(m, false, &thread);

	if (is < 0)
		return refuse(m, "a CPU does not stop, so it is not known whether it is inside");
	if (is && thread)
		printk("module %s: thread %d (%s) is inside\n", m->name, thread->pid, thread->comm);
	else if (is)
		refuse(m, "a traced call will return through it");
	return is ? -EBUSY : 0;
}

static int check_unused(const struct module *m)
{
	if (m->state != MODULE_LIVE)
		return refuse(m, "it is being loaded or removed");
	if (m->users)
		return refuse(m, "another module uses its exports");
	if (!m->exit && m->init)
		return refuse(m, "it has no module_exit()");
	if (file_ops_going(m->base, m->end[MODULE_DATA], true))
		return refuse(m, "one of its files or directories is in use");
	return 0;
}

/* Which probes or patches are still in its text after module_notify() was called; NULL: none. */
static const char *what_is_left(const struct module *m)
{
	if (kprobe_within(m->base, m->end[MODULE_TEXT], false))
		return "a kprobe is in it";
	if (fprobe_within(m->base, m->end[MODULE_TEXT], false))
		return "an fprobe or a kretprobe has one of its functions";
	if (ftrace_module_replaced(m))
		return "a live patch, or another op that may change pc, has one of its functions";
	return NULL;
}

static int check_left(const struct module *m)
{
	const char *left = what_is_left(m);

	return left ? refuse(m, left) : check_nobody_inside(m);
}

static void notify(const struct module *m, bool coming)
{
	if (module_notify)
		module_notify(m, coming);
}

/* The module stays: everything as before. */
static void keep(struct module *m)
{
	mutex_lock(&module_lock);
	file_ops_going(m->base, m->end[MODULE_DATA], false);
	m->state = MODULE_LIVE;
	mutex_unlock(&module_lock);
	notify(m, true);
}

static struct module *begin_to_unload(const char *name, int *err)
{
	struct module *m;

	mutex_lock(&module_lock);
	m = *link_of(name);
	*err = m ? check_unused(m) : -ENOENT;
	if (!m)
		printk("module %s: it is not loaded\n", name);
	if (!*err)
		m->state = MODULE_GOING;
	mutex_unlock(&module_lock);
	return m;
}

static int unload(const char *name)
{
	int err;
	struct module *m = begin_to_unload(name, &err);

	if (err)
		return err;
	notify(m, false);
	err = check_left(m);
	if (err) {
		keep(m);
		return err;
	}
	if (m->exit)
		m->exit();
	mutex_lock(&module_lock);
	withdraw(m);
	file_ops_going(m->base, m->end[MODULE_DATA], false);
	discard(m);
	mutex_unlock(&module_lock);
	return 0;
}

int module_unload(const char *name)
{
	static struct mutex one_at_a_time; /* file_ops_going() knows of one module, also while its exit runs */
	int err;

	mutex_lock(&one_at_a_time);
	err = unload(name);
	mutex_unlock(&one_at_a_time);
	return err;
}

/* ---- loading ---- */

/* Init has failed. Remove the files that it has made; then say what else leads into the module. NULL: nothing. */
static const char *what_leads_into(const struct module *m)
{
	unsigned long start = m->base, end = m->end[MODULE_DATA];
	bool used = file_ops_forget(start, end);
	const char *left = what_is_left(m);
	struct thread *thread;

	if (left)
		return left;
	if (kprobe_within(start, end, true) || fprobe_within(start, end, true))
		return "a probe of it is registered";
	if (klp_within(start, end))
		return "a live patch of it is enabled";
	if (ftrace_module_registered(m))
		return "an op or a user of function_graph of it is registered";
	if (used)
		return "one of its files is in use";
	return is_inside(m, true, &thread) ? "a thread is in it" : NULL;
}

/*
 * Init has failed: wait until nothing leads into the module. After a fault nobody will take back what init has
 * registered, so this gives up after a second; else after Ctrl-C. Return: may the module be freed?
 */
static bool wait_until_free(const struct module *m)
{
	const char *left;

	for (unsigned rounds = 1; (left = what_leads_into(m)); rounds++) {
		if (interrupted() || (m->faulted && rounds == 100)) {
			printk("module %s: %s, so it stays until the machine is reset\n", m->name, left);
			return false;
		}
		if (rounds == 100)
			printk("module %s: %s; insmod waits\n", m->name, left);
		sleep_ns(10000000);
	}
	return true;
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

/* In a thread of its own, because a fault ends the thread. Ctrl-C reaches insmod's own thread, so it is passed on. */
static int call_init(struct module *m)
{
	struct thread *t = kthread_run(run_init, m, current->pinned, "insmod");
	int err;

	if (!t) {
		printk("module %s: no memory for the thread of its init\n", m->name);
		return -ENOMEM;
	}
	if (!thread_wait(t, false))
		thread_interrupt(t);
	err = thread_join(t);
	if (m->faulted)
		printk("module %s: its init faulted\n", m->name);
	return err;
}

/* Init has failed, or was not called: take the module out, if nothing leads into it. */
static void give_up(struct module *m)
{
	bool is_free;

	notify(m, false);
	is_free = wait_until_free(m);
	mutex_lock(&module_lock);
	if (is_free) {
		withdraw(m);
		discard(m);
	}
	mutex_unlock(&module_lock);
}

/* Call init without the lock: it may load another module, or read /proc/modules. */
static int start(struct module *m)
{
	int err;

	notify(m, true);
	err = m->init ? call_init(m) : 0;
	mutex_lock(&module_lock);
	m->state = err ? MODULE_GOING : MODULE_LIVE;
	mutex_unlock(&module_lock);
	if (err)
		give_up(m);
	return err < 0 ? err : err ? -EINVAL : 0;
}

static int load(struct module *m, const void *file, size_t size, unsigned long at, int count, char **params)
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

int module_load(const char *name, const void *file, size_t size, unsigned long at, int count, char **params)
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
		err = load(m, file, size, at, count, params);
	}
	mutex_unlock(&module_lock);
	return err ?: start(m);
}

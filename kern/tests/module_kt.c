/*
 * Modules, inside the kernel: loading, refusing, tracing, removing. The modules
 * are kern/tests/modules/, in the tests' initrd.
 */
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "kretprobe.h"
#include "file.h"
#include "ftrace.h"
#include "ftrace/tests/kt.h"
#include "kprobes.h"
#include "ksyms.h"
#include "livepatch.h"
#include "lock.h"
#include "module.h"
#include "loader/loader.h"
#include "string.h"
#include "tracefs.h"

#define DIR "/lib/modules/" ARCH_NAME "/"
#define EM_RISCV 243
#define EM_AARCH64 183

/* ---- helpers ---- */

static void *read_path(const char *path, size_t *size)
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

/* A module's file, with the other architecture's number as its e_machine. */
static void *for_another_machine(const char *name, size_t *size)
{
	char path[96];
	u8 *file;

	snprintf(path, sizeof(path), DIR "%s.ko", name);
	file = read_path(path, size);
	if (file)
		file[18] ^= EM_RISCV ^ EM_AARCH64;
	return file;
}

static int load_with(const char *name, unsigned long at, int count, char **params)
{
	size_t size = 0;
	char path[96];
	void *data;
	int err;

	snprintf(path, sizeof(path), DIR "%s.ko", name);
	data = read_path(path, &size);
	if (!data)
		return -ENOENT;
	err = module_load(name, data, size, at, count, params);
	kfree(data);
	return err;
}

static int load(const char *name)
{
	return load_with(name, MODULE_NEAR, 0, NULL);
}

static void *export(const char *name)
{
	struct module *owner;

	return (void *)module_find_export(name, &owner);
}

static int (*function(const char *name))(int)
{
	return (int (*)(int))export(name);
}

static bool loaded(const char *name)
{
	for (const struct module *m = modules; m; m = m->next)
		if (!strcmp(m->name, name))
			return true;
	return false;
}

static bool promise_removed(const char *name)
{
	int err = module_unload(name);

	return kt_promise(!err && !loaded(name), "%s is removed: %d", name, err);
}

/* The first @max bytes of a tracefs file or another path. */
static const char *text_of(const char *path)
{
	static char text[KiB(128)];
	size_t len = 0;
	struct file *f;
	ssize_t n;

	if (file_open(file_root(), path, O_RDONLY, &f))
		return "";
	while (len < sizeof(text) - 1 && (n = file_read(f, text + len, sizeof(text) - 1 - len)) > 0)
		len += n;
	file_close(f);
	text[len] = '\0';
	return text;
}

static bool has(const char *text, const char *part)
{
	size_t len = strlen(part);

	for (; *text; text++)
		if (!strncmp(text, part, len))
			return true;
	return false;
}

static void trace_off(void)
{
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	kt_echo("", "trace", false);
}

/* ---- loading ---- */

static bool page_has(unsigned long va, unsigned want)
{
	unsigned long pa;
	unsigned prot;

	return !mmu_lookup(va, &pa, &prot) && prot == want;
}

static const struct module *find_module(const char *name)
{
	for (const struct module *m = modules; m; m = m->next)
		if (!strcmp(m->name, name))
			return m;
	return NULL;
}

/* W^X: each page at its own address, and no page of it in the linear map. */
static void protected(const struct module *m)
{
	unsigned wrong = 0, twice = 0, prot;
	unsigned long pa, again;

	for (unsigned long va = m->base; va < m->end[MODULE_DATA]; va += PAGE_SIZE) {
		wrong += !page_has(va, va < m->end[MODULE_TEXT]   ? PROT_READ | PROT_EXEC
				       : va < m->end[MODULE_RODATA] ? PROT_READ
								    : PROT_READ | PROT_WRITE);
		if (!mmu_lookup(va, &pa, &prot))
			twice += !mmu_lookup((unsigned long)phys_to_virt(pa), &again, &prot);
	}
	kt_promise(!wrong, "text is R-X, rodata R--, data RW-: %u pages are not", wrong);
	kt_promise(!twice, "no page is mapped elsewhere as well: %u are", twice);
}

static void loading(void)
{
	char *params[] = {"delay=42", "big=-0x7fffffffffff", "loud", "word=hello"};
	long (*param)(int);

	kt_promise(!load_with("mt_hello", MODULE_NEAR, 4, params), "a module is loaded");
	kt_promise(load("mt_hello") == -EEXIST, "the same module is not loaded twice");
	protected(find_module("mt_hello"));
	param = export("mt_params");
	kt_promise(param(0) == 42 && param(1) == -0x7fffffffffff && param(2) &&
			   !strcmp((char *)param(3), "hello"),
		   "its parameters are set: %ld %ld %ld", param(0), param(1), param(2));
	kt_promise(function("mt_leaf")(2) == 7 && ((int (*)(void)) export("mt_sum"))() == 4,
		   "its constants, zeros and pointers are right");
	kt_promise(has(text_of("/proc/modules"), "mt_hello ") &&
			   has(text_of("/proc/modules"), " Live 0xffffffff8"),
		   "/proc/modules has it");
	promise_removed("mt_hello");
	kt_promise(!export("mt_leaf"), "its exports are gone");
}

static void dependencies(void)
{
	kt_promise(load("mt_user") == -ENOENT, "a module whose symbols are missing is refused");
	kt_promise(!load("mt_hello") && !load("mt_user"), "a module uses another one's exports");
	kt_promise(function("mt_twice")(3) == 20, "the call arrives there");
	kt_promise(module_unload("mt_hello") == -EBUSY,
		   "a module that another one uses is not removed");
	kt_promise(load("mt_same") == -EEXIST, "a symbol that another module exports is refused");
	promise_removed("mt_user");
	promise_removed("mt_hello");
}

/* Load mt_part_0 as mt_part_@n, and with the symbol of that name. */
static int load_part(const char *file, size_t size, int n)
{
	char *copy = kmalloc(size), name[] = "mt_part_0";
	size_t len = sizeof(name) - 2;
	int err;

	memcpy(copy, file, size);
	for (char *at = copy; at + len < copy + size; at++)
		if (!memcmp(at, name, len))
			at[len] += n;
	name[len] += n;
	err = module_load(name, copy, size, MODULE_NEAR, 0, NULL);
	kfree(copy);
	return err;
}

static void too_many_dependencies(void)
{
	char name[] = "mt_part_0";
	size_t size = 0;
	char *file = read_path(DIR "mt_part_0.ko", &size);
	int err = 0;

	for (int n = 0; !err && n < 9; n++)
		err = load_part(file, size, n);
	kfree(file);
	kt_promise(!err, "nine modules are loaded: %d", err);
	kt_promise(load("mt_whole") == -ENOSPC && !loaded("mt_whole"),
		   "a module that uses the exports of nine is refused");
	for (int n = 0; n < 9; n++, name[8]++)
		promise_removed(name); /* so its use of the first eight was taken back */
}

static int at_exit[2];
static void load_others(void)
{
	at_exit[0] = load("mt_same");
	at_exit[1] = load("mt_user");
}

/* A module that is not live has its symbols, and nobody may use them. */
static void not_live(void)
{
	load("mt_hello");
	*(void (**)(void))export("mt_at_exit") = load_others;
	promise_removed("mt_hello");
	kt_promise(at_exit[0] == -EEXIST && !loaded("mt_same"),
		   "while a module is removed, another one with its symbol is refused: %d",
		   at_exit[0]);
	kt_promise(at_exit[1] == -ENOENT && !loaded("mt_user"),
		   "and one that wants the symbol, too: %d", at_exit[1]);
	if (!at_exit[0])
		promise_removed("mt_same");
}

static int load_probed(void *unused)
{
	return load("mt_probed");
}

/*
 * Its init fails, and a probe stays in the module: insmod says why it waits (run_qemu.py looks for
 * it), and waits.
 */
static void failing_init(void)
{
	struct thread *t = kthread_run(load_probed, NULL, nr_cpus - 1, "insmod");
	const struct module *m;

	sleep_ns(1500000000);
	m = find_module("mt_probed");
	if (kt_promise(m && m->state == MODULE_GOING,
		       "a module whose init has failed is there as long as its probe"))
		unregister_kprobe((struct kprobe *)m->exports->value);
	kt_promise(thread_join(t) == -EIO && !loaded("mt_probed"),
		   "and is taken out when the probe is");
}

/*
 * The thread of its init ends, and nothing of the module is left, with a return of it still
 * patched.
 */
static void faulting_init(void)
{
	kt_promise(!kt_echo("mt_read:mod:mt_faults", "set_ftrace_filter", false),
		   "its function is selected before it comes");
	kt_promise(!kt_echo("function_graph", "current_tracer", false) &&
			   load("mt_faults") == -EFAULT && !loaded("mt_faults"),
		   "a module whose init faults while it is traced is taken out");
	kt_promise(has(text_of(TRACEFS "trace"), "mt_read [mt_faults]() {"),
		   "the call that did not return is in the trace");
	trace_off();
	kt_promise(load_with("mt_faults", MODULE_FAR, 0, NULL) == -EFAULT &&
			   !file_lookup(NULL, "/mt_faults") && !loaded("mt_faults"),
		   "the file that it has made is taken out, too");
}

static void refusals(void)
{
	char *graph[] = {"graph"}, *bad[] = {"delay=x"}, *unknown[] = {"dela=1"},
	     *huge[] = {"delay=0x80000000"};
	size_t size = 0;
	void *other;

	kt_promise(load("mt_fails") == -EIO && !loaded("mt_fails"),
		   "a module whose init fails is taken out");
	kt_promise(load("mt_traces") == -EINVAL &&
			   load_with("mt_traces", MODULE_NEAR, 1, graph) == -EINVAL &&
			   !loaded("mt_traces"),
		   "a tracer whose callback has a call site is refused");
	kt_promise(load("mt_missing") == -ENOENT, "missing symbols are refused");
	kt_promise(load("mt_null") == -ENOEXEC, "an export without a name is refused");
	kt_promise(load("mt_doubled") == -EEXIST && !loaded("mt_doubled"),
		   "a module that exports a name twice is refused");
	kt_promise(load_with("mt_hello", MODULE_NEAR, 1, bad) == -EINVAL &&
			   load_with("mt_hello", MODULE_NEAR, 1, unknown) == -EINVAL &&
			   load_with("mt_hello", MODULE_NEAR, 1, huge) == -EINVAL &&
			   !loaded("mt_hello"),
		   "wrong parameters are refused");
	kt_promise(load_with("mt_hello", 0x1000, 0, NULL) == -EINVAL &&
			   load_with("mt_hello", KERNEL_BASE, 0, NULL) < 0 &&
			   load_with("mt_hello", KERNEL_BASE + MiB(300) + 4, 0, NULL) == -EINVAL,
		   "wrong addresses are refused");
	other = for_another_machine("mt_hello", &size);
	kt_promise(other && module_load("mt_hello", other, size, MODULE_NEAR, 0, NULL) == -ENOEXEC,
		   "a module for the other machine is refused");
	kfree(other);
	kt_promise(module_load("a b", "x", 1, MODULE_NEAR, 0, NULL) == -EINVAL &&
			   module_load("", "x", 1, MODULE_NEAR, 0, NULL) == -EINVAL,
		   "wrong names are refused");
	kt_promise(module_load("x", "no module at all", 16, MODULE_NEAR, 0, NULL) == -ENOEXEC,
		   "a file that is no module is refused");
	kt_promise(module_unload("mt_nobody") == -ENOENT,
		   "a module that is not loaded cannot be removed");
}

/* Each is refused many times, and no page is lost. */
static void refused_often(void)
{
	/* the last with a bad parameter */
	static const char *const names[] = {"mt_fails", "mt_missing", "mt_traces", "mt_faults",
					    "mt_hello"};
	static char *bad[] = {"word=x", "nosuch=1"};
	int count = nr_cpus == 1 ? 1000 : 20;
	size_t size = 0;
	void *file = read_path(DIR "mt_hello.ko", &size),
	     *other = for_another_machine("mt_hello", &size);
	unsigned long before = 0, wrong = 0;

	for (unsigned what = 0; file && other && what < ARRAY_SIZE(names) + 2; what++) {
		for (int i = 0; i <= count; i++) {
			if (what < ARRAY_SIZE(names))
				wrong += !load_with(names[what], i & 1 ? MODULE_FAR : MODULE_NEAR,
						    what + 1 == ARRAY_SIZE(names) ? 2 : 0, bad);
			else
				wrong += !module_load("mt_hello", what & 1 ? file : other,
						      what & 1 ? size / 2 : size, MODULE_NEAR, 0,
						      NULL);
			if (!i)
				/* the first round may make what stays */
				before = pages_free_count();
		}
		kt_promise(pages_free_count() + 2 >= before,
			   "refused %d times (%u): %lu pages free before, %lu after", count, what,
			   before, pages_free_count());
	}
	kt_promise(file && other && !wrong, "each is refused each time: %lu are not", wrong);
	kfree(file);
	kfree(other);
}

/* ---- nothing is lost ---- */

static void rounds(void)
{
	int failed = 0, count = nr_cpus == 1 ? 1000 : 100; /* several CPUs take turns on the host */
	char word[80] = "word=a-text-as-long-as-that-of-each-round-below---------",
	     *params[] = {word};
	struct ksym_names names, names_after;
	unsigned long pages;

	/* names, page tables and slabs stay for the next ones */
	failed += load_with("mt_hello", MODULE_NEAR, 1, params) || module_unload("mt_hello");
	pages = pages_free_count();
	names = ksym_names_mark();
	for (int i = 0; i < count / 2; i++) {
		snprintf(word, sizeof(word),
			 "word=a-text-that-no-other-round-has-given-to-the-module-%d", i);
		failed +=
			load_with("mt_hello", MODULE_NEAR, 1, params) || module_unload("mt_hello");
		failed += load("mt_missing") != -ENOENT;
	}
	names_after = ksym_names_mark();
	kt_promise(names.pages == names_after.pages && names.used == names_after.used,
		   "they add no name: %u pages and %zu bytes before, %u and %zu after", names.pages,
		   names.used, names_after.pages, names_after.used);
	kt_promise(!failed, "%d rounds of loading and removing: %d failed", count, failed);
	kt_promise(pages_free_count() + 2 >= pages,
		   "they leave nothing behind: %lu pages free before, %lu after", pages,
		   pages_free_count());
}

/* ---- tracing ---- */

static void traced_at(unsigned long at, const char *where)
{
	const char *trace;

	trace_off();
	kt_promise(!load_with("mt_hello", at, 0, NULL), "%s: it is loaded", where);
	kt_promise(!kt_echo("mt_leaf", "set_ftrace_filter", false) &&
			   !kt_echo("function", "current_tracer", false),
		   "%s: its function is traced", where);
	function("mt_leaf")(5);
	trace = text_of(TRACEFS "trace");
	kt_promise(has(trace, ": mt_leaf [mt_hello] <-"), "%s: the event names function and module",
		   where);
	kt_promise(!kt_echo("function_graph", "current_tracer", false) &&
			   function("mt_leaf")(5) == 8 &&
			   has(text_of(TRACEFS "trace"), "mt_leaf [mt_hello]();"),
		   "%s: function_graph sees its call and its return", where);
	kt_promise(has(text_of(TRACEFS "enabled_functions"), "mt_leaf [mt_hello] (1)"),
		   "%s: enabled_functions has it", where);
	promise_removed("mt_hello");
	kt_promise(!*text_of(TRACEFS "enabled_functions"), "%s: no site of it is enabled any more",
		   where);
	kt_promise(has(text_of(TRACEFS "trace"), "mt_leaf [mt_hello]();"),
		   "%s: the old event still has its name", where);
	trace_off();
}

static void tracing(void)
{
	traced_at(MODULE_NEAR, "near");
	traced_at(MODULE_FAR, "far");
	traced_at(KERNEL_BASE + MiB(300), "at an address");
}

/* The function tracer is on for all functions, and for a pattern, when the module is loaded. */
static void coming(void)
{
	trace_off();
	kt_echo("function", "current_tracer", false);
	kt_promise(!load("mt_hello"), "a module comes while everything is traced");
	kt_promise(has(text_of(TRACEFS "enabled_functions"), "mt_leaf [mt_hello] (1)"),
		   "its functions are traced from the first call on");
	promise_removed("mt_hello");
	trace_off();
	kt_echo("mt_leaf", "set_ftrace_filter", false);
	kt_promise(kt_echo("mt_leaf", "set_ftrace_filter", false) == -EINVAL,
		   "a function of no loaded module is unknown");
	load("mt_hello");
	kt_echo("mt_leaf", "set_ftrace_filter", false);
	promise_removed("mt_hello");
	kt_promise(!has(text_of(TRACEFS "set_ftrace_filter"), "mt_leaf"),
		   "a removed module's functions leave the filters");
	trace_off();
	kt_promise(!kt_echo(":mod:mt_hello", "set_ftrace_filter", false),
		   ":mod: of a module that is not loaded is accepted");
	kt_promise(has(text_of(TRACEFS "set_ftrace_filter"), "mt_hello"), "and listed");
	kt_echo("function", "current_tracer", false);
	load("mt_hello");
	kt_promise(has(text_of(TRACEFS "enabled_functions"), "mt_leaf [mt_hello] (1)"),
		   "and applied when the module comes");
	promise_removed("mt_hello");
	trace_off();
}

/* ---- busy ---- */

static volatile int inside, let_go;

static int wait_inside(int x)
{
	inside = 1;
	while (!let_go)
		sleep_ns(1000000);
	return x;
}

static int spin_inside(int x)
{
	inside = 1;
	while (!let_go)
		cpu_relax();
	return x;
}

static int call_through(void *through)
{
	int (*call)(int, int (*)(int)) = export("mt_call");

	return call(5, through);
}

/* A thread is in the module, by way of @through; the module is not removed until it has left. */
static void busy_by(int (*through)(int), const char *what)
{
	struct thread *t;

	inside = let_go = 0;
	t = kthread_run(call_through, through, nr_cpus - 1, "inside");
	while (!inside)
		sleep_ns(1000000);
	kt_promise(module_unload("mt_hello") == -EBUSY, "it is not removed while a thread %s in it",
		   what);
	kt_promise(loaded("mt_hello"), "and is still there afterwards");
	let_go = 1;
	kt_promise(thread_join(t) == 6, "the thread comes back from it");
}

static void busy(void)
{
	struct file *f;

	load("mt_hello");
	busy_by(wait_inside, "sleeps");
	if (nr_cpus > 1)
		busy_by(spin_inside, "runs");
	kt_echo("mt_call wait_inside", "set_ftrace_filter", false);
	kt_echo("function_graph", "current_tracer", false);
	busy_by(wait_inside, "sleeps below a patched return");
	trace_off();
	promise_removed("mt_hello");
	kt_promise(!load("mt_thread") && !file_open(file_root(), "/mt_thread", O_RDONLY, &f),
		   "a module has a thread and an open file");
	kt_promise(module_unload("mt_thread") == -EBUSY,
		   "it is not removed while its file is open");
	file_close(f);
	promise_removed("mt_thread");
	kt_promise(file_open(file_root(), "/mt_thread", O_RDONLY, &f) == -ENOENT,
		   "its file is gone");
}

/* ---- probes ---- */

static int hits;

static bool count_hit(struct kprobe *p, struct kprobe_regs *regs)
{
	hits++;
	return false;
}

static int fprobe_hits;
static int count_entry(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
		       struct ftrace_regs *regs, void *data)
{
	fprobe_hits++;
	return 0;
}
static int count_return(struct kretprobe_instance *ri, struct ftrace_regs *regs)
{
	fprobe_hits++;
	return 0;
}
static notrace void count_op(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			     struct ftrace_regs *regs)
{
	hits++;
}

static int replacement(int x)
{
	return 100 + x;
}

/* A probe at the entry and in the body of a module's function, near and far; a patch of it. */
static void probed_at(unsigned long at, const char *where)
{
	struct kprobe entry = {.symbol_name = "mt_leaf", .pre_handler = count_hit},
		      body = {.symbol_name = "mt_leaf", .offset = 16, .pre_handler = count_hit};
	struct klp_func funcs[] = {{.old_name = "mt_leaf", .new_func = replacement}, {}};
	struct klp_patch patch = {.funcs = funcs};

	load_with("mt_hello", at, 0, NULL);
	hits = 0;
	kt_promise(!register_kprobe(&entry) && !register_kprobe(&body),
		   "%s: its function is probed at its entry and in its body", where);
	kt_promise(function("mt_leaf")(2) == 7 && hits == 2,
		   "%s: both are hit, and the result is right: %d hits", where, hits);
	unregister_kprobe(&entry);
	kt_promise(module_unload("mt_hello") == -EBUSY,
		   "%s: it is not removed while a probe is in it", where);
	unregister_kprobe(&body);
	kt_promise(!klp_enable_patch(&patch) && function("mt_leaf")(2) == 102,
		   "%s: its function is replaced", where);
	kt_promise(module_unload("mt_hello") == -EBUSY, "%s: it is not removed while it is patched",
		   where);
	kt_promise(!klp_disable_patch(&patch) && function("mt_leaf")(2) == 7,
		   "%s: and is itself again", where);
	promise_removed("mt_hello");
}

/*
 * Fprobes and a kretprobe of other code prevent the removal. An op and a graph user do not: they
 * lose the function.
 */
static void followed_at(unsigned long at, const char *where)
{
	static struct fprobe entry = {count_entry}, other = {count_entry};
	static struct kretprobe rp = {{"mt_leaf"}, count_return};
	static struct ftrace_ops op = {.func = count_op, .slot = -1};

	load_with("mt_hello", at, 0, NULL);
	fprobe_hits = hits = 0;
	ftrace_set_filter(&op, "mt_leaf", 7, true, false);
	kt_promise(!register_fprobe(&entry, "mt_leaf", NULL) && !register_kretprobe(&rp) &&
			   !register_ftrace_function(&op),
		   "%s: an fprobe, a kretprobe and an op are on its function", where);
	kt_promise(function("mt_leaf")(2) == 7 && fprobe_hits == 2 && hits == 1,
		   "%s: each is called: %d, %d", where, fprobe_hits, hits);
	kt_promise(module_unload("mt_hello") == -EBUSY,
		   "%s: it is not removed while an fprobe is on it", where);
	unregister_fprobe(&entry);
	kt_promise(module_unload("mt_hello") == -EBUSY && function("mt_leaf")(2) == 7 &&
			   fprobe_hits == 3,
		   "%s: nor while a kretprobe is", where);
	unregister_kretprobe(&rp);
	promise_removed("mt_hello");
	load_with("mt_hello", at, 0, NULL);
	hits = fprobe_hits = 0;
	kt_promise(!register_fprobe(&other, "mt_call", NULL) && function("mt_leaf")(2) == 7 &&
			   !hits && !fprobe_hits,
		   "%s: in its next life nobody follows the function", where);
	unregister_fprobe(&other);
	unregister_ftrace_function(&op);
	ftrace_filter_free(&op.filter);
	promise_removed("mt_hello");
}

static int late[5];
/* Register a probe in the module's exit, after rmmod has looked for probes. */
static void probe_late(void)
{
	static struct kprobe entry = {.symbol_name = "mt_leaf", .pre_handler = count_hit},
			     body = {.symbol_name = "mt_leaf",
				     .offset = 16,
				     .pre_handler = count_hit};
	static struct fprobe fp = {count_entry};
	static struct kretprobe rp = {{"mt_leaf"}, count_return};
	static struct klp_func funcs[] = {{.old_name = "mt_leaf", .new_func = replacement}, {}};
	static struct klp_patch patch = {.funcs = funcs};

	late[0] = register_kprobe(&entry);
	late[1] = register_kprobe(&body);
	late[2] = register_fprobe(&fp, "mt_lea*", NULL);
	late[3] = register_kretprobe(&rp);
	late[4] = klp_enable_patch(&patch);
}

static void probed_late(void)
{
	load("mt_hello");
	*(void (**)(void))export("mt_at_exit") = probe_late;
	promise_removed("mt_hello");
	kt_promise(late[0] == -EINVAL && late[1] == -EINVAL && late[2] == -ENOENT &&
			   late[3] == -ENOENT && late[4] == -ENOENT,
		   "while it is removed it gets no probe: %d %d %d %d %d", late[0], late[1],
		   late[2], late[3], late[4]);
}

/* The addresses are still known by name, and nothing is there. */
static void probed_after(void)
{
	struct kprobe kp = {.pre_handler = count_hit}, body = {.pre_handler = count_hit};
	struct fprobe fp = {count_entry};
	struct kretprobe rp = {.handler = count_return};
	unsigned long leaf;

	load("mt_hello");
	leaf = (unsigned long)function("mt_leaf");
	promise_removed("mt_hello");
	kp.addr = rp.kp.addr = leaf;
	body.addr = leaf + 16;
	kt_promise(ksym_module(leaf), "a removed module's addresses have their names");
	kt_promise(register_kprobe(&kp) == -EINVAL && register_kprobe(&body) == -EINVAL,
		   "and get no kprobe");
	kt_promise(register_fprobe_ips(&fp, &leaf, 1) == -ENOENT &&
			   register_kretprobe(&rp) == -ENOENT,
		   "no fprobe, and no kretprobe");
}

static void probed(void)
{
	probed_at(MODULE_NEAR, "near");
	probed_at(MODULE_FAR, "far");
	followed_at(MODULE_NEAR, "near");
	followed_at(MODULE_FAR, "far");
	probed_late();
	probed_after();
}

/* ---- the modules of the tree ---- */

/* /dev/random with these parameters: its first 16 bytes, after @write was written. */
static void random_bytes(int count, char **params, const char *write, u64 bytes[2])
{
	struct file *f;

	kt_promise(!load_with("random", MODULE_NEAR, count, params) &&
			   !file_open(file_root(), "/dev/random", O_RDWR, &f),
		   "random makes /dev/random");
	if (*write)
		kt_promise(file_write(f, write, strlen(write)) == (ssize_t)strlen(write),
			   "which can be written");
	kt_promise(file_read(f, bytes, 16) == 16, "and read");
	file_close(f);
	promise_removed("random");
}

/* xoshiro256++ from the state that splitmix64 makes of the seed 5; computed elsewhere. */
static void random_repeats(void)
{
	char *five[] = {"seed=5"};
	u64 first[2], again[2], stirred[2], other[2];

	random_bytes(1, five, "", first);
	random_bytes(1, five, "", again);
	kt_promise(first[0] == 0x4ac202caf347fc1e && first[1] == 0x9c874b1ef6a1c5e6 &&
			   !memcmp(first, again, 16),
		   "seed= makes it repeat: %#lx %#lx", (unsigned long)first[0],
		   (unsigned long)first[1]);
	random_bytes(1, five, "x", stirred);
	random_bytes(0, NULL, "", other);
	kt_promise(stirred[0] != first[0] && other[0] != first[0] && other[0] != stirred[0],
		   "a write stirs it, and without a seed it starts elsewhere");
}

static int nap_inside(int x)
{
	sleep_ns(20000000);
	return x;
}

static int no_nap(int x)
{
	return x;
}

static int call_seven_times(void *unused)
{
	int (*call)(int, int (*)(int)) = export("mt_call"), sum = call(1, nap_inside);

	for (int i = 0; i < 6; i++)
		sum += call(1, no_nap);
	return sum;
}

/* Of lines "FROM ns and more: COUNT": the sum of the counts from @least on. */
static unsigned long counted(const char *text, unsigned long least)
{
	unsigned long sum = 0, n = 0, from = 0;

	for (; *text; text++) {
		if (*text >= '0' && *text <= '9') {
			n = 10 * n + (*text - '0');
			continue;
		}
		if (!strncmp(text, " ns and", 7))
			from = n;
		else if (*text == '\n') {
			sum += from >= least ? n : 0;
			from = 0;
		}
		n = 0;
	}
	return sum;
}

static void latency_counts(void)
{
	char *params[] = {"functions=mt_call"}, line[32];
	const char *text;

	load("mt_hello");
	kt_promise(!load_with("latency", MODULE_NEAR, 1, params), "latency is loaded");
	kt_promise(thread_join(kthread_run(call_seven_times, NULL, nr_cpus - 1, "seven")) == 14,
		   "its function is called");
	text = text_of("/proc/latency");
	snprintf(line, sizeof(line), "cpu%u 7 calls\n", nr_cpus - 1);
	kt_promise(has(text, line) && (nr_cpus == 1 || has(text, "cpu0 0 calls\n")),
		   "the calls of each CPU are counted: %s", text);
	kt_promise(counted(text, 1) == 7 && counted(text, 16777216) >= 1,
		   "each is in the histogram, and the nap is long: %s", text);
	promise_removed("latency");
	promise_removed("mt_hello");
	kt_promise(!*text_of(TRACEFS "enabled_functions"), "afterwards nothing is traced");
}

/* ---- under fire ---- */

static volatile int stop;
static unsigned long calls, wrong_results;
/* held from the search for mt_many to its last call, and while it is removed */
static struct mutex mt_lock;

static int caller(void *unused)
{
	while (!stop) {
		int (*many)(int);

		mutex_lock(&mt_lock);
		many = function("mt_many");
		for (int i = 0; many && i < 50; i++, calls++)
			wrong_results += many(i) != 8 * i + 36;
		mutex_unlock(&mt_lock);
		yield();
	}
	return 0;
}

static int patcher(void *unused)
{
	while (!stop) {
		kt_echo("schedule :mod:mt_many", "set_ftrace_filter", false);
		kt_echo("function", "current_tracer", false);
		kt_echo("function_graph", "current_tracer", false);
		kt_echo("nop", "current_tracer", false);
	}
	return 0;
}

static void under_fire(void)
{
	struct thread *t[2];
	int failed = 0, err;

	stop = calls = wrong_results = 0;
	t[0] = kthread_run(caller, NULL, 1 % nr_cpus, "caller");
	t[1] = kthread_run(patcher, NULL, 2 % nr_cpus, "patcher");
	for (int i = 0; i < 30; i++) {
		failed += !!load_with("mt_many", i & 1 ? MODULE_FAR : MODULE_NEAR, 0, NULL);
		sleep_ns(2000000);
		mutex_lock(&mt_lock);
		err = module_unload("mt_many");
		mutex_unlock(&mt_lock);
		failed += !!err;
	}
	stop = 1;
	thread_join(t[0]);
	thread_join(t[1]);
	trace_off();
	kt_promise(!failed, "a module comes and goes while others call and patch it: %d failed",
		   failed);
	kt_promise(calls && !wrong_results, "each of %lu calls has its result: %lu wrong", calls,
		   wrong_results);
}

static int test_module(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*fn)(void);
	} tests[] = {
		{"loading", loading},
		{"dependencies", dependencies},
		{"many-dependencies", too_many_dependencies},
		{"refusals", refusals},
		{"not-live", not_live},
		{"failing-init", failing_init},
		{"faulting-init", faulting_init},
		{"rounds", rounds},
		{"refused", refused_often},
		{"tracing", tracing},
		{"probed", probed},
		{"coming", coming},
		{"busy", busy},
		{"random", random_repeats},
		{"latency", latency_counts},
		{"fire", under_fire},
	};

	kt_begin();
	for (unsigned i = 0; i < ARRAY_SIZE(tests); i++)
		if (argc < 2 || !strcmp(argv[1], tests[i].name))
			tests[i].fn();
	return kt_end();
}
SHELL_COMMAND("test-module", test_module, "[PART]",
	      "modules: loading, refusing, tracing, removing");

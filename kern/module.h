/*
 * Modules: object files that are linked into the running kernel, and can be
 * removed again. This is all that a module's source needs to include; it may
 * include any other header of the kernel, and call what the kernel exports
 * (loader/exports.c).
 *
 *	#include "module.h"
 *	static int hello_init(void) { printk("hello\n"); return 0; }
 *	static void hello_exit(void) { printk("goodbye\n"); }
 *	module_init(hello_init);
 *	module_exit(hello_exit);
 *
 * `make MODULE=path/to/hello.c` builds it into the initrd; `insmod hello` loads it.
 */
#ifndef KERN_MODULE_H
#define KERN_MODULE_H

#include "errno.h"
#include "file.h"
#include "ksyms.h"
#include "memory.h"
#include "print.h"
#include "thread.h"
#include "types.h"

/*
 * Called after the module is linked. It returns 0; or -errno, and then the module is removed again
 * (another value is as -EINVAL). It makes its files last, because a file that another thread has
 * opened cannot be removed. Before it returns -errno, it ends its threads and takes back what it
 * has registered; insmod waits for that, until Ctrl-C, and removes its files. Context: a thread of
 * its own, which may sleep. Ctrl-C at insmod reaches that thread: interrupted() is true, and
 * sleep_ns() returns early. After another Ctrl-C insmod no longer waits for init: the module stays
 * MODULE_COMING, and rmmod waits for init's end.
 *
 * A fault ends that thread, and insmod fails with -EFAULT. It is a panic instead if the thread
 * holds a mutex, is not preemptible (preemption or interrupts are off), is in a wait queue, or is
 * in the tracer: register_kprobe(NULL), say. A plain spin_lock() with preemption and interrupts on
 * is not seen, and stays locked. If init had registered an op or a probe, or started a thread that
 * does not end, the module is not freed: its state is MODULE_GOING. rmmod then tries again.
 */
#define module_init(fn) int init_module(void) __attribute__((alias(#fn)))
/*
 * Called before the module is removed; a module with an init and without an exit stays for ever.
 * It ends the module's threads, joins them, and takes back all that was registered. rmmod waits
 * for what it leaves, until Ctrl-C, and removes its files. Context, Ctrl-C and faults: as for
 * init, in a thread of its own. It is called once, even if rmmod is interrupted and called again.
 */
#define module_exit(fn) void cleanup_module(void) __attribute__((alias(#fn)))
int init_module(void);
void cleanup_module(void);

/*
 * `insmod m name=5` stores 5 in the variable @name, an int, long, bool or (const char *) charp,
 * before init. A string stays as long as the module.
 */
#define module_param(variable, type)                                                          \
	TABLE_ENTRY(const struct module_param, module_param, module_param_##variable) = {      \
		#variable, &variable, MODULE_PARAM_##type}
enum module_param_type {
	MODULE_PARAM_int,
	MODULE_PARAM_long,
	MODULE_PARAM_bool,
	MODULE_PARAM_charp
};
struct module_param {
	const char *name;
	void *variable;
	enum module_param_type type;
};

/*
 * Modules may use the symbol, of the kernel or of another module. The other module cannot be
 * removed while it is used.
 */
#define EXPORT_SYMBOL(symbol)                                                                 \
	TABLE_ENTRY(const struct export, export, export_##symbol) =                          \
		{#symbol, (unsigned long)&symbol}
struct export {
	const char *name;
	unsigned long value;
};

/*
 * A loaded module, in one of three states:
 *
 *	MODULE_COMING	Others find its names, then its place in the list of modules, then
 *			its call sites. Then the thread of its init executes it, and all that
 *			init has started or registered. No module links to its exports.
 *	MODULE_LIVE	Others find its exports, too. Everybody may execute it, by way of its
 *			exports, files, probes and ops.
 *	MODULE_GOING	Others find its names and its place in the list. The thread of its
 *			exit executes it, its other threads, and all that it has registered,
 *			as long as they are there. Nobody new: no module links to it, no
 *			probe is set in it, none of its files is opened.
 *
 * COMING becomes LIVE when init has returned 0, and GOING when init has failed. LIVE becomes GOING
 * when rmmod has found that nothing uses the module. It becomes LIVE again, and exit is not called,
 * if a thread is inside or a probe is in it. A module that is GOING is freed in these steps:
 *
 * 1. Exit is called, if it was LIVE.
 * 2. Wait until no probe and no patch is in its text; then its call sites leave the tracer.
 * 3. Wait until nothing leads into it: none of its files is in use, no thread is inside or will
 *    return to it, and nothing of it is registered: no probe, patch, op or user of function_graph.
 * 4. It leaves the list of modules, and its names are marked as gone. After a grace period its
 *    memory is freed. Nobody can enter it after step 3, so no freed memory is executed.
 *
 * Steps 1 to 3 may take for ever. Then Ctrl-C ends the wait, and the module stays in the list, as
 * it is: its memory is not freed. Another rmmod goes on from there. If insmod no longer waits for
 * init, the module stays COMING; rmmod then waits for init first.
 *
 * Locks: the list and the fields that others read change under module_lock. A reader holds it; or
 * it has preemption off, and reads only next, base, end and state. insmod and rmmod drop the lock
 * while they wait, so `held` keeps another rmmod away: only the thread that has set it changes the
 * module.
 */
enum module_state { MODULE_COMING, MODULE_LIVE, MODULE_GOING };
enum module_region { MODULE_TEXT, MODULE_RODATA, MODULE_DATA, MODULE_REGIONS }; /* R-X, R--, RW- */

struct ftrace_table;

struct module {
	char name[56];
	enum module_state state;
	/* of text; rodata and data follow, at page boundaries */
	unsigned long base;
	/* the addresses at which the regions end, page-aligned */
	unsigned long end[MODULE_REGIONS];
	int (*init)(void);
	void (*exit)(void);			    /* NULL: it cannot be removed */
	const struct export *exports, *exports_end; /* its own */
	bool faulted;				    /* init or exit did */
	u32 users;				    /* modules that use one of its exports */
	struct module *uses[8];			    /* whose exports it uses */
	char *words;				    /* its parameters, as insmod was given them */
	struct ksym_table *symbols;
	struct ftrace_table *sites; /* NULL: no traced function */
	struct file_range files;    /* its memory */
	bool held;		    /* insmod or rmmod works on it: it alone uses thread */
	struct thread *thread;	    /* runs its init or exit; NULL: neither */
	struct module *next;
};

extern struct mutex module_lock;
extern struct module *modules; /* in the order of loading */

static inline bool module_has_text(const struct module *m, unsigned long addr)
{
	return addr - m->base < m->end[MODULE_TEXT] - m->base;
}

/* Where insmod places a module. */
#define MODULE_NEAR 0ul /* after the kernel's image, where call sites reach the tracer's stubs */
#define MODULE_FAR 1ul	/* out of reach of a call (jal 1 MiB, bl 128 MiB) */

/*
 * Load the module in @file: (1) check the file; (2) place it @at: MODULE_NEAR,
 * MODULE_FAR, or a page-aligned address; (3) copy and relocate it, writable and
 * not executable; (4) set @count @params, "name=value" words; (5) protect text and rodata;
 * (6) publish its symbols, then its call sites; (7) call init.
 * @name is the module's name. Context: thread. Return: 0, or -errno after a
 * message that says why; then nothing of the module is left, or a second message says what.
 * -ENOEXEC: no module, or for another machine; -ENOENT: a symbol is missing;
 * -EEXIST: a module or a symbol of that name exists; -ENOMEM; -ENOSPC: it uses
 * the exports of too many modules; -ERANGE: a relocation does not reach; -EINVAL:
 * @name, @at or a parameter; -EFAULT: init faulted; -EINTR: after Ctrl-C, twice, and
 * init still runs; else what init returned.
 */
int module_load(const char *name, const void *file, size_t size, unsigned long at, int count,
		char **params);

/*
 * Remove a module. -ENOENT: there is no such module. -EBUSY: another module or a thread uses
 * it, a probe, a patch or another op that may change pc has one of its functions, one of its
 * returns is still patched, one of its files is in use, insmod or rmmod is at work on it, or
 * it has an init and no exit: then it stays as it was. -EBUSY also: a CPU does not stop; or
 * init or exit has faulted, and what it has registered is still there after a second. -EINTR:
 * Ctrl-C ended the wait for something that may last for ever. After these, unless exit was not
 * called yet, the module stays MODULE_GOING (MODULE_COMING, if init still runs), and another
 * call goes on. Each error is printed with a message. Other ops and users of function_graph
 * do not prevent the removal: their filters lose the module's functions. When this returns 0,
 * no CPU executes the module, and nothing points into it.
 * Context: thread.
 */
int module_unload(const char *name);

/*
 * Called after a module's call sites are published, before its init; and before its exit, when it
 * is about to be removed (again with @coming, if it then stays). Without module_lock. Not for
 * modules: their entries are in no table.
 */
struct module_hook {
	void (*fn)(const struct module *m, bool coming);
};
#define MODULE_HOOK(f) TABLE_ENTRY(const struct module_hook, module_hook, f##_hook) = {f}

/* The module whose text contains @addr; NULL: none. Any context, no call site. */
const struct module *module_of(unsigned long addr);

#endif

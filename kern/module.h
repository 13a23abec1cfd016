/*
 * Modules: object files that are linked into the running kernel, and can be
 * removed again. This is all that a module's source needs to include; it may
 * include any other header of the kernel, and call what the kernel exports
 * (module/exports.c).
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
#include "memory.h"
#include "print.h"
#include "thread.h"
#include "types.h"

/*
 * Called after the module is linked. It returns 0; or -errno, and then the module is removed again (another value is as -EINVAL). It makes its files last,
 * because a file that another thread has opened cannot be removed. Before it returns -errno, it ends its threads and takes
 * back what it has registered; insmod waits for that, until Ctrl-C, and removes its files. Context: a thread of its own, which
 * may sleep.
 *
 * A fault ends that thread, and insmod fails with -EFAULT. It is a panic instead if the thread holds a mutex, is not
 * preemptible (preemption or interrupts are off), is in a wait queue, or is in the tracer: register_kprobe(NULL), say.
 * A plain spin_lock() with preemption and interrupts on is not seen, and stays locked. If init had registered an op or a
 * probe, or started a thread that does not end, the module is not freed: its state is MODULE_GOING from then on.
 */
#define module_init(fn) int init_module(void) __attribute__((alias(#fn)))
/*
 * Called before the module is removed; a module without it stays for ever. It must
 * take back all that was registered. Thread context; may sleep.
 */
#define module_exit(fn) void cleanup_module(void) __attribute__((alias(#fn)))
int init_module(void);
void cleanup_module(void);

/* `insmod m name=5` stores 5 in the variable @name, an int, long, bool or (const char *) charp, before init. A string stays as long as the module. */
#define module_param(variable, type)                                                          \
	TABLE_ENTRY(const struct module_param, module_param, module_param_##variable) = {      \
		#variable, &variable, MODULE_PARAM_##type}
enum module_param_type { MODULE_PARAM_int, MODULE_PARAM_long, MODULE_PARAM_bool, MODULE_PARAM_charp };
struct module_param {
	const char *name;
	void *variable;
	enum module_param_type type;
};

/* Modules may use the symbol, of the kernel or of another module. The other module cannot be removed while it is used. */
#define EXPORT_SYMBOL(symbol)                                                                 \
	TABLE_ENTRY(const struct export, export, export_##symbol) = {#symbol, (unsigned long)&symbol}
struct export {
	const char *name;
	unsigned long value;
};

/*
 * A loaded module. The list of modules, and all fields but `faulted`, change only under
 * module_lock. Others may use what a module exports while it is MODULE_LIVE.
 *
 *	MODULE_COMING	linked; its call sites and symbols are known; init runs
 *	MODULE_LIVE	init has returned 0
 *	MODULE_GOING	rmmod has found that nothing uses it, and exit runs; or init has failed
 */
enum module_state { MODULE_COMING, MODULE_LIVE, MODULE_GOING };
enum module_region { MODULE_TEXT, MODULE_RODATA, MODULE_DATA, MODULE_REGIONS }; /* R-X, R--, RW- */

struct ksym_table; /* ksyms.h */
struct ftrace_table;

struct module {
	char name[56];
	enum module_state state;
	unsigned long base;			    /* of text; rodata and data follow, at page boundaries */
	unsigned long end[MODULE_REGIONS];	    /* the addresses at which the regions end, page-aligned */
	int (*init)(void);
	void (*exit)(void);			    /* NULL: it cannot be removed */
	const struct export *exports, *exports_end; /* its own */
	bool faulted;				    /* init did */
	u32 users;				    /* modules that use one of its exports */
	struct module *uses[8];			    /* whose exports it uses */
	char *words;				    /* its parameters, as insmod was given them */
	struct ksym_table *symbols;
	struct ftrace_table *sites; /* NULL: no traced function */
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
 * @name, @at or a parameter; -EFAULT: init faulted; else what init returned.
 */
int module_load(const char *name, const void *file, size_t size, unsigned long at, int count, char **params);

/*
 * Remove a module. -ENOENT: there is no such module. -EBUSY: another module or a thread uses
 * it, a probe, a patch or another op that may change pc has one of its functions, one of its
 * returns is still patched, one of its files is in use, it is being loaded or removed, a CPU
 * does not stop, or it has an init and no exit. Each error is printed with a message. Other ops
 * and users of function_graph do not prevent the removal: their filters lose the module's
 * functions. When this returns 0, no CPU executes the module, and nothing points into it.
 * Context: thread.
 */
int module_unload(const char *name);

/*
 * Called after a module's call sites are published, before its init; and before its exit, when it is
 * about to be removed (again with @coming, if it then stays). Without module_lock. NULL: nothing is called.
 */
extern void (*module_notify)(const struct module *m, bool coming);

/* The module whose text contains @addr; NULL: none. Any context, no call site. */
const struct module *module_of(unsigned long addr);
/*
 * Is the module at @addr being removed? Then it gets no probe and no patch. The caller holds
 * the lock under which rmmod looks for probes and patches later. Any context.
 */
bool module_is_going(unsigned long addr);

#endif

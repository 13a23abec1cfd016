/*
 * Symbols of text, sorted by address: a table that the build makes from the
 * first link and links into the second (kern/ftrace/tools/mksyms.py); and tables of text that
 * is loaded later. ksym_lookup() and ksym_module() have no call site: panics and
 * tracers use them.
 */
#ifndef BASE_KSYMS_H
#define BASE_KSYMS_H

#include "types.h"

/*
 * Name of the function that contains @addr, its offset and size (NULL: not wanted); NULL if none.
 */
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size);

/*
 * The symbols of text that was loaded later. Names stay valid for ever (ksym_name()), so
 * the caller of a lookup may keep one. A table is searched even after its text was
 * removed, so old events keep their names: until ksym_add() or ksym_remove() frees it.
 *
 * Order of publishing: fill the table, smp_wmb(), link it (ksym_add()). Readers take no
 * lock and are not preempted; a table is freed after a grace period. Writers hold module_lock
 * (loader/loader.h has their functions).
 */
struct ksym_table {
	unsigned long start, end;      /* of the text; above the kernel's image */
	/* the tracer's text in it, for in_tracer(); both 0: none */
	unsigned long tracer, tracer_end;
	const char *module;	       /* its name, from ksym_name() */
	bool going;		       /* its module is MODULE_GOING */
	bool gone;		       /* the text was removed: in_text() is false there */
	u32 count;
	struct ksym_table *next;
	struct {
		unsigned long addr;
		const char *name; /* from ksym_name() */
	} symbol[];		  /* sorted by address */
};
/* the latest first; changed by loader/ksym_tables.c, module_lock held */
extern struct ksym_table *ksym_tables;

/* The name of the module that contains or contained @addr; NULL: none. Any context. */
const char *ksym_module(unsigned long addr);

/*
 * Function number @n of the kernel and then of each module: false after the last. Context: thread,
 * module_lock held.
 */
bool ksym_number(u64 n, unsigned long *addr, const char **name, const char **module);
/*
 * The next function of the kernel and then of each module, from {} on: false after the last.
 * None is seen twice. Context: preemption off from the first call to the last one.
 */
struct ksym_place {
	const struct ksym_table *table; /* NULL: the kernel */
	u32 next;
};
bool ksym_next(struct ksym_place *at, unsigned long *addr, const char **name, const char **module);
/*
 * Is the module at @addr being removed? Then it gets no probe and no patch. The caller holds
 * the lock under which rmmod looks for probes and patches later. Any context.
 */
bool module_is_going(unsigned long addr);

/*
 * Is @pc in the tracer's text: in the kernel's (the table ftrace_text: its section and its
 * islands), or in a module's trampolines? No call site, any context.
 */
struct text_range {
	unsigned long start, end;
};
static __always_inline bool in_kernel_tracer(unsigned long pc)
{
	TABLE_FOR_EACH(const struct text_range, ftrace_text, r)
		if (pc >= r->start && pc < r->end)
			return true;
	return false;
}

/*
 * Modules' text is above the kernel's, from this address on; the highest address while
 * no module is loaded. So one comparison is enough for the kernel's addresses. The two
 * functions (ksyms.c) look at each module's table, and in_module_text() is false for a
 * module that is gone. No call site, any context.
 */
extern unsigned long module_text_start;
bool in_module_text(unsigned long pc);
bool in_module_tracer(unsigned long pc);

static __always_inline bool may_be_in_module(unsigned long pc)
{
	return unlikely(pc >= READ_ONCE(module_text_start));
}
static __always_inline bool in_tracer(unsigned long pc)
{
	return in_kernel_tracer(pc) || (may_be_in_module(pc) && in_module_tracer(pc));
}

#endif

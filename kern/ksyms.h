/*
 * Symbols of text, sorted by address: a table that the build makes from the
 * first link and links into the second (kern/ftrace/tools/mksyms.py); and tables of text that
 * is loaded later. ksym_lookup() and ksym_module() have no call site: panics and
 * tracers use them.
 */
#ifndef KERN_KSYMS_H
#define KERN_KSYMS_H

#include "types.h"

/* Name of the function that contains @addr, its offset and size (NULL: not wanted); NULL if none. */
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size);

/*
 * The symbols of text that was loaded later. Names stay valid for ever (ksym_name()), so
 * the caller of a lookup may keep one. A table is searched even after its text was
 * removed, so old events keep their names: until ksym_add() or ksym_remove() frees it.
 *
 * Order of publishing: fill the table, smp_wmb(), link it (ksym_add()). Readers take no
 * lock and are not preempted; a table is freed after a grace period. Writers hold module_lock.
 */
struct ksym_table {
	unsigned long start, end;      /* of the text; above the kernel's image */
	unsigned long tracer, tracer_end; /* the tracer's text in it, for in_tracer(); both 0: none */
	const char *module;	       /* its name, from ksym_name() */
	bool gone;		       /* the text was removed: in_text() is false there */
	u32 count;
	struct ksym_table *next;
	struct {
		unsigned long addr;
		const char *name; /* from ksym_name() */
	} symbol[];		  /* sorted by address */
};
/* NULL: no memory. The caller fills in everything but next; or frees it with kfree(), unless it was added. */
struct ksym_table *ksym_table_new(u32 count);
/*
 * An equal string that stays once its module was published (loader/names.c), followed by a second NUL: no parameters
 * (kern/ftrace/trace/trace_args.c). NULL: the KSYM_NAMES_MAX bytes for such strings are used up.
 */
const char *ksym_name(const char *name);
#define KSYM_NAMES_MAX KiB(64)
/*
 * From now on in_text() is true in the table's text, and in_tracer() in its tracer's text.
 * Gone tables that overlap it are freed after a grace period.
 */
void ksym_add(struct ksym_table *table);
/*
 * Mark the table as gone, and wait for a grace period: when this returns, no stack walk reads the text any more. Of more
 * than KSYM_GONE_MAX gone tables the one that was added first is freed: a lookup of an address without a table reads them all.
 */
#define KSYM_GONE_MAX 16
void ksym_remove(struct ksym_table *table);
/* The name of the module that contains or contained @addr; NULL: none. Any context. */
const char *ksym_module(unsigned long addr);

/* Function number @n of the kernel and then of each module: false after the last. Context: thread, module_lock held. */
bool ksym_number(u64 n, unsigned long *addr, const char **name, const char **module);

#endif

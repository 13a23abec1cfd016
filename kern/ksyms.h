/*
 * Symbols of text, sorted by address: a table that the build makes from the
 * first link and links into the second (kern/mksyms.py). No function here has
 * a call site: panics and tracers use them.
 */
#ifndef KERN_KSYMS_H
#define KERN_KSYMS_H

#include "types.h"

/* Name of the function that contains @addr, its offset and size (NULL: not wanted); NULL if none. */
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size);

/*
 * The symbols of text that was loaded later. Names stay valid for ever (ksym_name()), so
 * whoever looked one up may keep it. A table is searched until it is forgotten: after
 * its text is gone too, so that old events keep their names.
 *
 * Order of publishing: fill the table, smp_wmb(), link it (ksym_add()). Readers take no
 * lock and are not preempted; a table is freed after a grace period. Writers hold module_lock.
 */
struct ksym_table {
	unsigned long start, end;      /* of the text */
	const char *module;	       /* its name, from ksym_name() */
	bool gone;		       /* the text was removed: in_text() is false there */
	u32 count;
	struct ksym_table *next;
	struct {
		unsigned long addr;
		const char *name; /* from ksym_name() */
	} symbol[];		  /* sorted by address */
};
struct ksym_table *ksym_table_new(u32 count); /* NULL: no memory */
const char *ksym_name(const char *name); /* an equal string that is never freed; NULL: no memory */
void ksym_add(struct ksym_table *table); /* forgets gone tables that overlap it */
void ksym_remove(struct ksym_table *table); /* its text is gone; the names stay */
const char *ksym_module(unsigned long addr); /* the name of the module that has or had @addr; NULL: none */

#endif

/*
 * What the files of the loader share. A load passes through them in this order:
 *
 *	elf.c		the file is checked and laid out
 *	module_memory.c	it gets its addresses and its pages
 *	elf.c		it is copied there
 *	exports.c	its symbols get the values of what the kernel and other modules export
 *	relocate.c	it is relocated
 *	params.c	its parameters are set
 *	symbols.c	its functions get names, which names.c keeps, in a table (ksym_tables.c)
 *	module.c	it is protected, published, and its init is called; a removal takes back
 *			what was published, then frees the pages
 *
 * module_lock is held in all of them, except in what may last for ever: while init, exit or
 * the MODULE_HOOKs run, and while insmod or rmmod waits until nothing leads into the module.
 * module.h lists the states of a module, and who may execute it in each.
 */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "elf.h"
#include "ksyms.h"
#include "module.h"

/*
 * The value of an exported symbol. @owner: the module that exports it; NULL: the kernel. 0: nothing
 * exports it, or @owner does, but is not live.
 */
unsigned long module_find_export(const char *name, struct module **owner);

/*
 * Give @m's symbols their values. @m depends on the modules whose exports it uses (@m->uses).
 * Errors: module_elf_resolve()'s, -ENOSPC, and -EEXIST: a module that is not live exports a symbol
 * of @m's.
 */
int module_resolve(struct module *m, struct module_elf *elf);
/* @m no longer depends on other modules. */
void module_drop_uses(struct module *m);

/*
 * Set the parameters "name=value" of @m. After a message: -EINVAL: there is no parameter of that
 * name, or it refuses the value; -ENOEXEC: the file's table is no table, or its names or variables
 * do not lie in the module; -ENOMEM.
 */
int module_set_params(struct module *m, const struct module_elf *elf, int count, char **params);

/*
 * m->symbols: the names and addresses of the functions in its text, and of the tracer's trampolines
 * at m->base + @room. After a message: -ENOMEM, -ENOEXEC: there are too many.
 */
int module_name_functions(struct module *m, const struct module_elf *elf, size_t room);

/*
 * A table of symbols (base/ksyms.h). NULL: no memory. The caller fills in everything but next; or
 * frees it with kfree(), unless it was added.
 */
struct ksym_table *ksym_table_new(u32 count);
/*
 * An equal string that stays once its module was published (names.c), followed by a second NUL:
 * no parameters (kern/ftrace/trace/trace_args.c). NULL: the KSYM_NAMES_MAX bytes for such strings
 * are used up.
 */
const char *ksym_name(const char *name);
#define KSYM_NAMES_MAX KiB(64)
/*
 * From now on in_text() is true in the table's text, and in_tracer() in its tracer's text.
 * Gone tables that overlap it are freed after a grace period.
 */
void ksym_add(struct ksym_table *table);
/*
 * Mark the table as gone, and wait for a grace period: when this returns, no stack walk reads the
 * text any more. Of more than KSYM_GONE_MAX gone tables the one that was added first is freed: a
 * lookup of an address without a table reads them all.
 */
#define KSYM_GONE_MAX 16
void ksym_remove(struct ksym_table *table);

/*
 * ksym_names_forget() frees the names that ksym_name() has kept since the mark. Before: no function
 * of theirs was in a trace yet.
 */
struct ksym_names {
	unsigned pages;
	size_t used;
};
struct ksym_names ksym_names_mark(void);
void ksym_names_forget(struct ksym_names mark);

/*
 * A table that the linker would have collected: the elements of section ".table.NAME". -ENOEXEC: it
 * is no whole number of them, or misaligned.
 */
int module_table(const struct module_elf *elf, const char *section, size_t element,
		 const void **start, const void **end);
/*
 * Is @name, a pointer of such a table, a string of at most MODULE_SYMBOL_MAX bytes in @m's memory?
 */
bool module_has_name(const struct module *m, const char *name);

#endif

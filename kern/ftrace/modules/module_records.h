/*
 * What the files of this room share. ftrace_module.c decides what call sites call, and
 * adds and removes them; module_records.c makes their records.
 */
#ifndef FTRACE_MODULE_RECORDS_H
#define FTRACE_MODULE_RECORDS_H

#include "filter.h"
#include "ftrace_module.h"

/* All that a module has here; module->sites is its table. */
struct module_sites {
	struct ftrace_table table;
	struct ftrace_region region[2]; /* one, and the sentinel */
	bool far;			/* its call sites call the module's own trampolines */
	bool enabled;			/* published */
	u32 faulty;			/* entries that have no record */
	struct dyn_ftrace record[];
};

/* What the tracer keeps for @m; NULL: @m lists no call site. */
static inline struct module_sites *module_sites_of(const struct module *m)
{
	return m->sites ? container_of(m->sites, struct module_sites, table) : NULL;
}

/* ---- ftrace_module.c ---- */

/*
 * Decide what the sites call: the kernel's stubs; or, if one site does not reach all of these, the
 * module's own trampolines, which are then written at @room. Before: the records of @s say where
 * the sites are, and nothing else. Sets s->far, table.verify, and region[0].stubs.
 */
void module_choose_stubs(struct module_sites *s, unsigned long room);
/* Can @rec's site call each of the stubs, or trampolines, at @stubs? */
bool module_site_reaches(const struct dyn_ftrace *rec, unsigned long stubs);

/* ---- module_records.c ---- */

/*
 * The trampoline at @at leads elsewhere than to @stub: print both, and disable tracing. Return:
 * -ENODEV.
 */
int module_bad_trampoline(struct dyn_ftrace *rec, unsigned long at, unsigned long stub);

#endif

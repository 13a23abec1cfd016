/*
 * What the two files of this room share. ftrace_module.c finds out where call sites
 * lead, and lets them come and go; module_records.c makes the records of them.
 */
#ifndef FTRACE_MODULE_RECORDS_H
#define FTRACE_MODULE_RECORDS_H

#include "ftrace_module.h"
#include "tracer.h"

/* All that a module has here; module->sites is its table. */
struct module_sites {
	struct ftrace_table table;
	struct ftrace_region region[2]; /* one, and the sentinel */
	bool far;			/* its call sites call the module's own trampolines */
	bool enabled;			/* published */
	struct dyn_ftrace record[];
};

/* NULL: none of its functions can be traced. */
static inline struct module_sites *module_sites_of(const struct module *m)
{
	return m->sites ? container_of(m->sites, struct module_sites, table) : NULL;
}

/* ---- ftrace_module.c ---- */

/*
 * The records of @s say where the sites are, and nothing else yet. Decide what they call: the
 * kernel's stubs, or if one site does not reach all of these, the module's own trampolines at @room,
 * which are written then. Sets s->far, table.verify, and region[0].stubs.
 */
void module_choose_stubs(struct module_sites *s, unsigned long room);
/* Can @rec's site call each of the stubs, or trampolines, at @stubs? */
bool module_site_reaches(const struct dyn_ftrace *rec, unsigned long stubs);

/* ---- module_records.c ---- */

/* The trampoline at @at leads elsewhere than to @stub: print both, and disable tracing. Return: -ENODEV. */
int module_bad_trampoline(struct dyn_ftrace *rec, unsigned long at, unsigned long stub);

#endif

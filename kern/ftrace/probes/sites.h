/*
 * What fprobes and live patches have in common: a table of their functions, by
 * call site, and one op or one user of function_graph for all functions in it.
 *
 * A call looks only at the entries of its own function, so an entry costs other
 * functions nothing, and there may be any number.
 *
 * Locking: the file that has a table (fprobe.c, livepatch.c) holds its own mutex in all
 * functions here. A traced call reads the table without a lock (for_each_probe_site()).
 */
#ifndef FTRACE_SITES_H
#define FTRACE_SITES_H

#include "ftrace.h"

struct fgraph_ops;

struct probe_site {
	unsigned long ip;
	bool fresh; /* added after the last probe_sites_update() */
	struct probe_site *next;
};

#define PROBE_BUCKETS 256
struct probe_sites {
	struct probe_site *buckets[PROBE_BUCKETS];
	/* one of the two; its filter is the functions that have an entry */
	struct ftrace_ops *op;
	struct fgraph_ops *graph;
	bool registered;
	u32 count;
};

static inline struct probe_site **probe_bucket(struct probe_sites *t, unsigned long ip)
{
	return &t->buckets[ip / 16 % PROBE_BUCKETS]; /* few functions are shorter than 16 bytes */
}

/*
 * For each entry @site of the function at @at, in the order in which they were added. Any context.
 */
#define for_each_probe_site(site, t, at)                                                      \
	for (struct probe_site *site = READ_ONCE(*probe_bucket(t, at)); site;                 \
	     site = READ_ONCE(site->next))                                                    \
		if (site->ip == (at))

void probe_site_add(struct probe_sites *t, struct probe_site *site);
void probe_site_remove(struct probe_sites *t, struct probe_site *site);

/*
 * After entries were added or removed: patch the call sites. When this returns, even with
 * an error, no CPU uses an entry that was removed before. After an error, remove
 * the entries that were added, and call it again. Return: 0, -ENOMEM, -ENOENT (one of them is
 * in a module that is about to be removed), and the errors of register_ftrace_function() or
 * register_ftrace_graph().
 */
int probe_sites_update(struct probe_sites *t);

/*
 * The record of the function @name, or of the one at @addr if @name is NULL. -ENOENT: no such
 * function has a call site, or its module is about to be removed; -EINVAL: several have the name,
 * or not exactly one of @name and @addr is given. Context: thread, ftrace_lock held.
 */
int probe_find_function(const char *name, unsigned long addr, struct dyn_ftrace **found);

#endif

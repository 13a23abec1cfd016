/*
 * The table of the functions that fprobes and live patches want, and the filter that is made from
 * it (sites.h).
 */
#include "sites.h"

#include "asm-ftrace/hook.h"
#include "errno.h"
#include "fgraph.h"
#include "module.h"
#include "string.h"
#include "thread.h"
#include "ftrace_internal.h"

void probe_site_add(struct probe_sites *t, struct probe_site *site)
{
	struct probe_site **link = probe_bucket(t, site->ip);

	while (*link)
		link = &(*link)->next;
	site->next = NULL;
	site->fresh = true;
	smp_wmb(); /* the entry, before it is found */
	WRITE_ONCE(*link, site);
	t->count++;
}

void probe_site_remove(struct probe_sites *t, struct probe_site *site)
{
	struct probe_site **link = probe_bucket(t, site->ip);

	while (*link != site)
		link = &(*link)->next;
	WRITE_ONCE(*link, site->next);
	t->count--;
}

static bool has_entry(struct probe_sites *t, unsigned long ip)
{
	for_each_probe_site(site, t, ip)
		return true;
	return false;
}

static int set_filter(struct probe_sites *t, struct ftrace_filter *filter)
{
	struct ftrace_set *set;
	int err = -ENOMEM;

	mutex_lock(&ftrace_lock);
	set = ftrace_set_new();
	if (set) {
		for_each_ftrace_rec(rec)
			ftrace_set_put(set, rec, has_entry(t, ftrace_ip(rec)));
		err = ftrace_set_hash(filter, set, false);
	}
	mutex_unlock(&ftrace_lock);
	ftrace_set_free(set);
	return err;
}

/*
 * rmmod marks the module first, and then looks for the table's ops and entries. It may have looked
 * before they were there.
 */
static int check_modules(struct probe_sites *t)
{
	int err = 0;

	mutex_lock(&ftrace_lock);
	for (unsigned i = 0; i < PROBE_BUCKETS; i++)
		for (struct probe_site *site = t->buckets[i]; site && !err; site = site->next) {
			if (site->fresh && (!lookup_rec(site->ip) || module_is_going(site->ip)))
				err = -ENOENT;
			else
				site->fresh = false;
		}
	mutex_unlock(&ftrace_lock);
	return err;
}

static void stop(struct probe_sites *t, struct ftrace_filter *filter)
{
	if (t->registered && t->op)
		unregister_ftrace_function(t->op);
	else if (t->registered)
		unregister_ftrace_graph(t->graph);
	t->registered = false;
	ftrace_filter_free(filter);
}

int probe_sites_update(struct probe_sites *t)
{
	struct ftrace_filter *filter = t->op ? &t->op->filter : t->graph->filter;
	int err;

	if (!t->count) {
		stop(t, filter);
		return 0;
	}
	err = set_filter(t, filter);
	if (!err && !t->registered) {
		err = t->op ? register_ftrace_function(t->op) : register_ftrace_graph(t->graph);
		t->registered = !err;
	}
	err = err ?: check_modules(t);
	if (err)
		synchronize_sched();
	return err;
}

int probe_find_function(const char *name, unsigned long addr, struct dyn_ftrace **found)
{
	*found = NULL;
	if (!name == !addr)
		return -EINVAL;
	if (!name)
		*found = lookup_rec(addr + HOOK_ENTRY_OFFSET) ?: lookup_rec(addr);
	else
		for_each_ftrace_rec(rec) {
			if (strcmp(ftrace_name(rec), name))
				continue;
			if (*found)
				return -EINVAL;
			*found = rec;
		}
	return *found && !((*found)->flags & FTRACE_FL_DISABLED) &&
			       !module_is_going(ftrace_ip(*found))
		       ? 0
		       : -ENOENT;
}

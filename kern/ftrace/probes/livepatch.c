/*
 * Live patches: one op for all patched functions, and one word that switches all
 * functions of a patch (livepatch.h).
 */
#include "livepatch.h"

#include "asm-ftrace/regs.h"
#include "errno.h"
#include "thread.h"
#include "ftrace_internal.h"

static void klp_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		     struct ftrace_regs *regs);

/*
 * klp_call() has no guard against recursion: a patched function is also replaced when a tracer's
 * handler calls it.
 */
static struct ftrace_ops klp_op = {
	.func = klp_call,
	.flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION,
	.slot = -1,
};
static struct probe_sites patched = {.op = &klp_op};
static struct mutex klp_lock = MUTEX_INIT;

static bool is_end(const struct klp_func *f)
{
	return !f->old_name && !f->old_addr;
}

static int find(struct klp_func *f)
{
	struct dyn_ftrace *rec;
	int err;

	mutex_lock(&ftrace_lock); /* so that no module is removed while its records are searched */
	err = f->new_func ? probe_find_function(f->old_name, f->old_addr, &rec) : -EINVAL;
	if (!err)
		f->site.ip = ftrace_ip(rec);
	mutex_unlock(&ftrace_lock);
	return err;
}

static void remove_patch(struct klp_patch *patch)
{
	for (struct klp_func *f = patch->funcs; !is_end(f); f++)
		probe_site_remove(&patched, &f->site);
	/* after an error, sites without an entry still call klp_call(), which changes nothing */
	probe_sites_update(&patched);
}

bool klp_within(unsigned long start, unsigned long end)
{
	bool within = false;

	mutex_lock(&klp_lock);
	for (unsigned i = 0; i < PROBE_BUCKETS; i++)
		for (struct probe_site *site = patched.buckets[i]; site; site = site->next)
			within |= IS_WITHIN(site, start, end - start) ||
			      IS_WITHIN(container_of(site, struct klp_func, site)->new_func, start,
					end - start);
	mutex_unlock(&klp_lock);
	return within;
}

/* ---- Lab 8 is from here to the end. ---- */

/* Of the function's enabled patches the last one in the table, which is the newest, is used. */
static void klp_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		     struct ftrace_regs *regs)
{
#if LAB_START != 8
	for_each_probe_site(site, &patched, ip) {
		struct klp_func *f = container_of(site, struct klp_func, site);

		if (READ_ONCE(f->patch->enabled))
			regs->pc = (unsigned long)f->new_func;
	}
#endif
}

/* Add the functions of @patch, which is not enabled, to the table, and patch their call sites. */
static int add_patch(struct klp_patch *patch)
{
#if LAB_START == 8
	return -ENOSYS;
#else
	int err = !patch->funcs || is_end(patch->funcs) ? -EINVAL : 0;

	for (struct klp_func *f = patch->funcs; !err && !is_end(f); f++)
		err = find(f);
	if (err)
		return err;
	for (struct klp_func *f = patch->funcs; !is_end(f); f++) {
		f->patch = patch;
		probe_site_add(&patched, &f->site);
	}
	/* with a grace period: every CPU sees all entries before the store */
	err = probe_sites_update(&patched);
	if (err)
		remove_patch(patch);
	return err;
#endif
}

int klp_enable_patch(struct klp_patch *patch)
{
	int err;

	mutex_lock(&klp_lock);
	err = patch->enabled ? -EBUSY : add_patch(patch);
#if LAB_START != 8
	if (!err) {
		WRITE_ONCE(patch->enabled, true);
		synchronize_sched(); /* every CPU has seen it */
	}
#endif
	mutex_unlock(&klp_lock);
	return err;
}

int klp_disable_patch(struct klp_patch *patch)
{
	int err = -EINVAL;

	mutex_lock(&klp_lock);
#if LAB_START != 8
	if (patch->enabled) {
		WRITE_ONCE(patch->enabled, false);
		remove_patch(patch);
		err = 0;
	}
#endif
	mutex_unlock(&klp_lock);
	return err;
}

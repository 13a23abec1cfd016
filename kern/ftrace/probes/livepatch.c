/*
 * Live patches: an op for each patched function, and one word that switches all
 * functions of a patch (livepatch.h).
 */
#include "livepatch.h"

#include "asm-ftrace/regs.h"
#include "errno.h"
#include "fprobe.h"
#include "tracer.h"

/* A patched function. */
struct klp_target {
	struct ftrace_ops op;
	unsigned long ip;
	struct klp_func *top; /* the newest function for it; linked by below. Read without a lock */
	struct klp_target *next;
};

static struct klp_target *targets;
static struct mutex klp_lock = MUTEX_INIT;

/* No recursion guard: a patched function is replaced for a tracer's handler too. */
static void klp_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	struct klp_target *t = container_of(op, struct klp_target, op);

	for (struct klp_func *f = READ_ONCE(t->top); f; f = READ_ONCE(f->below))
		if (READ_ONCE(f->patch->enabled)) {
			regs->pc = (unsigned long)f->new_func;
			return;
		}
}

/* ---- klp_lock held. ---- */

static int start(struct klp_target *t, const struct dyn_ftrace *rec)
{
	struct ftrace_set *set = ftrace_set_new();
	int err;

	if (!set)
		return -ENOMEM;
	ftrace_set_put(set, rec, true);
	err = ftrace_filter_commit(&t->op.filter, set, false);
	ftrace_set_free(set);
	return err ?: register_ftrace_function(&t->op);
}

static void free_target(struct klp_target *t)
{
	ftrace_filter_free(&t->op.filter);
	kfree(t);
}

/* The target of the function of @rec; a new one, whose op is registered, if it has none. */
static int get_target(const struct dyn_ftrace *rec, struct klp_target **found)
{
	struct klp_target *t = targets;
	int err;

	while (t && t->ip != ftrace_ip(rec))
		t = t->next;
	*found = t;
	if (t)
		return 0;
	t = kzalloc(sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->op = (struct ftrace_ops){.func = klp_call, .flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION, .slot = -1};
	t->ip = ftrace_ip(rec);
	err = start(t, rec);
	if (err) {
		free_target(t);
		return err;
	}
	t->next = targets;
	targets = *found = t;
	return 0;
}

static void put_target(struct klp_target *t)
{
	struct klp_target **link = &targets;

	if (t->top)
		return;
	while (*link != t)
		link = &(*link)->next;
	*link = t->next;
	unregister_ftrace_function(&t->op);
	free_target(t);
}

static int push(struct klp_func *f, struct klp_patch *patch)
{
	struct dyn_ftrace *rec;
	int err = f->new_func ? probe_find_function(f->old_name, f->old_addr, &rec) : -EINVAL;

	err = err ?: get_target(rec, &f->target);
	if (err)
		return err;
	f->patch = patch;
	f->below = f->target->top;
	smp_wmb(); /* the function, before it is found */
	WRITE_ONCE(f->target->top, f);
	return 0;
}

/* After this and a grace period no CPU uses @f. */
static void pop(struct klp_func *f)
{
	struct klp_func **link = &f->target->top;

	while (*link != f)
		link = &(*link)->below;
	WRITE_ONCE(*link, f->below);
	put_target(f->target);
}

static bool is_end(const struct klp_func *f)
{
	return !f->old_name && !f->old_addr;
}

/* Take the functions before @end off their stacks. */
static void pop_all(struct klp_patch *patch, const struct klp_func *end)
{
	for (struct klp_func *f = patch->funcs; f < end; f++)
		pop(f);
	synchronize_sched();
}

static int enable(struct klp_patch *patch)
{
	struct klp_func *f = patch->funcs;
	int err = 0;

	if (patch->enabled)
		return -EBUSY;
	if (!f || is_end(f))
		return -EINVAL;
	while (!is_end(f)) {
		err = push(f, patch);
		if (err) {
			pop_all(patch, f);
			return err;
		}
		f++;
	}
	WRITE_ONCE(patch->enabled, true);
	synchronize_sched(); /* every CPU has seen it */
	return 0;
}

static int disable(struct klp_patch *patch)
{
	const struct klp_func *end = patch->funcs;

	if (!patch->enabled)
		return -EINVAL;
	WRITE_ONCE(patch->enabled, false);
	while (!is_end(end))
		end++;
	pop_all(patch, end);
	return 0;
}

int klp_enable_patch(struct klp_patch *patch)
{
	int err;

	mutex_lock(&klp_lock);
	err = enable(patch);
	mutex_unlock(&klp_lock);
	return err;
}

int klp_disable_patch(struct klp_patch *patch)
{
	int err;

	mutex_lock(&klp_lock);
	err = disable(patch);
	mutex_unlock(&klp_lock);
	return err;
}

/*
 * Many ops, each with its own filter. What a function's site calls depends on how
 * many ops trace the function (rec->count):
 *
 *	none		nothing: the nop
 *	one, in slot n	ftrace_stub_1+n, which calls the op's callback
 *	two or more	ftrace_stub_0, which calls ftrace_list_func()
 *
 * (through an island, if the stubs are out of reach). So an op costs nothing in
 * the functions that it does not trace.
 */

/*
 * The folder ops/ is this file, from lab 4 on. single.c (lab 3) and static.c (labs 1 and 2)
 * have the same functions for one tracer at a time. core/ftrace.h declares them, and
 * core/ftrace_internal.h those for a caller that holds ftrace_lock. A caller does not know which of
 * the three is linked: stages.mk decides that.
 *
 * A registration (ftrace_startup()):
 * 1. Refuse: tracing is disabled, the op is registered, or it would be the second op that
 *    may change pc for some function.
 * 2. publish_op(): a slot, then the list.
 * 3. change_selection(): one batch, through all tables, regions and records. If the op
 *    selects the function, count it and change what the site calls.
 * 4. After an error, undo 3 and 2.
 * ftrace_shutdown(): unlink, change the sites, a grace period, free the slot.
 * A new hash for a filter (swap_hash()): store it, change the sites, call
 * filter->changed(), a grace period, free the old hash.
 *
 * Callers are threads: of trace/, graph/, probes/, files/ and modules/, and of programs
 * in kern/apps/. This room calls core/, and filter->changed(), which graph/ and trace/
 * set. A traced call reads ftrace_slots[] (caller.S), and may call ftrace_list_func().
 */
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "hash.h"
#include "ftrace_internal.h"

static void ftrace_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused,
			     struct ftrace_regs *regs);

struct ftrace_slot ftrace_slots[FTRACE_STUBS] = {
	{ftrace_list_func, NULL},
	[1 ... FTRACE_OPS_MAX] = {ftrace_stub, NULL},
};

static struct ftrace_ops *ops_list; /* changed under ftrace_lock, walked by events */

static void unlink_op(struct ftrace_ops *op)
{
	struct ftrace_ops **link = &ops_list;

	while (*link != op)
		link = &(*link)->next;
	WRITE_ONCE(*link, op->next);
}

/*
 * Free the slot of @op, which was unlinked and which no site calls. When this returns, no CPU is
 * inside @op.
 */
static void retire_op(struct ftrace_ops *op)
{
	synchronize_sched();
	ftrace_slots[1 + op->slot] = (struct ftrace_slot){ftrace_stub, NULL};
	op->slot = -1;
}

/* The functions that an op selects before or after a change; @on: the op is registered. */
struct selection {
	const struct ftrace_hash *filter, *excluded;
	bool on;
};

static inline struct selection selection_of(const struct ftrace_ops *op, bool on)
{
	return (struct selection){READ_ONCE(op->filter.filter_hash),
				  READ_ONCE(op->filter.notrace_hash), on};
}

static inline bool selects(struct selection s, u32 offset)
{
	if (!s.on || (s.filter && !ftrace_hash_has(s.filter, offset)))
		return false;
	return !s.excluded || !ftrace_hash_has(s.excluded, offset);
}

/* Is @s all functions, or none? Then selects() need not be called for each function. */
static inline bool is_uniform(struct selection s)
{
	return !s.on || (!s.filter && !s.excluded);
}

static unsigned own_stub(const struct ftrace_ops *op)
{
	return FTRACE_CALLS_OP + op->slot;
}

struct ftrace_ops *ftrace_only_op(const struct dyn_ftrace *rec)
{
	struct ftrace_ops *op = NULL;

	if (rec->count == 1)
		for (op = ops_list; op && !selects(selection_of(op, true), rec->offset);)
			op = op->next;
	return op;
}

/* A change of one op's selection: computed once for a batch. */
struct change {
	struct selection before, after;
	unsigned long stub; /* the op's own, as the records of the present region call it */
	u32 alone;	    /* a record's state while the op alone traces the function */
	u8 own, ipmodify;   /* FTRACE_CALLS_OP + slot; FTRACE_FL_IPMODIFY or 0 */
};

static struct change change_of(const struct ftrace_ops *op, struct selection before,
			       struct selection after)
{
	struct dyn_ftrace alone = {.count = 1, .calls = own_stub(op)};
	struct change c = {before, after, 0, 0, alone.calls, 0};

	if (op->flags & FTRACE_OPS_FL_IPMODIFY)
		alone.flags = c.ipmodify = FTRACE_FL_IPMODIFY;
	c.alone = alone.state;
	return c;
}

/* 1: the op selects the function from now on, -1: it selected it until now, 0: no change. */
static __noinline int count_change(const struct change *c, const struct dyn_ftrace *rec)
{
	return selects(c->after, rec->offset) - selects(c->before, rec->offset);
}

/* ---- Lab 4 is from here to change_shared(). ---- */

/* Give @op a slot, and link it into the list. Only after that may a site call its stub. */
static int publish_op(struct ftrace_ops *op)
{
#if LAB_START == 4
	return -ENOSYS;
#else
	for (int i = 0; i < FTRACE_OPS_MAX; i++) {
		struct ftrace_slot *slot = &ftrace_slots[1 + i];

		if (slot->op)
			continue;
		op->slot = i;
		op->next = ops_list;
		slot->op = op;
		slot->func = ftrace_op_func(op);
		smp_wmb();
		WRITE_ONCE(ops_list, op);
		smp_wmb();
		return 0;
	}
	return -ENOSPC;
#endif
}

/* Call each op in the list whose filter has the function. Any context, without a lock. */
static void ftrace_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused,
			     struct ftrace_regs *regs)
{
#if LAB_START != 4
	for (struct ftrace_ops *op = READ_ONCE(ops_list); op; op = READ_ONCE(op->next)) {
		if (ftrace_ops_test(op, ip))
			ftrace_op_func(op)(ip, parent_ip, op, regs);
	}
	/*
	 * An op made the function return at once. A later op may have replaced its return address.
	 */
	if (regs && regs->pc == parent_ip)
		regs->pc = regs->link;
#endif
}

/* Would @op be the second op that may change pc for some function? */
static bool ipmodify_clash(const struct ftrace_ops *op, struct selection before,
			   struct selection after)
{
#if LAB_START == 4
	return false;
#else
	if (!(op->flags & FTRACE_OPS_FL_IPMODIFY))
		return false;
	for_each_ftrace_rec(rec)
		if (rec->flags & FTRACE_FL_IPMODIFY && !selects(before, rec->offset) &&
		    selects(after, rec->offset))
			return true;
	return false;
#endif
}

/*
 * Add (@by 1) or remove (@by -1) the op in one of these cases: another op traces
 * the function too, so that @rec->count stays 1 or more; the record is disabled; or
 * it is added alone to a record with FTRACE_FL_FOLLOW, which ftrace_switch() verifies.
 */
static __noinline int change_shared(struct dyn_ftrace *rec, const struct change *c, int by)
{
#if LAB_START == 4
	return -ENOSYS;
#else
	unsigned calls = FTRACE_CALLS_LIST;

	if (rec->flags & FTRACE_FL_DISABLED)
		return 0;
	rec->flags ^= c->ipmodify;
	rec->count += by;
	if (rec->count == 1)
		calls = own_stub(ftrace_only_op(rec));
	return rec->calls == calls ? 0 : ftrace_switch(rec, calls);
#endif
}

/* ---- Given from here on ---- */

static inline int add_op_to(struct dyn_ftrace *rec, const struct change *c)
{
	int err;

	if (unlikely(rec->state))
		return change_shared(rec, c, 1);
	err = ftrace_make_call(rec, c->stub);
	if (unlikely(err))
		return ftrace_refuse(rec, err);
	rec->state = c->alone;
	return 0;
}

/* Another op traces the function, too; or the record is disabled; or it has FTRACE_FL_FOLLOW. */
static __noinline int remove_shared(struct dyn_ftrace *rec, const struct change *c)
{
	if (rec->count > 1 || rec->flags & FTRACE_FL_DISABLED || !(rec->flags & FTRACE_FL_FOLLOW))
		return change_shared(rec, c, -1);
	rec->flags ^= c->ipmodify;
	rec->count = 0;
	return ftrace_switch(rec, FTRACE_CALLS_NOTHING);
}

static inline int remove_op_from(struct dyn_ftrace *rec, const struct change *c)
{
	int err;

	if (unlikely(rec->state != c->alone))
		return remove_shared(rec, c);
	err = ftrace_make_nop(rec, c->stub);
	if (unlikely(err))
		return ftrace_refuse(rec, err);
	rec->state = 0;
	return 0;
}

/* Change the records of one region, from @rec to @end. */
static int change_region(struct dyn_ftrace *rec, const struct dyn_ftrace *end,
			 const struct change *c)
{
	bool uniform = is_uniform(c->before) && is_uniform(c->after);
	int by = c->after.on - c->before.on, err = 0;

	for (; rec < end; rec++) {
		if (!uniform)
			by = count_change(c, rec);
		if (by > 0)
			err = add_op_to(rec, c) ?: err;
		else if (by < 0)
			err = remove_op_from(rec, c) ?: err;
	}
	return err;
}

/*
 * Change the records and sites from one selection of @op to another, in one batch. @only: the
 * record of the one function that is in one of the two and not in the other; NULL: look at all.
 * A site with an unexpected word is left alone, and its record is disabled.
 */
static int change_selection(struct ftrace_ops *op, struct selection before, struct selection after,
			    struct dyn_ftrace *only)
{
	struct change c = change_of(op, before, after);
	int err = 0;

	ftrace_batch_begin();
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		for (const struct ftrace_region *r = t->regions; r->first < ftrace_count(t); r++) {
			struct dyn_ftrace *rec = t->records + r[0].first,
					  *end = t->records + r[1].first;

			if (only && (only < rec || only >= end))
				continue;
			c.stub = ftrace_stub_addr(KERNEL_BASE + r->stubs, c.own);
			err = change_region(only ?: rec, only ? only + 1 : end, &c) ?: err;
		}
	ftrace_batch_end();
	return err;
}

/* The registered op that has @filter; NULL: there is none. */
static struct ftrace_ops *op_of(const struct ftrace_filter *filter)
{
	struct ftrace_ops *op = ops_list;

	while (op && &op->filter != filter)
		op = op->next;
	return op;
}

void ftrace_set_func(struct ftrace_ops *op, ftrace_func_t func)
{
	WRITE_ONCE(op->func, func);
	if (op->slot >= 0)
		WRITE_ONCE(ftrace_slots[1 + op->slot].func, ftrace_op_func(op));
}

int ftrace_startup(struct ftrace_ops *op)
{
	struct selection none = {0}, all = selection_of(op, true);
	int err;

	if (ftrace_disabled)
		return -ENODEV;
	if (op_of(&op->filter) || ipmodify_clash(op, none, all))
		return -EBUSY;
	err = publish_op(op);
	if (err)
		return err;
	err = change_selection(op, none, all, NULL);
	if (err) {
		unlink_op(op);
		change_selection(op, all, none, NULL);
		retire_op(op);
	}
	return err;
}

int ftrace_shutdown(struct ftrace_ops *op)
{
	struct selection none = {0}, all = selection_of(op, true);

	if (!op_of(&op->filter))
		return -ENOENT;
	unlink_op(op);
	change_selection(op, all, none, NULL);
	retire_op(op);
	return 0;
}

int register_ftrace_function(struct ftrace_ops *op)
{
	int err;

	mutex_lock(&ftrace_lock);
	err = ftrace_startup(op);
	mutex_unlock(&ftrace_lock);
	return err;
}

int unregister_ftrace_function(struct ftrace_ops *op)
{
	int err;

	mutex_lock(&ftrace_lock);
	err = ftrace_shutdown(op);
	mutex_unlock(&ftrace_lock);
	return err;
}

static struct ftrace_hash **list_of(const struct ftrace_filter *filter, bool notrace_list)
{
	return (struct ftrace_hash **)(notrace_list ? &filter->notrace_hash : &filter->filter_hash);
}

bool ftrace_filter_has(const struct ftrace_filter *filter, const struct dyn_ftrace *rec,
		       bool notrace_list)
{
	const struct ftrace_hash *hash = *list_of(filter, notrace_list);

	return hash && ftrace_hash_has(hash, rec->offset);
}

u32 ftrace_filter_count(const struct ftrace_filter *filter, bool notrace_list)
{
	const struct ftrace_hash *hash = *list_of(filter, notrace_list);

	return hash ? hash->count : 0;
}

/* Store the hash of @set in *@hash; without a set it is NULL: no filter, or no notrace list. */
static int hash_from_set(const struct ftrace_set *set, struct ftrace_hash **hash)
{
	*hash = set ? (struct ftrace_hash *)&ftrace_hash_none : NULL;
	if (!set || !set->count)
		return 0;
	*hash = ftrace_hash_new(set->count);
	if (!*hash)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		if (ftrace_set_has(set, rec))
			ftrace_hash_add(*hash, rec->offset);
	return 0;
}

/*
 * Make @hash the filter or the notrace list. On a clash nothing changes. Frees the unused hash.
 * @only: as in change_selection().
 */
static int swap_hash(struct ftrace_filter *filter, struct ftrace_hash *hash, bool notrace_list,
		     struct dyn_ftrace *only)
{
	struct ftrace_hash **place = list_of(filter, notrace_list), *old = *place;
	struct ftrace_ops *op = op_of(filter);
	struct selection before = {filter->filter_hash, filter->notrace_hash, op}, after = before;
	int err = 0, refused = 0;

	*(notrace_list ? &after.excluded : &after.filter) = hash;
	if (before.on && ipmodify_clash(op, before, after)) {
		ftrace_hash_free(hash);
		return -EBUSY;
	}
	smp_wmb();
	WRITE_ONCE(*place, hash);
	if (before.on)
		err = change_selection(op, before, after, only);
	if (filter->changed)
		refused = filter->changed(filter);
	if (refused) { /* put the old hash back */
		WRITE_ONCE(*place, old);
		old = hash;
		if (before.on)
			change_selection(op, after, before, only);
		filter->changed(filter);
	}
	if (before.on || filter->changed)
		synchronize_sched();
	ftrace_hash_free(old);
	return err ?: refused;
}

int ftrace_set_hash(struct ftrace_filter *filter, const struct ftrace_set *set, bool notrace_list)
{
	struct ftrace_hash *hash;
	int err = hash_from_set(set, &hash);

	return err ? err : swap_hash(filter, hash, notrace_list, NULL);
}

/* A copy of @old with the function at @offset, or without it. NULL: no memory. */
static struct ftrace_hash *copy_hash(const struct ftrace_hash *old, u32 offset, bool with)
{
	struct ftrace_hash *hash = ftrace_hash_new(old->count + with);

	for (u32 i = 0; hash && i < 1u << (32 - old->shift); i++)
		if (old->slots[i] > FTRACE_HASH_GONE && old->slots[i] != offset)
			ftrace_hash_add(hash, old->slots[i]);
	if (hash && with)
		ftrace_hash_add(hash, offset);
	return hash;
}

int ftrace_select_one(struct ftrace_ops *op, struct dyn_ftrace *rec, bool in)
{
	struct ftrace_hash *hash =
		copy_hash(op->filter.filter_hash ?: &ftrace_hash_none, rec->offset, in);
	bool on = hash && hash->count;
	int err = hash ? swap_hash(&op->filter, hash, false, rec) : -ENOMEM;

	if (err || on == (op->slot >= 0))
		return err;
	if (!on)
		return ftrace_shutdown(op);
	err = ftrace_startup(op);
	if (err) /* it was not registered, so it selected no function */
		swap_hash(&op->filter, (struct ftrace_hash *)&ftrace_hash_none, false, NULL);
	return err;
}

int ftrace_share_filter(struct ftrace_ops *op, const struct ftrace_filter *filter)
{
	struct selection before = selection_of(op, op_of(&op->filter)), after;

	WRITE_ONCE(op->filter.filter_hash, filter->filter_hash);
	WRITE_ONCE(op->filter.notrace_hash, filter->notrace_hash);
	after = selection_of(op, before.on);
	return before.on ? change_selection(op, before, after, NULL) : 0;
}

int ftrace_filter_commit(struct ftrace_filter *filter, const struct ftrace_set *set,
			 bool notrace_list)
{
	int err;

	mutex_lock(&ftrace_lock);
	err = ftrace_set_hash(filter, set, notrace_list);
	mutex_unlock(&ftrace_lock);
	return err;
}

void ftrace_filter_free(struct ftrace_filter *filter)
{
	mutex_lock(&ftrace_lock);
	ftrace_hash_free(filter->filter_hash);
	ftrace_hash_free(filter->notrace_hash);
	filter->filter_hash = filter->notrace_hash = NULL;
	mutex_unlock(&ftrace_lock);
}

/*
 * Many tracers at once: each op has its own filter, and a function that only
 * one op traces calls that op's own stub, so ops cost each other nothing.
 *
 *	site -> ftrace_stub_0     the list: every op whose filter has the function
 *	     -> ftrace_stub_1+n   slot n's op alone
 *
 * (by way of an island, where those are out of reach)
 *
 * rec->count says how many ops trace a function; what its site must call
 * follows from the count and, when it is one, from whose filter has it.
 */
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "hash.h"
#include "tracer.h"

static void ftrace_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused,
			     struct ftrace_regs *regs);

struct ftrace_slot ftrace_slots[FTRACE_STUBS] = {
	{ftrace_list_func, NULL},
	[1 ... FTRACE_OPS_MAX] = {ftrace_stub, NULL},
};

static struct ftrace_ops *ops_list; /* changed under ftrace_lock, walked by events */

/* Which functions: a filter's half of an op, so that before and after can be compared. */
struct selection {
	const struct ftrace_hash *filter, *excluded;
	bool on;
};

static inline struct selection selection_of(const struct ftrace_ops *op, bool on)
{
	return (struct selection){READ_ONCE(op->filter.filter_hash), READ_ONCE(op->filter.notrace_hash), on};
}

static inline bool selects(struct selection s, u32 offset)
{
	if (!s.on || (s.filter && !ftrace_hash_has(s.filter, offset)))
		return false;
	return !s.excluded || !ftrace_hash_has(s.excluded, offset);
}

/* All functions, or none: nothing has to be asked about each. */
static inline bool is_uniform(struct selection s)
{
	return !s.on || (!s.filter && !s.excluded);
}

static void ftrace_list_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *unused,
			     struct ftrace_regs *regs)
{
#if LAB_START != 4
	for (struct ftrace_ops *op = READ_ONCE(ops_list); op; op = READ_ONCE(op->next)) {
		if (ftrace_ops_test(op, ip))
			ftrace_op_func(op)(ip, parent_ip, op, regs);
	}
	/* One let the function return at once, and one after it took the return. */
	if (regs && regs->pc == parent_ip)
		regs->pc = regs->link;
#endif
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

/* The op that is being changed, worked out once for the whole batch. */
struct change {
	struct selection was, is;
	unsigned long stub; /* its own, as the region that is being changed calls it */
	u32 alone;	    /* a record's state while no other op has the function */
	u8 own, ipmodify;   /* FTRACE_CALLS_OP + slot; the flag that it leaves in records */
};

static struct change change_of(const struct ftrace_ops *op, struct selection was,
			       struct selection is)
{
	struct dyn_ftrace alone = {.count = 1, .calls = own_stub(op)};
	struct change c = {was, is, 0, 0, alone.calls, 0};

	if (op->flags & FTRACE_OPS_FL_IPMODIFY)
		alone.flags = c.ipmodify = FTRACE_FL_IPMODIFY;
	c.alone = alone.state;
	return c;
}

/* +1: the op wins the function, -1: it loses it, 0: as before. */
static __noinline int direction(const struct change *c, const struct dyn_ftrace *rec)
{
	return selects(c->is, rec->offset) - selects(c->was, rec->offset);
}

/* Other ops select the function too, so @rec->count stays 1 or more; or the site is disabled. */
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

static inline int win(struct dyn_ftrace *rec, const struct change *c)
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

static inline int lose(struct dyn_ftrace *rec, const struct change *c)
{
	int err;

	if (unlikely(rec->state != c->alone))
		return change_shared(rec, c, -1);
	err = ftrace_make_nop(rec, c->stub);
	if (unlikely(err))
		return ftrace_refuse(rec, err);
	rec->state = 0;
	return 0;
}

/* The records of one region, up to @end. */
static int change_region(struct dyn_ftrace *rec, const struct dyn_ftrace *end, const struct change *c)
{
	bool uniform = is_uniform(c->was) && is_uniform(c->is);
	int by = c->is.on - c->was.on, err = 0;

	for (; rec < end; rec++) {
		if (!uniform)
			by = direction(c, rec);
		if (by > 0)
			err = win(rec, c) ?: err;
		else if (by < 0)
			err = lose(rec, c) ?: err;
	}
	return err;
}

/*
 * Bring all records and their sites from one selection of @op to another, in
 * one batch. A refused site is disabled and stays so.
 */
static int change_selection(struct ftrace_ops *op, struct selection was, struct selection is)
{
	struct change c = change_of(op, was, is);
	int err = 0;

	ftrace_batch_begin();
	for (const struct ftrace_table *t = ftrace_tables; t; t = t->next)
		for (const struct ftrace_region *r = t->regions; r->first < ftrace_count(t); r++) {
			c.stub = ftrace_stub_addr(KERNEL_BASE + r->stubs, c.own);
			err = change_region(t->records + r[0].first, t->records + r[1].first, &c) ?: err;
		}
	ftrace_batch_end();
	return err;
}

/* Only one op that may change pc can have a function. */
static bool ipmodify_clash(const struct ftrace_ops *op, struct selection was, struct selection is)
{
#if LAB_START == 4
	return false;
#else
	if (!(op->flags & FTRACE_OPS_FL_IPMODIFY))
		return false;
	for_each_ftrace_rec(rec)
		if (rec->flags & FTRACE_FL_IPMODIFY && !selects(was, rec->offset) &&
		    selects(is, rec->offset))
			return true;
	return false;
#endif
}

static void unlink_op(struct ftrace_ops *op)
{
	struct ftrace_ops **link = &ops_list;

	while (*link != op)
		link = &(*link)->next;
	WRITE_ONCE(*link, op->next);
}

/* The registered op that has @filter; NULL: there is none. */
static struct ftrace_ops *op_of(const struct ftrace_filter *filter)
{
	struct ftrace_ops *op = ops_list;

	while (op && &op->filter != filter)
		op = op->next;
	return op;
}

/* Give @op a stub and a place in the list: all that an event needs, before any site. */
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

/* No site and no list leads to @op any more; when this returns no CPU is inside it. */
static void retire_op(struct ftrace_ops *op)
{
	synchronize_sched();
	ftrace_slots[1 + op->slot] = (struct ftrace_slot){ftrace_stub, NULL};
	op->slot = -1;
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
	err = change_selection(op, none, all);
	if (err) {
		unlink_op(op);
		change_selection(op, all, none);
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
	change_selection(op, all, none);
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

bool ftrace_filter_has(const struct ftrace_filter *filter, const struct dyn_ftrace *rec, bool notrace_list)
{
	const struct ftrace_hash *hash = *list_of(filter, notrace_list);

	return hash && ftrace_hash_has(hash, rec->offset);
}

u32 ftrace_filter_count(const struct ftrace_filter *filter, bool notrace_list)
{
	const struct ftrace_hash *hash = *list_of(filter, notrace_list);

	return hash ? hash->count : 0;
}

/* An empty set is no hash at all: everything passes such a filter, nothing such a notrace list. */
static int hash_from_set(const struct ftrace_set *set, struct ftrace_hash **hash)
{
	*hash = NULL;
	if (!set->count)
		return 0;
	*hash = ftrace_hash_new(set->count);
	if (!*hash)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		if (ftrace_set_has(set, rec))
			ftrace_hash_add(*hash, rec->offset);
	return 0;
}

/* Put @hash in its place; on a clash nothing changes. Frees the unused hash. */
static int swap_hash(struct ftrace_filter *filter, struct ftrace_hash *hash, bool notrace_list)
{
	struct ftrace_hash **place = list_of(filter, notrace_list), *old = *place;
	struct ftrace_ops *op = op_of(filter);
	struct selection was = {filter->filter_hash, filter->notrace_hash, op}, is = was;
	int err = 0, refused = 0;

	*(notrace_list ? &is.excluded : &is.filter) = hash;
	if (was.on && ipmodify_clash(op, was, is)) {
		ftrace_hash_free(hash);
		return -EBUSY;
	}
	smp_wmb();
	WRITE_ONCE(*place, hash);
	if (was.on)
		err = change_selection(op, was, is);
	if (filter->changed)
		refused = filter->changed(filter);
	if (refused) { /* all that use the filter return to the old hash */
		WRITE_ONCE(*place, old);
		old = hash;
		if (was.on)
			change_selection(op, is, was);
		filter->changed(filter);
	}
	if (was.on || filter->changed)
		synchronize_sched();
	ftrace_hash_free(old);
	return err ?: refused;
}

int ftrace_set_hash(struct ftrace_filter *filter, const struct ftrace_set *set, bool notrace_list)
{
	struct ftrace_hash *hash;
	int err = hash_from_set(set, &hash);

	return err ? err : swap_hash(filter, hash, notrace_list);
}

int ftrace_share_filter(struct ftrace_ops *op, const struct ftrace_filter *filter)
{
	struct selection was = selection_of(op, op_of(&op->filter)), is;

	WRITE_ONCE(op->filter.filter_hash, filter->filter_hash);
	WRITE_ONCE(op->filter.notrace_hash, filter->notrace_hash);
	is = selection_of(op, was.on);
	return was.on ? change_selection(op, was, is) : 0;
}

int ftrace_filter_commit(struct ftrace_filter *filter, const struct ftrace_set *set, bool notrace_list)
{
	int err;

	mutex_lock(&ftrace_lock);
	err = ftrace_set_hash(filter, set, notrace_list);
	mutex_unlock(&ftrace_lock);
	return err;
}

void ftrace_filter_free(struct ftrace_filter *filter)
{
	ftrace_hash_free(filter->filter_hash);
	ftrace_hash_free(filter->notrace_hash);
	filter->filter_hash = filter->notrace_hash = NULL;
}

/*
 * Many users of one patched return.
 *
 * The frame decides whether a user's return handler is called. It has a bit for
 * each user whose entry handler returned non-zero, and the stamp, the number of
 * registrations at the entry. A user that registers later has a larger birth
 * than the stamp. So a frame with the bit of a slot's earlier user, however old,
 * never causes a call of the slot's present user.
 */
#include "fgraph.h"

#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "hash.h"
#include "irq.h"
#include "print.h"
#include "shadow.h"
#include "ftrace_internal.h"
#include "unwind.h"

/* A frame's users: stamp << 16 | bits. */
#define STAMP_SHIFT FGRAPH_USERS
#define USER_BITS ((1ul << FGRAPH_USERS) - 1)

static notrace int stub_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			      struct ftrace_regs *regs)
{
	return 0;
}
static notrace void stub_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				struct ftrace_regs *regs)
{
}
/* The user in a free slot. Its birth is larger than every stamp. */
static struct fgraph_ops fgraph_stub = {stub_entry, stub_return, .idx = -1, .birth = ~0ull};

static struct fgraph_ops *fgraph_array[FGRAPH_USERS] = {[0 ... FGRAPH_USERS - 1] = &fgraph_stub};
struct fgraph_single fgraph_single;
static int fgraph_count; /* number of users */
/*
 * Global, so that the compiler does not remove them from the start, where nothing stores to them.
 */
long fgraph_slots; /* index of the last taken slot + 1 */
u64 fgraph_stamp; /* birth of the newest user */

/* The one op of all users: its filter is the union of their filters. */
static struct ftrace_ops graph_ops = {
	.func = ftrace_graph_func,
	.flags = FTRACE_OPS_FL_RECURSION,
	.slot = -1,
};

/* ---- Register and unregister users: ftrace_lock held. ---- */

static int slot_of(const struct fgraph_ops *gops)
{
	int i = 0;

	while (i < FGRAPH_USERS && fgraph_array[i] != gops)
		i++;
	return i;
}

static bool is_selected(unsigned long ip)
{
	for (int i = 0; i < fgraph_slots; i++)
		if (fgraph_array[i] != &fgraph_stub &&
		    ftrace_filter_test(fgraph_array[i]->filter, ip))
			return true;
	return false;
}

/* Make the filter of graph_ops the union of the users' filters. */
static int update_graph_ops(void)
{
	struct ftrace_set *set;
	int err;

	if (!fgraph_count) /* needs no memory, so the last user can always be unregistered */
		return graph_ops.slot >= 0 ? ftrace_shutdown(&graph_ops) : 0;
	set = ftrace_set_new();
	if (!set)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		ftrace_set_put(set, rec, is_selected(ftrace_ip(rec)));
	err = ftrace_select(&graph_ops, set);
	ftrace_set_free(set);
	return err;
}

static void leave_direct(void)
{
	WRITE_ONCE(fgraph_single.users, 0);
	ftrace_set_func(&graph_ops, ftrace_graph_func);
	synchronize_sched();
}

/*
 * After the users have changed: wait for a grace period. Then use the direct path, if
 * there is only one user and it has such a path.
 */
static void choose_path(int err)
{
	struct fgraph_ops *gops = fgraph_slots ? fgraph_array[fgraph_slots - 1] : &fgraph_stub;
	bool direct = !err && fgraph_count == 1 && gops->direct.entry;

	if (direct) {
		graph_ops.private = fgraph_single.private = gops->private;
		fgraph_single.ret = gops->direct.ret;
	}
	/* every CPU has seen the stamp, and is in no handler of a user that was unregistered */
	synchronize_sched();
	if (!direct)
		return;
	WRITE_ONCE(fgraph_single.users, fgraph_stamp | 1u << gops->idx);
	smp_mb();
	if (READ_ONCE(ftrace_graph_dead))
		WRITE_ONCE(fgraph_single.users, 0);
	else
		ftrace_set_func(&graph_ops, gops->direct.entry);
}

static int filter_changed(struct ftrace_filter *filter)
{
	return update_graph_ops();
}

static void set_slots(long slots)
{
	WRITE_ONCE(fgraph_slots, slots);
	smp_mb();
	if (READ_ONCE(ftrace_graph_dead))
		WRITE_ONCE(fgraph_slots, 0);
}

static void leave_slot(struct fgraph_ops *gops);
static int add_user(struct fgraph_ops *gops);

/* No CPU is inside a handler of @gops when this returns. */
static void remove_user(struct fgraph_ops *gops)
{
	leave_direct();
	leave_slot(gops);
	choose_path(update_graph_ops());
	gops->idx = -1;
	if (!fgraph_count)
		shadow_users_end();
}

int register_ftrace_graph(struct fgraph_ops *gops)
{
	int err;

	mutex_lock(&ftrace_lock);
	err = add_user(gops);
	mutex_unlock(&ftrace_lock);
	return err;
}

int unregister_ftrace_graph(struct fgraph_ops *gops)
{
	bool found;

	mutex_lock(&ftrace_lock);
	found = slot_of(gops) < FGRAPH_USERS;
	if (found)
		remove_user(gops);
	mutex_unlock(&ftrace_lock);
	return found ? 0 : -ENOENT;
}

bool fgraph_user_within(unsigned long start, unsigned long end)
{
	unsigned long size = end - start;
	bool within = false;

	for (int i = 0; i < FGRAPH_USERS; i++) {
		const struct fgraph_ops *gops = fgraph_array[i];

		within |= IS_WITHIN(gops, start, size) || IS_WITHIN(gops->entryfunc, start, size) ||
		      IS_WITHIN(gops->retfunc, start, size);
	}
	return within;
}

int ftrace_graph_new_table(void)
{
	return fgraph_count ? update_graph_ops() : 0;
}

void ftrace_return_to_handler(struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);
	struct shadow_frame *f = s->top;

	if (likely(f->users == READ_ONCE(fgraph_single.users)) && likely(f->sp == regs->sp))
		return fgraph_single.ret(regs, s, f, fgraph_single.private);
	return ftrace_graph_return(regs);
}

void *fgraph_retrieve_data(int idx, int *size)
{
	return fgraph_retrieve_parent_data(idx, size, 0);
}

/* ---- Lab 6 is from here to the end. ---- */

/*
 * Store in this order, with smp_wmb() between: (1) birth, (2) slot, (3) stamp. Then an
 * event that reads the new stamp finds the user.
 */
static void enter_slot(struct fgraph_ops *gops, int idx)
{
#if LAB_START != 6
	gops->idx = idx;
	gops->birth = fgraph_stamp + (1ull << STAMP_SHIFT);
	gops->filter->changed = filter_changed;
	smp_wmb();
	WRITE_ONCE(fgraph_array[idx], gops);
	if (idx >= fgraph_slots)
		set_slots(idx + 1);
	smp_wmb();
	WRITE_ONCE(fgraph_stamp, gops->birth);
	fgraph_count++;
#endif
}

static void leave_slot(struct fgraph_ops *gops)
{
#if LAB_START != 6
	WRITE_ONCE(fgraph_array[gops->idx], &fgraph_stub);
	gops->filter->changed = NULL;
	for (int i = 0; i < fgraph_slots; i++) /* another user may share the filter */
		if (fgraph_array[i] != &fgraph_stub)
			fgraph_array[i]->filter->changed = filter_changed;
	fgraph_count--;
	while (fgraph_slots && fgraph_array[fgraph_slots - 1] == &fgraph_stub)
		set_slots(fgraph_slots - 1);
#endif
}

static int add_user(struct fgraph_ops *gops)
{
#if LAB_START == 6
	return -ENOSYS;
#else
	int idx = slot_of(&fgraph_stub), err;

	if (ftrace_disabled || ftrace_graph_dead)
		return -ENODEV;
	if (slot_of(gops) < FGRAPH_USERS)
		return -EBUSY;
	if (idx == FGRAPH_USERS)
		return -ENOSPC;
	err = fgraph_count ? 0 : shadow_users_begin();
	if (err)
		return err;
	leave_direct();
	enter_slot(gops, idx);
	err = update_graph_ops();
	if (err)
		remove_user(gops);
	else
		choose_path(0);
	return err;
#endif
}

/* ---- Entry ---- */

static void give_back_data(struct shadow_stack *s, struct shadow_frame *f, int idx);

/* Call the entry handlers. A user whose handler returns non-zero gets its bit. */
static void call_entries(struct shadow_stack *s, struct shadow_frame *f, struct ftrace_regs *regs)
{
#if LAB_START != 6
	struct ftrace_graph_ent trace = {f->func, s->depth - 1, f->calltime};

	for (long i = 0; i < READ_ONCE(fgraph_slots); i++) {
		struct fgraph_ops *gops = READ_ONCE(fgraph_array[i]);

		if (gops->birth > f->users || !ftrace_filter_test(gops->filter, f->func))
			continue;
		if (gops->entryfunc(&trace, gops, regs))
			shadow_store(f->users, f->users | 1ul << i);
		else
			give_back_data(s, f, i);
	}
#endif
}

void ftrace_graph_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		       struct ftrace_regs *regs)
{
#if LAB_START != 6
	struct shadow_stack *s = shadow_of(current);
	struct cpu *c = this_cpu();
	u64 stamp = READ_ONCE(fgraph_stamp), recursion = c->recursion;
	struct shadow_frame *f;

	if (unlikely(recursion & c->context_bit) || unlikely(!s))
		return;
	/* the stamp before the slots: then the user with that birth is seen in its slot */
	smp_rmb();
	c->recursion = recursion | c->context_bit;
	f = shadow_push(s, ip, regs, clock_ns(), stamp);
	if (likely(f)) {
		call_entries(s, f, regs);
		if (likely(f->users & USER_BITS))
			regs->link = (unsigned long)return_to_handler;
		else
			shadow_pop(s, f);
	}
	this_cpu()->recursion = recursion;
#endif
}

/* ---- Return ---- */

/* Call the gone handlers, in the reverse order of the entry handlers. Then pop the frame. */
void ftrace_graph_gone(struct shadow_stack *s)
{
#if LAB_START != 6
	struct shadow_frame *f = s->top;
	struct ftrace_graph_ent trace = {f->func, s->depth - 1, f->calltime};

	shadow_count_overrun(s);
	for (long i = READ_ONCE(fgraph_slots); i-- > 0;) {
		struct fgraph_ops *gops = READ_ONCE(fgraph_array[i]);

		if (f->users >> i & 1 && gops->birth <= f->users && gops->gonefunc)
			gops->gonefunc(&trace, gops);
	}
	shadow_pop(s, f);
#endif
}

/*
 * The top frame does not belong to the function that returned. Find the frame
 * whose sp is @sp: the program has jumped out of the calls of the frames above it.
 * If there is no such frame, use the top frame: it is the best guess.
 */
static __noinline struct shadow_frame *find_frame(struct shadow_stack *s, unsigned long sp)
{
#if LAB_START == 6
	return s->top;
#else
	struct shadow_frame *f = s->top;

	while (f && f->sp != sp)
		f = f->below;
	if (!f) {
		f = s->top;
		ftrace_graph_stop(f->func, f->sp, sp);
		/*
		 * ftrace_graph_dead before the two stores; choose_path() and set_slots() do it
		 * in the other order
		 */
		smp_mb();
		WRITE_ONCE(fgraph_single.users, 0);
		WRITE_ONCE(fgraph_slots, 0); /* no handler is called any more */
	}
	while (s->top != f)
		ftrace_graph_gone(s);
	return f;
#endif
}

/* Call the return handlers, in the reverse order of the entry handlers. */
static void call_returns(struct shadow_stack *s, struct shadow_frame *f, struct ftrace_regs *regs)
{
#if LAB_START != 6
	struct ftrace_graph_ret trace = {f->func,    regs->arg[0], s->depth - 1,
					 s->overrun, f->calltime,  clock_ns()};

	for (long i = READ_ONCE(fgraph_slots); i-- > 0;) {
		struct fgraph_ops *gops;

		if (!(f->users >> i & 1))
			continue;
		gops = READ_ONCE(fgraph_array[i]);
		if (gops->birth <= f->users)
			gops->retfunc(&trace, gops, regs);
	}
#endif
}

void ftrace_graph_return(struct ftrace_regs *regs)
{
#if LAB_START == 6
	panic("ftrace_graph_return() is not written yet");
#else
	struct shadow_stack *s = shadow_of(current);
	struct shadow_frame *f = s->top;
	struct cpu *c = this_cpu();
	u64 recursion = c->recursion;

	c->recursion = recursion | c->context_bit;
	if (unlikely(f->sp != regs->sp))
		f = find_frame(s, regs->sp);
	call_returns(s, f, regs);
	regs->link = f->ret;
	barrier();
	shadow_pop(s, f);
	this_cpu()->recursion = recursion;
#endif
}

/* ---- Entry data ---- */

/* A datum's first word: the user's slot, and the number of words that follow. */
#define DATUM(idx, words) ((unsigned long)(words) << 8 | (idx))
#define DATUM_USER(w) ((int)((w) & 0xff))
#define DATUM_WORDS(w) ((w) >> 8)
#define DATUM_MAX 256

void *fgraph_reserve_data(int idx, int size)
{
#if LAB_START == 6
	return NULL;
#else
	struct shadow_stack *s = shadow_of(current);
	struct shadow_frame *f = s->top;
	unsigned long *datum = s->free, words = (size + 7) / 8;

	if (size <= 0 || size > DATUM_MAX)
		return NULL;
	if ((char *)(datum + 1 + words) > (char *)s + SHADOW_SIZE) {
		shadow_no_room(s);
		return NULL;
	}
	shadow_store(s->free, datum + 1 + words);
	barrier();
	shadow_store(*datum, DATUM(idx, words));
	barrier();
	shadow_store(f->data_end, datum + 1 + words);
	return datum + 1;
#endif
}

static void *find_datum(struct shadow_frame *f, int idx, int *size)
{
#if LAB_START == 6
	return NULL;
#else
	unsigned long *datum = (unsigned long *)(f + 1);

	for (; datum < f->data_end; datum += 1 + DATUM_WORDS(*datum)) {
		if (DATUM_USER(*datum) != idx)
			continue;
		if (size)
			*size = DATUM_WORDS(*datum) * 8;
		return datum + 1;
	}
	return NULL;
#endif
}

static void give_back_data(struct shadow_stack *s, struct shadow_frame *f, int idx)
{
#if LAB_START != 6
	unsigned long *data = find_datum(f, idx, NULL);

	if (!data)
		return;
	shadow_store(f->data_end, data - 1);
	barrier();
	shadow_store(s->free, data - 1);
#endif
}

void *fgraph_retrieve_parent_data(int idx, int *size, int depth)
{
#if LAB_START == 6
	return NULL;
#else
	struct shadow_frame *f = shadow_of(current)->top;
	struct fgraph_ops *gops = READ_ONCE(fgraph_array[idx]);

	while (f && depth-- > 0)
		f = f->below;
	/*
	 * A user that is being unregistered can still read its own data. Data in a frame
	 * that is older than the user belong to an earlier user.
	 */
	if (!f || (gops != &fgraph_stub && gops->birth > f->users))
		return NULL;
	return find_datum(f, idx, size);
#endif
}

/*
 * ---- For stack walks: the real return address of a traced function. The walk's
 * frame pointer says in which frame it is. ----
 */

/*
 * In a chain of tail calls all frames have the same fp; only the outermost has the caller's
 * address.
 */
unsigned long ftrace_graph_ret_addr(struct thread *t, unsigned long ret, unsigned long fp)
{
#if LAB_START == 6
	return ret;
#else
	struct shadow_stack *s = shadow_of(t);

	if (ret == (unsigned long)return_to_handler && s)
		for (struct shadow_frame *f = READ_ONCE(s->top); f; f = f->below)
			if (f->fp == fp && f->ret != ret)
				return f->ret;
	return ret;
#endif
}
UNWIND_HOOK(ftrace_graph_ret_addr);

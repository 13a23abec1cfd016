/*
 * What the files of the function tracer share in every stage, besides ftrace.h.
 * A function that is "the stage's" is in ops/single.c in lab 3, and in ops/ops.c
 * from lab 4 on, unless other files are named there.
 */
#ifndef FTRACE_INTERNAL_H
#define FTRACE_INTERNAL_H

#include "ftrace.h"
#include "thread.h"

/* Guards the records, the ops and text. */
extern struct mutex ftrace_lock;

/* The tracer that does nothing; in assembly, it changes no register. */
void ftrace_stub(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		 struct ftrace_regs *regs);

/*
 * The function in the slot of an op that does not guard itself: call op->func,
 * unless this CPU is already in the tracer in this context.
 */
void ftrace_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			struct ftrace_regs *regs);

/*
 * Labs 1 to 3: the function that _mcount calls; the op that _mcount and ftrace_caller pass as the
 * third argument.
 */
extern ftrace_func_t ftrace_trace_function;
extern struct ftrace_ops *function_trace_op;

static inline ftrace_func_t ftrace_op_func(const struct ftrace_ops *op)
{
	return op->flags & FTRACE_OPS_FL_RECURSION ? op->func : ftrace_assist_func;
}

/*
 * The stubs, FTRACE_STUB_SIZE bytes each: a site calls stub number rec->calls -
 * 1 of its region. In lab 3 there is one, ftrace_caller.
 */
extern char ftrace_stubs[];
#define FTRACE_STUB_SIZE 12
#ifdef HOOK_mcount
#define FTRACE_STUBS 1
#else
#define FTRACE_STUBS (1 + FTRACE_OPS_MAX)
#endif

/*
 * A stub's slot: what ftrace_caller calls. Written while no site calls the stub and no CPU is
 * inside it.
 */
struct ftrace_slot {
	ftrace_func_t func;
	struct ftrace_ops *op;
};
extern struct ftrace_slot ftrace_slots[];

static inline unsigned long ftrace_stub_addr(unsigned long stubs, unsigned calls)
{
	return stubs + (calls - 1) * FTRACE_STUB_SIZE;
}

/*
 * The address of the stub that the site of @rec, a record, calls if rec->calls is @calls,
 * which is not FTRACE_CALLS_NOTHING.
 */
unsigned long ftrace_call_addr(const struct dyn_ftrace *rec, unsigned calls);

extern unsigned long ftrace_syncs; /* number of synchronisations since boot: one for each batch */

/* The word that must be at the site of @rec now: for a message that another word is there. */
u32 ftrace_expected(const struct dyn_ftrace *rec);

/* The word at a site is not the one that its record says: call ftrace_bug() and return -ENODEV. */
int ftrace_refuse(struct dyn_ftrace *rec, int err);

/*
 * Make the site of @rec call @calls (FTRACE_CALLS_*), inside a batch. Before: @rec->calls or
 * @calls is not FTRACE_CALLS_NOTHING. Return: 0, or -ENODEV after ftrace_bug().
 */
static inline int ftrace_switch(struct dyn_ftrace *rec, unsigned calls)
{
	unsigned old = rec->calls;
	int err = 0;

	if (unlikely(rec->flags & FTRACE_FL_FOLLOW))
		err = ftrace_table_of(rec)->verify(rec, calls);
	if (err)
		return err;
	if (!old)
		err = ftrace_make_call(rec, ftrace_call_addr(rec, calls));
	else if (!calls)
		err = ftrace_make_nop(rec, ftrace_call_addr(rec, old));
	else
		err = ftrace_modify_call(rec, ftrace_call_addr(rec, old),
					 ftrace_call_addr(rec, calls));
	if (unlikely(err))
		return ftrace_refuse(rec, err);
	rec->calls = calls;
	return 0;
}

/*
 * Check the records of a table, and print their faults. A faulty record is disabled: its site is
 * never written.
 */
void ftrace_check_records(struct ftrace_table table);

/*
 * Make the site a nop, and with HOOK_REWRITES the word before it HOOK_BEFORE. The
 * site must be as the compiler left it (hook_untouched(), in <arch>/hook.h).
 * Context: boot, before other CPUs run, inside a batch. Return: 0; -EFAULT as for
 * ftrace_make_nop(); -EINVAL if the site is not as the compiler left it.
 */
int ftrace_init_nop(const struct dyn_ftrace *rec);

/*
 * A set of functions while it is edited: a bit for each record, by its number. It
 * has no bits for a table that is added later. After a table was removed it has
 * none for any module, because the numbers of their records have changed. Each
 * stage keeps the finished set in its own form: as flags in the records, or as a
 * hash. Changed under ftrace_lock.
 */
struct ftrace_set {
	u32 count, records;
	u32 removals; /* ftrace_removals when it was made */
	u64 bits[];
};
extern u32 ftrace_removals; /* tables removed since boot */
struct ftrace_set *ftrace_set_new(void); /* empty; NULL: no memory. ftrace_lock held */
void ftrace_set_free(struct ftrace_set *set);
bool ftrace_set_has(const struct ftrace_set *set, const struct dyn_ftrace *rec);
/* Return: 0, also if the set has no bit for @rec; -ENOENT if @rec is no record, so NULL too. */
int ftrace_set_put(struct ftrace_set *set, const struct dyn_ftrace *rec, bool in);

/* The stage's: how many functions are in the filter (or its notrace list). */
u32 ftrace_filter_count(const struct ftrace_filter *filter, bool notrace_list);
/*
 * The stage's: make @set the filter (or its notrace list), and patch the sites of a registered
 * op that has it. @set NULL: no filter, which is every function, or no notrace list. A set
 * without a function is a filter that selects none; only the filter of lab 3 has no such state.
 */
int ftrace_filter_commit(struct ftrace_filter *filter, const struct ftrace_set *set,
			 bool notrace_list);
/* The stage's: the only op that traces @rec; NULL: several, or none. */
struct ftrace_ops *ftrace_only_op(const struct dyn_ftrace *rec);

/*
 * For code that has an op of its own and holds ftrace_lock (from stage 4 on):
 * register and unregister the op; replace its function (the old one may run
 * until a grace period has passed); make @set a filter, as ftrace_filter_commit()
 * does; make @op select what @filter selects. This last op may not change pc. It uses
 * @filter's own hashes, so call it again after each change of @filter.
 */
int ftrace_startup(struct ftrace_ops *op);
int ftrace_shutdown(struct ftrace_ops *op);
void ftrace_set_func(struct ftrace_ops *op, ftrace_func_t func);
int ftrace_set_hash(struct ftrace_filter *filter, const struct ftrace_set *set, bool notrace_list);
int ftrace_share_filter(struct ftrace_ops *op, const struct ftrace_filter *filter);

/*
 * Make @set the filter of @op, which is registered while it selects a function. A set of
 * every function needs no hash; then the op selects those of the next module, too, until
 * this function is called again. ftrace_lock held. Errors: as ftrace_startup().
 */
static inline int ftrace_select(struct ftrace_ops *op, const struct ftrace_set *set)
{
	bool all = set->count && set->count == ftrace_total();
	int err = ftrace_set_hash(&op->filter, all ? NULL : set, false);

	if (err || !set->count == (op->slot < 0))
		return err;
	return set->count ? ftrace_startup(op) : ftrace_shutdown(op);
}

/*
 * Add the function of @rec to @op's filter (@in), or remove it. @op is registered while its filter
 * has a function. Only the site of @rec is read and written, so the cost does not grow with the
 * number of sites; no other function may change this filter. ftrace_lock held.
 * Return: 0; -ENOMEM; other errors as ftrace_startup().
 */
int ftrace_select_one(struct ftrace_ops *op, struct dyn_ftrace *rec, bool in);

/*
 * The function's name in kallsyms; "?": it has none there. ftrace_show_name() adds " [module]",
 * as Linux does, and @end; ftrace_lock held.
 */
const char *ftrace_name(const struct dyn_ftrace *rec);
struct seq;
void ftrace_show_name(struct seq *s, const struct dyn_ftrace *rec, const char *end);


#endif

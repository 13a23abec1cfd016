/*
 * fprobe: the table of probed functions, and the one user of function_graph and
 * the one op that serve all fprobes (fprobe.h).
 *
 * The entry data of a call, reserved once for all fprobes of the function:
 *
 *	| data of the first | tag | data of the second | tag | 0 | 0 |
 *
 *	a tag: birth << 8 | words of data before it; birth 0: no exit handler is due
 *
 * The tag is after its data, so the return reads from the end, and the exit
 * handlers are called in the reverse order. What was reserved and not used is
 * filled with tags of 0 words.
 */
#include "fprobe.h"

#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "fgraph.h"
#include "module.h"
#include "shadow.h"
#include "string.h"
#include "thread.h"
#include "ftrace_internal.h"

#define RESERVE_MAX 256 /* fgraph_reserve_data() */
#define WORDS_BITS 8

/* A function of an fprobe. */
struct fprobe_site {
	struct probe_site site;
	struct fprobe *fp;
};

static int fprobe_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs);
static void fprobe_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			  struct ftrace_regs *regs);
static void fprobe_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops);
static void fprobe_direct_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				struct ftrace_regs *regs);
static void fprobe_direct_return(struct ftrace_regs *regs, struct shadow_stack *s,
				 struct shadow_frame *f, void *private);
static void fprobe_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			struct ftrace_regs *regs);

static struct ftrace_filter graph_filter;
static struct fgraph_ops graph_user = {fprobe_entry,
				       fprobe_return,
				       &graph_filter,
				       .gonefunc = fprobe_gone,
				       .direct = {fprobe_direct_entry, fprobe_direct_return},
				       .idx = -1};
static struct ftrace_ops entry_op = {.func = fprobe_call, .slot = -1};
/* The fprobes that have an exit handler, and those that have none. */
static struct probe_sites with_exit = {.graph = &graph_user}, entry_only = {.op = &entry_op};

static inline struct fprobe *fprobe_at(struct probe_site *site)
{
	return container_of(site, struct fprobe_site, site)->fp;
}

/* ---- Events ---- */

static inline bool is_disabled(const struct fprobe *fp)
{
	return READ_ONCE(fp->flags) & FPROBE_FL_DISABLED;
}

static inline void count_missed(struct fprobe *fp)
{
	__atomic_fetch_add(&fp->nmissed, 1, __ATOMIC_RELAXED);
}

/*
 * The call has no frame. Only the direct path can count it: in the general path a call without a
 * frame reaches no user.
 */
static __noinline void miss_all(unsigned long ip)
{
	for_each_probe_site(site, &with_exit, ip)
		count_missed(fprobe_at(site));
}

/* In a chain of tail calls an inner function returns to return_to_handler first. */
static inline unsigned long true_return(unsigned long ret, unsigned long fp)
{
	return likely(ret != (unsigned long)return_to_handler)
		       ? ret
		       : ftrace_graph_ret_addr(current, ret, fp);
}

static inline u64 words_of_all(unsigned long ip)
{
	u64 words = 0;

	for_each_probe_site(site, &with_exit, ip)
		words += fprobe_at(site)->words + 1;
	return MIN(words, RESERVE_MAX / 8);
}

/* Call the entry handler; return the tag for the end of the data. */
static inline u64 enter(struct fprobe *fp, unsigned long ip, unsigned long ret,
			struct ftrace_regs *regs, u64 *data)
{
	u64 words = fp->words;

	if (is_disabled(fp) || (fp->entry_handler && fp->entry_handler(fp, ip, ret, regs, data)))
		return words;
	return fp->birth << WORDS_BITS | words;
}

/*
 * The entry of the function at @ip, whose frame is on the shadow stack. Return: is an exit handler
 * due? Inlined: a further call would save ten more registers.
 */
static __always_inline bool enter_all(unsigned long ip, struct ftrace_regs *regs)
{
	unsigned long ret = true_return(regs->link, regs->fp);
	u64 words = words_of_all(ip);
	u64 *data = fgraph_reserve_data(graph_user.idx, 8 * words),
	    *end = data ? data + words : NULL;
	u64 due = 0;

	for_each_probe_site(site, &with_exit, ip) {
		struct fprobe *fp = fprobe_at(site);
		u64 *tag = data + fp->words;

		/* no room, too much, or registered since the room was reserved */
		if (unlikely(tag >= end)) {
			count_missed(fp);
			continue;
		}
		*tag = enter(fp, ip, ret, regs, data);
		due |= *tag >> WORDS_BITS;
		data = tag + 1;
	}
	while (data < end)
		*data++ = 0;
	return due;
}

static int fprobe_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			struct ftrace_regs *regs)
{
	return enter_all(trace->func, regs);
}

/* The fprobe whose registration made @tag; NULL: it was unregistered. */
static inline struct fprobe *fprobe_of(unsigned long ip, u64 tag)
{
	for_each_probe_site(site, &with_exit, ip)
		if (fprobe_at(site)->birth == tag >> WORDS_BITS)
			return fprobe_at(site);
	return NULL;
}

/*
 * Step from *@at, the end of the data, to the data before it. Return: their fprobe; NULL: none is
 * due.
 */
static inline struct fprobe *step_back(unsigned long ip, u64 **at)
{
	u64 tag = *--*at;

	*at -= tag & ((1u << WORDS_BITS) - 1);
	return fprobe_of(ip, tag);
}

/* The return of the function of @f; its entry data are from @start to @at. */
static __always_inline void leave_all(const struct shadow_frame *f, u64 *start, u64 *at,
				      struct ftrace_regs *regs)
{
	unsigned long ret = true_return(f->ret, regs->fp);

	while (at > start) {
		struct fprobe *fp = step_back(f->func, &at);

		if (likely(fp) && !is_disabled(fp))
			fp->exit_handler(fp, f->func, ret, regs, at);
	}
}

static void fprobe_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			  struct ftrace_regs *regs)
{
	int bytes = 0;
	u64 *start = fgraph_retrieve_data(gops->idx, &bytes);

	leave_all(shadow_of(current)->top, start, start + bytes / 8, regs);
}

/*
 * The direct path, while fprobes are the only user of function_graph: no loop over
 * users, no second filter, no clock.
 */
static void fprobe_direct_entry(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);
	struct cpu *cpu = this_cpu();
	u64 users = READ_ONCE(fgraph_single.users), guard = cpu->recursion;
	struct shadow_frame *f;

	if (unlikely(!users)) /* another user is being registered */
		return ftrace_graph_func(ip, parent_ip, op, regs);
	if (unlikely(guard & cpu->context_bit) || unlikely(!s))
		return;
	cpu->recursion = guard | cpu->context_bit;
	f = shadow_push(s, ip, regs, 0, users);
	if (unlikely(!f))
		miss_all(ip);
	else if (likely(enter_all(ip, regs)))
		regs->link = (unsigned long)return_to_handler;
	else
		shadow_pop(s, f);
	this_cpu()->recursion = guard;
}

static void fprobe_direct_return(struct ftrace_regs *regs, struct shadow_stack *s,
				 struct shadow_frame *f, void *private)
{
	struct cpu *cpu = this_cpu();
	u64 guard = cpu->recursion;

	cpu->recursion = guard | cpu->context_bit;
	/* the only data; the first word is function_graph's */
	leave_all(f, (u64 *)(f + 1) + 1, f->data_end, regs);
	regs->link = f->ret;
	barrier(); /* a stack walk finds the address in regs->link or in the frame */
	shadow_pop(s, f);
	this_cpu()->recursion = guard;
}

static void fprobe_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			struct ftrace_regs *regs)
{
	unsigned long ret = true_return(parent_ip, regs->fp);

	for_each_probe_site(site, &entry_only, ip)
		if (!is_disabled(fprobe_at(site)))
			fprobe_at(site)->entry_handler(fprobe_at(site), ip, ret, regs, NULL);
}

/*
 * The function at @ip never returns. @depth: how many traced calls of the thread are inside of it.
 */
static void lose(unsigned long ip, int depth)
{
	int bytes = 0;
	u64 *start = fgraph_retrieve_parent_data(graph_user.idx, &bytes, depth),
	    *at = start + bytes / 8;

	while (at > start) {
		struct fprobe *fp = step_back(ip, &at);

		if (fp && fp->lost_handler)
			fp->lost_handler(fp, at);
	}
}

static void fprobe_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops)
{
	lose(trace->func, 0);
}

void fprobe_lose_soon(void)
{
	shadow_drop_soon(shadow_of(current));
}

/*
 * A thread that exits is still inside functions, which never return. Nothing from
 * here to the end of run_thread_hooks() has a call site, so the frames on the shadow
 * stack are those of such functions only.
 */
static void lose_calls(enum thread_event event, struct thread *prev, struct thread *next)
{
	struct shadow_stack *s = shadow_of(prev);
	int depth = 0;

	if (event != THREAD_DIES || !s)
		return;
	preempt_disable(); /* so that no fprobe is unregistered meanwhile */
	for (struct shadow_frame *f = s->top; f && graph_user.idx >= 0; f = f->below)
		lose(f->func, depth++);
	preempt_enable();
}
THREAD_HOOK(lose_calls);

/* ---- Register and unregister: fprobe_lock held. ---- */

static struct mutex fprobe_lock = MUTEX_INIT;
static u64 births;

static inline struct probe_sites *table_of(const struct fprobe *fp)
{
	return fp->exit_handler ? &with_exit : &entry_only;
}

static void remove_fprobe(struct fprobe *fp)
{
	for (u32 i = 0; i < fp->count; i++)
		probe_site_remove(table_of(fp), &fp->sites[i].site);
	/* after an error, sites without an entry may still call the tracer: it finds no fprobe */
	probe_sites_update(table_of(fp));
	kfree(fp->sites);
	fp->birth = 0;
}

/* Add the functions of @set to the table. */
static int add_sites(struct fprobe *fp, const struct ftrace_set *set)
{
	fp->sites = kzalloc(set->count * sizeof(*fp->sites));
	if (!fp->sites)
		return -ENOMEM;
	fp->birth = ++births;
	fp->words = (fp->entry_data_size + 7) / 8;
	fp->nmissed = fp->count = 0;
	for_each_ftrace_rec(rec) {
		if (!ftrace_set_has(set, rec))
			continue;
		fp->sites[fp->count] = (struct fprobe_site){{.ip = ftrace_ip(rec)}, fp};
		probe_site_add(table_of(fp), &fp->sites[fp->count++].site);
	}
	return 0;
}

static int check(const struct fprobe *fp)
{
	if (!fp->entry_handler && !fp->exit_handler)
		return -EINVAL;
	if (fp->entry_data_size < 0 || fp->entry_data_size > FPROBE_DATA_MAX)
		return -E2BIG;
	return fp->birth ? -EEXIST : 0;
}

/* For which functions: those that match the globs, or those at @addrs, or with the names @syms. */
struct wanted {
	const char *filter, *notfilter;
	const unsigned long *addrs;
	const char *const *syms;
	int num;
};

static int find_matching(struct ftrace_set *set, const struct wanted *w)
{
	for_each_ftrace_rec(rec) {
		const char *name = ftrace_name(rec);

		if (rec->flags & FTRACE_FL_DISABLED || module_is_going(ftrace_ip(rec)) ||
		    !glob_match(w->filter, strlen(w->filter), name))
			continue;
		ftrace_set_put(set, rec,
			       !w->notfilter ||
				       !glob_match(w->notfilter, strlen(w->notfilter), name));
	}
	return 0;
}

static int find_listed(struct ftrace_set *set, const struct wanted *w)
{
	struct dyn_ftrace *rec;
	int err = 0;

	for (int i = 0; i < w->num && !err; i++) {
		err = probe_find_function(w->syms ? w->syms[i] : NULL, w->addrs ? w->addrs[i] : 0,
					  &rec);
		if (!err)
			ftrace_set_put(set, rec, true);
	}
	return err;
}

/*
 * ftrace_lock is held, so that no module is removed while the records are searched: that would free
 * its own, and renumber others.
 */
static int find_and_add(struct fprobe *fp, const struct wanted *w)
{
	struct ftrace_set *set = ftrace_set_new();
	int err = !set ? -ENOMEM : w->filter ? find_matching(set, w) : find_listed(set, w);

	err = err ?: check(fp);
	err = err ?: set->count ? add_sites(fp, set) : -ENOENT;
	ftrace_set_free(set);
	return err;
}

static int register_wanted(struct fprobe *fp, const struct wanted *w)
{
	int err;

	mutex_lock(&fprobe_lock);
	mutex_lock(&ftrace_lock);
	err = find_and_add(fp, w);
	mutex_unlock(&ftrace_lock);
	if (!err) {
		err = probe_sites_update(table_of(fp));
		if (err)
			remove_fprobe(fp);
	}
	mutex_unlock(&fprobe_lock);
	return err;
}

int register_fprobe(struct fprobe *fp, const char *filter, const char *notfilter)
{
	if (!fp || !filter)
		return -EINVAL;
	return register_wanted(fp, &(struct wanted){.filter = filter, .notfilter = notfilter});
}

static int register_listed(struct fprobe *fp, const unsigned long *addrs, const char *const *syms,
			   int num)
{
	if (!fp || (!addrs && !syms) || num <= 0)
		return -EINVAL;
	return register_wanted(fp, &(struct wanted){.addrs = addrs, .syms = syms, .num = num});
}

int register_fprobe_ips(struct fprobe *fp, const unsigned long *addrs, int num)
{
	return register_listed(fp, addrs, NULL, num);
}

int register_fprobe_syms(struct fprobe *fp, const char *const *syms, int num)
{
	return register_listed(fp, NULL, syms, num);
}

int unregister_fprobe(struct fprobe *fp)
{
	int err = -EINVAL;

	mutex_lock(&fprobe_lock);
	if (fp && fp->birth) {
		remove_fprobe(fp);
		err = 0;
	}
	mutex_unlock(&fprobe_lock);
	return err;
}

static bool lies_within(const struct fprobe *fp, unsigned long start, unsigned long size)
{
	return IS_WITHIN(fp, start, size) || IS_WITHIN(fp->entry_handler, start, size) ||
	       IS_WITHIN(fp->exit_handler, start, size) || IS_WITHIN(fp->lost_handler, start, size);
}

static bool sites_within(const struct probe_sites *t, unsigned long start, unsigned long size,
			 bool itself)
{
	bool within = false;

	for (unsigned i = 0; i < PROBE_BUCKETS; i++)
		for (struct probe_site *site = t->buckets[i]; site; site = site->next)
			within |= IS_WITHIN(site->ip, start, size) ||
			      (itself && lies_within(fprobe_at(site), start, size));
	return within;
}

bool fprobe_within(unsigned long start, unsigned long end, bool itself)
{
	bool within;

	mutex_lock(&fprobe_lock);
	within = sites_within(&with_exit, start, end - start, itself) ||
	     sites_within(&entry_only, start, end - start, itself);
	mutex_unlock(&fprobe_lock);
	return within;
}

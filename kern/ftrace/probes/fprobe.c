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
 * The tag is behind its data, so the return reads from the end, and the exit
 * handlers are called in the reverse order. What was reserved and not used is
 * filled with tags of 0 words.
 */
#include "fprobe.h"

#include "asm-ftrace/regs.h"
#include "errno.h"
#include "fgraph.h"
#include "shadow.h"
#include "string.h"
#include "thread.h"
#include "tracer.h"

#define RESERVE_MAX 256 /* fgraph_reserve_data() */
#define WORDS_BITS 8

/* A function of an fprobe, in the table by its call site. */
struct fprobe_node {
	unsigned long ip;
	struct fprobe *fp;
	struct fprobe_node *next;
};

#define BUCKET_BITS 9
static struct fprobe_node *buckets[1 << BUCKET_BITS];
static struct mutex fprobe_lock = MUTEX_INIT;
static u64 births;

static inline struct fprobe_node **bucket_of(unsigned long ip)
{
	return &buckets[(u32)((u32)ip * 0x9e3779b1u) >> (32 - BUCKET_BITS)];
}

/* For each node of the function at @site, in the order of registration. */
#define for_each_node(node, site)                                                             \
	for (struct fprobe_node *node = READ_ONCE(*bucket_of(site)); node; node = READ_ONCE(node->next)) \
		if (node->ip == (site))

/* ---- Events ---- */

static inline unsigned words_of(const struct fprobe *fp)
{
	return (fp->entry_data_size + 7) / 8;
}

static inline bool is_disabled(const struct fprobe *fp)
{
	return READ_ONCE(fp->flags) & FPROBE_FL_DISABLED;
}

static inline void count_missed(struct fprobe *fp)
{
	__atomic_fetch_add(&fp->nmissed, 1, __ATOMIC_RELAXED);
}

/* In a chain of tail calls an inner function returns to return_to_handler first. */
static inline unsigned long true_return(unsigned long ret, unsigned long fp)
{
	return likely(ret != (unsigned long)return_to_handler) ? ret : ftrace_graph_ret_addr(current, ret, fp);
}

static inline unsigned bytes_of_all(unsigned long ip)
{
	unsigned bytes = 0;

	for_each_node(node, ip)
		if (node->fp->exit_handler)
			bytes += 8 + 8 * words_of(node->fp);
	return MIN(bytes, RESERVE_MAX);
}

/* Call the entry handler; return the tag for the end of the data. */
static inline u64 enter(struct fprobe *fp, unsigned long ip, unsigned long ret, struct ftrace_regs *regs, u64 *data)
{
	unsigned words = words_of(fp);

	if (is_disabled(fp) || (fp->entry_handler && fp->entry_handler(fp, ip, ret, regs, words ? data : NULL)))
		return words;
	return fp->birth << WORDS_BITS | words;
}

static int fprobe_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	unsigned long ip = trace->func, ret = true_return(regs->link, regs->fp);
	unsigned bytes = bytes_of_all(ip);
	u64 *data = fgraph_reserve_data(gops->idx, bytes), *end = data ? data + bytes / 8 : NULL;
	u64 due = 0;

	for_each_node(node, ip) {
		struct fprobe *fp = node->fp;
		u64 *tag = data + words_of(fp);

		if (!fp->exit_handler)
			continue;
		if (unlikely(!data || tag >= end)) { /* registered since the room was reserved, or too much */
			count_missed(fp);
			continue;
		}
		*tag = enter(fp, ip, ret, regs, data);
		due |= *tag >> WORDS_BITS;
		data = tag + 1;
	}
	while (data < end)
		*data++ = 0;
	return due != 0;
}

/* The fprobe whose registration @tag is from; NULL: it was unregistered. */
static inline struct fprobe *fprobe_of(unsigned long ip, u64 tag)
{
	for_each_node(node, ip)
		if (node->fp->birth == tag >> WORDS_BITS)
			return node->fp;
	return NULL;
}

/* Step from *@at, the end of the data, to the tag before it. Return: its fprobe and *@data; NULL: none is due. */
static inline struct fprobe *step_back(unsigned long ip, u64 **at, void **data)
{
	u64 tag = *--*at, words = tag & ((1u << WORDS_BITS) - 1);

	*at -= words;
	*data = words ? *at : NULL;
	return fprobe_of(ip, tag);
}

static void fprobe_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops, struct ftrace_regs *regs)
{
	int bytes = 0;
	u64 *start = fgraph_retrieve_data(gops->idx, &bytes), *at = start + bytes / 8;
	unsigned long ret = true_return(shadow_of(current)->top->ret, regs->fp);
	void *data;

	while (at > start) {
		struct fprobe *fp = step_back(trace->func, &at, &data);

		if (likely(fp) && !is_disabled(fp))
			fp->exit_handler(fp, trace->func, ret, regs, data);
	}
}

/* The op's callback, for the fprobes without an exit handler. */
static void fprobe_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op, struct ftrace_regs *regs)
{
	for_each_node(node, ip)
		if (!node->fp->exit_handler && !is_disabled(node->fp))
			node->fp->entry_handler(node->fp, ip, true_return(parent_ip, regs->fp), regs, NULL);
}

static struct ftrace_filter graph_filter;
static struct fgraph_ops graph_user = {fprobe_entry, fprobe_return, &graph_filter, .idx = -1};
static struct ftrace_ops entry_op = {.func = fprobe_call, .slot = -1};

/*
 * A thread exits inside functions, which never return. Nothing between this and
 * the end of run_thread_hooks() has a call site, so no frame is on the shadow
 * stack that will be popped.
 */
static void lose_calls(enum thread_event event, struct thread *prev, struct thread *next)
{
	struct shadow_stack *s = shadow_of(prev);
	int depth = 0;

	if (event != THREAD_DIES || !s)
		return;
	preempt_disable(); /* so that no fprobe is unregistered meanwhile */
	for (struct shadow_frame *f = s->top; f && graph_user.idx >= 0; f = f->below, depth++) {
		int bytes = 0;
		u64 *start = fgraph_retrieve_parent_data(graph_user.idx, &bytes, depth), *at = start + bytes / 8;
		void *data;

		while (at > start) {
			struct fprobe *fp = step_back(f->func, &at, &data);

			if (fp && fp->lost_handler)
				fp->lost_handler(fp, data);
		}
	}
	preempt_enable();
}
THREAD_HOOK(lose_calls);

/* ---- Register and unregister: fprobe_lock held. ---- */

static unsigned users[2]; /* fprobes without, and with an exit handler */

static bool is_probed(unsigned long ip, bool exits)
{
	for_each_node(node, ip)
		if (!node->fp->exit_handler == !exits)
			return true;
	return false;
}

/* Make the filter the functions that fprobes of this kind have now; there is at least one. */
static int update_filter(bool exits)
{
	struct ftrace_set *set = ftrace_set_new();
	int err;

	if (!set)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		ftrace_set_put(set, rec, is_probed(ftrace_ip(rec), exits));
	err = ftrace_filter_commit(exits ? &graph_filter : &entry_op.filter, set, false);
	ftrace_set_free(set);
	return err;
}

static void link_nodes(struct fprobe *fp)
{
	for (u32 i = 0; i < fp->count; i++) {
		struct fprobe_node **link = bucket_of(fp->nodes[i].ip);

		while (*link)
			link = &(*link)->next;
		smp_wmb(); /* the node and the fprobe, before they are found */
		WRITE_ONCE(*link, &fp->nodes[i]);
	}
}

static void unlink_nodes(struct fprobe *fp)
{
	for (u32 i = 0; i < fp->count; i++) {
		struct fprobe_node **link = bucket_of(fp->nodes[i].ip);

		while (*link != &fp->nodes[i])
			link = &(*link)->next;
		WRITE_ONCE(*link, fp->nodes[i].next);
	}
}

static void remove_fprobe(struct fprobe *fp)
{
	bool exits = fp->exit_handler;

	unlink_nodes(fp);
	if (--users[exits]) {
		if (update_filter(exits)) /* it still has these functions, but they have no node */
			synchronize_sched();
	} else if (exits) {
		unregister_ftrace_graph(&graph_user);
		ftrace_filter_free(&graph_filter);
	} else {
		unregister_ftrace_function(&entry_op);
		ftrace_filter_free(&entry_op.filter);
	}
	kfree(fp->nodes);
	fp->nodes = NULL;
	fp->birth = 0;
}

static int add_fprobe(struct fprobe *fp)
{
	bool exits = fp->exit_handler;
	int err;

	fp->birth = ++births;
	fp->nmissed = 0;
	link_nodes(fp);
	err = update_filter(exits);
	if (!users[exits]++ && !err)
		err = exits ? register_ftrace_graph(&graph_user) : register_ftrace_function(&entry_op);
	if (err)
		remove_fprobe(fp);
	return err;
}

static int make_nodes(struct fprobe *fp, const struct ftrace_set *set)
{
	u32 i = 0;

	fp->count = set->count;
	fp->nodes = kzalloc(set->count * sizeof(*fp->nodes));
	if (!fp->nodes)
		return -ENOMEM;
	for_each_ftrace_rec(rec)
		if (ftrace_set_has(set, rec))
			fp->nodes[i++] = (struct fprobe_node){ftrace_ip(rec), fp};
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

/* Register @fp for the functions of @set, unless there is an error already. Frees the set. */
static int register_set(struct fprobe *fp, struct ftrace_set *set, int err)
{
	mutex_lock(&fprobe_lock);
	err = err ?: check(fp);
	err = err ?: set->count ? 0 : -ENOENT;
	err = err ?: make_nodes(fp, set);
	err = err ?: add_fprobe(fp);
	mutex_unlock(&fprobe_lock);
	ftrace_set_free(set);
	return err;
}

int register_fprobe(struct fprobe *fp, const char *filter, const char *notfilter)
{
	struct ftrace_set *set;

	if (!fp || !filter)
		return -EINVAL;
	set = ftrace_set_new();
	if (!set)
		return -ENOMEM;
	for_each_ftrace_rec(rec) {
		const char *name = ftrace_name(rec);

		if (rec->flags & FTRACE_FL_DISABLED || !glob_match(filter, strlen(filter), name))
			continue;
		ftrace_set_put(set, rec, !notfilter || !glob_match(notfilter, strlen(notfilter), name));
	}
	return register_set(fp, set, 0);
}

static int register_listed(struct fprobe *fp, const unsigned long *addrs, const char **syms, int num)
{
	struct ftrace_set *set;
	struct dyn_ftrace *rec;
	int err = 0;

	if (!fp || (!addrs && !syms) || num <= 0)
		return -EINVAL;
	set = ftrace_set_new();
	if (!set)
		return -ENOMEM;
	for (int i = 0; i < num && !err; i++) {
		err = probe_find_function(syms ? syms[i] : NULL, addrs ? addrs[i] : 0, &rec);
		if (!err)
			ftrace_set_put(set, rec, true);
	}
	return register_set(fp, set, err);
}

int register_fprobe_ips(struct fprobe *fp, const unsigned long *addrs, int num)
{
	return register_listed(fp, addrs, NULL, num);
}

int register_fprobe_syms(struct fprobe *fp, const char **syms, int num)
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

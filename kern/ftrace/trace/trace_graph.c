/*
 * The function_graph tracer: it writes an event when a function is entered, and
 * an event with both times when the function returns.
 *
 * Each trace array is a user of its own (tr->graph). The settings of the options,
 * max_graph_depth, set_graph_function and set_graph_notrace are in one word,
 * `checks`; while it is not 0, RB_ASK sends every call to the long path.
 */
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "filter.h"
#include "hash.h"
#include "memory.h"
#include "trace_graph_event.h"
#include "tracefs.h"

/* tr->graph, while function_graph is the tracer of @tr. */
struct trace_graph {
	struct fgraph_ops user; /* its private is the trace array */
	u32 checks;		/* GRAPH_* */
};
enum {
	GRAPH_LISTS = 1,     /* set_graph_function or set_graph_notrace has functions */
	GRAPH_DEPTH = 2,     /* max_graph_depth */
	GRAPH_NO_IRQS = 4,   /* no funcgraph-irqs */
	GRAPH_RETADDR = 8,   /* funcgraph-retaddr */
	GRAPH_NO_SLEEP = 16, /* no sleep-time */
	GRAPH_ARGS = 64,     /* funcgraph-args */
	GRAPH_PIDS = 128,    /* set_ftrace_pid or set_ftrace_notrace_pid */
	GRAPH_THRESH = 256,  /* tracing_thresh: no entry events, and returns of long calls only */
	GRAPH_MARKED = 32,   /* an entry may have left a mark or ticks for its return */
};

/* ---- Events, the long path: another clock, a new page, a time extend. ---- */

/*
 * @args: the argument registers with funcgraph-args, else NULL. As in Linux 6.15, ignored with
 * @retaddr.
 */
static bool __noinline entry_slow(struct trace_array *tr, const struct ftrace_graph_ent *trace,
				  unsigned long retaddr, const unsigned long *args)
{
	u16 type = retaddr ? TRACE_GRAPH_RETADDR_ENT : TRACE_GRAPH_ENT;
	unsigned count = args && !retaddr ? trace_args_count(trace->func) : 0;
	struct ftrace_graph_ent_entry *e;
	struct trace_write w;

	e = trace_reserve(
		tr, type,
		retaddr ? sizeof(struct fgraph_retaddr_ent_entry) : sizeof(*e) + count * 8, &w);
	if (e) {
		graph_fill_entry(e, trace->func, trace->depth);
		if (retaddr)
			put_address(((struct fgraph_retaddr_ent_entry *)e)->retaddr, retaddr);
		for (unsigned i = 0; i < count; i++)
			put_address(e->args[i], args[i]);
	}
	trace_end(&w, e);
	return e;
}

static void __noinline return_slow(struct trace_array *tr, const struct ftrace_graph_ret *ret)
{
	struct trace_write w;
	struct ftrace_graph_ret_entry *e = trace_reserve(tr, TRACE_GRAPH_RET, sizeof(*e), &w);

	if (e)
		graph_fill_return(e, ret->func, ret->retval, ret->depth, ret->overrun,
				  ret->calltime, ret->rettime);
	trace_end(&w, e);
}

/* ---- Which calls: set_graph_function, set_graph_notrace ---- */

/*
 * For each of the two lists a thread's variable has the depth at which the list
 * matched: the depth + 1 of the matching call; 0: no match.
 *
 *	| in an interrupt 1 | notrace 16 | function 16 |
 *
 * All deeper calls belong to the matching call, those in interrupts too, until
 * it returns. An interrupt restores the variable before it returns.
 */
#define MARK(var, shift) ((int)((var) >> (shift) & 0xffff))
#define MARK_FUNCTION 0
#define MARK_NOTRACE 16
#define MARK_IN_IRQ (1ul << 32)

static bool in_interrupt(void)
{
	return current->ctx & CTX_HARDIRQ;
}

static bool is_listed(const struct ftrace_hash *list, unsigned long func)
{
	return list && ftrace_hash_has(list, func - KERNEL_BASE);
}

enum selection {
	CALL_OUTSIDE,
	CALL_TRACED,
	CALL_HIDDEN, /* no event, but the return handler must run */
	/* the matching call of set_graph_function: traced, and the return handler must run */
	CALL_FIRST,
};

static enum selection select_call(const struct trace_array *tr,
				  const struct ftrace_graph_ent *trace, unsigned long *var)
{
	const struct ftrace_hash *wanted = READ_ONCE(tr->graph_lists.filter_hash);
	unsigned long mark = trace->depth + 1;

	if (MARK(*var, MARK_NOTRACE))
		return CALL_OUTSIDE;
	if (is_listed(READ_ONCE(tr->graph_lists.notrace_hash), trace->func)) {
		*var |= mark << MARK_NOTRACE;
		return CALL_HIDDEN;
	}
	if (!wanted || MARK(*var, MARK_FUNCTION))
		return CALL_TRACED;
	if (!is_listed(wanted, trace->func))
		return CALL_OUTSIDE;
	*var |= mark << MARK_FUNCTION | (in_interrupt() ? MARK_IN_IRQ : 0);
	return CALL_FIRST;
}

/* End the matches that began with the call at @depth. Return: is the return event written? */
static bool unselect_call(unsigned long *var, int depth)
{
	bool hidden = MARK(*var, MARK_NOTRACE) == depth + 1;

	if (hidden)
		*var &= ~(0xfffful << MARK_NOTRACE);
	if (MARK(*var, MARK_FUNCTION) == depth + 1)
		*var &= ~(0xfffful << MARK_FUNCTION | MARK_IN_IRQ);
	return !hidden;
}

/* ---- sleep-time ---- */

static void note_ticks(int idx)
{
	u64 *entered = fgraph_reserve_data(idx, sizeof(*entered));

	if (entered)
		*entered = ticks_on_cpu();
}

/* The call time, moved forward by the time during which the thread was off its CPU. */
static u64 calltime_awake(int idx, const struct ftrace_graph_ret *ret)
{
	const u64 *entered = fgraph_retrieve_data(idx, NULL);
	u64 awake;

	if (!entered)
		return ret->calltime;
	awake = ticks_to_ns(ticks_on_cpu() - *entered);
	return MAX(ret->calltime, ret->rettime - awake);
}

/* ---- The handlers ---- */

static unsigned long return_address(const struct ftrace_regs *regs)
{
	return ftrace_graph_ret_addr(current, regs->link, regs->fp);
}

static int __noinline checked_entry(struct trace_graph *g, const struct ftrace_graph_ent *trace,
				    const struct ftrace_regs *regs)
{
	struct trace_array *tr = g->user.private;
	u32 checks = READ_ONCE(g->checks), limit = READ_ONCE(tr->max_graph_depth);
	unsigned long *var = fgraph_get_task_var(&g->user);
	enum selection selection = CALL_TRACED;

	/*
	 * `checks` is read before the return handler reads RB_ASK: update_checks() sets them in the
	 * other order
	 */
	smp_rmb();
	if (limit && (u32)trace->depth >= limit)
		return 0;
	if (checks & GRAPH_PIDS && trace_pids_ignore(tr->function_pids, current->pid))
		return 0;
	if (checks & GRAPH_LISTS)
		selection = select_call(tr, trace, var);
	if (selection == CALL_OUTSIDE || selection == CALL_HIDDEN)
		return selection == CALL_HIDDEN;
	/*
	 * A function that set_graph_function names is traced in interrupts even without
	 * funcgraph-irqs.
	 */
	if (checks & GRAPH_NO_IRQS && in_interrupt() && !(*var & MARK_IN_IRQ))
		return 0;
	if (checks & GRAPH_NO_SLEEP)
		note_ticks(g->user.idx);
	if (checks & GRAPH_THRESH)
		return 1;
	return entry_slow(tr, trace, checks & GRAPH_RETADDR ? return_address(regs) : 0,
			  checks & GRAPH_ARGS ? regs->arg : NULL) ||
	       selection == CALL_FIRST;
}

static int trace_graph_entry(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
			     struct ftrace_regs *regs)
{
	struct ring_buffer_cpu *rb = trace_buffer(gops->private, this_cpu());
	struct graph_event ev;
	unsigned long flags;

	if (unlikely(rb->slow)) {
		if (rb->slow & RB_NO_EVENTS)
			return 0;
		return checked_entry(container_of(gops, struct trace_graph, user), trace, regs);
	}
	flags = irq_save();
	if (unlikely(!graph_event_open(&ev, rb, flags, trace->calltime, TRACE_GRAPH_ENT,
				       GRAPH_ENT_WORDS))) {
		irq_restore(flags);
		return entry_slow(gops->private, trace, 0, NULL);
	}
	graph_fill_entry(ev.entry, trace->func, trace->depth);
	event_commit(ev.page, ev.end);
	irq_restore(flags);
	return 1;
}

static void __noinline checked_return(struct trace_graph *g, const struct ftrace_graph_ret *trace)
{
	const struct trace_array *tr = g->user.private;
	struct ftrace_graph_ret mine = *trace;

	if (READ_ONCE(g->checks) & GRAPH_MARKED) {
		if (!unselect_call(fgraph_get_task_var(&g->user), trace->depth))
			return;
		mine.calltime = calltime_awake(g->user.idx, trace);
	}
	if (mine.rettime - mine.calltime < READ_ONCE(tr->thresh_us) * 1000ul)
		return;
	return_slow(g->user.private, &mine);
}

static void trace_graph_return(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
			       struct ftrace_regs *regs)
{
	struct ring_buffer_cpu *rb = trace_buffer(gops->private, this_cpu());
	struct graph_event ev;
	unsigned long flags;

	if (unlikely(rb->slow))
		return checked_return(container_of(gops, struct trace_graph, user), trace);
	flags = irq_save();
	if (unlikely(!graph_event_open(&ev, rb, flags, trace->rettime, TRACE_GRAPH_RET,
				       GRAPH_RET_WORDS))) {
		irq_restore(flags);
		return return_slow(gops->private, trace);
	}
	graph_fill_return(ev.entry, trace->func, trace->retval, trace->depth, trace->overrun,
			  trace->calltime, trace->rettime);
	event_commit(ev.page, ev.end);
	irq_restore(flags);
}

/* No event: as when a thread exits inside a function, the function stays open in the text. */
static void trace_graph_gone(struct ftrace_graph_ent *trace, struct fgraph_ops *gops)
{
	struct trace_graph *g = container_of(gops, struct trace_graph, user);

	if (READ_ONCE(g->checks) & GRAPH_MARKED)
		unselect_call(fgraph_get_task_var(&g->user), trace->depth);
}

/* ---- Which checks a call needs ---- */

/*
 * RB_ASK is set on every CPU before `checks`, and cleared after it. So when an
 * entry has left something for its return, the return takes the long path on
 * whichever CPU it runs. GRAPH_MARKED stays set until the tracer starts anew,
 * because such calls may still be in progress. Context: ftrace_lock held.
 */
static void update_checks(struct trace_array *tr)
{
	const struct ftrace_filter *lists = &tr->graph_lists;
	struct trace_graph *g = tr->graph;
	u32 checks = g->checks & GRAPH_MARKED;

	if (lists->filter_hash || lists->notrace_hash)
		checks |= GRAPH_LISTS | GRAPH_MARKED;
	if (tr->max_graph_depth)
		checks |= GRAPH_DEPTH;
	if (!(tr->options & TRACE_ITER_GRAPH_IRQS))
		checks |= GRAPH_NO_IRQS;
	if (tr->options & TRACE_ITER_GRAPH_RETADDR)
		checks |= GRAPH_RETADDR;
	if (tr->options & TRACE_ITER_GRAPH_ARGS)
		checks |= GRAPH_ARGS;
	if (trace_pids_used(tr->function_pids))
		checks |= GRAPH_PIDS;
	if (tr->thresh_us)
		checks |= GRAPH_THRESH;
	if (!(tr->options & TRACE_ITER_SLEEP_TIME))
		checks |= GRAPH_NO_SLEEP | GRAPH_MARKED;
	if (checks)
		tracing_slow(tr, RB_ASK, true);
	smp_wmb();
	WRITE_ONCE(g->checks, checks);
	if (!checks)
		tracing_slow(tr, RB_ASK, false);
}

static int lists_changed(struct ftrace_filter *lists)
{
	update_checks(container_of(lists, struct trace_array, graph_lists));
	return 0;
}

static void graph_options_changed(struct trace_array *tr)
{
	mutex_lock(&ftrace_lock);
	update_checks(tr);
	mutex_unlock(&ftrace_lock);
}

/* ---- Start and stop ---- */

static void set_graph(struct trace_array *tr, struct trace_graph *g)
{
	mutex_lock(&ftrace_lock);
	tr->graph = g;
	tr->graph_lists.changed = g ? lists_changed : NULL;
	if (g)
		update_checks(tr);
	else
		tracing_slow(tr, RB_ASK, false);
	mutex_unlock(&ftrace_lock);
}

static void graph_reset(struct trace_array *tr)
{
	struct trace_graph *g = tr->graph;

	if (g->user.idx >= 0)
		unregister_ftrace_graph(&g->user);
	set_graph(tr, NULL);
	kfree(g);
}

static int graph_init(struct trace_array *tr)
{
	struct trace_graph *g = kzalloc(sizeof(*g));
	int err;

	if (!g)
		return -ENOMEM;
	g->user = (struct fgraph_ops){.entryfunc = trace_graph_entry,
				      .retfunc = trace_graph_return,
				      .filter = &tr->ops->filter,
				      .private = tr,
				      .gonefunc = trace_graph_gone,
#if STAGE > 5
				      .direct = trace_graph_direct,
#endif
				      .idx = -1};
	set_graph(tr, g);
	err = register_ftrace_graph(&g->user);
	if (err)
		graph_reset(tr);
	return err;
}

static const struct tracer graph_tracer = {
	.name = "function_graph",
	.init = graph_init,
	.reset = graph_reset,
	.print_other = trace_graph_print_other,
	.print_header = trace_graph_print_header,
	.options = TRACE_ITER_GRAPH,
	.options_changed = graph_options_changed,
};
TRACER(graph_tracer);

/* ---- Files ---- */

static struct ftrace_filter *lists_of(const struct file *f)
{
	return &trace_array_of(f)->graph_lists;
}
TRACEFS_FILTER(set_graph_function, "set_graph_function", TRACEFS_INSTANCE, lists_of, false,
	       .strict = true);
TRACEFS_FILTER(set_graph_notrace, "set_graph_notrace", TRACEFS_INSTANCE, lists_of, true,
	       .strict = true);

static u32 *number_of(const struct file *f)
{
	return (u32 *)((char *)trace_array_of(f) + tracefs_value(f)->arg);
}

static u64 number_get(const struct file *f)
{
	return *number_of(f);
}

static int number_set(struct file *f, u64 value)
{
	struct trace_array *tr = trace_array_of(f);

	if (value > UINT32_MAX)
		return tracefs_refuse(f, -ERANGE, "too large a number");
	WRITE_ONCE(*number_of(f), value);
	if (tr->tracer == &graph_tracer)
		graph_options_changed(tr);
	return 0;
}
TRACEFS_U64(max_graph_depth, "max_graph_depth", TRACEFS_INSTANCE, number_get, number_set,
	    offsetof(struct trace_array, max_graph_depth));
TRACEFS_U64(tracing_thresh, "tracing_thresh", TRACEFS_TOP, number_get, number_set,
	    offsetof(struct trace_array, thresh_us));

TRACE_GRAPH_OPTIONS(TRACEFS_OPTION)

/*
 * Lab 5: function_graph for one user, as Linux did it first.
 *
 * At its entry a function's return address is in a register.
 * prepare_ftrace_return() moves it to the thread's shadow stack and puts
 * return_to_handler in its place; ftrace_return_to_handler() restores it.
 */
#include "fgraph.h"

#include "asm-ftrace/hook.h"
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "shadow.h"
#include "ftrace_internal.h"

static struct fgraph_ops *graph_user; /* or NULL. Changed under ftrace_lock, read by events */
/* number of registrations so far; a frame has the birth of its user */
static u64 births;

/*
 * ---- The call in ftrace_graph_stub: patched like a call site, but without a record in the table.
 * ----
 */

static int switch_graph_call(bool on, u32 expected)
{
#if LAB_START == 5
	return -ENOSYS;
#else
	struct dyn_ftrace site = {.offset = (unsigned long)ftrace_graph_call - KERNEL_BASE};
	unsigned long caller = (unsigned long)ftrace_graph_caller;
	int err;

	ftrace_batch_begin();
	err = on ? ftrace_make_call(&site, caller) : ftrace_make_nop(&site, caller);
	ftrace_batch_end();
	if (!err)
		return 0;
	ftrace_bug(err, &site, expected);
	return -ENODEV;
#endif
}

/* ---- A function is entered, and returns. ---- */

/*
 * Push the frame before *@parent changes: a stack walk finds the return address in one of the two.
 */
static void trace_entry(struct fgraph_ops *user, unsigned long *parent, unsigned long ip,
			struct ftrace_regs *regs)
{
#if LAB_START != 5
	struct shadow_stack *s = shadow_of(current);
	struct ftrace_graph_ent trace = {.func = ip, .calltime = clock_ns()};
	struct shadow_frame *f = shadow_push(s, ip, regs, trace.calltime, user->birth);

	trace.depth = s->depth - 1; /* only now: the push may have dropped frames */
	if (!f)
		return;
	if (user->entryfunc(&trace, user, regs))
		*parent = (unsigned long)return_to_handler;
	else
		shadow_pop(s, f);
#endif
}

void prepare_ftrace_return(unsigned long *parent, unsigned long ip, struct ftrace_regs *regs)
{
#if LAB_START != 5
	struct fgraph_ops *user = READ_ONCE(graph_user);
	struct cpu *cpu = this_cpu();
	u64 recursion = cpu->recursion;

	/* A thread has no shadow stack if there was no memory when it was created. */
	if (!user || ftrace_graph_dead || recursion & cpu->context_bit || !shadow_of(current))
		return;
	cpu->recursion = recursion | cpu->context_bit;
	trace_entry(user, parent, ip, regs);
	cpu->recursion = recursion;
#endif
}

/* Call the gone handler, unless the frame was pushed for an earlier user. Then pop the frame. */
void ftrace_graph_gone(struct shadow_stack *s)
{
#if LAB_START != 5
	struct fgraph_ops *user = READ_ONCE(graph_user);
	struct shadow_frame *f = s->top;
	struct ftrace_graph_ent trace = {f->func, s->depth - 1, f->calltime};

	shadow_count_overrun(s);
	if (user && user->birth == f->users && user->gonefunc && !ftrace_graph_dead)
		user->gonefunc(&trace, user);
	shadow_pop(s, f);
#endif
}

/*
 * The newest frame must belong to the function that returned: its sp is @sp. If it
 * does not, use the frame whose sp is @sp: the program has jumped out of the calls of the
 * frames above it. If no frame has that sp, the newest is the best guess.
 */
static struct shadow_frame *frame_of(struct shadow_stack *s, unsigned long sp)
{
#if LAB_START == 5
	return NULL;
#else
	struct shadow_frame *f = s->top;

	if (unlikely(!f))
		panic("return_to_handler ran, but the shadow stack has no frame");
	if (likely(f->sp == sp))
		return f;
	while (f && f->sp != sp)
		f = f->below;
	if (!f) {
		f = s->top;
		ftrace_graph_stop(f->func, f->sp, sp);
	}
	while (s->top != f)
		ftrace_graph_gone(s);
	return f;
#endif
}

/* Call the return handler, unless the frame was pushed for an earlier user. */
static void trace_return(struct shadow_stack *s, struct shadow_frame *f, struct ftrace_regs *regs)
{
#if LAB_START != 5
	struct fgraph_ops *user = READ_ONCE(graph_user);
	struct ftrace_graph_ret trace = {f->func,    regs->arg[0], s->depth - 1,
					 s->overrun, f->calltime,  clock_ns()};

	if (user && user->birth == f->users && !ftrace_graph_dead)
		user->retfunc(&trace, user, regs);
#endif
}

void ftrace_return_to_handler(struct ftrace_regs *regs)
{
#if LAB_START == 5
	panic("ftrace_return_to_handler() is not written yet");
#else
	struct shadow_stack *s = shadow_of(current);
	struct cpu *cpu = this_cpu();
	u64 recursion = cpu->recursion;
	struct shadow_frame *f;

	cpu->recursion = recursion | cpu->context_bit;
	f = frame_of(s, regs->sp);
	trace_return(s, f, regs);
	regs->link = f->ret;
	barrier();
	shadow_pop(s, f);
	cpu->recursion = recursion;
#endif
}

/* ---- Given from here on ---- */

int ftrace_enable_ftrace_graph_caller(void)
{
	return switch_graph_call(true, INSN_NOP);
}

int ftrace_disable_ftrace_graph_caller(void)
{
	u32 call = 0;

	insn_call((unsigned long)ftrace_graph_call, (unsigned long)ftrace_graph_caller, HOOK_LINK,
		  &call);
	return switch_graph_call(false, call);
}

/* The entry data of the one user: one datum, directly after its frame. */
void *fgraph_reserve_data(int idx, int size)
{
	struct shadow_stack *s = shadow_of(current);
	unsigned long *end = s->free + (size + 7) / 8;

	if ((char *)end > (char *)s + SHADOW_SIZE) {
		shadow_no_room(s);
		return NULL;
	}
	shadow_store(s->free, end);
	barrier();
	shadow_store(s->top->data_end, end);
	return s->top + 1;
}
void *fgraph_retrieve_data(int idx, int *size)
{
	struct shadow_frame *f = shadow_of(current)->top;

	return f->data_end > (unsigned long *)(f + 1) ? f + 1 : NULL;
}

/* ---- Register and unregister the user: ftrace_lock held. ---- */

/*
 * The user's op: it selects the functions of the user's filter, and calls ftrace_graph_stub for
 * them.
 */
static struct ftrace_ops graph_op = {ftrace_graph_stub, FTRACE_OPS_FL_RECURSION, .slot = -1};

static int filter_changed(struct ftrace_filter *filter)
{
	return ftrace_share_filter(&graph_op, filter);
}

/* First the call at ftrace_graph_call, then the functions' sites. */
static int start_calls(struct ftrace_filter *filter)
{
	int err = ftrace_enable_ftrace_graph_caller();

	if (err)
		return err;
	ftrace_share_filter(&graph_op, filter);
	err = ftrace_startup(&graph_op);
	if (err)
		ftrace_disable_ftrace_graph_caller();
	else
		filter->changed = filter_changed;
	return err;
}

static int add_user(struct fgraph_ops *gops)
{
	int err;

	if (ftrace_disabled || ftrace_graph_dead)
		return -ENODEV;
	if (graph_user)
		return -EBUSY;
	err = shadow_users_begin();
	if (err)
		return err;
	gops->birth = ++births;
	gops->idx = 0;
	smp_wmb();
	WRITE_ONCE(graph_user, gops);
	err = start_calls(gops->filter);
	if (err) {
		WRITE_ONCE(graph_user, NULL);
		shadow_users_end();
		gops->idx = -1;
	}
	return err;
}

/* ftrace_shutdown() waits until no CPU is inside a callback, so no CPU is inside a handler. */
static void remove_user(struct fgraph_ops *gops)
{
	WRITE_ONCE(graph_user, NULL);
	ftrace_shutdown(&graph_op);
	ftrace_disable_ftrace_graph_caller();
	shadow_users_end();
	gops->idx = -1;
	gops->filter->changed = NULL;
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
	int err = -ENOENT;

	mutex_lock(&ftrace_lock);
	if (graph_user == gops) {
		remove_user(gops);
		err = 0;
	}
	mutex_unlock(&ftrace_lock);
	return err;
}

/*
 * Lab 5: function_graph for one user, as the seed has it.
 *
 * What a function returns to is one word that the call left in a register.
 * prepare_ftrace_return() takes it to the thread's shadow stack and puts
 * return_to_handler in its place; ftrace_return_to_handler() brings it back.
 */
#include "fgraph.h"

#include "asm-ftrace/hook.h"
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "shadow.h"
#include "tracer.h"

static struct fgraph_ops *graph_user; /* or NULL. Changed under ftrace_lock, read by events */
static u64 births;		      /* users so far: a frame knows by it whose it is */

/* ---- The call in ftrace_graph_stub: patched like the site of a function, but in no table. ---- */

static int switch_graph_call(bool on, u32 expected)
{
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
}

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

/* ---- The shadow stack; shadow.h says why an interrupt never sees a half. ---- */

static struct shadow_frame *push_frame(struct shadow_stack *s, const struct shadow_frame *filled)
{
	struct shadow_frame *f = (struct shadow_frame *)s->free;

	if (unlikely((unsigned long)f - (unsigned long)s > SHADOW_LAST_FRAME)) {
		shadow_store(s->overrun, s->overrun + 1);
		return NULL;
	}
	shadow_store(s->free, (unsigned long *)(f + 1));
	barrier();
	shadow_store(*f, *filled);
	shadow_store(f->below, s->top);
	barrier();
	shadow_store(s->top, f);
	shadow_store(s->depth, s->depth + 1);
	return f;
}

static void pop_frame(struct shadow_stack *s)
{
	struct shadow_frame *f = s->top;

	shadow_store(s->depth, s->depth - 1);
	shadow_store(s->top, f->below);
	barrier();
	shadow_store(s->free, (unsigned long *)f);
}

/* ---- A function is entered, and returns. ---- */

static void trace_entry(struct fgraph_ops *user, unsigned long *parent, unsigned long ip,
			unsigned long frame_pointer, struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);
	struct ftrace_graph_ent trace = {ip, s->depth, clock_ns()};
	struct shadow_frame frame = {
		.ret = *parent,
		.func = ip,
		.sp = frame_pointer,
		.fp = regs->fp,
		.calltime = trace.calltime,
		.users = user->birth,
	};

	if (!push_frame(s, &frame))
		return;
	if (user->entryfunc(&trace, user, regs))
		*parent = (unsigned long)return_to_handler;
	else
		pop_frame(s);
}

void prepare_ftrace_return(unsigned long *parent, unsigned long ip, unsigned long frame_pointer,
			   struct ftrace_regs *regs)
{
	struct fgraph_ops *user = READ_ONCE(graph_user);
	struct cpu *cpu = this_cpu();
	u64 recursion = cpu->recursion;

	if (!user || ftrace_graph_dead || recursion & cpu->context_bit)
		return;
	cpu->recursion = recursion | cpu->context_bit;
	trace_entry(user, parent, ip, frame_pointer, regs);
	cpu->recursion = recursion;
}

/*
 * The newest frame must be that of the function that came back: sp is where it
 * was at the call. If it is not, the frame whose sp fits is the right one, and
 * those above it will never return; if none fits, the newest is the best guess.
 */
static void check_frame(struct shadow_stack *s, unsigned long sp)
{
	struct shadow_frame *f = s->top;

	if (unlikely(!f))
		panic("return_to_handler, but no function has its return address here");
	if (likely(f->sp == sp))
		return;
	ftrace_graph_stop(f->func, f->sp, sp);
	while (f && f->sp != sp)
		f = f->below;
	while (f && s->top != f)
		pop_frame(s);
}

static void trace_return(struct shadow_stack *s, struct ftrace_regs *regs)
{
	struct fgraph_ops *user = READ_ONCE(graph_user);
	struct shadow_frame *f = s->top;
	struct ftrace_graph_ret trace = {
		.func = f->func,
		.retval = regs->arg[0],
		.depth = s->depth - 1,
		.overrun = s->overrun,
		.calltime = f->calltime,
		.rettime = clock_ns(),
	};

	if (user && user->birth == f->users && !ftrace_graph_dead)
		user->retfunc(&trace, user, regs);
}

void ftrace_return_to_handler(struct ftrace_regs *regs)
{
	struct shadow_stack *s = shadow_of(current);
	struct cpu *cpu = this_cpu();
	u64 recursion = cpu->recursion;

	cpu->recursion = recursion | cpu->context_bit;
	check_frame(s, regs->sp);
	trace_return(s, regs);
	regs->link = s->top->ret;
	barrier(); /* a stack walk finds the address here or there */
	pop_frame(s);
	cpu->recursion = recursion;
}

/* Of a chain of tail calls, all with one fp, only the outermost knows its caller. */
unsigned long ftrace_graph_ret_addr(struct thread *t, unsigned long ret, unsigned long fp)
{
	struct shadow_stack *s = shadow_of(t);

	if (ret != (unsigned long)return_to_handler || !s)
		return ret;
	for (const struct shadow_frame *f = READ_ONCE(s->top); f; f = f->below)
		if (f->fp == fp && f->ret != ret)
			return f->ret;
	return ret;
}

unsigned long *fgraph_get_task_var(struct fgraph_ops *gops)
{
	struct shadow_stack *s = shadow_of(current);

	if (s->var_owner[0] != gops->birth) {
		shadow_store(s->var[0], 0);
		barrier();
		shadow_store(s->var_owner[0], gops->birth);
	}
	return &s->var[0];
}

/* ---- The user comes and goes: ftrace_lock held. ---- */

/* First where the call leads, then the functions' sites. */
static int start_calls(struct ftrace_ops *op)
{
	int err = ftrace_enable_ftrace_graph_caller();

	if (err)
		return err;
	op->func = ftrace_graph_stub;
	op->flags |= FTRACE_OPS_FL_RECURSION;
	err = ftrace_startup(op);
	if (err)
		ftrace_disable_ftrace_graph_caller();
	return err;
}

static int add_user(struct fgraph_ops *gops)
{
	int err;

	if (ftrace_disabled || ftrace_graph_dead)
		return -ENODEV;
	if (graph_user || gops->filter->slot >= 0)
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
	}
	return err;
}

/* ftrace_shutdown() waits until no CPU is inside the tracer, so inside no handler. */
static void remove_user(struct fgraph_ops *gops)
{
	WRITE_ONCE(graph_user, NULL);
	ftrace_shutdown(gops->filter);
	ftrace_disable_ftrace_graph_caller();
	shadow_users_end();
	gops->idx = -1;
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

/*
 * function_graph: up to sixteen users see that a function is entered and that it
 * returns. To see the return, the tracer replaces the return address.
 *
 *	call site -> ftrace_caller -> graph entry: push a shadow frame, call each
 *	             user's entry handler, regs->link = return_to_handler
 *	the function runs, and returns to
 *	return_to_handler -> ftrace_return_to_handler(): call the return handler
 *	             of each user whose entry handler returned non-zero, in reverse
 *	             order; pop the frame; continue at its return address
 *
 * A call may never return, because the program jumps out of it (longjmp()). Its frame
 * stays on the shadow stack until a function around it returns: then ftrace_graph_gone()
 * tells the frame's users, and pops it.
 *
 * Locking, and the order of stores:
 * - a thread's shadow stack (shadow.h): only the thread itself and the interrupts
 *   that it takes. While a thread is off its CPU and its run-queue lock is held,
 *   the holder of the lock may read its shadow stack.
 * - fgraph_array[]: written under ftrace_lock, read by events. A slot holds its
 *   user, or fgraph_stub, whose birth is larger than every stamp. Store in this
 *   order, with smp_wmb() between: (1) the user's birth, (2) the slot and the
 *   number of slots, (3) the stamp. An event reads the stamp, smp_rmb(), then
 *   the slots.
 * - the handlers: after unregister_ftrace_graph() has returned, no CPU is inside
 *   a handler of that user, and no frame that is left will call one. Nor will
 *   such a frame call a later user of the same slot, because the birth of that
 *   user is larger than the frame's stamp.
 *
 * The handlers and the code that calls them are not preempted. They may be
 * interrupted between any two instructions; the interrupt may itself be traced.
 */

/*
 * The folder graph/. fgraph.c has the users (lab 5: graph/fgraph_one.c), shadow.c gives every
 * thread its shadow stack, shadow_frame.c pushes and pops a frame, shadow_room.c
 * makes room when it is full, shadow_var.c has the word for each thread and user.
 *
 * Its callers:
 * - register and unregister: trace/ (trace_graph.c, profile.c), probes/sites.c, modules,
 *   and programs in kern/apps/. modules/ also calls ftrace_graph_new_table() and
 *   fgraph_user_within().
 * - entry data and fgraph_get_task_var(): the handlers of these users; probes/fprobe.c
 *   also reads data when a thread exits.
 * - ftrace_return_to_handler(): <arch>/graph.S. prepare_ftrace_return():
 *   <arch>/graph_caller.S.
 * - ftrace_graph_ret_addr(): each stack walk, through a table (unwind.h); trace_graph.c
 *   and probes/fprobe.c.
 * - shadow.h: the direct paths in trace/trace_graph_direct.c and probes/fprobe.c, to push
 *   and pop frames; modules/ftrace_module.c and kern/apps/, to read them. The kernel calls
 *   shadow.c when a thread is born, is switched or is freed (THREAD_HOOK).
 *
 * All users are one op together: with ftrace_lock held, this room calls core/ and ops/
 * (core/ftrace_internal.h).
 */
#ifndef FTRACE_FGRAPH_H
#define FTRACE_FGRAPH_H

#include "ftrace.h"

#define FGRAPH_USERS 16

struct thread;
struct shadow_stack;
struct shadow_frame;
struct fgraph_ops;

/* The arguments of the handlers. Times: clock_ns(). */
struct ftrace_graph_ent {
	unsigned long func;	/* the call site */
	int depth;		/* 0: the outermost traced function of the thread */
	u64 calltime;
};
struct ftrace_graph_ret {
	unsigned long func;
	unsigned long retval;
	int depth;
	/* calls of this thread that were not traced to their end: no room, or jumped out of */
	u32 overrun;
	u64 calltime, rettime;
};

/*
 * entryfunc, the entry handler. Return: non-zero if retfunc is to be called at
 * the return of this call, else 0.
 * retfunc, the return handler: called exactly once for such a call, in the
 * reverse order of the entry handlers; never after unregister_ftrace_graph().
 * gonefunc: called instead of retfunc, in the same order, if the program has jumped
 * out of the call. It is called late: when a function around the call returns, or when
 * the shadow stack is full. The entry data can be read there as in retfunc. If the
 * thread exits before that, neither of the two is called.
 * @regs: in entryfunc the registers at the call site; it may change them, except
 * link, which holds the return address. In retfunc arg[0] is the returned value.
 * Context: as a callback's: any, no sleep. Functions that a handler calls are not
 * traced.
 */
typedef int (*trace_func_graph_ent_t)(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
				      struct ftrace_regs *regs);
typedef void (*trace_func_graph_ret_t)(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				       struct ftrace_regs *regs);
typedef void (*trace_func_graph_gone_t)(struct ftrace_graph_ent *trace, struct fgraph_ops *gops);

/*
 * From stage 6 on, the direct path of a user, used while it is the only one. entry is
 * called with an op whose private is the user's. It pushes a frame with
 * fgraph_single.users, or ends in a tail call to ftrace_graph_func(). ret is called with
 * the user's private, but only for such frames, and after sp was checked. It does what
 * ftrace_graph_return() does, or ends in a tail call to it.
 */
struct fgraph_direct {
	ftrace_func_t entry;
	void (*ret)(struct ftrace_regs *regs, struct shadow_stack *s, struct shadow_frame *f,
		    void *private);
};

struct fgraph_ops {
	trace_func_graph_ent_t entryfunc;
	trace_func_graph_ret_t retfunc;
	struct ftrace_filter *filter; /* the functions; several users may have the same filter */
	void *private;
	trace_func_graph_gone_t gonefunc; /* may be NULL */

	struct fgraph_direct direct; /* optional */

	/* Written by fgraph.c only. */
	int idx;   /* slot, or -1 */
	u64 birth; /* the number of its registration; from stage 6 on shifted like a stamp: << 16 */
};

void ftrace_graph_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		       struct ftrace_regs *regs);
void ftrace_graph_return(struct ftrace_regs *regs);

/*
 * The direct path's user. Events on all CPUs read it. register and unregister store to it,
 * ftrace_lock held, in this order: (1) 0 to @users; (2) a grace period; (3) @private and @ret; (4)
 * a grace period, because a CPU may load them before @users; (5) @users. A bad frame stores 0 to
 * @users, on any CPU, at any time, for good.
 */
extern struct fgraph_single {
	void *private;
	void (*ret)(struct ftrace_regs *regs, struct shadow_stack *s, struct shadow_frame *f,
		    void *private);
	u64 users; /* stamp and bit of the only user while the direct path is used; else 0 */
} fgraph_single;

/*
 * Start and stop a user. When register returns 0, every CPU calls the user's
 * handlers; when unregister returns, no CPU does.
 * Errors: -ENOSPC (all slots taken), -EBUSY (registered already), -ENOMEM (no
 * shadow stacks), -ENODEV (tracing was disabled by a bad site or a bad frame),
 * unregister: -ENOENT (not registered). Context: thread.
 */
int register_ftrace_graph(struct fgraph_ops *gops);
int unregister_ftrace_graph(struct fgraph_ops *gops);
/* Is a registered struct fgraph_ops, or its handlers, in [start, end)? ftrace_lock held. */
bool fgraph_user_within(unsigned long start, unsigned long end);
/*
 * A table was added: let users that select its functions trace them. ftrace_lock held. Return: 0;
 * -ENOMEM; other errors as ftrace_startup().
 */
int ftrace_graph_new_table(void);

/*
 * Entry data, 8-byte aligned.
 * fgraph_reserve_data: inside entryfunc, at most once a call: reserve @size bytes,
 * 1 to 256. NULL: no room, counted like a full shadow stack; or a wrong size.
 * fgraph_retrieve_data: inside the same user's retfunc: the data that were
 * reserved for this call, their size in *@size. NULL: none were reserved.
 * fgraph_retrieve_parent_data: the data that the same user reserved @depth traced
 * frames further out. NULL, too, if that frame is older than the user: data in it
 * belong to an earlier user of the slot. A user that is being unregistered can
 * still read its own data.
 * Stage 5 has the first two, for its one user; it does not set *@size.
 */
void *fgraph_reserve_data(int idx, int size);
void *fgraph_retrieve_data(int idx, int *size);
void *fgraph_retrieve_parent_data(int idx, int *size, int depth);
/*
 * A word for each thread and user, 0 when the user is registered. Context: a handler of the user.
 * Never NULL.
 */
unsigned long *fgraph_get_task_var(struct fgraph_ops *gops);

/*
 * The real return address for a stack walk of @t that has found @ret in a frame
 * record. @fp: the frame pointer of the caller (the walk's, after the step).
 * @t: the running thread, or a thread that is kept off its CPU.
 * Return: the real return address if @ret is return_to_handler, else @ret. A chain
 * of tail calls counts as its outermost call. Any context.
 */
unsigned long ftrace_graph_ret_addr(struct thread *t, unsigned long ret, unsigned long fp);

/* <arch>/graph.S: traced functions return to it; it is never called. */
void return_to_handler(void);
/*
 * Called by return_to_handler with its frame: arg[] has the result registers, sp,
 * fp and link are as the function left them. Stores the real return address in
 * regs->link before it releases the shadow frame, so that a stack walk at any
 * instruction finds the address in one of the two.
 */
void ftrace_return_to_handler(struct ftrace_regs *regs);

/*
 * The call of the newest frame of @s, the running thread's, never returns. Count it in
 * `overrun`, call the gone handlers of the users whose entry handler returned non-zero,
 * in reverse order, and pop the frame. Context: as a handler's, with the recursion bit set.
 */
void ftrace_graph_gone(struct shadow_stack *s);

/*
 * A bad frame: the function at @func was called with the sp @expected and returned with @found,
 * which is the sp of no frame. Graph tracing stops for good; the message is printed at the next
 * switch of threads, or when the last user is unregistered. Any context.
 */
void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found);
extern bool ftrace_graph_dead;

/*
 * Stage 5, one user, as Linux did it first. <arch>/graph_caller.S: the op's
 * callback is ftrace_graph_stub. In it ftrace_graph_call is a site like that of
 * a function, toggled between the nop and the call of ftrace_graph_caller.
 */
void ftrace_graph_stub(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		       struct ftrace_regs *regs);
extern u32 ftrace_graph_call[];
void ftrace_graph_caller(void);

/* Patch ftrace_graph_call. 0, or -ENODEV after ftrace_bug(). Context: thread, ftrace_lock held. */
int ftrace_enable_ftrace_graph_caller(void);
int ftrace_disable_ftrace_graph_caller(void);

/*
 * Called by ftrace_graph_caller when the function at @ip was called. If the user's
 * entry handler returns non-zero, move the return address from *@parent, which is
 * &regs->link, to the shadow stack, and store return_to_handler in its place.
 * Linux's third argument is the frame pointer, for the frame check; here it is
 * @regs, because the check compares sp.
 */
void prepare_ftrace_return(unsigned long *parent, unsigned long ip, struct ftrace_regs *regs);

#endif

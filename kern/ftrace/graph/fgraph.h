/*
 * function_graph: learning that a function returns, and returning it to the
 * right place. One return address, up to sixteen users.
 *
 *	call site -> ftrace_caller -> graph entry: push a frame, ask each user,
 *	             regs->link = return_to_handler
 *	the function runs, and returns to
 *	return_to_handler -> ftrace_return_to_handler(): each user that said
 *	             yes, last first; pop; go on where the frame says
 *
 * Who may touch what:
 * - a thread's shadow stack (shadow.h): the thread itself and the interrupts
 *   that it takes, nobody else while it runs; of a thread that is off its
 *   CPU, whoever keeps it there may read.
 * - fgraph_array[]: written under ftrace_lock, read by events. A slot holds
 *   its owner or fgraph_stub, which was born after every frame. Stored in this
 *   order, with smp_wmb() between: (1) the owner's birth, (2) the slot and the
 *   number of slots, (3) the stamp. An event reads the stamp, smp_rmb(), then
 *   the slots.
 * - the handlers: after unregister_ftrace_graph() returned, no CPU is inside
 *   one, and no frame that is still out will call it: neither it nor whoever
 *   comes to its slot later (the stamp).
 *
 * Everything here runs with preemption impossible and may be interrupted
 * between any two instructions; the interrupt may itself be traced.
 */
#ifndef FTRACE_FGRAPH_H
#define FTRACE_FGRAPH_H

#include "ftrace.h"

#define FGRAPH_USERS 16

struct thread;
struct shadow_stack;
struct shadow_frame;
struct fgraph_ops;

/* What a handler is told. Times: clock_ns(). */
struct ftrace_graph_ent {
	unsigned long func;	/* the call site */
	int depth;		/* 0: the outermost traced function of the thread */
	u64 calltime;
};
struct ftrace_graph_ret {
	unsigned long func;
	unsigned long retval;
	int depth;
	u32 overrun; /* calls of this thread that found its shadow stack full */
	u64 calltime, rettime;
};

/*
 * entryfunc: return non-zero to hear of the return. retfunc is then called,
 * exactly once, in the reverse order of the entry handlers; not after
 * unregister_ftrace_graph(). @regs: the register view at the entry (may be
 * changed, except link, which still holds the return address); at the return arg[0] is the value returned.
 * Both run like a tracer's callback: any context, no sleep; functions that
 * they call are not traced.
 */
typedef int (*trace_func_graph_ent_t)(struct ftrace_graph_ent *trace, struct fgraph_ops *gops,
				      struct ftrace_regs *regs);
typedef void (*trace_func_graph_ret_t)(struct ftrace_graph_ret *trace, struct fgraph_ops *gops,
				       struct ftrace_regs *regs);

struct fgraph_ops {
	trace_func_graph_ent_t entryfunc;
	trace_func_graph_ret_t retfunc;
	/* Its two hashes say which functions. Nobody registers it (but stage 5 itself). */
	struct ftrace_ops *filter;
	void *private;

	/*
	 * Optional (stage 6): the whole entry and the whole return, for when this
	 * user is the only one. entry is called with an op whose private is the
	 * user's; it pushes its frame with fgraph_direct_users, or leaves the call
	 * to ftrace_graph_func(). ret is called for such frames alone, sp checked,
	 * with the user's private; it does all that ftrace_return_to_handler()
	 * must, or leaves it to ftrace_graph_return().
	 */
	struct fgraph_direct {
		ftrace_func_t entry;
		void (*ret)(struct ftrace_regs *regs, struct shadow_stack *s,
			    struct shadow_frame *f, void *private);
	} direct;

	/* The core's. */
	int idx;   /* slot, or -1 */
	u64 birth; /* the stamp with which it came, already in its place: << 16 */
};

void ftrace_graph_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		       struct ftrace_regs *regs);
void ftrace_graph_return(struct ftrace_regs *regs);
extern u64 fgraph_direct_users; /* stamp and bit of the only user, if it is a direct one; else 0 */

/*
 * Start and stop. Errors: -ENOSPC (all slots taken), -EBUSY (registered
 * already), -ENOMEM (no shadow stacks), -ENODEV (tracing disabled by a bad
 * site or a bad frame). Context: thread. When register returns, every CPU
 * calls the user; when unregister returns, nobody does.
 */
int register_ftrace_graph(struct fgraph_ops *gops);
int unregister_ftrace_graph(struct fgraph_ops *gops);

/*
 * Entry data: inside entryfunc, @size bytes (at most 256, once a call) that
 * the same user's retfunc will find with fgraph_retrieve_data(gops->idx, …).
 * NULL: no room (counted like a full shadow stack), or none was reserved.
 * The parent's: what the same user reserved @depth traced frames further out;
 * of a frame from before the user nothing, though its slot's earlier owner may
 * have left a datum there. Who is just leaving still finds its own.
 * 8-byte aligned. Stage 5 has the first two, for its one user; it counts
 * nothing, and does not say the size.
 */
void *fgraph_reserve_data(int idx, int size);
void *fgraph_retrieve_data(int idx, int *size);
void *fgraph_retrieve_parent_data(int idx, int *size, int depth);
/* One word for each thread and user, 0 when the user came. Inside a handler. NULL never. */
unsigned long *fgraph_get_task_var(struct fgraph_ops *gops);

/*
 * The real return address behind return_to_handler: @ret as a stack walk of
 * @t found it, @fp the frame pointer of the caller (the walk's, after the
 * step). Gives @ret back when it is not return_to_handler. @t: the running
 * thread, or one that is kept off its CPU. A chain of tail calls counts as
 * its outermost call. Any context.
 */
unsigned long ftrace_graph_ret_addr(struct thread *t, unsigned long ret, unsigned long fp);

/* <arch>/graph.S: where a traced function returns to. Not a function to call. */
void return_to_handler(void);
/*
 * From return_to_handler, with its frame: arg[0..] what the function left in
 * the registers that carry a result, sp as it left it, fp, and link. Puts the
 * real return address into regs->link before the shadow frame is released, so
 * that a walk at any instruction finds it in one of the two.
 */
void ftrace_return_to_handler(struct ftrace_regs *regs);

/*
 * A frame did not fit: the function at @func was called with one sp and came
 * back with another. Graph tracing stops for good; the console hears of it at
 * the next switch of threads. Any context.
 */
void ftrace_graph_stop(unsigned long func, unsigned long expected, unsigned long found);
extern bool ftrace_graph_dead;

/*
 * Stage 5, one user, as in the seed. <arch>/graph_caller.S: the op's callback
 * is ftrace_graph_stub; in it stands ftrace_graph_call, a site like that of
 * any function, toggled between the nop and the call of ftrace_graph_caller.
 */
void ftrace_graph_stub(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
		       struct ftrace_regs *regs);
extern u32 ftrace_graph_call[];
void ftrace_graph_caller(void);

/* Patch ftrace_graph_call. 0, or -ENODEV after ftrace_bug(). Context: thread, ftrace_lock held. */
int ftrace_enable_ftrace_graph_caller(void);
int ftrace_disable_ftrace_graph_caller(void);

/*
 * From ftrace_graph_caller: the function at @ip was called. Take its return
 * address from *@parent, which is &regs->link, to the shadow stack and leave
 * return_to_handler there, if there is a user who wants to hear of the return.
 * The seed's third argument, the frame pointer, is in @regs: what must be the
 * same at the return is sp.
 */
void prepare_ftrace_return(unsigned long *parent, unsigned long ip, struct ftrace_regs *regs);

#endif

/*
 * fprobe: two handlers for a set of functions, one for the entry of each call and
 * one for its return, with data that the first leaves for the second.
 *
 *	register_fprobe() -> an entry for each function, in a table by call site (sites.h)
 *	entry:  function_graph -> fprobe_entry(): find the function's fprobes, reserve
 *	        room for all of their data on the shadow stack, call the handlers
 *	return: function_graph -> fprobe_return(): the data say which exit handlers
 *	        are due; call them in the reverse order
 *
 * function_graph has room for 16 users, and each user costs something in every traced
 * call. So all fprobes with an exit handler are one user together: there may be many
 * fprobes, and they cost nothing in calls of other functions. An fprobe without an
 * exit handler needs no return: all of these are one op together, and their calls
 * push no frame.
 *
 * Locking: fprobe_lock guards registration. Handlers run without a lock; an entry that was
 * removed from the table is freed after a grace period. Each registration has a number of its
 * own, which is stored beside the entry data. So a call that began before an fprobe was
 * unregistered never calls its exit handler, even if the same struct has been registered
 * again.
 */
#ifndef FTRACE_FPROBE_H
#define FTRACE_FPROBE_H

#include "sites.h"

struct fprobe;

/*
 * @ip: the call site. @ret_ip: where the function returns to. @data: entry_data_size
 * bytes, 8-byte aligned, the same in both handlers of a call, not cleared. If the
 * size is 0 or there is no exit handler, @data must not be used.
 * @regs: in the entry handler the arguments, in the exit handler the result, arg[0].
 * The handlers may change these, and nothing else.
 * Return of the entry handler: 0; another value: no exit handler for this call.
 * Context: as a callback's: any, no sleep. Functions that a handler calls are not
 * traced, and not probed; such calls are not counted.
 */
typedef int (*fprobe_entry_t)(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
			      struct ftrace_regs *regs, void *data);
typedef void (*fprobe_exit_t)(struct fprobe *fp, unsigned long ip, unsigned long ret_ip,
			      struct ftrace_regs *regs, void *data);

struct fprobe {
	fprobe_entry_t entry_handler; /* may be NULL */
	fprobe_exit_t exit_handler;   /* may be NULL */
	/*
	 * may be NULL: instead of exit_handler, if the call never returns: its thread exits, or
	 * jumps out of it (fgraph.h, gonefunc)
	 */
	void (*lost_handler)(struct fprobe *fp, void *data);
	int entry_data_size;	      /* at most FPROBE_DATA_MAX */
	u32 flags;
	/*
	 * Calls without handlers, because there was no room for the entry data; and, while fprobes
	 * are the only user of function_graph, because there was none for the frame. With other
	 * users, calls without a frame are not counted.
	 */
	unsigned long nmissed;

	/* Written by fprobe.c only. */
	u64 birth;		   /* the number of its registration; 0: not registered */
	struct fprobe_site *sites; /* one for each function */
	u32 count;
	u64 words;		   /* of entry data */
};
#define FPROBE_FL_DISABLED 1 /* its handlers are not called; may be changed at any time */
/* of all fprobes on one function: together, with 8 bytes more for each, 256 */
#define FPROBE_DATA_MAX 248

/*
 * Probe functions: (register_fprobe) those whose name matches the glob @filter, but not
 * the glob @notfilter (NULL: none); (_ips) those at @num addresses, each of a function
 * or of its call site; (_syms) those with @num names. When register returns 0, every
 * call that begins has its handlers called. When unregister returns, no CPU is inside a
 * handler, and none will be called for a call that is still in progress.
 * Errors: -EINVAL (an argument is missing, no handler, several functions have one of
 * the names), -ENOENT (no such function, or it has no call site), -EEXIST (registered
 * already), -E2BIG (entry_data_size),
 * -ENOMEM, and those of register_ftrace_graph() and register_ftrace_function();
 * unregister: -EINVAL (not registered). Context: thread.
 */
int register_fprobe(struct fprobe *fp, const char *filter, const char *notfilter);
int register_fprobe_ips(struct fprobe *fp, const unsigned long *addrs, int num);
int register_fprobe_syms(struct fprobe *fp, const char *const *syms, int num);
int unregister_fprobe(struct fprobe *fp);

/*
 * Calls of this thread that were left by a jump may still have their data. Before the next
 * probed call their lost handlers are called, if that call shows that they were left.
 * Context: an entry handler.
 */
void fprobe_lose_soon(void);

/*
 * Has an fprobe, or a kretprobe, a function in [start, end)? @itself: or are a registered struct
 * fprobe or its handlers there? (A kretprobe's own handlers are not looked at.) Context: thread.
 */
bool fprobe_within(unsigned long start, unsigned long end, bool itself);

#endif

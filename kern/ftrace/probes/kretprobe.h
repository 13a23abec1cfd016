/*
 * kretprobe: a handler for the return of one function, for at most maxactive calls
 * at a time. On the shadow stack there is an instance for each call in progress;
 * a call too many is counted in nmissed and runs as if it were not probed.
 */
#ifndef FTRACE_KRETPROBE_H
#define FTRACE_KRETPROBE_H

#include "fprobe.h"

struct kretprobe;

/* A call in progress. */
struct kretprobe_instance {
	struct kretprobe *rp;
	unsigned long ret_addr; /* where the function returns to */
	char data[];		/* data_size bytes, 8-byte aligned, not cleared */
};

/*
 * As fprobe's handlers. entry_handler returns 0; or another value: then handler is not
 * called for this call, and the call is not in flight. handler's result is not used.
 */
typedef int (*kretprobe_handler_t)(struct kretprobe_instance *ri, struct ftrace_regs *regs);

struct kretprobe {
	struct {
		const char *symbol_name; /* one of the two */
		unsigned long addr;
	} kp;
	kretprobe_handler_t handler;
	kretprobe_handler_t entry_handler; /* may be NULL */
	int data_size;			   /* at most KRETPROBE_DATA_MAX */
	int maxactive;			   /* 0 or less: 2 for each CPU, at least 10 */
	unsigned long nmissed;		   /* calls beyond maxactive */

	/* Written by kretprobe.c and fprobe.c only. */
	int active; /* calls in flight */
	/*
	 * fp.nmissed: calls that found no room on their shadow stack, as far as fprobe.h counts
	 * them
	 */
	struct fprobe fp;
};
#define KRETPROBE_DATA_MAX (FPROBE_DATA_MAX - (int)sizeof(struct kretprobe_instance))

/*
 * A call is in flight from its entry to its return, or to the exit of its thread. If
 * the program jumps out of it (longjmp()), until a traced function around it returns; or
 * until the thread's next call of a probed function after a call too many.
 * A call by a thread that has already exited (its last schedule()) is not in flight.
 * While a call is counted or refused at its entry, it may count as in flight, and
 * another call may be missed for it.
 * When unregister returns, no CPU is inside a handler, and none will be called for
 * a call in flight.
 * Errors: -EINVAL (no handler; not exactly one of symbol_name and addr; several
 * functions have the name), -ENOENT (no such function with a call site), -E2BIG
 * (data_size), -EEXIST (registered already), and those of register_fprobe().
 * unregister does nothing if it is not registered. Context: thread.
 */
int register_kretprobe(struct kretprobe *rp);
void unregister_kretprobe(struct kretprobe *rp);

#endif

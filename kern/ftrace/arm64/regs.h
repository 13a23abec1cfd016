/*
 * arm64: the registers of the traced call, for a callback. It is the frame that
 * ftrace_caller builds, so its last four words are also the two frame
 * records by which a stack walk finds the traced function and its caller.
 *
 *	| x0..x7 | x8 | sp | fp of us | pc | fp | link |
 *	                     ^ record: us    ^ record: the traced function
 *
 * The function continues at pc; set pc to link and the function returns
 * at once, with x0 as its value. sp is read only.
 */
#ifndef FTRACE_REGS_H
#define FTRACE_REGS_H

#include "types.h"

struct ftrace_regs {
	unsigned long arg[8];
	unsigned long x8; /* where a structure is returned to */
	unsigned long sp; /* at the call site: the caller's */
	unsigned long our_fp;
	unsigned long pc;
	unsigned long fp;
	unsigned long link;
};

/* The frame of _mcount and of lab 3's ftrace_caller; its first two words are the frame record. */
struct mcount_frame {
	unsigned long fp;
	unsigned long link;
	unsigned long arg[8];
	unsigned long x8;
	unsigned long unused; /* sp stays a multiple of 16 */
};

/* The frame of lab 5's ftrace_graph_caller. pc: the address in ftrace_graph_stub to return to. */
struct graph_frame {
	unsigned long fp;
	unsigned long link;
	unsigned long pc;
	unsigned long unused; /* sp stays a multiple of 16 */
};

#endif

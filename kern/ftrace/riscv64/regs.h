/*
 * riscv64: the registers of the traced call, for a callback. It is the frame that
 * ftrace_caller builds, so its last four words are also the two frame
 * records by which a stack walk finds the traced function and its caller.
 *
 *	| a0..a7 | t2 (..t6) | sp | pc | fp | link |
 *	                       ^ record: us  ^ record: the traced function
 *
 * The function continues at pc; set pc to link and the function returns
 * at once, with a0 as its value. sp is read only.
 */
#ifndef FTRACE_REGS_H
#define FTRACE_REGS_H

#include "types.h"

struct ftrace_regs {
	unsigned long arg[8];
#ifdef __clang__
	unsigned long t[6]; /* t2-t6: Clang passes further arguments of local functions there */
#else
	/* t2: GCC's nested functions find their static chain there; sp stays a multiple of 16 */
	unsigned long t[2];
#endif
	unsigned long sp; /* at the call site: the caller's */
	unsigned long pc;
	unsigned long fp;
	unsigned long link;
};

/* The frame of _mcount and of lab 3's ftrace_caller; its last two words are the frame record. */
struct mcount_frame {
	unsigned long arg[8];
	unsigned long t2; /* a nested function's static chain */
	unsigned long unused; /* sp stays a multiple of 16 */
	unsigned long fp;
	unsigned long link;
};

/* The frame of lab 5's ftrace_graph_caller. pc: the address in ftrace_graph_stub to return to. */
struct graph_frame {
	unsigned long unused; /* sp stays a multiple of 16 */
	unsigned long pc;
	unsigned long fp;
	unsigned long link;
};

#endif

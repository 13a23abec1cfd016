/*
 * riscv64: the registers of a probed function by name and by number, and loads that may fault, for
 * events/.
 */
#ifndef FTRACE_FETCH_H
#define FTRACE_FETCH_H

#include "arch.h"
#include "regs.h"

#define FETCH_SP 2
#define FETCH_PC 32
/* Register n has the n-th name. */
#define FETCH_NAMES \
	{"zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "s0", "s1", "a0", "a1", "a2", \
	 "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", \
	 "s10", "s11", "t3", "t4", "t5", "t6", "epc"}

/*
 * bool probe_load(unsigned long at, unsigned long *value), for 1 or 8 bytes: the
 * load is the first instruction. If it faults, the kernel continues at fetch_fault (FIXUP).
 */
#define FETCH_LOAD_1 "lbu a0, (a0)\n sd a0, (a1)\n li a0, 1\n ret\n"
#define FETCH_LOAD_8 "ld a0, (a0)\n sd a0, (a1)\n li a0, 1\n ret\n"
#define FETCH_FAULT "li a0, 0\n ret\n"

/* The address of the saved register xN, at an exception or at an entry. NULL: it was not saved. */
static inline unsigned long *trap_frame_reg(struct trap_frame *regs, unsigned n)
{
	return n && n < 32 ? &regs->x[n] : NULL;
}
static inline unsigned long *ftrace_regs_reg(struct ftrace_regs *regs, unsigned n)
{
	if (n >= 10 && n < 18)
		return &regs->arg[n - 10];
	return n == 1 ? &regs->link : n == 2 ? &regs->sp : n == 8 ? &regs->fp : NULL;
}
/*
 * Is a register that is saved at an entry also saved at a return? return_to_handler saves a0 and
 * a1, and not a2 to a7.
 */
static inline bool fetch_at_return(unsigned n)
{
	return n < 12 || n >= 18;
}

#endif

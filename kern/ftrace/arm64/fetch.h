/*
 * arm64: the registers of a probed function by name and by number, and loads that may fault, for
 * events/.
 */
#ifndef FTRACE_FETCH_H
#define FTRACE_FETCH_H

#include "arch.h"
#include "regs.h"

#define FETCH_SP 31
#define FETCH_PC 32
/* Register n has the n-th name. lr is listed as x30. */
#define FETCH_NAMES \
	{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", \
	 "x13", "x14", "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", \
	 "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc"}

/*
 * bool probe_load(unsigned long at, unsigned long *value), for 1 or 8 bytes: the
 * load is the first instruction. If it faults, the kernel continues at fetch_fault (FIXUP).
 */
#define FETCH_LOAD_1 "ldrb w0, [x0]\n str x0, [x1]\n mov w0, 1\n ret\n"
#define FETCH_LOAD_8 "ldr x0, [x0]\n str x0, [x1]\n mov w0, 1\n ret\n"
#define FETCH_FAULT "mov w0, 0\n ret\n"

/*
 * The address of the saved register xN (31: sp), at an exception or at an entry. NULL: it was not
 * saved.
 */
static inline unsigned long *trap_frame_reg(struct trap_frame *regs, unsigned n)
{
	return n < 32 ? &regs->x[n] : NULL;
}
static inline unsigned long *ftrace_regs_reg(struct ftrace_regs *regs, unsigned n)
{
	if (n < 8)
		return &regs->arg[n];
	return n == 8	 ? &regs->x8
	       : n == 29 ? &regs->fp
	       : n == 30 ? &regs->link
	       : n == 31 ? &regs->sp
			 : NULL;
}
/*
 * Is a register that is saved at an entry also saved at a return? return_to_handler saves x0 to x7,
 * and not x8.
 */
static inline bool fetch_at_return(unsigned n)
{
	return n != 8;
}

#endif

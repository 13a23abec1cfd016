/*
 * Breakpoints in the kernel's text, for the code that puts them there: the kernel
 * asks it, through a pointer, what a breakpoint means.
 */
#ifndef KERN_BREAKPOINT_H
#define KERN_BREAKPOINT_H

#include "types.h"

struct trap_frame;

/*
 * No function here may have a call site, or reach one: stack walks and the
 * exception's entry call them, in any context, interrupts masked.
 *
 * hit: an exception was taken; @context is the tracer's context bit of the
 *	interrupted code. Return true if it was such a breakpoint; then the
 *	interrupted code continues as @regs says.
 * pc:	the address of the instruction of which a copy is at @pc; else @pc.
 * insn: the instruction that belongs at @at, where a breakpoint is.
 */
struct break_hook {
	bool (*hit)(struct trap_frame *regs, u64 context);
	unsigned long (*pc)(unsigned long pc);
	u32 (*insn)(unsigned long at);
};
/* stored once, before the first breakpoint; NULL: there is none */
extern const struct break_hook *break_hook;

/*
 * No probe may be placed in @function. For traced functions only: those that are
 * notrace are never probed. A function that is inlined is part of its caller.
 */
#define NOKPROBE_SYMBOL(function)                                                             \
	TABLE_ENTRY(const unsigned long, kprobe_blacklist, noprobe_##function) =             \
		(unsigned long)function

#endif

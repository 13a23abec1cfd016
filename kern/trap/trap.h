/*
 * The room trap/: interrupts and exceptions on their way in; and what is said of them, and of a
 * panic: who called whom.
 *
 *	<arch>/entry.S	saves the registers and calls fault.c
 *	fault.c		an interrupt: the context bits, irq_enter(), the handler, irq_exit().
 *			An exception: a probe's breakpoint, a load that may fault, or a panic
 *	<arch>/trap.c	which interrupt it is; the exceptions' names; the registers as text
 *	panic.c		the report of a panic, or of a fault that ends one thread
 *	unwind.c	stack walks (unwind.h), with <arch>/unwind.c, which knows a frame's layout
 *	stack_lines.c	a stack trace's lines, a recursion's once
 *	stop.c		stops all other CPUs, and looks at all stacks (kernels with modules)
 *
 * The processor calls this room; so do the tracer, the shell and the loader, for stack walks, and
 * panic() by the table panic_hook. It calls all rooms before it. Probes set break_hook
 * (breakpoint.h); what replaces return addresses is in the table unwind_hook.
 */
#ifndef TRAP_TRAP_H
#define TRAP_TRAP_H

#include "arch.h"

/*
 * A panic of code that was interrupted at @regs. Ends only the running thread, if that may fault:
 * current->faulted.
 */
void __noreturn panic_regs(struct trap_frame *regs, const char *fmt, ...) __printf(2, 3);
/*
 * The same, with a description of a bad access to @va. @access: "read from", "write to",
 * "execution of".
 */
void __noreturn panic_fault(struct trap_frame *regs, unsigned long va, const char *access);

#endif

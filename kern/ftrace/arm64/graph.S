/*
 * void return_to_handler(void): a traced function returns to it, because the
 * tracer replaced the return address. It is never called; sp is the caller's.
 *
 * Live: x0-x7 (the result), x18, sp, x29, the callee-saved registers. All others
 * are free; x30 holds the address of return_to_handler.
 *
 * 1. Make a frame, struct ftrace_regs: the result, and a frame record for the
 *    traced function, so that a stack walk can go on to the caller.
 * 2. ftrace_return_to_handler(regs) puts the real return address into it.
 * 3. Load the result back and jump to the real return address. The traced
 *    function's `ret` has popped the entry that the caller's call had pushed
 *    on the return-address predictor. A second `ret` would pop the entry of the
 *    caller's caller, a linking jump would push one, and every later return
 *    would be mispredicted. `br` does neither.
 */
#include "asm-offsets.h"

	.text
	.globl return_to_handler
	.type return_to_handler, @function
return_to_handler:
#if LAB_START == 5
	brk #0
#else
	/* 1. A frame: the traced function's record, and its result. */
	sub sp, sp, #FREGS_SIZE
	stp x29, x30, [sp, #FREGS_FP]
	add x29, sp, #FREGS_FP
	add x9, sp, #FREGS_SIZE
	str x9, [sp, #FREGS_SP]
	stp x0, x1, [sp, #FREGS_ARG + 0]
	stp x2, x3, [sp, #FREGS_ARG + 16]
	stp x4, x5, [sp, #FREGS_ARG + 32]
	stp x6, x7, [sp, #FREGS_ARG + 48]

	/* 2. Find the real return address: it comes back in regs->link. */
	mov x0, sp
	bl ftrace_return_to_handler

	/* 3. Load the result back, and go on at the real return address. */
	ldp x0, x1, [sp, #FREGS_ARG + 0]
	ldp x2, x3, [sp, #FREGS_ARG + 16]
	ldp x4, x5, [sp, #FREGS_ARG + 32]
	ldp x6, x7, [sp, #FREGS_ARG + 48]
	ldp x29, x30, [sp, #FREGS_FP]
	add sp, sp, #FREGS_SIZE
	br x30
#endif
	.size return_to_handler, . - return_to_handler

/*
 * void return_to_handler(void): a traced function returns to it, because the
 * tracer replaced the return address. It is never called; sp is the caller's.
 *
 * Live: a0, a1 (the result), sp, s0, the callee-saved registers. All others but gp and
 * tp are free; ra holds the address of return_to_handler.
 *
 * 1. Make a frame, struct ftrace_regs: the result, and a frame record for the
 *    traced function, so that a stack walk can go on to the caller.
 * 2. ftrace_return_to_handler(regs) puts the real return address into it.
 * 3. Load the result back and jump to the real return address. The traced
 *    function's `ret` has popped the entry that the caller's call had pushed
 *    on the return-address predictor. A second `ret` (`jr ra`, `jr t0`) would
 *    pop the entry of the caller's caller, a linking jump would push one, and
 *    every later return would be mispredicted. A jump through t1 does neither.
 */
#include "asm-offsets.h"

	.text
	.globl return_to_handler
	.type return_to_handler, @function
return_to_handler:
#if LAB_START == 5
	ebreak
#else
	/* 1. A frame: the traced function's record, and its result. */
	addi sp, sp, -FREGS_SIZE
	sd s0, FREGS_FP(sp)
	sd ra, FREGS_LINK(sp)
	addi s0, sp, FREGS_SIZE
	sd s0, FREGS_SP(sp)
	sd a0, FREGS_ARG + 0(sp)
	sd a1, FREGS_ARG + 8(sp)

	/* 2. Find the real return address: it comes back in regs->link. */
	mv a0, sp
	call ftrace_return_to_handler

	/* 3. Load the result back, and go on at the real return address. */
	ld a0, FREGS_ARG + 0(sp)
	ld a1, FREGS_ARG + 8(sp)
	ld s0, FREGS_FP(sp)
	ld ra, FREGS_LINK(sp)
	mv t1, ra
	addi sp, sp, FREGS_SIZE
	jr t1
#endif
	.size return_to_handler, . - return_to_handler

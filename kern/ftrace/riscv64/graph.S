/*
 * void return_to_handler(void): where a function returns to whose return
 * address the tracer took away. Nobody calls it; sp is the caller's.
 *
 * Live: a0, a1 (the result), sp, s0, the callee-saved registers. Free: all
 * else; ra holds this very address.
 *
 * 1. A frame, struct ftrace_regs: the result, and a frame record of the
 *    traced function's, so that a stack walk can go on to the caller.
 * 2. ftrace_return_to_handler(regs) puts the real return address into it.
 * 3. Load the result back and go on there. What the caller's call pushed on
 *    the return-address predictor the traced function's `ret` popped already.
 *    So neither `ret` (`jr ra`, `jr t0`: it would pop the caller's caller's)
 *    nor a linking jump (it would push): either puts the predictor out by one
 *    for all returns that follow. A jump through t1 leaves it alone.
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

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
 * 3. Load the result back and return there. `ret` pops what the caller's
 *    call pushed on the return-address predictor: a linking jump would push
 *    one more, and every return after it would be mispredicted.
 */
#include "asm-offsets.h"

	.text
	.globl return_to_handler
	.type return_to_handler, @function
return_to_handler:
#if LAB_START == 5
	ebreak
#else
	addi sp, sp, -FREGS_SIZE
	sd s0, FREGS_FP(sp)
	sd ra, FREGS_LINK(sp)
	addi s0, sp, FREGS_SIZE
	sd s0, FREGS_SP(sp)
	sd a0, FREGS_ARG + 0(sp)
	sd a1, FREGS_ARG + 8(sp)

	mv a0, sp
	call ftrace_return_to_handler

	ld a0, FREGS_ARG + 0(sp)
	ld a1, FREGS_ARG + 8(sp)
	ld s0, FREGS_FP(sp)
	ld ra, FREGS_LINK(sp)
	addi sp, sp, FREGS_SIZE
	ret
#endif
	.size return_to_handler, . - return_to_handler

/*
 * void _mcount(void). With `-pg` every function calls it after its prologue, by
 * `auipc ra; jalr ra`.
 *
 * Live: a0-a7 (arguments: the function may not have moved them yet), t2 (nor the
 * static chain of a nested function), s0 (the traced function's frame), ra (where
 * to resume that function), sp, and all callee-saved registers.
 * Free: t0, t1, t3-t6.
 *
 * The parent is not in a0 (GCC leaves it there, Clang does not) but in the
 * traced function's frame record:
 *
 *	s0 -  8 | where the traced function returns to |
 *	s0 - 16 | its caller's s0                      |
 *
 * 1. If no tracer is registered, return at once.
 * 2. Make a frame record of our own, and save the arguments and t2.
 * 3. Call ftrace_trace_function(selfpc, frompc, function_trace_op, NULL).
 * 4. Put everything back.
 */
#include "asm-offsets.h"

	.text
	.globl _mcount, ftrace_stub
	.type _mcount, @function
_mcount:
#if LAB_START == 1
	ret
#else
	/* 1. If no tracer is registered, return at once. */
1:	auipc t0, %pcrel_hi(ftrace_trace_function)
	ld t0, %pcrel_lo(1b)(t0)
2:	auipc t1, %pcrel_hi(ftrace_stub)
	addi t1, t1, %pcrel_lo(2b)
	bne t0, t1, mcount_trace
	ret

mcount_trace:
	/* 2. Our frame: its record, and the arguments. */
	addi sp, sp, -MCOUNT_SIZE
	sd ra, MCOUNT_LINK(sp)
	sd s0, MCOUNT_FP(sp)
	sd a0, MCOUNT_ARG + 0(sp)
	sd a1, MCOUNT_ARG + 8(sp)
	sd a2, MCOUNT_ARG + 16(sp)
	sd a3, MCOUNT_ARG + 24(sp)
	sd a4, MCOUNT_ARG + 32(sp)
	sd a5, MCOUNT_ARG + 40(sp)
	sd a6, MCOUNT_ARG + 48(sp)
	sd a7, MCOUNT_ARG + 56(sp)
	sd t2, MCOUNT_T2(sp)

	/* 3. Call the tracer. The parent is read while s0 is still the traced function's. */
	ld a1, -8(s0)
	addi s0, sp, MCOUNT_SIZE
	addi a0, ra, -4
3:	auipc a2, %pcrel_hi(function_trace_op)
	ld a2, %pcrel_lo(3b)(a2)
	li a3, 0
mcount_call:
	jalr t0

	/* 4. Put everything back, and go on in the traced function. */
	ld a0, MCOUNT_ARG + 0(sp)
	ld a1, MCOUNT_ARG + 8(sp)
	ld a2, MCOUNT_ARG + 16(sp)
	ld a3, MCOUNT_ARG + 24(sp)
	ld a4, MCOUNT_ARG + 32(sp)
	ld a5, MCOUNT_ARG + 40(sp)
	ld a6, MCOUNT_ARG + 48(sp)
	ld a7, MCOUNT_ARG + 56(sp)
	ld t2, MCOUNT_T2(sp)
	ld s0, MCOUNT_FP(sp)
	ld ra, MCOUNT_LINK(sp)
	addi sp, sp, MCOUNT_SIZE
	ret
#endif
	.size _mcount, . - _mcount

/*
 * The callback that does nothing; ftrace_trace_function points to it while no tracer is registered.
 */
	.type ftrace_stub, @function
ftrace_stub:
	ret
	.size ftrace_stub, . - ftrace_stub

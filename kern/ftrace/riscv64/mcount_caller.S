/*
 * void ftrace_caller(void), reached from a call site by `jal ra` after the
 * prologue, in lab 3. It is _mcount without step 1.
 *
 * Live and free: as in mcount.S. Only patched sites call this, and the call at
 * ftrace_call was patched before them (ftrace_update_ftrace_func): there is one
 * tracer at a time.
 *
 * 1. Make a frame record of our own, and save the arguments and t2.
 * 2. Call tracer(selfpc, frompc, function_trace_op, NULL); the call is at ftrace_call.
 * 3. Put everything back.
 */
#include "asm-offsets.h"

	.text
	.globl ftrace_stubs, ftrace_caller, ftrace_call
	.type ftrace_caller, @function
	.balign 64
ftrace_stubs:
ftrace_caller:
#if LAB_START == 3
ftrace_call:
	ret
#else
	/* 1. Our frame: its record, and the arguments. */
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

	/* 2. Call the tracer. The parent is read while s0 is still the traced function's. */
	ld a1, -8(s0)
	addi s0, sp, MCOUNT_SIZE
	addi a0, ra, -4
1:	auipc a2, %pcrel_hi(function_trace_op)
	ld a2, %pcrel_lo(1b)(a2)
	li a3, 0
ftrace_call:
	jal ra, ftrace_stub

	/* 3. Put everything back, and go on in the traced function. */
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
	.size ftrace_caller, . - ftrace_caller

/*
 * void ftrace_caller(void), reached from a call site by `bl` after the
 * prologue, in lab 3. It is _mcount without step 1.
 *
 * Live and free: as in mcount.S. Only patched sites call this, and the call at
 * ftrace_call was patched before them (ftrace_update_ftrace_func): there is one
 * tracer at a time.
 *
 * 1. Make a frame record of our own, and save the argument registers.
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
	sub sp, sp, #MCOUNT_SIZE
	stp x29, x30, [sp, #MCOUNT_FP]
	stp x0, x1, [sp, #MCOUNT_ARG + 0]
	stp x2, x3, [sp, #MCOUNT_ARG + 16]
	stp x4, x5, [sp, #MCOUNT_ARG + 32]
	stp x6, x7, [sp, #MCOUNT_ARG + 48]
	str x8, [sp, #MCOUNT_X8]

	/* 2. Call the tracer. The parent is read while x29 is still the traced function's. */
	ldr x1, [x29, #8]
	add x29, sp, #MCOUNT_FP
	sub x0, x30, #4
	adrp x2, function_trace_op
	ldr x2, [x2, #:lo12:function_trace_op]
	mov x3, #0
ftrace_call:
	bl ftrace_stub

	/* 3. Put everything back, and go on in the traced function. */
	ldp x0, x1, [sp, #MCOUNT_ARG + 0]
	ldp x2, x3, [sp, #MCOUNT_ARG + 16]
	ldp x4, x5, [sp, #MCOUNT_ARG + 32]
	ldp x6, x7, [sp, #MCOUNT_ARG + 48]
	ldr x8, [sp, #MCOUNT_X8]
	ldp x29, x30, [sp, #MCOUNT_FP]
	add sp, sp, #MCOUNT_SIZE
	ret
#endif
	.size ftrace_caller, . - ftrace_caller

/*
 * void _mcount(void). With `-pg` every function calls it after its prologue, by
 * `bl`.
 *
 * Live: x0-x8 (arguments: the function may not have moved them yet), x29 (the traced
 * function's frame record), x30 (where to resume that function), sp, x18, and all
 * callee-saved registers. Free: x9-x17.
 *
 * The parent is not in x0 (GCC leaves it there, Clang does not) but in the
 * traced function's frame record:
 *
 *	x29 + 8 | where the traced function returns to |
 *	x29     | its caller's x29                     |
 *
 * 1. If no tracer is registered, return at once.
 * 2. Make a frame record of our own, and save the argument registers.
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
	adrp x9, ftrace_trace_function
	ldr x9, [x9, #:lo12:ftrace_trace_function]
	adrp x10, ftrace_stub
	add x10, x10, #:lo12:ftrace_stub
	cmp x9, x10
	b.ne mcount_trace
	ret

mcount_trace:
	/* 2. Our frame: its record, and the arguments. */
	sub sp, sp, #MCOUNT_SIZE
	stp x29, x30, [sp, #MCOUNT_FP]
	stp x0, x1, [sp, #MCOUNT_ARG + 0]
	stp x2, x3, [sp, #MCOUNT_ARG + 16]
	stp x4, x5, [sp, #MCOUNT_ARG + 32]
	stp x6, x7, [sp, #MCOUNT_ARG + 48]
	str x8, [sp, #MCOUNT_X8]

	/* 3. Call the tracer. The parent is read while x29 is still the traced function's. */
	ldr x1, [x29, #8]
	add x29, sp, #MCOUNT_FP
	sub x0, x30, #4
	adrp x2, function_trace_op
	ldr x2, [x2, #:lo12:function_trace_op]
	mov x3, #0
mcount_call:
	blr x9

	/* 4. Put everything back, and go on in the traced function. */
	ldp x0, x1, [sp, #MCOUNT_ARG + 0]
	ldp x2, x3, [sp, #MCOUNT_ARG + 16]
	ldp x4, x5, [sp, #MCOUNT_ARG + 32]
	ldp x6, x7, [sp, #MCOUNT_ARG + 48]
	ldr x8, [sp, #MCOUNT_X8]
	ldp x29, x30, [sp, #MCOUNT_FP]
	add sp, sp, #MCOUNT_SIZE
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

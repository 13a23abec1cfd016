/*
 * void _mcount(void), what `-pg` makes every function call after its
 * prologue, by `auipc ra; jalr ra`.
 *
 * Live: a0-a7 (the arguments are moved away by now, or are not: keep them),
 * s0 (the traced function's frame), ra (where in it to go on), sp, and all
 * that is saved across calls. Free: t0-t6.
 *
 * The parent is not in a0 (GCC leaves it there, Clang does not) but in the
 * traced function's frame record:
 *
 *	s0 -  8 | where the traced function returns to |
 *	s0 - 16 | its caller's s0                      |
 *
 * 1. Is anybody tracing? If not, return at once.
 * 2. A frame record of our own, and the argument registers.
 * 3. ftrace_trace_function(selfpc, frompc, function_trace_op, NULL).
 * 4. Put everything back.
 */
	.text
	.globl _mcount, ftrace_stub
	.type _mcount, @function
_mcount:
#if LAB_START == 1
	ret
#else
1:	auipc t0, %pcrel_hi(ftrace_trace_function)
	ld t0, %pcrel_lo(1b)(t0)
2:	auipc t1, %pcrel_hi(ftrace_stub)
	addi t1, t1, %pcrel_lo(2b)
	bne t0, t1, mcount_trace
	ret

mcount_trace:
	addi sp, sp, -80
	sd ra, 72(sp)
	sd s0, 64(sp)
	sd a0, 0(sp)
	sd a1, 8(sp)
	sd a2, 16(sp)
	sd a3, 24(sp)
	sd a4, 32(sp)
	sd a5, 40(sp)
	sd a6, 48(sp)
	sd a7, 56(sp)

	ld a1, -8(s0)
	addi s0, sp, 80
	addi a0, ra, -4
3:	auipc a2, %pcrel_hi(function_trace_op)
	ld a2, %pcrel_lo(3b)(a2)
	li a3, 0
mcount_call:
	jalr t0

	ld a0, 0(sp)
	ld a1, 8(sp)
	ld a2, 16(sp)
	ld a3, 24(sp)
	ld a4, 32(sp)
	ld a5, 40(sp)
	ld a6, 48(sp)
	ld a7, 56(sp)
	ld s0, 64(sp)
	ld ra, 72(sp)
	addi sp, sp, 80
	ret
#endif
	.size _mcount, . - _mcount

/* The tracer that does nothing: what the pointer holds while nobody traces. */
	.type ftrace_stub, @function
ftrace_stub:
	ret
	.size ftrace_stub, . - ftrace_stub

/*
 * Thread switch, arm64: __switch_to(), a thread's first instruction.
 */
#include "asm-offsets.h"
#include "asm/arch.h"

	.text
/*
 * struct thread *__switch_to(struct thread *prev, struct thread *next)
 *
 * Called with interrupts masked. x0 = prev is the return value.
 *
 * 1. Save prev's callee-saved registers. Complete its cache and TLB maintenance:
 *    prev may continue on another CPU, whose dsb does not wait for what this CPU
 *    has invalidated. QEMU does not show it.
 * 2. Make next current.
 * 3. Load next's registers, and return on its stack.
 */
	.set	THREAD_X, THREAD_CONTEXT + CONTEXT_X - 8 * 19
	.globl	__switch_to
	.type	__switch_to, @function
__switch_to:
	/* 1. Save prev's callee-saved registers. Complete its cache and TLB maintenance. */
	dsb	ish
	mov	x9, sp
	pairs	stp, x0, THREAD_X, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
	stp	x29, x30, [x0, #THREAD_CONTEXT + CONTEXT_FP]
	str	x9, [x0, #THREAD_CONTEXT + CONTEXT_SP]

	/* 2. Make next current. */
	mrs	x9, tpidr_el1
	str	x1, [x9, #CPU_CURRENT]
	msr	sp_el0, x1

	/* 3. Load next's registers, and return on its stack. */
	ldr	x9, [x1, #THREAD_CONTEXT + CONTEXT_SP]
	ldp	x29, x30, [x1, #THREAD_CONTEXT + CONTEXT_FP]
	pairs	ldp, x1, THREAD_X, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
	mov	sp, x9
	ret
	.size	__switch_to, . - __switch_to

/* A new thread's first instructions; x0 = prev, from __switch_to(). x29 = 0 ends a stack walk. */
	.globl	thread_start_asm
	.type	thread_start_asm, @function
thread_start_asm:
	mov	x29, xzr
	bl	thread_start
	.size	thread_start_asm, . - thread_start_asm

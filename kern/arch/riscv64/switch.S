/*
 * Thread switch, riscv64: __switch_to(), a thread's first instruction.
 */
#include "asm-offsets.h"

	.text
/*
 * struct thread *__switch_to(struct thread *prev, struct thread *next)
 *
 * Called with interrupts masked. a0 = prev is the return value.
 *
 * 1. Save prev's callee-saved registers.
 * 2. Make next current.
 * 3. Load next's registers, and return on its stack.
 */
	.globl	__switch_to
	.type	__switch_to, @function
__switch_to:
	/* 1. Save prev's callee-saved registers. */
	sd	ra, THREAD_CONTEXT + CONTEXT_PC(a0)
	sd	sp, THREAD_CONTEXT + CONTEXT_SP(a0)
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	sd	s\n, THREAD_CONTEXT + CONTEXT_S + 8 * \n(a0)
	.endr

	/* 2. Make next current. */
	sd	a1, CPU_CURRENT(tp)

	/* 3. Load next's registers, and return on its stack. */
	ld	sp, THREAD_CONTEXT + CONTEXT_SP(a1)
	ld	ra, THREAD_CONTEXT + CONTEXT_PC(a1)
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
	ld	s\n, THREAD_CONTEXT + CONTEXT_S + 8 * \n(a1)
	.endr
	ret
	.size	__switch_to, . - __switch_to

/* A new thread's first instructions; a0 = prev, from __switch_to(). s0 = 0 ends a stack walk. */
	.globl	thread_start_asm
	.type	thread_start_asm, @function
thread_start_asm:
	li	s0, 0
	call	thread_start
	/* not reached; gives stack walks a return address in here */
	ebreak
	.size	thread_start_asm, . - thread_start_asm

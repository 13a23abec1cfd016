/*
 * Exception entry, arm64: the exception vectors. All exceptions come from EL1.
 */
#include "asm-offsets.h"
#include "asm/arch.h"
#include "layout.h"

#define X(n) (FRAME_X + 8 * (n))
/* An exception needs this much of the stack; with less left it is an overflow. */
#define STACK_MARGIN (FRAME_SIZE + 1024)

	/* In: x0 and x1 are saved, x0 = sp before the frame. Out: x0 = the frame. */
	.macro	save_registers
	pairs	stp, sp, FRAME_X, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
	mrs	x2, elr_el1
	mrs	x3, spsr_el1
	stp	x30, x0, [sp, #X(30)]
	stp	x2, x3, [sp, #FRAME_PC]
	stp	x29, x2, [sp, #FRAME_RECORD]	/* interrupted fp and pc */
	add	x29, sp, #FRAME_RECORD
	mov	x0, sp
	.endm

	/* 128 bytes a vector. tpidr_el0 is scratch: there is no EL0. */
	.macro	vector target
	.balign	128
	/* 1. If too little of the stack is left, take the overflow stack and panic. */
	msr	tpidr_el0, x0
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	sub	sp, sp, x0
	mov	x0, sp
	sub	x0, x0, #STACK_MARGIN	/* below 0 or past the top: a large unsigned value */
	lsr	x0, x0, #14		/* log2 THREAD_SIZE */
	cbnz	x0, stack_overflow
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	add	sp, sp, x0
	mrs	x0, tpidr_el0

	/* 2. Save struct trap_frame; its last words are a frame record. */
	sub	sp, sp, #FRAME_SIZE
	stp	x0, x1, [sp, #X(0)]
	add	x0, sp, #FRAME_SIZE
	mov	x1, #(. - exception_vector) / 128
	b	\target
	.endm

	.text
/*
 * Every exception enters here, interrupts masked, on the interrupted stack.
 *
 * 1. If too little of the stack is left, take the overflow stack and panic.
 * 2. Save struct trap_frame; its last words are a frame record.
 * 3. Call trap_interrupt(regs) or trap_exception(regs).
 */
	.globl	exception_vector, exception_vector_end
	.type	exception_vector, @function
	.balign	2048
exception_vector:
	.rept	4			/* from EL1 on sp_el0: never */
	vector	unexpected
	.endr
	vector	synchronous
	vector	interrupt
	vector	unexpected		/* fast interrupt */
	vector	unexpected		/* system error */
	.rept	8			/* from EL0: never */
	vector	unexpected
	.endr

	/* 3. Call trap_interrupt(regs) or trap_exception(regs). */
unexpected:
	save_registers
	bl	trap_unexpected
synchronous:
	save_registers
	bl	trap_exception
	b	ret_from_exception
interrupt:
	save_registers
	bl	trap_interrupt

/*
 * Return to what was interrupted.
 *
 * 1. Clear a reservation that the handler may have left; load pc and status.
 * 2. Restore the other registers and return.
 */
	.globl	ret_from_exception
ret_from_exception:
	/* 1. Clear a reservation that the handler may have left; load pc and status. */
	msr	daifset, #2
	ldp	x0, x1, [sp, #FRAME_PC]
	msr	elr_el1, x0
	msr	spsr_el1, x1
	clrex

	/* 2. Restore the other registers and return. */
	pairs	ldp, sp, FRAME_X, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
		16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29
	ldr	x30, [sp, #X(30)]
	add	sp, sp, #FRAME_SIZE
	eret

/*
 * One stack for all CPUs: the first CPU that comes here panics and stops the others.
 *
 * 1. Take the overflow stack.
 * 2. Save struct trap_frame on it, and call trap_overflow(regs).
 */
stack_overflow:
	/* 1. Take the overflow stack. */
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	add	x0, sp, x0
	msr	tpidrro_el0, x0
	adrp	x0, overflow_stack + THREAD_SIZE - FRAME_SIZE
	add	x0, x0, #:lo12:overflow_stack + THREAD_SIZE - FRAME_SIZE
	mov	sp, x0

	/* 2. Save struct trap_frame on it, and call trap_overflow(regs). */
	mrs	x0, tpidr_el0
	stp	x0, x1, [sp, #X(0)]
	mrs	x0, tpidrro_el0
	save_registers
	bl	trap_overflow
exception_vector_end:
	.size	exception_vector, . - exception_vector

	.bss
	.balign	16
overflow_stack:
	.zero	THREAD_SIZE

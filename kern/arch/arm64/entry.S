/*
 * Into the kernel and between threads, arm64: the exception vectors, the
 * thread switch, a thread's first instruction. All exceptions come from EL1.
 */
#include "asm-offsets.h"
#include "asm/arch.h"
#include "memory.h"

#define X(n) (FRAME_X + 8 * (n))
/* An exception needs this much of the stack; with less left it is an overflow. */
#define STACK_MARGIN (FRAME_SIZE + 1024)

	/* x0 and x1 are saved already; x0 becomes what sp was before the frame. */
	.macro	save_registers
	stp	x2, x3, [sp, #X(2)]
	stp	x4, x5, [sp, #X(4)]
	stp	x6, x7, [sp, #X(6)]
	stp	x8, x9, [sp, #X(8)]
	stp	x10, x11, [sp, #X(10)]
	stp	x12, x13, [sp, #X(12)]
	stp	x14, x15, [sp, #X(14)]
	stp	x16, x17, [sp, #X(16)]
	stp	x18, x19, [sp, #X(18)]
	stp	x20, x21, [sp, #X(20)]
	stp	x22, x23, [sp, #X(22)]
	stp	x24, x25, [sp, #X(24)]
	stp	x26, x27, [sp, #X(26)]
	stp	x28, x29, [sp, #X(28)]
	mrs	x2, elr_el1
	mrs	x3, spsr_el1
	stp	x30, x0, [sp, #X(30)]
	stp	x2, x3, [sp, #FRAME_PC]
	stp	x29, x2, [sp, #FRAME_RECORD]	/* who was interrupted, where */
	add	x29, sp, #FRAME_RECORD
	mov	x0, sp
	.endm

	/* 128 bytes a vector. tpidr_el0 is scratch: there is no EL0. */
	.macro	vector target
	.balign	128
	msr	tpidr_el0, x0
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	sub	sp, sp, x0
	mov	x0, sp
	sub	x0, x0, #STACK_MARGIN	/* below 0 or past the top: as unsigned, large */
	lsr	x0, x0, #14		/* log2 THREAD_SIZE */
	cbnz	x0, stack_overflow
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	add	sp, sp, x0
	mrs	x0, tpidr_el0
	sub	sp, sp, #FRAME_SIZE
	stp	x0, x1, [sp, #X(0)]
	add	x0, sp, #FRAME_SIZE
	mov	x1, #(. - exception_vector) / 128
	b	\target
	.endm

	.text
/*
 * Where every exception arrives, interrupts masked, on the interrupted stack.
 *
 * 1. Is there stack left? If not, the overflow stack, and a panic.
 * 2. Save struct trap_frame; its last words are a frame record.
 * 3. trap_interrupt(regs) or trap_exception(regs).
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

	.globl	ret_from_exception
ret_from_exception:
	msr	daifset, #2
	ldp	x0, x1, [sp, #FRAME_PC]
	msr	elr_el1, x0
	msr	spsr_el1, x1
	clrex
	ldp	x0, x1, [sp, #X(0)]
	ldp	x2, x3, [sp, #X(2)]
	ldp	x4, x5, [sp, #X(4)]
	ldp	x6, x7, [sp, #X(6)]
	ldp	x8, x9, [sp, #X(8)]
	ldp	x10, x11, [sp, #X(10)]
	ldp	x12, x13, [sp, #X(12)]
	ldp	x14, x15, [sp, #X(14)]
	ldp	x16, x17, [sp, #X(16)]
	ldp	x18, x19, [sp, #X(18)]
	ldp	x20, x21, [sp, #X(20)]
	ldp	x22, x23, [sp, #X(22)]
	ldp	x24, x25, [sp, #X(24)]
	ldp	x26, x27, [sp, #X(26)]
	ldp	x28, x29, [sp, #X(28)]
	ldr	x30, [sp, #X(30)]
	add	sp, sp, #FRAME_SIZE
	eret

/* One stack for all: the first CPU to come here panics, and that stops the others. */
stack_overflow:
	mrs	x0, sp_el0
	ldr	x0, [x0, #THREAD_STACK]
	add	x0, sp, x0
	msr	tpidrro_el0, x0
	adrp	x0, overflow_stack + THREAD_SIZE - FRAME_SIZE
	add	x0, x0, #:lo12:overflow_stack + THREAD_SIZE - FRAME_SIZE
	mov	sp, x0
	mrs	x0, tpidr_el0
	stp	x0, x1, [sp, #X(0)]
	mrs	x0, tpidrro_el0
	save_registers
	bl	trap_overflow
exception_vector_end:
	.size	exception_vector, . - exception_vector

/*
 * struct thread *__switch_to(struct thread *prev, struct thread *next)
 *
 * Called with interrupts masked. Saves what a function keeps over a call,
 * makes next current, loads next's. x0 = prev stays the return value.
 */
	.globl	__switch_to, __switch_to_load
	.type	__switch_to, @function
__switch_to:
	mov	x9, sp
	stp	x19, x20, [x0, #THREAD_CONTEXT + CONTEXT_X + 0]
	stp	x21, x22, [x0, #THREAD_CONTEXT + CONTEXT_X + 16]
	stp	x23, x24, [x0, #THREAD_CONTEXT + CONTEXT_X + 32]
	stp	x25, x26, [x0, #THREAD_CONTEXT + CONTEXT_X + 48]
	stp	x27, x28, [x0, #THREAD_CONTEXT + CONTEXT_X + 64]
	stp	x29, x30, [x0, #THREAD_CONTEXT + CONTEXT_FP]
	str	x9, [x0, #THREAD_CONTEXT + CONTEXT_SP]
	mrs	x9, tpidr_el1
	str	x1, [x9, #CPU_CURRENT]
	msr	sp_el0, x1
__switch_to_load:
	ldr	x9, [x1, #THREAD_CONTEXT + CONTEXT_SP]
	ldp	x29, x30, [x1, #THREAD_CONTEXT + CONTEXT_FP]
	ldp	x19, x20, [x1, #THREAD_CONTEXT + CONTEXT_X + 0]
	ldp	x21, x22, [x1, #THREAD_CONTEXT + CONTEXT_X + 16]
	ldp	x23, x24, [x1, #THREAD_CONTEXT + CONTEXT_X + 32]
	ldp	x25, x26, [x1, #THREAD_CONTEXT + CONTEXT_X + 48]
	ldp	x27, x28, [x1, #THREAD_CONTEXT + CONTEXT_X + 64]
	mov	sp, x9
	ret
	.size	__switch_to, . - __switch_to

/* A new thread's first instructions; x0 = prev, from __switch_to(). x29 = 0 ends every walk. */
	.globl	thread_start_asm
	.type	thread_start_asm, @function
thread_start_asm:
	mov	x29, xzr
	bl	thread_start
	.size	thread_start_asm, . - thread_start_asm

	.bss
	.balign	16
overflow_stack:
	.zero	THREAD_SIZE

/*
 * Trap entry, riscv64: the trap vector. All traps come from S-mode.
 */
#include "asm-offsets.h"
#include "asm/arch.h"
#include "layout.h"

#define X(n) (FRAME_X + 8 * (n))
/* A trap needs this much of the stack; with less left it is an overflow. */
#define STACK_MARGIN (FRAME_SIZE + 1024)
#if THREAD_SIZE != 1 << 14
#error "the check for overflow shifts by 14"
#endif

	.macro	save_registers
	sd	ra, X(1)(sp)
	sd	gp, X(3)(sp)
	sd	t0, X(5)(sp)
	sd	t1, X(6)(sp)
	sd	t2, X(7)(sp)
	sd	s0, X(8)(sp)
	.irp	n, 4, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
		18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	sd	x\n, X(\n)(sp)
	.endr
	addi	t0, sp, FRAME_SIZE
	sd	t0, X(2)(sp)
	csrr	t1, sepc
	sd	t1, FRAME_PC(sp)
	csrr	t2, sstatus
	sd	t2, FRAME_STATUS(sp)
	csrr	a1, scause
	sd	a1, FRAME_CAUSE(sp)
	csrr	t2, stval
	sd	t2, FRAME_TVAL(sp)
	sd	s0, FRAME_RECORD(sp)	/* the frame record: interrupted fp and pc */
	sd	t1, FRAME_RECORD + 8(sp)
	mv	s0, t0
	.endm

	.text
/*
 * Every trap enters here, interrupts masked, on the interrupted stack.
 *
 * 1. If too little of the stack is left, take the overflow stack and panic.
 * 2. Save struct trap_frame; its last words are a frame record.
 * 3. Call trap_interrupt(regs) or trap_exception(regs).
 */
	.globl	exception_vector, exception_vector_end
	.type	exception_vector, @function
	.balign	4
exception_vector:
	/* 1. If too little of the stack is left, take the overflow stack and panic. */
	csrw	sscratch, t0
	ld	t0, CPU_CURRENT(tp)
	ld	t0, THREAD_STACK(t0)
	sub	t0, sp, t0
	addi	t0, t0, -STACK_MARGIN	/* below 0 or past the top: a large unsigned value */
	srli	t0, t0, 14		/* log2 THREAD_SIZE */
	bnez	t0, stack_overflow
	csrr	t0, sscratch

	/* 2. Save struct trap_frame; its last words are a frame record. */
	addi	sp, sp, -FRAME_SIZE
	save_registers

	/* 3. Call trap_interrupt(regs) or trap_exception(regs). */
	mv	a0, sp
	bltz	a1, interrupt
synchronous:
	call	trap_exception
	j	ret_from_exception
interrupt:
	call	trap_interrupt

/*
 * Return to what was interrupted. tp is not restored: the thread may have moved to another CPU.
 *
 * 1. Clear a reservation that the handler may have left; load pc and status.
 * 2. Restore the other registers and return.
 */
	.globl	ret_from_exception
ret_from_exception:
	/* 1. Clear a reservation that the handler may have left; load pc and status. */
	csrci	sstatus, 2
	ld	t0, FRAME_PC(sp)
	ld	t1, FRAME_STATUS(sp)
	addi	t2, sp, FRAME_PC
	sc.d	zero, t0, (t2)
	csrw	sepc, t0
	csrw	sstatus, t1

	/* 2. Restore the other registers and return. */
	ld	ra, X(1)(sp)
	ld	gp, X(3)(sp)
	.irp	n, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, \
		18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
	ld	x\n, X(\n)(sp)
	.endr
	addi	sp, sp, FRAME_SIZE
	sret

/*
 * One stack for all CPUs: the first CPU that comes here panics and stops the others.
 *
 * 1. Take the overflow stack.
 * 2. Save struct trap_frame on it, and call trap_overflow(regs).
 */
stack_overflow:
	/* 1. Take the overflow stack. */
	la	t0, overflow_stack + THREAD_SIZE - FRAME_SIZE
	sd	sp, X(2)(t0)
	mv	sp, t0
	csrr	t0, sscratch
	sd	s0, FRAME_RECORD(sp)
	ld	s0, X(2)(sp)
	sd	s0, X(0)(sp)
	ld	s0, FRAME_RECORD(sp)

	/* 2. Save struct trap_frame on it, and call trap_overflow(regs). */
	save_registers
	ld	t0, X(0)(sp)
	sd	t0, X(2)(sp)
	mv	a0, sp
	call	trap_overflow
	ebreak
exception_vector_end:
	.size	exception_vector, . - exception_vector

	.bss
	.balign	16
overflow_stack:
	.zero	THREAD_SIZE

/*
 * ftrace_stubs: a stub for the list of ops, then one for each op. A call site's
 * `bl` jumps to the stub of the op that traces the function. The stub loads
 * the address of its slot in ftrace_slots[] into x10 and jumps to ftrace_caller.
 *
 * void ftrace_caller(void)
 *
 * Live: x0-x7 (arguments), x8 (where a returned structure goes), x9 (the traced
 * function's own return address: its first instruction put it there),
 * x30 (where to resume), x10 (the slot), x18, sp, x29. Free: x11-x17, and x10 once
 * the slot was read.
 *
 * 1. Save the registers that the callback may read or change, and make two
 *    frame records: the traced function's, then ours, so that a stack walk from
 *    the callback finds both. All of it is one frame, struct ftrace_regs.
 * 2. Call slot->func(ip, parent_ip, slot->op, regs).
 * 3. Load everything back and resume at regs->pc. `ret x9`, not `br`: it pops
 *    the entry that the site's `bl` pushed on the return-address predictor.
 */
#include "asm-offsets.h"

	.text
	.globl ftrace_stubs, ftrace_caller, ftrace_call, ftrace_stub

/* stub slot: FTRACE_STUB_SIZE bytes. */
	.macro stub slot
	.type ftrace_stub_\slot, @function
ftrace_stub_\slot:
	adrp x10, ftrace_slots + FTRACE_SLOT_SIZE * \slot
	add x10, x10, #:lo12:ftrace_slots + FTRACE_SLOT_SIZE * \slot
	b ftrace_caller
	.size ftrace_stub_\slot, . - ftrace_stub_\slot
	.endm

	.balign 64
ftrace_stubs:
	.altmacro
	.set .Lslot, 0
	.rept FTRACE_STUBS
	stub %.Lslot
	.set .Lslot, .Lslot + 1
	.endr
	.noaltmacro

	.type ftrace_caller, @function
ftrace_caller:
#if LAB_START == 4
ftrace_call:
	mov x10, x30
	mov x30, x9
	ret x10
#else
	/* 1. Save the arguments; two frame records; sp and pc for the callback. */
	sub sp, sp, #FREGS_SIZE
	stp x0, x1, [sp, #FREGS_ARG + 0]
	stp x2, x3, [sp, #FREGS_ARG + 16]
	stp x4, x5, [sp, #FREGS_ARG + 32]
	stp x6, x7, [sp, #FREGS_ARG + 48]
	add x11, sp, #FREGS_SIZE
	stp x8, x11, [sp, #FREGS_X8]
	stp x29, x9, [sp, #FREGS_FP]
	add x29, sp, #FREGS_FP
	stp x29, x30, [sp, #FREGS_OUR_FP]
	add x29, sp, #FREGS_OUR_FP

	/* 2. Call slot->func(ip, parent_ip, slot->op, regs). */
	sub x0, x30, #4
	mov x1, x9
	ldp x10, x2, [x10, #FTRACE_SLOT_FUNC]
	mov x3, sp
ftrace_call:
	blr x10

	/* 3. Load everything back, and resume at regs->pc. */
	ldp x0, x1, [sp, #FREGS_ARG + 0]
	ldp x2, x3, [sp, #FREGS_ARG + 16]
	ldp x4, x5, [sp, #FREGS_ARG + 32]
	ldp x6, x7, [sp, #FREGS_ARG + 48]
	ldr x8, [sp, #FREGS_X8]
	ldr x9, [sp, #FREGS_PC]
	ldp x29, x30, [sp, #FREGS_FP]
	add sp, sp, #FREGS_SIZE
	ret x9
#endif
	.size ftrace_caller, . - ftrace_caller

/* The callback that does nothing; free slots hold it. */
	.type ftrace_stub, @function
ftrace_stub:
	ret
	.size ftrace_stub, . - ftrace_stub

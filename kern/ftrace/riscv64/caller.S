/*
 * ftrace_stubs: a stub for the list of ops, then one for each op. A call site's
 * `jal t0` jumps to the stub of the op that traces the function. The stub loads
 * the address of its slot in ftrace_slots[] into t1 and jumps to ftrace_caller.
 *
 * void ftrace_caller(void)
 *
 * Live: a0-a7 (arguments), t2 (the static chain of GCC's nested functions),
 * t2-t6 (in Clang builds: further arguments of local functions), ra (the traced
 * function's own return address), t0 (where to resume), t1 (the slot), sp, s0.
 * Free: t1, once the slot was read; with GCC also t3-t6.
 *
 * 1. Save the registers that the callback may read or change, and make two
 *    frame records: the traced function's, then ours, so that a stack walk from
 *    the callback finds both. All of it is one frame, struct ftrace_regs.
 * 2. Call slot->func(ip, parent_ip, slot->op, regs).
 * 3. Load everything back and resume at regs->pc. `jr t0` pops the
 *    entry that the site's `jal t0` pushed on the return-address predictor.
 */
#include "asm-offsets.h"

	.text
	.globl ftrace_stubs, ftrace_caller, ftrace_call, ftrace_stub

/* stub slot: FTRACE_STUB_SIZE bytes. */
	.macro stub slot
	.type ftrace_stub_\slot, @function
ftrace_stub_\slot:
	auipc t1, %pcrel_hi(ftrace_slots + FTRACE_SLOT_SIZE * \slot)
	addi t1, t1, %pcrel_lo(ftrace_stub_\slot)
	j ftrace_caller
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
	jr t0
#else
	/* 1. Save the arguments; two frame records; sp and pc for the callback. */
	addi sp, sp, -FREGS_SIZE
	sd a0, FREGS_ARG + 0(sp)
	sd a1, FREGS_ARG + 8(sp)
	sd a2, FREGS_ARG + 16(sp)
	sd a3, FREGS_ARG + 24(sp)
	sd a4, FREGS_ARG + 32(sp)
	sd a5, FREGS_ARG + 40(sp)
	sd a6, FREGS_ARG + 48(sp)
	sd a7, FREGS_ARG + 56(sp)
	sd t2, FREGS_T + 0(sp)
#ifdef __clang__
	sd t3, FREGS_T + 8(sp)
	sd t4, FREGS_T + 16(sp)
	sd t5, FREGS_T + 24(sp)
	sd t6, FREGS_T + 32(sp)
#endif
	sd s0, FREGS_FP(sp)
	sd ra, FREGS_LINK(sp)
	addi s0, sp, FREGS_SIZE
	sd s0, FREGS_SP(sp)
	sd t0, FREGS_PC(sp)
	addi s0, sp, FREGS_FP

	/* 2. Call slot->func(ip, parent_ip, slot->op, regs). */
	addi a0, t0, -4
	mv a1, ra
	ld a2, FTRACE_SLOT_OP(t1)
	ld t1, FTRACE_SLOT_FUNC(t1)
	mv a3, sp
ftrace_call:
	jalr t1

	/* 3. Load everything back, and resume at regs->pc. */
	ld a0, FREGS_ARG + 0(sp)
	ld a1, FREGS_ARG + 8(sp)
	ld a2, FREGS_ARG + 16(sp)
	ld a3, FREGS_ARG + 24(sp)
	ld a4, FREGS_ARG + 32(sp)
	ld a5, FREGS_ARG + 40(sp)
	ld a6, FREGS_ARG + 48(sp)
	ld a7, FREGS_ARG + 56(sp)
	ld t2, FREGS_T + 0(sp)
#ifdef __clang__
	ld t3, FREGS_T + 8(sp)
	ld t4, FREGS_T + 16(sp)
	ld t5, FREGS_T + 24(sp)
	ld t6, FREGS_T + 32(sp)
#endif
	ld t0, FREGS_PC(sp)
	ld s0, FREGS_FP(sp)
	ld ra, FREGS_LINK(sp)
	addi sp, sp, FREGS_SIZE
	jr t0
#endif
	.size ftrace_caller, . - ftrace_caller

/* The callback that does nothing; free slots hold it. */
	.type ftrace_stub, @function
ftrace_stub:
	ret
	.size ftrace_stub, . - ftrace_stub

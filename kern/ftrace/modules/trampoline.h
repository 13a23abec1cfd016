/*
 * Trampolines: a call site of a module calls one if its call instruction does not reach the
 * stub. Each architecture has these functions in <arch>/trampoline.c; they are pure, and the
 * host tests compare them with the assembler.
 *
 *	riscv64	auipc t1, hi; jalr x0, lo(t1); ebreak
 *		t1 is free at a function's entry (caller.S), and t0 is not; the ebreak is never
 *		reached
 *	arm64	adrp x16, page; add x16, x16, lo; br x16
 *		x16 is free at a function's entry (caller.S), and x9 and x30 are not
 */
#ifndef FTRACE_TRAMPOLINE_H
#define FTRACE_TRAMPOLINE_H

#include "types.h"

#define TRAMPOLINE_WORDS 3

/*
 * The words of a trampoline at @ip that leads to @target. -ERANGE: it is farther than 2 GiB (arm64:
 * 4 GiB).
 */
int trampoline_encode(unsigned long ip, unsigned long target, u32 word[TRAMPOLINE_WORDS]);
/*
 * Where the trampoline at @ip leads; false: these words are no trampoline. riscv64: bit 0 of the
 * sum stays, so that a damaged trampoline is not taken for a right one.
 */
bool trampoline_target(unsigned long ip, const u32 word[TRAMPOLINE_WORDS], unsigned long *target);
/* Disassemble it into @buf, of @size bytes. */
void trampoline_describe(char *buf, size_t size, const u32 word[TRAMPOLINE_WORDS]);

#endif

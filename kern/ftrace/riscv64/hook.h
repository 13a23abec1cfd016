/*
 * riscv64: the two hook styles, for patch.c and records.c.
 *
 *	HOOK=entry	f:	nop			<->	jal t0, stub
 *	HOOK=mcount	f+n:	auipc ra; jalr ra	->	nop; nop	(once, at boot)
 *			f+n+4:	nop			<->	jal ra, ftrace_caller
 *
 * The record names the word that is toggled: the one nop, or the second of the pair.
 */
#ifndef FTRACE_HOOK_H
#define FTRACE_HOOK_H

#include "insn.h"

#ifdef HOOK_mcount
#define HOOK_LINK     REG_RA
#define HOOK_REWRITES 1 /* boot changes the word before the site, and the site */
void _mcount(void);
#else
#define HOOK_LINK     REG_T0
#define HOOK_REWRITES 0
#endif
#define HOOK_BEFORE   INSN_NOP

/* The link register of a plain call between C functions. */
#define CALL_LINK REG_RA
/* From the function's first instruction to the toggled word. */
#define HOOK_ENTRY_OFFSET 0

/* Does the site look as the compiler and the linker left it? */
static inline bool hook_untouched(const u32 *site)
{
#ifdef HOOK_mcount
	unsigned long target;

	return insn_far_call_target((unsigned long)(site - 1), site[-1], site[0], &target) &&
	       target == (unsigned long)_mcount;
#else
	return site[0] == INSN_NOP;
#endif
}

#endif

/*
 * arm64: the two hook styles, for patch.c and records.c.
 *
 *	HOOK=entry	f:	nop		->	mov x9, x30	(once, at boot)
 *			f+4:	nop		<->	bl stub
 *	HOOK=mcount	f+n:	bl _mcount	->	nop		(once, at boot)
 *			f+n:	nop		<->	bl ftrace_caller
 *
 * The record names the word that is toggled: the second nop, or the one call.
 */

/* The folder arm64/: riscv64/hook.h says what its files are. */
#ifndef FTRACE_HOOK_H
#define FTRACE_HOOK_H

#include "insn.h"

#define HOOK_LINK     REG_X30
#define HOOK_REWRITES 1 /* boot changes the site (mcount), or the word before it (entry) */
#ifdef HOOK_mcount
void _mcount(void);
#else
#define HOOK_BEFORE   INSN_MOV_X9_X30
#endif

/* The link register of a plain call between C functions. */
#define CALL_LINK REG_X30
/* From the function's first instruction to the toggled word. */
#define HOOK_ENTRY_OFFSET 4

/* Does the site look as the compiler and the linker left it? */
static inline bool hook_untouched(const u32 *site)
{
#ifdef HOOK_mcount
	unsigned long target;

	return insn_call_target((unsigned long)site, site[0], HOOK_LINK, &target) &&
	       target == (unsigned long)_mcount;
#else
	return site[-1] == INSN_NOP && site[0] == INSN_NOP;
#endif
}

#endif

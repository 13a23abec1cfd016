/*
 * riscv64: the two hook styles, for patch.c and records.c.
 *
 *	HOOK=entry	f:	nop			<->	jal t0, stub
 *	HOOK=mcount	f+n:	auipc ra; jalr ra	->	nop; nop	(once, at boot)
 *			f+n+4:	nop			<->	jal ra, ftrace_caller
 *
 * The record names the word that is toggled: the one nop, or the second of the pair.
 */

/*
 * The folder riscv64/, and arm64/ with the same files: all of the tracer that is different
 * on the two architectures. For C code the Makefile makes a link to it, asm-ftrace,
 * so "asm-ftrace/hook.h" is the header of the architecture that is built.
 *
 * What runs, in this order, and in which labs' kernels it is:
 *
 *	the site	(hook.h, insn.h) calls a stub, or:
 *	trampoline.c	7, 8	a module's site calls its trampoline, if the stub is far away
 *	islands.S	3 to 8	a site calls an island, if the stub is far away
 *	mcount.S	1 to 3	_mcount; in lab 3 no site calls it after boot
 *	mcount_caller.S	3	ftrace_caller for one tracer: a stub and all that follows
 *	caller.S	4 to 8	the stubs, and ftrace_caller for many ops
 *	graph_caller.S	5	the callback of function_graph's op, for one user
 *	graph.S		5 to 8	return_to_handler: a traced function returns to it
 *
 * No C function calls the assembly by name. The assembly calls the callback, which gets a
 * struct ftrace_regs (regs.h); prepare_ftrace_return(), in lab 5; and
 * ftrace_return_to_handler().
 * insn.h, hook.h and regs.h are for every room, and for kern/; fetch.h is for probes/ and
 * events/. probe.h implements probes/probe_insn.h for probes/, and trampoline.c
 * implements modules/trampoline.h for modules/.
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

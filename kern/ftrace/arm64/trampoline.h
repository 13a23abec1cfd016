/*
 * arm64: a trampoline, by which a call site of a module reaches a stub that is
 * farther away than `bl` goes. Pure functions; the host tests compare them with the
 * assembler.
 *
 *	adrp x16, page
 *	add x16, x16, lo	x16 is free at a function's entry (caller.S), and x9 and x30 are not
 *	br x16
 */
#ifndef FTRACE_TRAMPOLINE_H
#define FTRACE_TRAMPOLINE_H

#include "errno.h"
#include "print.h"
#include "types.h"

#define TRAMPOLINE_WORDS 3
#define TRAMPOLINE_ADRP	 0x90000010u
#define TRAMPOLINE_ADD	 0x91000210u
#define TRAMPOLINE_BR	 0xd61f0200u

/* The words of a trampoline at @ip that leads to @target. -ERANGE: it is farther than 4 GiB. */
static inline int trampoline_encode(unsigned long ip, unsigned long target, u32 word[TRAMPOLINE_WORDS])
{
	long pages = (long)(target >> 12) - (long)(ip >> 12);

	if (pages < -(1l << 20) || pages >= 1l << 20)
		return -ERANGE;
	word[0] = TRAMPOLINE_ADRP | ((u32)pages & 3) << 29 | ((u32)pages >> 2 & 0x7ffff) << 5;
	word[1] = TRAMPOLINE_ADD | (u32)(target & 0xfff) << 10;
	word[2] = TRAMPOLINE_BR;
	return 0;
}

/* Where the trampoline at @ip leads; false: these words are none. */
static inline bool trampoline_target(unsigned long ip, const u32 word[TRAMPOLINE_WORDS], unsigned long *target)
{
	long pages = (s32)((word[0] >> 5 & 0x7ffff) << 13 | (word[0] >> 29 & 3) << 11) >> 11;

	if ((word[0] & 0x9f00001f) != TRAMPOLINE_ADRP || (word[1] & 0xffc003ff) != TRAMPOLINE_ADD || word[2] != TRAMPOLINE_BR)
		return false;
	*target = (ip & ~0xffful) + pages * 4096 + (word[1] >> 10 & 0xfff);
	return true;
}

/* Disassemble it into @buf. */
static inline void trampoline_describe(char *buf, size_t size, const u32 word[TRAMPOLINE_WORDS])
{
	unsigned long page;

	if (trampoline_target(0, word, &page))
		snprintf(buf, size, "adrp x16, pc page %+ld; add x16, x16, #%#x; br x16", (long)page >> 12, word[1] >> 10 & 0xfff);
	else
		snprintf(buf, size, "no trampoline");
}

#endif

/*
 * riscv64: a trampoline, by which a call site of a module reaches a stub that is
 * farther away than `jal` goes. Pure functions; the host tests compare them with the
 * assembler.
 *
 *	auipc t1, hi
 *	jalr x0, lo(t1)		t1 is free at a function's entry (caller.S), and t0 is not
 *	ebreak			never reached
 */
#ifndef FTRACE_TRAMPOLINE_H
#define FTRACE_TRAMPOLINE_H

#include "errno.h"
#include "print.h"
#include "types.h"

#define TRAMPOLINE_WORDS 3
#define TRAMPOLINE_AUIPC 0x00000317u
#define TRAMPOLINE_JALR	 0x00030067u
#define TRAMPOLINE_END	 0x00100073u

/* The words of a trampoline at @ip that leads to @target. -ERANGE: it is farther than 2 GiB. */
static inline int trampoline_encode(unsigned long ip, unsigned long target, u32 word[TRAMPOLINE_WORDS])
{
	long off = target - ip, high = (off + 0x800) & ~0xfffl;

	if (high != (s32)high)
		return -ERANGE;
	word[0] = TRAMPOLINE_AUIPC | (u32)high;
	word[1] = TRAMPOLINE_JALR | (u32)(off - high) << 20;
	word[2] = TRAMPOLINE_END;
	return 0;
}

/* Where the trampoline at @ip leads; false: these words are none. */
static inline bool trampoline_target(unsigned long ip, const u32 word[TRAMPOLINE_WORDS], unsigned long *target)
{
	if ((word[0] & 0xfff) != TRAMPOLINE_AUIPC || (word[1] & 0xfffff) != TRAMPOLINE_JALR)
		return false;
	*target = ip + (long)(s32)(word[0] & ~0xfffu) + ((s32)word[1] >> 20);
	return true;
}

/* Disassemble it into @buf. */
static inline void trampoline_describe(char *buf, size_t size, const u32 word[TRAMPOLINE_WORDS])
{
	unsigned long target;

	if (trampoline_target(0, word, &target))
		snprintf(buf, size, "auipc t1, %#x; jalr x0, %d(t1)", word[0] >> 12, (s32)word[1] >> 20);
	else
		snprintf(buf, size, "no trampoline");
}

#endif

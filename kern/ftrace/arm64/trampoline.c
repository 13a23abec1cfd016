/*
 * arm64: trampolines; modules/trampoline.h says what each function does, and of which instructions
 * one is made.
 */
#include "trampoline.h"

#include "errno.h"
#include "print.h"

#define TRAMPOLINE_ADRP	 0x90000010u
#define TRAMPOLINE_ADD	 0x91000210u
#define TRAMPOLINE_BR	 0xd61f0200u

int trampoline_encode(unsigned long ip, unsigned long target, u32 word[TRAMPOLINE_WORDS])
{
#if LAB_START == 7
	return -ERANGE;
#else
	long pages = (long)(target >> 12) - (long)(ip >> 12);

	if (pages < -(1l << 20) || pages >= 1l << 20)
		return -ERANGE;
	word[0] = TRAMPOLINE_ADRP | ((u32)pages & 3) << 29 | ((u32)pages >> 2 & 0x7ffff) << 5;
	word[1] = TRAMPOLINE_ADD | (u32)(target & 0xfff) << 10;
	word[2] = TRAMPOLINE_BR;
	return 0;
#endif
}

bool trampoline_target(unsigned long ip, const u32 word[TRAMPOLINE_WORDS], unsigned long *target)
{
#if LAB_START == 7
	return false;
#else
	long pages = (s32)((word[0] >> 5 & 0x7ffff) << 13 | (word[0] >> 29 & 3) << 11) >> 11;

	if ((word[0] & 0x9f00001f) != TRAMPOLINE_ADRP || (word[1] & 0xffc003ff) != TRAMPOLINE_ADD ||
	    word[2] != TRAMPOLINE_BR)
		return false;
	*target = (ip & ~0xffful) + pages * 4096 + (word[1] >> 10 & 0xfff);
	return true;
#endif
}

void trampoline_describe(char *buf, size_t size, const u32 word[TRAMPOLINE_WORDS])
{
	unsigned long page;

	if (trampoline_target(0, word, &page))
		snprintf(buf, size, "adrp x16, pc page %+ld; add x16, x16, #%#x; br x16",
			 (long)page >> 12, word[1] >> 10 & 0xfff);
	else
		snprintf(buf, size, "no trampoline");
}

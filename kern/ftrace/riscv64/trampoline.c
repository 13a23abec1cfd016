/*
 * riscv64: trampolines; modules/trampoline.h says what each function does, and of which
 * instructions one is made.
 */
#include "trampoline.h"

#include "errno.h"
#include "print.h"

#define TRAMPOLINE_AUIPC 0x00000317u
#define TRAMPOLINE_JALR	 0x00030067u
#define TRAMPOLINE_END	 0x00100073u

int trampoline_encode(unsigned long ip, unsigned long target, u32 word[TRAMPOLINE_WORDS])
{
#if LAB_START == 7
	return -ERANGE;
#else
	long off = target - ip, high = (off + 0x800) & ~0xfffl;

	if (high != (s32)high)
		return -ERANGE;
	word[0] = TRAMPOLINE_AUIPC | (u32)high;
	word[1] = TRAMPOLINE_JALR | (u32)(off - high) << 20;
	word[2] = TRAMPOLINE_END;
	return 0;
#endif
}

bool trampoline_target(unsigned long ip, const u32 word[TRAMPOLINE_WORDS], unsigned long *target)
{
#if LAB_START == 7
	return false;
#else
	if ((word[0] & 0xfff) != TRAMPOLINE_AUIPC || (word[1] & 0xfffff) != TRAMPOLINE_JALR)
		return false;
	*target = ip + (long)(s32)(word[0] & ~0xfffu) + ((s32)word[1] >> 20);
	return true;
#endif
}

void trampoline_describe(char *buf, size_t size, const u32 word[TRAMPOLINE_WORDS])
{
	unsigned long target;

	if (trampoline_target(0, word, &target))
		snprintf(buf, size, "auipc t1, %#x; jalr x0, %d(t1)", word[0] >> 12,
			 (s32)word[1] >> 20);
	else
		snprintf(buf, size, "no trampoline");
}

/*
 * trampolines: makes trampolines over distances that no module has, and asks where words
 * lead: those of each trampoline, and those of one with a bit changed. For grading lab 7.
 *
 * The program checks nothing. It passes words and addresses to trampolines_seen() in
 * registers, for an observer of the processor.
 */
#include "app.h"

APP("", "make trampolines over any distance, for grading");

#if STAGE >= 7
#include "trampoline.h"

/* Any address far from both ends of the address space: nothing is read or written there. */
#define FROM 0x4000000000ul

__attribute__((noipa)) static notrace void trampolines_seen(u64 first_words, u64 last_word,
							    unsigned long target)
{
	barrier();
}

static void seen(const u32 word[TRAMPOLINE_WORDS], unsigned long target)
{
	trampolines_seen(word[0] | (u64)word[1] << 32, word[2], target);
}

/* Where do these words lead? */
__attribute__((noipa)) static void trampolines_followed(unsigned long ip,
							const u32 word[TRAMPOLINE_WORDS])
{
	unsigned long target = 0;

	trampoline_target(ip, word, &target);
	seen(word, target);
}

/* Make a trampoline over @off bytes, and follow it. */
__attribute__((noipa)) static void trampolines_made(unsigned long ip, long off)
{
	u32 word[TRAMPOLINE_WORDS] = {};
	int err = trampoline_encode(ip, ip + off, word);

	seen(word, 0);
	if (!err)
		trampolines_followed(ip, word);
}

int main(int argc, char **argv)
{
	/*
	 * Beside a power of two a half of the distance overflows, a sign changes, or the reach
	 * ends.
	 */
	static const long beside[] = {-0x804, -0x800, -4, 0, 0x7fc, 0x800};
	u32 word[TRAMPOLINE_WORDS] = {};

	for (int bit = 12; bit < 36; bit++)
		for (unsigned i = 0; i < ARRAY_SIZE(beside); i++) {
			trampolines_made(FROM + 0x1cc * bit, beside[i] + (1l << bit));
			trampolines_made(FROM + 0x1cc * bit, beside[i] - (1l << bit));
		}
	trampoline_encode(FROM, FROM - 0x123456bc, word);
	for (int bit = 0; bit < 32 * TRAMPOLINE_WORDS; bit++) {
		word[bit / 32] ^= 1u << bit % 32;
		trampolines_followed(FROM, word);
		word[bit / 32] ^= 1u << bit % 32;
	}
	return 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: only the kernels of labs 7 and 8 have this\n", argv[0]);
	return 1;
}
#endif

/*
 * A large program: 7 MiB of text, most of it beyond the 1 MiB that riscv64's `jal` reaches (make
 * APP=kern/ftrace/tests/far-program.c).
 *
 *	far_0 .. far_47	  96 KiB each: there are islands between them
 *	beyond		  in the middle of a section of 2.5 MiB, in which no island is possible
 *
 * Each thread calls all of them ROUNDS times; the sum shows that each ran.
 */
#include "app.h"

#ifdef __riscv
#define SKIP "j 1f\n"
#define SITE "nop\n"
#else
#define SKIP "b 1f\n"
#define SITE "nop\nnop\n"
#endif

/* clang-format off */
#define FAR(n)                                                                                 \
	__attribute__((noipa)) static int far_##n(int x)                                       \
	{                                                                                      \
		__asm__ volatile(SKIP ".zero 98304\n1:" : : : "memory");                       \
		return x + n;                                                                  \
	}
#define EIGHT(m, a, b, c, d, e, f, g, h) m(a) m(b) m(c) m(d) m(e) m(f) m(g) m(h)
#define EACH(m)                                                                                \
	EIGHT(m, 0, 1, 2, 3, 4, 5, 6, 7) EIGHT(m, 8, 9, 10, 11, 12, 13, 14, 15)                \
	EIGHT(m, 16, 17, 18, 19, 20, 21, 22, 23) EIGHT(m, 24, 25, 26, 27, 28, 29, 30, 31)      \
	EIGHT(m, 32, 33, 34, 35, 36, 37, 38, 39) EIGHT(m, 40, 41, 42, 43, 44, 45, 46, 47)
EACH(FAR)
/* clang-format on */

int beyond(int x);
__asm__(".pushsection .text.giant, \"ax\", %progbits\n"
	".zero 1310720\n"
	".globl beyond\n.type beyond, %function\n"
	"beyond:\n" SITE "ret\n.size beyond, . - beyond\n"
	".zero 1310720\n"
	".popsection\n");
#ifndef HOOK_mcount
__asm__(".pushsection __patchable_function_entries, \"awo\", %progbits, beyond\n"
	".balign 8\n.quad beyond\n"
	".popsection\n");
#endif

static int rounds;

static int run(void *unused)
{
	int sum = 0;

	for (int i = 0; i < rounds; i++) {
#define CALL(n) sum = far_##n(sum);
		EACH(CALL)
		sum = beyond(sum);
	}
	return sum;
}

int main(int argc, char **argv)
{
	thread_t threads[8];
	int n = cpu_count() < 8 ? cpu_count() : 8, wrong = 0;

	rounds = argc > 1 ? (int)strtoull(argv[1], NULL, 10) : 1;
	for (int i = 0; i < n; i++)
		if (thread_create_on(&threads[i], i, run, NULL))
			return 1;
	for (int i = 0; i < n; i++)
		wrong += thread_join(threads[i]) != rounds * (47 * 48 / 2);
	printf("%d threads, %d rounds, %d wrong sums\n", n, rounds, wrong);
	return wrong != 0;
}

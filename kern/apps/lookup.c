/*
 * lookup SEED: searches the table of records, in an order that the seed chooses:
 * for addresses of call sites, for addresses next to one, and for ranges with no,
 * one or many call sites. Then two tables are added, as loaded text would do it: one
 * without records, and one with three. Nothing else in lab 2 searches a table.
 */
#include "app.h"
#include "errno.h"
#include "ftrace.h"

APP("seed", "search the table of records, for grading");

#if STAGE == 2
/* so that each call returns into main() */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t next(uint64_t *random)
{
	*random = *random * 6364136223846793005 + 1442695040888963407;
	return *random >> 33;
}

/* The offsets are larger than those of the kernel's sites. */
struct dyn_ftrace lookup_later[] = {
	{.offset = 0x70000040}, {.offset = 0x70000044}, {.offset = 0x70000080},
};
static struct ftrace_table later = {.records = lookup_later,
				    .end = lookup_later + ARRAY_SIZE(lookup_later)};
/* There is no memory at the address of its records. */
static struct ftrace_table empty = {.records = (void *)8, .end = (void *)8, .next = &later};

INLINE unsigned long site(uint64_t *random)
{
	return ftrace_ip(&ftrace_records[next(random) % ftrace_record_count]);
}

/* Look up a range; each end may be below the first record or above the last one. */
INLINE void look_up_range(uint64_t *random)
{
	unsigned long from = site(random),
		      far = next(random) % 4 ? next(random) % 512 : next(random) % 65536;

	lookup_rec_range(from + next(random) % 3 - 1, from + far);
}

INLINE void look_up(uint64_t *random, unsigned long questions)
{
	for (unsigned long i = 0; i < questions; i++) {
		lookup_rec(site(random));
		lookup_rec(site(random) + 1 + next(random) % 8);
		look_up_range(random);
	}
	lookup_rec(KERNEL_BASE);
	lookup_rec_range(KERNEL_BASE, KERNEL_BASE);
	lookup_rec_range(KERNEL_BASE, ~0ul);
	/* far below text, with the lower half of a site's address */
	lookup_rec_range((uint32_t)ftrace_ip(&ftrace_records[ftrace_record_count / 2]), ~0ul);
	lookup_rec(ftrace_ip(&ftrace_records[ftrace_record_count - 1]) + 4);
}

INLINE void look_up_later(void)
{
	ftrace_kernel_table.next = &empty;
	/* A call just before the loop would make its first instruction count as an answer. */
	for (unsigned i = 0; i < ARRAY_SIZE(lookup_later); i++) {
		unsigned long ip = ftrace_ip(&lookup_later[i]);

		lookup_rec(ip);
		lookup_rec(ip + 8);
		lookup_rec_range(ip - 8, ip);
	}
	lookup_rec_range(ftrace_ip(&ftrace_records[ftrace_record_count - 1]) + 1, ~0ul);
	ftrace_kernel_table.next = NULL;
}

int main(int argc, char **argv)
{
	uint64_t random = argc > 1 ? strtoull(argv[1], NULL, 16) : 1;

	if (!ftrace_record_count)
		return complain(argv[0], "the table of records", ENOENT);
	look_up(&random, ftrace_record_count);
	look_up_later();
	return 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: only lab 2's kernel has this\n", argv[0]);
	return 1;
}
#endif

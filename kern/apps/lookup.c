/*
 * lookup: looks every call site's record up, and addresses at which there is
 * none. Nothing else in lab 2 searches the table. An observer outside learns
 * what was right from the addresses that lookup_show() loads from.
 */
#include "app.h"
#include "ftrace.h"

const char *const program_help[] = {"", "looks each call site's record up, for grading"};

#if STAGE == 2
enum item { AT_SITE, BEHIND_SITE, IN_RANGE, BEFORE_ALL, BEHIND_ALL, ITEMS };
static volatile char lookup_seen[4 * ITEMS];

/* One answer: was it right, was it NULL? An address says which. */
__attribute__((noipa)) static void lookup_show(unsigned item, const void *is, const void *must_be)
{
	(void)lookup_seen[4 * item + 2 * !is + (is == must_be)];
}

int main(int argc, char **argv)
{
	unsigned long last = 0;

	for (uint32_t i = 0; i < ftrace_record_count; i++) {
		unsigned long ip = ftrace_ip(&ftrace_records[i]);

		lookup_show(AT_SITE, lookup_rec(ip), &ftrace_records[i]);
		lookup_show(BEHIND_SITE, lookup_rec(ip + 1), NULL);
		lookup_show(IN_RANGE, lookup_rec_range(last + 1, ip + 1), &ftrace_records[i]);
		last = ip;
	}
	lookup_show(BEFORE_ALL, lookup_rec(KERNEL_BASE), NULL);
	lookup_show(BEHIND_ALL, lookup_rec(last + 4), NULL);
	return 0;
}
#else
int main(int argc, char **argv)
{
	printf("%s: only lab 2's kernel has this\n", argv[0]);
	return 1;
}
#endif

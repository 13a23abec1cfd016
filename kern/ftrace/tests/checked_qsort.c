/*
 * The qsort() that recordmcount is linked with, in place of the C library's. It
 * compares each pair in both orders, and one of them with itself, and exchanges the
 * two only if all three results are right. A comparison that is right in one order
 * only sorts nothing here; with another qsort() it might never be noticed. So does one
 * that is wrong for two addresses far apart, which no kernel's text has.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

static bool right_when_far_apart(int (*compare)(const void *, const void *))
{
	for (unsigned bit = 12; bit < 48; bit++) {
		uint64_t low = 0xffff000000000000, high = low | 1ull << bit;

		if (compare(&low, &high) >= 0 || compare(&high, &low) <= 0) {
			fprintf(stderr, "by_address has %#lx and %#lx in the wrong order\n", low,
				high);
			return false;
		}
	}
	return true;
}

/* An insertion sort: nearly all sites are in order already, as in text. */
void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	char *a = base, *moved = malloc(size);

	if (!moved)
		abort();
	if (!right_when_far_apart(compare))
		n = 0;
	for (size_t i = 1; i < n; i++) {
		char *it = a + i * size, *to = it;

		while (to > a && compare(to - size, it) > 0 && compare(it, to - size) < 0 &&
		       !compare(it, it))
			to -= size;
		memcpy(moved, it, size);
		memmove(to + size, to, it - to);
		memcpy(to, moved, size);
	}
	free(moved);
}

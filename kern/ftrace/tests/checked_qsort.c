/*
 * qsort() as recordmcount is linked with it, in place of the C library's. It
 * asks about each pair both ways round, and what comes later goes first only
 * if both answers say so. One library's qsort() may never notice a comparison
 * that is right one way alone: here that sorts nothing.
 */
#include <stdlib.h>
#include <string.h>

void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));

/* Nearly all is in order already, as text is. */
void __wrap_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	char *a = base, *moved = malloc(size);

	if (!moved)
		abort();
	for (size_t i = 1; i < n; i++) {
		char *it = a + i * size, *to = it;

		while (to > a && compare(to - size, it) > 0 && compare(it, to - size) < 0)
			to -= size;
		memcpy(moved, it, size);
		memmove(to + size, to, it - to);
		memcpy(to, moved, size);
	}
	free(moved);
}

/*
 * qsort() as recordmcount is linked with it, in place of the C library's: a
 * merge sort that asks about each pair both ways round. What comes later goes
 * first only if both answers say so: a comparison that is right one way alone,
 * which one library's qsort() may never notice, sorts nothing here.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef int (*compare_t)(const void *, const void *);

void __wrap_qsort(void *base, size_t n, size_t size, compare_t compare);

/* @room: as large as @a. */
static void sort(char *a, size_t n, size_t size, compare_t compare, char *room)
{
	size_t half = n / 2, left = 0, right = half;

	if (n < 2)
		return;
	sort(a, half, size, compare, room);
	sort(a + half * size, n - half, size, compare, room);
	memcpy(room, a, n * size);
	for (size_t i = 0; i < n; i++) {
		const char *l = room + left * size, *r = room + right * size;
		bool later = left == half || (right < n && compare(l, r) > 0 && compare(r, l) < 0);

		memcpy(a + i * size, later ? r : l, size);
		later ? right++ : left++;
	}
}

void __wrap_qsort(void *base, size_t n, size_t size, compare_t compare)
{
	char *room = malloc(n * size + 1);

	if (!room)
		abort();
	sort(base, n, size, compare, room);
	free(room);
}

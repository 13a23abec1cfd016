/*
 * Symbols of text: the table that kern/mksyms.py makes from the first link.
 *
 * ksym_offsets[] holds each function's offset from KERNEL_BASE, sorted, and then
 * the end of the last function. ksym_names[i] is the offset of function i's name
 * in ksym_text. Panics and tracers use these functions: no call site.
 */
#include "ksyms.h"

#include "memory.h"
#include "string.h"

extern const u32 ksym_count, ksym_offsets[], ksym_names[];
extern const char ksym_text[];

notrace const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size)
{
	u32 low = 0, high = ksym_count, want = addr - KERNEL_BASE;

	if (!high || addr < KERNEL_BASE + ksym_offsets[0] ||
	    addr >= KERNEL_BASE + ksym_offsets[high])
		return NULL;
	while (high - low > 1) {
		u32 middle = (low + high) / 2;

		if (ksym_offsets[middle] <= want)
			low = middle;
		else
			high = middle;
	}
	if (offset)
		*offset = want - ksym_offsets[low];
	if (size)
		*size = ksym_offsets[low + 1] - ksym_offsets[low];
	return ksym_text + ksym_names[low];
}

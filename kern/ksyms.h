/*
 * Symbols of text, sorted by address: a table that the build makes from the
 * first link and links into the second (kern/mksyms.py). No function here has
 * a call site: panics and tracers use them.
 */
#ifndef KERN_KSYMS_H
#define KERN_KSYMS_H

#include "types.h"

/* Name of the function that contains @addr, its offset and size (NULL: not wanted); NULL if none. */
const char *ksym_lookup(unsigned long addr, unsigned long *offset, unsigned long *size);

#endif

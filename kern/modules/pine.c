/*
 * The second of two seeded modules; seeded.h. Its text is half a page longer, so that of
 * two trampolines, one in each module, one has the lower part of its distance in each half.
 */
#define TREE pine
#include "seeded.h"

__asm__(".pushsection .text.pad, \"ax\", @progbits\n\t.skip 2048\n\t.popsection");

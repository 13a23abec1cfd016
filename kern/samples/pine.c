/*
 * The second of two seeded modules; seeded.h. Its text is half a page longer. So the
 * distances of the two modules' trampolines have their lower 12 bits in different halves,
 * and on riscv64 only one of them needs a carry.
 */
#define TREE pine
#include "seeded.h"

__asm__(".pushsection .text.pad, \"ax\", @progbits\n\t.skip 2048\n\t.popsection");

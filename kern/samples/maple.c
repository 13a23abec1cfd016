/* The first of two seeded modules; seeded.h. */
#define TREE maple
#include "seeded.h"

/* A module without a function: there is nothing to trace in it (lab 7). */
#include "module.h"

const char stone_word[] = "stone";
EXPORT_SYMBOL(stone_word);

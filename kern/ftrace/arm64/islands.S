/*
 * Islands: there is none. `bl` reaches 128 MiB, and a text that were larger
 * would say so at build: its far call sites are listed and never traced.
 */
#include "islands.h"

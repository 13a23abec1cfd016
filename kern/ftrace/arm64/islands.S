/*
 * arm64 has no islands: `bl` reaches 128 MiB. In a larger text the build lists
 * the call sites that are out of reach, and they are never traced.
 */
#include "islands.h"

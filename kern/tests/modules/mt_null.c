/* For module_kt.c: its table of exports has an entry without a name. */
#include "module.h"

TABLE_ENTRY(const struct export, export, mt_null) = {NULL, 1};

/* For module_kt.c, which loads it under nine names, and with the 0 of its symbol changed. */
#include "module.h"

int mt_part_0(void);
int mt_part_0(void)
{
	return 1;
}
EXPORT_SYMBOL(mt_part_0);

static void part_exit(void)
{
}
module_exit(part_exit);

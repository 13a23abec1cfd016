/* For module_kt.c: exports one name twice. */
#include "module.h"

int mt_doubled(void);
int mt_doubled(void)
{
	return 1;
}
EXPORT_SYMBOL(mt_doubled);
TABLE_ENTRY(const struct export, export, mt_doubled_again) = {"mt_doubled",
							      (unsigned long)&mt_doubled};

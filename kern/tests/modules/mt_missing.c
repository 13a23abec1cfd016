/* For module_kt.c: uses two symbols that no module exports. */
#include "module.h"

void mt_nobody_has_this(void);
extern int mt_nor_this;

static int missing_init(void)
{
	mt_nobody_has_this();
	return mt_nor_this;
}
module_init(missing_init);

/* For module_kt.c: has no module_exit(), so it stays. */
#include "module.h"

static int stays_init(void)
{
	return 0;
}
module_init(stays_init);

/* For module_kt.c: uses what mt_hello exports. */
#include "module.h"

int mt_leaf(int x);

int mt_twice(int x);
int mt_twice(int x)
{
	return 2 * mt_leaf(x);
}
EXPORT_SYMBOL(mt_twice);

static int user_init(void)
{
	return mt_leaf(1) == 4 ? 0 : -EINVAL;
}
module_init(user_init);

static void user_exit(void)
{
}
module_exit(user_exit);

/*
 * For module_kt.c: functions that CPUs call while the module's sites are patched. Each has its own
 * result.
 */
#include "module.h"

#define FUNCTION(n)                                                                           \
	int mt_many_##n(int x);                                                               \
	__noinline int mt_many_##n(int x)                                                     \
	{                                                                                     \
		barrier();                                                                    \
		return x + n;                                                                 \
	}

FUNCTION(1)
FUNCTION(2)
FUNCTION(3)
FUNCTION(4)
FUNCTION(5)
FUNCTION(6)
FUNCTION(7)
FUNCTION(8)

int mt_many(int x);
int mt_many(int x)
{
	return mt_many_1(x) + mt_many_2(x) + mt_many_3(x) + mt_many_4(x) + mt_many_5(x) +
	       mt_many_6(x) + mt_many_7(x) + mt_many_8(x);
}
EXPORT_SYMBOL(mt_many);

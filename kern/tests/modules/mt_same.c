/* For module_kt.c: exports a symbol that mt_hello exports too. */
#include "module.h"

int mt_leaf(int x);
int mt_leaf(int x)
{
	return x;
}
EXPORT_SYMBOL(mt_leaf);

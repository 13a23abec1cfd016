/* For module_kt.c: functions to trace, parameters, an export, data of all kinds. */
#include "module.h"

static int delay = 3;
static long big = -7;
static bool loud;
static const char *word = "none";
module_param(delay, int);
module_param(big, long);
module_param(loud, bool);
module_param(word, charp);

static int zeroed[1000];
static const int fixed[4] = {2, 3, 5, 7};
static int (*pointer)(int); /* set by init */

int mt_leaf(int x);
long mt_params(int which);
int mt_call(int x, int (*through)(int));
int mt_sum(void);

__noinline int mt_leaf(int x)
{
	barrier();
	return x + fixed[x & 3];
}
EXPORT_SYMBOL(mt_leaf);

long mt_params(int which)
{
	switch (which) {
	case 0:
		return delay;
	case 1:
		return big;
	case 2:
		return loud;
	default:
		return (long)word;
	}
}
EXPORT_SYMBOL(mt_params);

/*
 * Call @through from inside the module; afterwards there is work left, so that it is no tail call.
 */
__noinline int mt_call(int x, int (*through)(int))
{
	int got = through(x);

	barrier();
	return got + 1;
}
EXPORT_SYMBOL(mt_call);

int mt_sum(void)
{
	int sum = pointer(1);

	for (unsigned i = 0; i < ARRAY_SIZE(zeroed); i++)
		sum += zeroed[i];
	return sum;
}
EXPORT_SYMBOL(mt_sum);

static int hello_init(void)
{
	pointer = mt_leaf;
	return 0;
}
module_init(hello_init);

void (*mt_at_exit)(void); /* called by exit, if a test has set it */
EXPORT_SYMBOL(mt_at_exit);

static void hello_exit(void)
{
	if (mt_at_exit)
		mt_at_exit();
	pointer = NULL;
}
module_exit(hello_exit);

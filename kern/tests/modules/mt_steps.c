/*
 * For module_steps_kt.c: functions that are called through an export and through a file while the
 * module is loaded or removed.
 */
#include "file.h"
#include "module.h"

static struct node *node;

int mt_steps_leaf(int x);
int mt_steps_call(int x, int (*through)(int));

__noinline int mt_steps_leaf(int x)
{
	barrier();
	return x + 1;
}
EXPORT_SYMBOL(mt_steps_leaf);

/* Afterwards there is work left, so that @through is no tail call. */
__noinline int mt_steps_call(int x, int (*through)(int))
{
	int got = through(mt_steps_leaf(x));

	barrier();
	return got + 1;
}
EXPORT_SYMBOL(mt_steps_call);

int mt_steps_tail(int x, int (*through)(int));
__noinline int mt_steps_tail(int x, int (*through)(int))
{
	return through(x);
}
EXPORT_SYMBOL(mt_steps_tail);

static ssize_t mt_steps_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	*buf = mt_steps_leaf('a');
	return 1;
}
static const struct file_ops ops = {.read = mt_steps_read};

/* A step: the file can be read, and the module is not live yet. */
static __noinline void mt_steps_made(void)
{
	barrier();
}

static int mt_steps_init(void)
{
	node = file_make("/mt_steps", 0444, &ops, NULL);
	mt_steps_made();
	return node ? 0 : -ENOMEM;
}
module_init(mt_steps_init);

static void mt_steps_exit(void)
{
	file_unmake(node);
}
module_exit(mt_steps_exit);

/* For module_kt.c: its init makes a file, takes it back, and fails. */
#include "file.h"
#include "module.h"

static const struct file_ops ops;

static int fails_init(void)
{
	struct node *node = file_make("/mt_fails", 0444, &ops, NULL);

	if (node)
		file_unmake(node);
	return -EIO;
}
module_init(fails_init);

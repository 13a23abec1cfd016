/*
 * instances/: mkdir makes a directory with a tracer, filters, buffers and
 * options of its own, rmdir ends its tracing and frees it.
 *
 * A directory is filled before it is linked into the tree, and unlinked before
 * any part of it is freed. So an open file of an instance can rely on the whole
 * instance.
 */
#include "filter.h"
#include "print.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

struct instance {
	struct trace_array tr;
	struct ftrace_ops ops;
};
_Static_assert(sizeof(struct instance) <= PAGE_SIZE, "one page");

/*
 * The buffers get their full size at their first use, so that many instances fit. As on Linux the
 * options begin as those of TRACEFS are now, but for two.
 */
static struct instance *instance_new(void)
{
	struct instance *i = page_alloc(0);

	if (!i)
		return NULL;
	memset(i, 0, sizeof(*i));
	i->ops = (struct ftrace_ops){ftrace_stub, FTRACE_OPS_FL_RECURSION, .slot = -1};
	i->tr.ops = &i->ops;
	i->tr.options = global_trace.options &
			~(TRACE_ITER_EVENT_FORK | TRACE_ITER_FUNCTION_FORK);
	if (trace_array_init(&i->tr, 0)) {
		page_free(i, 0);
		return NULL;
	}
	return i;
}

static void instance_free(struct instance *i)
{
	mutex_lock(&trace_lock);
	tracing_set_tracer(&i->tr, nop_tracer.name);
	mutex_unlock(&trace_lock);
	TABLE_FOR_EACH(const struct instance_hook, instance_hook, hook)
		hook->gone(&i->tr);
	for (int list = 0; HAS_MODULES && list < 2; list++)
		ftrace_mod_forget(&i->ops.filter, list);
	ftrace_filter_free(&i->ops.filter);
	ftrace_filter_free(&i->tr.graph_lists);
	trace_array_free(&i->tr);
	page_free(i, 0);
}

static int hooks_made(struct trace_array *tr)
{
	int err = 0;

	TABLE_FOR_EACH(const struct instance_hook, instance_hook, hook)
		err = err ?: hook->made(tr);
	return err;
}

/* Make the directory and its files, not yet linked into the tree. */
static struct node *tree_new(const char *name)
{
	struct node *tree = file_tree_new(name, S_DIR | 0555);
	struct instance *i = tree ? instance_new() : NULL;

	if (i) {
		tree->data = &i->tr;
		i->tr.dir = tree;
		if (!tracefs_populate(tree, true) && !hooks_made(&i->tr))
			return tree;
		instance_free(i);
	}
	if (tree)
		file_tree_free(tree);
	return NULL;
}

static void tree_free(struct node *tree)
{
	instance_free(container_of(tree->data, struct instance, tr));
	file_tree_free(tree);
}

static int instance_mkdir(struct node *dir, const char *name)
{
	struct node *tree = tree_new(name);
	int err;

	if (!tree) {
		printk("tracefs: instances/%s: no memory\n", name);
		return -ENOMEM;
	}
	err = file_attach(dir, tree);
	if (err)
		tree_free(tree);
	return err;
}

static int instance_rmdir(struct node *dir, const char *name)
{
	struct node *tree;
	int err = file_detach(dir, name, &tree);

	if (err == -EBUSY)
		printk("tracefs: instances/%s: one of its files is open, or a thread's current "
		       "directory is in it\n",
		       name);
	if (!err)
		tree_free(tree);
	return err;
}

static const struct file_ops instances_ops = {.mkdir = instance_mkdir, .rmdir = instance_rmdir};
TRACEFS_FILE(instances, "instances", S_DIR | 0555, &instances_ops, NULL);

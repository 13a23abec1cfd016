/*
 * What modules may use of the tracer: ops, filters, function_graph.
 *
 * A callback that has a call site would be traced while it traces, so it is refused. The
 * build proves that a module's functions without a call site reach no function with one
 * (tools/proof.py).
 */
#include "asm-ftrace/hook.h"
#include "fgraph.h"
#include "ftrace_module.h"
#include "module.h"
#include "ftrace_internal.h"

static int check_callback(void *callback)
{
	unsigned long at = (unsigned long)callback;
	bool has_site;

	/* so that no other module is removed while its records are searched */
	mutex_lock(&ftrace_lock);
	has_site = lookup_rec(at) || lookup_rec(at + HOOK_ENTRY_OFFSET);
	mutex_unlock(&ftrace_lock);
	if (!has_site)
		return 0;
	printk("ftrace: the callback %ps has a call site: mark it notrace\n", callback);
	return -EINVAL;
}

static int register_function(struct ftrace_ops *op)
{
	return check_callback(op->func) ?: register_ftrace_function(op);
}
TABLE_ENTRY(const struct export, export, export_register_ftrace_function) = {
	"register_ftrace_function", (unsigned long)register_function};

static int register_graph(struct fgraph_ops *gops)
{
	return check_callback(gops->entryfunc) ?: check_callback(gops->retfunc) ?:
	       register_ftrace_graph(gops);
}
TABLE_ENTRY(const struct export, export, export_register_ftrace_graph) = {
	"register_ftrace_graph", (unsigned long)register_graph};

EXPORT_SYMBOL(unregister_ftrace_function);
EXPORT_SYMBOL(ftrace_set_filter);
EXPORT_SYMBOL(ftrace_filter_edit);
EXPORT_SYMBOL(ftrace_filter_free);
EXPORT_SYMBOL(unregister_ftrace_graph);
EXPORT_SYMBOL(fgraph_reserve_data);
EXPORT_SYMBOL(fgraph_retrieve_data);
EXPORT_SYMBOL(fgraph_retrieve_parent_data);
EXPORT_SYMBOL(fgraph_get_task_var);

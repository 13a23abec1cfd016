/* What modules may use of the tracer: ops, filters, function_graph. */
#include "fgraph.h"
#include "ftrace_module.h"
#include "module.h"
#include "tracer.h"

EXPORT_SYMBOL(register_ftrace_function);
EXPORT_SYMBOL(unregister_ftrace_function);
EXPORT_SYMBOL(ftrace_set_filter);
EXPORT_SYMBOL(ftrace_filter_edit);
EXPORT_SYMBOL(ftrace_filter_free);
EXPORT_SYMBOL(register_ftrace_graph);
EXPORT_SYMBOL(unregister_ftrace_graph);
EXPORT_SYMBOL(fgraph_reserve_data);
EXPORT_SYMBOL(fgraph_retrieve_data);
EXPORT_SYMBOL(fgraph_retrieve_parent_data);
EXPORT_SYMBOL(fgraph_get_task_var);

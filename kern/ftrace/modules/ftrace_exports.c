/* What modules may use of the tracer: ops, filters, function_graph, probes, live patches. */
#include "fgraph.h"
#include "fprobe.h"
#include "ftrace_module.h"
#include "kprobes.h"
#include "kretprobe.h"
#include "livepatch.h"
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

EXPORT_SYMBOL(register_kprobe);
EXPORT_SYMBOL(unregister_kprobe);
EXPORT_SYMBOL(enable_kprobe);
EXPORT_SYMBOL(disable_kprobe);
EXPORT_SYMBOL(register_fprobe);
EXPORT_SYMBOL(register_fprobe_ips);
EXPORT_SYMBOL(register_fprobe_syms);
EXPORT_SYMBOL(unregister_fprobe);
EXPORT_SYMBOL(register_kretprobe);
EXPORT_SYMBOL(unregister_kretprobe);
EXPORT_SYMBOL(klp_enable_patch);
EXPORT_SYMBOL(klp_disable_patch);

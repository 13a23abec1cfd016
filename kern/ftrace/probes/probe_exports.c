/* What modules may use of the probes. */
#include "fprobe.h"
#include "kprobes.h"
#include "kretprobe.h"
#include "livepatch.h"
#include "module.h"

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

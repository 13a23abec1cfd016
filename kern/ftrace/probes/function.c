/* Finding the one function that a probe or a patch names. */
#include "asm-ftrace/hook.h"
#include "errno.h"
#include "fprobe.h"
#include "string.h"
#include "tracer.h"

int probe_find_function(const char *name, unsigned long addr, struct dyn_ftrace **found)
{
	*found = NULL;
	if (!name == !addr)
		return -EINVAL;
	if (!name)
		*found = lookup_rec(addr + HOOK_ENTRY_OFFSET) ?: lookup_rec(addr);
	else
		for_each_ftrace_rec(rec) {
			if (strcmp(ftrace_name(rec), name))
				continue;
			if (*found)
				return -EINVAL;
			*found = rec;
		}
	return *found && !((*found)->flags & FTRACE_FL_DISABLED) ? 0 : -ENOENT;
}

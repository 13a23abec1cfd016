/* Stages without modules: no word of a filter names one, and no request for one is kept. */
#include "errno.h"
#include "tracer.h"

int ftrace_mod_apply(struct ftrace_filter *filter, bool notrace_list, struct ftrace_set *set, const char *word, size_t len)
{
	return -EINVAL;
}

bool ftrace_mod_requests(const struct ftrace_filter *filter, bool notrace_list)
{
	return false;
}

void ftrace_mod_forget(const struct ftrace_filter *filter, bool notrace_list)
{
}

void ftrace_mod_show(struct seq *s, const struct ftrace_filter *filter, bool notrace_list)
{
}

/* Stages without modules: a filter's word never names one, no request is kept, and functions are never removed from all hashes. */
#include "errno.h"
#include "hash.h"
#include "tracer.h"

int ftrace_mod_apply(struct ftrace_filter *filter, bool notrace_list, struct ftrace_set *set, const char *word, size_t len)
{
	return -EINVAL;
}

void ftrace_mod_hold(const struct ftrace_filter *filter, bool notrace_list, const struct ftrace_set *set)
{
}

void ftrace_mod_commit(const struct ftrace_set *set)
{
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

bool ftrace_hash_list(struct ftrace_hash *hash)
{
	return true;
}

void ftrace_hash_unlist(const struct ftrace_hash *hash)
{
}

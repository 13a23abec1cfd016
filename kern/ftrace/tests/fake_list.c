/* What `cat` of a file that is a filter shows, in fake_console. */
#include "fake_kernel.h"
#include "tracefs.h"

static struct ftrace_filter *listed;

static struct ftrace_filter *filter_of(const struct file *f)
{
	return listed;
}

void fake_list(struct ftrace_filter *filter)
{
	struct filter_file which = {filter_of};
	struct node node = {.data = &which};
	struct file file = {.node = &node};
	struct seq seq = {.arg = &which, .file = &file};

	listed = filter;
	filter_file_ops.open(&file);
	for (u64 item = 0; !fake_show(&seq, item);)
		item++;
}

/* A filter as a file: what `cat` of it shows, in fake_console, and what `echo` into it does. */
#include "fake_kernel.h"
#include "file.h"
#include "filter.h"
#include "string.h"

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

struct fake_edit {
	struct filter_file which;
	struct node node;
	struct file file;
};

struct fake_edit *fake_open(struct ftrace_filter *filter, bool append, bool notrace_list)
{
	struct fake_edit *e = kzalloc(sizeof(*e));

	e->which = (struct filter_file){filter_of, notrace_list};
	e->node.name = "set_ftrace_filter";
	e->node.data = &e->which;
	e->file.node = &e->node;
	e->file.flags = O_WRONLY | (append ? 0 : O_TRUNC);
	listed = filter;
	filter_file_ops.open(&e->file);
	return e;
}

int fake_write(struct fake_edit *e, const char *words)
{
	u64 pos = 0;
	ssize_t n = filter_file_ops.write(&e->file, words, strlen(words), &pos);

	return n < 0 ? n : 0;
}

int fake_close(struct fake_edit *e)
{
	int err = filter_file_ops.release(&e->file);

	kfree(e);
	return err;
}

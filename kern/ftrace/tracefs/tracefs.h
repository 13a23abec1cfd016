/*
 * tracefs: each object of the tracer brings its own files; a stage has the
 * files of the objects that are linked into it, and no others.
 */
#ifndef FTRACE_TRACEFS_H
#define FTRACE_TRACEFS_H

#include "file.h"
#include "shell.h"

#define TRACEFS "/sys/kernel/tracing/"

struct tracefs_file {
	const char *path; /* below the directory */
	u16 mode, where;
	const struct file_ops *ops;
	void *data;
};
enum {
	TRACEFS_TOP = 0,      /* in TRACEFS alone */
	TRACEFS_EACH_CPU = 1, /* one for each CPU: %u in the path, and the data */
	TRACEFS_INSTANCE = 2, /* also in the directory of each instance */
	TRACEFS_CPU = TRACEFS_INSTANCE | TRACEFS_EACH_CPU,
};
#define TRACEFS_ENTRY(id, ...)                                                                \
	TABLE_ENTRY(const struct tracefs_file, tracefs_file, id##_tracefs) = {__VA_ARGS__}
#define TRACEFS_FILE(id, path, mode, ops, data)                                               \
	TRACEFS_ENTRY(id, path, mode, TRACEFS_TOP, ops, data)
#define TRACEFS_INSTANCE_FILE(id, path, mode, ops, data)                                      \
	TRACEFS_ENTRY(id, path, mode, TRACEFS_INSTANCE, ops, data)
#define TRACEFS_CPU_FILE(id, path, mode, ops)                                                 \
	TRACEFS_ENTRY(id, path, mode, TRACEFS_CPU, ops, NULL)

/*
 * Operations that print one generated text: show as in file.h's seq, write as in
 * file.h or NULL. trace_array_of(s->file) says whose file it is; data is s->arg.
 */
#define TRACEFS_TEXT_OPS(name, show_fn, write_fn)                                             \
	static int name##_open(struct file *f) { return seq_open(f, show_fn, f->node->data); } \
	static const struct file_ops name = {name##_open, seq_read, write_fn, seq_release}

/* Such a file; and one that can be written: what is written changes what is printed. */
#define TRACEFS_TEXT(id, path, where, show_fn)                                                \
	TRACEFS_TEXT_OPS(id##_ops, show_fn, NULL);                                            \
	TRACEFS_ENTRY(id, path, 0444, where, &id##_ops, NULL)
#define TRACEFS_CONTROL(id, path, where, show_fn, write_fn)                                   \
	TRACEFS_TEXT_OPS(id##_ops, show_fn, write_fn);                                        \
	TRACEFS_ENTRY(id, path, 0644, where, &id##_ops, NULL)

/*
 * A file that is one number, in decimal: get() is printed; set() takes what was
 * written, and its error is the write's. id: the variable's, path: below the directory.
 */
struct tracefs_value {
	u64 (*get)(const struct file *f);
	int (*set)(struct file *f, u64 value);
	long arg; /* theirs: tracefs_value(f)->arg */
};
extern const struct file_ops tracefs_value_ops;
static inline const struct tracefs_value *tracefs_value(const struct file *f)
{
	return f->node->data;
}
#define TRACEFS_U64(id, path, where, ...)                                                     \
	static const struct tracefs_value id##_value = {__VA_ARGS__};                         \
	TRACEFS_ENTRY(id, path, 0644, where, &tracefs_value_ops, (void *)&id##_value)

/* An option's file: for TRACE_OPTIONS and its like. */
u64 trace_option_get(const struct file *f);
int trace_option_set(struct file *f, u64 on);
#define TRACEFS_OPTION(id, name)                                                              \
	TRACEFS_U64(option_##id, "options/" name, TRACEFS_INSTANCE, trace_option_get,         \
		    trace_option_set, TRACE_OPTION_##id);

/* events/ftrace/<name>/format of every event type: what it looks like in a page, for tools. 0 or -ENOMEM. */
int trace_make_formats(struct node *dir);

/*
 * A file that is a filter: written and read as set_ftrace_filter, or as
 * set_ftrace_notrace, for another op. ops: filter_file_ops, data: this. filter.c
 */
struct filter_file {
	struct ftrace_ops *(*op)(const struct file *f);
	bool notrace_list;
	/* As Linux has it for set_graph_*: no numbers, and "!" must take something out. */
	bool strict;
};
extern const struct file_ops filter_file_ops;

/* Make the files of the table: TRACEFS's own, or those of an instance. 0 or -ENOMEM. */
int tracefs_populate(struct node *dir, bool instance);

/*
 * What was written: a decimal number and perhaps a newline, else -EINVAL or
 * -ERANGE, said on the console; or a word without the spaces around it, as
 * much of it as fits.
 */
int tracefs_number(struct file *f, const char *buf, size_t n, u64 *value);
void tracefs_word(const char *buf, size_t n, char *word, size_t size);

/* Say on the console which file refuses what was written, and why; return @err. */
int tracefs_refuse(struct file *f, int err, const char *fmt, ...) __printf(3, 4);

#endif

/*
 * tracefs: how a file of /sys/kernel/tracing is declared, and the directory
 * that is made of the declarations.
 *
 * 1. Every object of the tracer declares its own files with the macros below;
 *    the linker collects them in one table. So a stage has the files of the
 *    objects that are linked into it, and no others.
 * 2. At boot, and whenever an instance is made, tracefs.c turns the table into
 *    nodes: one for each file, or one for each CPU (%u in the path).
 * 3. open, read, write and close of such a file call its file_ops (file.h).
 *    trace_array_of(f) says which instance the file belongs to.
 *
 * Context of every file operation: a thread. A file that changes a trace array
 * does so with trace_lock held; one that changes filters or sites takes
 * ftrace_lock, inside.
 * A refusal goes through tracefs_refuse(): a message on the console, then errno.
 *
 * trace/, files/ and events/ declare files. This room calls later rooms only
 * through the table.
 */
#ifndef FTRACE_TRACEFS_H
#define FTRACE_TRACEFS_H

#include "file.h"
#include "init.h"

#define TRACEFS "/sys/kernel/tracing/"

/* Held while a trace array or another setting of the tracers changes. */
extern struct mutex trace_lock;

struct tracefs_file {
	const char *path; /* below the directory; or, from a / on, in the whole tree */
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
 * TRACEFS_TEXT: a file with generated text (file.h's TEXT_OPS()); in show,
 * trace_array_of(s->file) is the trace array of the file. TRACEFS_CONTROL: the same, and a write
 * calls set(), with trace_lock held. If @kind is word, set() gets the written word
 * without the spaces around it, cut to 99 characters. If @kind is number, it gets
 * the written decimal number. set() returns 0, or the error that the write returns.
 */
#define TRACEFS_TEXT(id, path, where, show_fn)                                                \
	TEXT_OPS(id##_ops, show_fn, NULL);                                            \
	TRACEFS_ENTRY(id, path, 0444, where, &id##_ops, NULL)
#define TRACEFS_CONTROL(id, path, where, show_fn, kind, set)                                  \
	CONTROL_OPS(id##_ops, show_fn, kind, set);                                            \
	TRACEFS_ENTRY(id, path, 0644, where, &id##_ops, NULL)
/* The operations of a control alone. */
#define CONTROL_OPS(name, show_fn, kind, set)                                                 \
	static ssize_t name##_write(struct file *f, const char *buf, size_t n, u64 *pos)      \
	{                                                                                     \
		return tracefs_set_##kind(f, buf, n, set);                                    \
	}                                                                                     \
	TEXT_OPS(name, show_fn, name##_write)
ssize_t tracefs_set_word(struct file *f, const char *buf, size_t n,
			 int (*set)(struct file *f, const char *word));
ssize_t tracefs_set_number(struct file *f, const char *buf, size_t n,
			   int (*set)(struct file *f, u64 value));

/*
 * A file with one decimal number. A read prints get(); a write is that of a
 * control of numbers. id: a name for the variables, path: below the directory.
 */
struct tracefs_value {
	u64 (*get)(const struct file *f);
	int (*set)(struct file *f, u64 value);
	long arg; /* for get() and set(), as tracefs_value(f)->arg */
};
extern const struct file_ops tracefs_value_ops;
static inline const struct tracefs_value *tracefs_value(const struct file *f)
{
	return f->node->data;
}
#define TRACEFS_U64(id, path, where, ...)                                                     \
	static const struct tracefs_value id##_value = {__VA_ARGS__};                         \
	TRACEFS_ENTRY(id, path, 0644, where, &tracefs_value_ops, (void *)&id##_value)

/* Make the files of the table: those of TRACEFS, or those of an instance. 0 or -ENOMEM. */
int tracefs_populate(struct node *dir, bool instance);

/* Print on the console that this file refuses a write, and why; return @err. */
int tracefs_refuse(struct file *f, int err, const char *fmt, ...) __printf(3, 4);

#endif

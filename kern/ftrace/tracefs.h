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
	const char *path; /* below TRACEFS */
	u16 mode;
	const struct file_ops *ops;
	void *data;
};
#define TRACEFS_FILE(id, path, mode, ops, data)                                               \
	TABLE_ENTRY(const struct tracefs_file, tracefs_file, id##_tracefs) = {path, mode, ops, data}

/* Files that print one generated text: show as in file.h's seq. */
#define TRACEFS_TEXT_OPS(name, show_fn)                                                       \
	static int name##_open(struct file *f) { return seq_open(f, show_fn, f->node->data); } \
	static const struct file_ops name = {name##_open, seq_read, NULL, seq_release}

/* The same with a write(): what is written changes what is printed. */
#define TRACEFS_CONTROL_OPS(name, show_fn, write_fn)                                          \
	static int name##_open(struct file *f) { return seq_open(f, show_fn, f->node->data); } \
	static const struct file_ops name = {name##_open, seq_read, write_fn, seq_release}

/* Make a file below TRACEFS; 0 or -ENOMEM. */
int tracefs_make(const char *path, u16 mode, const struct file_ops *ops, void *data);

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

/*
 * The shell: one on the console; its commands are collected by the linker.
 */
#ifndef KERN_SHELL_H
#define KERN_SHELL_H

#include "file.h"

struct shell_command {
	const char *name, *usage, *help;
	int (*fn)(int argc, char **argv); /* exit status 0..255 */
};
#define SHELL_COMMAND(n, f, u, h)                                                             \
	TABLE_ENTRY(const struct shell_command, shell_command, f##_command) = {n, u, h, f}

/*
 * Split a line into words: quotes ('...' and "..."), backslash, '>' and '>>'
 * with their file, '&' at the end, '#' begins a comment. Pure: host tests.
 */
struct command_line {
	int argc;
	char *argv[64];
	char *out;   /* file of > or >> */
	bool append, background;
	const char *error; /* a sentence, or NULL */
};
int shell_parse(char *line, struct command_line *c);

/* Where this thread's standard output goes: the console or a redirection. */
int out_printf(const char *fmt, ...) __printf(1, 2);
ssize_t out_write(const void *buf, size_t n);
struct node *shell_cwd(void);
int shell_main(void *unused);

/* Initcalls: run by main() in a thread, all CPUs up, before the shell; by level, then link order. */
struct initcall {
	int (*fn)(void);
	const char *name;
};
#define INITCALL(f) TABLE_ENTRY(const struct initcall, initcall, f##_initcall) = {f, #f}

#endif

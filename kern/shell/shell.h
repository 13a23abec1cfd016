/*
 * The room shell/: what a person types at the console, and what runs programs for it.
 *
 *	shell.c		runs each command of a line as a job
 *	parse.c		splits a line into commands and words
 *	expand.c	finds the files that a glob matches
 *	pipe.c		what a command writes and the next one reads
 *	line.c		edits the line, with a history
 *	commands.c	the built-in commands
 *	framed.c	commands of a program at a serial line that may lose bytes
 *	app.c		what programs call: app.h
 *
 * kern/main.c starts it last. A room's own commands are in the linker's table (SHELL_COMMAND).
 * This room calls all rooms before it.
 */
#ifndef KERN_SHELL_H
#define KERN_SHELL_H

#include "file.h"
#include "init.h"

struct shell_command {
	const char *name, *usage, *help;
	int (*fn)(int argc, char **argv); /* exit status 0..255 */
	bool alone; /* uses state of the shell's own thread: not run as a job or under `time` */
};
/* An empty usage: the command takes no arguments. */
#define SHELL_COMMAND(n, f, u, h, ...)                                                        \
	TABLE_ENTRY(const struct shell_command, shell_command, f##_command) =                 \
		{n, u, h, f, ##__VA_ARGS__}

/*
 * Write to this thread's standard output: the console or a redirection. A failed
 * write is reported once, when the command ends: "echo: trace_clock: Invalid argument (EINVAL)".
 */
int out_printf(const char *fmt, ...) __printf(1, 2);
ssize_t out_write(const void *buf, size_t n);
struct node *shell_cwd(void);
/*
 * Read and run lines, for ever. @ended: the thread in which the shell was until now, to be joined;
 * or NULL.
 */
int shell_main(void *ended);

/* Print "cat: foo: No such file or directory (ENOENT)" on the console. Return: exit status 1. */
int complain(const char *command, const char *what, int err);
/* Run one command in this thread, without redirection. Return: its exit status. */
int shell_run_words(int argc, char **argv);

#endif

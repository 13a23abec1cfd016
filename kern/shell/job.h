/* Shared by shell.c (which runs jobs) and commands.c (which lists them and waits). */
#ifndef KERN_JOB_H
#define KERN_JOB_H

#include "line.h"
#include "shell.h"

struct job {
	int id;
	struct thread *thread;
	struct command_line line; /* its words are in text */
	/* its redirection, while open; here because Ctrl-C may end a program's thread */
	struct file *out;
	char text[LINE_MAX];
	char title[40];
	struct job *next;
};

extern struct job *shell_jobs; /* newest first; accessed by the shell's thread only */
void shell_run_line(char *text);
int shell_usage(const char *text); /* print it; return exit status 2 */

#endif

/* Shared by shell.c (which runs jobs) and commands.c (which lists them and waits). */
#ifndef KERN_JOB_H
#define KERN_JOB_H

#include "parse.h"
#include "shell.h"

/*
 * A job is a command and, in a pipeline, the commands that read from it. The shell fills in all of
 * them before it starts their threads, and frees them after thread_join(). Between these, only a
 * command's own thread uses its in and out.
 */
struct job {
	struct thread *thread; /* NULL: it did not start, or it runs in the shell's thread */
	struct command_line line;
	/* ends of pipes, or redirections: closed too if Ctrl-C or EPIPE ends the thread */
	struct file *in, *out;
	struct job *reader; /* of what this command writes */
	/* of the first command */
	int id;
	char title[40];
	struct job *next;
};

extern struct job *shell_jobs; /* newest first; accessed by the shell's thread only */
struct thread *job_thread(const struct job *job); /* the last command's */
/*
 * Wait until all commands of the job have ended, until Ctrl-C or, if @main, until main() of one
 * has returned. Return: a command that has not ended, or NULL.
 */
struct job *job_wait(struct job *job, bool main);
void job_interrupt(struct job *job);
void shell_run_line(const char *line);
int shell_usage(const char *text); /* print it; return exit status 2 */

#endif

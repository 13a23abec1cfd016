/*
 * The shell: it runs each pipeline of a line as a job. A built-in command alone runs in
 * the shell's thread. An application, `time`, and each command of a pipeline or of a job
 * with '&' run in a thread of their own, so that the prompt can return before they end.
 */
#include "shell.h"
#include "apprun.h"
#include "console.h"
#include "errno.h"
#include "irq.h"
#include "job.h"
#include "pipe.h"
#include "print.h"
#include "strerror.h"
#include "string.h"

#define UNKNOWN_COMMAND 127
#define INTERRUPTED 130
#define PIPELINE_MAX 16

static struct line line;
struct job *shell_jobs;
static struct job *here; /* the command that runs in the shell's thread */
static struct shell_values values;

/* ---- standard output ---- */

ssize_t out_write(const void *buf, size_t n)
{
	struct file *f = current->out;
	size_t done = 0;

	if (!f) {
		console_write(buf, n);
		return n;
	}
	while (done < n) {
		ssize_t put = file_write(f, (const char *)buf + done, n - done);

		if (put <= 0) {
			if (!current->out_error)
				current->out_error = put ? -put : EIO;
			return put ? put : -EIO;
		}
		done += put;
	}
	return n;
}

int out_printf(const char *fmt, ...)
{
	char small[160], *text = small;
	va_list args;
	int n, err = -ENOMEM;

	va_start(args, fmt);
	n = vsnprintf(small, sizeof(small), fmt, args);
	va_end(args);
	if (n >= (int)sizeof(small)) {
		text = kmalloc(n + 1);
		va_start(args, fmt);
		if (text)
			vsnprintf(text, n + 1, fmt, args);
		va_end(args);
	}
	if (text)
		err = out_write(text, n);
	if (text != small)
		kfree(text);
	return err;
}

int complain(const char *command, const char *what, int err)
{
	if (err < 0)
		err = -err;
	printk("%s: %s: %s (%s)\n", command, what, strerror(err), errno_name(err));
	return 1;
}

int shell_usage(const char *text)
{
	printk("Usage: %s\n", text);
	return 2;
}

struct node *shell_cwd(void)
{
	return current->cwd ? current->cwd : file_root();
}

/* ---- one command ---- */

static const struct shell_command *command_find(const char *name)
{
	TABLE_FOR_EACH(const struct shell_command, shell_command, c)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static int run_command(void *arg);

/* 0, or an exit status if the command cannot be run in this way. */
static int refused(const struct shell_command *c, int argc)
{
	if (c->alone && current->fn == run_command) {
		printk("%s: only the shell itself can run this, not a job, a pipe or `time`.\n",
		       c->name);
		return 1;
	}
	return argc > 1 && !*c->usage ? shell_usage(c->name) : 0;
}

int shell_run_words(int argc, char **argv)
{
	const struct shell_command *command = command_find(argv[0]);
	const struct app *app = command ? NULL : app_find(argv[0]);
	int status;

	if (!command && !app) {
		printk("%s: unknown command; `help` lists the commands.\n", argv[0]);
		return UNKNOWN_COMMAND;
	}
	if (command)
		status = refused(command, argc) ?: command->fn(argc, argv);
	else
		status = app_run(app, argc, argv);
	if (interrupted())
		return INTERRUPTED;
	return status < 0 ? complain(argv[0], "not started", status) : status;
}

static const char *name_of(const struct job *job)
{
	return job->line.argc ? job->line.argv[0] : "shell";
}

/* Close what the command reads and writes, and report the redirection's first error. */
static int close_files(struct job *job, int error)
{
	int err = job->out ? file_close(job->out) : 0;

	if (job->in)
		file_close(job->in);
	job->in = job->out = NULL;
	if (!error)
		error = -err;
	return error && job->line.out ? complain(name_of(job), job->line.out, error) : 0;
}

/* Put the file, if one is named, in the place of a pipe's end. */
static int redirect(const struct job *job, const char *path, int flags, struct file **end)
{
	struct file *f;
	int err = path ? file_open(shell_cwd(), path, flags, &f) : 0;

	if (err)
		return complain(name_of(job), path, err);
	if (path && *end)
		file_close(*end);
	if (path)
		*end = f;
	return 0;
}

static int run_command(void *arg)
{
	struct job *job = arg;
	struct command_line *c = &job->line;
	struct file *in = current->in, *out = current->out;
	int flags = O_WRONLY | O_CREAT | (c->append ? O_APPEND : O_TRUNC);
	int status = redirect(job, c->in, O_RDONLY, &job->in) ?:
		     redirect(job, c->out, flags, &job->out);

	current->in = job->in ?: in;
	current->out = job->out ?: out;
	current->out_error = 0;
	if (c->argc && !status)
		status = shell_run_words(c->argc, c->argv);
	current->in = in;
	current->out = out;
	return close_files(job, current->out_error) ?: status;
}

/* ---- jobs ---- */

struct thread *job_thread(const struct job *job)
{
	while (job->reader)
		job = job->reader;
	return job->thread;
}

struct job *job_wait(struct job *job, bool main)
{
	while (job && (!job->thread || thread_wait(job->thread, main)))
		job = job->reader;
	return job;
}

void job_interrupt(struct job *job)
{
	for (; job; job = job->reader)
		if (job->thread)
			thread_interrupt(job->thread);
}

static bool job_done(const struct job *job)
{
	while (job && (!job->thread || thread_done(job->thread)))
		job = job->reader;
	return !job;
}

/* Free a job whose threads have ended. Return: the exit status of its last command. */
static int job_end(struct job *job)
{
	int status = 1;

	while (job) {
		struct job *reader = job->reader;

		status = job->thread ? thread_join(job->thread) : 1;
		close_files(job, 0); /* of one that did not start */
		kfree(job);
		job = reader;
	}
	return status;
}

static void job_keep(struct job *job)
{
	job->id = shell_jobs ? shell_jobs->id + 1 : 1;
	job->next = shell_jobs;
	shell_jobs = job;
}

static void report_jobs(void)
{
	struct job **at = &shell_jobs;

	while (*at) {
		struct job *job = *at;
		char title[sizeof(job->title)];
		int id = job->id, status;

		if (!job_done(job)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		strlcpy(title, job->title, sizeof(title));
		status = job_end(job);
		printk("[%d] done, exit status %d: %s\n", id, status, title);
	}
}

/* After Ctrl-C, the next output starts on a new line. */
static void end_foreground(bool stopped)
{
	console_set_foreground(NULL);
	current->interrupted = false;
	if (stopped)
		console_write("\n", 1);
}

/*
 * Wait for a job. Ctrl-C interrupts all of its commands. If one of them does not end then, a
 * second Ctrl-C moves the job to the background; so does the return of a main(), if other threads
 * run on. Return: false after Ctrl-C: the line's other commands do not run.
 */
static bool wait_foreground(struct job *job)
{
	bool stopped = false;
	struct job *left;

	console_set_foreground(current);
	left = job_wait(job, true);
	if (interrupted()) {
		stopped = true;
		current->interrupted = false;
		job_interrupt(job);
		left = job_wait(job, true);
	}
	end_foreground(stopped);
	if (!left) {
		values.status = job_end(job);
		return !stopped;
	}
	job_keep(job);
	printk(stopped ? "%s does not respond to Ctrl-C; it continues in the background as job "
			 "%d.\n"
		       : "main() of %s has returned; its threads continue in the background as job "
			 "%d.\n",
	       name_of(left), job->id);
	return !stopped;
}

static bool end_here(void)
{
	bool stopped = interrupted();

	end_foreground(stopped);
	job_end(here);
	return !stopped;
}

static bool run_here(struct job *job)
{
	struct job *outer = here; /* `ask` runs a line */
	bool goes_on;

	here = job;
	console_set_foreground(current);
	values.status = run_command(job);
	goes_on = end_here();
	here = outer;
	return goes_on;
}

void shell_thread_ends(void)
{
	struct job *job = current->fn == run_command ? current->arg : here;

	close_files(job, current->out_error);
	if (job != here)
		return; /* the shell waits for this thread */
	current->in = current->out = NULL;
	values.status = INTERRUPTED;
	end_here();
	while (!kthread_run(shell_main, current, -1, "shell"))
		sleep_ns(10000000);
}

static bool needs_thread(const struct job *job)
{
	const struct command_line *c = &job->line;

	return job->reader || c->next == BACKGROUND ||
	       (c->argc && (!strcmp(c->argv[0], "time") ||
			    (!command_find(c->argv[0]) && app_find(c->argv[0]))));
}

/* If a command cannot be started, those before it are interrupted. */
static bool start(struct job *job)
{
	for (struct job *at = job; at; at = at->reader) {
		at->thread = kthread_run(run_command, at, -1, at->line.argv[0]);
		if (!at->thread) {
			complain(at->line.argv[0], "not started", EAGAIN);
			job_interrupt(job);
			return false;
		}
	}
	return true;
}

/* Return: false after Ctrl-C. */
static bool run_job(struct job *job, bool background)
{
	if (!needs_thread(job))
		return run_here(job);
	if (!start(job) || !background)
		return wait_foreground(job);
	job_keep(job);
	values = (struct shell_values){0, job_thread(job)->pid};
	printk("[%d] thread %d\n", job->id, values.background);
	return true;
}

/* ---- lines ---- */

/*
 * Take the next pipeline of the line. @next: the operator before it, and then the one after it.
 * Return: NULL, or why it cannot be run. In both cases the caller ends the job.
 */
static const char *job_new(const char **line, enum shell_operator *next, struct job **first)
{
	static const char no_memory[] = "there is no memory to run the command";
	const char *text = *line;
	struct job *writer = NULL, **at = first;
	struct file *no_one;
	int commands = 0;
	size_t size;

	while (*text == ' ')
		text++;
	do {
		struct job *job = *at = kzalloc(sizeof(*job));

		if (++commands > PIPELINE_MAX)
			return "a pipeline has at most 16 commands";
		if (!job || (writer && pipe_make(&job->in, &writer->out)))
			return no_memory;
		if (shell_parse(*line, *next, values, &job->line))
			return job->line.error;
		size = job->line.end - text + 1;
		strlcpy((*first)->title, text, MIN(size, sizeof(job->title)));
		*line = job->line.rest;
		*next = job->line.next;
		writer = job;
		at = &job->reader;
	} while (*next == PIPE);
	/* what runs in the background does not read the console */
	if (*next == BACKGROUND) {
		if (pipe_make(&(*first)->in, &no_one))
			return no_memory;
		file_close(no_one);
	}
	return NULL;
}

void shell_run_line(const char *line)
{
	enum shell_operator next = SEQUENCE;
	bool goes_on = true;

	while (goes_on && next != LAST) {
		bool skip = (next == AND && values.status) || (next == OR && !values.status);
		struct job *job;
		const char *error = job_new(&line, &next, &job);

		if (!error && !skip && (job->line.argc || job->line.in || job->line.out)) {
			goes_on = run_job(job, next == BACKGROUND);
			continue;
		}
		if (error) {
			printk("shell: %s.\n", error);
			values.status = 2;
			goes_on = false;
		}
		job_end(job);
	}
}

static enum line_result read_line(void)
{
	enum line_result r = LINE_MORE;

	line_begin(&line);
	while (r == LINE_MORE) {
		int c = console_getchar();

		if (c >= 0)
			r = line_feed(&line, c);
	}
	return r;
}

int shell_main(void *ended)
{
	if (ended)
		thread_join(ended);
	else
		file_chdir(&current->cwd, "/sys/kernel/tracing");
	line.prompt = "callsite# ";
	line.write = console_write;
	for (;;) {
		enum line_result r;

		report_jobs();
		console_report_loss();
		r = read_line();
		if (r == LINE_TOO_LONG)
			printk("shell: a line has at most %d characters; this one has more and was "
			       "not run.\n",
			       LINE_MAX - 1);
		else if (r == LINE_DAMAGED)
			printk("shell: bytes of the line were lost; it was not run.\n");
		else if (r == LINE_NOISE)
			printk("shell: %u bytes of the line are not text; it was not run.\n",
			       line.noise);
		if (r != LINE_DONE)
			continue;
		line_remember(&line);
		shell_run_line(line.text);
	}
}

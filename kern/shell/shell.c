/*
 * The shell: it runs each command of a line as a job. A built-in command runs in
 * the shell's thread. An application, `time`, and a command with '&' run in a
 * thread of their own, so that the prompt can return before they end.
 */
#include "shell.h"
#include "apprun.h"
#include "console.h"
#include "errno.h"
#include "irq.h"
#include "job.h"
#include "line.h"
#include "print.h"
#include "strerror.h"
#include "string.h"

#define UNKNOWN_COMMAND 127
#define INTERRUPTED 130

static struct line line;
struct job *shell_jobs;
static struct job *here; /* the command that runs in the shell's thread */

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

static int run_parsed(void *arg);

/* 0, or an exit status if the command cannot be run in this way. */
static int refused(const struct shell_command *c, int argc)
{
	if (c->alone && current->fn == run_parsed) {
		printk("%s: only the shell itself can run this, not a job or `time`.\n", c->name);
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

/* Close the redirection and report its first error. */
static int end_output(struct job *job, int error)
{
	const char *name = job->line.argc ? job->line.argv[0] : "shell";
	int err = file_close(job->out);

	job->out = NULL;
	if (!error)
		error = -err;
	return error ? complain(name, job->line.out, error) : 0;
}

static int run_redirected(struct job *job)
{
	struct command_line *c = &job->line;
	struct file *before = current->out;
	int flags = O_WRONLY | O_CREAT | (c->append ? O_APPEND : O_TRUNC);
	int status = 0, err = file_open(shell_cwd(), c->out, flags, &job->out);

	if (err)
		return complain(c->argc ? c->argv[0] : "shell", c->out, err);
	current->out = job->out;
	current->out_error = 0;
	if (c->argc)
		status = shell_run_words(c->argc, c->argv);
	current->out = before;
	return end_output(job, current->out_error) ?: status;
}

static int run_parsed(void *arg)
{
	struct job *job = arg;

	if (job->line.out)
		return run_redirected(job);
	return job->line.argc ? shell_run_words(job->line.argc, job->line.argv) : 0;
}

/* ---- jobs ---- */

static struct job *job_new(const char *text)
{
	struct job *job = kzalloc(sizeof(*job));

	if (!job)
		return NULL;
	strlcpy(job->text, text, sizeof(job->text));
	while (*text == ' ')
		text++;
	strlcpy(job->title, text, sizeof(job->title));
	return job;
}

static void job_keep(struct job *job)
{
	job->id = shell_jobs ? shell_jobs->id + 1 : 1;
	job->next = shell_jobs;
	shell_jobs = job;
}

static int job_end(struct job *job)
{
	int status = thread_join(job->thread);

	if (job->out)
		end_output(job, 0);
	return status;
}

static void report_jobs(void)
{
	struct job **at = &shell_jobs;

	while (*at) {
		struct job *job = *at;

		if (!thread_done(job->thread)) {
			at = &job->next;
			continue;
		}
		*at = job->next;
		printk("[%d] done, exit status %d: %s\n", job->id, job_end(job), job->title);
		kfree(job);
	}
}

/* After an interruption, the next output starts on a new line. */
static bool was_interrupted(struct thread *t)
{
	if (t->interrupted)
		console_write("\n", 1);
	return t->interrupted;
}

/*
 * Wait for a command. If it does not end after Ctrl-C, a second Ctrl-C moves it to
 * the background; so does the return of main(), if other threads run on. Return:
 * true after Ctrl-C: the line's other commands do not run.
 */
static bool wait_foreground(struct job *job)
{
	bool done, stopped;

	console_set_foreground(job->thread, current);
	done = thread_wait(job->thread, true);
	console_set_foreground(NULL, NULL);
	current->interrupted = false;
	stopped = was_interrupted(job->thread);
	if (done) {
		job_end(job);
		kfree(job);
		return stopped;
	}
	job_keep(job);
	printk(stopped ? "%s does not respond to Ctrl-C; it continues in the background as job "
			 "%d.\n"
		       : "main() of %s has returned; its threads continue in the background as job "
			 "%d.\n",
	       job->line.argv[0], job->id);
	return stopped;
}

static bool end_here(void)
{
	bool stopped;

	console_set_foreground(NULL, NULL);
	stopped = was_interrupted(current);
	current->interrupted = false;
	kfree(here);
	return stopped;
}

static bool run_here(struct job *job)
{
	struct job *outer = here; /* `ask` runs a line */
	bool stopped;

	here = job;
	console_set_foreground(current, NULL);
	run_parsed(job);
	stopped = end_here();
	here = outer;
	return stopped;
}

/* Ctrl-C in a program that `taskset` ran: its thread, which is the shell's, ends. */
void shell_thread_ends(void)
{
	if (current->fn == run_parsed) /* a job's: the shell waits for it */
		return;
	current->out = NULL;
	if (here->out)
		end_output(here, current->out_error);
	end_here();
	while (!kthread_run(shell_main, current, -1, "shell"))
		sleep_ns(10000000);
}

static bool needs_thread(const struct command_line *c)
{
	return c->background ||
	       (c->argc && (!strcmp(c->argv[0], "time") ||
			    (!command_find(c->argv[0]) && app_find(c->argv[0]))));
}

static bool run_job(struct job *job)
{
	if (!needs_thread(&job->line))
		return run_here(job);
	job->thread = kthread_run(run_parsed, job, -1, job->line.argv[0]);
	if (!job->thread) {
		complain(job->line.argv[0], "not started", EAGAIN);
		kfree(job);
	} else if (job->line.background) {
		job_keep(job);
		printk("[%d] thread %d\n", job->id, job->thread->pid);
	} else {
		return wait_foreground(job);
	}
	return false;
}

/* ---- lines ---- */

void shell_run_line(char *text)
{
	for (char *rest; text; text = rest) {
		struct job *job;

		rest = shell_split(text);
		job = job_new(text);
		if (!job) {
			printk("shell: there is no memory to run the command.\n");
			return;
		}
		if (shell_parse(job->text, &job->line)) {
			printk("shell: %s.\n", job->line.error);
			kfree(job);
			return;
		}
		if (run_job(job))
			return;
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

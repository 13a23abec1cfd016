/*
 * The shell's built-in commands: directories, jobs, and the machine. The other commands
 * are programs.
 */
#include "app.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "job.h"
#include "print.h"
#include "string.h"

/* The next command in alphabetical order. */
static const struct shell_command *next_command(const char *name)
{
	const struct shell_command *next = NULL;

	TABLE_FOR_EACH(const struct shell_command, shell_command, c)
		if (strcmp(c->name, name) > 0 && (!next || strcmp(c->name, next->name) < 0))
			next = c;
	return next;
}

static void help_line(const char *name, const char *arguments, const char *does)
{
	out_printf("  %-11s %-18s %s\n", name, arguments, does);
}

static int help_main(int argc, char **argv)
{
	const struct shell_command *c = NULL;

	while ((c = next_command(c ? c->name : "")))
		help_line(c->name, c->usage, c->help);
	out_printf("Programs:\n");
	TABLE_FOR_EACH(const struct app, app, app)
		help_line(app->name, app->arguments, app->does);
	return out_printf("`a | b`: b reads what a writes. `< file`, `> file` and `>> file` "
			  "redirect. `;` separates,\n"
			  "`&&` and `||` go on after success and after failure, `&` runs in the "
			  "background,\n"
			  "Ctrl-C interrupts. $? is the last exit status, $! the last background "
			  "job's thread.\n`*`, `?` and `[a-z]` match the names of files.\n") < 0;
}
SHELL_COMMAND("help", help_main, "", "list the commands");

static int cd_main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/";
	int err;

	if (argc > 2)
		return shell_usage("cd [directory]");
	err = file_chdir(&current->cwd, path);
	return err ? complain("cd", path, err) : 0;
}
SHELL_COMMAND("cd", cd_main, "[directory]",
	      "change the current directory; without an argument, to /", .alone = true);

static int pwd_main(int argc, char **argv)
{
	char path[512];

	file_path(shell_cwd(), path, sizeof(path));
	return out_printf("%s\n", path) < 0;
}
SHELL_COMMAND("pwd", pwd_main, "", "print the current directory");

/* One write for all words: special files parse each write separately. */
static int echo_main(int argc, char **argv)
{
	int first = argc > 1 && !strcmp(argv[1], "-n") ? 2 : 1;
	size_t size = 2, len = 0;
	char *text;
	ssize_t put;

	for (int i = first; i < argc; i++)
		size += strlen(argv[i]) + 1;
	text = kmalloc(size);
	if (!text)
		return complain("echo", "text", ENOMEM);
	for (int i = first; i < argc; i++)
		len += scnprintf(text + len, size - len, "%s%s", i > first ? " " : "", argv[i]);
	if (first == 1)
		text[len++] = '\n';
	put = len ? out_write(text, len) : 0;
	kfree(text);
	return put < 0;
}
SHELL_COMMAND("echo", echo_main, "[-n] word ...", "write words");

static void jobs_row(const struct job *job)
{
	struct thread *t = job_thread(job);
	unsigned threads = process_threads(t->process);
	char others[24] = "";

	if (threads > 1)
		snprintf(others, sizeof(others), " and %u other%s", threads - 1,
			 threads > 2 ? "s" : "");
	out_printf("[%d] thread %d%s, %s: %s\n", job->id, t->pid, others,
		   thread_done(t) ? "done" : "running", job->title);
}

static int jobs_main(int argc, char **argv)
{
	for (struct job *job = shell_jobs; job; job = job->next)
		jobs_row(job);
	return 0;
}
SHELL_COMMAND("jobs", jobs_main, "", "list the background jobs and their threads", .alone = true);

static int wait_main(int argc, char **argv)
{
	for (struct job *job = shell_jobs; job; job = job->next)
		if (job_wait(job, false))
			break;
	return 0;
}
SHELL_COMMAND("wait", wait_main, "", "wait until every background job has ended", .alone = true);

/* The job with this number, or with this thread, as $! has it. */
static int kill_main(int argc, char **argv)
{
	bool number = argc == 2 && argv[1][0] == '%';
	u64 id;

	if (argc != 2 || kstrtou64(argv[1] + number, 10, &id))
		return shell_usage("kill job");
	for (struct job *job = shell_jobs; job; job = job->next)
		if ((u64)job->id == id || (!number && (u64)job_thread(job)->pid == id)) {
			job_interrupt(job);
			return 0;
		}
	printk("kill: there is no job %lu; `jobs` lists them.\n", (unsigned long)id);
	return 1;
}
SHELL_COMMAND("kill", kill_main, "job", "interrupt a background job, as Ctrl-C does",
	      .alone = true);

static u64 own_runtime(void)
{
	return ticks_to_ns(thread_runtime(current));
}

static int time_main(int argc, char **argv)
{
	u64 start = clock_ns(), cpu = own_runtime();
	int status = argc > 1 ? shell_run_words(argc - 1, argv + 1) : 0;
	u64 us = (clock_ns() - start) / 1000, cpu_us = (own_runtime() - cpu) / 1000;

	printk("real %lu.%06lu s, of it on a CPU %lu.%06lu s\n", (unsigned long)(us / 1000000),
	       (unsigned long)(us % 1000000), (unsigned long)(cpu_us / 1000000),
	       (unsigned long)(cpu_us % 1000000));
	return status;
}
SHELL_COMMAND("time", time_main, "command ...", "run a command and print its time");

static int taskset_main(int argc, char **argv)
{
	u64 cpu;

	if (argc < 4 || strcmp(argv[1], "-c") || kstrtou64(argv[2], 10, &cpu))
		return shell_usage("taskset -c cpu command ...");
	if (cpu >= nr_cpus || !cpu_of(cpu)->online) {
		printk("taskset: there is no CPU %s.\n", argv[2]);
		return 1;
	}
	set_cpu_affinity(cpu);
	return shell_run_words(argc - 3, argv + 3);
}
SHELL_COMMAND("taskset", taskset_main, "-c cpu command ...", "run a command on this CPU");

static int uptime_main(int argc, char **argv)
{
	u64 ms = clock_ns() / 1000000;
	unsigned long switches = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		switches += cpu_of(i)->switches;
	out_printf("up %lu.%03lu s, %u CPU%s, %lu thread switches\n", (unsigned long)(ms / 1000),
		   (unsigned long)(ms % 1000), nr_cpus, nr_cpus > 1 ? "s" : "", switches);
	return 0;
}
SHELL_COMMAND("uptime", uptime_main, "", "time since the counter started");

static int free_main(int argc, char **argv)
{
	unsigned long total = pages_total_count() * (PAGE_SIZE / 1024);
	unsigned long left = pages_free_count() * (PAGE_SIZE / 1024);

	out_printf("%lu KiB of memory, %lu used, %lu free\n", total, total - left, left);
	return 0;
}
SHELL_COMMAND("free", free_main, "", "memory, used and free");

static int poweroff_main(int argc, char **argv)
{
	firmware_poweroff(false);
}
SHELL_COMMAND("poweroff", poweroff_main, "", "turn the machine off, exit status 0");

static int reboot_main(int argc, char **argv)
{
	firmware_poweroff(true);
}
SHELL_COMMAND("reboot", reboot_main, "",
	      "reset the machine; make run then ends with exit status 1");

static int panic_main(int argc, char **argv)
{
	char why[128] = "";

	for (int i = 1; i < argc; i++)
		scnprintf(why + strlen(why), sizeof(why) - strlen(why), i > 1 ? " %s" : "%s",
			  argv[i]);
	panic("%s", *why ? why : "requested in the shell");
}
SHELL_COMMAND("panic", panic_main, "[why]", "cause a panic");

/*
 * The shell's built-in commands: directories, jobs, threads, and the machine. The other commands
 * are programs.
 */
#include "app.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "job.h"
#include "print.h"
#include "string.h"
#include "unwind.h"

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
	return out_printf("`> file` and `>> file` redirect, `;` separates, `&` runs in the "
			  "background, "
			  "Ctrl-C interrupts.\n") < 0;
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

#define PS_MAX (256 + NR_CPUS)
struct ps {
	bool one; /* only the thread @pid */
	u64 pid;
	unsigned count, more;
	struct thread rows[PS_MAX];
	unsigned long entries[STACK_FRAMES_MAX];
};

static void ps_add(struct thread *t, void *arg)
{
	struct ps *ps = arg;

	if (ps->one && (u64)t->pid != ps->pid)
		return;
	if (ps->count == PS_MAX) {
		ps->more++;
		return;
	}
	ps->rows[ps->count] = *t;
	ps->rows[ps->count++].runtime = thread_runtime(t);
}

static void ps_row(const struct thread *t)
{
	static const char *const states[] = {"ready", "sleeps", "dead"};
	u64 ms = ticks_to_ns(t->runtime) / 1000000;
	char pinned[8] = "";

	if (t->pinned >= 0 && t->pid)
		snprintf(pinned, sizeof(pinned), "%d", t->pinned);
	out_printf("%4d %3u %3s %-7s %5lu.%03lu %s\n", t->pid, t->cpu, pinned,
		   t->on_cpu ? "running" : states[t->state], (unsigned long)(ms / 1000),
		   (unsigned long)(ms % 1000), t->comm);
}

static void ps_line(unsigned long pc, bool exact)
{
	out_printf("       %pB\n", (void *)pc);
}

static void ps_stack(const struct thread *t, unsigned long *entries)
{
	unsigned count = stack_trace_save_pid(t->pid, t->cpu, entries, STACK_FRAMES_MAX);
	struct stack_lines lines = {ps_line, out_printf, "       "};

	for (unsigned i = 0; i < count; i++)
		stack_line(&lines, entries[i], false);
	stack_lines_end(&lines);
}

static int ps_main(int argc, char **argv)
{
	bool stacks = argc > 1 && !strcmp(argv[1], "-s"), one = argc == 3, found;
	struct ps *ps;
	u64 pid = 0;

	if (argc > 3 || (argc > 1 && !stacks) || (one && kstrtou64(argv[2], 10, &pid)))
		return shell_usage("ps [-s [pid]]");
	ps = kzalloc(sizeof(*ps));
	if (!ps)
		return complain("ps", "list", ENOMEM);
	ps->one = one;
	ps->pid = pid;
	threads_and_idle_for_each(ps_add, ps);
	found = ps->count;
	out_printf(" PID CPU PIN STATE        TIME NAME\n");
	while (ps->count) {
		const struct thread *t = &ps->rows[--ps->count];

		ps_row(t);
		if (stacks)
			ps_stack(t, ps->entries);
	}
	if (ps->more)
		out_printf("and %u more\n", ps->more);
	kfree(ps);
	if (!found)
		printk("ps: there is no thread %s.\n", argv[2]);
	return !found;
}
SHELL_COMMAND("ps", ps_main, "[-s [pid]]",
	      "list the threads with their CPU, state and CPU time; -s: their stacks");

static void jobs_row(const struct job *job)
{
	unsigned threads = process_threads(job->thread->process);
	char others[24] = "";

	if (threads > 1)
		snprintf(others, sizeof(others), " and %u other%s", threads - 1,
			 threads > 2 ? "s" : "");
	out_printf("[%d] thread %d%s, %s: %s\n", job->id, job->thread->pid, others,
		   thread_done(job->thread) ? "done" : "running", job->title);
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
		if (!thread_wait(job->thread, false))
			break;
	return 0;
}
SHELL_COMMAND("wait", wait_main, "", "wait until every background job has ended", .alone = true);

static int kill_main(int argc, char **argv)
{
	u64 id;

	if (argc != 2 || kstrtou64(argv[1] + (argv[1][0] == '%'), 10, &id))
		return shell_usage("kill job");
	for (struct job *job = shell_jobs; job; job = job->next)
		if ((u64)job->id == id) {
			thread_interrupt(job->thread);
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

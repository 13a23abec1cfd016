/*
 * For run_qemu.py: something in it does not end, until there is a file @until (none: never). @what:
 * a thread that init starts and exit leaves ("loops", "sleeps"), or that exit waits for ("joined");
 * "init" or "exit" itself. Or a CPU masks interrupts for longer than the watchdog waits, while init
 * fails ("masked"). Or exit leaves a file ("file"), an op ("op"), or faults ("faults").
 */
#include "cpu.h"
#include "file.h"
#include "module.h"
#include "string.h"
#include "ftrace_internal.h"

static const char *what = "loops", *until = "";
module_param(what, charp);
module_param(until, charp);

static struct thread *thread;
static bool masked;

static bool is(const char *word)
{
	return !strcmp(what, word);
}

int mt_stuck_read(const int *at);
__noinline int mt_stuck_read(const int *at)
{
	barrier();
	return *at;
}

int mt_stuck(void);
__noinline int mt_stuck(void)
{
	barrier();
	return !!file_lookup(NULL, until);
}

static int loop(void *unused)
{
	while (!mt_stuck())
		if (is("sleeps"))
			sleep_ns(1000000);
	return 0;
}

static void say_and_loop(const char *where)
{
	printk("mt_stuck: %s waits\n", where);
	loop(NULL);
}

/*
 * Ends two seconds after the watchdog's first report about this CPU; the second comes after eight.
 */
static int mask(void *unused)
{
	unsigned long flags = irq_save();
	u32 reports = this_cpu()->reports;
	u64 start = arch_counter(), now;

	WRITE_ONCE(masked, true);
	while (READ_ONCE(this_cpu()->reports) == reports)
		cpu_relax();
	now = arch_counter();
	while (arch_counter() - now < (now - start) / 4)
		cpu_relax();
	irq_restore(flags);
	return 0;
}

static ssize_t read_nothing(struct file *f, char *buf, size_t n, u64 *pos)
{
	return mt_stuck();
}
static const struct file_ops ops = {.read = read_nothing};

static notrace void see_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			     struct ftrace_regs *regs)
{
}
static struct ftrace_ops op = {.func = see_call, .slot = -1};

static int fail_masked(void)
{
	thread = kthread_run(mask, NULL, nr_cpus - 1, "masked");
	while (!READ_ONCE(masked))
		sleep_ns(1000000);
	return -EIO;
}

static int stuck_init(void)
{
	if (is("masked"))
		return fail_masked();
	if (is("init"))
		say_and_loop("init");
	if (is("loops") || is("sleeps") || is("joined"))
		thread = kthread_run(loop, NULL, -1, "stuck");
	if (is("file") && !file_make("/mt_stuck", 0444, &ops, NULL))
		return -ENOMEM;
	return is("op") ? register_ftrace_function(&op) : 0;
}
module_init(stuck_init);

static void stuck_exit(void)
{
	if (is("exit"))
		say_and_loop("exit");
	if (is("joined")) {
		printk("mt_stuck: exit waits\n");
		thread_join(thread);
	}
	if (is("faults"))
		mt_stuck_read((const int *)8);
}
module_exit(stuck_exit);

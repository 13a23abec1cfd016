/*
 * For module_kt.c and run_qemu.py: its init does what the parameters say, and then faults, or
 * fails.
 */
#include "file.h"
#include "lock.h"
#include "module.h"
#include "string.h"
#include "ftrace_internal.h"

static const char *after = "";
module_param(after, charp);
static bool fails;
module_param(fails, bool);

static notrace void see_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			     struct ftrace_regs *regs)
{
}
static struct mutex mutex = MUTEX_INIT;
static struct wait_queue queue;

int mt_read(const int *at);
__noinline int mt_read(const int *at)
{
	barrier();
	return *at;
}

static int read_file(struct file *f)
{
	return mt_read((const int *)8); /* what init would have set */
}
static const struct file_ops ops = {.open = read_file};

static int stay(void *unused)
{
	while (!interrupted())
		sleep_ns(1000000000);
	return 0;
}

/* Its struct is not in the module, and its callback is. */
static void register_op(void)
{
	struct ftrace_ops *op = kzalloc(sizeof(*op));

	op->func = see_call;
	op->slot = -1;
	register_ftrace_function(op);
}

static int faults_init(void)
{
	file_make("/mt_faults", 0444, &ops, NULL);
	if (!strcmp(after, "op"))
		register_op();
	if (!strcmp(after, "thread"))
		kthread_run(stay, NULL, -1, "mt_faults");
	if (!strcmp(after, "mutex"))
		mutex_lock(&mutex);
	if (!strcmp(after, "preemption"))
		preempt_disable();
	if (!strcmp(after, "interrupts"))
		irq_save();
	if (!strcmp(after, "queue"))
		prepare_to_wait(&queue);
	return fails ? -EIO : mt_read((const int *)8);
}
module_init(faults_init);

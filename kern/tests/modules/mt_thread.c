/* For module_kt.c: a thread of its own, asleep in the module until exit ends it; and a file. */
#include "file.h"
#include "module.h"

static struct thread *thread;
static struct node *node;
static bool stop;
static struct wait_queue queue;

static int sleeper(void *unused)
{
	wait_event(&queue, READ_ONCE(stop));
	return 0;
}

static ssize_t thread_read(struct file *f, char *buf, size_t n, u64 *pos)
{
	return 0;
}
static const struct file_ops ops = {.read = thread_read};

static int thread_init(void)
{
	node = file_make("/mt_thread", 0444, &ops, NULL);
	thread = kthread_run(sleeper, NULL, -1, "mt_thread");
	return node && thread ? 0 : -ENOMEM;
}
module_init(thread_init);

static void thread_exit_(void)
{
	WRITE_ONCE(stop, true);
	wake_up(&queue);
	thread_join(thread);
	file_unmake(node);
}
module_exit(thread_exit_);

/*
 * Programs whose threads outlast what they use: a descriptor that another
 * thread closes, and main() with its redirection.
 */
#include "app.h"
#include "apprun.h"
#include "errno.h"
#include "file.h"
#include "ftrace/tests/kt.h"

#define PIPE "/sys/kernel/tracing/trace_pipe"
#define OUT "/tmp/app_kt"

static int fd, while_reading, after_reading;
static struct thread *first;
static int put;

static int reads(void *unused)
{
	char c;

	return read(fd, &c, 1);
}

/* One reader at a time: the pipe is busy while a thread reads from it. */
static int close_while_reading(int argc, char **argv)
{
	int marker = open("/sys/kernel/tracing/trace_marker", O_WRONLY);
	thread_t t;

	fd = open(PIPE, O_RDONLY);
	thread_create(&t, reads, NULL);
	while (READ_ONCE(t->state) != THREAD_SLEEPING)
		sleep_ns(1000000);
	close(fd);
	while_reading = open(PIPE, O_RDONLY);
	write(marker, "x", 1);
	thread_join(t);
	after_reading = open(PIPE, O_RDONLY);
	return 0;
}

static int writes_late(void *unused)
{
	while (!READ_ONCE(first->main_returned))
		sleep_ns(1000000);
	put = write(1, "late\n", 5);
	return 0;
}

static int leave(int argc, char **argv)
{
	thread_t t;

	first = current;
	return thread_create(&t, writes_late, NULL);
}

static int write_after_main(void)
{
	const struct app app = {.name = "leave", .main = leave};
	int err = file_open(NULL, OUT, O_WRONLY | O_CREAT | O_TRUNC, &current->out);

	put = 0;
	if (err)
		return err;
	app_run(&app, 0, NULL);
	file_close(current->out);
	current->out = NULL;
	return put;
}

static int test_app(int argc, char **argv)
{
	const struct app app = {.name = "close", .main = close_while_reading};
	kt_begin();
	app_run(&app, 0, NULL);
	kt_promise(while_reading == -EBUSY && after_reading >= 3,
		   "a file that is read from is closed when the read ends: %d, then %d",
		   while_reading, after_reading);
	kt_promise(write_after_main() == 5,
		   "a thread that outlives main() writes where main() did: %d", put);
	return kt_end();
}
SHELL_COMMAND("test-app", test_app, "", "threads that outlast a descriptor, and their program");

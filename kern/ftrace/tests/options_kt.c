/*
 * Settings while the tracer changes. The test holds trace_lock until a thread that
 * writes to a file waits for the lock: a word, an option of the function tracer,
 * which then ends; a number, which must not be set before.
 */
#include "errno.h"
#include "file.h"
#include "kt.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

struct setting {
	const char *path, *text;
};

static int set(void *arg)
{
	const struct setting *setting = arg;
	struct file *f;
	int put = file_open(NULL, setting->path, O_WRONLY, &f);

	if (put)
		return put;
	put = file_write(f, setting->text, strlen(setting->text));
	file_close(f);
	return put;
}

/* trace_lock held: a thread that writes to the file; it waits, or has not waited and is done. */
static struct thread *set_waits(struct setting *setting)
{
	struct thread *t = kthread_run(set, setting, -1, "setter");

	while (READ_ONCE(t->state) != THREAD_SLEEPING && !thread_done(t))
		yield();
	return t;
}

static int set_while_the_tracer_goes(char *name)
{
	struct setting option = {TRACEFS "trace_options", name};
	struct thread *t;

	mutex_lock(&trace_lock);
	tracing_set_tracer(&global_trace, "function");
	t = set_waits(&option);
	tracing_set_tracer(&global_trace, "nop");
	mutex_unlock(&trace_lock);
	return thread_join(t);
}

/* Is tracing_on still 1 when a thread that writes 0 to it waits? */
static bool number_waits(void)
{
	struct setting off = {TRACEFS "tracing_on", "0"};
	struct thread *t;
	bool was;

	mutex_lock(&trace_lock);
	t = set_waits(&off);
	was = tracing_is_on(&global_trace);
	mutex_unlock(&trace_lock);
	return thread_join(t) == 1 && was;
}

static int test_options(int argc, char **argv)
{
	u32 before = global_trace.options;
	int err;

	kt_begin();
	err = set_while_the_tracer_goes("func_stack_trace");
	kt_promise(err == -EINVAL && global_trace.options == before,
		   "an option of a tracer that is being removed is refused, not set: %d", err);
	kt_promise(number_waits() && !tracing_is_on(&global_trace),
		   "a number is set with trace_lock held");
	tracing_slow(&global_trace, RB_OFF, false);
	return kt_end();
}
SHELL_COMMAND("test-options", test_options, "", "settings are written while the tracer changes");

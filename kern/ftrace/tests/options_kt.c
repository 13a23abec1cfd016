/*
 * Options while the tracer changes. The test holds trace_lock until a thread that
 * sets an option of the function tracer waits for the lock; then it ends the
 * function tracer.
 */
#include "errno.h"
#include "file.h"
#include "kt.h"
#include "string.h"
#include "trace.h"

static int set_option(void *name)
{
	struct file *f;
	int put = file_open(NULL, "/sys/kernel/tracing/trace_options", O_WRONLY, &f);

	if (put)
		return put;
	put = file_write(f, name, strlen(name));
	file_close(f);
	return put;
}

static int set_while_the_tracer_goes(char *name)
{
	struct thread *t;

	mutex_lock(&trace_lock);
	tracing_set_tracer(&global_trace, "function");
	t = kthread_run(set_option, name, -1, "setter");
	while (READ_ONCE(t->state) != THREAD_SLEEPING && !thread_done(t))
		yield();
	tracing_set_tracer(&global_trace, "nop");
	mutex_unlock(&trace_lock);
	return thread_join(t);
}

static int test_options(int argc, char **argv)
{
	u32 before = global_trace.options;
	int err;

	kt_begin();
	err = set_while_the_tracer_goes("func_stack_trace");
	kt_promise(err == -EINVAL && global_trace.options == before,
		   "an option of a tracer that goes is refused, not set: %d", err);
	return kt_end();
}
SHELL_COMMAND("test-options", test_options, "", "an option is set while the tracer changes");

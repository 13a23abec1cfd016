/*
 * error_log: the last eight refused commands of all instances, each with a mark under the place of
 * its error, as Linux prints them.
 */
#include "errno.h"
#include "irq.h"
#include "trace_probe.h"
#include "string.h"
#include "tracefs.h"

#define ERRORS_MAX 8

static struct mutex log_lock = MUTEX_INIT;
static struct entry {
	const struct trace_array *tr; /* NULL: none */
	u64 time;
	struct probe_error error;
} entries[ERRORS_MAX];
static unsigned logged; /* errors since boot; the oldest entry is number logged % ERRORS_MAX */

/* From now on error->command belongs to the log. */
void error_log_add(struct trace_array *tr, const struct probe_error *error)
{
	struct entry *e;

	mutex_lock(&log_lock);
	e = &entries[logged++ % ERRORS_MAX];
	kfree(e->error.command);
	*e = (struct entry){tr, clock_ns(), *error};
	mutex_unlock(&log_lock);
}

void error_log_clear(const struct trace_array *tr)
{
	mutex_lock(&log_lock);
	for (struct entry *e = entries; e < entries + ERRORS_MAX; e++)
		if (e->tr == tr) {
			kfree(e->error.command);
			*e = (struct entry){NULL};
		}
	mutex_unlock(&log_lock);
}

static int error_log_show(struct seq *s, u64 item)
{
	const struct trace_array *tr = trace_array_of(s->file);
	const struct entry *e = NULL;

	mutex_lock(&log_lock);
	for (unsigned n = logged; !e && n < logged + ERRORS_MAX; n++)
		if (entries[n % ERRORS_MAX].tr == tr && !item--)
			e = &entries[n % ERRORS_MAX];
	if (e)
		seq_printf(s, "[%5llu.%06u] %s: error: %s\n  Command: %s\n%*s^\n",
			   (unsigned long long)(e->time / 1000000000),
			   (unsigned)(e->time % 1000000000 / 1000), e->error.subsystem,
			   e->error.text, e->error.command,
			   (int)(strlen("  Command: ") + e->error.column), "");
	mutex_unlock(&log_lock);
	return !e;
}

static int error_log_open(struct file *f)
{
	if (f->flags & O_TRUNC)
		error_log_clear(trace_array_of(f));
	return seq_open(f, error_log_show, NULL);
}

/* As on Linux: what is written does not matter. */
static ssize_t error_log_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return n;
}
static const struct file_ops error_log_ops = {error_log_open, seq_read, error_log_write,
					      seq_release};
TRACEFS_INSTANCE_FILE(error_log, "error_log", 0644, &error_log_ops, NULL);

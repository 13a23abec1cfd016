/* error_log: the last eight refused commands, each with a mark under the place of its error, as Linux prints them. */
#include "errno.h"
#include "irq.h"
#include "probe_event.h"
#include "string.h"
#include "tracefs.h"

#define ERRORS_MAX 8

static struct mutex log_lock = MUTEX_INIT;
static struct entry {
	u64 time;
	struct probe_error error;
} entries[ERRORS_MAX];
static u64 logged; /* since boot; the last ERRORS_MAX are in entries, those from `cleared` on are shown */
static u64 cleared;

/* Takes error->command over. */
void error_log_add(const struct probe_error *error)
{
	struct entry *e;

	mutex_lock(&log_lock);
	e = &entries[logged++ % ERRORS_MAX];
	kfree(e->error.command);
	*e = (struct entry){clock_ns(), *error};
	mutex_unlock(&log_lock);
}

static int error_log_show(struct seq *s, u64 item)
{
	const struct entry *e;
	u64 number;

	if (trace_array_of(s->file) != &global_trace)
		return 1; /* there are no probe events in an instance */
	mutex_lock(&log_lock);
	number = item + MAX(cleared, logged - MIN(logged, ERRORS_MAX));
	e = number < logged ? &entries[number % ERRORS_MAX] : NULL;
	if (e)
		seq_printf(s, "[%5llu.%06u] %s: error: %s\n  Command: %s\n%*s^\n", (unsigned long long)(e->time / 1000000000),
			   (unsigned)(e->time % 1000000000 / 1000), e->error.subsystem, e->error.text,
			   e->error.command, (int)(strlen("  Command: ") + e->error.column), "");
	mutex_unlock(&log_lock);
	return !e;
}

static int error_log_open(struct file *f)
{
	if (f->flags & O_TRUNC && trace_array_of(f) == &global_trace) {
		mutex_lock(&log_lock);
		cleared = logged;
		mutex_unlock(&log_lock);
	}
	return seq_open(f, error_log_show, NULL);
}

/* As on Linux: what is written does not matter. */
static ssize_t error_log_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return n;
}
static const struct file_ops error_log_ops = {error_log_open, seq_read, error_log_write, seq_release};
TRACEFS_INSTANCE_FILE(error_log, "error_log", 0644, &error_log_ops, NULL);

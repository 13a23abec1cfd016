/*
 * Boot arguments for tracing, with Linux's names. Each is written to a file of TRACEFS, as a
 * user would do it, before the shell starts. They are written in the order of the list below,
 * wherever they are in the command line: so the tracer comes last, and its first event is
 * one that the filter selects.
 *
 * A comma separates words. In kprobe_event it is a blank, and a semicolon separates lines.
 */
#include "errno.h"
#include "fdt.h"
#include "file.h"
#include "print.h"
#include "strerror.h"
#include "string.h"
#include "tracefs.h"

/* name, file in TRACEFS */
#define BOOT_ARGS(arg)                                                                        \
	arg(trace_buf_size, "buffer_size_kb")                                                 \
	arg(trace_clock, "trace_clock")                                                       \
	arg(trace_options, "trace_options")                                                   \
	arg(ftrace_filter, "set_ftrace_filter")                                               \
	arg(ftrace_notrace, "set_ftrace_notrace")                                             \
	arg(ftrace_graph_filter, "set_graph_function")                                        \
	arg(ftrace_graph_notrace, "set_graph_notrace")                                        \
	arg(kprobe_event, "kprobe_events")                                                    \
	arg(trace_event, "set_event")                                                         \
	arg(ftrace, "current_tracer")

enum {
#define NUMBER(name, file) ARG_##name,
	BOOT_ARGS(NUMBER) ARGS
};
static const struct {
	const char *name, *file;
} args[] = {
#define ROW(name, file) {#name, file},
	BOOT_ARGS(ROW)};
static char values[ARGS][256]; /* as lines for the file; empty: not given */

static int store(unsigned arg, const char *value)
{
	char *to = values[arg];

	strlcpy(to, value, sizeof(values[arg]));
	for (; *to; to++)
		if (*to == ';' || *to == ',')
			*to = *to == ',' && arg == ARG_kprobe_event ? ' ' : '\n';
	return 0;
}

/* A number of bytes, or of KiB or MiB with K or M, becomes a number of KiB. */
static int bytes_to_kib(char *value)
{
	char *unit = strchr(value, 'K') ?: strchr(value, 'M');
	u64 n, shift = !unit ? 0 : *unit == 'K' ? 10 : 20;

	if (unit)
		*unit = unit[1] ? 'x' : 0;
	if (kstrtou64(value, 0, &n) || n > UINT32_MAX)
		return -EINVAL;
	snprintf(value, sizeof(values[0]), "%lu", (n << shift) >> 10);
	return 0;
}

/* One write for each line, for files that take one line. */
static int write_lines(struct file *f, const char *line)
{
	ssize_t err = 0;

	for (const char *end; *line && err >= 0; line = end) {
		end = strchr(line, '\n');
		end = end ? end + 1 : line + strlen(line);
		err = file_write(f, line, end - line);
	}
	return err < 0 ? err : 0;
}

static int apply(unsigned arg)
{
	int err = arg == ARG_trace_buf_size ? bytes_to_kib(values[arg]) : 0, close_err;
	char path[80];
	struct file *f;

	snprintf(path, sizeof(path), "%s%s", TRACEFS, args[arg].file);
	err = err ?: file_open(NULL, path, O_WRONLY, &f);
	if (err)
		return err;
	err = write_lines(f, values[arg]);
	close_err = file_close(f);
	return err ?: close_err;
}

/* For the first argument all of them are applied. */
static int apply_all(const char *unused)
{
	for (unsigned arg = 0; arg < ARGS; arg++) {
		int err = *values[arg] ? apply(arg) : 0;

		if (err)
			printk("boot argument '%s=' is refused (%s), ignored\n", args[arg].name,
			       errno_name(-err));
		*values[arg] = 0;
	}
	return 0;
}

#define DECLARE(name, file)                                                                   \
	static int store_##name(const char *value) { return store(ARG_##name, value); }       \
	EARLY_PARAM(#name, store_##name);                                                     \
	TABLE_ENTRY(const struct param, param, name##_late) = {#name, apply_all, false};
BOOT_ARGS(DECLARE)

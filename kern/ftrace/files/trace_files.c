/*
 * The tracefs files for the settings of a trace array: tracer, clock, sizes, tracing_on.
 *
 * The other files of this room: trace_files_buffer.c has those that read and write the
 * events (trace, trace_pipe, trace_marker), filter_files.c those of filters, functions.c
 * the lists of functions, instances.c the directory instances/; last_boot.c makes
 * instances/last_boot. Options and formats are files of trace/.
 *
 * An open, read or write comes from kern/fs/file.c: it calls the file_ops of the table from
 * which tracefs/ made the file. A function here takes the lock that is needed (tracefs.h)
 * and calls trace/ (settings, text), ring/ (events), filters/, core/ and ops/ (functions).
 *
 * This room has no header. instances.c calls the INSTANCE_HOOKs of events/; nothing else
 * calls this room but through the tables of tracefs.
 */
#include "errno.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"

/* ---- available_tracers, current_tracer ---- */

static int available_tracers_show(struct seq *s, u64 item)
{
	TABLE_FOR_EACH(const struct tracer *const, tracer, t)
		seq_printf(s, "%s ", (*t)->name);
	seq_printf(s, "%s\n", nop_tracer.name);
	return 1;
}
TRACEFS_TEXT(available_tracers, "available_tracers", TRACEFS_INSTANCE, available_tracers_show);

static int current_tracer_show(struct seq *s, u64 item)
{
	seq_printf(s, "%s\n", trace_array_of(s->file)->tracer->name);
	return 1;
}

static int current_tracer_set(struct file *f, const char *name)
{
	int err = tracing_set_tracer(trace_array_of(f), name);

	if (err)
		return tracefs_refuse(
			f, err,
			err == -EINVAL	? "no tracer is named '%s'; see available_tracers"
			: err == -EBUSY ? "%s can be used once, and another instance uses it"
			: err == -ENOSPC
				? "%s did not start: no stub, or no slot of function_graph, is free"
				: "%s did not start",
			name);
	return 0;
}
TRACEFS_CONTROL(current_tracer, "current_tracer", TRACEFS_INSTANCE, current_tracer_show, word,
		current_tracer_set);

/* ---- tracing_on ---- */

static u64 tracing_on_get(const struct file *f)
{
	return tracing_is_on(trace_array_of(f));
}

static int tracing_on_set(struct file *f, u64 on)
{
	tracing_slow(trace_array_of(f), RB_OFF, !on);
	return 0;
}
TRACEFS_U64(tracing_on, "tracing_on", TRACEFS_INSTANCE, tracing_on_get, tracing_on_set);

/* ---- trace_clock ---- */

static int trace_clock_show(struct seq *s, u64 item)
{
	const struct trace_clock *chosen = trace_array_of(s->file)->clock;

	for (unsigned i = 0; i < trace_clock_count; i++) {
		bool now = &trace_clocks[i] == chosen;

		seq_printf(s, "%s%s%s%s", i ? " " : "", now ? "[" : "", trace_clocks[i].name,
			   now ? "]" : "");
	}
	seq_printf(s, "\n");
	return 1;
}

static int trace_clock_set(struct file *f, const char *name)
{
	int err = tracing_set_clock(trace_array_of(f), name);

	return err ? tracefs_refuse(f, err, "no clock is named '%s'", name) : 0;
}
TRACEFS_CONTROL(trace_clock, "trace_clock", TRACEFS_INSTANCE, trace_clock_show, word,
		trace_clock_set);

/* ---- buffer_size_kb, buffer_total_size_kb ---- */

/*
 * Print the size of @count buffers; those of all CPUs have the same size. Return: 1, for a file's
 * show function.
 */
static int print_kb(struct seq *s, unsigned count)
{
	const struct trace_array *tr = trace_array_of(s->file);

	seq_printf(s, "%lu", count * ((unsigned long)tr->cpu[0].nr_slots * RB_PAGE_DATA >> 10));
	if (!tr->expanded)
		seq_printf(s, " (expanded: %lu)", count * (TRACE_BUFFER_SIZE >> 10));
	seq_printf(s, "\n");
	return 1;
}

static int buffer_size_show(struct seq *s, u64 item)
{
	return print_kb(s, 1);
}

static int buffer_size_set(struct file *f, u64 kb)
{
	int err;

	if (!kb)
		return tracefs_refuse(f, -EINVAL, "a buffer has at least 1 KiB");
	if (kb > RB_MAX_BYTES >> 10)
		return tracefs_refuse(f, -ENOMEM, "a buffer has at most 1 GiB");
	err = tracing_resize(trace_array_of(f), kb << 10);
	return err ? tracefs_refuse(
			     f, err,
			     err == -EBUSY
				     ? "the buffers are those of last_boot=, whose size is fixed"
				     : "no memory for a buffer of this size")
		   : 0;
}
TRACEFS_CONTROL(buffer_size_kb, "buffer_size_kb", TRACEFS_INSTANCE, buffer_size_show, number,
		buffer_size_set);

static int buffer_total_show(struct seq *s, u64 item)
{
	return print_kb(s, nr_cpus);
}
TRACEFS_TEXT(buffer_total_size_kb, "buffer_total_size_kb", TRACEFS_INSTANCE, buffer_total_show);

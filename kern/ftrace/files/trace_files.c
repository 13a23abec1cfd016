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
	struct trace_array *tr = trace_array_of(f);
	int err;

	tracing_expand(tr);
	err = tracing_set_tracer(tr, name);

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

static unsigned long kb_of(const struct trace_array *tr, unsigned cpu)
{
	return (unsigned long)tr->cpu[cpu].nr_slots * RB_PAGE_DATA >> 10;
}

/* Print @kb, and what @count buffers will have when they are first used. Return: as a show(). */
static int print_kb(struct seq *s, unsigned long kb, unsigned count)
{
	seq_printf(s, "%lu", kb);
	if (!trace_array_of(s->file)->expanded)
		seq_printf(s, " (expanded: %lu)", count * (TRACE_BUFFER_SIZE >> 10));
	seq_printf(s, "\n");
	return 1;
}

static int cpu_of_file(const struct file *f)
{
	return (long)f->node->data;
}

/* "X": the CPUs' buffers are not of one size. */
static int buffer_size_show(struct seq *s, u64 item)
{
	const struct trace_array *tr = trace_array_of(s->file);
	int cpu = cpu_of_file(s->file);

	for (unsigned i = 1; cpu < 0 && i < nr_cpus; i++)
		if (kb_of(tr, i) != kb_of(tr, 0)) {
			seq_printf(s, "X\n");
			return 1;
		}
	if (cpu < 0)
		return print_kb(s, kb_of(tr, 0), 1);
	seq_printf(s, "%lu\n", kb_of(tr, cpu));
	return 1;
}

static int buffer_size_set(struct file *f, u64 kb)
{
	int err;

	if (!kb)
		return tracefs_refuse(f, -EINVAL, "a buffer has at least 1 KiB");
	if (kb > RB_MAX_BYTES >> 10)
		return tracefs_refuse(f, -ENOMEM, "a buffer has at most 1 GiB");
	err = tracing_resize(trace_array_of(f), cpu_of_file(f), kb << 10);
	return err ? tracefs_refuse(
			     f, err,
			     err == -EBUSY
				     ? "the buffers are those of last_boot=, whose size is fixed"
				     : "no memory for a buffer of this size")
		   : 0;
}
CONTROL_OPS(buffer_size_ops, buffer_size_show, number, buffer_size_set);
TRACEFS_INSTANCE_FILE(buffer_size_kb, "buffer_size_kb", 0644, &buffer_size_ops, (void *)-1l);
TRACEFS_CPU_FILE(cpu_buffer_size_kb, "per_cpu/cpu%u/buffer_size_kb", 0644, &buffer_size_ops);

static int buffer_total_show(struct seq *s, u64 item)
{
	unsigned long kb = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		kb += kb_of(trace_array_of(s->file), i);
	return print_kb(s, kb, nr_cpus);
}
TRACEFS_TEXT(buffer_total_size_kb, "buffer_total_size_kb", TRACEFS_INSTANCE, buffer_total_show);

/* ---- tracing_cpumask: hexadecimal, bit 0 is CPU 0; a comma between groups of 32 bits ---- */

static int cpumask_show(struct seq *s, u64 item)
{
	const struct trace_array *tr = trace_array_of(s->file);
	u32 mask = 0;

	for (unsigned i = 0; i < nr_cpus; i++)
		mask |= (READ_ONCE(tr->cpu[i].slow) & RB_MASKED ? 0u : 1u) << i;
	seq_printf(s, "%0*x\n", (int)(nr_cpus + 3) / 4, mask);
	return 1;
}

static int cpumask_set(struct file *f, const char *text)
{
	struct trace_array *tr = trace_array_of(f);
	u64 mask = 0;
	int err = 0;

	while (*text && strchr("0, ", *text)) /* so there is no "0x" */
		text++;
	if (*text)
		err = strchr(text, ',') ? -ERANGE : kstrtou64(text, 16, &mask);
	if (err == -EINVAL)
		return tracefs_refuse(f, err, "not a hexadecimal number");
	if (err || mask >> nr_cpus)
		return tracefs_refuse(f, -EOVERFLOW, "there are %u CPUs", nr_cpus);
	for (unsigned i = 0; i < nr_cpus; i++)
		tracing_slow_cpu(tr, i, RB_MASKED, !(mask >> i & 1));
	return 0;
}
TRACEFS_CONTROL(tracing_cpumask, "tracing_cpumask", TRACEFS_INSTANCE, cpumask_show, word,
		cpumask_set);

/* ---- saved_cmdlines ---- */

static int saved_cmdlines_show(struct seq *s, u64 pid)
{
	char comm[16];

	trace_find_comm(0, pid, comm);
	if (pid && strcmp(comm, "<...>"))
		seq_printf(s, "%lu %s\n", pid, comm);
	return pid == TRACE_PIDS - 1;
}
TRACEFS_TEXT(saved_cmdlines, "saved_cmdlines", TRACEFS_TOP, saved_cmdlines_show);

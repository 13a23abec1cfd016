/*
 * Snapshots: each CPU's buffer changes places with a spare one (ring_buffer.h), so what led to an
 * event is kept while recording goes on. As on Linux the two are exchanged, not copied: after a
 * second snapshot, `trace` shows the first one's events again, until they are overwritten.
 *
 *	echo 1 > snapshot	take one; the first time, make the spare buffers
 *	echo 2 > snapshot	empty it (any number but 0 and 1)
 *	echo 0 > snapshot	the same, and give its memory back
 *
 * A trigger and a command of set_ftrace_filter take one at an event and at a call. They make the
 * spare buffers when they are written.
 *
 * The spare buffers are those of a trace array of their own. It has the tracer, the clock and the
 * options of the other one while a file is opened, and it stays as long as that one: a file that
 * shows it may be open. Its memory is given back by making its buffers as small as they can be.
 * All of this but tracing_snapshot() with trace_lock held.
 */
#include "errno.h"
#include "event_write.h"
#include "irq.h"
#include "string.h"
#include "tracefs.h"

static bool has_snapshot(const struct trace_array *tr)
{
	return tr->snapshot && tr->snapshot->expanded;
}

/* Make the structure, without buffers. NULL: no memory. */
static struct trace_array *make_spare(struct trace_array *tr)
{
	struct trace_array *spare = page_alloc(0);

	if (!spare)
		return NULL;
	memset(spare, 0, sizeof(*spare));
	for (unsigned i = 0; i < nr_cpus; i++) {
		spare->cpu[i].cpu = i;
		spare->cpu[i].live = &tr->cpu[i];
		tr->cpu[i].spare = &spare->cpu[i];
	}
	return tr->snapshot = spare;
}

int tracing_alloc_snapshot(struct trace_array *tr)
{
	int err = 0;

	if (tr->cpu[0].fixed || tr->tracer->print_max)
		return -EBUSY;
	if (has_snapshot(tr))
		return 0;
	tracing_expand(tr);
	if (!tr->snapshot && !make_spare(tr))
		return -ENOMEM;
	for (unsigned i = 0; i < nr_cpus && !err; i++)
		err = tracing_resize(tr->snapshot, i,
				     (unsigned long)tr->cpu[i].nr_slots * RB_PAGE_DATA);
	if (err)
		tracing_resize(tr->snapshot, -1, 0);
	WRITE_ONCE(tr->snapshot->expanded, !err);
	return err;
}

void tracing_snapshot(struct trace_array *tr, int cpu)
{
	unsigned long flags = irq_save();
	bool can = READ_ONCE(tr->snapshot->expanded) && !READ_ONCE(tr->tracer)->print_max;

	for (unsigned i = 0; can && i < nr_cpus; i++)
		if (cpu_of(i)->online && (cpu < 0 || cpu == (int)i))
			__atomic_fetch_xor(&tr->cpu[i].slow, RB_SWAP, __ATOMIC_RELAXED);
	rb_swap_pending(&tr->cpu[this_cpu()->index]);
	irq_restore(flags);
}

/* ---- The files ---- */

static int cpu_of_file(const struct file *f)
{
	return (long)f->node->data;
}

static int help_show(struct seq *s, u64 item)
{
	const struct trace_array *tr = trace_array_of(s->file);
	bool one = cpu_of_file(s->file) >= 0;
	const char *cpu = one ? " of this CPU" : "";

	seq_printf(s, "# tracer: %s\n#\n#\n# * Snapshot is %s *\n#\n# Snapshot commands:\n",
		   tr->tracer->name, has_snapshot(tr) ? "allocated" : "freed");
	seq_printf(s, "# echo 0 > snapshot : %s\n",
		   one ? "is refused: a snapshot is freed for all CPUs" :
			 "empties the snapshot and frees its memory");
	seq_printf(s, "# echo 1 > snapshot : takes a snapshot%s; the first one needs memory\n"
		      "# echo 2 > snapshot : empties the snapshot%s; so does any larger number\n",
		   cpu, cpu);
	return 1;
}

static bool is_empty(struct trace_array *spare, int cpu)
{
	u64 entries = 0;

	for (unsigned i = 0; i < nr_cpus; i++) {
		rb_lock(&spare->cpu[i]);
		entries += cpu < 0 || cpu == (int)i ? rb_entries(&spare->cpu[i]) : 0;
		rb_unlock(&spare->cpu[i]);
	}
	return !entries;
}

static int snapshot_open(struct file *f)
{
	struct trace_array *tr = trace_array_of(f), *spare;
	int cpu = cpu_of_file(f), err;

	if ((f->flags & O_ACCMODE) == O_WRONLY)
		return 0;
	mutex_lock(&trace_lock);
	spare = tr->snapshot;
	if (!has_snapshot(tr) || is_empty(spare, cpu)) {
		err = seq_open(f, help_show, NULL);
	} else {
		err = trace_open_events(f, tracing_spare(tr), cpu);
	}
	mutex_unlock(&trace_lock);
	return err;
}

/* tracing_reset() waits until no CPU can be about to ask for a snapshot; what was asked is done. */
int tracing_free_snapshot(struct trace_array *tr)
{
	if (!has_snapshot(tr))
		return 0;
	WRITE_ONCE(tr->snapshot->expanded, false);
	tracing_reset(tr->snapshot, -1);
	return tracing_resize(tr->snapshot, -1, 0);
}

static int snapshot_set(struct file *f, u64 value)
{
	struct trace_array *tr = trace_array_of(f);
	int cpu = cpu_of_file(f), err;

	if (tr->tracer->print_max)
		return tracefs_refuse(f, -EBUSY, "the spare buffers are in use by %s",
				      tr->tracer->name);
	if (!value)
		return cpu < 0 ? tracing_free_snapshot(tr) :
				 tracefs_refuse(f, -EINVAL, "a snapshot is freed for all CPUs");
	if (value == 1) {
		err = tracing_alloc_snapshot(tr);
		if (err)
			return tracefs_refuse(f, err, err == -EBUSY ?
					      "the buffers are those of last_boot=" :
					      "no memory for a second set of buffers");
		tracing_snapshot(tr, cpu);
	} else if (has_snapshot(tr)) {
		tracing_reset(tr->snapshot, cpu);
	}
	return 0;
}

static ssize_t snapshot_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	return tracefs_set_number(f, buf, n, snapshot_set);
}

static const struct file_ops snapshot_ops = {snapshot_open, seq_read, snapshot_write,
					     trace_release};
TRACEFS_INSTANCE_FILE(snapshot, "snapshot", 0644, &snapshot_ops, (void *)-1l);
TRACEFS_CPU_FILE(cpu_snapshot, "per_cpu/cpu%u/snapshot", 0644, &snapshot_ops);

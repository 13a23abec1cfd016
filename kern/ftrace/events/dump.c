/*
 * ftrace_dump_on_oops: the events of the buffers in TRACEFS are printed at the end of a panic's
 * report, those of all CPUs, or (orig_cpu) of the one that panics. With last_boot= the next boot
 * shows them instead, because printing consumes them. A boot argument, and a number in
 * /proc/sys/kernel/ftrace_dump_on_oops: 0, 1 (all CPUs), or 2.
 */
#include "errno.h"
#include "fdt.h"
#include "string.h"
#include "trace_probe.h"
#include "tracefs.h"

#define RULE "---------------------------------\n"

enum { DUMP_NONE, DUMP_ALL, DUMP_ORIG };
static u64 dump_on_oops;

/* Nothing that still runs on this CPU may record, or exchange the buffers for a snapshot. */
static void stop(void)
{
	tracing_slow(&global_trace, RB_OFF | RB_STOPPED, true);
	for (unsigned i = 0; i < nr_cpus; i++)
		WRITE_ONCE(global_trace.cpu[i].busy, 1);
	events_by_id_lock = (struct mutex)MUTEX_INIT; /* a stopped CPU's thread may hold it */
}

static void dump(void)
{
	static char buffer[KiB(16)];
	static struct trace_printer printer;
	struct seq s = {.buf = buffer, .size = sizeof(buffer)};
	int cpu = dump_on_oops == DUMP_ORIG ? (int)this_cpu()->index : -1;
	bool any = false;

	if (dump_on_oops == DUMP_NONE)
		return;
	if (global_trace.kept_clock) {
		printk("The ftrace buffer is kept for the next boot: instances/last_boot\n");
		return;
	}
	stop();
	printer.tr = &global_trace;
	printk("Dumping ftrace buffer:\n");
	for (; trace_dump_line(&printer, cpu, &s); s.len = 0) {
		if (!any)
			printk(RULE);
		console_write(buffer, s.len);
		any = true;
	}
	printk(any ? RULE : "   (ftrace buffer empty)\n");
}
PANIC_END(dump);

static u64 dump_get(const struct file *f)
{
	return dump_on_oops;
}

static int dump_set(struct file *f, u64 value)
{
	if (value > DUMP_ORIG)
		return tracefs_refuse(f, -EINVAL, "0, 1 or 2");
	dump_on_oops = value;
	return 0;
}
TRACEFS_U64(ftrace_dump_on_oops, "/proc/sys/kernel/ftrace_dump_on_oops", TRACEFS_TOP, dump_get,
	    dump_set);

static int param_dump(const char *value)
{
	u64 number = DUMP_ALL;

	if (!strcmp(value, "orig_cpu"))
		number = DUMP_ORIG;
	else if (*value && (kstrtou64(value, 10, &number) || number > DUMP_ORIG))
		return -EINVAL;
	dump_on_oops = number;
	return 0;
}
PARAM("ftrace_dump_on_oops", param_dump);

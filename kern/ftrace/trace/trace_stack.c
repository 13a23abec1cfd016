/*
 * The stack tracer: it keeps the deepest stack of any thread, with the function
 * and the size of each frame. It is an op of its own, with a filter of its own.
 *
 * The depth is taken at the call site of a traced function. The function has no
 * frame yet, so it is the first line, with size 0.
 */
#include "asm-ftrace/regs.h"
#include "errno.h"
#include "filter.h"
#include "fdt.h"
#include "string.h"
#include "trace.h"
#include "tracefs.h"
#include "unwind.h"

#define STACK_ENTRIES 64

/* Written under stack_lock; every traced call reads max_size without the lock. */
static struct {
	unsigned long max_size;
	unsigned count;
	struct place {
		unsigned long caller, depth;
	} places[STACK_ENTRIES];
} deepest;
static struct spinlock stack_lock; /* interrupts masked */
static bool enabled;		   /* under trace_lock */

/* The first entry is the traced function, which has no frame on the stack yet. */
static __noinline void record_stack(unsigned long ip, unsigned long parent_ip,
				    const struct ftrace_regs *regs)
{
	struct unwind u;
	unsigned n;

	unwind_start_at(&u, current, unwind_true_caller(current, parent_ip, regs->fp), regs->fp,
			regs->sp);
	deepest.places[0] = (struct place){ip + 4, u.high - regs->sp};
	for (n = 1; n < STACK_ENTRIES && (n == 1 || unwind_next(&u)); n++)
		deepest.places[n] = (struct place){unwind_entry(&u), u.high - u.sp};
	deepest.count = n;
	deepest.max_size = deepest.places[0].depth;
}

/*
 * Calls in exception context are ignored: the walk itself may cause an exception, which ends in a
 * panic.
 */
static void stack_trace_call(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			     struct ftrace_regs *regs)
{
	unsigned long depth = (unsigned long)current->stack + THREAD_SIZE - regs->sp, flags;

	if (likely(depth <= READ_ONCE(deepest.max_size)) || depth > THREAD_SIZE)
		return;
	flags = irq_save();
	if (this_cpu()->context_bit != 4) {
		spin_lock(&stack_lock);
		if (depth > deepest.max_size)
			record_stack(ip, parent_ip, regs);
		spin_unlock(&stack_lock);
	}
	irq_restore(flags);
}

static struct ftrace_ops stack_ops = {
	.func = stack_trace_call, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};

/* ---- /proc/sys/kernel/stack_tracer_enabled, and the boot arguments ---- */

static u64 enabled_get(const struct file *f)
{
	return enabled;
}

/* Context: thread, trace_lock held, or boot. */
static int enabled_set(struct file *unused, u64 on)
{
	int err = 0;

	if (!!on != enabled)
		err = on ? register_ftrace_function(&stack_ops)
			 : unregister_ftrace_function(&stack_ops);
	if (!err)
		enabled = on;
	return err;
}
TRACEFS_U64(stack_tracer_enabled, "/proc/sys/kernel/stack_tracer_enabled", TRACEFS_TOP, enabled_get,
	    enabled_set);

static int param_stacktrace(const char *value)
{
	return enabled_set(NULL, true);
}
PARAM("stacktrace", param_stacktrace);

static int param_stacktrace_filter(const char *value)
{
	return ftrace_set_filter(&stack_ops, value, strlen(value), true, false)
		       ?: enabled_set(NULL, true);
}
PARAM("stacktrace_filter", param_stacktrace_filter);

/* ---- stack_max_size, stack_trace, stack_trace_filter ---- */

static u64 max_size_get(const struct file *f)
{
	return READ_ONCE(deepest.max_size);
}

/* From now on only a stack deeper than @size is recorded; 0 starts anew. */
static int max_size_set(struct file *f, u64 size)
{
	unsigned long flags = spin_lock_irqsave(&stack_lock);

	deepest.max_size = size;
	deepest.count = 0;
	spin_unlock_irqrestore(&stack_lock, flags);
	return 0;
}
TRACEFS_U64(stack_max_size, "stack_max_size", TRACEFS_TOP, max_size_get, max_size_set);

/*
 * Copy all entries under one lock. No memcpy(): if it is traced, its callback would wait for that
 * lock.
 */
static unsigned copy_deepest(struct place *places)
{
	unsigned long flags = spin_lock_irqsave(&stack_lock);
	unsigned count = deepest.count;

	for (unsigned i = 0; i < count; i++)
		places[i] = deepest.places[i];
	spin_unlock_irqrestore(&stack_lock, flags);
	return count;
}

static int stack_trace_show(struct seq *s, u64 item)
{
	struct place *places = kmalloc(sizeof(deepest.places));
	unsigned count;

	if (!places)
		return -ENOMEM;
	count = copy_deepest(places);
	seq_printf(s, "        Depth    Size   Location    (%u entries)\n"
		      "        -----    ----   --------\n", count);
	for (unsigned i = 0; i < count; i++)
		seq_printf(s, "%3u) %8lu   %5lu   %pB\n", i, places[i].depth,
			   places[i].depth - (i + 1 < count ? places[i + 1].depth : 0),
			   (void *)places[i].caller);
	kfree(places);
	if (!enabled && !count)
		seq_printf(s, "#\n# The stack tracer is off. To switch it on, boot with "
			      "`stacktrace`, or\n"
			      "#   echo 1 > /proc/sys/kernel/stack_tracer_enabled\n#\n");
	return 1;
}
TRACEFS_TEXT(stack_trace, "stack_trace", TRACEFS_TOP, stack_trace_show);

static struct ftrace_filter *filter_of(const struct file *f)
{
	return &stack_ops.filter;
}
TRACEFS_FILTER(stack_trace_filter, "stack_trace_filter", TRACEFS_TOP, filter_of, false);

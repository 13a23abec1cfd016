/*
 * A bad neighbour, for the latency tracers: `insmod hold us=3000`, then a write to /proc/hold of
 *
 *	irqs	masks interrupts for 3,000 microseconds
 *	preempt	disables preemption for so long
 *	both	disables preemption; masks interrupts, too; enables preemption; unmasks
 *		interrupts: with 3,000 microseconds from each step to the next
 */
#include "errno.h"
#include "file.h"
#include "irq.h"
#include "irqflags.h"
#include "module.h"
#include "string.h"

#define MOST 1000000 /* microseconds; the watchdog reports a CPU after some seconds */

static long us = 1000;
module_param(us, long);

static struct node *node;

static __noinline void spend(void)
{
	u64 end = arch_counter() + ns_to_ticks((u64)us * 1000);

	while (arch_counter() < end)
		;
}

static __noinline void hold_irqs(void)
{
	unsigned long flags = local_irq_save();

	spend();
	local_irq_restore(flags);
}

static __noinline void hold_preempt(void)
{
	preempt_disable();
	spend();
	preempt_enable();
}

static __noinline void hold_both(void)
{
	unsigned long flags;

	preempt_disable();
	spend();
	flags = local_irq_save();
	spend();
	preempt_enable();
	spend();
	local_irq_restore(flags);
}

static const struct {
	const char *name;
	void (*hold)(void);
} ways[] = {{"irqs", hold_irqs}, {"preempt", hold_preempt}, {"both", hold_both}};

static ssize_t hold_write(struct file *f, const char *buf, size_t n, u64 *pos)
{
	for (unsigned i = 0; i < ARRAY_SIZE(ways); i++) {
		size_t length = strlen(ways[i].name);

		if (n < length || n > length + 1 || strncmp(buf, ways[i].name, length))
			continue;
		ways[i].hold();
		return n;
	}
	return -EINVAL;
}
static const struct file_ops ops = {.write = hold_write};

static int hold_init(void)
{
	if (us < 0 || us > MOST)
		return -EINVAL;
	node = file_make("/proc/hold", 0222, &ops, NULL);
	return node ? 0 : -EEXIST;
}
module_init(hold_init);

static void hold_exit(void)
{
	file_unmake(node);
}
module_exit(hold_exit);

/*
 * What every stage of the function tracer has: the op that current_tracer and
 * set_ftrace_filter control, the lock, and the guard against recursion.
 */
#include "cpu.h"
#include "ftrace.h"
#include "ftrace_internal.h"

struct mutex ftrace_lock = MUTEX_INIT;
bool ftrace_disabled;

/* current_tracer's op; it guards itself (trace.h). */
struct ftrace_ops global_ops = {.func = ftrace_stub, .flags = FTRACE_OPS_FL_RECURSION, .slot = -1};

notrace void ftrace_assist_func(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				struct ftrace_regs *regs)
{
	unsigned long flags = irq_save();
	struct cpu *cpu = this_cpu();
	u64 bit = cpu->context_bit;
	bool again = cpu->recursion & bit;

	cpu->recursion |= bit;
	irq_restore(flags);
	if (again)
		return;
	op->func(ip, parent_ip, op, regs);
	flags = irq_save();
	cpu->recursion &= ~bit;
	irq_restore(flags);
}

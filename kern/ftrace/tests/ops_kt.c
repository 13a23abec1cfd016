/*
 * Ops, alone and together, and their registers: tests the promises of ftrace.h.
 */
#include "kt.h"
#include "asm-ftrace/regs.h"
#include "cpu.h"
#include "errno.h"
#include "ftrace.h"
#include "irq.h"
#include "ksyms.h"
#include "sched.h"
#include "string.h"
#include "trace.h"
#include "unwind.h"

#define NEED (TRACE_FLAG_NEED_RESCHED | TRACE_FLAG_PREEMPT_RESCHED)

/* ---- The functions that are traced. ---- */

long kt_eight(long a, long b, long c, long d, long e, long f, long g, long h);
long kt_double(long x);
long kt_other(long x);
long kt_caller(long x);

__noinline long kt_eight(long a, long b, long c, long d, long e, long f, long g, long h)
{
	barrier();
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h;
}
__noinline long kt_double(long x)
{
	barrier();
	return 2 * x;
}
__noinline long kt_other(long x)
{
	barrier();
	return x + 1;
}
__noinline long kt_caller(long x)
{
	return kt_double(x) + 1;
}

/* ---- The callbacks. ---- */

static struct ftrace_regs seen;
static unsigned long seen_ip, seen_parent, seen_at;
static unsigned long walked[8];
static unsigned walked_count;
static unsigned calls_of[4];

static notrace void count_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				   struct ftrace_regs *regs)
{
	calls_of[(unsigned long)op->private]++;
}
static notrace void see_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				 struct ftrace_regs *regs)
{
	seen = *regs;
	seen_at = (unsigned long)regs;
	seen_ip = ip;
	seen_parent = parent_ip;
}
static notrace void argument_callback(unsigned long ip, unsigned long parent_ip,
				      struct ftrace_ops *op, struct ftrace_regs *regs)
{
	regs->arg[0] = 100;
}
static notrace void return_callback(unsigned long ip, unsigned long parent_ip,
				    struct ftrace_ops *op, struct ftrace_regs *regs)
{
	regs->arg[0] = 4711;
	regs->pc = regs->link;
}
static notrace void walk_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
				  struct ftrace_regs *regs)
{
	struct unwind u;

	unwind_start_here(&u);
	for (walked_count = 0; walked_count < ARRAY_SIZE(walked); walked_count++) {
		walked[walked_count] = u.pc;
		if (!unwind_next(&u))
			break;
	}
}
/* Traces itself, to test the guard: the proof does not know this callback. */
static void recursive_callback(unsigned long ip, unsigned long parent_ip, struct ftrace_ops *op,
			       struct ftrace_regs *regs)
{
	calls_of[(unsigned long)op->private]++;
	kt_double(1);
}

static struct ftrace_ops make_op(ftrace_func_t func, unsigned long number, u32 flags)
{
	return (struct ftrace_ops){
		.func = func, .flags = flags, .slot = -1, .private = (void *)number};
}

static int start(struct ftrace_ops *op, const char *filter)
{
	int err = ftrace_set_filter(op, filter, strlen(filter), true, false);

	return err ? err : register_ftrace_function(op);
}

static void stop(struct ftrace_ops *op)
{
	unregister_ftrace_function(op);
	ftrace_set_filter(op, "", 0, true, false);
}

/* ---- The promises. ---- */

static void registers_are_seen(void)
{
	struct ftrace_ops op = make_op(see_callback, 0, FTRACE_OPS_FL_RECURSION);
	struct dyn_ftrace *rec;
	bool arguments = true;
	long sum;

	if (!kt_promise(!start(&op, "kt_eight"), "an op is registered"))
		return;
	rec = lookup_rec_range((unsigned long)kt_eight, (unsigned long)kt_eight + 8);
	sum = kt_eight(1, 2, 3, 4, 5, 6, 7, 8);
	stop(&op);
	kt_promise(sum == 204, "tracing changes no result");
	for (int i = 0; i < 8; i++)
		arguments &= seen.arg[i] == i + 1;
	kt_promise(arguments, "the callback sees all eight arguments");
	kt_promise(rec && seen_ip == ftrace_ip(rec), "ip is the call site");
	kt_promise(seen.pc == seen_ip + 4, "pc is the instruction after the call site");
	kt_promise(seen.link == seen_parent, "link is the parent");
	kt_promise(seen.sp == seen_at + sizeof(seen) && !(seen.sp & 15), "sp is the caller's");
	kt_promise(seen.fp == (unsigned long)__builtin_frame_address(0), "fp is the caller's");
}

static void registers_are_changed(void)
{
	struct ftrace_ops op =
		make_op(argument_callback, 0, FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	long (*volatile twice)(long) = kt_double;

	start(&op, "kt_double");
	kt_promise(twice(1) == 200, "a changed argument is what the function gets");
	stop(&op);
	op = make_op(return_callback, 0, FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION);
	start(&op, "kt_double");
	kt_promise(twice(1) == 4711, "pc = link returns at once, with the callback's value");
	stop(&op);
	kt_promise(twice(1) == 2, "after unregister the function's own body runs");
}

static bool in_function(unsigned long pc, const char *name)
{
	const char *found = ksym_lookup(pc, NULL, NULL);

	return found && !strcmp(found, name);
}

static __noinline void stack_is_walked(void)
{
	struct ftrace_ops op = make_op(walk_callback, 0, FTRACE_OPS_FL_RECURSION);
	long (*volatile caller)(long) = kt_caller;
	unsigned i = 0;

	start(&op, "kt_double");
	caller(1);
	stop(&op);
	while (i < walked_count && !in_function(walked[i], "kt_double"))
		i++;
	kt_promise(i < walked_count, "a walk from the callback sees the traced function");
	kt_promise(i + 1 < walked_count && in_function(walked[i + 1], "kt_caller"),
		   "the walk then sees the function's caller");
	kt_promise(i + 2 < walked_count && in_function(walked[i + 2], "stack_is_walked"),
		   "and then the caller of that");
}

static void many_ops(void)
{
	struct ftrace_ops a = make_op(count_callback, 0, FTRACE_OPS_FL_RECURSION);
	struct ftrace_ops b = make_op(count_callback, 1, FTRACE_OPS_FL_RECURSION);
	struct ftrace_ops c = make_op(count_callback, 2, 0);
	long (*volatile twice)(long) = kt_double, (*volatile other)(long) = kt_other;

	memset(calls_of, 0, sizeof(calls_of));
	start(&a, "kt_double");
	start(&b, "kt_other");
	start(&c, "kt_double");
	for (int i = 0; i < 10; i++)
		twice(i);
	other(1);
	kt_promise(calls_of[0] == 10 && calls_of[2] == 10,
		   "two ops of one function both get each call");
	kt_promise(calls_of[1] == 1, "an op is not called for another op's functions");
	stop(&a);
	twice(1);
	kt_promise(calls_of[0] == 10 && calls_of[2] == 11,
		   "the op that stays registered is still called");
	kt_promise(register_ftrace_function(&b) == -EBUSY, "registered twice: -EBUSY");
	stop(&b);
	stop(&c);
	twice(1);
	kt_promise(calls_of[2] == 11, "after unregister no op is called");
}

static void recursion_is_cut(void)
{
	struct ftrace_ops op = make_op(recursive_callback, 3, 0);
	long (*volatile twice)(long) = kt_double;

	calls_of[3] = 0;
	start(&op, "kt_double");
	twice(1);
	twice(1);
	stop(&op);
	kt_promise(calls_of[3] == 2,
		   "a callback that calls a function that it traces is called once for each call");
}

static void one_may_change_pc(void)
{
	u32 flags = FTRACE_OPS_FL_IPMODIFY | FTRACE_OPS_FL_RECURSION;
	struct ftrace_ops a = make_op(argument_callback, 0, flags),
			  b = make_op(return_callback, 0, flags);

	start(&a, "kt_double");
	kt_promise(start(&b, "kt_*") == -EBUSY, "a second op that changes pc: -EBUSY");
	kt_promise(start(&b, "kt_other") == 0, "for another function it is registered");
	kt_promise(ftrace_set_filter(&b, "kt_double", 9, false, false) == -EBUSY,
		   "its filter cannot get a function of the first op: -EBUSY");
	stop(&a);
	stop(&b);
}

static int refuse(struct ftrace_filter *filter)
{
	return -ENOMEM;
}

/* The sites are patched already when the code that shares the filter refuses the change. */
static void a_filter_that_is_refused_is_not_taken(void)
{
	struct ftrace_ops op = make_op(count_callback, 0, 0);
	long (*volatile twice)(long) = kt_double, (*volatile other)(long) = kt_other;

	calls_of[0] = 0;
	start(&op, "kt_double");
	op.filter.changed = refuse;
	kt_promise(ftrace_set_filter(&op, "kt_other", 8, true, false) == -ENOMEM,
		   "the error is returned");
	twice(1);
	other(1);
	kt_promise(calls_of[0] == 1, "the op has the functions that it had (%u calls)",
		   calls_of[0]);
	op.filter.changed = NULL;
	stop(&op);
}

/* Interrupts are masked, so the reschedule stays due, and the event shows it. */
static void a_reschedule_that_is_due_is_shown(void)
{
	long (*volatile twice)(long) = kt_double;
	struct ring_buffer_cpu *rb;
	const struct trace_entry *e;
	struct rb_event ev;
	unsigned long irq;
	u8 flags = 0;

	set_cpu_affinity(this_cpu()->index);
	rb = &global_trace.cpu[this_cpu()->index];
	kt_echo("kt_double", "set_ftrace_filter", false);
	kt_echo("function", "current_tracer", false);
	irq = irq_save();
	resched_curr(this_cpu());
	twice(1);
	irq_restore(irq);
	rb_lock(rb);
	if (rb_peek(rb, &ev)) {
		e = ev.data;
		flags = e->flags;
	}
	rb_unlock(rb);
	kt_promise((flags & NEED) == NEED, "an event says that a reschedule is due (flags %02x)",
		   flags);
	kt_echo("nop", "current_tracer", false);
	kt_echo("", "set_ftrace_filter", false);
	set_cpu_affinity(-1);
}

static int ops_command(int argc, char **argv)
{
	u64 text = kt_text_hash();

	kt_begin();
	registers_are_seen();
	registers_are_changed();
	stack_is_walked();
	many_ops();
	recursion_is_cut();
	one_may_change_pc();
	a_filter_that_is_refused_is_not_taken();
	a_reschedule_that_is_due_is_shown();
	kt_promise(kt_text_hash() == text, "text at the end is text at the start");
	return kt_end();
}
SHELL_COMMAND("kt_ops", ops_command, "", "ops: registers, several, recursion, IPMODIFY");

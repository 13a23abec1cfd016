/*
 * Panics, and faults that end one thread. A person and a harness read the report: the cause, the
 * CPU and thread, the registers, the call trace, "end of panic". Then the machine is turned off
 * with the status of a failure.
 *
 * A panic inside a panic prints one line and turns the machine off. If the console
 * itself faults, nothing is printed.
 */
#include "breakpoint.h"
#include "cpu.h"
#include "errno.h"
#include "irq.h"
#include "print.h"
#include "trap.h"
#include "unwind.h"

#define TRACE_MAX 64

static int panic_cpu = -1;
static char text[256]; /* used by the reporting CPU only */

/* The first CPU reports; another CPU that panics meanwhile waits forever. */
static void enter_panic(void)
{
	static int again; /* panics of the reporting CPU after its first */
	int none = -1, self;

	irq_disable(); /* before this CPU's index is read: no migration after it */
	self = this_cpu()->index;
	if (__atomic_compare_exchange_n(&panic_cpu, &none, self, false, __ATOMIC_ACQ_REL,
					__ATOMIC_ACQUIRE)) {
		ipi_stop_others();
		console_panic_mode();
		return;
	}
	if (none == self && ++again == 1) {
		console_panic_mode(); /* the first panic may not have reached its own call */
		printk("\npanic: recursive panic\nend of panic\n");
	}
	if (none == self && again <= 2)
		firmware_poweroff(true); /* may print that it cannot */
	park_cpu();
}

/* An interrupted pc is exact; any other is a return address. */
static void show_place(const struct unwind *u, const char *before)
{
	printk(u->regs ? "%s%pS\n" : "%s%pB\n", before, (void *)u->pc);
}

static void trace_line(unsigned long pc, bool exact)
{
	printk(exact ? "  [<%016lx>] %pS\n" : "  [<%016lx>] %pB\n", pc, (void *)pc);
}

static void show_trace(struct unwind *u)
{
	struct stack_lines lines = {trace_line, printk, "  "};

	printk("Call trace:\n");
	do
		stack_line(&lines, u->pc, u->regs);
	while (unwind_next(u) && lines.printed < TRACE_MAX);
	stack_lines_end(&lines);
}

static void __noreturn die(struct trap_frame *regs, struct unwind *u)
{
	printk("\npanic: %s\n", text);
	scnprintf(text, sizeof(text), "CPU %u, thread %d (%s), at ", this_cpu()->index,
		  current->pid, current->comm);
	show_place(u, text);
	if (regs)
		arch_show_regs(regs);
	show_trace(u);
	TABLE_FOR_EACH(const struct panic_end, panic_end, end)
		end->fn();
	printk("end of panic\n");
	firmware_poweroff(true);
}

/* For panic(): the trace begins with its caller. */
static void __noreturn report_panic(const char *fmt, va_list args)
{
	struct unwind u;

	enter_panic();
	unwind_start_here(&u);
	unwind_next(&u); /* to panic() */
	unwind_next(&u);
	vsnprintf(text, sizeof(text), fmt, args);
	die(NULL, &u);
}
PANIC_HOOK(report_panic);

/*
 * May this thread end here, alone? Only if it asked for that (current->faulted), and holds nothing
 * for which others would wait: it was preemptible, holds no mutex, is in no wait queue, and was not
 * in the tracer. After a stack overflow @regs are on another stack, and the answer is no.
 */
static bool ends_alone(struct trap_frame *regs)
{
	return current->faulted && IS_WITHIN(regs, (unsigned long)current->stack, THREAD_SIZE) &&
	       regs_irqs_on(regs) && current->ctx < CTX_PREEMPT && !(current->ctx & CTX_HARDIRQ) &&
	       !current->mutexes && !current->waits_in && !this_cpu()->recursion &&
	       !in_tracer(unwind_true_pc(regs));
}

static void __noreturn end_alone(struct trap_frame *regs, const char *fmt, va_list args)
{
	bool *faulted = current->faulted;
	struct unwind u;
	char why[128];

	current->faulted = NULL;
	vsnprintf(why, sizeof(why), fmt, args);
	printk("thread %d (%s) ends: %s, at %pS\n", current->pid, current->comm, why,
	       (void *)unwind_true_pc(regs));
	unwind_start_regs(&u, regs);
	show_trace(&u);
	*faulted = true;
	this_cpu()->context_bit = 1; /* the exception is over */
	irq_enable();
	thread_exit(-EFAULT);
}

void panic_regs(struct trap_frame *regs, const char *fmt, ...)
{
	struct unwind u;
	va_list args;

	va_start(args, fmt);
	if (ends_alone(regs))
		end_alone(regs, fmt, args);
	enter_panic();
	unwind_start_regs(&u, regs);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	die(regs, &u);
}

/* In a panic no probe's handler may run. */
NOKPROBE_SYMBOL(enter_panic);
NOKPROBE_SYMBOL(die);
NOKPROBE_SYMBOL(report_panic);
NOKPROBE_SYMBOL(panic_regs);

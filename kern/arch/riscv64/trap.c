/*
 * Decodes traps. Interrupts go to their handlers; fault.c says what an exception may be
 * if it is no kernel bug.
 */
#include "cpu.h"
#include "irq.h"
#include "print.h"
#include "trap.h"

enum { IRQ_SOFTWARE = 1, IRQ_TIMER = 5, IRQ_EXTERNAL = 9 };
enum {
	EXC_FETCH_ACCESS = 1,
	EXC_BREAKPOINT = 3,
	EXC_LOAD_ACCESS = 5,
	EXC_STORE_ACCESS = 7,
	EXC_FETCH_PAGE = 12,
	EXC_LOAD_PAGE = 13,
	EXC_STORE_PAGE = 15,
};

static const char *const exception_names[] = {
	[0] = "misaligned instruction address",
	[EXC_FETCH_ACCESS] = "instruction access fault (no memory there)",
	[2] = "illegal instruction",
	[EXC_BREAKPOINT] = "ebreak",
	[4] = "misaligned load",
	[EXC_LOAD_ACCESS] = "load access fault (no memory or device there)",
	[6] = "misaligned store or atomic",
	[EXC_STORE_ACCESS] = "store access fault (no memory or device there)",
	[8] = "ecall from user mode",
	[9] = "ecall from supervisor mode",
};

__irq_entry void dispatch_interrupt(struct trap_frame *regs)
{
	unsigned long cause = regs->cause;

	switch (cause & ~SCAUSE_INTERRUPT) {
	case IRQ_SOFTWARE:
		csr_clear(sip, SIE_SOFTWARE);
		handle_ipi();
		break;
	case IRQ_TIMER:
		handle_timer();
		break;
	case IRQ_EXTERNAL:
		handle_external();
		break;
	default:
		printk("Interrupt %lu was not enabled and is ignored.\n", cause << 1 >> 1);
		csr_clear(sie, 1ul << (cause & 63));
	}
}

notrace void panic_exception(struct trap_frame *regs)
{
	unsigned long cause = regs->cause;

	if (cause == EXC_FETCH_PAGE)
		panic_fault(regs, regs->tval, "execution of");
	if (cause == EXC_LOAD_PAGE)
		panic_fault(regs, regs->tval, "read from");
	if (cause == EXC_STORE_PAGE)
		panic_fault(regs, regs->tval, "write to");
	if (cause < ARRAY_SIZE(exception_names) && exception_names[cause])
		panic_regs(regs, "%s at 0x%lx (0x%lx)", exception_names[cause], regs->pc,
			   regs->tval);
	panic_regs(regs, "exception %lu at 0x%lx (0x%lx)", cause, regs->pc, regs->tval);
}

notrace void arch_show_regs(const struct trap_frame *regs)
{
	static const char names[32][4] = {"",   "ra", "sp", "gp", "tp", "t0",  "t1",  "t2",
					  "s0", "s1", "a0", "a1", "a2", "a3",  "a4",  "a5",
					  "a6", "a7", "s2", "s3", "s4", "s5",  "s6",  "s7",
					  "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6"};

	printk("  pc %016lx  status %lx  cause %lx  tval %lx\n", regs->pc, regs->status,
	       regs->cause, regs->tval);
	for (int i = 1; i < 32; i += 4)
		printk(" %3.3s %016lx %3.3s %016lx %3.3s %016lx %3.3s %016lx\n", names[i],
		       regs->x[i], names[i + 1], regs->x[i + 1], names[i + 2], regs->x[i + 2],
		       i + 3 < 32 ? names[i + 3] : "", i + 3 < 32 ? regs->x[i + 3] : 0);
}

void arch_init_cpu(void)
{
	csr_write(stvec, (unsigned long)exception_vector);
	csr_write(sie, SIE_SOFTWARE | SIE_TIMER | SIE_EXTERNAL);
}

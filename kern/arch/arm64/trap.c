/*
 * Decodes exceptions. Interrupts go to the interrupt controller's handler; fault.c says
 * what another exception may be if it is no kernel bug.
 */
#include "cpu.h"
#include "irq.h"
#include "print.h"
#include "trap.h"

/* Exception classes, esr_el1 bits 31:26. */
#define ESR_CLASS(esr) ((esr) >> 26 & 63)
enum {
	CLASS_UNKNOWN = 0x00,
	CLASS_INSTRUCTION_ABORT = 0x21,
	CLASS_DATA_ABORT = 0x25,
	CLASS_BREAK = 0x3c,
};
#define ESR_WRITE (1 << 6)
/* Fault status code, esr_el1 bits 5:0; the lowest two bits are the table level. */
#define ABORT_KIND(esr) ((esr) >> 2 & 15)
enum { ABORT_TRANSLATION = 1, ABORT_PERMISSION = 3, ABORT_EXTERNAL = 4, ABORT_ALIGNMENT = 8 };

static const char *const class_names[64] = {
	[CLASS_UNKNOWN] = "undefined instruction",
	[0x07] = "use of a floating-point register",
	[0x0e] = "illegal execution state",
	[0x18] = "forbidden system register",
	[0x22] = "misaligned instruction address",
	[0x26] = "misaligned stack pointer",
	[CLASS_BREAK] = "brk",
};

__irq_entry void dispatch_interrupt(struct trap_frame *regs)
{
	handle_external();
}

static notrace __noreturn void panic_abort(struct trap_frame *regs, const char *access)
{
	switch (ABORT_KIND(regs->esr)) {
	case ABORT_TRANSLATION:
	case ABORT_PERMISSION:
		panic_fault(regs, regs->far, access);
	case ABORT_EXTERNAL:
		panic_regs(regs, "%s 0x%lx: external abort (no memory or device there)", access,
			   regs->far);
	case ABORT_ALIGNMENT:
		panic_regs(regs, "misaligned: %s 0x%lx", access, regs->far);
	}
	panic_regs(regs, "%s 0x%lx: abort %lu", access, regs->far, regs->esr & 63);
}

notrace void panic_exception(struct trap_frame *regs)
{
	unsigned long class = ESR_CLASS(regs->esr);

	if (class == CLASS_INSTRUCTION_ABORT)
		panic_abort(regs, "execution of");
	if (class == CLASS_DATA_ABORT)
		panic_abort(regs, regs->esr & ESR_WRITE ? "write to" : "read from");
	if (class == CLASS_UNKNOWN || class == CLASS_BREAK)
		panic_regs(regs, "%s 0x%x at 0x%lx", class_names[class], *(u32 *)regs->pc,
			   regs->pc);
	if (class_names[class])
		panic_regs(regs, "%s at 0x%lx", class_names[class], regs->pc);
	panic_regs(regs, "exception of class 0x%lx at 0x%lx (0x%lx)", class, regs->pc, regs->far);
}

notrace void trap_unexpected(struct trap_frame *regs, unsigned vector)
{
	static const char *const kinds[] = {"synchronous exception", "interrupt",
					    "fast interrupt", "system error"};

	regs_complete(regs);
	current->faulted = NULL; /* a system error may belong to another one */
	panic_regs(regs, "unexpected %s, vector %u, syndrome 0x%lx, at 0x%lx", kinds[vector % 4],
		   vector, regs->esr, regs->pc);
}

notrace void arch_show_regs(const struct trap_frame *regs)
{
	printk("  pc %016lx  pstate %lx  esr %lx  far %lx\n", regs->pc, regs->pstate, regs->esr,
	       regs->far);
	for (int i = 0; i < 28; i += 4)
		printk(" x%-2d %016lx x%-2d %016lx x%-2d %016lx x%-2d %016lx\n", i, regs->x[i],
		       i + 1, regs->x[i + 1], i + 2, regs->x[i + 2], i + 3, regs->x[i + 3]);
	printk(" x28 %016lx  fp %016lx  lr %016lx  sp %016lx\n", regs->x[28], regs->x[29],
	       regs->x[30], regs->x[31]);
}

void arch_init_cpu(void)
{
	sysreg_write(vbar_el1, exception_vector);
	sysreg_write(cpacr_el1, 0);
	isb();
	__asm__ volatile("msr daifclr, #4" : : : "memory"); /* report system errors */
}

/*
 * The generic part of trap handling. An exception may be a probe's breakpoint
 * (breakpoint.h), the fault of a load that may fault (FIXUP), or one that a test handles.
 * Any other is a kernel bug: it panics, or ends a module's init (panic_regs()). After a
 * bad memory access the panic says which access it was, at which address, and what is there.
 */
#include "breakpoint.h"
#include "cpu.h"
#include "irqflags.h"
#include "memory.h"
#include "print.h"
#include "trap.h"
#include "unwind.h"

const struct break_hook *break_hook;

static notrace const char *part_of_memory(unsigned long address, unsigned long pa)
{
	unsigned long va = pa - kernel_pa + KERNEL_BASE;

	if (pa >= module_ram.start && pa < module_ram.end)
		return in_text(address) ? "module text" : "module memory";
	if (va >= (unsigned long)_text && va < (unsigned long)_etext)
		return "kernel text";
	if (va >= (unsigned long)_rodata && va < (unsigned long)_erodata)
		return "kernel constants";
	if (va >= (unsigned long)_data && va < (unsigned long)_end)
		return "kernel data";
	return "memory";
}

notrace void panic_fault(struct trap_frame *regs, unsigned long va, const char *access)
{
	bool executes = access[0] == 'e';
	unsigned long pa;
	unsigned prot;

	if (va < PAGE_SIZE)
		panic_regs(regs, "%s a NULL pointer (address 0x%lx)", access, va);
	if (mmu_lookup(va, &pa, &prot))
		panic_regs(regs, "%s an unmapped address, 0x%lx", access, va);
	panic_regs(regs, "%s %s %s at 0x%lx", access, executes ? "non-executable" : "read-only",
		   part_of_memory(va, pa), va);
}

/*
 * The tracer's context bit is set before the first call site, and restored before
 * irq_exit(): that may switch threads, and the bit belongs to the interrupted one.
 */
notrace void trap_interrupt(struct trap_frame *regs)
{
	struct cpu *cpu = this_cpu();
	u64 context = cpu->context_bit;

	cpu->context_bit = 2;
	irq_enter();
	TRACE(irq_disable, true, THIS_IP, regs->pc, THIS_IP);
	dispatch_interrupt(regs);
	cpu->context_bit = context;
	irq_exit(regs);
	TRACE(irq_enable, true, THIS_IP, regs->pc, THIS_IP);
}

/* A load that may fault, and did. */
static notrace bool fix_up(struct trap_frame *regs)
{
	TABLE_FOR_EACH(const struct fixup, fixup, f)
		if (f->pc == regs->pc) {
			regs->pc = f->to;
			return true;
		}
	return false;
}

static notrace __noinline void no_breakpoint(struct trap_frame *regs)
{
	if (fix_up(regs))
		return;
	TABLE_FOR_EACH(const struct exception_hook, exception_hook, hook)
		if (hook->fn(regs, regs_fault_address(regs)))
			return;
	panic_exception(regs);
}

notrace void trap_exception(struct trap_frame *regs)
{
	struct cpu *cpu = this_cpu();
	u64 context = cpu->context_bit;

	regs_complete(regs);
	cpu->context_bit = 4;
	if (!break_hook || !break_hook->hit(regs, context))
		no_breakpoint(regs);
	cpu->context_bit = context;
}

notrace void trap_overflow(struct trap_frame *regs)
{
	regs_complete(regs);
	panic_regs(regs,
		   "the stack of thread %d (%s) overflowed: sp is 0x%lx, the stack 0x%lx-0x%lx",
		   current->pid, current->comm, regs->x[REG_SP], (unsigned long)current->stack,
		   (unsigned long)current->stack + THREAD_SIZE);
}

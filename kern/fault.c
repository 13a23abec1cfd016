/*
 * A bad memory access, in a sentence: what was done, to which address, what
 * lies there. The architecture's trap.c decodes the processor's registers and
 * comes here; nobody comes back.
 */
#include "arch.h"
#include "memory.h"
#include "print.h"

bool (*exception_hook)(struct trap_frame *regs, unsigned long address);

static notrace const char *part_of_image(unsigned long pa)
{
	unsigned long va = pa - kernel_pa + KERNEL_BASE;

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
		   part_of_image(pa), va);
}

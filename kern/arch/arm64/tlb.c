/* The translations that CPUs have cached, arm64: their maintenance is broadcast. */
#include "current.h"

notrace void arch_tlb_flush(void)
{
	dsb(ishst);
	__asm__ volatile("tlbi vmalle1" : : : "memory");
	dsb(nsh);
	isb();
}

notrace void arch_tlb_flush_all(void)
{
	dsb(ishst);
	__asm__ volatile("tlbi vmalle1is" : : : "memory");
	dsb(ish);
	isb();
}

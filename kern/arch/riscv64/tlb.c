/*
 * The translations that CPUs have cached, riscv64: each hart discards its own, the others through
 * SBI.
 */
#include "current.h"

#define RFENCE_SFENCE_VMA 1

notrace void arch_tlb_flush(void)
{
	__asm__ volatile("sfence.vma" : : : "memory");
}

notrace void arch_tlb_flush_all(void)
{
	unsigned long flags = irq_save();

	arch_tlb_flush();
	sbi_fence_others(RFENCE_SFENCE_VMA);
	irq_restore(flags);
}

/*
 * How the firmware is called, riscv64: SBI calls (RISC-V Supervisor Binary Interface
 * Specification 1.0), for one hart or for several.
 */
#include "current.h"
#include "print.h"

notrace struct sbi_result sbi_call(unsigned long ext, unsigned long fid, unsigned long arg0,
				   unsigned long arg1, unsigned long arg2, unsigned long arg3)
{
	register unsigned long a0 __asm__("a0") = arg0;
	register unsigned long a1 __asm__("a1") = arg1;
	register unsigned long a2 __asm__("a2") = arg2;
	register unsigned long a3 __asm__("a3") = arg3;
	register unsigned long a6 __asm__("a6") = fid;
	register unsigned long a7 __asm__("a7") = ext;

	__asm__ volatile("ecall"
			 : "+r"(a0), "+r"(a1)
			 : "r"(a2), "r"(a3), "r"(a6), "r"(a7)
			 : "memory");
	return (struct sbi_result){(long)a0, a1};
}

static notrace u64 lowest_hart(unsigned long mask)
{
	u64 lowest = ~0ul;

	for (unsigned i = 0; i < NR_CPUS; i++)
		if (mask >> i & 1 && cpus[i].hwid < lowest)
			lowest = cpus[i].hwid;
	return lowest;
}

/*
 * SBI takes a mask of 64 harts from a base id on: sparse ids need several calls.
 * The base is the id of a hart that we run on, because OpenSBI 1.4 and 1.5 refuse
 * any other base, such as 0 when hart 0 is disabled.
 *
 * Return: 0, or the last SBI error.
 */
notrace long sbi_call_harts(unsigned long ext, unsigned long fid, unsigned long mask)
{
	long error = 0;

	while (mask) {
		u64 base = lowest_hart(mask);
		unsigned long harts = 0;

		for (unsigned i = 0; i < NR_CPUS; i++) {
			if (!(mask >> i & 1) || cpus[i].hwid - base >= 64)
				continue;
			harts |= 1ul << (cpus[i].hwid - base);
			mask &= ~(1ul << i);
		}
		error = sbi_call(ext, fid, harts, base, 0, 0).error ?: error;
	}
	return error;
}

/*
 * Make earlier stores visible, then let the other harts discard fetched instructions or
 * translations.
 */
notrace void sbi_fence_others(unsigned long fid)
{
	unsigned long mask = other_cpus();

	io_mb();
	if (mask && sbi_call_harts(SBI_RFENCE, fid, mask))
		panic("the firmware refuses a fence on other CPUs");
}

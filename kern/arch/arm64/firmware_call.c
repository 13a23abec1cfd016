/*
 * How the firmware is called, arm64: PSCI calls (Arm Power State Coordination Interface,
 * DEN0022) by hvc or smc.
 */
#include "current.h"
#include "errno.h"
#include "fdt.h"
#include "print.h"
#include "string.h"

static enum { METHOD_NONE, METHOD_HVC, METHOD_SMC } method;

notrace long psci_call(unsigned long function, unsigned long arg1, unsigned long arg2,
		       unsigned long arg3)
{
	register unsigned long x0 __asm__("x0") = function;
	register unsigned long x1 __asm__("x1") = arg1;
	register unsigned long x2 __asm__("x2") = arg2;
	register unsigned long x3 __asm__("x3") = arg3;

#define SMCCC_CALL(insn)                                                                      \
	__asm__ volatile(insn : "+r"(x0), "+r"(x1), "+r"(x2), "+r"(x3)                        \
			 : : "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13",  \
			   "x14", "x15", "x16", "x17", "memory")
	if (method == METHOD_NONE)
		return -EOPNOTSUPP;
	if (method == METHOD_HVC)
		SMCCC_CALL("hvc #0");
	else
		SMCCC_CALL("smc #0");
	return (long)x0;
}

void firmware_init(const void *fdt)
{
	static const char *const versions[] = {"arm,psci-1.0", "arm,psci-0.2", NULL};
	const char *name = fdt_string(fdt, fdt_find_device(fdt, versions), "method");

	if (name && !strcmp(name, "hvc"))
		method = METHOD_HVC;
	else if (name && !strcmp(name, "smc"))
		method = METHOD_SMC;
	else
		printk("The firmware has no PSCI: the machine cannot be turned off.\n");
}

/* arm64: the registers of a probed function by name, and loads that may fault, for probe_events/. */
#ifndef FTRACE_FETCH_H
#define FTRACE_FETCH_H

#define FETCH_SP 31
#define FETCH_PC 32
/* The name of number n is the n-th; lr is x30. */
#define FETCH_NAMES                                                                           \
	{"x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", \
	 "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp", "pc"}

/*
 * bool probe_load(unsigned long at, unsigned long *value), for 1 or 8 bytes: the
 * load is the first instruction. If it faults, probe_fault() continues at fetch_fault.
 */
#define FETCH_LOAD_1 "ldrb w0, [x0]\n str x0, [x1]\n mov w0, 1\n ret\n"
#define FETCH_LOAD_8 "ldr x0, [x0]\n str x0, [x1]\n mov w0, 1\n ret\n"
#define FETCH_FAULT "mov w0, 0\n ret\n"

#endif

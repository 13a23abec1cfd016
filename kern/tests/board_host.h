/*
 * What the kernel decides about a board, from its device tree alone: board_host.c collects it for
 * the host tests.
 */
#ifndef TESTS_BOARD_HOST_H
#define TESTS_BOARD_HOST_H

#include "types.h"

#define BOARD_CPUS 8
struct decisions {
	/* physical addresses, 0: not used; hz: the timer's frequency */
	u64 uart, hz, gic, gic_cpu, plic;
	/* the width of a register; the one that is written last when input is turned on */
	int uart_bytes, uart_last;
	unsigned uart_irq, timer_irq;
	unsigned cpu_count;
	u64 hwid[BOARD_CPUS];
	u64 sources;                      /* of the PLIC */
	int context[BOARD_CPUS];          /* of the PLIC */
	/*
	 * the instruction by which the firmware is asked to start each CPU but the first; "civac":
	 * a written address is cleaned;
	 */
	char starts[BOARD_CPUS][8];
	u64 release[BOARD_CPUS];          /* the address in memory that the CPU waits at */
	/* the instruction by which the firmware is asked to reset the machine */
	char resets[8];
	/* lines of a page for last_boot= that are written back to memory before that */
	unsigned cleaned;
	/* a machine that cannot be turned off stops its other CPUs */
	bool stops_others;
	int memory_error;
};
void decide(const void *fdt, u64 boot_hwid, struct decisions *d);

#endif

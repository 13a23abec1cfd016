/* What the kernel decides about a board, from its device tree alone: board_host.c collects it for the host tests. */
#ifndef TESTS_BOARD_HOST_H
#define TESTS_BOARD_HOST_H

#include "types.h"

#define BOARD_CPUS 8
struct decisions {
	u64 uart, hz, gic, gic_cpu, plic; /* physical addresses, 0: not used; hz: the timer's frequency */
	int uart_bytes, uart_last;        /* the width of a register; the one that is written last when input is turned on */
	unsigned uart_irq, timer_irq;
	unsigned cpu_count;
	u64 hwid[BOARD_CPUS];
	u64 sources;                      /* of the PLIC */
	int context[BOARD_CPUS];          /* of the PLIC */
	char starts[BOARD_CPUS][8];       /* the instruction by which the firmware is asked to start each CPU but the first; "civac": a written address is cleaned; */
	u64 release[BOARD_CPUS];          /* the address in memory that the CPU waits at */
	char resets[8];                   /* the instruction by which the firmware is asked to reset the machine */
	unsigned cleaned;                 /* lines of a page for last_boot= that are written back to memory before that */
	bool stops_others;                /* a machine that cannot be turned off stops its other CPUs */
	int memory_error;
};
void decide(const void *fdt, u64 boot_hwid, struct decisions *d);

#endif

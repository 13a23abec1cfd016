/*
 * Shared by the tests inside the kernel: promises, and counting instructions.
 *
 * A test is a shell command: it prints "ok NAME" or "FAILED NAME: promise"
 * for each promise, then "N passed, N failed", and exits with 0 or 1.
 */
#ifndef TESTS_KT_H
#define TESTS_KT_H

#include "irq.h"
#include "shell.h"
#include "thread.h"
#include "types.h"

extern unsigned kt_passed, kt_failed;

void kt_begin(void);
int kt_end(void); /* the exit status */
bool kt_promise(bool kept, const char *fmt, ...) __printf(2, 3);
/*
 * Sleep until @condition is true, at most ten seconds; the condition's value. For what
 * happens soon, when another CPU or a switch of threads has its turn: on a busy host a
 * fixed time may pass before QEMU runs that CPU, or without a switch.
 */
#define kt_wait(condition) ({ \
	u64 end_ = clock_ns() + 10000000000ul; \
	while (!(condition) && clock_ns() < end_) \
		sleep_ns(1000000); \
	(condition); \
})

/* Write @text to a file below /sys/kernel/tracing, as `echo text > file` or `>> file`. */
int kt_echo(const char *text, const char *file, bool append);
/* The number of events that a look at @rb finds. */
struct ring_buffer_cpu;
u64 kt_events(struct ring_buffer_cpu *rb);
/* A hash of all instructions, from _text to _etext. */
u64 kt_text_hash(void);

/*
 * Instructions this CPU has executed: exact under -icount. arm64 has them from
 * the virtual counter, 16 at a time: QEMU 7.2 hangs in its cycle counter's
 * overflow timer when the guest uses pmccntr_el0 under -icount.
 */
static inline __attribute__((always_inline)) u64 kt_instructions(void)
{
#ifdef __riscv
	u64 n;

	__asm__ volatile("rdinstret %0" : "=r"(n) : : "memory");
	return n;
#else
	barrier();
	return ticks_to_ns(arch_counter());
#endif
}

#endif

/*
 * What the tests inside the kernel share: promises, and counting instructions.
 *
 * A test is a shell command: it prints "ok NAME" or "FAILED NAME: promise"
 * for each promise, then "N passed, N failed", and exits with 0 or 1.
 */
#ifndef TESTS_KT_H
#define TESTS_KT_H

#include "shell.h"
#include "types.h"

extern unsigned kt_passed, kt_failed;

void kt_begin(void);
int kt_end(void); /* the exit status */
bool kt_promise(bool kept, const char *fmt, ...) __printf(2, 3);

/* Write @text to a file below /sys/kernel/tracing, as `echo text > file` or `>> file`. */
int kt_echo(const char *text, const char *file, bool append);
/* A hash of all instructions, from _text to _etext. */
u64 kt_text_hash(void);

/* Instructions this CPU has executed: exact under -icount. */
static inline __attribute__((always_inline)) u64 kt_instructions(void)
{
	u64 n;

#ifdef __riscv
	__asm__ volatile("rdinstret %0" : "=r"(n) : : "memory");
#else
	__asm__ volatile("isb\n\tmrs %0, pmccntr_el0" : "=r"(n) : : "memory");
#endif
	return n;
}
void kt_count_instructions(void); /* before the first kt_instructions() on a CPU */

#endif

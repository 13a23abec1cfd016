/*
 * Formatted text. %d %i %u %x %X %o %c %s %p %% with flags "-0+ #", width,
 * precision, '*', and length h hh l ll z; %ps prints the symbol of a text
 * address ("schedule", "show [hello]" in a module), %pS symbol+offset/size ("schedule+0x10/0x120"),
 * %pB the same for a return address.
 * No floating point. snprintf always ends the buffer with a NUL (size > 0)
 * and returns the length that the whole text would have.
 */
#ifndef KERN_PRINT_H
#define KERN_PRINT_H

#include "types.h"

struct trap_frame;

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args);
int snprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);
/* As snprintf, but returns the length that was stored (without the NUL), for appending. */
int scnprintf(char *buf, size_t size, const char *fmt, ...) __printf(3, 4);

/*
 * Print to the console, in any context. Messages of different CPUs are never
 * mixed. A message from before the UART is known is kept and printed later.
 */
int printk(const char *fmt, ...) __printf(1, 2);
void console_write(const char *s, size_t n); /* raw bytes, '\n' becomes "\r\n" */
/*
 * Sleep until a byte arrives. With INPUT_LOST: bytes were lost before it or, in the UART, near it. A line
 * that has such a byte is not whole. Return: the byte, or -1: interrupted.
 */
int console_getchar(void);
#define INPUT_LOST 0x100
void console_report_loss(void); /* print how much input was lost since the last report, if any was */
/* From now on print without the lock: for panic only. */
void console_panic_mode(void);
void uart_init(const void *fdt);  /* /chosen/stdout-path, else the first known UART */
void console_init(void);          /* receive interrupt; needs threads */

void __noreturn panic(const char *fmt, ...) __printf(1, 2);
/* Of code that was interrupted at @regs. Ends only the running thread, if that may fault: current->faulted. */
void __noreturn panic_regs(struct trap_frame *regs, const char *fmt, ...) __printf(2, 3);

#endif

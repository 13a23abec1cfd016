/*
 * The room console/: the console's input, and the serial ports.
 *
 *	console.c	the received bytes, which one thread reads; Ctrl-C; what was lost
 *	uart.c		the drivers: output that waits, input that interrupts (uart.h)
 *
 * Output is printk() and console_write(), of base/print.h; uart_init() tells them the driver.
 * The shell reads, and says whom Ctrl-C interrupts. This room calls base/, mm/ and sched/.
 */
#ifndef CONSOLE_CONSOLE_H
#define CONSOLE_CONSOLE_H

#include "types.h"

void uart_init(const void *fdt); /* /chosen/stdout-path, else the first known UART */
void console_init(void);         /* receive interrupt; needs threads */

/*
 * Sleep until a byte arrives. With INPUT_LOST: bytes were lost before it or, in the UART, near it.
 * A line that has such a byte is not whole. Return: the byte, or -1: interrupted.
 */
int console_getchar(void);
#define INPUT_LOST 0x100
/* print how much input was lost since the last report, if any was */
void console_report_loss(void);

/* Ctrl-C calls thread_interrupt() for @t. NULL: the reader gets Ctrl-C as a byte. */
struct thread;
void console_set_foreground(struct thread *t);

#endif

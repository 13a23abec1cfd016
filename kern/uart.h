/*
 * Between console.c (bytes in and out, whole lines, Ctrl-C) and uart.c (the wire).
 */
#ifndef KERN_UART_H
#define KERN_UART_H

#include "types.h"

bool uart_present(void);
void uart_write(const char *s, size_t n); /* polls until the wire takes it; a line's end is CR LF */
int uart_receive(void);                   /* a byte, or -1 */
/* Interrupts call console_input() from here on; -errno: the caller must poll. */
int uart_enable_input(const void *fdt);

void console_uart_found(void);
void console_input(void); /* interrupt context, or polling: take what the UART has */
void console_tick(void);  /* each timer interrupt */

/*
 * Ctrl-C goes to this thread as an interruption, and from the second one on
 * to @watcher too; NULL: to the reader, as a byte.
 */
struct thread;
void console_set_foreground(struct thread *t, struct thread *watcher);

#endif

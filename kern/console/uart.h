/*
 * Shared by console.c (input bytes, Ctrl-C) and uart.c (the devices).
 */
#ifndef CONSOLE_UART_H
#define CONSOLE_UART_H

#include "types.h"

bool uart_present(void);
void uart_write(const char *s, size_t n); /* polls until the UART accepts it; sends '\n' as CR LF */
int uart_receive(void);                   /* a byte, or -1 */
/*
 * In the byte's value: the UART had no room. The bytes that it lost came after those that it still
 * holds.
 */
#define UART_OVERRUN 0x100
/* From now on received bytes interrupt and call console_input(). -errno: the caller must poll. */
int uart_enable_input(const void *fdt);

/* interrupt context, or polling: take the bytes that the UART has received */
void console_input(void);

#endif

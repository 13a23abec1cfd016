/*
 * Drivers for serial ports: ns16550a, its DesignWare variants, and pl011. Output
 * is polled, input raises interrupts; firmware has set the baud rate and the
 * line's format.
 */
#include "uart.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

#define FIFO_SIZE 16 /* bytes: of a 16550; a pl011 has 16 or 32 */

struct uart_type {
	bool (*sent)(void); /* the transmitter's FIFO is empty */
	void (*send)(u8 c);
	int (*receive)(void);
	u32 (*enable)(void); /* enables input, and the FIFOs unless that would discard input; returns the new `room` */
	void (*acknowledge)(void);
};

static struct {
	const struct uart_type *type; /* NULL: no UART yet */
	char *base;
	u32 shift, width;
	int node;
	u32 room; /* bytes that an empty transmitter takes */
} uart;

static notrace u32 reg_read(unsigned reg)
{
	char *at = uart.base + (reg << uart.shift);

	return uart.width == 4 ? read32(at) : read8(at);
}

static notrace void reg_write(u32 value, unsigned reg)
{
	char *at = uart.base + (reg << uart.shift);

	if (uart.width == 4)
		write32(value, at);
	else
		write8(value, at);
}

/* National Semiconductor PC16550D; Synopsys DW_apb_uart for NS_USR. */
enum { NS_DATA, NS_IER, NS_IIR, NS_LCR, NS_MCR, NS_LSR, NS_FCR = 2, NS_USR = 31 };
#define NS_LSR_READY 0x01
#define NS_LSR_EMPTY 0x20
#define NS_FCR_FIFO 0x81 /* on; interrupt at eight bytes, or when no byte came for the time of four */
#define NS_MCR_LINES 0x0b /* DTR, RTS, OUT2 (enables the interrupt line) */
#define NS_IIR_BUSY 0x07
#define NS_IIR_FIFO 0xc0 /* both bits set: the FIFOs exist and are usable */

static notrace bool ns_sent(void)
{
	return reg_read(NS_LSR) & NS_LSR_EMPTY;
}
static notrace void ns_send(u8 c)
{
	reg_write(c, NS_DATA);
}
static notrace int ns_receive(void)
{
	return reg_read(NS_LSR) & NS_LSR_READY ? (int)(reg_read(NS_DATA) & 0xff) : -1;
}
static u32 ns_enable(void)
{
	if (!(reg_read(NS_LSR) & NS_LSR_READY))
		reg_write(NS_FCR_FIFO, NS_FCR);
	reg_write(NS_MCR_LINES, NS_MCR);
	reg_write(1, NS_IER);
	return (reg_read(NS_IIR) & NS_IIR_FIFO) == NS_IIR_FIFO ? FIFO_SIZE : 1;
}
/* A DesignWare port has an extra "busy" interrupt, which a read of USR clears. */
static void ns_acknowledge(void)
{
	if ((reg_read(NS_IIR) & 0xf) == NS_IIR_BUSY)
		reg_read(NS_USR);
}

/* ARM DDI 0183, chapter 3; offsets in bytes, so the shift is 0. */
enum { PL_DATA = 0, PL_FLAGS = 0x18, PL_LINE = 0x2c, PL_CONTROL = 0x30, PL_MASK = 0x38, PL_CLEAR = 0x44 };
#define PL_FLAGS_EMPTY (1 << 4)
#define PL_FLAGS_SENT (1 << 7)
#define PL_RECEIVE (1 << 4 | 1 << 6) /* FIFO reached its level; or data waited for the time of 32 bits */
#define PL_LINE_FIFO (3 << 5 | 1 << 4) /* eight bits, FIFOs on: without FIFOs there is room for one byte */
#define PL_CONTROL_ON 0x301

static notrace bool pl_sent(void)
{
	return reg_read(PL_FLAGS) & PL_FLAGS_SENT;
}
static notrace void pl_send(u8 c)
{
	reg_write(c, PL_DATA);
}
static notrace int pl_receive(void)
{
	return reg_read(PL_FLAGS) & PL_FLAGS_EMPTY ? -1 : (int)(reg_read(PL_DATA) & 0xff);
}
static u32 pl_enable(void)
{
	if (reg_read(PL_FLAGS) & PL_FLAGS_EMPTY)
		reg_write(PL_LINE_FIFO, PL_LINE);
	reg_write(reg_read(PL_CONTROL) | PL_CONTROL_ON, PL_CONTROL);
	reg_write(PL_RECEIVE, PL_MASK);
	return (reg_read(PL_LINE) & PL_LINE_FIFO) == PL_LINE_FIFO ? FIFO_SIZE : 1;
}
static void pl_acknowledge(void)
{
	reg_write(PL_RECEIVE, PL_CLEAR);
}

static const struct uart_type ns16550 = {ns_sent, ns_send, ns_receive, ns_enable, ns_acknowledge};
static const struct uart_type pl011 = {pl_sent, pl_send, pl_receive, pl_enable, pl_acknowledge};

static int find_uart(const void *fdt)
{
	static const char *const names[] = {"arm,pl011", "ns16550a", "snps,dw-apb-uart", "ns16550", NULL};
	const char *path = fdt_string(fdt, fdt_path(fdt, "/chosen"), "stdout-path");
	int node = path ? fdt_path(fdt, path) : -ENOENT;

	for (unsigned i = 0; names[i]; i++)
		if (fdt_compatible(fdt, node, names[i]))
			return node;
	return fdt_find_device(fdt, names);
}

void uart_init(const void *fdt)
{
	u64 addr, size;
	int node = find_uart(fdt);

	if (node < 0 || fdt_reg(fdt, node, 0, &addr, &size))
		return; /* without a UART no error can be printed */
	uart.base = ioremap(addr, size);
	if (!uart.base)
		return;
	uart.node = node;
	uart.room = 1;
	uart.width = 1;
	fdt_u32(fdt, node, "reg-io-width", &uart.width);
	fdt_u32(fdt, node, "reg-shift", &uart.shift);
	uart.type = &ns16550;
	if (fdt_compatible(fdt, node, "arm,pl011")) {
		uart.type = &pl011;
		uart.width = 4;
		uart.shift = 0;
	}
	console_uart_found();
}

notrace bool uart_present(void)
{
	return uart.type;
}

/* Send one byte. @room: bytes that the transmitter accepts without a poll. Return: the same after this byte. */
static notrace u32 send(u8 c, u32 room)
{
	if (!room) {
		while (!uart.type->sent())
			cpu_relax();
		room = uart.room;
	}
	uart.type->send(c);
	return room - 1;
}

notrace void uart_write(const char *s, size_t n)
{
	u32 room = 0;

	for (size_t i = 0; i < n; i++) {
		if (s[i] == '\n')
			room = send('\r', room);
		room = send(s[i], room);
	}
}

int uart_receive(void)
{
	return uart.type->receive();
}

static void uart_interrupt(void)
{
	uart.type->acknowledge();
	console_input();
}

int uart_enable_input(const void *fdt)
{
	unsigned irq;
	int err;

	if (!uart.type)
		return -ENODEV;
	err = irqchip_map(fdt, uart.node, &irq);
	if (!err)
		err = request_irq(irq, uart_interrupt);
	uart.room = uart.type->enable();
	return err;
}

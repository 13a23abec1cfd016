/*
 * The serial ports we know: ns16550a with its DesignWare relatives, and pl011.
 * Output is polled, input interrupts; the divisor and the line's format stay
 * as the firmware left them.
 */
#include "uart.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

struct uart_type {
	const char *compatible;
	bool (*can_send)(void);
	void (*send)(u8 c);
	int (*receive)(void);
	void (*enable)(void);
	void (*acknowledge)(void);
};

static struct {
	const struct uart_type *type; /* NULL: no UART yet */
	char *base;
	u32 shift, width;
	int node;
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
#define NS_FCR_FIFO 0x01
#define NS_MCR_LINES 0x0b /* DTR, RTS, and the gate of the interrupt line */
#define NS_IIR_BUSY 0x07

static notrace bool ns_can_send(void)
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
static void ns_enable(void)
{
	reg_write(NS_FCR_FIFO, NS_FCR);
	reg_write(NS_MCR_LINES, NS_MCR);
	reg_write(1, NS_IER);
}
/* A DesignWare port says "busy" in a way of its own, and is told so by a read. */
static void ns_acknowledge(void)
{
	if ((reg_read(NS_IIR) & 0xf) == NS_IIR_BUSY)
		reg_read(NS_USR);
}

/* ARM DDI 0183, chapter 3; offsets in bytes, so the shift is 0. */
enum { PL_DATA = 0, PL_FLAGS = 0x18, PL_CONTROL = 0x30, PL_MASK = 0x38, PL_CLEAR = 0x44 };
#define PL_FLAGS_EMPTY (1 << 4)
#define PL_FLAGS_FULL (1 << 5)
#define PL_RECEIVE (1 << 4 | 1 << 6) /* FIFO reached its level; or data waited for 32 bits' time */
#define PL_CONTROL_ON 0x301

static notrace bool pl_can_send(void)
{
	return !(reg_read(PL_FLAGS) & PL_FLAGS_FULL);
}
static notrace void pl_send(u8 c)
{
	reg_write(c, PL_DATA);
}
static notrace int pl_receive(void)
{
	return reg_read(PL_FLAGS) & PL_FLAGS_EMPTY ? -1 : (int)(reg_read(PL_DATA) & 0xff);
}
static void pl_enable(void)
{
	reg_write(reg_read(PL_CONTROL) | PL_CONTROL_ON, PL_CONTROL);
	reg_write(PL_RECEIVE, PL_MASK);
}
static void pl_acknowledge(void)
{
	reg_write(PL_RECEIVE, PL_CLEAR);
}

#define NS16550 ns_can_send, ns_send, ns_receive, ns_enable, ns_acknowledge
static const struct uart_type types[] = {
	{"arm,pl011", pl_can_send, pl_send, pl_receive, pl_enable, pl_acknowledge},
	{"ns16550a", NS16550},
	{"snps,dw-apb-uart", NS16550},
	{"ns16550", NS16550},
};

static const struct uart_type *type_of(const void *fdt, int node)
{
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
		if (fdt_compatible(fdt, node, types[i].compatible))
			return &types[i];
	return NULL;
}

static int find_uart(const void *fdt)
{
	const char *path = fdt_string(fdt, fdt_path(fdt, "/chosen"), "stdout-path");
	int node = path ? fdt_path(fdt, path) : -ENOENT;

	if (node >= 0 && type_of(fdt, node))
		return node;
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		node = fdt_find_compatible(fdt, -1, types[i].compatible);
		while (node >= 0 && !fdt_available(fdt, node))
			node = fdt_find_compatible(fdt, node, types[i].compatible);
		if (node >= 0)
			return node;
	}
	return -ENODEV;
}

void uart_init(const void *fdt)
{
	u64 addr, size;
	int node = find_uart(fdt);

	if (node < 0 || fdt_reg(fdt, node, 0, &addr, &size))
		return; /* nobody can be told */
	uart.base = ioremap(addr, size);
	uart.node = node;
	uart.width = 1;
	fdt_u32(fdt, node, "reg-io-width", &uart.width);
	if (type_of(fdt, node) == &types[0])
		uart.width = 4;
	else
		fdt_u32(fdt, node, "reg-shift", &uart.shift);
	if (uart.base)
		uart.type = type_of(fdt, node);
	console_uart_found();
}

notrace bool uart_present(void)
{
	return uart.type;
}

notrace void uart_send(u8 c)
{
	while (!uart.type->can_send())
		cpu_relax();
	uart.type->send(c);
}

int uart_receive(void)
{
	return uart.type->receive();
}

static void uart_interrupt(void *arg)
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
		err = request_irq(irq, uart_interrupt, NULL);
	uart.type->enable();
	return err;
}

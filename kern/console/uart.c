/*
 * Drivers for serial ports. Output is polled, input raises interrupts; firmware
 * has set the baud rate and the line's format. known[] lists the ports by their
 * `compatible`; where the device tree has none of them, the firmware's console is
 * used, if it has one.
 */
#include "uart.h"
#include "console.h"
#include "errno.h"
#include "fdt.h"
#include "irq.h"
#include "memory.h"
#include "print.h"

struct uart_type {
	bool (*ready)(void); /* `room` bytes can be sent */
	void (*send)(u8 c);
	int (*receive)(void); /* as uart_receive() */
	/* enables input, and the FIFOs unless that would discard input; returns the new `room` */
	u32 (*enable)(void);
	void (*acknowledge)(void); /* NULL: not needed */
};

static struct {
	const struct uart_type *type; /* NULL: no UART yet */
	char *base;
	u32 shift, width;
	int node;
	u32 room; /* bytes that the transmitter takes when it is ready */
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
#define NS_LSR_OVERRUN 0x02 /* a read of the register clears it */
#define NS_LSR_EMPTY 0x20
/* on; interrupt at one byte, so that no time-out is needed for the last ones */
#define NS_FCR_FIFO 0x01
#define NS_MCR_LINES 0x0b /* DTR, RTS, OUT2 (enables the interrupt line) */
#define NS_IER_RECEIVE 0x05 /* data, overrun */
#define NS_IIR_BUSY 0x07
#define NS_IIR_TIMEOUT 0x0c
#define NS_IIR_FIFO 0xc0 /* both bits set: the FIFOs exist and are usable */
#define NS_FIFO_SIZE 16

/*
 * The sender's reads of LSR clear the overrun bit, too: it is kept for the next byte that is
 * received.
 */
static u32 ns_overran;
static notrace u32 ns_status(void)
{
	u32 status = reg_read(NS_LSR);

	if (status & NS_LSR_OVERRUN)
		WRITE_ONCE(ns_overran, UART_OVERRUN);
	return status;
}
static notrace bool ns_ready(void)
{
	return ns_status() & NS_LSR_EMPTY;
}
static notrace void ns_send(u8 c)
{
	reg_write(c, NS_DATA);
}
static notrace int ns_receive(void)
{
	if (!(ns_status() & NS_LSR_READY))
		return -1;
	return (reg_read(NS_DATA) & 0xff) | __atomic_exchange_n(&ns_overran, 0, __ATOMIC_RELAXED);
}
static u32 ns_enable(void)
{
	if (!(reg_read(NS_LSR) & NS_LSR_READY))
		reg_write(NS_FCR_FIFO, NS_FCR);
	reg_write(NS_MCR_LINES, NS_MCR);
	reg_write(NS_IER_RECEIVE, NS_IER);
	return (reg_read(NS_IIR) & NS_IIR_FIFO) == NS_IIR_FIFO ? NS_FIFO_SIZE : 1;
}
/*
 * A DesignWare port has an extra "busy" interrupt, which a read of USR clears; and it
 * may report a time-out without a byte, which only a read of DATA clears.
 */
static void ns_acknowledge(void)
{
	u32 why = reg_read(NS_IIR) & 0xf;

	if (why == NS_IIR_BUSY)
		reg_read(NS_USR);
	if (why == NS_IIR_TIMEOUT && !(ns_status() & NS_LSR_READY))
		reg_read(NS_DATA);
}

/*
 * The mini UART (BCM2835 ARM Peripherals) is a 16550 but for this: bit 5 of
 * LSR is set while there is room for one byte. In IER bit 0 is for received data,
 * and bit 2 must be set, too: the manual's text has an erratum there.
 */
static u32 mini_enable(void)
{
	ns_enable();
	return 1;
}

/* ARM DDI 0183 (PL011); offsets in bytes, so the shift is 0. */
enum {
	PL_DATA = 0,
	PL_FLAGS = 0x18,
	PL_LINE = 0x2c,
	PL_CONTROL = 0x30,
	PL_MASK = 0x38,
	PL_CLEAR = 0x44
};
#define PL_DATA_OVERRUN (1 << 11) /* bytes were lost: those after the ones in the FIFO */
#define PL_FLAGS_BUSY (1 << 3)
#define PL_FLAGS_EMPTY (1 << 4)
#define PL_FLAGS_SENT (1 << 7)
/* FIFO reached its level; or data waited for the time of 32 bits */
#define PL_RECEIVE (1 << 4 | 1 << 6)
/* eight bits, FIFOs on: without FIFOs there is room for one byte */
#define PL_LINE_FIFO (3 << 5 | 1 << 4)
#define PL_CONTROL_ON 0x301
#define PL_FIFO_SIZE 16 /* or 32 */

static notrace bool pl_ready(void)
{
	return reg_read(PL_FLAGS) & PL_FLAGS_SENT;
}
static notrace void pl_send(u8 c)
{
	reg_write(c, PL_DATA);
}
static notrace int pl_receive(void)
{
	u32 data;

	if (reg_read(PL_FLAGS) & PL_FLAGS_EMPTY)
		return -1;
	data = reg_read(PL_DATA);
	return (data & 0xff) | (data & PL_DATA_OVERRUN ? UART_OVERRUN : 0);
}
/*
 * PL_LINE may change only while the UART is off, and after the last byte was sent. A change
 * discards what was received; while it is off nothing is.
 */
static u32 pl_enable(void)
{
	u32 control = reg_read(PL_CONTROL) | PL_CONTROL_ON;

	if ((reg_read(PL_LINE) & PL_LINE_FIFO) != PL_LINE_FIFO) {
		reg_write(0, PL_CONTROL);
		while (reg_read(PL_FLAGS) & PL_FLAGS_BUSY)
			cpu_relax();
		if (reg_read(PL_FLAGS) & PL_FLAGS_EMPTY)
			reg_write(PL_LINE_FIFO, PL_LINE);
	}
	reg_write(control, PL_CONTROL);
	reg_write(PL_RECEIVE, PL_MASK);
	return (reg_read(PL_LINE) & PL_LINE_FIFO) == PL_LINE_FIFO ? PL_FIFO_SIZE : 1;
}
static void pl_acknowledge(void)
{
	reg_write(PL_RECEIVE, PL_CLEAR);
}

/*
 * SBSA's generic UART (Arm BSA, DEN0094): a PL011 without PL_LINE and PL_CONTROL; its FIFOs are
 * always on.
 */
static u32 sbsa_enable(void)
{
	reg_write(PL_RECEIVE, PL_MASK);
	return PL_FIFO_SIZE;
}

/* SiFive FU540-C000 Manual; words. It does not report an overrun. */
enum { SIFIVE_TX, SIFIVE_RX, SIFIVE_TX_CONTROL, SIFIVE_RX_CONTROL, SIFIVE_IE };
#define SIFIVE_FULL (1u << 31)	/* of SIFIVE_TX */
#define SIFIVE_EMPTY (1u << 31) /* of SIFIVE_RX, a read of which removes the byte */
#define SIFIVE_ON 1		/* and the interrupt's level is one byte */
#define SIFIVE_IE_RECEIVE 2

static notrace bool sifive_ready(void)
{
	return !(reg_read(SIFIVE_TX) & SIFIVE_FULL);
}
static notrace void sifive_send(u8 c)
{
	reg_write(c, SIFIVE_TX);
}
static notrace int sifive_receive(void)
{
	u32 data = reg_read(SIFIVE_RX);

	return data & SIFIVE_EMPTY ? -1 : (int)(data & 0xff);
}
static u32 sifive_enable(void)
{
	reg_write(reg_read(SIFIVE_TX_CONTROL) | SIFIVE_ON, SIFIVE_TX_CONTROL);
	reg_write(SIFIVE_ON, SIFIVE_RX_CONTROL);
	reg_write(SIFIVE_IE_RECEIVE, SIFIVE_IE);
	return 1;
}

static notrace bool always_ready(void)
{
	return true;
}

static const struct uart_type ns16550 = {ns_ready, ns_send, ns_receive, ns_enable, ns_acknowledge};
static const struct uart_type mini = {ns_ready, ns_send, ns_receive, mini_enable};
static const struct uart_type pl011 = {pl_ready, pl_send, pl_receive, pl_enable, pl_acknowledge};
static const struct uart_type sbsa = {pl_ready, pl_send, pl_receive, sbsa_enable, pl_acknowledge};
static const struct uart_type sifive = {sifive_ready, sifive_send, sifive_receive, sifive_enable};
static const struct uart_type firmware = {always_ready, firmware_putchar, firmware_getchar};

static const struct {
	const char *compatible;
	const struct uart_type *type;
	u32 shift, width; /* where the device tree does not say it */
} known[] = {
	{"arm,pl011", &pl011, 0, 4},
	{"ns16550a", &ns16550, 0, 1},
	{"snps,dw-apb-uart", &ns16550, 0, 1},
	{"ns16550", &ns16550, 0, 1},
	{"sifive,uart0", &sifive, 2, 4},
	{"brcm,bcm2835-aux-uart", &mini, 2, 4},
	{"arm,sbsa-uart", &sbsa, 0, 4},
};

static int known_as(const void *fdt, int node)
{
	for (unsigned i = 0; i < ARRAY_SIZE(known); i++)
		if (fdt_compatible(fdt, node, known[i].compatible))
			return i;
	return -ENOENT;
}

/*
 * Of the UARTs in the device tree take the type that comes first in known[], and of these the first
 * one.
 */
static int any_uart(const void *fdt)
{
	const char *names[ARRAY_SIZE(known) + 1] = {NULL};

	for (unsigned i = 0; i < ARRAY_SIZE(known); i++)
		names[i] = known[i].compatible;
	return fdt_find_device(fdt, names);
}

/* How the device tree lays out a 16550's registers. False: they cannot be so. */
static bool ns_layout(const void *fdt, int node)
{
	fdt_u32(fdt, node, "reg-io-width", &uart.width);
	fdt_u32(fdt, node, "reg-shift", &uart.shift);
	return uart.shift <= 3 && (uart.width == 1 || uart.width == 4) &&
	       uart.width <= 1u << uart.shift;
}

static bool open_node(const void *fdt, int node)
{
	int as = node < 0 ? node : known_as(fdt, node);

	if (as < 0)
		return false;
	uart.node = node;
	uart.width = known[as].width;
	uart.shift = known[as].shift;
	if (known[as].type == &ns16550 && !ns_layout(fdt, node))
		return false;
	uart.base = fdt_iomap(fdt, node, 0);
	if (!uart.base)
		return false;
	uart.type = known[as].type;
	return true;
}

/*
 * Try in this order: stdout-path, else serial0; any known UART; the firmware's console (this also
 * without a device tree: NULL).
 */
void uart_init(const void *fdt)
{
	const char *path = fdt ? fdt_string(fdt, fdt_path(fdt, "/chosen"), "stdout-path") : NULL;
	const char *instead = NULL;
	bool found = fdt && open_node(fdt, fdt_path(fdt, path ?: "serial0"));

	uart.room = 1;
	if (!found && path)
		instead = "another one is used";
	found = found || (fdt && open_node(fdt, any_uart(fdt)));
	if (!found && firmware_has_console()) {
		uart.type = &firmware;
		instead = "the firmware's console is used";
		found = true;
	}
	if (!found)
		return; /* no error can be printed */
	printk_to(uart_write);
	if (instead && fdt)
		printk("Callsite has no driver for the device tree's console (%s): %s.\n",
		       path ?: "none is named", instead);
}

notrace bool uart_present(void)
{
	return uart.type;
}

/*
 * Send one byte. @room: bytes that the transmitter accepts without a poll. Return: the same after
 * this byte.
 */
static notrace u32 send(u8 c, u32 room)
{
	if (!room) {
		while (!uart.type->ready())
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
	if (uart.type->acknowledge)
		uart.type->acknowledge();
	console_input();
}

int uart_enable_input(const void *fdt)
{
	unsigned irq;
	int err;

	if (!uart.type || !uart.type->enable)
		return -ENODEV;
	err = irqchip_map(fdt, uart.node, &irq);
	if (!err)
		err = request_irq(irq, uart_interrupt);
	uart.room = uart.type->enable();
	return err;
}

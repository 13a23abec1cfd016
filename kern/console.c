/*
 * The console: printk, output in whole lines, and a ring of received bytes
 * that an interrupt fills and one thread reads.
 *
 * No input is lost silently. If a byte does not fit into the ring or into the UART, it
 * is counted, and the next byte of its line is marked. Of a line that does not fit into
 * the ring the end is kept, so that its reader goes on. Output from before the UART is
 * known is kept and printed later.
 */
#include "cpu.h"
#include "fdt.h"
#include "irq.h"
#include "print.h"
#include "string.h"
#include "thread.h"
#include "uart.h"

#define RING_SIZE 8192 /* a power of two */
#define EARLY_SIZE 8192
#define LINE_SIZE 1024
#define POLL_NS 5000000
#define CTRL_C 3
/* One interrupt reads at most this many bytes; a reader or the next tick reads the rest. */
#define INPUT_BURST 1024

static struct spinlock output_lock;
static bool panic_mode;
static char early[EARLY_SIZE];
static size_t early_len;
static char *keep;                 /* under output_lock: a copy of the output goes here */
static size_t keep_len, keep_size; /* keep_len counts what did not fit, too */

/* The received bytes, some with INPUT_LOST. All of this is under input_lock. */
static u16 ring[RING_SIZE];
static u32 ring_in, ring_out;
static unsigned long lost;     /* bytes that did not fit into the ring */
static bool dropping;          /* they were of the line that is being received */
static bool end_lost;          /* the last one was the end of its line */
static unsigned long overruns; /* times that the UART had no room */
static bool damaged;           /* an overrun's place in the input is not known yet */
static bool was_empty;         /* there was no byte when the UART was last asked for one */
static struct spinlock input_lock;
static struct wait_queue readers;
static struct thread *foreground, *watcher; /* under input_lock */
static bool polled = true; /* received bytes raise no interrupt */
static bool more;          /* the last interrupt left bytes in the UART, which may raise no other interrupt */

/* ---- output ---- */

static notrace void emit(const char *s, size_t n)
{
	if (keep) {
		if (keep_len < keep_size)
			memcpy(keep + keep_len, s, MIN(n, keep_size - keep_len));
		keep_len += n;
	}
	if (uart_present()) {
		uart_write(s, n);
	} else {
		n = MIN(n, EARLY_SIZE - early_len);
		memcpy(early + early_len, s, n);
		early_len += n;
	}
}

static notrace unsigned long lock_output(void)
{
	unsigned long flags = irq_save();

	if (!panic_mode)
		spin_lock(&output_lock);
	return flags;
}

static notrace void unlock_output(unsigned long flags)
{
	if (!panic_mode)
		spin_unlock(&output_lock);
	irq_restore(flags);
}

/* Line by line, so that interrupts are masked for one line at most. */
void console_write(const char *s, size_t n)
{
	while (n) {
		const char *end = memchr(s, '\n', MIN(n, LINE_SIZE));
		size_t part = end ? (size_t)(end - s) + 1 : MIN(n, LINE_SIZE);
		unsigned long flags = lock_output();

		emit(s, part);
		unlock_output(flags);
		s += part;
		n -= part;
	}
}

int printk(const char *fmt, ...)
{
	static char line[LINE_SIZE]; /* under output_lock */
	unsigned long flags = lock_output();
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	for (u8 *c = (u8 *)line; *c; c++) /* a terminal would interpret control characters */
		if ((*c < ' ' && *c != '\n' && *c != '\t') || *c > '~')
			*c = '?';
	emit(line, MIN(n, (int)sizeof(line) - 1));
	unlock_output(flags);
	return n;
}

notrace void console_panic_mode(void)
{
	WRITE_ONCE(panic_mode, true);
}

size_t console_keep(char *buf, size_t size)
{
	unsigned long flags = lock_output();
	size_t printed = keep_len;

	WRITE_ONCE(keep, buf);
	keep_size = size;
	keep_len = 0;
	unlock_output(flags);
	return printed;
}

void console_uart_found(void)
{
	unsigned long flags = lock_output();

	emit(early, early_len);
	early_len = 0;
	unlock_output(flags);
}

/* ---- input ---- */

static bool ends_line(int c)
{
	return (u8)c == '\n' || (u8)c == '\r' || (u8)c == CTRL_C;
}

static bool put_if_fits(int c, u32 size)
{
	if (ring_in - ring_out >= size)
		return false;
	ring[ring_in++ % RING_SIZE] = c;
	return true;
}

/* Text leaves the last place free for the end of its line. */
static void put_byte(int c)
{
	if (!ends_line(c)) {
		dropping = dropping || !put_if_fits(c, RING_SIZE - 1);
		lost += dropping;
	} else {
		end_lost = !put_if_fits(dropping ? c | INPUT_LOST : c, RING_SIZE);
		lost += end_lost;
		dropping = false;
	}
}

/* Free the places before @out. A lost end of a line gets one of them: it came after all that the ring holds. */
static void take_until(u32 out)
{
	ring_out = out;
	if (end_lost)
		end_lost = !put_if_fits('\n' | INPUT_LOST, RING_SIZE);
}

/* Ctrl-C also discards the bytes typed before it. While output is kept (framed.c) Ctrl-C is an ordinary byte, into which the serial line may have changed another one. */
static void receive_byte(int c)
{
	if ((u8)c != CTRL_C || !foreground || READ_ONCE(keep)) {
		put_byte(c);
		return;
	}
	ring_out = ring_in;
	dropping = end_lost = false;
	if (foreground->interrupted && watcher)
		thread_interrupt(watcher);
	thread_interrupt(foreground);
}

/*
 * The lost bytes came after those that the UART holds. So all of these are marked, and
 * also the first byte that comes after them.
 */
static int mark_damage(int c)
{
	bool ends = was_empty && !(c & UART_OVERRUN);

	if (c & UART_OVERRUN) {
		overruns++;
		damaged = true;
	}
	c = (u8)c | (damaged ? INPUT_LOST : 0);
	damaged = damaged && !ends;
	return c;
}

void console_input(void)
{
	unsigned long flags = spin_lock_irqsave(&input_lock);
	int c = 0;

	for (int i = 0; i < INPUT_BURST && c >= 0; i++) {
		c = uart_receive();
		if (c >= 0)
			receive_byte(mark_damage(c));
		was_empty = c < 0;
	}
	more = c >= 0;
	spin_unlock_irqrestore(&input_lock, flags);
	wake_up(&readers);
}

void console_tick(void)
{
	if (unlikely(more))
		console_input();
}

void console_report_loss(void)
{
	unsigned long flags = spin_lock_irqsave(&input_lock);
	unsigned long n = lost, times = overruns;

	lost = 0;
	overruns = 0;
	spin_unlock_irqrestore(&input_lock, flags);
	if (n)
		printk("\n%lu bytes of input were lost: they came faster than they were read.\n", n);
	if (times)
		printk("\nThe UART overran %lu times: it lost bytes of input before they were read.\n", times);
}

static bool input_waits(void)
{
	if ((polled && uart_present()) || more)
		console_input();
	return READ_ONCE(ring_in) != READ_ONCE(ring_out);
}

static int take_byte(void)
{
	unsigned long flags;
	int c = -1;

	if (!input_waits())
		return c;
	flags = spin_lock_irqsave(&input_lock);
	if (ring_in != ring_out) {
		c = ring[ring_out % RING_SIZE];
		take_until(ring_out + 1);
	}
	spin_unlock_irqrestore(&input_lock, flags);
	return c;
}

int console_getchar(void)
{
	int c = take_byte();

	if (c < 0 && READ_ONCE(overruns)) /* the end of the line may be lost: no report would come at its end */
		console_report_loss();
	while (c < 0 && !interrupted()) {
		if (polled)
			sleep_ns(POLL_NS);
		else
			wait_event(&readers, input_waits() || interrupted());
		c = take_byte();
	}
	return c;
}

/* Handle a Ctrl-C that was received after the command's line but before the command started. */
static void interrupt_typed_ahead(struct thread *t)
{
	for (u32 at = ring_out; at != ring_in && !READ_ONCE(keep); at++) {
		if ((u8)ring[at % RING_SIZE] == CTRL_C) {
			take_until(at + 1);
			thread_interrupt(t);
			return;
		}
	}
}

void console_set_foreground(struct thread *t, struct thread *second)
{
	unsigned long flags = spin_lock_irqsave(&input_lock);

	foreground = t;
	watcher = second;
	if (t) {
		t->interrupted = false;
		interrupt_typed_ahead(t);
	}
	spin_unlock_irqrestore(&input_lock, flags);
}

void console_init(void)
{
	int err = uart_enable_input(boot_fdt);

	if (err && uart_present())
		printk("The console does not interrupt (error %d): its input is polled.\n", -err);
	polled = err;
}

/*
 * The console's input: a ring of received bytes that an interrupt fills and one thread
 * reads. Output is base/printk.c's.
 *
 * No input is lost silently. If a byte does not fit into the ring or into the UART, it
 * is counted, and the next byte of its line is marked. Of a line that does not fit into
 * the ring the end is kept, so that its reader goes on.
 */
#include "console.h"
#include "fdt.h"
#include "irq.h"
#include "print.h"
#include "thread.h"
#include "uart.h"

#define RING_SIZE 8192 /* a power of two */
#define POLL_NS 5000000
#define CTRL_C 3
/* One interrupt reads at most this many bytes; a reader or the next tick reads the rest. */
#define INPUT_BURST 1024

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
static struct thread *foreground; /* under input_lock */
static bool polled = true; /* received bytes raise no interrupt */
/* the last interrupt left bytes in the UART, which may raise no other interrupt */
static bool more;

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

/*
 * Free the places before @out. A lost end of a line gets one of them: it came after all that the
 * ring holds.
 */
static void take_until(u32 out)
{
	ring_out = out;
	if (end_lost)
		end_lost = !put_if_fits('\n' | INPUT_LOST, RING_SIZE);
}

/*
 * Ctrl-C also discards the bytes typed before it. While output is kept (framed.c) Ctrl-C is an
 * ordinary byte, into which the serial line may have changed another one.
 */
static void receive_byte(int c)
{
	if ((u8)c != CTRL_C || !foreground || console_is_kept()) {
		put_byte(c);
		return;
	}
	ring_out = ring_in;
	dropping = end_lost = false;
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

static void console_tick(void)
{
	if (unlikely(more))
		console_input();
}
TICK_HOOK(console_tick);

void console_report_loss(void)
{
	unsigned long flags = spin_lock_irqsave(&input_lock);
	unsigned long n = lost, times = overruns;

	lost = 0;
	overruns = 0;
	spin_unlock_irqrestore(&input_lock, flags);
	if (n)
		printk("\n%lu bytes of input were lost: they came faster than they were read.\n",
		       n);
	if (times)
		printk("\nThe UART overran %lu times: it lost bytes of input before they were "
		       "read.\n",
		       times);
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

	/* the end of the line may be lost: no report would come at its end */
	if (c < 0 && READ_ONCE(overruns))
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
	for (u32 at = ring_out; at != ring_in && !console_is_kept(); at++) {
		if ((u8)ring[at % RING_SIZE] == CTRL_C) {
			take_until(at + 1);
			thread_interrupt(t);
			return;
		}
	}
}

void console_set_foreground(struct thread *t)
{
	unsigned long flags = spin_lock_irqsave(&input_lock);

	foreground = t;
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

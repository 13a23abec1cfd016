/*
 * Printing: printk() and console_write(), in whole lines; and panic(). Output from before
 * the console is known is kept, and printed when printk_to() names it.
 */
#include "arch.h"
#include "breakpoint.h"
#include "lock.h"
#include "print.h"
#include "string.h"

#define EARLY_SIZE 8192
#define LINE_SIZE 1024

static struct spinlock output_lock;
static bool panic_mode;
static void (*write_out)(const char *s, size_t n); /* NULL: the console is not known yet */
static char early[EARLY_SIZE];
static size_t early_len;
static char *keep;                 /* under output_lock: a copy of the output goes here */
static size_t keep_len, keep_size; /* keep_len counts what did not fit, too */

static notrace void emit(const char *s, size_t n)
{
	if (keep) {
		if (keep_len < keep_size)
			memcpy(keep + keep_len, s, MIN(n, keep_size - keep_len));
		keep_len += n;
	}
	if (write_out) {
		write_out(s, n);
	} else {
		n = MIN(n, EARLY_SIZE - early_len);
		memcpy(early + early_len, s, n);
		early_len += n;
	}
}

static notrace unsigned long lock_output(void)
{
	unsigned long flags = local_irq_save();

	if (!panic_mode)
		spin_lock(&output_lock);
	return flags;
}

static notrace void unlock_output(unsigned long flags)
{
	if (!panic_mode)
		spin_unlock(&output_lock);
	local_irq_restore(flags);
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

bool console_is_kept(void)
{
	return READ_ONCE(keep);
}

void printk_to(void (*write)(const char *s, size_t n))
{
	unsigned long flags = lock_output();

	write_out = write;
	emit(early, early_len);
	early_len = 0;
	unlock_output(flags);
}

void panic(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	TABLE_FOR_EACH(const struct panic_hook, panic_hook, hook)
		hook->fn(fmt, args);
	va_end(args);
	irq_disable(); /* nothing that reports a panic is linked */
	for (;;)
		cpu_idle_wait();
}
NOKPROBE_SYMBOL(panic); /* in a panic no probe's handler may run */

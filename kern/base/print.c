/*
 * Formatted text: vsnprintf() and related functions; print.h lists the conversions.
 *
 * Nothing here touches a device: printk() lives in console.c.
 */
#include "print.h"

#include "errno.h"
#include "ksyms.h"
#include "string.h"

struct out {
	char *buf;
	size_t size, len; /* len counts on when the buffer is full */
};

static const char flag_letters[] = "-0+ #";
enum { MINUS = 1, ZERO = 2, PLUS = 4, SPACE = 8, ALT = 16 };

struct spec {
	int flags;
	bool upper;
	int width, precision; /* precision -1: none given */
	int bytes;	      /* size of the integer argument */
};

static void put(struct out *o, char c)
{
	if (o->len < o->size)
		o->buf[o->len] = c;
	o->len++;
}

static void put_many(struct out *o, char c, int n)
{
	while (n-- > 0)
		put(o, c);
}

static void put_text(struct out *o, const struct spec *s, const char *text, int len)
{
	if (!(s->flags & MINUS))
		put_many(o, ' ', s->width - len);
	for (int i = 0; i < len; i++)
		put(o, text[i]);
	if (s->flags & MINUS)
		put_many(o, ' ', s->width - len);
}

static int digits_of(char *end, u64 v, unsigned base, bool upper)
{
	const char *digits = upper ? "0123456789ABCDEF" : "0123456789abcdef";
	char *p = end;

	for (; v; v /= base)
		*--p = digits[v % base];
	return end - p;
}

static void put_number(struct out *o, const struct spec *s, u64 v, unsigned base, char sign)
{
	char digits[24], *end = digits + sizeof(digits);
	bool zero = v == 0;
	int n = digits_of(end, v, base, s->upper);
	int zeros = s->precision < 0 ? n == 0 : MAX(s->precision - n, 0);
	int prefix = sign != 0;

	if ((s->flags & ALT) && base == 8 && zeros == 0)
		zeros = 1;
	if ((s->flags & ALT) && base == 16 && !zero)
		prefix += 2;
	int pad = s->width - prefix - zeros - n;

	if ((s->flags & ZERO) && !(s->flags & MINUS) && s->precision < 0 && pad > 0) {
		zeros += pad;
		pad = 0;
	}
	if (!(s->flags & MINUS))
		put_many(o, ' ', pad);
	if (sign)
		put(o, sign);
	if ((s->flags & ALT) && base == 16 && !zero) {
		put(o, '0');
		put(o, s->upper ? 'X' : 'x');
	}
	put_many(o, '0', zeros);
	for (char *p = end - n; p < end; p++)
		put(o, *p);
	if (s->flags & MINUS)
		put_many(o, ' ', pad);
}

static void put_signed(struct out *o, const struct spec *s, s64 v)
{
	char sign = v < 0 ? '-' : (s->flags & PLUS) ? '+' : (s->flags & SPACE) ? ' ' : 0;

	put_number(o, s, v < 0 ? -(u64)v : (u64)v, 10, sign);
}

/*
 * %ps name, %pS name+offset/size, %pB the same for a return address, whose
 * call may be the function's last instruction. A module's symbol is followed by
 * " [module]", as on Linux.
 */
static void put_symbol(struct out *o, const struct spec *s, unsigned long addr, char kind)
{
	char text[192];
	unsigned long offset, size, back = kind == 'B';
	const char *name = ksym_lookup(addr - back, &offset, &size),
		   *module = ksym_module(addr - back);
	int n;

	if (!name)
		n = scnprintf(text, sizeof(text), "%#lx", addr);
	else if (kind == 's')
		n = scnprintf(text, sizeof(text), "%s", name);
	else
		n = scnprintf(text, sizeof(text), "%s+0x%lx/0x%lx", name, offset + back, size);
	if (name && module)
		n += scnprintf(text + n, sizeof(text) - n, " [%s]", module);
	put_text(o, s, text, n);
}

static const char *put_pointer(struct out *o, struct spec *s, unsigned long v, const char *fmt)
{
	if (*fmt == 's' || *fmt == 'S' || *fmt == 'B') {
		put_symbol(o, s, v, *fmt);
		return fmt + 1;
	}
	s->precision = 16;
	put_number(o, s, v, 16, 0);
	return fmt;
}

/* A width or a precision: digits, or an argument for '*'. */
static const char *parse_count(const char *fmt, int *n, va_list *args)
{
	if (*fmt == '*') {
		*n = va_arg(*args, int);
		return fmt + 1;
	}
	for (*n = 0; *fmt >= '0' && *fmt <= '9' && *n < 100000; fmt++)
		*n = *n * 10 + *fmt - '0';
	return fmt;
}

static const char *parse_length(const char *fmt, struct spec *s)
{
	s->bytes = sizeof(int);
	if (*fmt == 'z') {
		s->bytes = sizeof(long);
		return fmt + 1;
	}
	for (; *fmt == 'l'; fmt++)
		s->bytes = sizeof(long);
	for (; *fmt == 'h'; fmt++)
		s->bytes /= 2;
	return fmt;
}

/* An integer argument, truncated to the size of its length modifier. */
static u64 argument(va_list *args, const struct spec *s, bool is_signed)
{
	u64 v = s->bytes == 8 ? va_arg(*args, u64) : (u64)va_arg(*args, int);
	int unused = 64 - 8 * s->bytes;

	return is_signed ? (u64)((s64)(v << unused) >> unused) : v << unused >> unused;
}

static const char *parse_spec(const char *fmt, struct spec *s, va_list *args)
{
	const char *letter;

	*s = (struct spec){.precision = -1};
	for (; *fmt && (letter = strchr(flag_letters, *fmt)); fmt++)
		s->flags |= 1 << (letter - flag_letters);
	fmt = parse_count(fmt, &s->width, args);
	if (s->width < 0) {
		s->flags |= MINUS;
		s->width = -s->width;
	}
	if (*fmt == '.')
		fmt = parse_count(fmt + 1, &s->precision, args);
	return parse_length(fmt, s);
}

static void put_string(struct out *o, const struct spec *s, const char *text)
{
	if (!text)
		text = "(null)";
	put_text(o, s, text, strnlen(text, s->precision < 0 ? SIZE_MAX : s->precision));
}

/* Print one conversion. Return: the format after it. */
static const char *put_conversion(struct out *o, struct spec *s, const char *fmt, va_list *args)
{
	char c = *fmt++;

	switch (c) {
	case 'd':
	case 'i':
		put_signed(o, s, argument(args, s, true));
		return fmt;
	case 'u':
		s->flags &= ~ALT;
		put_number(o, s, argument(args, s, false), 10, 0);
		return fmt;
	case 'X':
		s->upper = true; /* fall through */
	case 'x':
		put_number(o, s, argument(args, s, false), 16, 0);
		return fmt;
	case 'o':
		put_number(o, s, argument(args, s, false), 8, 0);
		return fmt;
	case 'c':
		c = va_arg(*args, int);
		put_text(o, s, &c, 1);
		return fmt;
	case 's':
		put_string(o, s, va_arg(*args, const char *));
		return fmt;
	case 'p':
		return put_pointer(o, s, va_arg(*args, unsigned long), fmt);
	case '%':
		put(o, '%');
		return fmt;
	}
	put(o, '%'); /* unknown conversion: printed unchanged */
	return fmt - 1;
}

int vsnprintf(char *buf, size_t size, const char *fmt, va_list args)
{
	struct out o = {buf, size, 0};
	struct spec s;
	va_list ap;

	va_copy(ap, args);
	while (*fmt) {
		if (*fmt != '%') {
			put(&o, *fmt++);
			continue;
		}
		fmt = parse_spec(fmt + 1, &s, &ap);
		fmt = put_conversion(&o, &s, fmt, &ap);
	}
	va_end(ap);
	if (size)
		buf[MIN(o.len, size - 1)] = '\0';
	return o.len;
}

int snprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(buf, size, fmt, args);

	va_end(args);
	return n;
}

int scnprintf(char *buf, size_t size, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	int n = vsnprintf(buf, size, fmt, args);

	va_end(args);
	return size == 0 ? 0 : MIN(n, (int)size - 1);
}

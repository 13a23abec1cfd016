/*
 * The functions of app.h that use only other functions of app.h: printf, whole
 * files, numbers; and those functions of libgcc that only applications need.
 */
#include "app.h"

#define ENOMEM 12
#define ENOSPC 28

long read_file(const char *path, void **data)
{
	size_t size = 0, room = 4096;
	int fd = path ? open(path, O_RDONLY) : 0;
	char *buf = fd < 0 ? NULL : malloc(room), *more;
	long n = fd < 0 ? fd : -ENOMEM;

	while (buf && (n = read(fd, buf + size, room - size)) > 0) {
		size += n;
		if (size < room)
			continue;
		more = realloc(buf, room * 2);
		if (!more)
			free(buf);
		else
			room *= 2;
		buf = more;
		n = -ENOMEM;
	}
	if (fd > 0)
		close(fd);
	*data = buf;
	return n < 0 ? n : (long)size;
}

static long write_all(int fd, const char *data, size_t size)
{
	long n = 0;

	for (size_t at = 0; at < size; at += n) {
		n = write(fd, data + at, size - at);
		if (n <= 0)
			return n ? n : -ENOSPC;
	}
	return 0;
}

long write_file(const char *path, const void *data, size_t size)
{
	int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC) : 1;
	long err = fd < 0 ? fd : write_all(fd, data, size);

	if (path && fd >= 0) {
		int closed = close(fd);

		err = err ? err : closed;
	}
	return err;
}

int printf(const char *fmt, ...)
{
	char line[256], *text = line;
	va_list args, again;
	int n;

	va_start(args, fmt);
	va_copy(again, args);
	n = vsnprintf(line, sizeof(line), fmt, args);
	if (n >= (int)sizeof(line)) {
		text = malloc(n + 1);
		n = text ? vsnprintf(text, n + 1, fmt, again) : -ENOMEM;
	}
	va_end(again);
	va_end(args);
	if (n > 0)
		write(1, text, n);
	if (text != line)
		free(text);
	return n;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 'a' - 'A';
	return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 36;
}

static int number_base(const char *s, int base)
{
	if (base == 0 && s[0] == '0')
		return (s[1] | 0x20) == 'x' ? 16 : 8;
	return base ? base : 10;
}

unsigned long long strtoull(const char *s, char **end, int base)
{
	unsigned long long value = 0;
	bool overflow = false;

	while (*s == ' ' || *s == '\t')
		s++;
	base = number_base(s, base);
	if (base == 16 && s[0] == '0' && (s[1] | 0x20) == 'x' && digit(s[2]) < 16)
		s += 2;
	for (; digit(*s) < base; s++)
		overflow |= __builtin_mul_overflow(value, base, &value) ||
			    __builtin_add_overflow(value, digit(*s), &value);
	if (end)
		*end = (char *)s;
	return overflow ? ~0ull : value;
}

int __popcountdi2(uint64_t v);
uint32_t __bswapsi2(uint32_t v);
uint64_t __bswapdi2(uint64_t v);

int __popcountdi2(uint64_t v)
{
	int n = 0;

	for (; v; v &= v - 1)
		n++;
	return n;
}

uint32_t __bswapsi2(uint32_t v)
{
	v = (v & 0x00ff00ff) << 8 | (v >> 8 & 0x00ff00ff);
	return v << 16 | v >> 16;
}

uint64_t __bswapdi2(uint64_t v)
{
	return (uint64_t)__bswapsi2(v) << 32 | __bswapsi2(v >> 32);
}

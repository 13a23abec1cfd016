/*
 * The C library's string functions that the kernel needs, and the arithmetic
 * that GCC leaves to libgcc.
 *
 * The compiler may insert calls to these anywhere, also in a tracer's callback:
 * none has a call site.
 */
#include "string.h"

#include "errno.h"

#define WORD sizeof(u64)

notrace void *memcpy(void *d, const void *s, size_t n)
{
	u8 *to = d;
	const u8 *from = s;

	if ((((uintptr_t)to | (uintptr_t)from) & (WORD - 1)) == 0) {
		for (; n >= WORD; n -= WORD, to += WORD, from += WORD)
			*(u64 *)to = *(const u64 *)from;
	}
	while (n--)
		*to++ = *from++;
	return d;
}

notrace void *memmove(void *d, const void *s, size_t n)
{
	u8 *to = d;
	const u8 *from = s;

	if (to <= from || to >= from + n)
		return memcpy(d, s, n);
	while (n--)
		to[n] = from[n];
	return d;
}

notrace void *memset(void *d, int c, size_t n)
{
	u8 *to = d;
	u64 word = (u8)c * 0x0101010101010101ull;

	for (; n && ((uintptr_t)to & (WORD - 1)); n--)
		*to++ = c;
	for (; n >= 4 * WORD; n -= 4 * WORD, to += 4 * WORD) {
		((u64 *)to)[0] = word;
		((u64 *)to)[1] = word;
		((u64 *)to)[2] = word;
		((u64 *)to)[3] = word;
	}
	while (n--)
		*to++ = c;
	return d;
}

notrace int memcmp(const void *a, const void *b, size_t n)
{
	const u8 *p = a, *q = b;

	for (; n; n--, p++, q++)
		if (*p != *q)
			return *p - *q;
	return 0;
}

notrace void *memchr(const void *s, int c, size_t n)
{
	for (const u8 *p = s; n; n--, p++)
		if (*p == (u8)c)
			return (void *)p;
	return NULL;
}

notrace size_t strnlen(const char *s, size_t n)
{
	size_t len = 0;

	while (len < n && s[len])
		len++;
	return len;
}

notrace size_t strlen(const char *s)
{
	return strnlen(s, SIZE_MAX);
}

notrace int strncmp(const char *a, const char *b, size_t n)
{
	for (; n; n--, a++, b++)
		if (*a != *b || !*a)
			return (u8)*a - (u8)*b;
	return 0;
}

notrace int strcmp(const char *a, const char *b)
{
	return strncmp(a, b, SIZE_MAX);
}

notrace char *strchr(const char *s, int c)
{
	for (;; s++) {
		if (*s == (char)c)
			return (char *)s;
		if (!*s)
			return NULL;
	}
}

notrace size_t strlcpy(char *d, const char *s, size_t size)
{
	size_t len = strlen(s);

	if (size) {
		size_t n = MIN(len, size - 1);

		memcpy(d, s, n);
		d[n] = '\0';
	}
	return len;
}

static notrace int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'z' ? c - 'a' + 10 : 99;
}

notrace int kstrtou64(const char *s, int base, u64 *value)
{
	u64 v = 0;
	const char *start;

	if ((base == 0 || base == 16) && s[0] == '0' && (s[1] | 0x20) == 'x') {
		base = 16;
		s += 2;
	} else if (base == 0) {
		base = s[0] == '0' ? 8 : 10;
	}
	for (start = s; digit_value(*s) < base; s++)
		if (__builtin_mul_overflow(v, (u64)base, &v) ||
		    __builtin_add_overflow(v, (u64)digit_value(*s), &v))
			return -ERANGE;
	if (s == start || (*s == '\n' ? s[1] : *s))
		return -EINVAL;
	*value = v;
	return 0;
}

notrace int kstrtos64(const char *s, int base, s64 *value)
{
	bool minus = *s == '-';
	u64 v;
	int err = kstrtou64(s + (minus || *s == '+'), base, &v);

	if (err)
		return err;
	if (v > (u64)INT64_MAX + minus)
		return -ERANGE;
	*value = minus ? -v : v;
	return 0;
}

#ifndef HOST_TEST
notrace int __clzdi2(u64 v)
{
	int n = 0;

	for (int half = 32; half; half /= 2)
		if (!(v >> (64 - half))) {
			n += half;
			v <<= half;
		}
	return n;
}

notrace int __ctzdi2(u64 v)
{
	return 63 - __clzdi2(v & -v);
}
#endif
